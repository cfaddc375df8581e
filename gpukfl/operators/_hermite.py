"""Products of Hermite polynomials at the rows of data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpukfl._array import Array, array_namespace, double_like, index_like
from gpukfl._rows import Rows
from gpukfl.linalg import hermite_table
from gpukfl.operators._rows import RowOperator


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
        """Elements that a row needs."""
        return max(self.shape[1], (self.degree + 1) * self.rows.shape[1])

    @cached_property
    def _slots(self) -> list[Array]:
        """Columns of the flattened table, one of each tuple's factors at a time.

        Tuples are sparse: only factors of positive degree are multiplied, as many as the fullest
        tuple has; the others repeat the polynomial 1.
        """
        d = self.tuples.shape[1]
        order = np.argsort(self.tuples == 0, axis=1, kind="stable")
        degrees = np.take_along_axis(self.tuples, order, axis=1)
        most = int((degrees > 0).sum(axis=1).max(initial=0))
        columns = (degrees * d + order)[:, :most]
        on = index_like(self.rows.reference)
        xp = array_namespace(self.rows.reference)
        return [xp.asarray(np.ascontiguousarray(c), **on) for c in columns.T]

    @cached_property
    def _placed_scales(self) -> Array:
        xp = array_namespace(self.rows.reference)
        return xp.asarray(self.scales, **double_like(self.rows.reference))

    def _prepare(self) -> None:
        self._slots, self._placed_scales  # noqa: B018

    def at(self, X: Array, /) -> Array:
        """Values at the rows of `X` (n, d): (n, m), in the precision of X."""
        xp = array_namespace(X)
        Z = xp.astype(X, xp.float64)
        if self.R is not None:
            Z = Z @ self.R
        table = xp.reshape(hermite_table(Z, self.degree), (X.shape[0], -1))
        Phi = xp.ones((X.shape[0], 1), **double_like(X)) * self._placed_scales[None, :]
        for columns in self._slots:
            Phi = Phi * xp.take(table, columns, axis=1)
        return xp.astype(Phi, X.dtype)

    def values(self, start: int, stop: int, /) -> Array:
        """Block (stop - start, m) of the matrix."""
        return self.at(self.rows.block(start, stop))
