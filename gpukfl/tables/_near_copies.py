"""Clusters of nearly equal rows, which ordinary folds split between training and held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.core._array import is_array, lies_in_parts, take_rows, to_host, unique_rows
from gpukfl.core._frames import as_frame, is_frame
from gpukfl.core._warnings import warn

_MIN_ROWS = 40  # distinct rows, fewer are not tested
_MAX_ROWS, _QUERIES = 2_000, 200  # rows compared, and rows whose neighbours are found among them
_COLUMNS = 200  # compared
_ELEMENTS = 10**7  # of an array; larger ones are not tested
_FEW_VALUES = 20  # at most so many distinct values: a category or a grid, not a measurement
_LARGEST_PART = 4  # a cluster with more than 1 / 4 of the rows is a class
_SMALLEST = 3  # rows
_GAP_RATIO = 3.0  # least ratio of the next row's distance to the cluster's largest
_NEAR_SHARE = 0.2  # largest distance in a cluster, as a share of the median distance
_CLUSTERED_SHARE = 0.5  # least share of rows in clusters for a warning


def warn_near_copies(X: Any, /) -> None:
    """Warn where most rows are in clusters of nearly equal rows.

    In a homogeneous cloud of d dimensions, neighbour k + 1 is t times as far as neighbour k with
    probability :math:`t^{-k d}`. Most rows have such a gap only if they are in clusters. Columns of
    few values do not count. O(n d + n log n).
    """
    if has_near_copies(X):
        warn(
            "most rows are nearly equal to other rows. If these measure the same subjects, scores "
            "and intervals are too good for new subjects: pass groups=<the subject of each row>"
        )


def has_near_copies(X: Any, /) -> bool:
    """Whether most rows are in clusters of at least three nearly equal rows."""
    rows = _sample_rows(X)
    if rows is None:
        return False
    rows, _ = unique_rows(rows)
    several = np.array([len(np.unique(column)) > _FEW_VALUES for column in rows.T], dtype=bool)
    rows = unique_rows(rows[:, several])[0] if several.any() else rows[:0]
    n = len(rows)
    if n < _MIN_ROWS:
        return False
    scale = rows.std(axis=0)
    Z = (rows - rows.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    asked = Z[np.linspace(0, n - 1, min(n, _QUERIES)).astype(np.int64)]
    squares = np.sum(asked**2, axis=1)[:, None] - 2.0 * asked @ Z.T + np.sum(Z**2, axis=1)
    distances = np.sqrt(np.maximum(np.sort(squares, axis=1)[:, 1:], 0.0))  # without the row itself
    typical = float(np.median(distances))
    most = max(n // _LARGEST_PART, _SMALLEST)
    own, following = distances[:, _SMALLEST - 2 : most - 1], distances[:, _SMALLEST - 1 : most]
    apart = (following > _GAP_RATIO * own) & (own < _NEAR_SHARE * typical)
    return bool(apart.any(axis=1).mean() >= _CLUSTERED_SHARE)


def _sample_rows(X: Any) -> np.ndarray | None:
    """Return the finite numbers of some neighbouring rows, or None."""
    if isinstance(X, np.memmap) or lies_in_parts(X):
        return None
    if is_array(X):
        if X.ndim != 2 or X.shape[0] < _MIN_ROWS or not X.shape[1]:
            return None
        host = None if X.shape[0] * min(X.shape[1], _COLUMNS) > _ELEMENTS else _host_numbers(X)
    elif is_frame(X):
        host = _frame_numbers(as_frame(X))
    else:
        return None
    if host is None or len(host) < _MIN_ROWS or not host.shape[1]:
        return None
    gaps = ~np.isfinite(host)
    host = np.where(gaps, 0.0, host)
    largest = np.abs(host).max(axis=0)
    host = host / np.where(largest > 0, largest, 1.0)  # so that squares do not overflow
    means = host.sum(axis=0) / np.maximum(np.count_nonzero(~gaps, axis=0), 1)
    host = np.where(gaps, means, host)
    if len(host) <= _MAX_ROWS:
        return host
    # Nearly equal rows are neighbours along any direction
    scale = host.std(axis=0)
    direction = np.random.RandomState(0).normal(size=host.shape[1]) / np.where(scale > 0, scale, 1)
    order = np.argsort(host @ direction, kind="stable")
    start = (len(order) - _MAX_ROWS) // 2
    return host[order[start : start + _MAX_ROWS]]


def _host_numbers(X: Any) -> np.ndarray | None:
    """Return an array of numbers on the host in float64; None of other values."""
    try:
        some = X[:, : min(_COLUMNS, X.shape[1])]
        host = to_host(take_rows(some, np.arange(X.shape[0])))
    except (RuntimeError, TypeError, ValueError):  # reported by the checks of the fit
        return None
    return host.astype(np.float64) if host.dtype.kind in "fiu" else None


def _frame_numbers(frame: Any) -> np.ndarray:
    """Return the columns of a frame that are numbers, in float64."""
    kept = [name for name in range(frame.shape[1]) if frame.dtypes.iloc[name].kind in "fiu"]
    some = frame.iloc[:, kept[:_COLUMNS]]
    if some.size > _ELEMENTS:
        some = some.iloc[:, :0]
    found: np.ndarray = some.to_numpy(dtype=np.float64, na_value=np.nan)
    return found
