"""Figure 1 of Dubé and Marchand (RKHS weightings): four learners against T."""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import (
    OURS,
    SECOND,
    THIRD,
    criterion,
    parser,
    pictures,
    save_picture,
    say,
    write_json,
)
from weightings import (
    BATCH,
    LAMBDAS,
    RADIUS,
    Cell,
    descended,
    descent_lambda,
    digits,
    on_rows,
    operator_of,
    predictions,
    problem_of,
    published_folds,
    wrong,
)

from gpukfl.instantiations import GaussianSign

CONSTANT, SEEDS = 0.5, 10
FIRST, LAST, POINTS = 100, 4000, 10
SMOKE_ROWS = 200
# Learner: colour, marker
LEARNERS: dict[str, tuple[str, str, str]] = {
    "least squares": ("least_squares", OURS, "o"),
    "Lasso": ("lasso", "black", "s"),
    "optimal step": ("optimal_step", SECOND, "^"),
    "SFGD": ("sfgd", THIRD, "v"),
}
DIRECT, DESCENTS = ("least squares", "Lasso"), ("optimal step", "SFGD")

Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def counts(largest: int, points: int = POINTS) -> list[int]:
    """Give the published values of T up to the largest."""
    every = np.geomspace(FIRST, LAST, points).astype(int).tolist()
    return [count for count in every if count <= largest]


def measure(args: argparse.Namespace, parts: Parts, count: int, seed: int) -> dict[str, Any]:
    """All learners on the same parameters: λ from the folds, and one fit that is timed."""
    lambdas = LAMBDAS[::2] if args.smoke else LAMBDAS
    problem = problem_of(args.backend, *parts[:2], seed)
    operator = operator_of(problem, GaussianSign(constant=CONSTANT), count)
    test, y_test = on_rows(operator, parts[2]), parts[3]
    cell = Cell.of(problem, operator, published_folds(problem.n))
    found = {}
    for name, (learner, _, _) in LEARNERS.items():
        begun = time.perf_counter()
        if name in DIRECT:
            best = cell.validated(learner, lambdas)
            value, search = best.value, time.perf_counter() - begun
            A, seconds = best.fit(learner)
        else:
            value = descent_lambda(problem, operator, learner, lambdas=lambdas)
            search, begun = time.perf_counter() - begun, time.perf_counter()
            A = descended(problem, operator, learner, [value])
            seconds = time.perf_counter() - begun
        found[name] = {
            "lambda": value,
            "test_01": wrong(predictions(test, A)[:, 0], y_test),
            "seconds": seconds,
            "search_s": search,
        }
    return found


def summary(runs: list[list[dict[str, Any]]], values: list[int]) -> dict[str, Any]:
    """Mean errors and median seconds against T; `runs` holds one list along T for each seed."""
    found = {}
    for name in LEARNERS:
        curve: dict[str, Any] = {"T": values}
        for key in ("test_01", "seconds", "search_s"):
            table = np.array([[cell[name][key] for cell in run] for run in runs])
            curve[key] = table.mean(axis=0) if key == "test_01" else np.median(table, axis=0)
            curve[f"{key}_std"] = table.std(axis=0, ddof=1) if len(runs) > 1 else None
        curve["lambdas"] = [[run[k][name]["lambda"] for run in runs] for k in range(len(values))]
        found[name] = curve
    return found


def judge(curves: dict[str, Any]) -> list[dict[str, Any]]:
    values = curves["SFGD"]["T"]

    def where(holds: np.ndarray) -> str:
        return ", ".join(str(T) for T, h in zip(values, holds, strict=True) if not h) or "none"

    direct = np.maximum(*(curves[name]["test_01"] for name in DIRECT))
    optimal, sfgd = (curves[name]["test_01"] for name in DESCENTS)
    better, faster = direct < np.minimum(optimal, sfgd), optimal < sfgd
    others = np.min([curves[name]["seconds"] for name in LEARNERS if name != "least squares"], 0)
    quickest = curves["least squares"]["seconds"] < others
    return [
        criterion("least squares and the Lasso are more accurate than both descents at every T",
                  bool(better.all()), fails_at=where(better)),
        criterion("the optimal step is more accurate than SFGD at every T",
                  bool(faster.all()), fails_at=where(faster)),
        criterion("least squares is the fastest at every T", bool(quickest.all()),
                  fails_at=where(quickest)),
    ]  # fmt: skip


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    curves, seeds = result["curves"], result["seeds"]
    plt = pictures()
    figure, axes = plt.subplots(1, 2, figsize=(9.4, 3.9))
    for name, (_, colour, marker) in LEARNERS.items():
        curve = curves[name]
        for ax, key in zip(axes, ("test_01", "seconds"), strict=True):
            ax.plot(curve["T"], curve[key], "-" + marker, color=colour, label=name)
            if curve[f"{key}_std"] is not None and key == "test_01":
                low, high = (np.add(curve[key], s * np.array(curve[f"{key}_std"])) for s in (-1, 1))
                ax.fill_between(curve["T"], np.maximum(low, 1e-4), high, color=colour, alpha=0.15,
                                linewidth=0)  # fmt: skip
    ticks = [T for T in (100, 200, 500, 1000, 2000, 4000) if max(curves["SFGD"]["T"]) >= T]
    for ax in axes:
        ax.set(xscale="log", yscale="log", xlabel="parameters T")
        ax.set_xticks(ticks, [str(T) for T in ticks])
        ax.minorticks_off()
    errors = [v for v in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)]
    low, high = axes[0].get_ylim()
    shown = [v for v in errors if low <= v <= high]
    axes[0].set_yticks(shown, [f"{v:g}" for v in shown])
    axes[0].set(
        ylabel="share of test rows wrong", title=f"mean and standard deviation of {seeds} seeds"
    )
    axes[1].set(ylabel="seconds", title="one fit, λ known")
    handles = axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=len(LEARNERS))
    save_picture(args, "weighting_figure1", figure)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--seeds", type=int, default=SEEDS, help=f"default: {SEEDS}")
    line.add_argument("--largest", type=int, default=LAST, help=f"largest T, default: {LAST}")
    args = line.parse_args()
    *parts, source = digits(args)
    values, seeds = counts(args.largest), args.seeds
    if args.smoke:
        values, seeds = [20, 40], 2
        parts = [part[:SMOKE_ROWS] for part in parts]
    runs = []
    measure(args, tuple(parts), values[0], 0)  # compiles
    for seed in range(seeds):
        begun = time.perf_counter()
        runs.append([measure(args, tuple(parts), count, seed) for count in values])
        last = {name: round(cell["test_01"], 4) for name, cell in runs[-1][-1].items()}
        say(f"seed {seed} ({time.perf_counter() - begun:.0f} s): T = {values[-1]}: {last}")
    curves = summary(runs, values)
    result = {
        "settings": f"{source}: {len(parts[1])} training and {len(parts[3])} test rows, because "
        f"the paper's 13007 training digits are not at hand; I1 with σ = 1, c = {CONSTANT} (the "
        f"bound on θ); {seeds} seeds, the same parameters for all learners of a seed; λ in "
        "{1e-7, ..., 1e-3} by the squared errors on the authors' 5 folds; batches of "
        f"{BATCH}, B = {RADIUS:g}. Median seconds of one fit with λ known: of the first two the "
        "pass over the rows, which sums for five folds, and the solution",
        "seeds": seeds,
        "curves": curves,
        "criteria": [] if args.smoke else judge(curves),
    }
    draw(args, write_json(args, "weighting_figure1", result))


if __name__ == "__main__":
    main()
