r"""Projection of a fitted function onto functions that are monotone in some columns.

For a function f of the monotone columns u and of the other columns v, the largest monotone function
below it, and the least one above it, are

.. math:: L f(u, v) = \inf_{w \ge u} f(w, v), \qquad U f(u, v) = \sup_{w \le u} f(w, v),

and P f = (L f + U f) / 2 is monotone. Both are taken over a grid of knots of u, and P f is
interpolated between them, linearly in each column. It is constant beyond the knots.

At the knots P f is f wherever f is monotone. If f <= g, P f <= P g, as suprema, infima, means and
interpolation keep this order. So P f is monotone in another column if f is. As P also commutes with
constants, :math:`\|P f - P g\|_\infty \le \|f - g\|_\infty`: at the knots P f is no farther from
a monotone truth than f is (Chernozhukov, Fernández-Val and Galichon, "Improving point and interval
estimators of monotone functions by rearrangement", Biometrika 96, 2009: of operators with these
properties, ends of intervals for a monotone function cover as often once they are monotonised).

Rounding errors keep the order. Rows that differ only in monotone columns share one evaluation of
the grid. Its values are rounded to integers below :math:`2^{30}`, and positions between knots to
multiples of :math:`2^{-21}`. All sums and products are then exact.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Annotated, Self

import numpy as np

from gpukfl.core._annotations import Count, Doubles
from gpukfl.core._array import (
    Array,
    asarray_like,
    double_reference,
    take_rows,
    to_host,
    unique_rows,
)

AtKnots = Callable[[np.ndarray], np.ndarray]
KnotFunction = Callable[[Array, AtKnots], Array]
MOST_COLUMNS = 8  # with two knots each, their grid has 256 points
_N_KNOTS = {1: 33, 2: 17, 3: 7, 4: 4, 5: 3}  # knots per column, by number of monotone columns
_MIN_KNOTS = 2  # knots per column, if more columns are monotone
_VALUE_LEVELS = 2.0**30  # values are rounded to integers below this
_POSITION_STEPS = 2.0**21  # positions between two knots are rounded to this many steps
_GRID_ROWS = 16_384  # rows of all grids that are evaluated together


@dataclass(frozen=True, eq=False)
class MonotoneColumn:
    """A column in which a function rises or falls.

    Attributes
    ----------
    column : int
        Index of the column.
    sign : int
        1 if the function rises, -1 if it falls.
    knots : host array, shape (g,)
        Ascending values of the column.
    """

    column: Annotated[int, Count()]
    sign: int
    knots: Annotated[np.ndarray, Doubles("g")]

    def check(self) -> None:
        """Raise ValueError unless the sign is 1 or -1 and knots ascend."""
        if self.sign not in (-1, 1):
            msg = f"expected a direction of -1 or 1, got {self.sign}"
            raise ValueError(msg)
        if not len(self.knots) or not bool((np.diff(self.knots) > 0).all()):
            msg = "expected ascending knots of a monotone column"
            raise ValueError(msg)

    @classmethod
    def learn(cls, column: int, sign: int, values: np.ndarray, count: int, /) -> Self:
        """Choose at most `count` knots at quantiles of the values (n,), some possibly missing."""
        known = values[np.isfinite(values)].astype(np.float64)
        if not len(known):
            known = np.zeros(1)
        knots = np.unique(known)
        if len(knots) > count:
            spread = np.linspace(0.0, 1.0, count)
            knots = np.unique(np.quantile(known, spread, method="inverted_cdf"))
        return cls(column, sign, knots)

    def position(self, values: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
        """Return the knot (n,) below each value, and the share (n,) of the way to the next one."""
        last = max(len(self.knots) - 2, 0)
        found = np.searchsorted(self.knots, values, side="right") - 1
        below = np.clip(found, 0, last)
        if len(self.knots) == 1:
            return below, np.zeros(len(values))
        start, width = self.knots[below], np.diff(self.knots)[below]
        share = np.clip((values - start) / width, 0.0, 1.0)
        return below, np.floor(share * _POSITION_STEPS) / _POSITION_STEPS


@dataclass(frozen=True, eq=False)
class Monotone:
    """The projection onto functions that are monotone in some columns.

    Attributes
    ----------
    columns : tuple of MonotoneColumn
        Different columns.
    """

    columns: tuple[MonotoneColumn, ...]

    def check(self) -> None:
        """Raise ValueError unless there are 1 to `MOST_COLUMNS` different columns."""
        given, most = [one.column for one in self.columns], MOST_COLUMNS
        if not 0 < len(set(given)) == len(given) <= most:
            msg = f"expected 1 to {most} different monotone columns, got {given[:20]}"
            raise ValueError(msg)

    @classmethod
    def learn(cls, X: np.ndarray, signs: Mapping[int, int], /) -> Self:
        """Choose knots of the columns with a sign by rows (n, d)."""
        count = _N_KNOTS.get(len(signs), _MIN_KNOTS)
        pairs = sorted(signs.items())
        return cls(tuple(MonotoneColumn.learn(j, sign, X[:, j], count) for j, sign in pairs))

    def with_column_indices(self, indices: Mapping[int, int], /) -> Self:
        """Return the same projection for rows whose columns have other indices."""
        moved = tuple(replace(one, column=indices[one.column]) for one in self.columns)
        return replace(self, columns=moved)

    def __call__(self, evaluate: Callable[[Array], Array], X: Array, /) -> Array:
        """Evaluate a projected function at rows (n, d), in float64.

        Parameters
        ----------
        evaluate : callable
            Returns values (m, ...) of the function at rows (m, d).
        X : array, shape (n, d)
            Rows. Missing values are outside the order: rows that lack a monotone column are
            projected in their other monotone columns.

        Returns
        -------
        array, shape (n, ...)

        Notes
        -----
        This evaluates the function at all knots for each distinct row of the other columns.
        """
        return self.project(lambda rows, _: evaluate(rows), X)

    def project(self, ask: KnotFunction, X: Array, /) -> Array:
        """Project a function that makes its own values at the knots monotone.

        ``ask(rows, at_knots)`` returns values at rows of a grid. It may call ``at_knots(values)``
        to make other host values (m, ...) at all of these rows monotone.
        """
        host = to_host(X).astype(np.float64, copy=False)
        parts, rows = list[np.ndarray](), list[np.ndarray]()
        for columns, group in self._group_by_missing(host):
            own = X if len(group) == len(host) else take_rows(X, group)
            if columns:
                found = _Grid(columns).project(ask, own, host[group])
            else:
                found = _to_double(ask(own, lambda values: values))
            parts.append(found)
            rows.append(group)
        values = np.empty_like(np.concatenate(parts))
        values[np.concatenate(rows)] = np.concatenate(parts)
        return asarray_like(values, double_reference(X))

    def _group_by_missing(
        self, host: np.ndarray
    ) -> Iterator[tuple[tuple[MonotoneColumn, ...], np.ndarray]]:
        """Yield monotone columns and the rows (m,) that lack no others."""
        missing = np.isnan(host[:, [one.column for one in self.columns]])
        if not missing.any():
            yield self.columns if len(host) else (), np.arange(len(host))
            return
        for pattern in unique_rows(missing)[0]:
            known = tuple(itertools.compress(self.columns, ~pattern))
            yield known, np.flatnonzero((missing == pattern).all(axis=1))


def _to_double(found: Array) -> np.ndarray:
    return to_host(found).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class _Grid:
    """The grid of the knots of monotone columns, for rows without missing values there."""

    columns: tuple[MonotoneColumn, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of knots of each column."""
        return tuple(len(one.knots) for one in self.columns)

    @cached_property
    def points(self) -> np.ndarray:
        """All points (p, m) of the grid."""
        axes = np.meshgrid(*(one.knots for one in self.columns), indexing="ij")
        return np.stack([axis.ravel() for axis in axes], axis=1)

    def project(self, ask: KnotFunction, X: Array, host: np.ndarray) -> np.ndarray:
        """Evaluate the projected function at rows (n, d); `host` is a copy of X on the host."""
        columns = [one.column for one in self.columns]
        firsts, group = _group_rows(host, columns)
        step = max(_GRID_ROWS // len(self.points), 1)
        order = np.argsort(group, kind="stable")
        edges = [*range(0, len(firsts), step), len(firsts)]
        ends = np.searchsorted(group[order], edges)
        parts = []
        for k, (start, stop) in enumerate(itertools.pairwise(edges)):
            some = order[ends[k] : ends[k + 1]]
            levels, unit = self._levels(ask, X, host[firsts[start:stop]], columns)
            own = group[some] - start
            found = self._interpolate(levels, own, host[some][:, columns])
            parts.append(found * unit[own])
        values = np.concatenate(parts)
        found = np.empty_like(values)
        found[order] = values
        return found

    def _levels(
        self, ask: KnotFunction, X: Array, rows: np.ndarray, columns: list[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return monotone integers (b, g, ..., t, k) at the knots, and their units (b, t, 1)."""
        b, points = len(rows), self.points
        grid = np.repeat(rows, len(points), axis=0)
        grid[:, columns] = np.tile(points, (b, 1))
        found = _to_double(ask(asarray_like(grid, X), partial(self.make_monotone, b)))
        tail = found.shape[1:] if found.ndim > 2 else (*found.shape[1:], 1)
        values = self.make_monotone(b, found).reshape(b, len(points), *tail)
        unit = (
            np.max(np.abs(values), axis=(1, *range(3, values.ndim)), keepdims=True) / _VALUE_LEVELS
        )
        unit = np.where(unit == 0.0, 1.0, unit)
        levels = np.rint(values / unit).reshape(b, *self.shape, *tail)
        if found.ndim == 2:
            return levels[..., 0], unit[:, 0, :, 0]
        return levels, unit[:, 0]

    def make_monotone(self, b: int, values: np.ndarray, /) -> np.ndarray:
        """Return the mean of both envelopes of values (b p, ...) at the points of b grids."""
        whole = values.reshape(b, *self.shape, *values.shape[1:])
        upper = lower = whole
        for axis, one in enumerate(self.columns, start=1):
            upper, lower = (np.flip(x, axis) if one.sign < 0 else x for x in (upper, lower))
            upper = np.maximum.accumulate(upper, axis=axis)
            lower = np.flip(np.minimum.accumulate(np.flip(lower, axis), axis=axis), axis)
            upper, lower = (np.flip(x, axis) if one.sign < 0 else x for x in (upper, lower))
        return (0.5 * upper + 0.5 * lower).reshape(values.shape)

    def _interpolate(self, levels: np.ndarray, own: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Interpolate integers (b, g, ..., t, k) at values `at` (n, m); `own` (n,) has the grids.

        The result of each column is rounded, so that products of the next one are exact.
        """
        found = None
        for k, one in enumerate(self.columns):
            below, share = one.position(at[:, k])
            above = np.minimum(below + 1, len(one.knots) - 1)
            if found is None:
                low, high = levels[own, below], levels[own, above]
            else:
                rows = np.arange(len(own))
                low, high = found[rows, below], found[rows, above]
            share = share.reshape(-1, *[1] * (low.ndim - 1))
            found = np.rint(low + share * (high - low))
        assert found is not None
        return found


def _group_rows(host: np.ndarray, columns: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Group rows that are equal outside `columns`: a row (g,) per group, and groups (n,)."""
    rest = np.delete(host, columns, axis=1) + 0.0  # 0 for -0
    if not rest.shape[1]:
        return np.zeros(1, dtype=np.intp), np.zeros(len(host), dtype=np.intp)
    rest = np.ascontiguousarray(np.where(np.isnan(rest), np.nan, rest))
    keys = rest.view(np.dtype((np.void, rest.dtype.itemsize * rest.shape[1]))).ravel()
    _, firsts, group = np.unique(keys, return_index=True, return_inverse=True)
    return firsts, group.reshape(-1)
