"""The multi-dimensional Brownian kernel, by blocks."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl._array import Array, array_namespace
from gpukfl._memory import block_size, for_blocks
from gpukfl.linalg import distances
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
