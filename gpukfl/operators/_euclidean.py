"""The multi-dimensional Brownian kernel, by blocks."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl._array import Array, array_namespace, double_like, is_host
from gpukfl._memory import block_size, for_blocks
from gpukfl.operators._base import LinearOperator


@dataclass(frozen=True, eq=False)
class EuclideanBrownianKernel(LinearOperator):
    r"""Multi-dimensional Brownian kernel, up to what vanishes on centred vectors.

    .. math:: K_{ii'} = -\tfrac12 \|x_i - x_{i'}\|_2

    A product costs O(n² d) and never stores more than a block of rows of K.
    """

    X: Array  # (n, d)

    @property
    def n_samples(self) -> int:
        """Number of rows and columns."""
        return self.X.shape[0]

    def _matmat(self, V: Array, /) -> Array:
        xp = array_namespace(V)
        return xp.astype(self.between(self.X, V), V.dtype)

    def between(self, Z: Array, V: Array, /) -> Array:
        """Multiply the kernel between `Z` (q, d) and the samples with `V` (n, t)."""
        xp = array_namespace(V)
        n = self.n_samples
        parts = []

        def body(start: int, stop: int) -> None:
            parts.append(distances(Z[start:stop, :], self.X) @ V / -2.0)

        q = Z.shape[0]
        for_blocks(q, block_size(V, bytes_each=32 * n, elements_each=n, at_most=q), body)
        return xp.concat(parts, axis=0)

    def dense(self, reference: Array, /) -> Array:  # noqa: ARG002
        """Form the matrix (n, n)."""
        return distances(self.X, self.X) / -2.0


def distances(X: Array, Z: Array, /) -> Array:
    """Euclidean distances (n, q) between `X` (n, d) and `Z` (q, d), O(n q d)."""
    if is_host(X):
        from scipy.spatial.distance import cdist

        return cdist(X, Z).astype(X.dtype, copy=False)
    xp = array_namespace(X, Z)
    total = xp.zeros((X.shape[0], Z.shape[0]), **double_like(X))
    for feature in range(X.shape[1]):  # differences, not a Gram matrix: no cancellation
        gap = X[:, feature][:, None] - Z[:, feature][None, :]
        total = total + xp.astype(gap, xp.float64) ** 2
    return xp.astype(xp.sqrt(total), X.dtype)
