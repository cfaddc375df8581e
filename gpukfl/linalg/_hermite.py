"""Hermite polynomials."""

from __future__ import annotations

import math

from gpukfl._accel.trust import has_kernels
from gpukfl._array import Array, array_namespace


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
