"""Copies of a row: what is left out of a fit must not stay in it under another number."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace, double_reference, index_like, to_host
from gpukfl._rows import Rows
from gpukfl.linalg import each_block

_AT_ONCE = 2**16  # rows that are compared with their neighbours at a time
_LOOKED_AT = 2**12  # different rows whose values are counted
_VALUES, _ROWS_A_VALUE = 20, 5  # at most so many values a column, so often at least, are cells
_HALF = np.uint64(32)  # of the bits of a value


def copies_of(X: Any, y: np.ndarray, /) -> tuple[np.ndarray, np.ndarray] | None:
    """Find rows of `X` that are equal, targets included.

    Equal rows of which some have other targets are measurements that were repeated, not copies.
    Where no column has more than 20 values and there are five times as many rows, as of
    categories, rows are cells of a table: equal by chance, and new rows will repeat them too.

    Parameters
    ----------
    X : array (n, d)
        Numbers, of any library; NaN is a gap, and equal to others.
    y : host array (n,) or (n, t)
        Targets or labels.

    Returns
    -------
    tuple of host arrays, or None
        Positions (k,) of the first of each row's copies, ascending, and for every row (n,) which
        of these it is a copy of. None where all rows differ.

    Notes
    -----
    O(n (d + log n)): rows are told apart by a hash of 64 bits, and compared where that is the
    same. A memory map is left as it is: what follows would be a copy of it in memory.
    """
    if isinstance(X, np.memmap) or X.shape[0] < 2:
        return None
    hashes = _hashes(X)
    if _all_differ(hashes):
        return None
    order = np.argsort(hashes, kind="stable")
    alike = hashes[order[1:]] == hashes[order[:-1]]
    pairs = np.flatnonzero(alike)
    alike[pairs] = _are_equal(X, order[pairs], order[pairs + 1])
    run = np.concatenate([[0], np.cumsum(~alike)])  # of equal rows, for each in order
    columns = y[order].reshape(len(y), -1)
    other_target = np.any(columns[1:] != columns[:-1], axis=1) & alike
    repeated = np.zeros(run[-1] + 1, dtype=bool)
    repeated[run[1:][other_target]] = True
    begins = np.concatenate([[True], ~alike]) | repeated[run]
    if begins.all() or _are_cells(X, order[begins]):
        return None
    # Numbered by where each set of copies begins in the data
    firsts = order[begins]
    place = np.argsort(np.argsort(firsts))
    group = np.empty(len(order), dtype=np.int64)
    group[order] = place[np.cumsum(begins) - 1]
    return np.sort(firsts), group


def without_copies(X: Any, y: Any, rows: np.ndarray, /) -> np.ndarray:
    """Leave out of the host indices `rows` all but one of the copies in a memory map.

    Elsewhere copies are one sample by then.
    """
    if not isinstance(X, np.memmap):
        return rows
    found = copies_of(np.array(X[rows]), y)
    return rows if found is None else rows[found[0]]


def _are_cells(X: Array, rows: np.ndarray) -> bool:
    """Whether each column of different rows, at host indices, has few values that come often."""
    xp = array_namespace(X)
    few = xp.asarray(np.sort(rows)[:_LOOKED_AT], **index_like(X))
    values = np.sort(to_host(xp.take(X, few, axis=0)), axis=0)
    values, gaps = np.nan_to_num(values), np.isnan(values)
    other = (values[1:] != values[:-1]) | (gaps[1:] != gaps[:-1])
    most = 1 + np.max(np.sum(other, axis=0))
    return bool(most <= min(_VALUES, X.shape[0] / _ROWS_A_VALUE))


def _hashes(X: Array) -> np.ndarray:
    """Hash the bits of every row, on the host: the same for equal rows (n,)."""
    (n, d), out = X.shape, np.empty(X.shape[0], dtype=np.uint64)
    rows = Rows(X, double_reference(X))
    factors = np.random.RandomState(0).randint(0, 2**63, d).astype(np.uint64) * 2 + 1

    def compute(start: int, stop: int) -> np.ndarray:
        bits = (to_host(rows.block(start, stop)) + 0.0).view(np.uint64)  # of 0 for -0
        # Low bits of round numbers are 0, and products carry upwards only
        mixed = (bits ^ bits >> _HALF) * factors
        return np.sum(mixed ^ mixed >> _HALF, axis=1)

    def take(start: int, stop: int, found: np.ndarray) -> None:
        out[start:stop] = found

    each_block(rows.reference, (0, n), d, compute, take)
    return out


def _all_differ(hashes: np.ndarray) -> bool:
    """Whether no number comes twice; a sort without the order takes a tenth of the time."""
    ranked = np.sort(hashes)
    return not np.any(ranked[1:] == ranked[:-1])


def _are_equal(X: Array, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether rows at some host indices equal those at others."""
    xp = array_namespace(X)
    found = []
    for start in range(0, len(first), _AT_ONCE):
        left, right = (
            xp.take(X, xp.asarray(rows[start : start + _AT_ONCE], **index_like(X)), axis=0)
            for rows in (first, second)
        )
        same = (left == right) | (xp.isnan(left) & xp.isnan(right))
        found.append(to_host(xp.all(same, axis=1)))
    return np.concatenate(found)


def total_weights(group: np.ndarray, weights: np.ndarray | None, /) -> np.ndarray:
    """Sum of the weights of each set of copies."""
    return np.bincount(group, weights=weights).astype(np.float64)
