"""Predict what CUDA kernels of three primitives would save, of the computations they are part of.

Launches and bytes of array operations are counted on the stand-in for CuPy, at two sizes, and go
on in a straight line to a million rows; operations, and what a kernel reads and writes, are
counted by hand. Data sheets do the rest: everything here is a prediction.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from common import ROOT, parser, say, write_json
from gpu_model import SHEETS, card

from gpukfl.selftest import SECTOR, Work

N, D, T = 1_000_000, 20, 1
CENTERS, PARAMETERS, FUNCTIONS, KNOTS = 500, 1_000, 50, 256
COUNTED_AT = 2_000, 4_000
SMOKE_AT = 700, 900  # and so many times fewer columns
FEWER = 20
# Operations in float64 for a value: of erf, exp, a step of a search, and of a line between knots
ERF, EXP, STEP, LINE = 40, 20, 3, 8


@dataclass(frozen=True)
class Case:
    """A computation, and the primitive inside it.

    Attributes
    ----------
    what, primitive : str
        Their names in the table.
    module, function : str
        Where the primitive is looked up.
    prepare : callable
        ``prepare(cupy, rng, n, few)`` gives what runs the computation, with few columns or many.
    rest, inside : float
        Operations in float64 a row: of all else, and of the primitive.
    kernel : Work
        What a kernel asks for, a row but for its calls.
    gathered : float
        Values a row that array operations read at random places of a large array.
    """

    what: str
    primitive: str
    module: str
    function: str
    prepare: Callable[[Any, np.random.Generator, int, bool], Callable[[], object]]
    rest: float
    inside: float
    kernel: Work
    gathered: float = 0.0


# ---------------------------------------------------------------------- computations


def selection(cupy: Any, rng: np.random.Generator, n: int, few: bool) -> Callable[[], object]:
    """One evaluation of the objective by centres, and its gradient."""
    from gpukfl.kernels import ManhattanLaplace
    from gpukfl.methods import FactoredSelection

    X, Y = (cupy.asarray(rng.standard_normal((n, k))) for k in (D, T))
    count = CENTERS // FEWER if few else CENTERS
    draws = np.random.RandomState(0)
    objective = FactoredSelection(ManhattanLaplace(), X, Y, 0.1, n_centers=count, rng=draws)
    columns = np.arange(D)
    objective.gradient(objective.evaluate(np.zeros(D)), columns)  # sorts, once and for all

    def run() -> None:
        beta = rng.uniform(0.01, 0.1, D)  # another point than the last, which is kept
        objective.gradient(objective.evaluate(beta), columns)

    return run


def weighting(cupy: Any, rng: np.random.Generator, n: int, few: bool) -> Callable[[], object]:
    """One pass over the rows for sums of products of features."""
    from gpukfl.instantiations import GaussianSign
    from gpukfl.methods import fold_sums
    from gpukfl.operators import FeatureOperator
    from gpukfl.partitioned._rows import Rows

    X, Y = (cupy.asarray(rng.standard_normal((n, k))) for k in (D, T))
    W = rng.standard_normal((PARAMETERS // FEWER if few else PARAMETERS, D))
    sign = GaussianSign().resolved(D)
    operator = FeatureOperator(sign, Rows(X, X[:0, :]), cupy.asarray(W))
    folds = np.zeros(n, dtype=np.int64)
    return lambda: fold_sums(operator, Y, None, folds, n_folds=1)


def shapes(cupy: Any, rng: np.random.Generator, n: int, few: bool) -> Callable[[], object]:
    """Predictions by shape functions of projections."""
    from gpukfl.methods import ShapeFunctions

    m = FUNCTIONS // FEWER + 1 if few else FUNCTIONS
    X, W = cupy.asarray(rng.standard_normal((n, D))), cupy.asarray(rng.standard_normal((D, m)))
    knots = cupy.asarray(np.sort(rng.standard_normal((m, KNOTS)), axis=1))
    functions = ShapeFunctions(knots, cupy.asarray(rng.standard_normal((m, KNOTS, T))))
    return lambda: functions.mean(W.T @ X.T)


CASES = (
    Case(
        "selection by 500 centres, J and its gradient",
        "difference sums by a factor",
        "gpukfl.methods._selection_objective",
        "factored_difference_sums",
        selection,
        rest=CENTERS * (3 * D + 4 * CENTERS + 2 * EXP),
        inside=5 * CENTERS * D,
        kernel=Work(moved=D * (8 * CENTERS + 16), flops64=6 * CENTERS * D, calls=3),
        gathered=CENTERS * D,
    ),
    Case(
        "weighting with 1000 parameters, sums over the rows",
        "features of erf",
        "gpukfl.operators._features.FeatureOperator",
        "at",
        weighting,
        rest=2 * PARAMETERS**2,
        inside=(ERF + 2 * D) * PARAMETERS,
        kernel=Work(moved=8 * D + 8 * PARAMETERS, flops64=(ERF + 2 * D) * PARAMETERS, calls=2),
    ),
    Case(
        "predictions by 50 shape functions of 256 knots",
        "interpolation between knots",
        "gpukfl.methods._bkernn",
        "interpolate_knots",
        shapes,
        rest=2 * D * FUNCTIONS,
        inside=FUNCTIONS * (8 * STEP + LINE),
        kernel=Work(moved=8 * FUNCTIONS + 8, flops64=FUNCTIONS * (8 * STEP + LINE), calls=2),
    ),
)


# ---------------------------------------------------------------------- counts


@contextlib.contextmanager
def watched(case: Case, found: list[Any]) -> Iterator[None]:
    """Count what the primitive takes, inside the ``with`` block."""
    import pkgutil

    from cupy._counts import counted

    owner = pkgutil.resolve_name(case.module.replace("._features.", "._features:"))
    function = getattr(owner, case.function)

    def call(*args: Any) -> Any:
        with counted() as counts:
            result = function(*args)
        found.append(counts)
        return result

    with mock.patch.object(owner, case.function, call):
        yield


def counts_of(case: Case, n: int, few: bool) -> tuple[Work, Work]:
    """Count bytes, calls and waits of n rows: of all but the primitive, and of that."""
    import cupy
    from cupy._counts import counted

    run, inner = case.prepare(cupy, np.random.default_rng(0), n, few), []
    run()
    with watched(case, inner), counted() as outer:
        run()
    inside = [sum(getattr(c, name) for c in inner) for name in ("moved", "launches", "waits")]
    rest = np.subtract([outer.moved, outer.launches, outer.waits], inside).tolist()
    return tuple(
        Work(moved=moved, calls=calls, waits=waits) for moved, calls, waits in (rest, inside)
    )


def extrapolated(case: Case, sizes: tuple[int, int], few: bool) -> tuple[Work, Work]:
    """Give what `N` rows ask for, the operations that were counted by hand included."""
    small, large = (counts_of(case, n, few) for n in sizes)
    works = []
    for a, b, flops in zip(small, large, (case.rest, case.inside), strict=True):
        slope = (b.moved - a.moved) / (sizes[1] - sizes[0])
        moved = b.moved + slope * (N - sizes[1])
        works.append(Work(moved=moved, flops64=flops * N, calls=b.calls, waits=b.waits))
    sectors = Work(moved=(SECTOR - 8) * case.gathered * N)
    return works[0], works[1] + sectors


def predicted(case: Case, sizes: tuple[int, int], few: bool) -> list[dict[str, Any]]:
    """Predict one computation on every card."""
    rest, inside = extrapolated(case, sizes, few)
    kernel = Work(case.kernel.moved * N, 0.0, case.kernel.flops64 * N, case.kernel.calls)
    rows = []
    for name in SHEETS:
        others, arrays, fused = (card(name).seconds(work) for work in (rest, inside, kernel))
        rows.append(
            {
                "computation": case.what,
                "primitive": case.primitive,
                "card": name,
                "rest_ms": 1e3 * others,
                "arrays_ms": 1e3 * arrays,
                "share": arrays / (others + arrays),
                "kernel_ms": 1e3 * fused,
                "share_with_kernel": fused / (others + fused),
                "calls": inside.calls,
                "gb_moved": inside.moved / 1e9,
            }
        )
    return rows


def main() -> None:
    args = parser(__doc__).parse_args()
    sys.path.insert(0, str(ROOT / "tests" / "cupy_standin"))
    import placing

    placing.put()
    from gpukfl._accel.trust import distrust

    for file in ("differences", "knots"):  # whose array forms are counted
        distrust(file)
    rows = []
    for case in CASES:
        rows += predicted(case, SMOKE_AT if args.smoke else COUNTED_AT, args.smoke)
        for row in rows[-len(SHEETS) :]:
            say(
                f"{row['card']:<20} {case.what:<52} PREDICTED rest {row['rest_ms']:8.1f} ms, "
                f"{case.primitive} {row['arrays_ms']:8.1f} ms ({row['share']:.0%}), "
                f"by a kernel {row['kernel_ms']:8.1f} ms ({row['share_with_kernel']:.0%})"
            )
    settings = (
        f"n = {N}, d = {D}, float64, one target; array operations counted on the stand-in for CuPy "
        f"at {COUNTED_AT[0]} and {COUNTED_AT[1]} rows. All is PREDICTED from data sheets and counts"
    )
    write_json(args, "gpu_shares", {"settings": settings, "rows": rows})


if __name__ == "__main__":
    main()
