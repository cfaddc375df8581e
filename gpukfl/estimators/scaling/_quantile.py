"""Normal scores of ranks, by a table of quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from gpukfl._array import Array, array_namespace, like, to_host
from gpukfl._passes import lowest, reduce_rows
from gpukfl._rows import Rows
from gpukfl.estimators._declared import DOUBLE, Numbers
from gpukfl.estimators.scaling._base import ColumnScaling
from gpukfl.estimators.scaling._sample import LARGE_SAMPLE, weighted_sample, weights_of
from gpukfl.linalg import interpolate_columns

_MOST, _CELLS, _FEWEST = 1000, 2**22, 100  # quantiles of a column, of all, and of one of many
_ROUNDING = 1e-12  # of a value, and of a column's largest where the column does not vary

Table = tuple[np.ndarray, np.ndarray]  # values of a column, and their shares


@dataclass(frozen=True, eq=False)
class QuantileScaling(ColumnScaling):
    r"""Normal scores of the ranks: :math:`\Phi^{-1}` of the share of the weight below a value.

    Of equal values half counts as below, so that a column of ties is in the middle of its scores.
    Linear between the quantiles of a table, and constant beyond its ends.

    Attributes
    ----------
    values, scores : host array, shape (d, q)
        Quantiles of each column, ascending, and their scores. A column with fewer repeats its last.

    References
    ----------
    .. [1] Blom, "Statistical estimates and transformed beta-variables", 1958: normal scores.
    """

    values: Array
    scores: Array
    fields: ClassVar = {
        name: Numbers(DOUBLE, ("n_features", "n_quantiles")) for name in ("values", "scores")
    }
    unit: ClassVar[str] = "normal scores"
    note: ClassVar[str] = (
        "Importances, directions and projections are of scaled features: normal scores of their "
        "ranks."
    )

    @classmethod
    def of(cls, rows: Rows, weights: np.ndarray | None, /) -> Self:
        """Learn from unscaled rows (n, d) in float64: all if they are at most 20 000.

        From more, quantiles are those of some of the rows, and both ends those of all.

        Raises
        ------
        ValueError
            If the range of a column overflows.
        """
        from scipy.special import ndtri

        sample, w = weighted_sample(rows, weights, at_most=LARGE_SAMPLE)
        d = sample.shape[1]
        ends = _ends(rows, weights) if len(sample) < rows.shape[0] else None
        at_most = min(_MOST, max(_CELLS // d, _FEWEST))
        tables = []
        for j in range(d):
            table = _ranked(sample[:, j], w)
            if ends is not None:
                table = _extended(table, ends[0, j], ends[1, j], rows.shape[0])
            tables.append(_thinned(table, at_most))
        q = max(len(values) for values, _ in tables)
        padded = [[np.pad(part, (0, q - len(part)), "edge") for part in table] for table in tables]
        values, shares = np.stack(padded, axis=1)
        return cls(values, ndtri(shares))

    def __call__(self, X: Array, /) -> Array:
        """Scale `X` (m, d), of float64, where it is."""
        xp = array_namespace(X)
        values, scores = (xp.asarray(part, **like(X)) for part in (self.values, self.scores))
        return interpolate_columns(X, values, scores)

    def of_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Give the scaling of some columns, whose results are multiplied by positive factors."""
        return type(self)(self.values[columns], self.scores[columns] * factors[:, None])

    @property
    def is_sound(self) -> bool:
        """Whether its arrays are finite and ascending, and not empty."""
        parts = [to_host(part) for part in (self.values, self.scores)]
        ascending = all(bool((part[:, 1:] >= part[:, :-1]).all()) for part in parts)
        return super().is_sound and ascending and self.values.shape[1] > 0


def _ranked(x: np.ndarray, w: np.ndarray, /) -> Table:
    """Different values of a column (m,), ascending, and the shares of weight below them.

    Those that differ by rounding are one: between them scores would rise as at a cliff.
    """
    values, which = np.unique(x, return_inverse=True)
    sizes = np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    with np.errstate(over="ignore"):  # reported when it is thinned
        first = np.append(True, np.diff(values) > _ROUNDING * sizes)
    values, mass = values[first], np.bincount((np.cumsum(first) - 1)[which], w)
    up_to = np.cumsum(mass)
    return values, (up_to - 0.5 * mass) / up_to[-1]


def _extended(table: Table, lowest: float, highest: float, n: int, /) -> Table:
    """Add the ends of all n rows to the values of some."""
    values, shares = table
    if lowest < values[0]:
        values = np.append(lowest, values)
        shares = np.append(min(0.5 / n, shares[0]), shares)
    if highest > values[-1]:
        values = np.append(values, highest)
        shares = np.append(shares, max(1.0 - 0.5 / n, shares[-1]))
    return values, shares


def _thinned(table: Table, at_most: int, /) -> Table:
    """Keep so many values, at equal steps of their shares, with both ends; one if none varies."""
    values, shares = table
    with np.errstate(over="ignore"):  # reported just below
        extent = values[-1] - values[0]
    if not np.isfinite(extent):
        msg = "X overflows float64 when it is scaled: expected ranges below 1e308"
        raise ValueError(msg)
    if extent <= _ROUNDING * np.abs(values[[0, -1]]).max():
        return values[:1], np.full(1, 0.5)
    if len(values) <= at_most:
        return values, shares
    steps = np.linspace(shares[0], shares[-1], at_most)
    kept = np.unique(np.searchsorted(shares, steps).clip(max=len(values) - 1))
    return values[kept], shares[kept]


def _ends(rows: Rows, weights: np.ndarray | None, /) -> np.ndarray:
    """Lowest and highest values (2, d) of all rows of positive weight."""

    def part(start: int, stop: int) -> tuple[np.ndarray]:
        ends = np.full((2, rows.shape[1]), np.inf)
        for first, last, block in rows.blocks(start=start, stop=stop):
            X = to_host(block)[weights_of(weights, slice(first, last)) > 0]
            both = X.min(axis=0, initial=np.inf), -X.max(axis=0, initial=-np.inf)
            ends = np.minimum(ends, both)
        return (ends,)

    (ends,) = reduce_rows(rows.source, part, combine=lowest)
    low, minus_high = to_host(ends)
    return np.stack([low, -minus_high])
