"""The Brownian ridge-sum kernel on equally spaced knots: no sort, and rows by blocks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gpukfl._array import Array, array_namespace, double_like
from gpukfl._memory import available_memory
from gpukfl._rows import Rows
from gpukfl.linalg import Positions, bin_products, bin_sums, interpolate_bins
from gpukfl.operators._base import LinearOperator
from gpukfl.operators._brownian import sample_sums


@dataclass(frozen=True, eq=False)
class BinnedBrownianKernel(LinearOperator):
    r"""`BrownianKernel` interpolated between q equally spaced knots on each particle's range.

    .. math:: K = \frac1m \sum_j B_j K^{grid}_j B_j^\top, \quad
              K^{grid}_{kk'} = -\tfrac12 |t_{jk} - t_{jk'}|

    Symmetric and positive semidefinite on vectors that sum to zero, as the exact kernel is; the
    relative error is of order 1/q² on smooth vectors and 1/q^{3/2} on noise. Built by `of`.

    Notes
    -----
    A product costs O(n m + q m) for each right-hand side, and no random access leaves the cache.
    Memory is 4 bytes for each of the n m positions while half of what is free holds them;
    beyond that they are computed anew from the rows at each product, so that n is limited by
    where the rows are stored.
    """

    rows: Rows
    W: Array  # (d, m)
    low: Array  # (m,) position of the first knot
    gap: Array  # (m,) distance between knots, positive
    n_knots: int

    @classmethod
    def of(cls, rows: Rows, W: Array, /, *, n_knots: int) -> BinnedBrownianKernel:
        """Find each particle's range in one pass over the rows; O(n d m)."""
        xp = array_namespace(W)
        low = high = None
        for _, _, X in rows.blocks(W.shape[1]):
            A = W.T @ X.T
            least, most = xp.min(A, axis=1), xp.max(A, axis=1)
            low = least if low is None else xp.minimum(low, least)
            high = most if high is None else xp.maximum(high, most)
        low, high = xp.astype(low, xp.float64), xp.astype(high, xp.float64)
        gap = (high - low) / (n_knots - 1)
        # Where all projections are equal any gap will do: every position is 0.
        return cls(rows, W, low, xp.where(gap > 0, gap, xp.ones_like(gap)), n_knots)

    @property
    def n_samples(self) -> int:
        """Number of rows and columns."""
        return self.rows.shape[0]

    @property
    def n_particles(self) -> int:
        """Number of particles m."""
        return self.W.shape[1]

    @cached_property
    def _stored(self) -> list[tuple[int, int, Positions]] | None:
        if 4 * self.n_samples * self.n_particles > available_memory(self.W) // 2:
            return None
        return list(self._computed())

    def _computed(self):
        xp = array_namespace(self.W)
        for start, stop, X in self.rows.blocks(4 * self.n_particles):
            A = xp.astype(self.W.T @ X.T, xp.float64)
            P = (A - self.low[:, None]) / self.gap[:, None]
            yield start, stop, Positions.of(P, self.n_knots)

    def _positions(self):
        return self._computed() if self._stored is None else self._stored

    def _matmat(self, V: Array, /) -> Array:
        xp = array_namespace(V)
        U = self._knot_values(V) / self.n_particles
        return xp.concat([interpolate_bins(at, U) for _, _, at in self._positions()], axis=0)

    def _knot_mass(self, V: Array, /) -> Array:
        """Prefix sums of the binned `V`: minus the slopes, (m, q, t)."""
        xp = array_namespace(V)
        shape = (self.n_particles, self.n_knots, V.shape[1])
        total = xp.zeros(shape, **double_like(V))
        for start, stop, at in self._positions():
            total = total + bin_sums(at, V[start:stop, :])
        return xp.cumulative_sum(total, axis=1)

    def _knot_values(self, V: Array, /) -> Array:
        """Give the sum of ridge functions at the knots, 0 at the first: (m, q, t)."""
        xp = array_namespace(V)
        steps = -self._knot_mass(V)[:, : self.n_knots - 1, :] * self.gap[:, None, None]
        return xp.cumulative_sum(steps, axis=1, include_initial=True)

    def quadratic_gradient(self, alpha: Array, /) -> Array:
        r"""Differentiate :math:`\sum_c \alpha_c^\top K \alpha_c` with respect to W: (d, m).

        Each knot is held at its distance from the first, so the derivative is exact for the
        binned kernel while the range stays; `alpha` (n, t) has columns that sum to zero.
        """
        xp = array_namespace(alpha)
        slopes = -self._knot_mass(alpha)[:, : self.n_knots - 1, :]
        total = xp.zeros((self.n_particles, self.rows.shape[1]), **double_like(alpha))
        for start, stop, at in self._positions():
            products = bin_products(at, slopes, alpha[start:stop, :])
            total = total + sample_sums(products, self.rows.block(start, stop))
        return xp.astype(total.T * (2.0 / self.n_particles), alpha.dtype)

    def curves(self, alpha: Array, /) -> tuple[Array, Array]:
        """Positions (m, q) and values (m, q, t), float64, of the shape functions of `alpha`."""
        xp = array_namespace(alpha)
        steps = xp.arange(self.n_knots, **double_like(alpha))
        return self.low[:, None] + self.gap[:, None] * steps[None, :], self._knot_values(alpha)
