"""What the portfolio must reach, judged from the rows of its benchmark."""

from __future__ import annotations

from typing import Any

import numpy as np
from common import criterion
from samples import OPENML

PORTFOLIO = "portfolio"
SINGLE = ("BKerNN", "HKRR", "KernelRidge", "Weighting", "RegFeaL")
COVERAGE = 0.9
NEEDED = 0.780  # mean R² over the 17 sets
BELOW = 0.02  # the best of our single methods, on any set
NEAR, OFTEN = 0.005, 10  # the first of all models, on so many sets
RMSE = {"kin8nm": 0.062, "power-plant": 3.05}
ACCURACY = {"adults": 0.870, "digits": 0.985, "breast cancer": 0.975}
LOG_LOSS_SETS = 3  # of the four, on which the log loss is at most CatBoost's
WITHIN = 0.015  # of the coverage

Rows = list[dict[str, Any]]


def scores_by_set(rows: Rows, key: str) -> dict[str, dict[str, float]]:
    """Give the mean of a number by set and model."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        found.setdefault(row["set"], {}).setdefault(row["model"], []).append(row[key])
    return {
        name: {model: float(np.mean(values)) for model, values in models.items()}
        for name, models in found.items()
    }


def judge_sets(rows: Rows) -> list[dict[str, Any]]:
    """Judge by the next rows; and beside other models, of which all rows say more, by all."""
    table = scores_by_set(rows, "r2")
    if not all(PORTFOLIO in row for row in table.values()):
        return []
    whole = len(table) == len(OPENML)
    mean = float(np.mean([row[PORTFOLIO] for row in table.values()]))
    text = f"mean R² over the 17 sets at least {NEEDED}"
    judged = [criterion(text, mean >= NEEDED if whole else None, mean=mean)]
    every = scores_by_set(rows, "r2_of_all")
    return [*judged, *_beside_others(table), *_beside_others(every, ", of all other rows")]


def _beside_others(table: dict[str, dict[str, float]], of: str = "") -> list[dict[str, Any]]:
    mine = {name: row[PORTFOLIO] for name, row in table.items()}
    single = {
        name: max((row[m] for m in SINGLE if m in row), default=None) for name, row in table.items()
    }
    judged = []
    if None not in single.values():
        gaps = {name: mine[name] - single[name] for name in mine}
        worst = min(gaps, key=gaps.__getitem__)
        text = f"on no set more than {BELOW} below the best of our single methods{of}"
        judged.append(criterion(text, gaps[worst] >= -BELOW, worst=worst, gap=gaps[worst]))
    first = sum(mine[name] >= max(row.values()) - NEAR for name, row in table.items())
    text = f"first, or within {NEAR} of the first, on at least {OFTEN} of the 17 sets{of}"
    whole = len(table) == len(OPENML)
    return [*judged, criterion(text, first >= OFTEN if whole else None, sets=first)]


def judge_uci(rows: Rows) -> list[dict[str, Any]]:
    whole = {row["number"] for row in rows} == set(range(5))
    return [
        criterion(
            f"{name}: mean RMSE of splits 0 to 4 at most {RMSE[name]}",
            models[PORTFOLIO] <= RMSE[name] if whole else None,
            rmse=models[PORTFOLIO],
        )
        for name, models in scores_by_set(rows, "rmse").items()
        if PORTFOLIO in models
    ]


def judge_classes(rows: Rows) -> list[dict[str, Any]]:
    judged = []
    accuracy, loss = scores_by_set(rows, "accuracy"), scores_by_set(rows, "log_loss")
    for name, needed in ACCURACY.items():
        if PORTFOLIO in accuracy.get(name, {}):
            mine = accuracy[name][PORTFOLIO]
            text = f"{name}: accuracy at least {needed}"
            judged.append(criterion(text, mine >= needed, accuracy=mine))
    if all({PORTFOLIO, "CatBoost"} <= set(row) for row in loss.values()):
        better = sum(row[PORTFOLIO] <= row["CatBoost"] for row in loss.values())
        text = f"log loss at most CatBoost's on {LOG_LOSS_SETS} of the four sets"
        whole = len(loss) == 4
        judged.append(criterion(text, better >= LOG_LOSS_SETS if whole else None, sets=better))
    return judged


def judge_intervals(rows: Rows) -> list[dict[str, Any]]:
    coverage, width = scores_by_set(rows, "coverage"), scores_by_set(rows, "width")
    if not all(PORTFOLIO in row for row in coverage.values()):
        return []
    mean = float(np.mean([row[PORTFOLIO] for row in coverage.values()]))
    whole = len(coverage) == len(OPENML)
    text = f"coverage {COVERAGE} within {WITHIN} over all sets together"
    held = abs(mean - COVERAGE) <= WITHIN if whole else None
    judged = [criterion(text, held, coverage=mean)]
    if all("LightGBM" in row for row in width.values()):
        both = {
            model: float(np.mean([row[model] for row in width.values()]))
            for model in (PORTFOLIO, "LightGBM")
        }
        text = "mean width at most that of LightGBM's conformalised quantiles"
        judged.append(criterion(text, both[PORTFOLIO] <= both["LightGBM"], **both))
    return judged
