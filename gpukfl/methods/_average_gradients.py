"""Average gradient outer products of kernel sums, and their eigenvectors."""

from __future__ import annotations

from collections.abc import Iterator

from gpukfl._array import Array, array_namespace, clipped, double_like, in_double
from gpukfl.linalg import eigh
from gpukfl.operators import KernelOperator, mapped_back

_RANK = 1e-10  # share of the largest eigenvalue, below which rounding makes the directions


def average_gradient_outer_product(
    operator: KernelOperator,
    alpha: Array,
    weights: Array | None = None,
    /,
    *,
    diagonal: bool = False,
) -> Array:
    r"""Average gradient outer product of :math:`f(x) = \sum_j \alpha_j k(Bx, Bz_j)`: (d, d).

    .. math:: \frac1N \sum_i D_i \sum_c \nabla f_c(x_i) \nabla f_c(x_i)^\top

    Where x_i is a centre and the kernel has a kink there, that centre counts nothing.

    Parameters
    ----------
    operator : KernelOperator
        The kernel between the rows at which gradients are taken and the centres, with its map.
    alpha : array, shape (q, t)
        Dual coefficients.
    weights : array, shape (n, 1), optional
        Sample weights D, of sum N.
    diagonal : bool
        Give its diagonal alone.

    Returns
    -------
    array, shape (d, d), or (d,)
        In float64: O(n q t (k + d)) time, by blocks of rows, and O(n t d²) for all of it.
    """
    xp, shape = array_namespace(operator.Z), (operator.Z.shape[1],) * (1 if diagonal else 2)

    def compute(start: int, stop: int) -> tuple[Array, ...]:
        total = xp.zeros(shape, **double_like(operator.Z))
        for slopes in _gradients(operator, alpha, start, stop):
            weighted = slopes if weights is None else weights[start:stop, :] * slopes
            part = xp.sum(weighted * slopes, axis=0) if diagonal else weighted.T @ slopes
            total = total + xp.astype(part, xp.float64)
        return (total,)

    (total,) = operator.sum_over_blocks(compute)
    return total / _weight(operator, weights)


def principal_gradients(
    operator: KernelOperator, alpha: Array, weights: Array | None = None, /
) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of the average gradient outer product.

    Parameters
    ----------
    operator, alpha, weights
        As of `average_gradient_outer_product`, in one place.

    Returns
    -------
    tuple of arrays, shapes (r,) and (r, d)
        In float64, the largest first; r is d, or at most the number of gradients n t where
        features are more, without directions of rounding: O(n q t (k + d) + n t d min(n t, d)).
    """
    n, d = operator.shape[0], operator.Z.shape[1]
    if n * alpha.shape[1] >= d:
        G = average_gradient_outer_product(operator, alpha, weights)
        xp, (values, vectors) = array_namespace(G), eigh(G)
        return clipped(xp.flip(values), low=0.0), xp.flip(vectors, axis=1).T
    parts: list[Array] = []

    def compute(start: int, stop: int) -> list[Array]:
        found = [in_double(slopes) for slopes in _gradients(operator, alpha, start, stop)]
        if weights is None:
            return found
        roots = in_double(weights[start:stop, :]) ** 0.5
        return [roots * slopes for slopes in found]

    operator.over_blocks(compute, lambda _start, _stop, found: parts.extend(found))
    values, rows = right_singular_vectors(array_namespace(alpha).concat(parts, axis=0))
    return values / _weight(operator, weights), rows


def right_singular_vectors(A: Array, /) -> tuple[Array, Array]:
    """Squared singular values and right singular vectors of a wide matrix, by its Gram matrix.

    Parameters
    ----------
    A : array, shape (n, d)
        Wide, in float64.

    Returns
    -------
    tuple of arrays, shapes (r,) and (r, d)
        The largest first, without those below 1e-10 times the largest: O(n² (n + d)), a third of
        the time of a singular value decomposition.
    """
    xp, (values, vectors) = array_namespace(A), eigh(A @ A.T)
    values = clipped(xp.flip(values), low=0.0)
    rank = max(int(xp.sum(xp.astype(values > _RANK * values[0], xp.int64))), 1)
    values, rows = values[:rank], xp.flip(vectors, axis=1)[:, :rank].T @ A
    lengths = xp.sqrt(values)[:, None]
    return values, rows / xp.where(lengths > 0, lengths, xp.ones_like(lengths))


def _gradients(operator: KernelOperator, alpha: Array, start: int, stop: int) -> Iterator[Array]:
    """Gradients (stop - start, d) of each target at a block of rows."""
    a = array_namespace(alpha).astype(alpha, operator.Z.dtype)
    U = operator.project(operator.rows.block(start, stop))
    K = operator.values(start, stop, U)
    for slopes in operator.kernel._gradients(U, operator.centers, a, K):
        yield slopes if operator.B is None else mapped_back(slopes, operator.B)


def _weight(operator: KernelOperator, weights: Array | None) -> float:
    if weights is None:
        return float(operator.shape[0])
    xp = array_namespace(weights)
    return float(xp.sum(weights, dtype=xp.float64))
