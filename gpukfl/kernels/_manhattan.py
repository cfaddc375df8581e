"""The Laplace kernel of the l1 distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpukfl._array import Array, array_namespace, like
from gpukfl.kernels._base import LengthscaleKernel, coincident
from gpukfl.linalg import distances, sign_sums


@dataclass(frozen=True)
class ManhattanLaplace(LengthscaleKernel):
    r""":math:`k = e^{-\|x - z\|_1 / \ell}`, a product of one-dimensional Laplace kernels.

    Evaluated coordinate by coordinate in O(n q d), without an (n, q, d) array.
    """

    norm: ClassVar[str] = "manhattan"

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return array_namespace(X, Z).exp(distances(X, Z, norm="manhattan") / -self.lengthscale)

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:
        xp = array_namespace(X, Z, P)
        K = self._evaluate(X, Z) if K is None else K
        same = coincident(X, Z, self.lengthscale * (1.0 - K))
        Q = xp.where(same, xp.zeros_like(P), P * K / -self.lengthscale)
        return sign_sums(Q, X, Z), sign_sums(Q.T, Z, X)

    def diagonal(self, X: Array, /) -> Array:
        """Ones."""
        return array_namespace(X).ones(X.shape[0], **like(X))
