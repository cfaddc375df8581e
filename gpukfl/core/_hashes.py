"""Hashes of rows, by which equal ones are found."""

from __future__ import annotations

import numpy as np

_HALF = np.uint64(32)  # of the bits of a value


def row_factors(d: int, /) -> np.ndarray:
    """Return the odd factors (d,) of the columns of a hash."""
    return np.random.RandomState(0).randint(0, 2**63, d).astype(np.uint64) * 2 + 1


def hash_rows(rows: np.ndarray, factors: np.ndarray, /) -> np.ndarray:
    """Return a hash of 64 bits (n,) of each row (n, d) of a host array.

    Equal rows have equal hashes: 0 and -0 are equal, and so are all NaN.
    """
    wide = rows.astype(np.float64) + 0.0  # 0 for -0
    gaps = np.isnan(wide)
    if gaps.any():
        wide[gaps] = np.nan
    bits = wide.view(np.uint64)
    # Low bits of round numbers are 0, and products carry upwards only
    mixed = (bits ^ bits >> _HALF) * factors
    return np.sum(mixed ^ mixed >> _HALF, axis=1)
