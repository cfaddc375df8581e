"""Hashes of rows, to find equal rows."""

from __future__ import annotations

import numpy as np

_HALF = np.uint64(32)  # half of the 64 bits of a value


def row_factors(d: int, /) -> np.ndarray:
    """Return the odd factors (d,) of the columns of a hash."""
    return np.random.RandomState(0).randint(0, 2**63, d).astype(np.uint64) * 2 + 1


def hash_rows(rows: np.ndarray, factors: np.ndarray, /) -> np.ndarray:
    """Return hashes (n,) of 64 bits of the rows (n, d) of a host array.

    Equal rows have equal hashes. 0 equals -0, and all NaN are equal.
    """
    wide = rows.astype(np.float64) + 0.0  # 0 for -0
    missing = np.isnan(wide)
    if missing.any():
        wide[missing] = np.nan
    bits = wide.view(np.uint64)
    # Round numbers have low bits 0, and carries of products go up only: mix both halves
    mixed = (bits ^ bits >> _HALF) * factors
    return np.sum(mixed ^ mixed >> _HALF, axis=1)
