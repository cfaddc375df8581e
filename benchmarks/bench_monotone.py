"""Blends that rise or fall with columns, beside free ones: errors, intervals, processor time.

Truths are monotone in their columns, or taken to be. Pairs of rows differ in these columns alone:
they are random, near each other, or outside the data. None may be out of order.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from common import ROOT, parser, say, write_json

import gpukfl

TABLES = ROOT.parent / "shared" / "data" / "tables"
REAL = {
    "mpg": ("mpg", {"weight": -1, "horsepower": -1, "displacement": -1}, ["name"]),
    "california_housing": (
        "median_house_value",
        {"median_income": 1, "housing_median_age": 1, "total_rooms": 1},
        [],
    ),
}
COVERAGE, TRAINING, TEST, PAIRS = 0.8, 300, 200, 60
WITHIN = 0.02  # of the free blend's error


@dataclass(frozen=True)
class Task:
    """A table, the target, and the signs of up to three columns."""

    name: str
    X: pd.DataFrame
    y: np.ndarray
    signs: dict[str, int]


def draw(n: int, seed: int) -> Task:
    """Draw rows of a function that is monotone in three of six columns."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 6))
    mean = np.exp(X[:, 0]) * (1.2 + X[:, 3]) - 2 * np.tanh(3 * X[:, 1] + X[:, 4]) + X[:, 2]
    y = mean + np.sin(4 * X[:, 5]) + 0.5 * rng.standard_normal(n)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(6)])
    return Task("drawn", frame, y, {"x0": 1, "x1": -1, "x2": 1})


def make_tasks(args: argparse.Namespace, seed: int) -> Iterator[Task]:
    yield draw(80 if args.smoke else TRAINING + TEST, seed)
    folder = TABLES if args.data is None else args.data / "tables"
    if args.smoke or not folder.exists():
        return
    for name, (target, signs, left) in REAL.items():
        table = pd.read_csv(folder / f"{name}.csv").drop(columns=left).dropna(subset=[target])
        table = table.sample(min(TRAINING + TEST, len(table)), random_state=seed)
        yield Task(name, table.drop(columns=target), table[target].to_numpy(float), signs)


def make_pairs(X: pd.DataFrame, signs: dict[str, int], rng: Any) -> list[pd.DataFrame]:
    """Return rows, and rows that should have no lower predictions."""
    low = X.copy()
    for name in signs:
        spread = float(X[name].max() - X[name].min())
        low[name] = X[name].astype(float) + 0.3 * spread * rng.standard_normal(len(X))
    high = low.copy()
    for name, sign in signs.items():
        spread = float(X[name].max() - X[name].min())
        step = rng.choice([0.0, 1e-15, 1e-6, 1e-2, 1.0], len(X)) * rng.uniform(size=len(X))
        high[name] = low[name] + sign * spread * step
    return [low, high]


def timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    begun = time.process_time()
    return ask(), time.process_time() - begun


def measure(task: Task, count: int, args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Fit a blend with `count` monotone columns, 0 for a free one, and measure it."""
    rng = np.random.default_rng(seed)
    order, cut = rng.permutation(len(task.y)), len(task.y) * 3 // 5
    inside, outside = order[:cut], order[cut:]
    signs = dict(list(task.signs.items())[:count])
    given = {"members": ["linear", "trees"]} if args.smoke else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model, fitted = timed(
            lambda: gpukfl.fit(
                *(task.X.iloc[inside], task.y[inside]),
                **given,
                effort="quick",
                monotone=signs or None,
            )
        )
        test, truth = task.X.iloc[outside], task.y[outside]
        predicted, seconds = timed(lambda: np.asarray(model.predict(test)))
        ends = np.asarray(model.predict_interval(test, coverage=COVERAGE))
        low, high = make_pairs(test[:PAIRS], signs or task.signs, rng)
        wrong = int(np.sum(np.asarray(model.predict(high)) < np.asarray(model.predict(low))))
        wrong_ends = 0
        if signs:
            below, above = (
                np.asarray(model.predict_interval(X, coverage=COVERAGE)) for X in (low, high)
            )
            wrong_ends = int(np.sum(above < below))
    return {
        "task": task.name,
        "seed": seed,
        "columns": count,
        "rmse": float(np.sqrt(np.mean((predicted - truth) ** 2))),
        "fit_seconds": fitted,
        "predict_seconds": seconds,
        "coverage": float(np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))),
        "width": float(np.mean(ends[:, 1] - ends[:, 0])),
        "pairs": len(low),
        "pairs_out_of_order": wrong,
        "ends_out_of_order": wrong_ends,
    }


def summarise(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Compare blends with monotone columns with the free ones of the same task and seed."""
    free = {(one["task"], one["seed"]): one for one in rows if not one["columns"]}
    found = []
    for task, count in dict.fromkeys((one["task"], one["columns"]) for one in rows):
        own = [one for one in rows if (one["task"], one["columns"]) == (task, count)]
        beside = [free[task, one["seed"]] for one in own]

        def ratio(key: str, own: Any = own, beside: Any = beside) -> float:
            logs = [np.log(a[key] / b[key]) for a, b in zip(own, beside, strict=True)]
            return float(np.exp(np.mean(logs)))

        found.append(
            {
                "task": task,
                "columns": count,
                "error_ratio": ratio("rmse"),
                "predict_ratio": ratio("predict_seconds"),
                "fit_ratio": ratio("fit_seconds"),
                "coverage": float(np.mean([one["coverage"] for one in own])),
                "width_ratio": ratio("width"),
                "pairs_out_of_order": sum(one["pairs_out_of_order"] for one in own),
                "ends_out_of_order": sum(one["ends_out_of_order"] for one in own),
                "within": ratio("rmse") <= 1.0 + WITHIN,
            }
        )
    return found


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--draws", type=int, default=3, help="samples of each task (default: 3)")
    args = line.parse_args()
    rows = []
    for seed in range(1 if args.smoke else args.draws):
        for task in make_tasks(args, seed):
            for count in range(2 if args.smoke else 4):
                rows.append(measure(task, count, args, seed))
                say(str(rows[-1]))
    summary = summarise(rows)
    for one in summary:
        say(str(one))
    write_json(args, "bench_monotone", {"summary": summary, "rows": rows})


if __name__ == "__main__":
    main()
