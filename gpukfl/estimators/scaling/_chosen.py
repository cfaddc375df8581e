"""Which scaling suits some rows, where it is left open."""

from __future__ import annotations

import numpy as np

from gpukfl._rows import Rows
from gpukfl.estimators.scaling._base import ColumnScaling
from gpukfl.estimators.scaling._limits import limits_of
from gpukfl.estimators.scaling._quantile import QuantileScaling
from gpukfl.estimators.scaling._robust import RobustScaling
from gpukfl.estimators.scaling._sample import LARGE_SAMPLE, by_columns, weighted_sample
from gpukfl.estimators.scaling._standard import StandardScaling

SCALINGS: dict[str, type[ColumnScaling]] = {
    "standard": StandardScaling,
    "robust": RobustScaling,
    "quantile": QuantileScaling,
}
WORDS = ("auto", *SCALINGS, None)  # of the parameter `scaling`
# By cross-validation on 26 sets, between those that gain by bounds and those that lose
_HEAVY = 20.0


def learned_scaling(word: str, rows: Rows, weights: np.ndarray | None, /) -> ColumnScaling:
    """Learn the scaling of a word from unscaled rows (n, d) in float64, with positive weights (n,).

    "auto" is "robust" where a column has heavy tails, which would decide all distances, and
    "standard" elsewhere.
    """
    if word == "auto":
        word = "robust" if has_heavy_tails(rows, weights) else "standard"
    return SCALINGS[word].of(rows, weights)


def has_heavy_tails(rows: Rows, weights: np.ndarray | None, /) -> bool:
    """Whether a column has an excess kurtosis above 20, in a sample of at most 20 000 rows.

    Columns of two values have no tails: rare ones mark a category. Values that `limits_of` does not
    believe make none.
    """
    sample, w = weighted_sample(rows, weights, at_most=LARGE_SAMPLE)
    with np.errstate(over="ignore", invalid="ignore"):  # of limits, which then believe all
        return bool((by_columns(_excess_kurtosis, sample, w) > _HEAVY).any())


def _excess_kurtosis(X: np.ndarray, w: np.ndarray, /) -> np.ndarray:
    """Fourth moment over the square of the second, less 3, of columns (1, d); 0 of two values."""
    limits = limits_of(X, w)
    left_out = (limits[0] > X) | (limits[-1] < X)
    low = np.where(left_out, np.inf, X).min(axis=0)
    high = np.where(left_out, -np.inf, X).max(axis=0)
    extent = np.where(high > low, 0.5 * high - 0.5 * low, 1.0)
    Z = (0.5 * X - 0.25 * low - 0.25 * high) / extent  # within 0.5 of 0, so that nothing overflows
    Z, share = np.where(left_out, 0.0, Z), np.where(left_out, 0.0, w[:, None])
    share = share / share.sum(axis=0)
    Z = Z - (share * Z).sum(axis=0)
    squares = Z * Z
    second, fourth = (share * squares).sum(axis=0), (share * squares * squares).sum(axis=0)
    several = (~left_out & (low < X) & (high > X)).any(axis=0) & (second > 0)
    return np.where(several, fourth / np.where(several, second, 1.0) ** 2 - 3.0, 0.0)[None]
