"""Some of the rows, and quantiles of their columns by weight."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpukfl._array import Array, take, to_host
from gpukfl._rows import Rows

_ROWS, _CELLS = 5_000, 2**22  # at most
LARGE_SAMPLE = 20_000  # rows


def sampled(n: int, d: int, *, at_most: int = _ROWS) -> np.ndarray:
    """Rows to look at, the same in every call."""
    count = min(at_most, max(_CELLS // d, 200))
    if n <= count:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, count, replace=False))


def weighted_sample(
    rows: Rows, weights: np.ndarray | None, /, *, at_most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Take some of the rows of positive weight to the host, and their weights."""
    n, d = rows.shape
    if isinstance(weights, np.ndarray):
        kept = np.flatnonzero(weights)
        index = kept[sampled(len(kept), d, at_most=at_most)]
    else:
        index = sampled(n, d, at_most=at_most)
    return to_host(rows.at(index)), weights_of(weights, index)


def weights_of(weights: Array | None, rows: np.ndarray | slice, /) -> np.ndarray:
    """Weights of some rows, on the host: at host indices, or in a slice of those that are here."""
    if weights is None:
        return np.ones(rows.stop - rows.start if isinstance(rows, slice) else len(rows))
    return to_host(weights[rows] if isinstance(rows, slice) else take(weights, rows))


def by_columns(
    of: Callable[[np.ndarray, np.ndarray], np.ndarray], X: np.ndarray, w: np.ndarray, /
) -> np.ndarray:
    """Compute something (k, d) of the columns of `X` (m, d), some at a time, to copy few."""
    width = max(2**18 // len(X), 1)
    parts = (X[:, j : j + width] for j in range(0, X.shape[1], width))
    return np.concatenate([of(part, w) for part in parts], axis=1)


def quantiles(X: np.ndarray, weights: np.ndarray, *shares: float) -> np.ndarray:
    """Lowest values (k, d) of the columns that have each of k shares of the weight up to them.

    `X` (m, d) and its weights (m, d). Where all weights are one number or 0, values alone are
    sorted, in a tenth of the time.
    """
    counted = weights > 0
    if weights.max() == weights.min(where=counted, initial=np.inf):
        values = np.sort(np.ascontiguousarray(np.where(counted, X, np.inf).T), axis=1)
        least = np.outer((1.0 - 1e-12) * np.asarray(shares), counted.sum(axis=0))
        first = np.ceil(least).astype(np.intp) - 1
        return np.take_along_axis(values, np.maximum(first, 0).T, axis=1).T
    order = np.argsort(X, axis=0, kind="stable")
    up_to = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
    reached = (up_to >= (1.0 - 1e-12) * share * up_to[-1] for share in shares)
    first = np.stack([np.argmax(one, axis=0) for one in reached])
    return np.take_along_axis(X, np.take_along_axis(order, first, axis=0), axis=0)
