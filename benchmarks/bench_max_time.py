"""How well `max_time` is kept: every method on more rows than there is time for."""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from common import OURS, SECOND, THIRD, criterion, parser, pictures, save_picture, say, write_json

METHODS = ("auto", "bkernn", "hkrr", "selection", "rkhs_weighting", "regfeal")
SIZES = ((4_000, 10), (20_000, 30), (100_000, 20))
LIMIT = 5.0  # seconds


def draw_data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw y = sin(1.5 x_1) + x_2 x_3 + noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)


def measure(args: argparse.Namespace, method: str, n: int, d: int, limit: float) -> dict[str, Any]:
    """Fit with a limit, in wall clock time, and score other rows."""
    import gpukfl

    X, y = draw_data(n + 1_000, d)
    begun = time.perf_counter()
    model = gpukfl.fit(
        X[:n], y[:n], method=method, max_time=limit, backend=args.backend, progress=False
    )
    seconds = time.perf_counter() - begun
    say(f"{method}, n = {n:,}, d = {d}: {seconds:.1f} s of {limit:g} s")
    score = model.score(X[n:], y[n:])
    ended, tried = model.estimator.status_, len(model.tuning)
    return {
        "method": method,
        "n": n,
        "d": d,
        "seconds": seconds,
        "r2": score,
        "status": ended,
        "settings_tried": tried,
    }


def judge(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    allowed = max(1.1 * LIMIT, LIMIT + 1.0)
    return [
        criterion(
            f"{method}: {LIMIT:g} s are exceeded by at most 10 % or one second",
            all(row["seconds"] <= allowed for row in rows if row["method"] == method),
            seconds=max(row["seconds"] for row in rows if row["method"] == method),
        )
        for method in METHODS
    ]


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    figure, ax = plt.subplots(figsize=(6.5, 3.2))
    sizes = sorted({(row["n"], row["d"]) for row in rows})
    for k, ((n, d), colour) in enumerate(zip(sizes, (OURS, SECOND, THIRD), strict=False)):
        mine = [row["seconds"] for row in rows if row["n"] == n]
        places = np.arange(len(mine)) + 0.27 * k
        ax.barh(places, mine, height=0.25, color=colour, label=f"{n:,} rows, {d} columns")
    ax.axvline(LIMIT, color="black", linewidth=1, linestyle="--", label="max_time")
    ax.set_yticks(np.arange(len(METHODS)) + 0.27, METHODS)
    ax.invert_yaxis()
    ax.set(xlabel="seconds for the fit")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, fontsize=8)
    save_picture(args, "bench_max_time", figure)


def main() -> None:
    args = parser(__doc__).parse_args()
    warnings.simplefilter("ignore")  # that time was reached
    sizes, limit = (((500, 3),), 0.2) if args.smoke else (SIZES, LIMIT)
    for method in METHODS:  # compiles
        measure(args, method, 200, 3, limit)
    rows = [measure(args, method, n, d, limit) for n, d in sizes for method in METHODS]
    result = {
        "settings": f"max_time = {limit:g}, everything else by default, with its search; after a "
        "small fit of each method has compiled; y = sin(1.5 x_1) + x_2 x_3 + noise of std 0.3, "
        "float64; R² on 1000 other rows",
        "rows": rows,
        "criteria": [] if args.smoke else judge(rows),
    }
    draw(args, write_json(args, "bench_max_time", result))


if __name__ == "__main__":
    main()
