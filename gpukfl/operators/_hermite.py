"""Products of Hermite polynomials at the rows of data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from gpukfl.core._array import Array, array_namespace, double_like, index_like
from gpukfl.core._lazy import OldName
from gpukfl.linalg import hermite_table, row_products
from gpukfl.operators._rows import RowOperator
from gpukfl.partitioned._rows import Rows


@dataclass(frozen=True, eq=False)
class HermiteOperator(RowOperator):
    r"""The matrix :math:`\Phi_{ij} = w_j H_{\alpha_j}(R^\top x_i)`.

    :math:`H_\alpha(z) = \prod_a h_{\alpha_a}(z_a)` is a product of normalised Hermite polynomials.

    Parameters
    ----------
    rows : Rows
        Data (n, d), of about unit variance; may be longer than memory.
    tuples : host array of int, shape (m, d)
        Degrees α.
    scales : host array, shape (m,)
        w.
    R : array, shape (d, d), optional
        Rotation, float64; the identity without one.
    """

    rows: Rows
    tuples: np.ndarray
    scales: np.ndarray
    R: Array | None = None
    _by_columns: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of tuples."""
        return self.rows.shape[0], self.tuples.shape[0]

    @cached_property
    def degree(self) -> int:
        """Highest degree of one coordinate."""
        return int(self.tuples.max(initial=0))

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return max(self.shape[1], (self.degree + 1) * self.rows.shape[1])

    @cached_property
    def _order(self) -> np.ndarray:
        """Tuples by the number of their factors, the most first."""
        return np.argsort(-(self.tuples > 0).sum(axis=1), kind="stable")

    @cached_property
    def _factors(self) -> tuple[Array, list[int]]:
        """Rows (s, m) of the flattened table, with one factor of each tuple at a time.

        Tuples are sparse: only factors of positive degree are multiplied, the s-th of them for so
        many tuples.
        """
        tuples = self.tuples[self._order]
        factors = np.argsort(tuples == 0, axis=1, kind="stable")
        rows = factors * (self.degree + 1) + np.take_along_axis(tuples, factors, axis=1)
        counts = np.maximum((tuples > 0).sum(axis=1), 1)  # a tuple of zeros is h_0
        sizes = [int((counts > s).sum()) for s in range(counts.max(initial=1))]
        rows = np.where(np.arange(len(sizes)) < counts[:, None], rows[:, : len(sizes)], -1).T
        xp = array_namespace(self.rows.reference)
        on = index_like(self.rows.reference)
        return xp.asarray(np.ascontiguousarray(rows), **on), sizes

    @cached_property
    def _back(self) -> Array | None:
        """The position of each tuple in that order, or None if they are sorted."""
        if np.array_equal(self._order, np.arange(len(self._order))):
            return None
        xp = array_namespace(self.rows.reference)
        return xp.asarray(np.argsort(self._order), **index_like(self.rows.reference))

    @cached_property
    def _placed_scales(self) -> Array:
        xp = array_namespace(self.rows.reference)
        return xp.asarray(np.asarray(self.scales)[self._order], **double_like(self.rows.reference))

    def _prepare(self) -> None:
        self._factors, self._back, self._placed_scales  # noqa: B018

    def evaluate(self, X: Array, /) -> Array:
        """Values at the rows of `X` (n, d): (n, m), in the precision of X."""
        xp, d = array_namespace(X), self.tuples.shape[1]
        Z = xp.astype(X, xp.float64, copy=False).T
        # Both make a copy in which a coordinate's values lie side by side, to be taken at once
        turn = self.R
        Z = xp.take(Z, xp.arange(d, **index_like(X)), axis=0) if turn is None else turn.T @ Z
        table = hermite_table(Z, self.degree)
        table = xp.reshape(table, (d * (self.degree + 1), -1))
        Phi = row_products(table, *self._factors, self._placed_scales)
        if self._back is not None:
            Phi = xp.take(Phi, self._back, axis=0)
        return xp.astype(Phi.T, X.dtype, copy=False)

    def values(self, start: int, stop: int, /) -> Array:
        """Block (stop - start, m) of the matrix."""
        return self.evaluate(self.rows.block(start, stop))

    at = OldName("evaluate")
