"""Some of the rows, and quantiles of their columns by weight."""

from __future__ import annotations

import numpy as np

_ROWS, _CELLS = 5_000, 2**22  # at most


def sampled(n: int, d: int, *, at_most: int = _ROWS) -> np.ndarray:
    """Rows to look at, the same in every call."""
    count = min(at_most, max(_CELLS // d, 200))
    if n <= count:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, count, replace=False))


def quantile(X: np.ndarray, weights: np.ndarray, share: float) -> np.ndarray:
    """Lowest value of each column that has at least this share of the weight up to it."""
    order = np.argsort(X, axis=0, kind="stable")
    up_to = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
    first = np.argmax(up_to >= (1.0 - 1e-12) * share * up_to[-1], axis=0)
    return np.take_along_axis(X, np.take_along_axis(order, first[None], axis=0), axis=0)[0]
