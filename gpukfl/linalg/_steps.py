"""Elementwise steps of conjugate gradients, and centring: one launch each on CuPy."""

from __future__ import annotations

import math

from gpukfl._accel.trust import has_kernels
from gpukfl._array import Array, array_namespace


def conjugate_step(
    x: Array, r: Array, p: Array, Ap: Array, rz: Array, curvature: Array, /
) -> tuple[Array, Array]:
    """Move `x` along `p`, and the residual `r` with it, by ``rz / curvature`` for each column.

    Arrays are (n,) or (n, t), `rz` and `curvature` () or (t,), float64; a column whose curvature
    is 0 stays where it is.
    """
    if _has_twin(x, r, p, Ap):
        from gpukfl._accel import cuda_vectors

        return cuda_vectors.conjugate_step(x, r, p, Ap, rz, curvature)
    return _conjugate_step(x, r, p, Ap, rz, curvature)


def _conjugate_step(
    x: Array, r: Array, p: Array, Ap: Array, rz: Array, curvature: Array, /
) -> tuple[Array, Array]:
    step = array_namespace(x).astype(_ratio(rz, curvature), x.dtype, copy=False)
    return x + step * p, r - step * Ap


def conjugate_direction(z: Array, p: Array, rz: Array, rz_old: Array, /) -> Array:
    """Give ``z + (rz / rz_old) p`` for each column; where `rz_old` is 0, `z`."""
    if _has_twin(z, p):
        from gpukfl._accel import cuda_vectors

        return cuda_vectors.conjugate_direction(z, p, rz, rz_old)
    return _conjugate_direction(z, p, rz, rz_old)


def _conjugate_direction(z: Array, p: Array, rz: Array, rz_old: Array, /) -> Array:
    share = array_namespace(z).astype(_ratio(rz, rz_old), z.dtype, copy=False)
    return z + share * p


def subtract_means(V: Array, totals: Array, /) -> Array:
    """Subtract from the columns of `V` (n, t) their means, of which the `totals` (t,) are known."""
    if _has_twin(V):
        from gpukfl._accel import cuda_vectors

        return cuda_vectors.subtract_means(V, totals)
    return _subtract_means(V, totals)


def _subtract_means(V: Array, totals: Array, /) -> Array:
    return V - array_namespace(V).astype(totals / V.shape[0], V.dtype, copy=False)


def _has_twin(*arrays: Array) -> bool:
    return has_kernels(arrays[0], "vectors") and all(x.dtype == arrays[0].dtype for x in arrays)


def _ratio(num: Array, den: Array, /) -> Array:
    """``num / den``, and 0 where `den` is 0."""
    xp = array_namespace(num, den)
    return num / xp.where(den == 0, xp.full_like(den, math.inf), den)
