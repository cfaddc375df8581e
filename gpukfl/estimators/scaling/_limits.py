"""Limits beyond which the values of a column are not believed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpukfl._array import to_host
from gpukfl._rows import Rows
from gpukfl.estimators.scaling._sample import quantiles

# What 2 % of a column's values do is believed, however far away they are
_COMMON, REACH = 0.98, 20.0


def limits_of(X: np.ndarray, w: np.ndarray, /) -> np.ndarray:
    """Limits (4, d) of the columns of `X` (m, d); infinite where a column does not vary.

    Lowest and highest value that are believed, and between them the quantiles of those that are.
    """
    wide = np.broadcast_to(w[:, None], X.shape)
    (middle,) = quantiles(X, wide, 0.5)
    gaps = np.abs(X - middle)
    varying = np.where(gaps > 1e-12 * np.abs(middle), wide, 0.0)
    reach = REACH * quantiles(gaps, varying, _COMMON)[0]
    reach = np.where(varying.any(axis=0), reach, np.inf)
    believed = np.where(gaps <= reach, wide, 0.0)
    low, high = quantiles(X, believed, 0.5 - _COMMON / 2, 0.5 + _COMMON / 2)
    return np.stack([middle - reach, low, high, middle + reach])


def blocks_beyond(
    rows: Rows, limits: np.ndarray, start: int, stop: int, /
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield (some rows, their values, whether these are beyond the limits) from one to another."""
    limits = to_host(limits)
    for first, last, block in rows.blocks(start=start, stop=stop):
        X = to_host(block).astype(np.float64, copy=False)
        yield slice(first, last), X, (limits[0] > X) | (limits[-1] < X)
