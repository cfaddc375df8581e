"""Rows of data that are scaled on access, and passes over them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    clip,
    double_like,
    get_device,
    is_host,
    is_on_gpu,
    library_name,
    lies_in_parts,
    like,
    take_rows,
    to_host,
    writable,
)
from gpukfl.core._memory import MAX_ELEMENTS, available_memory, block_size
from gpukfl.partitioned import Combine, PartitionedArray, Partitioning

# ---------------------------------------------------------------------------------- passes

# Passes over rows, over all of them at once or part by part.
#
# Algorithms give a function ``part(start, stop)`` of rows that are together, and a function that
# combines its results. These functions know whether rows are partitioned.


T = TypeVar("T")


def get_partitioning(x: object, /) -> Partitioning | None:
    """Return the partitioning of an array's rows, or None if they are not partitioned."""
    return getattr(x, "partitioning", None)


def reduce_rows(
    x: Array, part: Callable[[int, int], Sequence[Any]], /, *, combine: Combine = operator.add
) -> list[Any]:
    """Combine the small arrays that `part` returns for each part of the rows of `x`.

    Parameters
    ----------
    x : array, shape (n, ...)
        An array with the rows.
    part : callable
        ``part(start, stop)`` returns arrays, without side effects. It indexes arrays with rows by
        global row numbers.
    combine : callable
        Combines two arrays, in the order of their rows.
    """
    parts = get_partitioning(x)
    return list(part(0, x.shape[0])) if parts is None else parts.reduce(part, combine=combine)


def keep_rows(x: Array, part: Callable[[int, int], T], /, *, instead_of: Any = None) -> T:
    """Return the results of `part`, kept with the rows of `x` for other passes.

    `instead_of` is a kept value that is not needed once this is computed.
    """
    parts = get_partitioning(x)
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
    """Return an array ``(n, *columns)`` of the results of `part` on the rows of `x`.

    `instead_of` is as in `keep_rows`.
    """
    parts = get_partitioning(x)
    if parts is None:
        return part(0, x.shape[0])
    mapped: Any = PartitionedArray(parts, part, columns, dtype)
    parts.replace(instead_of)
    return mapped


def recompute(x: Array, /) -> Array:
    """Return `x`; if it is partitioned, each pass that reads it computes it again.

    This saves memory for values that are fast to compute from rows.
    """
    parts = get_partitioning(x)
    if parts is not None:
        lazy: Any = x
        parts.make_anew(lazy)
    return x


def take_together(index: np.ndarray | slice, /, *arrays: Array | None) -> list[Any]:
    """Return the rows at host indices of several arrays, or None for None, in one pass."""
    given = [x for x in arrays if x is not None]
    parts = get_partitioning(given[0])
    if parts is None:
        found = [take_rows(x, index) for x in given]
    else:
        assert not isinstance(index, slice)  # only memory maps are sliced
        xp, device = array_namespace(parts.reference), get_device(parts.reference)
        found = [xp.asarray(x, device=device) for x in parts.gather_together(given, index)]
    rest = iter(found)
    return [None if x is None else next(rest) for x in arrays]


def elementwise_min(a: Array, b: Array, /) -> Array:
    """Return the elementwise minimum, as a function for `combine`."""
    return array_namespace(a, b).minimum(a, b)


def elementwise_max(a: Array, b: Array, /) -> Array:
    """Return the elementwise maximum, as a function for `combine`."""
    return array_namespace(a, b).maximum(a, b)


# ------------------------------------------------------------------------------------ rows

# Rows of a data matrix in any storage, copied block by block to one library and device.


_MAX_SCALED, _MAX_SCALED_IN_PARTS = 2**23, 2**27  # elements of scaled rows that are kept
_COPY_SHARE = 0.5  # share of available memory for a copy of the data on a GPU
_BLOCK_ROWS = 2**17  # rows of a block, enough for all processors
_BLOCK_ROWS_ON_GPU = 2**21  # more, as each block costs dozens of launches
_STRIP_ROWS = 2**14  # rows whose temporaries are small beside a block


@dataclass(frozen=True, eq=False)
class Rows:
    """The scaled rows of X, computed on access with the library and device of `reference`.

    The source may be a NumPy memory map longer than memory, or an array of another library or
    device. An array that needs no scaling and no copy is sliced.
    """

    source: Array  # (n, d), any library
    reference: Array  # an empty array with the library, device and dtype of the computation
    # Scales the columns of float64 rows; a scaling with several `parts` returns a copy of X of each
    scaling: Callable[[Array], Array] | None = None
    clip: float | None = None  # largest absolute value of the scaled rows
    leading_ones: bool = False  # whether rows start with a column of ones

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of columns."""
        n, d = self.source.shape
        copies = len(getattr(self.scaling, "parts", (None,)))
        return n, copies * d + self.leading_ones

    @property
    def partitioning(self) -> Partitioning | None:
        """The partitioning of the rows, or None if they are not partitioned."""
        return get_partitioning(self.source)

    def block(self, start: int, stop: int, /) -> Array:
        """Return the scaled rows from start to stop."""
        X = self._scale_block(start, stop)
        if not self.leading_ones:
            return X
        xp = array_namespace(X)
        return xp.concat([xp.ones_like(X[:, :1]), X], axis=1)

    def _scale_block(self, start: int, stop: int) -> Array:
        xp = array_namespace(self.reference)
        rows = self.source[start:stop, ...]
        if library_name(rows) != library_name(self.reference):
            rows = to_host(rows)
        if isinstance(rows, np.memmap):
            rows = np.asarray(rows)
        rows = writable(rows, self.reference)
        if self.scaling is None and self.clip is None:
            return xp.asarray(rows, **like(self.reference))
        # In float64, because features may lie far from 0: times, positions, identifiers
        wide = xp.asarray(rows, **double_like(self.reference))
        if self.scaling is not None:
            wide = self.scaling(wide)
        if self.clip is not None:
            wide = clip(wide, low=-self.clip, high=self.clip)
        return xp.astype(wide, self.reference.dtype)

    def materialize(self) -> Rows:
        """Return the same rows scaled once, unless they are large."""
        n, d = self.shape
        if n * d > (_MAX_SCALED if self.partitioning is None else _MAX_SCALED_IN_PARTS):
            return self
        scaled = map_rows(self.source, self.block, columns=(d,), dtype=self.reference.dtype)
        return Rows(scaled, self.reference)

    def take(self, index: np.ndarray, /) -> Rows:
        """Return the rows at host indices, in any order; the source is copied."""
        return self.take_with(index)[0]

    def take_with(self, index: np.ndarray, /, *arrays: Array | None) -> tuple[Any, ...]:
        """Return the rows at host indices, and those of other arrays, in one pass."""
        found, *others = take_together(index, self.source, *arrays)
        return replace(self, source=np.asarray(found) if is_host(found) else found), *others

    def gather(self, index: np.ndarray, /) -> Array:
        """Return an array of the scaled rows at host indices, in any order."""
        return self.take(index).whole()

    def whole(self) -> Array:
        """Return all rows at once."""
        return self.block(0, self.shape[0])

    def blocks(
        self, width: int = 0, /, *, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, int, Array]]:
        """Yield (first, last, rows) for blocks of the rows from `start` to `stop`.

        A block fits in memory together with `width` more columns.
        """
        for first, last in self.ranges(width, start=start, stop=stop):
            yield first, last, self.block(first, last)

    def varying(self) -> np.ndarray:
        """Return which columns (d,) vary, on the host."""

        def part(start: int, stop: int) -> tuple[Array]:
            ends = (_column_ranges(block) for _, _, block in self.blocks(start=start, stop=stop))
            return (functools.reduce(elementwise_min, ends),)

        (found,) = reduce_rows(self.source, part, combine=elementwise_min)
        low, minus_high = to_host(found)
        return low < -minus_high

    def ranges(
        self, width: int = 0, /, *, start: int = 0, stop: int | None = None
    ) -> Iterator[tuple[int, int]]:
        """Yield first and last of the blocks of `blocks`."""
        last = self.shape[0] if stop is None else stop
        columns = 3 * self.shape[1] + width
        most = _BLOCK_ROWS_ON_GPU if is_on_gpu(self.reference) else _BLOCK_ROWS
        size = block_size(
            self.reference,
            bytes_each=8 * columns,
            elements_each=columns,
            at_most=min(last - start, most),
        )
        return _ranges(start, last, size)

    def strips(self, start: int, stop: int, /) -> Iterator[tuple[int, int, Array]]:
        """Yield a few rows of a block at a time, for large intermediate results.

        A GPU, where each strip costs launches, gets the whole block.
        """
        size = stop - start if is_on_gpu(self.reference) else _STRIP_ROWS
        for first, last in _ranges(start, stop, size):
            yield first, last, self.block(first, last)


def _ranges(start: int, stop: int, size: int, /) -> Iterator[tuple[int, int]]:
    for first in range(start, stop, size):
        yield first, min(first + size, stop)


def move_if_fits(X: Array, reference: Array, /) -> Array:
    """Return `X` (n, d), copied once to the GPU of `reference` if it fits.

    The copy has the precision of `X`. Without a GPU, or if `X` is on it already, `X` is returned.
    """
    n, d = X.shape
    if lies_in_parts(X) or not is_on_gpu(reference) or library_name(X) == library_name(reference):
        return X
    xp = array_namespace(reference)
    dtype = xp.float32 if X.dtype == array_namespace(X).float32 else xp.float64
    item = 4 if dtype == xp.float32 else 8
    if n * d > MAX_ELEMENTS or item * n * d > _COPY_SHARE * available_memory(reference):
        return X
    copy = xp.empty((n, d), dtype=dtype, device=get_device(reference))
    for start, stop, block in Rows(X, copy[:0, :]).blocks():
        copy[start:stop, :] = block
    return copy


def _column_ranges(block: Array) -> Array:
    """Return the lowest values and negated highest values of columns (2, d)."""
    xp = array_namespace(block)
    return xp.stack([xp.min(block, axis=0), xp.min(-block, axis=0)])
