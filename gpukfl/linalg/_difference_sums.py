r"""Weighted sums of absolute differences, for every column of a data matrix at once.

.. math:: S_l = \sum_{ij} A_{ij} |x_{il} - x_{jl}|^q, \qquad q = 1 \text{ or } 2

with A symmetric: given as a matrix, in O(n² p), or by a factor, :math:`A = V V^\top`, in O(n m p).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpukfl._accel.trust import has_kernels
from gpukfl.core._array import (
    Array,
    array_namespace,
    assert_host,
    double_like,
    index_like,
    is_host,
    take_rows,
)
from gpukfl.core._lazy import OldName


def difference_sums(A: Array, X: Array, /, *, power: int = 1) -> Array:
    r"""Sum weighted powers of differences in each column.

    Parameters
    ----------
    A : array (n, n)
        Symmetric weights, of which the twins read one triangle.
    X : array (n, p)
        Data, without NaN.
    power : {1, 2}
        q.

    Returns
    -------
    array (p,)
        :math:`S_l = \sum_{ij} A_{ij} |x_{il} - x_{jl}|^q` in float64.

    Raises
    ------
    ValueError
        If `power` is neither 1 nor 2.

    Notes
    -----
    O(n² p), for q = 2 as one matrix product. There is no array larger than A.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [3.0, 1.0]])
    >>> difference_sums(np.ones((2, 2)), X), difference_sums(np.ones((2, 2)), X, power=2)
    (array([6., 0.]), array([18.,  0.]))
    """
    _check_power(power)
    if power == 2:
        return _square_sums(A, X)
    if is_host(X):
        from gpukfl._accel import cpu_differences

        return cpu_differences.difference_sums(*assert_host(A, X))
    if has_kernels(X, "differences"):
        from gpukfl._accel import cuda_differences

        return cuda_differences.difference_sums(A, X)
    return _difference_sums(A, X)


def _check_power(power: int, /) -> None:
    if power not in (1, 2):
        msg = f"expected power 1 or 2, got {power!r}"
        raise ValueError(msg)


def _difference_sums(A: Array, X: Array, /) -> Array:
    xp = array_namespace(A, X)
    sums = []
    for feature in range(X.shape[1]):
        x = xp.astype(X[:, feature], xp.float64)
        sums.append(xp.sum(A * xp.abs(x[:, None] - x[None, :])))
    return xp.astype(xp.stack(sums), xp.float64) if sums else xp.zeros(0, **double_like(X))


def _center(X: Array, /) -> Array:
    """Return centred columns in float64."""
    xp = array_namespace(X)
    X = xp.astype(X, xp.float64)
    return X - xp.mean(X, axis=0)[None, :]


def _square_sums(A: Array, X: Array, /) -> Array:
    xp = array_namespace(A, X)
    X, A = _center(X), xp.astype(A, xp.float64)
    return 2.0 * (xp.sum(A, axis=1) @ (X * X) - xp.sum(X * (A @ X), axis=0))


@dataclass(frozen=True, eq=False)
class SortedColumns:
    """Columns of a data matrix, sorted once."""

    order: Array  # (p, n) integers: row numbers in ascending order of the column
    gaps: Array  # (p, n - 1): differences of neighbours

    @classmethod
    def sort(cls, X: Array, /) -> SortedColumns:
        """Sort the columns of `X` (n, p): O(n p log n)."""
        xp = array_namespace(X)
        if is_host(X):
            from gpukfl._accel import cpu_differences

            return cls(*cpu_differences.sort_columns(X))
        columns = X.T
        order = xp.argsort(columns, axis=1)
        values = xp.take_along_axis(columns, order, axis=1)
        return cls(order, values[:, 1:] - values[:, :-1])

    def take(self, columns: np.ndarray, /) -> SortedColumns:
        """Take some of the columns, by host indices."""
        xp = array_namespace(self.gaps)
        index = xp.asarray(columns, **index_like(self.gaps))
        return SortedColumns(xp.take(self.order, index, axis=0), xp.take(self.gaps, index, axis=0))

    def permute_rows(self, orders: np.ndarray, /) -> SortedColumns:
        """Permute the rows of a factor in k orders, a host array (k, n): k p columns."""
        xp, (p, n), k = array_namespace(self.order), self.order.shape, orders.shape[0]
        rows = xp.astype(xp.asarray(orders, **index_like(self.gaps)), self.order.dtype)
        order = xp.take(rows, xp.reshape(self.order, (-1,)), axis=1)
        gaps = take_rows(self.gaps, np.tile(np.arange(p), k))
        return SortedColumns(xp.reshape(order, (k * p, n)), gaps)

    of = OldName("sort")
    at = OldName("take")


def factored_difference_sums(V: Array, columns: SortedColumns, /) -> Array:
    r"""Sum weighted differences in each column, the weights given by a factor.

    Parameters
    ----------
    V : array (n, m)
        Factor of the weights: :math:`A = V V^\top`.
    columns : SortedColumns
        The data (n, p).

    Returns
    -------
    array (p,)
        :math:`S_l = \sum_{ij} (V V^\top)_{ij} |x_{il} - x_{jl}|` in float64.

    Notes
    -----
    O(n m p). With P(t) the sum of a column of V over the samples up to t, and T over all,
    :math:`S_l = 2 \sum_k \int P_k(t) (T_k - P_k(t))\, dt`.

    Examples
    --------
    >>> import numpy as np
    >>> V, X = np.array([[1.0], [2.0], [-1.0]]), np.array([[0.0], [1.0], [3.0]])
    >>> factored_difference_sums(V, SortedColumns.sort(X)), difference_sums(V @ V.T, X)
    (array([-10.]), array([-10.]))
    """
    if is_host(V):
        from gpukfl._accel import cpu_differences

        return cpu_differences.factored_difference_sums(
            *assert_host(V, columns.order, columns.gaps)
        )
    if has_kernels(V, "differences"):
        from gpukfl._accel import cuda_differences

        return cuda_differences.factored_difference_sums(V, columns.order, columns.gaps)
    return _factored_difference_sums(V, columns)


def _factored_difference_sums(V: Array, columns: SortedColumns, /) -> Array:
    xp = array_namespace(V)
    n, m = V.shape
    # Samples side by side: along the last axis GPUs gather and add several times as fast
    rows = xp.reshape(xp.reshape(xp.astype(V.T, xp.float64), (-1,)), (m, n))
    total, sums = xp.sum(rows, axis=1)[:, None], []
    for feature in range(columns.order.shape[0]):
        below = xp.cumulative_sum(xp.take(rows, columns.order[feature, :-1], axis=1), axis=1)
        gaps = xp.astype(columns.gaps[feature, :], xp.float64)
        sums.append(xp.sum((below * (total - below)) @ gaps))
    return 2.0 * xp.stack(sums) if sums else xp.zeros(0, **double_like(V))


def factored_square_sums(V: Array, X: Array, /) -> Array:
    r"""Return :math:`S_l = \sum_{ij} (V V^\top)_{ij} (x_{il} - x_{jl})^2` in float64: O(n m p)."""
    xp = array_namespace(V, X)
    X, V = _center(X), xp.astype(V, xp.float64)
    row_sums = V @ xp.sum(V, axis=0)
    return 2.0 * (row_sums @ (X * X) - xp.sum((V.T @ X) ** 2, axis=0))
