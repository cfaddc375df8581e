"""Rows of a data matrix, wherever they are stored, brought to one place block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpukfl._array import (
    Array,
    array_namespace,
    double_like,
    is_host,
    library_of,
    like,
    take,
    to_host,
    writable,
)
from gpukfl._memory import block_size

_SMALL = 2**23  # elements that are worth keeping


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of X, scaled, computed on the place of `reference` when asked for.

    The source may be a NumPy memory map longer than memory, or an array of another library or
    device; an array that is already in place and needs no scaling is sliced, not copied.
    """

    source: Array  # (n, d), any library
    reference: Array  # an empty array of the place and dtype to compute on
    scaling: Callable[[Array], Array] | None = None  # of rows in float64, each column by itself
    clip: float | None = None  # largest absolute coordinate of the scaled rows
    leading_ones: bool = False  # put a column of ones first

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of columns."""
        n, d = self.source.shape
        return n, d + self.leading_ones

    def block(self, start: int, stop: int, /) -> Array:
        """Rows from start to stop, in place."""
        X = self._scaled(start, stop)
        if not self.leading_ones:
            return X
        xp = array_namespace(X)
        return xp.concat([xp.ones((X.shape[0], 1), **like(X)), X], axis=1)

    def _scaled(self, start: int, stop: int) -> Array:
        xp = array_namespace(self.reference)
        rows = self.source[start:stop, ...]
        if library_of(rows) != library_of(self.reference):
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
            wide = xp.clip(wide, min=-self.clip, max=self.clip)
        return xp.astype(wide, self.reference.dtype)

    def in_memory(self) -> Rows:
        """Give the same rows, scaled once and for all, unless they are large."""
        n, d = self.shape
        return Rows(self.whole(), self.reference) if n * d <= _SMALL else self

    def taken(self, index: np.ndarray, /) -> Rows:
        """Only the rows at host indices, in any order; the source is copied."""
        found = take(self.source, index)
        return replace(self, source=np.asarray(found) if is_host(found) else found)

    def at(self, index: np.ndarray, /) -> Array:
        """Rows at host indices, in any order, in place."""
        return self.taken(index).whole()

    def whole(self) -> Array:
        """All rows at once."""
        return self.block(0, self.shape[0])

    def blocks(self, width: int = 0, /) -> Iterator[tuple[int, int, Array]]:
        """Yield (start, stop, rows) in blocks that fit in memory beside `width` more columns."""
        n, d = self.shape
        columns = 3 * d + width
        # 2**17 rows are enough to keep every library busy
        size = block_size(
            self.reference, bytes_each=8 * columns, elements_each=columns, at_most=min(n, 2**17)
        )
        for start in range(0, n, size):
            stop = min(start + size, n)
            yield start, stop, self.block(start, stop)
