"""Checks of a GPU: what is computed there beside what the host says it must be."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl._memory import is_out_of_memory
from gpukfl.selftest import _libraries
from gpukfl.selftest._primitives import DTYPES, PRIMITIVES, Arrays, Primitive
from gpukfl.selftest._recorded import recorded

CUPY = "CuPy"  # what is at fault where array operations are wrong
_SUMS = 4000 * float(np.finfo(np.float64).eps)  # long sums in float64, in another order

Put = Callable[[np.ndarray], Any]  # copies a host array to where it is tested


@dataclass(frozen=True)
class Check:
    """Something to compute twice.

    Attributes
    ----------
    what, dtype : str
        Of it.
    part : str
        What is at fault where it is wrong: `CUPY`, or the file of kernels.
    actual, expected : callable
        Both results, tuples of arrays; the second on the host.
    allowed : float
        Error relative to the largest value expected; 0 is every bit.
    """

    what: str
    dtype: str
    part: str
    actual: Callable[[], Arrays]
    expected: Callable[[], Arrays]
    allowed: float


@dataclass(frozen=True)
class Outcome:
    """How a check went.

    Attributes
    ----------
    error : float or None
        Relative to the largest value expected; None where nothing finite was computed.
    problem : str
        What is wrong, and empty where nothing is.
    """

    what: str
    dtype: str
    part: str
    allowed: float
    error: float | None
    problem: str
    seconds: float


def quick_checks(put: Put, /) -> Iterator[Check]:
    """Check CuPy first, then every kernel, and then whether the device is still alive."""
    for dtype in DTYPES:
        for operation in _libraries.OPERATIONS:
            yield _of_library(operation, dtype, put)
        for primitive in PRIMITIVES:
            yield _of_primitive(primitive, dtype, put, primitive.form, CUPY)
    for dtype in DTYPES:
        for primitive in PRIMITIVES:
            yield _of_primitive(primitive, dtype, put, primitive.twin, primitive.file)
    yield _of_library(_libraries.COPIES, "float64", put)


def recorded_checks(put: Put, /) -> Iterator[Check]:
    """Check the kernels against recorded bits."""
    for dtype in DTYPES:
        for primitive in PRIMITIVES:
            yield Check(
                primitive.name,
                dtype,
                primitive.file,
                _computed(primitive, primitive.twin, dtype, put, exact=True),
                _looked_up(primitive, dtype),
                0.0,
            )


def run(checks: Iterable[Check], /, *, seconds: float) -> tuple[list[Outcome], bool]:
    """Run checks until the time is over; returns outcomes, and whether all were run.

    Raises
    ------
    MemoryError
        If there is no room for them, which says nothing of the results.
    """
    begun = time.perf_counter()
    outcomes: list[Outcome] = []
    for check in checks:
        if time.perf_counter() - begun > seconds:
            return outcomes, False
        outcomes.append(_outcome(check))
    return outcomes, True


def _outcome(check: Check) -> Outcome:
    begun = time.perf_counter()
    error, problem = None, ""
    try:
        error, problem = _judged(check)
    except Exception as failure:  # a broken CUDA set-up may raise anything
        if is_out_of_memory(failure):
            raise MemoryError(str(failure)) from failure
        problem = " ".join(f"{type(failure).__name__}: {failure}".split())[:300]
    spent = time.perf_counter() - begun
    return Outcome(check.what, check.dtype, check.part, check.allowed, error, problem, spent)


def _judged(check: Check) -> tuple[float | None, str]:
    pairs = zip(check.actual(), check.expected(), strict=True)
    errors = [_error(to_host(actual), to_host(expected)) for actual, expected in pairs]
    error = float(np.max(errors, initial=0.0))  # NaN if one of them is, wherever it stands
    right = error <= check.allowed  # not of NaN
    told = f"expected an error of at most {check.allowed:.1e}, got {error:.1e}"
    return (error if math.isfinite(error) else None), "" if right else told


def _error(actual: np.ndarray, expected: np.ndarray) -> float:
    if actual.shape != expected.shape:
        msg = f"expected shape {expected.shape}, got {actual.shape}"
        raise ValueError(msg)
    actual, expected = (x.astype(np.float64) for x in (actual, expected))
    scale = float(np.max(np.abs(expected), initial=0.0)) or 1.0
    return float(np.max(np.abs(actual - expected), initial=0.0)) / scale


def _of_library(operation: _libraries.Operation, dtype: str, put: Put) -> Check:
    def actual() -> Arrays:
        A, B = _libraries.inputs(dtype)
        return (operation.run(put(A), put(B)),)

    def expected() -> Arrays:
        A, B = (x.astype(np.float64) for x in _libraries.inputs(dtype))
        return (operation.expected(A, B),)

    allowed = operation.rounding * float(np.finfo(dtype).eps)
    return Check(operation.name, dtype, CUPY, actual, expected, allowed)


def _of_primitive(
    primitive: Primitive, dtype: str, put: Put, function: Callable[..., Arrays], part: str
) -> Check:
    allowed = _SUMS + (float(np.finfo(dtype).eps) if dtype == "float32" else 0.0)
    actual = _computed(primitive, function, dtype, put, exact=False)
    expected = _computed(primitive, primitive.form, dtype, lambda x: x, exact=False)
    return Check(primitive.name, dtype, part, actual, expected, allowed)


def _computed(
    primitive: Primitive, function: Callable[..., Arrays], dtype: str, put: Put, *, exact: bool
) -> Callable[[], Arrays]:
    def compute() -> Arrays:
        given = primitive.inputs(dtype, exact=exact)
        return function(*(put(x) if isinstance(x, np.ndarray) else x for x in given))

    return compute


def _looked_up(primitive: Primitive, dtype: str) -> Callable[[], Arrays]:
    return lambda: recorded(primitive.name, dtype)
