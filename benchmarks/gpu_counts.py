"""What a fit of BKerNN asks of a GPU: primitives, steps and iterations, as the processor counts."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from bench_fits import Target
from common import stopped_by_count

from gpukfl import BKerNNRegressor
from gpukfl.estimators._samples import Samples
from gpukfl.linalg import _bins
from gpukfl.operators import _binned, _brownian, _coarse
from gpukfl.selftest import SECTOR, Work
from gpukfl.solvers import ConjugateGradient, ProximalGradient

D, M, ITERATIONS, KNOTS = 20, 50, 20, 4096
# Calls of an iteration of conjugate gradients, and of a step without them, counted on the
# stand-in for CuPy before elementwise steps were fused, as they were when the H100 was timed. The
# fused ones are those without a preconditioner, with a check every time
# (tests/cupy_standin/test_gpu_budgets.py counts 11 and those of checks)
CALLS_OF_CG, FUSED_CALLS_OF_CG = {"exact": 75.0, "binned": 90.0}, 12.0
CALLS_OF_STEP, WAITS_OF_STEP, WAITS_OF_CG = 160.0, 10.0, 4.0
BYTES_OF_CG = 400.0  # a sample: some fifty passes over vectors of float64


# ---------------------------------------------------------------------- what a primitive asks for


def of_projection(moved: float, flops64: float = 0.0) -> Callable[[int, int], Work]:
    """So many bytes for each of n m projections."""
    return lambda n, m: Work(moved * n * m, flops64=flops64 * n * m)


# Operations in float64 are counted in the kernels' sources, conversions to and from it included
WORK: dict[str, Callable[[int, int], Work]] = {
    # Eight digits of a key, each read and written with its index; then values, order and rank
    "sort": of_projection(8 * 32 + 20 + 2 * SECTOR),
    # Two passes over values, order and gathered weights; levels out, and gathered by rank
    "ridge_sums": of_projection(2 * (12 + SECTOR) + 8 + 4 + SECTOR, 30),
    "sign_products": of_projection(2 * (4 + SECTOR) + 28 + 3 * SECTOR + 8, 12 + 2 * D),
    "project": of_projection(16, 2 * D),
    "encode": of_projection(20, 16),
    "bin_sums": of_projection(12, 8),
    "interpolate_bins": of_projection(4, 5),
    "bin_products": of_projection(20 + 8, 7 + 2 * D),
    # Two codes for each pair of rows
    "pair_sums": lambda n, m: Work(8 * n * m * (m + 1) / 2),
}
# Of n points and m others: what float32 data cost in float64, and in pairs of floats
PAIRWISE: dict[str, tuple[Work, Work | None]] = {
    "distances, euclidean": (Work(4, flops64=3 * D), None),
    "distances, manhattan": (Work(4, flops64=3 * D), Work(4, flops32=22 * D)),
    "sign_sums": (Work(4, flops64=3 * D), Work(4, flops32=10 * D)),
    "difference_sums": (Work(8, flops64=1.5 * D), None),
}


@dataclasses.dataclass
class Counts:
    """What a fit has asked for: projections by primitive, steps, iterations, rows of solves."""

    n: int
    projections: Counter[str] = dataclasses.field(default_factory=Counter)
    pairs: float = 0.0
    cg: int = 0
    cg_samples: float = 0.0
    steps: int = 0
    solved_rows: float = 0.0
    factored: float = 0.0
    preparation: float = 0.0  # seconds of the host

    def scaled(self, n: int) -> Counts:
        """Count the same fit of another number of samples, if it takes the same steps."""
        times = n / self.n
        more = {name: times * count for name, count in self.projections.items()}
        return dataclasses.replace(
            self,
            n=n,
            projections=Counter(more),
            pairs=times * self.pairs,
            cg_samples=times * self.cg_samples,
            preparation=times * self.preparation,
        )

    def work(self, form: str, *, fused: bool) -> Work:
        """Add up."""
        total = Work(moved=8 * self.pairs, flops64=self.factored)
        for name, count in self.projections.items():
            total = total + WORK[name](1, 1).repeat(count)
        calls = FUSED_CALLS_OF_CG if fused else CALLS_OF_CG[form]
        waits = 0.1 if fused else WAITS_OF_CG
        return total + Work(
            BYTES_OF_CG * self.cg_samples,
            calls=calls * self.cg + CALLS_OF_STEP * self.steps,
            waits=waits * self.cg + WAITS_OF_STEP * self.steps,
        )


# ---------------------------------------------------------------------- counting on the processor


def watched(owner: Any, name: str, note: Callable[..., None]) -> Any:
    """Patch a function: ``note(result, *arguments)`` is called after it."""
    function = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        note(result, *args)
        return result

    return mock.patch.object(owner, name, call)


def watched_primitives(counts: Counts) -> list[Any]:
    """Patches that count the projections of each primitive, the pairs of rows, and sorts."""

    def add(*names: str) -> Callable[..., None]:
        def note(_: Any, of: Any, *__: Any) -> None:  # a matrix, sorted rows, or positions
            shape = getattr(of, "codes", of).shape
            counts.projections.update(dict.fromkeys(names, shape[0] * shape[1]))

        return note

    def pairs(_: Any, at: Any, *__: Any) -> None:
        m, n = at.codes.shape
        counts.pairs += n * m * (m + 1) / 2

    def sorting(*args: Any) -> None:  # once a step
        counts.steps += 1
        add("sort", "project")(*args)

    return [
        watched(_brownian, "sort_rows", sorting),
        watched(_brownian, "ridge_sums", add("ridge_sums")),
        watched(_brownian, "sign_products", add("sign_products")),
        watched(_bins, "bin_sums", add("bin_sums")),
        watched(_binned, "interpolate_bins", add("interpolate_bins")),
        watched(_binned, "bin_products", add("bin_products")),
        watched(_coarse, "bin_sums", add("bin_sums")),
        watched(_coarse, "interpolate_bins", add("interpolate_bins")),
        watched(_coarse, "pair_sums", pairs),
        watched(_coarse.Positions, "of", add("encode", "project")),
    ]


def watched_steps(counts: Counts) -> list[Any]:
    """Patches that count binned steps, iterations of conjugate gradients, factors and solves."""

    def step(*_: Any) -> None:
        counts.steps += 1

    def iterations(solution: Any, _: Any, __: Any, b: Any, *___: Any) -> None:
        counts.cg += solution.n_iter
        counts.cg_samples += solution.n_iter * b.shape[0]

    def solve(_: Any, factor: Any, *__: Any) -> None:
        counts.solved_rows += 2 * factor.L.shape[0]

    def factorisation(_: Any, A: Any, *__: Any) -> None:
        counts.factored += A.shape[0] ** 3 / 3

    return [
        watched(_binned, "projection_range", step),
        watched(_coarse.CholeskyFactor, "solve", solve),
        watched(_coarse.CholeskyFactor, "of", factorisation),
        watched(ConjugateGradient, "solve", iterations),
    ]


@contextlib.contextmanager
def counting(counts: Counts) -> Iterator[None]:
    """Count what fits inside the ``with`` block do."""
    with contextlib.ExitStack() as stack:
        for patch in (*watched_primitives(counts), *watched_steps(counts)):
            stack.enter_context(patch)
        yield


def prepared(n: int) -> float:
    """Processor seconds in which a fit looks for copies of rows, on the host whatever the card."""
    X, y = Target().draw(n, 3)
    begun = time.process_time()
    Samples.validate(X, y[:, None], None, labels=False)
    return time.process_time() - begun


def counted(n: int, *, binned: bool) -> Counts:
    """Count what a fit of n samples does."""
    X, y = Target().draw(n, 3)
    counts = Counts(n, preparation=prepared(n))
    model = BKerNNRegressor(
        M,
        knots=KNOTS if binned else None,
        optimizer=ProximalGradient("auto", ITERATIONS, 0.0),
        random_state=0,
        scaling=None,
    )
    with stopped_by_count(), counting(counts):
        model.fit(X, y)
    return counts
