"""Section 6.2 of Ruan et al. (kernel feature selection): hierarchical interactions."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from common import (
    OURS,
    PUBLISHED,
    SECOND,
    THIRD,
    criterion,
    parser,
    pictures,
    save_picture,
    say,
    write_json,
)
from selection_main_effects import (
    ALLOWED,
    RIDGE,
    along_path,
    best_allowed,
    curve,
    found_in,
    objective_of,
)

from gpukfl.core._places import Place, resolve_place
from gpukfl.kernels import ManhattanLaplace
from gpukfl.methods import DenseSelection, FeatureSelection, Selection, permutation_threshold

N = P = 1000
PAPER_GRID = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.2, 0.5, 1.0)
LARGER = (2.0, 5.0, 10.0, 20.0, 30.0, 50.0)  # ours: up to where nothing is found
LEVELS = ("x1", "x2", "x3")
WANTED = {"x1": 0.99, "x2": 0.95, "x3": 0.80}
# 1 / E|x - x'| of a standard normal variable: differences then count as 1 on average
ANCHOR = math.sqrt(math.pi) / 2.0
ANCHORS = (0.1, 0.4, ANCHOR, 1.3)
PERMUTATIONS, REPETITIONS, ANCHOR_DRAWS = 19, 30, 5
COLOURS = dict(zip(LEVELS, (OURS, SECOND, THIRD), strict=True))


def draw_data(n: int, p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw y = x1 + x1 x2 + x1 x2 x3 + N(0, 1), centred."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    first, second, third = X[:, 0], X[:, 0] * X[:, 1], X[:, 0] * X[:, 1] * X[:, 2]
    y = first + second + third + rng.standard_normal(n)
    return X, y - y.mean()


def entered_in(selection: Selection) -> list[int]:
    """Round in which each level entered, from 1; 0 for those that did not."""
    return [
        next((k for k, r in enumerate(selection.rounds, 1) if level in r.entered), 0)
        for level in range(len(LEVELS))
    ]


def described(selection: Selection) -> dict[str, Any]:
    return {
        **found_in(selection, len(LEVELS)),
        "entered": entered_in(selection),
        "rounds": len(selection.rounds),
        "thresholds": [r.sparsity for r in selection.rounds],
        "status": selection.status.name,
    }


def with_thresholds(objective: DenseSelection, anchor: float, seed: int) -> dict[str, Any]:
    """Algorithm 2', each round with a threshold from permutations of its own."""
    rng = np.random.RandomState(seed)
    begun = time.perf_counter()
    found = FeatureSelection(anchor=anchor).select_in_rounds(
        objective,
        lambda point, columns: permutation_threshold(
            objective, point, columns, n_permutations=PERMUTATIONS, rng=rng
        ),
    )
    return {**described(found), "seconds": time.perf_counter() - begun}


def with_fixed(objective: DenseSelection, grid: Sequence[float]) -> list[dict[str, Any]]:
    """Algorithm 2' as published: one γ for all rounds."""
    settings = FeatureSelection(anchor=ANCHOR)
    return [
        {"gamma": gamma, **described(settings.select_in_rounds(objective, lambda *_, g=gamma: g))}
        for gamma in sorted(grid, reverse=True)
    ]


def repetition(place: Place, n: int, p: int, seed: int, grid: Sequence[float]) -> dict[str, Any]:
    """Both algorithms on one draw."""
    objective = objective_of(place, ManhattanLaplace(), *draw_data(n, p, seed))
    begun = time.perf_counter()
    path = along_path(objective, grid, len(LEVELS))
    middle = time.perf_counter()
    fixed = with_fixed(objective, grid)
    seconds = {"Algorithm 1'": middle - begun, "Algorithm 2'": time.perf_counter() - middle}
    thresholds = with_thresholds(objective, ANCHOR, seed)
    return {"path": path, "fixed": fixed, "thresholds": thresholds, "seconds": seconds}


# ---------------------------------------------------------------------- the weight τ


def rank_of(objective: DenseSelection, level: int, anchor: float) -> int:
    """Rank of one level's score, from 1, where those before it are held at τ."""
    start = np.zeros(objective.n_variables)
    start[:level] = anchor
    others = np.arange(level, objective.n_variables)
    scores = -objective.gradient(objective.evaluate(start), others)
    return int(np.sum(scores >= scores[0]))


def anchor_rows(place: Place, n: int, p: int, draws: int) -> list[dict[str, Any]]:
    rows = []
    for anchor in ANCHORS:
        runs, ranks = [], []
        for seed in range(draws):
            objective = objective_of(place, ManhattanLaplace(), *draw_data(n, p, seed))
            ranks.append([rank_of(objective, level, anchor) for level in range(len(LEVELS))])
            runs.append({"gamma": None, **with_thresholds(objective, anchor, seed)})
        found = curve([[run] for run in runs], LEVELS)[0]
        rows.append({"anchor": anchor, "draws": draws, "ranks": ranks, **found})
        say(f"τ = {anchor:.3f}: ranks {ranks}, recovery {found['recovery']}")
    return rows


# ---------------------------------------------------------------------- summary and picture


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    thresholds = curve([[{"gamma": None, **run["thresholds"]}] for run in runs], LEVELS)[0]
    entered = np.array([run["thresholds"]["entered"] for run in runs])
    thresholds |= {
        "entered": entered,
        "rounds": [run["thresholds"]["rounds"] for run in runs],
        "thresholds": [run["thresholds"]["thresholds"] for run in runs],
        "statuses": [run["thresholds"]["status"] for run in runs],
        "seconds_mean": float(np.mean([run["thresholds"]["seconds"] for run in runs])),
    }
    found = {"thresholds": thresholds}
    for key, name in (("path", "Algorithm 1'"), ("fixed", "Algorithm 2'")):
        rows = curve([run[key] for run in runs], LEVELS)
        seconds = float(np.mean([run["seconds"][name] for run in runs]))
        allowed = best_allowed(rows, LEVELS)
        found[key] = {"curve": rows, "allowed": allowed, "seconds_mean": seconds}
    return found


def judge(thresholds: dict[str, Any]) -> list[dict[str, Any]]:
    few = thresholds["false_rate"] <= ALLOWED
    return [
        criterion(
            f"Algorithm 2' with thresholds finds {name} in at least {wanted:.0%} at a "
            f"false-positive rate of at most {ALLOWED:.0%}",
            few and thresholds["recovery"][name] >= wanted,
            share=thresholds["recovery"][name],
            false_rate=thresholds["false_rate"],
        )
        for name, wanted in WANTED.items()
    ]


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    count = len(result["thresholds"]["entered"])
    plt = pictures()
    figure, axes = plt.subplots(1, 3, figsize=(11.5, 3.9), width_ratios=(1, 1, 0.8))
    titles = "Algorithm 1'", "Algorithm 2', one γ for all rounds"
    for ax, key, title in zip(axes, ("path", "fixed"), titles, strict=False):
        _against_sparsity(ax, result[key]["curve"])
        ax.set_title(title)
    axes[0].set_ylabel(f"share of {count} data sets that find it")
    axes[0].legend(loc="center left")
    _draw_rounds(axes[2], result["thresholds"], count)
    save_picture(args, "selection_hierarchy", figure)


def _against_sparsity(ax: Any, rows: list[dict[str, Any]]) -> None:
    at = [row["gamma"] for row in rows]
    for name, colour in COLOURS.items():
        ax.plot(at, [row["recovery"][name] for row in rows], "-o", color=colour, label=name)
    ax.plot(at, [row["false_rate"] for row in rows], ":s", color=PUBLISHED,
            label="false variables")  # fmt: skip
    ax.set_xscale("symlog", linthresh=2e-3, linscale=0.4)
    ax.set_xticks([0, 0.01, 0.1, 1, 10], ["0", "0.01", "0.1", "1", "10"])
    ax.minorticks_off()
    ax.set(xlabel="γ", ylim=(-0.03, 1.05))


def _draw_rounds(ax: Any, thresholds: dict[str, Any], count: int) -> None:
    """Shares of draws in which each level entered in each round."""
    entered = np.asarray(thresholds["entered"])
    for k, name in enumerate(LEVELS):
        below = 0.0
        for number in range(1, int(entered.max()) + 1):
            share = float(np.mean(entered[:, k] == number))
            ax.bar(name, share, bottom=below, color=COLOURS[name], alpha=0.5, edgecolor="white")
            if share > 0.04:
                ax.text(k, below + share / 2, f"round {number}", ha="center", va="center")
            below += share
    false = thresholds["false_rate"]
    ax.set(ylim=(0, 1.05), title=f"Algorithm 2', permutations:\n{false:.2%} false columns")
    ax.set_ylabel(f"share of {count} data sets")
    ax.grid(visible=False, axis="x")


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--repetitions", type=int, default=REPETITIONS)
    args = line.parse_args()
    n, p, grid, repetitions, draws = N, P, PAPER_GRID + LARGER, args.repetitions, ANCHOR_DRAWS
    if args.smoke:
        n, p, grid, repetitions, draws = 100, 30, (0.05, 2.0), 2, 1
    place = resolve_place(args.backend, np.empty(0), dtype="float64", work=n * p)
    runs = []
    for seed in range(repetitions):
        runs.append(repetition(place, n, p, seed, grid))
        say(f"draw {seed}: with thresholds, entered in rounds {runs[-1]['thresholds']['entered']}")
    result = summary(runs)
    for key in ("path", "fixed"):
        say(f"{key}, allowed false positives: {result[key]['allowed']}")
    result = {
        "settings": f"y = x1 + x1 x2 + x1 x2 x3 + N(0, 1), n = {n}, p = {p}, λ = {RIDGE:g}, "
        f"{repetitions} draws, kernel exp(-|x - z|₁); γ of the paper and, ours, "
        f"{', '.join(f'{g:g}' for g in LARGER)}; Algorithm 1' along a path from the largest γ; "
        f"Algorithm 2' with τ = {ANCHOR:.3f} = 1 / E|x - x'|, once with one γ for all rounds and "
        f"once with the largest score over {PERMUTATIONS} permutations, drawn for each round, as γ",
        **result,
        "anchors": anchor_rows(place, n, p, draws),
        "criteria": [] if args.smoke else judge(result["thresholds"]),
    }
    draw(args, write_json(args, "selection_hierarchy", result))


if __name__ == "__main__":
    main()
