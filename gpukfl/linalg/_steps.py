"""Steps of conjugate gradients, centring and inner products: one launch each on CuPy."""

from __future__ import annotations

import math

from gpukfl._accel.trust import has_kernels
from gpukfl.core._array import Array, array_namespace, lies_in_parts, sample_dot, sample_sums
from gpukfl.partitioned._rows import reduce_rows

Pair = tuple[Array, Array, Array | None]  # what `column_dots` takes: u, v, and what is added to u


def conjugate_step(
    x: Array, r: Array, p: Array, Ap: Array, rz: Array, curvature: Array, worst: Array, /
) -> tuple[Array, Array, Array]:
    """Move `x` along `p`, and the residual `r` with it, by ``rz / curvature`` for each column.

    Arrays are (n,) or (n, t), `rz`, `curvature` and `worst` () or (t,), float64; a column whose
    curvature is 0 stays where it is. Gives also the lower one of `curvature` and `worst`, or NaN.
    """
    if _has_twin(x, r, p, Ap):
        from gpukfl._accel import cuda_vectors

        return cuda_vectors.conjugate_step(x, r, p, Ap, rz, curvature, worst)
    return _conjugate_step(x, r, p, Ap, rz, curvature, worst)


def _conjugate_step(
    x: Array, r: Array, p: Array, Ap: Array, rz: Array, curvature: Array, worst: Array, /
) -> tuple[Array, Array, Array]:
    xp = array_namespace(x)
    step = xp.astype(_ratio(rz, curvature), x.dtype, copy=False)
    return x + step * p, r - step * Ap, xp.minimum(worst, curvature)  # NaN stays


def conjugate_direction(z: Array, p: Array, rz: Array, rz_old: Array, /) -> Array:
    """Return ``z + (rz / rz_old) p`` for each column; where `rz_old` is 0, `z`."""
    if _has_twin(z, p):
        from gpukfl._accel import cuda_vectors

        return cuda_vectors.conjugate_direction(z, p, rz, rz_old)
    return _conjugate_direction(z, p, rz, rz_old)


def _conjugate_direction(z: Array, p: Array, rz: Array, rz_old: Array, /) -> Array:
    share = array_namespace(z).astype(_ratio(rz, rz_old), z.dtype, copy=False)
    return z + share * p


def column_dots(u: Array, v: Array, /, *, plus: Array | None = None) -> Array:
    """Return the inner products of the columns of `u` (+ `plus`) and `v`: float64, () or (t,).

    All are (n,) or (n, t).
    """
    if _has_twin(u, v, u if plus is None else plus) and _has_thread_for_columns(u):
        from gpukfl._accel import cuda_vectors

        return cuda_vectors.column_dots(u, v, plus)
    return sample_dot(u if plus is None else u + plus, v)


def column_dots_in_one_pass(*pairs: Pair) -> list[Array]:
    """Return the `column_dots` of each triple (u, v, plus): one pass where rows lie in parts."""
    if not lies_in_parts(pairs[0][0]):
        return [column_dots(u, v, plus=plus) for u, v, plus in pairs]

    def part(start: int, stop: int) -> list[Array]:
        rows, found = (slice(start, stop), ...), []
        for u, v, plus in pairs:
            first = u[rows] if plus is None else u[rows] + plus[rows]
            found.append(sample_dot(first, v[rows]))
        return found

    return reduce_rows(pairs[0][0], part)


def record(log: Array, k: int, first: Array, second: Array, third: Array, /) -> None:
    """Write three vectors, () or (t,), to row `k` of a `log` (rows, 3, t), all of float64."""
    vectors = first, second, third
    if _has_twin(*vectors) and log.shape[2]:
        from gpukfl._accel import cuda_vectors

        cuda_vectors.record(log, k, *vectors)
    else:
        _record(log, k, *vectors)


def _record(log: Array, k: int, /, *vectors: Array) -> None:
    for place, vector in enumerate(vectors):
        log[k, place, :] = vector


def center_columns(product: Array, V: Array, /, *, shift: float = 0.0) -> Array:
    """Subtract from the columns of `product` (n, t) their means, and add `shift` times `V`.

    In the precision of `V`, which is at most that of `product`.
    """
    if _has_twin(V) and _has_thread_for_columns(V):
        from gpukfl._accel import cuda_vectors

        return cuda_vectors.center_columns(product, V, shift)
    return _center_columns(product, V, shift)


def _center_columns(product: Array, V: Array, shift: float, /) -> Array:
    xp = array_namespace(V)
    means = sample_sums(product) / product.shape[0]
    centered = product - xp.astype(means, product.dtype, copy=False)
    centered = xp.astype(centered, V.dtype, copy=False)
    return centered + shift * V if shift else centered


def _has_thread_for_columns(x: Array) -> bool:
    from gpukfl._accel import cuda_vectors

    return cuda_vectors.can_sum_columns(x)


def _has_twin(*arrays: Array) -> bool:
    return has_kernels(arrays[0], "vectors") and all(x.dtype == arrays[0].dtype for x in arrays)


def _ratio(num: Array, den: Array, /) -> Array:
    """``num / den``, and 0 where `den` is 0."""
    xp = array_namespace(num, den)
    return num / xp.where(den == 0, xp.full_like(den, math.inf), den)
