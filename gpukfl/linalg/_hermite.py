"""Hermite polynomials, and products of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpukfl._accel.trust import has_kernels
from gpukfl.core._array import Array, array_namespace, is_host, like

_CACHED = 2**16  # products that stay in a core's cache while their factors are multiplied
_FEWEST = 16  # rows of them, so that they take longer than the calls


def hermite_table(X: Array, degree: int, /) -> Array:
    r"""Evaluate the Hermite polynomials of unit variance under N(0, 1), up to a degree.

    By the stable recursion :math:`\sqrt{k+1}\, h_{k+1}(x) = x h_k(x) - \sqrt k\, h_{k-1}(x)`.

    Parameters
    ----------
    X : array (n, d)
        Points.
    degree : int
        Highest degree, at least 0.

    Returns
    -------
    array (n, degree + 1, d)
        :math:`h_k(x_{ia})`, float64: for large x the values grow as :math:`x^k / \sqrt{k!}`.

    Raises
    ------
    ValueError
        If the degree is negative.

    Examples
    --------
    >>> import numpy as np
    >>> hermite_table(np.array([[2.0]]), 2)[0, :, 0]  # 1, x, (x² - 1) / √2
    array([1.        , 2.        , 2.12132034])
    """
    if degree < 0:
        msg = f"expected a degree of at least 0, got {degree}"
        raise ValueError(msg)
    if has_kernels(X, "hermite"):
        from gpukfl._accel import cuda_hermite

        return cuda_hermite.hermite_table(X, degree)
    return _hermite_table(X, degree)


def _hermite_table(X: Array, degree: int, /) -> Array:
    xp = array_namespace(X)
    x = xp.astype(X, xp.float64)
    values = [xp.ones_like(x)]
    if degree:
        values.append(x)
    for k in range(1, degree):
        values.append((x * values[k] - math.sqrt(k) * values[k - 1]) / math.sqrt(k + 1))
    return xp.stack(values, axis=1)


def row_products(table: Array, rows: Array, sizes: Sequence[int], scales: Array, /) -> Array:
    """Multiply some rows of a table with each other, and with a number.

    Parameters
    ----------
    table : array (r, n)
        Factors, float64.
    rows : array (most, m) of int64
        Which rows are multiplied for each of m products, at least one; -1 where there are no more.
    sizes : sequence of int
        How many products have a row in each of `rows`: the first ones, so that they descend from m.
    scales : array (m,)
        Numbers, float64.

    Returns
    -------
    array (m, n)
        The products, float64: O(m n most).

    Examples
    --------
    >>> import numpy as np
    >>> table, rows = np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[0, 1], [1, -1]])
    >>> row_products(table, rows, (2, 1), np.array([1.0, 0.5]))
    array([[ 3. , 10. ],
           [ 1.5,  2.5]])
    """
    if has_kernels(table, "hermite"):
        from gpukfl._accel import cuda_hermite

        return cuda_hermite.row_products(table, rows, scales)
    return _row_products(table, rows, sizes, scales)


def _row_products(table: Array, rows: Array, sizes: Sequence[int], scales: Array, /) -> Array:
    xp, m, n = array_namespace(table), rows.shape[1], table.shape[1]
    size = max(_FEWEST, _CACHED // max(n, 1)) if is_host(table) else m
    if m <= size:
        return _some_products(table, rows, sizes, scales, 0, m)
    products = xp.empty((m, n), **like(table))
    for start in range(0, m, size):
        stop = min(start + size, m)
        products[start:stop, :] = _some_products(table, rows, sizes, scales, start, stop)
    return products


def _some_products(
    table: Array, rows: Array, sizes: Sequence[int], scales: Array, start: int, stop: int
) -> Array:
    xp = array_namespace(table)
    product = xp.take(table, rows[0, start:stop], axis=0)
    for f in range(1, len(sizes)):
        end = min(stop, sizes[f])
        if end <= start:
            break
        product[: end - start, :] *= xp.take(table, rows[f, start:end], axis=0)
    return product * scales[start:stop, None]
