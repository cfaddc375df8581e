"""Fits with nothing exported, one and two threads, alone and beside other processes."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import (
    OURS,
    SECOND,
    THIRD,
    criterion,
    in_subprocess,
    parser,
    pictures,
    save_picture,
    say,
    write_json,
)

from gpukfl.methods import Reweighting
from gpukfl.solvers import LBFGS, ProjectedGradient, ProximalGradient

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "GPUKFL_NUM_THREADS",
)
EXPORTED = ("nothing", "1", "2")  # what all of them are set to
BUSY = (0, 1, 2)  # other processes that never wait
SIZES = ((700, 8), (4_000, 10))
ROUNDS = 2
ALLOWED = 1.2  # times the best of the others, with nothing exported
SHORT, MOST = 3.0, 20  # seconds of fits that are too quick to be timed by one, and their number

# What is searched for and how long is the same everywhere: the steps are few, the settings fixed
OPTIONS: dict[str, dict[str, Any]] = {
    "bkernn": {
        "ridge": 1e-3,
        "n_particles": 50,
        "optimizer": ProximalGradient("auto", 60, 0.0),
    },
    "hkrr": {"n_components": 2, "optimizer": LBFGS(max_iter=2, tol=1e-4)},
    "selection": {"ridge": 1e-3, "sparsity": 1e-3, "optimizer": ProjectedGradient(max_iter=3)},
    "rkhs_weighting": {},
    "regfeal": {
        "n_random_features": 300,
        "degrees": 0.5,
        "strength": 0.01,
        "ridge": 1e-3,
        "optimizer": Reweighting(3),
    },
}


def methods(backend: str) -> dict[str, Callable[[np.ndarray, np.ndarray], Any]]:
    """Every method of `gpukfl.fit`, and the kernel ridge regressions."""
    import gpukfl

    def through_the_door(method: str) -> Callable[[np.ndarray, np.ndarray], Any]:
        options = {"task": "regression", "progress": False, "backend": backend, **OPTIONS[method]}
        return lambda X, y: gpukfl.fit(X, y, method=method, **options)

    return {
        **{method: through_the_door(method) for method in OPTIONS},
        "KernelRidgeRegressor": gpukfl.KernelRidgeRegressor(random_state=0, backend=backend).fit,
        "BrownianKernelRidge": gpukfl.BrownianKernelRidge(backend=backend).fit,
    }


def draw_data(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw y = sin(1.5 x_1) + x_2 x_3 + noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(n)


def measure(sizes: tuple[tuple[int, int], ...], backend: str, short: float) -> dict[str, Any]:
    """Fit each method to each size, in its own process."""
    warnings.simplefilter("ignore")  # few steps do not converge
    rows = []
    for name, fit in methods(backend).items():
        fit(*draw_data(120, sizes[0][1]))  # compiles
        for n, d in sizes:
            seconds, processor = quickest(functools.partial(fit, *draw_data(n, d)), short)
            rows.append({"method": name, "n": n, "d": d, "seconds": seconds, "cpu": processor})
    return {"rows": rows}


def quickest(call: Callable[[], Any], short: float) -> tuple[float, float]:
    """Wall clock and processor time of the quickest call, of several within so many seconds."""
    found: list[tuple[float, float]] = []
    while not found or (sum(seconds for seconds, _ in found) < short and len(found) < MOST):
        begun, used = time.perf_counter(), time.process_time()
        call()
        found.append((time.perf_counter() - begun, time.process_time() - used))
    return min(found)


@contextlib.contextmanager
def exported(threads: str) -> Iterator[None]:
    """Export the number of threads, or nothing, to the processes that are started in here."""
    before = {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}
    if threads != "nothing":
        os.environ |= dict.fromkeys(VARIABLES, threads)
    try:
        yield
    finally:
        for name in VARIABLES:
            os.environ.pop(name, None)
        os.environ |= before


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep so many processes running beside."""
    code = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"  # never an orphan
    command = [sys.executable, "-c", code]
    others = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def measure_all(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Best of the rounds; in each all environments take turns, so that drift hits them alike."""
    sizes, short = (((150, 3),), 0.0) if args.smoke else (SIZES, SHORT)
    best: dict[tuple[Any, ...], dict[str, Any]] = {}
    for beside in BUSY[:1] if args.smoke else BUSY:
        with busy(beside):
            for turn in range(1 if args.smoke else ROUNDS):
                for threads in EXPORTED[:2] if args.smoke else EXPORTED:
                    with exported(threads):
                        rows = in_subprocess(measure, sizes, args.backend, short)["rows"]
                    say(
                        f"round {turn + 1}, beside {beside}, exported {threads}: "
                        f"{sum(row['seconds'] for row in rows):.1f} s"
                    )
                    for row in rows:
                        key = beside, row["method"], row["n"], threads
                        if key not in best or row["seconds"] < best[key]["seconds"]:
                            best[key] = {"beside": beside, "exported": threads, **row}
    return [best[key] for key in sorted(best, key=lambda key: (key[0], key[2]))]


def ratios(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Time with nothing exported over the best of the others."""
    found = []
    for row in rows:
        if row["exported"] != "nothing":
            continue
        same = [
            other for other in rows if all(other[k] == row[k] for k in ("beside", "method", "n"))
        ]
        others = [other["seconds"] for other in same if other["exported"] != "nothing"]
        ratio = row["seconds"] / min(others)
        found.append({key: row[key] for key in ("beside", "method", "n", "d")} | {"ratio": ratio})
    return found


def judge(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    verdicts = []
    for beside in BUSY:
        worst = max((row for row in found if row["beside"] == beside), key=lambda r: r["ratio"])
        where = "alone" if beside == 0 else f"beside {beside} busy process{'es' * (beside > 1)}"
        text = f"{where}: nothing exported takes at most {ALLOWED} x the best of the others"
        numbers = {"ratio": worst["ratio"], "method": worst["method"], "n": worst["n"]}
        verdicts.append(criterion(text, worst["ratio"] <= ALLOWED, **numbers))
    return verdicts


def draw(args: argparse.Namespace, result: dict[str, Any]) -> None:
    rows = result["rows"]
    plt = pictures()
    sizes = sorted({(row["n"], row["d"]) for row in rows})
    loads = sorted({row["beside"] for row in rows})
    names = list(dict.fromkeys(row["method"] for row in rows))
    figure, panels = plt.subplots(
        len(sizes), len(loads), figsize=(3.4 * len(loads), 2.8 * len(sizes)), squeeze=False,
        sharex=True, sharey=True,
    )  # fmt: skip
    for line, (n, d) in zip(panels, sizes, strict=True):
        for ax, beside in zip(line, loads, strict=True):
            for threads, colour, marker in zip(EXPORTED, (OURS, SECOND, THIRD), "os^", strict=True):
                mine = [r for r in rows if (r["n"], r["beside"]) == (n, beside)]
                mine = [r for r in mine if r["exported"] == threads]
                ax.plot([r["seconds"] for r in mine], [names.index(r["method"]) for r in mine],
                        marker, color=colour, label=f"threads exported: {threads}")  # fmt: skip
            busy = f"beside {beside} busy process" + "es" * (beside > 1)
            load = busy if beside else "idle cores"
            ax.set(xscale="log", title=f"{n:,} rows, {d} columns\n{load}")
            ax.xaxis.set_minor_formatter("")  # of so few decades they would overlap
            ax.set_yticks(range(len(names)), names)
    for ax in panels[-1]:
        ax.set_xlabel("seconds for the fit")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    save_picture(args, "bench_threads", figure)


def main() -> None:
    args = parser(__doc__).parse_args()
    rows = measure_all(args)
    found = ratios(rows)
    variables = ", ".join(VARIABLES)
    result = {
        "settings": f"{variables} unset (nothing exported), or all 1, or all 2; beside so many "
        "processes that never wait; each environment a process of its own, after a small fit has "
        f"compiled; best of {ROUNDS} rounds, of several fits where they are short; few steps with "
        "fixed settings, so that all do the same work; y = sin(1.5 x_1) + x_2 x_3 + noise of std "
        "0.3, float64",
        "options": {method: repr(options) for method, options in OPTIONS.items()},
        "rows": rows,
        "ratios": found,
        "criteria": [] if args.smoke else judge(found),
    }
    draw(args, write_json(args, "bench_threads", result))


if __name__ == "__main__":
    main()
