"""What stands for gaps where the rows of the fit had none."""

from __future__ import annotations

import numpy as np

from gpukfl.core._array import Array, to_host


def medians_of(rows: Array, weights: np.ndarray, /) -> np.ndarray:
    """Medians (d,) of those rows (m, d) whose weight is positive."""
    return np.median(to_host(rows)[weights > 0].astype(np.float64), axis=0)
