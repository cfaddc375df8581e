"""Whether the precision that data are computed in holds them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from gpukfl._array import Array, array_namespace
from gpukfl._passes import reduce_rows
from gpukfl._rows import Rows


def check_range(rows: Rows, Y: Array, /) -> None:
    """Raise ValueError where data are too large, or too small, for their precision."""
    xp, of_targets = array_namespace(rows.reference), array_namespace(Y)
    dtype = rows.reference.dtype
    limit = float(xp.finfo(dtype).max)
    if not bool(of_targets.all(of_targets.isfinite(Y))):
        msg = f"y overflows {dtype}: expected targets below {limit:.0e}; use float64"
        raise ValueError(msg)

    largest = _largest(rows, lambda X: xp.sum(X * X, axis=1))
    if not np.isfinite(largest):
        msg = (
            f"X overflows {dtype}: expected squared row norms below {limit:.0e}; standardise X, or "
            "use float64"
        )
        raise ValueError(msg)
    least = float(xp.finfo(dtype).smallest_normal)
    if largest < least and _largest(rows, lambda X: xp.max(xp.abs(X), axis=1)) > 0:
        msg = (
            f"X vanishes in {dtype}: expected some squared row norm of {least:.0e} at least; "
            "standardise X, or use float64"
        )
        raise ValueError(msg)


def _largest(rows: Rows, size: Callable[[Array], Array]) -> float:
    """Give the largest of the sizes (n,) of rows; NaN where one is."""
    xp = array_namespace(rows.reference)

    def part(start: int, stop: int) -> list[Array]:
        blocks = (X for _, _, X in rows.blocks(start=start, stop=stop))
        with np.errstate(over="ignore", invalid="ignore"):
            return [functools.reduce(_larger, [xp.max(size(X)) for X in blocks])]

    (found,) = reduce_rows(rows.source, part, combine=_larger)
    return float(found)


def _larger(a: Array, b: Array) -> Array:
    return array_namespace(a).maximum(a, b)
