"""Rows that come in clusters of nearly equal ones, which ordinary folds have on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.core._array import is_array, lies_in_parts, take_rows, to_host, unique_rows
from gpukfl.core._frames import as_frame, is_frame
from gpukfl.core._warnings import warn

_FEWEST = 40  # different rows below which clusters say little
_LOOKED_AT, _ASKED = 2_000, 200  # rows that are compared, and whose neighbours are looked at
_COLUMNS = 200  # that are looked at
_ELEMENTS = 10**7  # of the rows that are sorted by a direction
_VALUES = 20  # a column of at most so many is no measurement, but a category or a grid
_MOST_OF_ALL = 4  # clusters of so large a share of the rows are classes
_SMALLEST = 3  # rows of a cluster
_APART = 3.0  # times as far as the farthest of its cluster is the next row
_NEAR = 0.2  # of the typical distance, at most: nearly equal
_SHARE = 0.5  # of the rows, that are in such clusters


def warn_near_copies(X: Any, /) -> None:
    """Warn where most rows are in clusters of nearly equal rows.

    For a row in a homogeneous cloud of d dimensions the chance that its next neighbour after k
    others is t times as far as the last of these is :math:`t^{-k d}`: most rows see such a gap
    only in clusters. Columns of few values do not count. O(n d + n log n).
    """
    if has_near_copies(X):
        warn(
            "most rows are nearly equal to other rows. If these measure the same subjects, scores "
            "and intervals are too good for new subjects: pass groups=<the subject of each row>"
        )


def has_near_copies(X: Any, /) -> bool:
    """Whether most rows are in clusters of at least three nearly equal rows."""
    rows = _look_at_rows(X)
    if rows is None:
        return False
    rows, _ = unique_rows(rows)
    several = np.array([len(np.unique(column)) > _VALUES for column in rows.T], dtype=bool)
    rows = unique_rows(rows[:, several])[0] if several.any() else rows[:0]
    n = len(rows)
    if n < _FEWEST:
        return False
    scale = rows.std(axis=0)
    Z = (rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    asked = Z[np.linspace(0, n - 1, min(n, _ASKED)).astype(np.int64)]
    squares = np.sum(asked**2, axis=1)[:, None] - 2.0 * asked @ Z.T + np.sum(Z**2, axis=1)
    distances = np.sqrt(np.maximum(np.sort(squares, axis=1)[:, 1:], 0.0))  # but itself
    typical = float(np.median(distances))
    most = max(n // _MOST_OF_ALL, _SMALLEST)
    own, following = distances[:, _SMALLEST - 2 : most - 1], distances[:, _SMALLEST - 1 : most]
    apart = (following > _APART * own) & (own < _NEAR * typical)
    return bool(apart.any(axis=1).mean() >= _SHARE)


def _look_at_rows(X: Any) -> np.ndarray | None:
    """Return the finite numbers of some neighbouring rows, or None."""
    if isinstance(X, np.memmap) or lies_in_parts(X):
        return None
    if is_array(X):
        if X.ndim != 2 or X.shape[0] < _FEWEST or not X.shape[1]:
            return None
        host = None if X.shape[0] * min(X.shape[1], _COLUMNS) > _ELEMENTS else _numbers(X)
    elif is_frame(X):
        host = _numbers_of_frame(as_frame(X))
    else:
        return None
    if host is None or len(host) < _FEWEST or not host.shape[1]:
        return None
    gaps = ~np.isfinite(host)
    host = np.where(gaps, 0.0, host)
    largest = np.abs(host).max(axis=0)
    host = host / np.where(largest > 0, largest, 1.0)  # whose squares do not overflow
    means = host.sum(axis=0) / np.maximum(np.count_nonzero(~gaps, axis=0), 1)
    host = np.where(gaps, means, host)
    if len(host) <= _LOOKED_AT:
        return host
    # Nearly equal rows are neighbours along any direction
    scale = host.std(axis=0)
    direction = np.random.RandomState(0).normal(size=host.shape[1]) / np.where(scale > 0, scale, 1)
    order = np.argsort(host @ direction, kind="stable")
    start = (len(order) - _LOOKED_AT) // 2
    return host[order[start : start + _LOOKED_AT]]


def _numbers(X: Any) -> np.ndarray | None:
    """Return an array of numbers on the host in float64; None of other values."""
    try:
        some = X[:, : min(_COLUMNS, X.shape[1])]
        host = to_host(take_rows(some, np.arange(X.shape[0])))
    except (RuntimeError, TypeError, ValueError):  # the checks of the fit tell what is wrong
        return None
    return host.astype(np.float64) if host.dtype.kind in "fiu" else None


def _numbers_of_frame(frame: Any) -> np.ndarray:
    """Return the columns of a frame that are numbers, in float64."""
    kept = [name for name in range(frame.shape[1]) if frame.dtypes.iloc[name].kind in "fiu"]
    some = frame.iloc[:, kept[:_COLUMNS]]
    if some.size > _ELEMENTS:
        some = some.iloc[:, :0]
    found: np.ndarray = some.to_numpy(dtype=np.float64, na_value=np.nan)
    return found
