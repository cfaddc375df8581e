"""Passes over rows: over all of them at once, or where the parts lie that they are divided into.

Algorithms say what is to be done with rows that lie together, ``part(start, stop)``, and what is
made of the results; where the rows lie is known here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from gpukfl._array import Array, array_namespace, device_of, take
from gpukfl.partitioned import Combine, PartitionedArray, Partitioning

T = TypeVar("T")


def partitioning_of(x: object, /) -> Partitioning | None:
    """How the rows of an array are divided; None where they lie in one place."""
    return getattr(x, "partitioning", None)


def reduce_rows(
    x: Array, part: Callable[[int, int], Sequence[Any]], /, *, combine: Combine = operator.add
) -> list[Any]:
    """Combine the small arrays that `part` gives for the rows of `x` that lie together.

    Parameters
    ----------
    x : array, shape (n, ...)
        Whose rows are passed over.
    part : callable
        ``part(start, stop)`` gives arrays; it changes nothing, and knows arrays with rows by the
        numbers that these have in the whole.
    combine : callable
        Two arrays to one, in the order of their rows.
    """
    parts = partitioning_of(x)
    return list(part(0, x.shape[0])) if parts is None else parts.reduce(part, combine=combine)


def keep_rows(x: Array, part: Callable[[int, int], T], /, *, instead_of: Any = None) -> T:
    """Give what `part` gives, which stays with the rows of `x`: seen again inside other parts.

    `instead_of` what was kept before, which is not asked for again once this is computed.
    """
    parts = partitioning_of(x)
    if parts is None:
        return part(0, x.shape[0])
    kept: Any = parts.keep(part, instead_of=instead_of)
    return kept


def map_rows(
    x: Array,
    part: Callable[[int, int], Array],
    /,
    *,
    columns: tuple[int, ...],
    dtype: object,
    instead_of: Any = None,
) -> Array:
    """Give an array ``(n, *columns)`` of what `part` gives for rows of `x` that lie together.

    `instead_of` as of `keep_rows`.
    """
    parts = partitioning_of(x)
    if parts is None:
        return part(0, x.shape[0])
    mapped: Any = PartitionedArray(parts, part, columns, dtype)
    parts.replace(instead_of)
    return mapped


def made_anew(x: Array, /) -> Array:
    """Give `x`; where its rows lie in parts, it is made in every pass that reads it, not kept.

    For what is quickly made of rows that are kept in any case.
    """
    parts = partitioning_of(x)
    if parts is not None:
        put_off: Any = x
        parts.make_anew(put_off)
    return x


def take_together(index: np.ndarray | slice, /, *arrays: Array | None) -> list[Any]:
    """Give the rows at host indices of several arrays, or None of None: in one pass."""
    given = [x for x in arrays if x is not None]
    parts = partitioning_of(given[0])
    if parts is None:
        found = [take(x, index) for x in given]
    else:
        assert not isinstance(index, slice)  # that memory maps alone are asked for
        place: Any = array_namespace(parts.reference)
        on = device_of(parts.reference)
        found = [place.asarray(x, device=on) for x in parts.gather_together(given, index)]
    rest = iter(found)
    return [None if x is None else next(rest) for x in arrays]


def lowest(a: Array, b: Array, /) -> Array:
    """Elementwise minimum: a `combine`."""
    return array_namespace(a, b).minimum(a, b)


def highest(a: Array, b: Array, /) -> Array:
    """Elementwise maximum: a `combine`."""
    return array_namespace(a, b).maximum(a, b)
