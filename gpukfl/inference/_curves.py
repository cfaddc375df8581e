"""Curves of a function as linear functionals of it: partial dependence, local effects, profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gpukfl.inspection import direction_name
from gpukfl.tables._encoding import Category

TAIL = 0.02  # of the rows beyond either end of a curve
_AT_ONCE = 2_000  # points at which a function is asked, so that kernels with all rows fit memory


@dataclass(frozen=True, eq=False)
class Curve:
    """Values at some points, averaged with weights: what of a function a picture shows.

    Attributes
    ----------
    name : str
        Of the feature or direction.
    steps : array, shape (g,)
        Where it is.
    points : array, shape (p, d)
        Rows at which the function is evaluated.
    weights : array, shape (g, p)
        What of each makes the curve.
    centered : bool
        Whether a constant of the function drops out.
    strata : array of int, shape (b,), or None
        Of curves that are means over rows, which of these are drawn alike: all, or those of an
        interval. Points are those of all rows, for one value after the other.
    labels : tuple of str
        Of the steps, where these are levels of a category.
    """

    name: str
    steps: np.ndarray
    points: np.ndarray
    weights: np.ndarray
    centered: bool = True
    strata: np.ndarray | None = None
    labels: tuple[str, ...] = ()

    def of(self, function: Callable[[np.ndarray], np.ndarray], /) -> np.ndarray:
        """Give the curve (..., g, q) of a function of rows with values (..., m, q)."""
        parts = (
            self.weights[:, begin : begin + _AT_ONCE]
            @ function(self.points[begin : begin + _AT_ONCE])
            for begin in range(0, len(self.points), _AT_ONCE)
        )
        return sum(parts, np.zeros(()))

    def spread(self, values: np.ndarray, /) -> np.ndarray:
        """Covariance (g, g) of the curve over draws of its rows, by values (p,) of a function."""
        g = len(self.steps)
        if self.strata is None:
            return np.zeros((g, g))
        parts = (self.weights * values).reshape(g, -1, len(self.strata)).sum(axis=1)
        members = self.strata == np.unique(self.strata)[:, None]  # (s, b)
        counts = members.sum(axis=1)
        away = parts - (parts @ members.T / counts) @ members
        factor = (counts / np.maximum(counts - 1, 1)) @ members
        return (factor * away) @ away.T


def partial_dependence(
    X: np.ndarray, feature: int, name: str, /, *, points: int, background: np.ndarray
) -> Curve:
    r"""Average a function over background rows (b, d) at values of a feature.

    Less the mean over these values, each of which counts alike.

    .. math:: t \mapsto \frac1b \sum_i f(t, x_{i, -j})
    """
    steps = _values(X[:, feature], points)
    rows, weights = _each_at(background, [feature], steps[:, None])
    alike = np.zeros(len(background), dtype=np.int64)
    return Curve(name, steps, rows, weights, strata=alike)


def levels(X: np.ndarray, category: Category, /, *, background: np.ndarray) -> Curve:
    """Average a function over background rows (b, d) at the levels of a category.

    Less the mean over the levels, each of which counts alike.
    """
    examples, labels = category.examples(X)
    rows, weights = _each_at(background, category.columns, examples)
    alike, steps = np.zeros(len(background), dtype=np.int64), np.arange(float(len(labels)))
    return Curve(category.name, steps, rows, weights, strata=alike, labels=labels)


def _each_at(
    background: np.ndarray, columns: Sequence[int], values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """All rows with each of the values (g, c) in some columns, and weights of their means."""
    b, g = len(background), len(values)
    rows = np.tile(background, (g, 1))
    rows[:, columns] = np.repeat(values, b, axis=0)
    weights = np.kron(np.eye(g), np.full((1, b), 1.0 / b))
    return rows, weights - weights.mean(axis=0)


def accumulated_effects(
    X: np.ndarray, feature: int, name: str, /, *, points: int, background: np.ndarray
) -> Curve:
    """Add up the mean differences across intervals of a feature, of the rows that are inside.

    Apley and Zhu's accumulated local effects, less their mean over the rows X that are between the
    first and the last step: beyond, the curve says nothing.
    """
    steps = _values(X[:, feature], points)
    rows, interval = background, _intervals(steps, background[:, feature])
    rows, interval = rows[interval >= 0], interval[interval >= 0]
    filled, interval, counts = np.unique(interval, return_inverse=True, return_counts=True)
    # An interval without rows is joined to the one below it
    edges = np.append(steps[filled], steps[-1])
    edges[0] = steps[0]
    low, high = rows.copy(), rows.copy()
    low[:, feature], high[:, feature] = edges[interval], edges[interval + 1]
    local = (interval == np.arange(len(counts))[:, None]) / counts[:, None]
    total = np.concatenate([np.zeros((1, len(rows))), np.cumsum(local, axis=0)])
    everywhere = _intervals(edges, X[:, feature])
    shares = np.bincount(everywhere[everywhere >= 0]) / np.count_nonzero(everywhere >= 0)
    weights = total - shares @ (0.5 * (total[:-1] + total[1:])[: len(shares)])
    return Curve(
        name,
        edges,
        np.concatenate([high, low]),
        np.concatenate([weights, -weights], axis=1),
        strata=interval,
    )


def profile(
    X: np.ndarray,
    scaled: np.ndarray,
    directions: np.ndarray,
    rank: int,
    names: tuple[str, ...],
    /,
    *,
    points: int,
) -> Curve:
    """Evaluate along one of the directions (k, d) of scaled rows, through their mean.

    As far as every feature stays within the range that it has.
    """
    middle, u = scaled.mean(axis=0), directions[rank]
    low, high = np.quantile((scaled - middle) @ u, [TAIL, 1.0 - TAIL])
    moved = np.flatnonzero(np.abs(u) > 1e-9)
    ends = np.stack([scaled.min(axis=0) - middle, scaled.max(axis=0) - middle])[:, moved] / u[moved]
    low, high = max(low, ends.min(axis=0).max()), min(high, ends.max(axis=0).min())
    steps = np.linspace(low, high, points)
    rows = _unscaled(middle + steps[:, None] * u, X, scaled)
    return Curve(direction_name(names, directions, rank), steps, rows, np.eye(points), False)


def _intervals(edges: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Which interval between edges (g,) a value lies in (n,): -1 beyond the ends."""
    found = np.clip(np.searchsorted(edges, column, side="left") - 1, 0, len(edges) - 2)
    return np.where((column < edges[0]) | (column > edges[-1]), -1, found)


def _values(column: np.ndarray, points: int) -> np.ndarray:
    """Different values of a feature from one end to the other, without the tails.

    Both ends where nearly all rows have one value, as of a category that is rare.
    """
    quantiles = np.quantile(column, np.linspace(TAIL, 1.0 - TAIL, points), method="nearest")
    found = np.unique(quantiles)
    return found if len(found) > 1 else np.unique([column.min(), column.max()])


def _unscaled(Z: np.ndarray, X: np.ndarray, scaled: np.ndarray) -> np.ndarray:
    """Rows whose scaled features are `Z`, between those of known rows: each feature by itself."""
    found = np.empty_like(Z)
    for j in range(Z.shape[1]):
        there, first = np.unique(scaled[:, j], return_index=True)
        found[:, j] = np.interp(Z[:, j], there, X[first, j])
    return found
