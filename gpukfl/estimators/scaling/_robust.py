"""Median and interquartile range, and a smooth end to what lies far out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from gpukfl._array import Array, array_namespace, clipped, like, to_host
from gpukfl._passes import lowest, reduce_rows
from gpukfl._rows import Rows
from gpukfl.estimators._declared import DOUBLE, Numbers
from gpukfl.estimators.scaling._base import ColumnScaling
from gpukfl.estimators.scaling._limits import blocks_beyond, limits_of
from gpukfl.estimators.scaling._sample import (
    LARGE_SAMPLE,
    by_columns,
    quantiles,
    weighted_sample,
    weights_of,
)

_BOUND = 3.0  # interquartile ranges that nothing exceeds, as in the reference
_ROUNDING = 1e-12  # of the median: what a column that does not vary may vary by
_HUGE = 1e150  # whose square is a number


@dataclass(frozen=True, eq=False)
class RobustScaling(ColumnScaling):
    r"""Less the median, over the interquartile range, bounded smoothly.

    .. math:: z = (x - m) / s, \qquad z / \sqrt{1 + (z / 3)^2}

    Where the interquartile range is 0, s is half the range of the values that `limits_of` believes,
    and where that is 0 too, the column is 0.

    Attributes
    ----------
    median, factor : host array, shape (d,)
        m and 1/s; the latter is 0 for a column that does not vary.
    bound : host array, shape (d,)
        3: what no absolute value exceeds.

    References
    ----------
    .. [1] Holzmüller, Grinsztajn and Steinwart, "Better by default: strong pre-tuned MLPs and
       boosted trees on tabular data", NeurIPS 2024, Section 3.
    """

    median: Array
    factor: Array
    bound: Array
    fields: ClassVar = {
        name: Numbers(DOUBLE, ("n_features",)) for name in ("median", "factor", "bound")
    }
    unit: ClassVar[str] = "interquartile ranges, bounded by 3"
    note: ClassVar[str] = (
        "Importances, directions and projections are of scaled features: interquartile ranges from "
        "the median, bounded smoothly by 3."
    )

    @classmethod
    def of(cls, rows: Rows, weights: np.ndarray | None, /) -> Self:
        """Learn from unscaled rows (n, d) in float64: quantiles from at most 20 000 of them.

        Raises
        ------
        ValueError
            If a range overflows.
        """
        sample, w = weighted_sample(rows, weights, at_most=LARGE_SAMPLE)
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            median, spread = by_columns(_quartiles, sample, w)
            tied = ~(spread > _ROUNDING * np.abs(median))
            if tied.any():
                limits = by_columns(limits_of, sample, w)
                extent = _half_range(rows, weights, limits)
                extent = np.where(extent > _ROUNDING * np.abs(median), extent, 0.0)
                spread = np.where(tied, extent, spread)
            factor = np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), 0.0)
        if not (np.isfinite(spread).all() and np.isfinite(factor).all()):
            msg = "X overflows float64 when it is scaled: expected ranges from 1e-307 to 1e308"
            raise ValueError(msg)
        return cls(median, factor, np.full(len(median), _BOUND))

    def __call__(self, X: Array, /) -> Array:
        """Scale `X` (m, d), of float64, where it is."""
        xp = array_namespace(X)
        median, factor, bound = (
            xp.asarray(part, **like(X)) for part in (self.median, self.factor, self.bound)
        )
        with np.errstate(over="ignore"):  # to infinity, which is bounded too
            z = clipped((X - median) * factor, low=-_HUGE, high=_HUGE)
        return z / xp.sqrt(1.0 + (z / bound) ** 2)

    def of_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Give the scaling of some columns, whose results are multiplied by positive factors."""
        by = self.factor[columns] * factors, self.bound[columns] * factors
        return type(self)(self.median[columns], *by)

    @property
    def is_sound(self) -> bool:
        """Whether its arrays are finite, factors at least 0, and bounds positive."""
        signs = (to_host(self.factor) >= 0).all() and (to_host(self.bound) > 0).all()
        return super().is_sound and bool(signs)


def _quartiles(X: np.ndarray, w: np.ndarray, /) -> np.ndarray:
    """Median and interquartile range (2, d) of the columns of `X` (m, d)."""
    wide = np.broadcast_to(w[:, None], X.shape)
    # Halfway between the lowest and the highest values that are quantiles, so that X and -X agree
    lowest, highest = quantiles(X, wide, 0.25, 0.5, 0.75), -quantiles(-X, wide, 0.75, 0.5, 0.25)
    low, middle, high = 0.5 * lowest + 0.5 * highest
    return np.stack([middle, high - low])


def _half_range(rows: Rows, weights: np.ndarray | None, limits: np.ndarray, /) -> np.ndarray:
    """Half the range (d,) of those values of all rows that lie within the limits."""

    def part(start: int, stop: int) -> tuple[np.ndarray]:
        ends = np.full((2, rows.shape[1]), np.inf)
        for block, X, beyond in blocks_beyond(rows, limits, start, stop):
            out = beyond | (weights_of(weights, block) == 0)[:, None]
            both = np.where(out, np.inf, X).min(axis=0), np.where(out, np.inf, -X).min(axis=0)
            ends = np.minimum(ends, both)
        return (ends,)

    (ends,) = reduce_rows(rows.source, part, combine=lowest)
    low, minus_high = to_host(ends)
    return -0.5 * minus_high - 0.5 * low
