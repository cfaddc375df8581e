r"""Distances between two sets of points, and the sums that differentiate them.

The points are `X` (n, d) and `Z` (q, d), at least one feature, both of one dtype. Results have
n rows: on CuPy callers cut X into blocks, so that neither n q nor n d reaches 2**31 elements.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator
from typing import Any

from gpukfl._accel.trust import has_compiled_code, has_kernels
from gpukfl.core._array import Array, array_namespace, assert_host, clip, is_cupy, is_host, like

_FEW = 16  # features up to which differences take no longer than a matrix product on a GPU
_NAMES: dict[str | float, str] = {2: "euclidean", 1: "manhattan"}


def squared_distances(X: Array, Z: Array, /) -> Array:
    r"""Return squared Euclidean distances by one matrix product.

    Parameters
    ----------
    X : array (n, d)
        Points.
    Z : array (q, d)
        Points, of the dtype of `X`.

    Returns
    -------
    array (n, q)
        :math:`\|x_i\|^2 + \|z_j\|^2 - 2 x_i^T z_j`, negative values set to 0, in the dtype of `X`.

    Notes
    -----
    O(n q d), as a matrix product with d + 2 columns, which adds the norms at no pass over (n, q).
    The mean of Z is subtracted from both first. The error is then absolute: up to about
    (8 + sqrt(d)) eps times the largest squared distance of a point from that mean, also
    between equal points. `distances` has small relative errors instead, as this has of at most
    four points of NumPy.

    Examples
    --------
    >>> import numpy as np
    >>> squared_distances(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [-3.0, -4.0]]))
    array([[25., 25.]])
    """
    xp = array_namespace(X, Z)
    n, q = X.shape[0], Z.shape[0]
    if n == 0 or q == 0:
        return xp.zeros((n, q), **like(X))
    if has_kernels(X, "distances") and X.shape[1] <= _FEW:
        from gpukfl._accel import cuda_distances

        roots = cuda_distances.distances(X, Z, "euclidean")
        return roots * roots
    if has_compiled_code(X):
        from gpukfl._accel import cpu_distances

        few = cpu_distances.squares_of_few(*assert_host(X, Z))
        if few is not None:
            return few
    center = xp.mean(Z, axis=0)[None, :]
    X, Z = X - center, Z - center
    left = xp.concat([-2.0 * X, _squared_norms(X), xp.ones_like(X[:, :1])], axis=1)
    right = xp.concat([Z, xp.ones((q, 1), **like(Z)), _squared_norms(Z)], axis=1)
    squares = left @ right.T
    if is_host(squares) or is_cupy(squares):  # in place, which the standard cannot say
        maximum: Any = xp.maximum
        return maximum(squares, 0.0, out=squares)
    return clip(squares, low=0.0)


def _squared_norms(X: Array, /) -> Array:
    return array_namespace(X).sum(X * X, axis=1)[:, None]


def distances(X: Array, Z: Array, /, *, norm: str | float = "euclidean") -> Array:
    r"""Return distances by differences, which avoid cancellation.

    Parameters
    ----------
    X : array (n, d)
        Points.
    Z : array (q, d)
        Points, of the dtype of `X`.
    norm : {"euclidean", "manhattan"} or float
        :math:`\|x_i - z_j\|_2` or :math:`\|x_i - z_j\|_1`; a positive number p is
        :math:`\|x_i - z_j\|_p = (\sum_l |x_{il} - z_{jl}|^p)^{1/p}`.

    Returns
    -------
    array (n, q)
        In the dtype of `X`.

    Raises
    ------
    ValueError
        If `norm` is none of these.

    Notes
    -----
    O(n q d), with no array larger than (n, q). Equal points are at distance exactly 0. Sums run
    in float64: the relative error is a few eps of float32, or up to about d eps of float64.

    Examples
    --------
    >>> import numpy as np
    >>> X, Z = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])
    >>> distances(X, Z), distances(X, Z, norm="manhattan")
    (array([[5.]]), array([[7.]]))
    """
    norm = _NAMES.get(norm, norm)
    if not isinstance(norm, str) and 0 < norm < math.inf:
        return _p_distances(X, Z, float(norm))
    if norm not in ("euclidean", "manhattan"):
        msg = f"expected 'euclidean' or 'manhattan', or a positive number, got {norm!r}"
        raise ValueError(msg)
    if has_compiled_code(X):
        from gpukfl._accel import cpu_distances

        return cpu_distances.distances(*assert_host(X, Z), norm)
    if has_kernels(X, "distances"):
        from gpukfl._accel import cuda_distances

        return cuda_distances.distances(X, Z, norm)
    return _distances(X, Z, norm)


def _p_distances(X: Array, Z: Array, order: float, /) -> Array:
    if has_compiled_code(X):
        from gpukfl._accel import cpu_distances

        return cpu_distances.distances(*assert_host(X, Z), order)
    return _power_distances(X, Z, order)


def _distances(X: Array, Z: Array, norm: str, /) -> Array:
    xp = array_namespace(X, Z)
    parts = (
        gap * gap if norm == "euclidean" else xp.abs(gap) for gap in _iterate_differences(X, Z)
    )
    total = functools.reduce(operator.add, parts)
    return xp.astype(xp.sqrt(total) if norm == "euclidean" else total, X.dtype, copy=False)


def _power_distances(X: Array, Z: Array, order: float, /) -> Array:
    xp = array_namespace(X, Z)
    total = functools.reduce(
        operator.add, (fast_power(xp.abs(gap), order) for gap in _iterate_differences(X, Z))
    )
    return xp.astype(total ** (1.0 / order), X.dtype, copy=False)


def fast_power(size: Array, order: float, /) -> Array:
    """Return powers of nonnegative numbers, with fast paths for multiples of a half."""
    if order == 0.5:
        return array_namespace(size).sqrt(size)
    return size * fast_power(size, 0.5) if order == 1.5 else size**order


def _iterate_differences(X: Array, Z: Array, /) -> Iterator[Array]:
    """Yield the differences (n, q) in each feature, in float64."""
    xp = array_namespace(X, Z)
    X, Z = xp.astype(X, xp.float64), xp.astype(Z, xp.float64)
    for feature in range(Z.shape[1]):
        yield X[:, feature][:, None] - Z[:, feature][None, :]


def sign_sums(Q: Array, X: Array, Z: Array, /) -> Array:
    r"""Sum weighted signs of differences, as the gradient of a function of l1 distances does.

    .. math:: S_{il} = \sum_j Q_{ij}\, \mathrm{sign}(x_{il} - z_{jl})

    with sign(0) = 0. The gradient of :math:`\sum_{ij} f(\|x_i - z_j\|_1)` by X is
    ``sign_sums(Q, X, Z)`` and by Z ``sign_sums(Q.T, Z, X)``, Q the derivatives of f.

    Parameters
    ----------
    Q : array (n, q)
        Weights; may be a transposed view.
    X : array (n, d)
        Points, without NaN.
    Z : array (q, d)
        Points, without NaN, of the dtype of `X`.

    Returns
    -------
    array (n, d)
        In the dtype of `X`.

    Notes
    -----
    O(n q d). Sums run in float64: the error of S_il is at most about eps of the dtype of X times
    the sum of \|Q_ij\| over j, or q eps times it in float64.

    Examples
    --------
    >>> import numpy as np
    >>> X, Z = np.array([[0.0], [1.0]]), np.array([[1.0], [-5.0], [2.0]])
    >>> sign_sums(np.array([[1.0, 2.0, 4.0], [1.0, 2.0, 4.0]]), X, Z)
    array([[-3.],
           [-2.]])
    """
    if is_host(X):
        from gpukfl._accel import cpu_distances

        return cpu_distances.sign_sums(*assert_host(Q, X, Z))
    if has_kernels(X, "distances"):
        from gpukfl._accel import cuda_distances

        return cuda_distances.sign_sums(Q, X, Z)
    return _sign_sums(Q, X, Z)


def _sign_sums(Q: Array, X: Array, Z: Array, /) -> Array:
    xp = array_namespace(Q, X, Z)
    sums = []
    for feature in range(X.shape[1]):
        signs = xp.sign(X[:, feature][:, None] - Z[:, feature][None, :])
        sums.append(xp.sum(Q * signs, axis=1, dtype=xp.float64))
    return xp.astype(xp.stack(sums, axis=1), X.dtype, copy=False)


def power_sums(Q: Array, X: Array, Z: Array, /, *, order: float) -> Array:
    r"""Sum weighted powers of differences, as the gradient of a function of p-norms does.

    .. math:: S_{il} = \sum_j Q_{ij}\, \mathrm{sign}(x_{il} - z_{jl}) |x_{il} - z_{jl}|^{p-1}

    with 0 where the coordinates are equal. The gradient of :math:`\sum_{ij} f(\|x_i - z_j\|_p)`
    by X is ``power_sums(Q, X, Z, order=p)``, Q the derivatives :math:`f'(r_{ij}) r_{ij}^{1-p}`.

    Parameters
    ----------
    Q : array (n, q)
        Weights; may be a transposed view.
    X : array (n, d)
        Points, without NaN.
    Z : array (q, d)
        Points, without NaN, of the dtype of `X`.
    order : float
        p, positive; 1 are the sums of signs.

    Returns
    -------
    array (n, d)
        In the dtype of `X`.

    Notes
    -----
    O(n q d), with no array larger than (n, q); sums run in float64. For p < 1 terms grow without
    bound where coordinates meet.

    Examples
    --------
    >>> import numpy as np
    >>> X, Z = np.array([[0.0]]), np.array([[4.0], [-9.0]])
    >>> power_sums(np.array([[1.0, 2.0]]), X, Z, order=1.5)
    array([[4.]])
    """
    if order == 1:
        return sign_sums(Q, X, Z)
    if is_host(X):
        from gpukfl._accel import cpu_distances

        return cpu_distances.power_sums(*assert_host(Q, X, Z), order)
    return _power_sums(Q, X, Z, order)


def _power_sums(Q: Array, X: Array, Z: Array, order: float, /) -> Array:
    xp = array_namespace(Q, X, Z)
    Q = xp.astype(Q, xp.float64)
    sums = []
    for gap in _iterate_differences(X, Z):
        zero = gap == 0
        size = xp.where(zero, xp.ones_like(gap), xp.abs(gap))
        sums.append(xp.sum(Q * xp.sign(gap) * fast_power(size, order - 1.0), axis=1))
    return xp.astype(xp.stack(sums, axis=1), X.dtype, copy=False)
