"""Piecewise-linear functions between knots."""

from __future__ import annotations

from gpukfl._accel.trust import has_compiled_code, has_kernels
from gpukfl.core._array import Array, array_namespace, assert_host, clip, index_like

_FEW = 2**15  # points up to which a call of the library takes longer than what it computes


def interpolate_knots(A: Array, knots: Array, values: Array, /) -> Array:
    """Sum piecewise-linear functions, one per row of `A`, constant beyond their end knots.

    `A` (m, n) holds the points, `knots` (m, q) ascending positions, `values` (m, q, t) the
    functions there. A repeated knot is a padding: the last of equal knots counts. Returns
    float64 (n, t). O(n m log q).
    """
    if has_compiled_code(A):
        from gpukfl._accel import cpu

        return cpu.interpolate_knots(*assert_host(A, knots, values))
    if has_kernels(A, "knots"):
        from gpukfl._accel import cuda_knots

        return cuda_knots.interpolate_knots(A, knots, values)
    return _interpolate_knots(A, knots, values)


def _interpolate_knots(A: Array, knots: Array, values: Array, /) -> Array:
    xp = array_namespace(A)
    if _is_small(A):
        return xp.sum(_interpolate_all(A, knots, values), axis=0, dtype=xp.float64)
    total = xp.astype(_interpolate_one(A[0, :], knots[0, :], values[0, ...]), xp.float64)
    for j in range(1, knots.shape[0]):
        total = total + _interpolate_one(A[j, :], knots[j, :], values[j, ...])
    return total


def interpolate_columns(X: Array, knots: Array, values: Array, /) -> Array:
    """Apply to each column of `X` (n, d) its own piecewise-linear function: (n, d), float64.

    `knots` and `values` (d, q) are as of `interpolate_knots`, for one function each. O(n d log q).
    """
    if has_compiled_code(X):
        from gpukfl._accel import cpu

        return cpu.interpolate_columns(*assert_host(X, knots, values))
    if _is_small(X):
        return _interpolate_all(X.T, knots, values[..., None])[..., 0].T
    columns = [  # copies, because torch warns of what has gaps
        _interpolate_one(X[:, j] + 0.0, knots[j, :], values[j, :][:, None])
        for j in range(knots.shape[0])
    ]
    return array_namespace(X).concat(columns, axis=1)


def _is_small(A: Array) -> bool:
    """Whether points are few; traced arrays have no known size."""
    m, n = A.shape
    return m is None or n is None or m * n <= _FEW


def _interpolate_all(A: Array, knots: Array, values: Array) -> Array:
    """Evaluate all functions at their points (m, n, t), by one search in all tables."""
    xp = array_namespace(A)
    (m, q), t = knots.shape, values.shape[2]
    first = q * xp.arange(m, **index_like(knots))[:, None]
    low = xp.reshape(first + xp.zeros_like(A, dtype=xp.int64), (-1,))
    last = low + (q - 1)
    a, knots = xp.reshape(A, (-1,)), xp.reshape(knots, (-1,))
    for k in reversed(range((q - 1).bit_length())):
        middle = xp.minimum(low + 2**k, last)
        low = xp.where(xp.take(knots, middle, axis=0) <= a, middle, low)
    found = _interpolate_between(
        a, knots, xp.reshape(values, (m * q, t)), low, xp.minimum(low + 1, last)
    )
    return xp.reshape(found, (m, -1, t))


def _interpolate_one(a: Array, knots: Array, values: Array) -> Array:
    """Evaluate one function at its points (n, t)."""
    xp = array_namespace(a)
    q = knots.shape[0]
    right_of = xp.searchsorted(knots, a, side="right")
    low = clip(xp.astype(right_of, index_like(a)["dtype"]) - 1, low=0, high=q - 1)
    return _interpolate_between(a, knots, values, low, clip(low + 1, low=0, high=q - 1))


def _interpolate_between(a: Array, knots: Array, values: Array, low: Array, high: Array) -> Array:
    """Interpolate between the knots at two indices: (n, t)."""
    xp = array_namespace(a)
    left_knot = xp.take(knots, low, axis=0)
    gap = xp.take(knots, high, axis=0) - left_knot
    flat = gap <= 0
    share = xp.where(flat, xp.zeros_like(gap), (a - left_knot) / xp.where(flat, gap + 1, gap))
    share = clip(share, low=0.0, high=1.0)[:, None]
    left = xp.take(values, low, axis=0)
    return left + share * (xp.take(values, high, axis=0) - left)
