"""Factorisations of large matrices: over our threads, over those of the BLAS, and in one thread.

Alone, and beside a process for every core but one that never waits.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from bench_threads import busy
from common import OURS, SECOND, criterion, parser, pictures, save_picture, say, write_json
from threadpoolctl import threadpool_limits

SIZES = (1_100, 2_000, 4_000)
OUR_THREADS, OF_BLAS, ONE = "our threads", "threads of the BLAS", "one thread"
ROUNDS, SHORT = 3, 0.3  # seconds of a round
ALLOWED = 1.2  # times what one thread takes, where other processes have the other cores


def tasks(n: int) -> dict[str, Callable[[], Any]]:
    """Give what is timed, on matrices that are made once."""
    from gpukfl.kernels import Matern32
    from gpukfl.linalg import CholeskyFactor
    from gpukfl.methods import ExactCriterion

    rng = np.random.default_rng(0)
    B = rng.standard_normal((n, n))
    A = B @ B.T + n * np.eye(n)
    factor = CholeskyFactor.factor(A)
    X, y = rng.standard_normal((n, 10)), rng.standard_normal((n, 1))
    evidence = ExactCriterion(Matern32(1.0), X, y - y.mean())
    return {
        "Cholesky factor": lambda: CholeskyFactor.factor(A),
        "whitened matrix": lambda: factor.whiten(A),
        "inverse": factor.inverse,
        "triangular solve": lambda: factor.solve_upper(A),
        "evidence, gradient": lambda: evidence(np.full(10, 0.3), 0.1),
    }


@contextlib.contextmanager
def threads(how: str, count: int) -> Iterator[None]:
    """Set the number of our threads, and of the BLAS's."""
    ours, blas = {OUR_THREADS: (count, 1), OF_BLAS: (1, count), ONE: (1, 1)}[how]
    before = os.environ.get("GPUKFL_NUM_THREADS")
    os.environ["GPUKFL_NUM_THREADS"] = str(ours)
    try:
        with threadpool_limits(blas, user_api="blas"):
            yield
    finally:
        del os.environ["GPUKFL_NUM_THREADS"]
        if before is not None:
            os.environ["GPUKFL_NUM_THREADS"] = before


def quickest(call: Callable[[], Any], short: float) -> float:
    """Seconds of the quickest call, of those within so many."""
    found: list[float] = []
    while not found or sum(found) < short:
        begun = time.perf_counter()
        call()
        found.append(time.perf_counter() - begun)
    return min(found)


def measure(sizes: tuple[int, ...], count: int, short: float) -> list[dict[str, Any]]:
    """Best of the rounds; in each all take turns, so that drift hits them alike."""
    best: dict[tuple[Any, ...], float] = {}
    for n in sizes:
        timed = tasks(n)
        for _, beside in itertools.product(range(ROUNDS), (0, count - 1)):
            with busy(beside):
                for (task, call), how in itertools.product(
                    timed.items(), (OUR_THREADS, OF_BLAS, ONE)
                ):
                    with threads(how, count):
                        seconds = quickest(call, short)
                    key = task, n, beside, how
                    best[key] = min(seconds, best.get(key, seconds))
    rows = []
    for task, n, beside in dict.fromkeys(key[:3] for key in best):
        found = {how: best[task, n, beside, how] for how in (OUR_THREADS, OF_BLAS, ONE)}
        rows.append({"task": task, "n": n, "beside": beside, "seconds": found})
        shown = ", ".join(f"{how} {1e3 * seconds:.1f} ms" for how, seconds in found.items())
        say(f"{task:<20} n = {n:>5,} beside {beside}: {shown}")
    return rows


def judge(rows: list[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    def ratios(busy: bool) -> list[float]:
        return [
            row["seconds"][OUR_THREADS] / row["seconds"][ONE]
            for row in rows
            if bool(row["beside"]) == busy and row["n"] >= SIZES[1]
        ]

    many = count > 1 and bool(ratios(busy=False))
    alone = float(np.median(ratios(busy=False))) if many else 1.0
    beside = float(np.median(ratios(busy=True))) if many else 1.0
    text = f"from {SIZES[1]:,} rows on"
    return [
        criterion(
            f"{text}, less time than one thread takes", alone < 1 if many else None, median=alone
        ),
        criterion(
            f"{text}, beside busy processes, at most {ALLOWED} times that",
            beside <= ALLOWED if many else None,
            median=beside,
        ),
    ]


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    """How many times as fast as one thread, alone and beside busy processes."""
    rows = result["rows"]
    plt = pictures()
    loads = sorted({row["beside"] for row in rows})
    figure, axes = plt.subplots(1, len(loads), figsize=(7.2, 0.8 + 0.22 * len(rows)), sharey=True)
    for ax, beside in zip(np.atleast_1d(axes), loads, strict=True):
        mine = [row for row in rows if row["beside"] == beside]
        for k, (how, colour) in enumerate(((OUR_THREADS, OURS), (OF_BLAS, SECOND))):
            ratio = [row["seconds"][ONE] / row["seconds"][how] for row in mine]
            ax.barh(np.arange(len(mine)) + 0.4 * k, ratio, 0.4, color=colour, label=how)
        ax.axvline(1.0, color="black", linewidth=0.8)
        ax.set_yticks(
            np.arange(len(mine)) + 0.2, [f"{row['task']}, n = {row['n']:,}" for row in mine]
        )
        ax.set_xlabel("times as fast as one thread")
        others = "a process" if beside == 1 else f"{beside} processes"
        ax.set_title(f"beside {others} kept busy" if beside else "alone", fontsize="medium")
    first = np.atleast_1d(axes)[0]
    first.invert_yaxis()
    figure.legend(*first.get_legend_handles_labels(), loc="outside upper center", ncols=2)
    save_picture(args, "bench_factors", figure)


def main() -> None:
    args = parser(__doc__).parse_args()
    from gpukfl._accel.threads import n_threads

    count = n_threads()
    rows = measure((300,) if args.smoke else SIZES, count, 0.0 if args.smoke else SHORT)
    result = {
        "settings": "float64; best of several calls in three rounds, in which all take turns; one "
        "thread is LAPACK's, without threads of the BLAS",
        "threads": count,
        "rows": rows,
        "criteria": judge(rows, count),
    }
    draw(args, write_json(args, "bench_factors", result))


if __name__ == "__main__":
    main()
