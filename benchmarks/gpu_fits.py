"""What `bench_gpu.py` times on a GPU and on the processor: fits, searches, parts of operators."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from bench_fits import Target
from common import stopped_by_count, synchronizer, timed

from gpukfl.core._array import to_host
from gpukfl.solvers import LBFGS, ProjectedGradient, ProximalGradient

D, M, ITERATIONS, KNOTS, N_TEST, N_WARM = 20, 50, 20, 2_000, 10_000, 1_200
TWICE_BELOW = 10.0  # seconds
MAX_TIME = 60.0  # of a whole search
SEARCHED = ("bkernn", "hkrr", "rkhs_weighting", "regfeal", "auto", "selection")
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


def last_fit(*, with_all: bool) -> Callable[[str, int], Row]:
    """Solve the last fit of a member at a fixed kernel, by 2000 centres or all rows."""

    def run(backend: str, n: int) -> Row:
        from gpukfl.core._places import resolve_place
        from gpukfl.kernels import Matern32
        from gpukfl.methods import NystromSystem, solve_by_early_stopping
        from gpukfl.operators import KernelOperator
        from gpukfl.partitioned._rows import Rows

        kernel, shift, q = Matern32(3.5), 0.02, min(2_000, n // 2)
        place = resolve_place(backend, np.empty(0), dtype="float64", work=n * n)
        (host, y), (host_test, y_test) = Target().draw(n, 3), Target().draw(N_TEST, 4)
        X, Y = place.put(host), place.put((y - y.mean())[:, None])
        wait = synchronizer(place)

        def solve() -> tuple[Any, Row]:
            operator = KernelOperator(kernel, Rows(X, X[:0, 0]), X[:q, :], keep=True)
            system = NystromSystem.from_rows(operator, Y, None)
            if not with_all:
                return (X[:q, :], system.solve(shift / n)[0]), {}
            found = solve_by_early_stopping(
                kernel,
                X,
                Y,
                None,
                shift=shift,
                centers=operator,
                factors=system.factors(shift / n),
                n_held=min(2_000, n // 20),
            )
            ended = {"status": found.status.name, "iterations": found.n_iter}
            return (X, found.alpha), {**ended, "residual": found.residual}

        def timed_solve() -> tuple[Any, Row]:
            found = solve()
            wait()
            return found

        ((Z, alpha), ended), seconds, processor = _clocked(timed_solve)
        at = place.put(host_test)
        predicted = to_host(KernelOperator(kernel, Rows(at, at[:0, 0]), Z) @ alpha)[:, 0] + y.mean()
        r2 = 1.0 - float(np.mean((predicted - y_test) ** 2) / np.var(y_test))
        return {"seconds": seconds, "processor_seconds": processor, "r2": r2, **ended}

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
        found: Row = {"seconds": seconds, "processor_seconds": processor}
        if method == "auto":
            board = model.leaderboard()
            found["members"] = dict(zip(board["member"], board["seconds"], strict=True))
        return {**found, "r2": float(model.score(X_test, y_test))}

    return run


# ---------------------------------------------------------------------- operators


def operator(form: str) -> Callable[[str, int], Row]:
    """Build, multiply, differentiate and invert the Brownian kernel in one form."""

    def run(backend: str, n: int) -> Row:
        from gpukfl._accel.limits import one_blas_thread
        from gpukfl.core._places import resolve_place
        from gpukfl.operators import BinnedBrownianKernel, BrownianKernel
        from gpukfl.partitioned._rows import Rows

        place = resolve_place(backend, np.empty(0), dtype="float64", work=n * M)
        rng = np.random.default_rng(0)
        X, W = place.put(rng.standard_normal((n, D))), place.put(rng.standard_normal((D, M)) / D)
        host = rng.standard_normal((n, 1))
        v = place.put(host - host.mean(axis=0))

        def make() -> Any:
            if form == "exact":
                return BrownianKernel.build(X, W)
            return BinnedBrownianKernel.build(Rows(X, place.reference), W, n_knots=KNOTS)

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
        sizes["searched"], sizes["last"] = (300,), (400,)
    else:
        sizes = {
            "bkernn": (10_000, 100_000, 1_000_000, 10_000_000),
            "operator": (1_000_000,),
            "direct": (5_000, 20_000),
            "large": (100_000, 1_000_000),
            "searched": (10_000, 1_000_000),
            "last": (10_000, 100_000, 1_000_000),
        }
    found = [Task("BKerNN", n, bkernn, 100.0) for n in sizes["bkernn"]]
    for form in ("exact", "binned"):
        found += [Task(f"operator, {form}", n, operator(form)) for n in sizes["operator"]]
    found += [
        Task("kernel ridge, direct", n, kernel_ridge("direct", "auto")) for n in sizes["direct"]
    ]
    falkon = kernel_ridge("falkon", 100 if smoke else 2_000)
    found += [Task("kernel ridge, falkon", n, falkon) for n in sizes["large"][-1:]]
    for name, with_all in (("last fit, 2000 centres", False), ("last fit, all rows", True)):
        run = last_fit(with_all=with_all)
        found += [Task(name, n, run) for n in sizes["last"]]
    methods = {"HKRR": hkrr, "RegFeaL": regfeal, "weighting": weighting, "selection": selection}
    found += [Task(name, n, run) for n in sizes["large"] for name, run in methods.items()]
    for method in ("hkrr",) if smoke else SEARCHED:
        found += [
            Task(f"gpukfl.fit, {method}", n, searched(method), 90.0) for n in sizes["searched"]
        ]
    return found
