"""Figure 1(a) of Huang et al. (HKRR): training loss against time from random starting maps."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
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

from gpukfl.core._array import Array
from gpukfl.core._places import Place, resolve_place
from gpukfl.core._results import Status
from gpukfl.kernels import Gaussian, median_distance
from gpukfl.methods import HKRRFit, HyperKernelObjective, fit_hkrr
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import LBFGS, AlternatingGradient, VariableProjection

N, D, K, CENTERS, RIDGE, NOISE = 300, 300, 2, 5, 1e-7, 0.1
STARTS, SECONDS = tuple(range(8)), 4.0  # starts of each kind
SAME = 0.02  # share of the loss within which two ends are one
METHODS: dict[str, tuple[type, str]] = {
    "VarPro": (VariableProjection, SECOND),
    "AGD": (AlternatingGradient, OURS),
    "L-BFGS": (LBFGS, THIRD),
}


def draw_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dataset 1 (eq. (51)) for the map that picks the first two coordinates."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (N, D))
    z = np.sin(1.5 * np.pi * X[:, 0]) + np.sin(2.0 * np.pi * X[:, 1])
    return X, z + NOISE * z.std() * rng.standard_normal(N)


def random_map(k: int, d: int, rng: np.random.Generator, *, entries: str = "normal") -> np.ndarray:
    """Random entries, divided by the spectral norm.

    Entries uniform on [0, 1], as the paper draws its true maps, give rows that are nearly
    parallel: the centres' kernel matrix is then nearly singular and the coefficients are large.
    """
    B = rng.standard_normal((k, d)) if entries == "normal" else rng.uniform(0.0, 1.0, (k, d))
    return B / np.linalg.norm(B, 2)


def problem(
    place: Place, X: np.ndarray, y: np.ndarray, Z: np.ndarray, ridge: float
) -> HyperKernelObjective:
    """Objective with the Gaussian kernel at lengthscale 1."""
    rows = Rows(place.put(X), place.reference)
    targets = place.put(y[:, None])
    return HyperKernelObjective(Gaussian(), rows, place.put(Z), targets, ridge=ridge)


def descend(
    method: str,
    objective: HyperKernelObjective,
    B: Array,
    lengthscale: float,
    seconds: float,
    *,
    clock: Callable[[], float] = time.perf_counter,
) -> HKRRFit:
    """Minimise at a fixed lengthscale until the time is over or nothing is gained."""
    end = clock() + seconds
    return fit_hkrr(
        objective,
        B,
        lengthscale=lengthscale,
        learn_lengthscale=False,
        optimizer=METHODS[method][0](max_iter=10**6, tol=0.0),
        watch=lambda *_: Status.TIME_LIMIT if clock() >= end else None,
    )


def thinned(seconds: list[float], loss: list[float], count: int = 150) -> dict[str, list[float]]:
    """Keep the steps nearest to times that are equally spaced in their logarithm."""
    times = np.geomspace(max(seconds[1], 1e-4), seconds[-1], count) if len(seconds) > 1 else []
    at = np.unique([0, *np.searchsorted(seconds, times).clip(max=len(loss) - 1), len(loss) - 1])
    return {"seconds": [seconds[k] for k in at], "loss": [loss[k] for k in at]}


def run_one(place: Place, entries: str, start: int, max_time: float) -> dict[str, Any]:
    """All methods from one map."""
    X, y = draw_data()
    rng = np.random.default_rng(100 + start)
    B = random_map(K, D, rng, entries=entries)
    Z = X[rng.choice(N, CENTERS, replace=False)]
    lengthscale = median_distance(X @ B.T)
    row: dict[str, Any] = {"entries": entries, "start": start, "lengthscale": lengthscale}
    for method in METHODS:
        objective = problem(place, X, y, Z, RIDGE)
        first = objective.reduce(place.put(B / lengthscale))[0]
        found = descend(method, objective, place.put(B), lengthscale, max_time)
        history, C, xp = found.history, found.B / found.lengthscale, place.xp
        seconds, loss = [0.0, *history.seconds], [first, *history.objective]
        below = np.flatnonzero(np.asarray(loss) <= (1.0 + SAME) * found.value)
        row[method] = {
            "loss": found.value,
            "iterations": len(history),
            "seconds": seconds[-1],
            "seconds_to_the_end_loss": seconds[int(below[0])],
            "largest_coefficient": float(xp.max(xp.abs(objective.minimize_alpha(C)))),
            "status": found.status.name,
            "last_step": history.step[-1],
            "gradient_norms": [history.residual[0], history.residual[-1]],
            "curve": thinned(seconds, loss),
        }
    row["outcome"] = outcome(row["VarPro"], row["AGD"])
    shown = ", ".join(f"{name} {row[name]['loss']:.4g}" for name in METHODS)
    say(f"{entries} start {start}: {shown}: {row['outcome']}")
    return row


def outcome(varpro: dict[str, Any], agd: dict[str, Any]) -> str:
    """Say which ended lower, or which was sooner where they end alike."""
    if varpro["loss"] > (1.0 + SAME) * agd["loss"]:
        return "AGD lower"
    if agd["loss"] > (1.0 + SAME) * varpro["loss"]:
        return "VarPro lower"
    sooner = varpro["seconds_to_the_end_loss"] < agd["seconds_to_the_end_loss"]
    return "same loss, VarPro sooner" if sooner else "same loss, AGD sooner"


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    count = {
        name: sum(row["outcome"] == name for row in rows)
        for name in ("same loss, VarPro sooner", "AGD lower", "VarPro lower")
    }
    of = len(rows)
    return [
        criterion(
            "from some start VarPro and AGD end at the same loss, VarPro sooner",
            count["same loss, VarPro sooner"] > 0,
            starts=count["same loss, VarPro sooner"],
            of=of,
        ),
        criterion(
            "from some start AGD ends lower than VarPro",
            count["AGD lower"] > 0,
            starts=count["AGD lower"],
            of=of,
            varpro_lower=count["VarPro lower"],
        ),
    ]


def shown_starts(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One start of each of the paper's outcomes, or the first ones."""

    def gap(row: dict[str, Any]) -> float:
        return row["VarPro"]["loss"] / row["AGD"]["loss"]

    same = [row for row in rows if row["outcome"].startswith("same loss, VarPro")]
    lower = sorted((row for row in rows if row["outcome"] == "AGD lower"), key=gap)[-1:]
    chosen = same[:1] + lower
    return chosen + [row for row in rows if row not in chosen][: 2 - len(chosen)]


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    figure, axes = plt.subplots(1, 2, figsize=(8.6, 3.6))
    for ax, row in zip(axes, shown_starts(rows), strict=False):
        for name, (_, colour) in METHODS.items():
            curve = row[name]["curve"]
            ax.plot(np.maximum(curve["seconds"], 1e-3), curve["loss"], color=colour, label=name)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("seconds")
        ax.set_title(f"start {row['start']} ({row['entries']}): {row['outcome']}")
    axes[0].set_ylabel("training loss")
    axes[0].legend()
    save_picture(args, "hkrr_figure1", figure)


def main() -> None:
    line = parser(__doc__)
    line.add_argument("--seconds", type=float, default=SECONDS, help="for each descent")
    args = line.parse_args()
    place = resolve_place(args.backend, np.empty(0), dtype="float64", work=N * CENTERS)
    seconds = 0.05 if args.smoke else args.seconds
    starts = STARTS[:1] if args.smoke else STARTS
    rows = [run_one(place, kind, k, seconds) for kind in ("normal", "uniform") for k in starts]
    outcomes = [row["outcome"] for row in rows]
    result = {
        "settings": f"Dataset 1 with D = {D}, d = {K}, the map picks the first two coordinates; "
        f"n = {N}, {CENTERS} uniform centres, ridge {RIDGE:.0e} (the paper states none), Gaussian "
        f"kernel with the median heuristic at the start; {len(starts)} starts with normal entries "
        f"and {len(starts)} with uniform ones, {seconds:g} s each; "
        f"losses within {SAME:.0%} are the same",
        "outcomes": {name: outcomes.count(name) for name in sorted(set(outcomes))},
        "rows": rows,
        "criteria": [] if args.smoke else judge(rows),
    }
    say(f"outcomes: {result['outcomes']}")
    draw(args, write_json(args, "hkrr_figure1", result))


if __name__ == "__main__":
    main()
