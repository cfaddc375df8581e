"""The Brownian ridge-sum kernel, exact and near-linear."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl.core._array import Array, array_namespace, double_like
from gpukfl.core._lazy import OldName
from gpukfl.core._memory import block_size, run_in_blocks
from gpukfl.linalg import (
    SortedRows,
    absolute_differences,
    ridge_curves,
    ridge_sums,
    sign_products,
    sort_rows,
)
from gpukfl.operators._base import ParticleKernel
from gpukfl.operators._coarse import CoarseInverse
from gpukfl.partitioned._rows import Rows

# Projections on either side that the preconditioner's knots leave out: a number, because their
# part of the spectrum grows with it, and a share where the samples are few
_OUTSIDE, _OUTSIDE_SHARE = 1000, 0.01
_GRADIENT_ROWS = 2**16  # samples summed in the data's own precision before float64 takes over


@dataclass(frozen=True, eq=False)
class BrownianKernel(ParticleKernel):
    r"""Sum over particles of one-dimensional Brownian kernels, exact.

    .. math:: K_{ii'} = -\frac{1}{2m} \sum_{j=1}^m |w_j^\top (x_i - x_{i'})|

    which equals the Brownian kernel :math:`(|a| + |b| - |a - b|)/2` on vectors that sum to zero;
    products with other vectors are not meaningful. Built by `build`, in O(n m (d + log n)).

    Notes
    -----
    A product costs O(n m) for each right-hand side: prefix sums along each particle's sorted
    projections. Memory is 12 to 24 bytes for each of the n m projections.

    References
    ----------
    .. [1] Follain and Bach, "Enhanced Feature Learning via Regularisation: Integrating Neural
       Networks and Kernel Methods", arXiv:2407.17280, eq. (8) and Lemma 8.
    """

    X: Array  # (n, d)
    W: Array  # (d, m)
    sorted: SortedRows  # of the projections, (m, n)

    @classmethod
    def build(cls, X: Array, W: Array, /) -> BrownianKernel:
        """Project `X` (n, d) on the particles `W` (d, m), and sort."""
        return cls(X, W, sort_rows(W.T @ X.T))

    @property
    def n_samples(self) -> int:
        """Number of rows and columns."""
        return self.X.shape[0]

    @property
    def n_particles(self) -> int:
        """Number of particles m."""
        return self.sorted.shape[0]

    def _matmat(self, V: Array, /) -> Array:
        return ridge_sums(self.sorted, V) / self.n_particles

    def dense(self, reference: Array, /) -> Array:
        """Form the matrix (n, n) beside `reference`, from the absolute differences; O(n² m)."""
        differences = absolute_differences(self.W.T @ self.X.T)
        differences *= -0.5 / self.n_particles
        return array_namespace(reference).astype(differences, reference.dtype, copy=False)

    def approximate_inverse(self, root_weights: Array | None, shift: float) -> CoarseInverse | None:
        """Invert the kernel between few knots."""
        rows = Rows(self.X, self.X[:0, ...])
        xp = array_namespace(self.X)
        values = self.sorted.values
        out = min(_OUTSIDE, int(_OUTSIDE_SHARE * self.n_samples))
        low, high = (xp.astype(values[:, k], xp.float64) for k in (out, -1 - out))
        return CoarseInverse.build(rows, self.W, root_weights, ends=(low, high), shift=shift)

    def quadratic_gradient(self, alpha: Array, /) -> Array:
        r"""Differentiate :math:`\sum_c \alpha_c^\top K \alpha_c` with respect to W: (d, m).

        `alpha` (n, t) has columns that sum to zero. The derivative of :math:`|w^\top(x - x')|`
        is taken as 0 where :math:`w^\top x = w^\top x'`. O(n m (t + d)).
        """
        xp = array_namespace(alpha)
        n = self.n_samples
        m = self.n_particles
        parts = []

        def body(start: int, stop: int) -> None:
            products = sign_products(self.sorted.part(start, stop), alpha)
            parts.append(product_over_samples(products, self.X))

        run_in_blocks(m, block_size(alpha, bytes_each=32 * n, elements_each=n, at_most=m), body)
        total = xp.concat(parts, axis=0) / (-1.0 * m)
        return xp.astype(total.T, alpha.dtype)

    def curves(self, alpha: Array, /) -> tuple[Array, Array]:
        """Positions (m, n) and values (m, n, t), float64, of the shape functions of `alpha`."""
        return self.sorted.values, ridge_curves(self.sorted, alpha)

    of = OldName("build")


def product_over_samples(Q: Array, X: Array, /) -> Array:
    """Product ``Q @ X`` over the samples, (m, n) by (n, d), accumulated in float64."""
    xp = array_namespace(Q)
    n = X.shape[0]
    parts = []
    for start in range(0, n, _GRADIENT_ROWS):
        stop = min(start + _GRADIENT_ROWS, n)
        parts.append(xp.astype(Q[:, start:stop] @ X[start:stop, :], xp.float64, copy=False))
    if not parts:
        return xp.zeros((Q.shape[0], X.shape[1]), **double_like(Q))
    return sum(parts[1:], start=parts[0])
