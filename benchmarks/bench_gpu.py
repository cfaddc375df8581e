"""The same fits and products on a GPU and on the processor: time, R² and device memory."""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from bench_fits import Target
from common import (
    OURS,
    SECOND,
    parser,
    pictures,
    save_picture,
    say,
    stopped_by_count,
    synchronizer,
    timed,
    write_json,
)

from gpukfl.solvers import LBFGS, ProjectedGradient, ProximalGradient

D, M, ITERATIONS, KNOTS, N_TEST, N_WARM = 20, 50, 20, 2_000, 10_000, 1_200
TWICE_BELOW = 15.0  # seconds
MAX_TIME = 60.0  # of a whole search
SEARCHED = ("auto", "bkernn", "hkrr", "selection", "rkhs_weighting", "regfeal")
Row = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One row of the table: a name, a size, and what is done with so many samples."""

    name: str
    n: int
    run: Callable[[str, int], Row]  # backend, n
    limit: float = 60.0  # seconds, everything included

    def __str__(self) -> str:
        return f"{self.name:<24} n = {self.n:>10,}"


# ---------------------------------------------------------------------- fits


def fit(make: Callable[[str], Any], backend: str, n: int) -> Row:
    """Fit n samples, and once more if that was quick, for the first fit may compile."""
    X, y = Target().draw(n, 3)
    X_test, y_test = Target().draw(N_TEST, 4)
    few = min(n, N_WARM)
    with stopped_by_count():
        make(backend).fit(X[:few], y[:few]).predict(X_test)
        model, seconds, processor = _clocked(lambda: make(backend).fit(X, y))
        first = seconds
        if first < TWICE_BELOW:
            model, seconds, processor = _clocked(lambda: make(backend).fit(X, y))
    begun = time.perf_counter()
    r2 = float(model.score(X_test, y_test))
    return {
        "seconds": seconds,
        "first_seconds": first,
        "processor_seconds": processor,
        "r2": r2,
        "predict_us_per_row": 1e6 * (time.perf_counter() - begun) / N_TEST,
        "status": getattr(model, "status_", None),
        "iterations": getattr(model, "n_iter_", None),
    }


def _clocked(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Give what a call gives, its seconds, and those of the processor."""
    begun, spent = time.perf_counter(), time.process_time()
    found = call()
    return found, time.perf_counter() - begun, time.process_time() - spent


def bkernn(backend: str, n: int) -> Row:
    """Twenty iterations at the default ridge: exact, or on knots where n m is beyond its limit."""
    from gpukfl import BKerNNRegressor

    binned = n * M > 200_000_000
    return fit(
        lambda place: BKerNNRegressor(
            M,
            knots=4096 if binned else None,
            optimizer=ProximalGradient("auto", ITERATIONS, 0.0),
            random_state=0,
            backend=place,
            scaling=None,
        ),
        backend,
        n,
    )


def kernel_ridge(solver: str, n_centers: int | str) -> Callable[[str, int], Row]:
    """Fit at a fixed ridge and lengthscale."""

    def run(backend: str, n: int) -> Row:
        from gpukfl import KernelRidgeRegressor

        return fit(
            lambda place: KernelRidgeRegressor(
                ridge=1e-6,
                lengthscale=3.0,
                solver=solver,
                n_centers=n_centers,
                max_iter=20,
                random_state=0,
                backend=place,
            ),
            backend,
            n,
        )

    return run


def hkrr(backend: str, n: int) -> Row:
    """Ten steps of L-BFGS with three components and 500 centres."""
    from gpukfl import HKRRRegressor
    from gpukfl.estimators.hkrr import HoldOut

    return fit(
        lambda place: HKRRRegressor(
            3,
            ridge=1e-6,
            n_centers=500,
            optimizer=LBFGS(max_iter=10),
            criterion=HoldOut(n_starts=1),
            random_state=0,
            backend=place,
        ),
        backend,
        n,
    )


def regfeal(backend: str, n: int) -> Row:
    """Five turns with 2000 random features; the last fit is on the features too."""
    from gpukfl import RegFeaLRegressor

    return fit(
        lambda place: RegFeaLRegressor(
            degrees=0.5, strength=0.1, ridge=0.1, retrain=None, random_state=0, backend=place
        ),
        backend,
        n,
    )


def selection(backend: str, n: int) -> Row:
    """Select at given γ and λ, with 500 centres."""
    from gpukfl import KernelFeatureSelector

    return fit(
        lambda place: KernelFeatureSelector(
            ridge=0.01,
            sparsity=1e-3,
            n_centers=500,
            optimizer=ProjectedGradient(max_iter=20),
            random_state=0,
            backend=place,
        ),
        backend,
        n,
    )


def weighting(backend: str, n: int) -> Row:
    """Least squares over a thousand parameters."""
    from gpukfl import RKHSWeightingRegressor

    return fit(
        lambda place: RKHSWeightingRegressor(1000, ridge=1e-8, random_state=0, backend=place),
        backend,
        n,
    )


def searched(method: str) -> Callable[[str, int], Row]:
    """Fit as users do: settings are searched for, in at most so many seconds."""

    def run(backend: str, n: int) -> Row:
        import gpukfl

        X, y = Target().draw(n, 3)
        X_test, y_test = Target().draw(N_TEST, 4)
        model, seconds, processor = _clocked(
            lambda: gpukfl.fit(
                X, y, method=method, backend=backend, max_time=MAX_TIME, random_state=0
            )
        )
        r2 = float(model.score(X_test, y_test))
        return {"seconds": seconds, "processor_seconds": processor, "r2": r2}

    return run


# ---------------------------------------------------------------------- operators


def operator(form: str) -> Callable[[str, int], Row]:
    """Build, multiply, differentiate and invert the Brownian kernel in one form."""

    def run(backend: str, n: int) -> Row:
        from gpukfl._accel.limits import one_blas_thread
        from gpukfl._places import resolve_place
        from gpukfl._rows import Rows
        from gpukfl.operators import BinnedBrownianKernel, BrownianKernel

        place = resolve_place(backend, np.empty(0), dtype="float64", work=n * M)
        rng = np.random.default_rng(0)
        X, W = place.put(rng.standard_normal((n, D))), place.put(rng.standard_normal((D, M)) / D)
        host = rng.standard_normal((n, 1))
        v = place.put(host - host.mean(axis=0))

        def make() -> Any:
            if form == "exact":
                return BrownianKernel.of(X, W)
            return BinnedBrownianKernel.of(Rows(X, place.reference), W, n_knots=KNOTS)

        wait = synchronizer(place)
        kernel = make()
        kernel @ v
        inverse = kernel.approximate_inverse(None, 1e-3 * n)
        calls = {
            "make": lambda: make() @ v,
            "product": lambda: kernel @ v,
            "gradient": lambda: kernel.quadratic_gradient(v),
            "inverse": lambda: kernel.approximate_inverse(None, 1e-3 * n),
        }
        if inverse is not None:
            calls["precondition"] = lambda: inverse(v)
        with one_blas_thread():  # as fits have it
            times = {name: timed(call, wait, repeats=2) for name, call in calls.items()}
        return {"seconds": sum(times.values()), **times}

    return run


# ---------------------------------------------------------------------- what is run


def tasks(smoke: bool) -> list[Task]:
    """Every row, the most telling first."""
    if smoke:
        sizes = {"bkernn": (400,), "operator": (2_000,), "direct": (300,), "large": (500,)}
        sizes["searched"] = (300,)
    else:
        sizes = {
            "bkernn": (10_000, 100_000, 1_000_000, 10_000_000),
            "operator": (1_000_000,),
            "direct": (5_000, 20_000),
            "large": (100_000, 1_000_000),
            "searched": (10_000, 1_000_000),
        }
    found = [Task("BKerNN", n, bkernn, 100.0) for n in sizes["bkernn"]]
    for form in ("exact", "binned"):
        found += [Task(f"operator, {form}", n, operator(form)) for n in sizes["operator"]]
    found += [
        Task("kernel ridge, direct", n, kernel_ridge("direct", "auto")) for n in sizes["direct"]
    ]
    falkon = kernel_ridge("falkon", 100 if smoke else 2_000)
    found += [Task("kernel ridge, falkon", n, falkon) for n in sizes["large"][-1:]]
    methods = {"HKRR": hkrr, "RegFeaL": regfeal, "weighting": weighting, "selection": selection}
    found += [Task(name, n, run) for n in sizes["large"] for name, run in methods.items()]
    for method in ("hkrr",) if smoke else SEARCHED:
        found += [
            Task(f"gpukfl.fit, {method}", n, searched(method), 90.0) for n in sizes["searched"]
        ]
    return found


class Worker:
    """A process that runs one task after the other; it is ended where a task takes too long."""

    def __init__(self, backend: str, smoke: bool) -> None:
        self.backend, self.smoke = backend, smoke
        self._process: Any = None
        self._pipe: Any = None

    def run(self, number: int, limit: float) -> Row:
        """Run the task of a number, and say what went wrong where something did."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, there = context.Pipe()
            self._process = context.Process(
                target=_work, args=(there, self.backend, self.smoke), daemon=True
            )
            self._process.start()
            there.close()
        self._pipe.send(number)
        try:
            if self._pipe.poll(limit):
                return self._pipe.recv()
            failed = f"more than {limit:.0f} s"
        except (EOFError, OSError):
            self._process.join(10.0)
            failed = f"the process ended with exit code {self._process.exitcode}"
        self.end()
        return {"failed": failed}

    def end(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
        self._process = None


def _work(pipe: Any, backend: str, smoke: bool) -> None:
    """Run tasks by their numbers until the pipe is closed."""
    warnings.simplefilter("ignore")
    every = tasks(smoke)
    while True:
        try:
            number = pipe.recv()
        except EOFError:
            return
        task = every[number]
        _free()
        try:
            found = task.run(backend, task.n)
        except Exception as error:
            traceback.print_exc()
            found = {"failed": f"{type(error).__name__}: {error}"[:200]}
        pipe.send({**found, **_device_memory()})


def _free() -> None:
    """Give back what the last task has left on the device."""
    gc.collect()
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()


def _device_memory() -> dict[str, float]:
    """Largest memory that CuPy's pool has taken since it was last emptied."""
    if "cupy" not in sys.modules:
        return {}
    return {"peak_gpu_mb": sys.modules["cupy"].get_default_memory_pool().total_bytes() / 1e6}


def measure(args: argparse.Namespace) -> list[Row]:
    """Run every task on every backend, until the time is over."""
    begun, rows = time.perf_counter(), []
    every = tasks(args.smoke)
    for backend in (args.backend, *args.beside):
        worker = Worker(backend, args.smoke)
        for number, task in enumerate(every):
            if args.only not in task.name.lower():
                continue
            left = 60.0 * args.minutes - (time.perf_counter() - begun)
            limit = min(task.limit, args.limit, left)
            found = worker.run(number, limit) if left > 1 else {"failed": "no time was left"}
            rows.append({"task": task.name, "n": task.n, "backend": backend, **found})
            say(f"{backend:<6} {task}: {_told(rows[-1])}")
        worker.end()
    return rows


# ---------------------------------------------------------------------- what is told


def _told(row: Row) -> str:
    if "failed" in row:
        return row["failed"]
    parts = [f"{row['seconds']:8.3f} s"]
    if "r2" in row:
        parts += [f"R² {row['r2']:.4f}", f"{row.get('status') or ''} {row.get('iterations') or ''}"]
    if "product" in row:
        names = ("make", "product", "gradient", "inverse", "precondition")
        parts.append(", ".join(f"{name} {1e3 * row[name]:.1f} ms" for name in names if name in row))
    if "peak_gpu_mb" in row:
        parts.append(f"{row['peak_gpu_mb']:.0f} MB of the device")
    return ", ".join(part for part in parts if part)


def table(rows: list[Row], backends: tuple[str, ...]) -> str:
    """One line a task: seconds on every backend, how much faster the first is, R², memory."""
    of = {(row["task"], row["n"], row["backend"]): row for row in rows}
    lines = [f"{'':<24}{'n':>11}" + "".join(f"{b + ', s':>12}" for b in backends)]
    lines[0] += f"{'ratio':>8}{'R²':>16}{'device MB':>11}"
    for name, n in dict.fromkeys((row["task"], row["n"]) for row in rows):
        mine = [of.get((name, n, backend), {}) for backend in backends]
        seconds = [row.get("seconds") for row in mine]
        shown = "".join(f"{'-' if s is None else format(s, '.3f'):>12}" for s in seconds)
        both = len(seconds) > 1 and all(s is not None for s in seconds[:2])
        ratio = f"{seconds[1] / seconds[0]:.1f}" if both else ""
        r2 = " ".join(f"{row['r2']:.4f}" for row in mine if "r2" in row)
        memory = f"{mine[0]['peak_gpu_mb']:.0f}" if "peak_gpu_mb" in mine[0] else ""
        lines.append(f"{name:<24}{n:>11,}{shown}{ratio:>8}{r2:>16}{memory:>11}")
    return "\n".join(lines)


def draw(args: argparse.Namespace, rows: list[Row], backends: tuple[str, ...]) -> None:
    """Seconds of every task on every backend."""
    plt = pictures()
    names = list(dict.fromkeys((row["task"], row["n"]) for row in rows))
    figure, ax = plt.subplots(figsize=(7.5, 0.6 + 0.32 * len(names)))
    height = 0.8 / len(backends)
    for k, (backend, colour) in enumerate(zip(backends, (OURS, SECOND), strict=False)):
        of = {(row["task"], row["n"]): row for row in rows if row["backend"] == backend}
        seconds = [of.get(name, {}).get("seconds", np.nan) for name in names]
        ax.barh(np.arange(len(names)) + k * height, seconds, height, color=colour, label=backend)
    ax.set_yticks(
        np.arange(len(names)) + height * (len(backends) - 1) / 2,
        [f"{name}, n = {n:,}" for name, n in names],
    )
    ax.invert_yaxis()
    ax.set(xscale="log", xlabel="seconds")
    ax.legend()
    save_picture(args, "bench_gpu", figure)


def main() -> None:
    line = parser(__doc__)
    line.add_argument(
        "--beside", nargs="*", default=[], help="other backends for the same rows, afterwards"
    )
    line.add_argument("--minutes", type=float, default=4.8, help="for everything (default: 4.8)")
    line.add_argument("--limit", type=float, default=100.0, help="seconds for a row at most")
    line.add_argument("--only", default="", help="rows whose name contains this word")
    args = line.parse_args()
    backends = (args.backend, *args.beside)
    rows = measure(args)
    fits = [row["seconds"] for row in rows if "r2" in row]
    result = {
        "settings": f"d = {D}, float64, y = |sum of 3 sines of rotated uniform features| + noise; "
        f"R² on {N_TEST} other rows; BKerNN with {M} particles, {ITERATIONS} iterations; a fit "
        f"that took less than {TWICE_BELOW:.0f} s is made and timed again, as the first may have "
        f"compiled; gpukfl.fit searches for settings, in at most {MAX_TIME:.0f} s, and is made "
        "once; device memory is what CuPy's pool has taken",
        "rows": rows,
        "median_fit_seconds": statistics.median(fits) if fits else None,
    }
    write_json(args, "bench_gpu", result)
    draw(args, rows, backends)
    say(table(rows, backends))


if __name__ == "__main__":
    main()
