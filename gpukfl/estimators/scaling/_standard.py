"""Mean and scale of each column, and limits beyond which values are not believed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from gpukfl._array import Array, array_namespace, like, to_host
from gpukfl._passes import reduce_rows
from gpukfl._rows import Rows
from gpukfl.estimators._declared import DOUBLE, Numbers
from gpukfl.estimators.scaling._base import ColumnScaling
from gpukfl.estimators.scaling._limits import REACH, blocks_beyond, limits_of
from gpukfl.estimators.scaling._sample import by_columns, sampled, weights_of


@dataclass(frozen=True, eq=False)
class StandardScaling(ColumnScaling):
    """Zero mean and unit variance: ``(x - mean) / scale``, after wild values were replaced.

    Attributes
    ----------
    mean, scale : host array, shape (d,)
        Mean and standard deviation; the latter is 1 for a column that does not vary.
    limits : host array, shape (4, d)
        Lowest value that is taken as it is, the 1 % and the 99 % quantile, which take the place of
        values below and above, and the highest.
    """

    mean: Array
    scale: Array
    limits: Array
    fields: ClassVar = {
        "mean": Numbers(DOUBLE, ("n_features",)),
        "scale": Numbers(DOUBLE, ("n_features",)),
        "limits": Numbers(DOUBLE, (4, "n_features")),
    }
    unit: ClassVar[str] = "standard deviations"
    note: ClassVar[str] = (
        "Importances, directions and projections are in standard deviations of the features."
    )

    @classmethod
    def of(cls, rows: Rows, weights: np.ndarray | None, /) -> Self:
        """Learn from unscaled rows (n, d) in float64; see `column_statistics`."""
        return cls(*column_statistics(rows, weights))

    @classmethod
    def none(cls, d: int, /) -> Self:
        """Give the one that changes nothing."""
        ends = np.full((2, d), np.inf)
        return cls(np.zeros(d), np.ones(d), np.concatenate([-ends, ends]))

    def __call__(self, X: Array, /) -> Array:
        """Scale `X` (m, d), of float64, where it is."""
        xp = array_namespace(X)
        host = np.vstack([to_host(part) for part in (self.limits, self.mean, self.scale)])
        numbers = xp.asarray(host, **like(X))
        lowest, low, high, highest, mean, scale = (numbers[k, :] for k in range(6))
        X = xp.where(lowest > X, low, xp.where(highest < X, high, X))
        return (X - mean) / scale

    def of_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Give the scaling of some columns, whose results are multiplied by positive factors."""
        parts = self.mean[columns], self.scale[columns] / factors, self.limits[:, columns]
        return type(self)(*parts)

    @property
    def is_sound(self) -> bool:
        """Whether its arrays are finite, and scales positive."""
        return super().is_sound and bool((to_host(self.scale) > 0).all())


def column_statistics(
    rows: Rows, weights: np.ndarray | None, /
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted mean and standard deviation (d,) of each column, and its limits (4, d).

    These are the lowest value that is believed, the 1 % and 99 % quantiles, which take the place of
    those that are not, and the highest. Believed is what is at most 20 times as far from the
    median as 98 % of the values of a sample that differ from it: 47 standard deviations of a
    normal column, and more where tails are heavy. Other values are left out of mean and standard
    deviation. Data are read by blocks, sums are in float64. A column that does not vary has
    standard deviation 1, so that dividing leaves it as it is.

    Raises
    ------
    ValueError
        If the squares of deviations overflow.
    """
    n, d = rows.shape
    index = sampled(n, d)

    def sums(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        first, total = np.zeros(d), np.zeros(d)
        for block, X, beyond in blocks_beyond(rows, limits, start, stop):
            w = weights_of(weights, block)
            first += w @ _without(X, beyond)
            total += w.sum() - w @ beyond
        return first, total

    def squares_around(start: int, stop: int) -> tuple[np.ndarray]:
        squares = np.zeros(d)
        for block, X, beyond in blocks_beyond(rows, limits, start, stop):
            small = (X - to_host(mean)) / to_host(unit)
            squares += weights_of(weights, block) @ _without(small, beyond) ** 2
        return (squares,)

    with np.errstate(over="ignore", invalid="ignore"):  # reported just below
        limits = by_columns(limits_of, to_host(rows.at(index)), weights_of(weights, index))
        unit = _unit(limits)
        first, total = map(to_host, reduce_rows(rows.source, sums))
        mean = first / total
        (squares,) = map(to_host, reduce_rows(rows.source, squares_around))
        spread = np.sqrt(squares / total) * unit
    if not np.isfinite(spread).all():
        msg = "X overflows float64 when it is standardised: expected deviations below 1e306"
        raise ValueError(msg)
    varies = spread > 1e-12 * np.abs(mean)  # more than rounding, however small the unit is
    scale = np.where(varies, spread, 1.0)
    # Where the sample does not vary, nothing is beyond what n values of this spread can reach
    reach = np.maximum(REACH * scale, math.sqrt(n) * spread)
    unlimited = np.stack([mean - reach, *limits[1:3], mean + reach])
    return mean, scale, np.where(np.isfinite(limits), limits, unlimited)


def _unit(limits: np.ndarray) -> np.ndarray:
    """Powers of two (d,), which round nothing: squares of deviations then fit in float64."""
    return np.ldexp(1.0, np.minimum(np.frexp(limits[3] - limits[0])[1], 1023))


def _without(X: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    return np.where(beyond, 0.0, X) if beyond.any() else X
