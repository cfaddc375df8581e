"""The Brownian ridge-sum kernel on equally spaced knots: no sort, and rows by blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from gpukfl.core._array import Array, array_namespace, concat_rows, double_like
from gpukfl.core._lazy import OldName
from gpukfl.core._memory import available_memory
from gpukfl.linalg import Positions, bin_products, interpolate_bins, knot_levels, part_sums
from gpukfl.operators._base import ParticleKernel
from gpukfl.operators._brownian import product_over_samples
from gpukfl.operators._coarse import CoarseInverse, projection_range
from gpukfl.partitioned._rows import Rows, keep_rows, map_rows, reduce_rows

_MANY = 2**27  # positions, beyond which they are rounded to what half of the memory holds
_NARROW = 15  # bits of those

_Placed = tuple[int, int, Positions]  # samples from one up to another, among the knots


@dataclass(frozen=True, eq=False)
class BinnedBrownianKernel(ParticleKernel):
    r"""`BrownianKernel` interpolated between q equally spaced knots on each particle's range.

    .. math:: K = \frac1m \sum_j B_j K^{grid}_j B_j^\top, \quad
              K^{grid}_{kk'} = -\tfrac12 |t_{jk} - t_{jk'}|

    Symmetric and positive semidefinite on vectors that sum to zero, as the exact kernel is; the
    relative error is of order 1/q² on smooth vectors and 1/q^{3/2} on noise. Built by `build`.

    Notes
    -----
    A product costs O(n m + q m) for each right-hand side, and no random access leaves the cache.
    Memory is 4 bytes for each of the n m positions while half of the memory budget holds
    them, or 2 bytes on the host beyond 134 million, which are then rounded to 2^-15 of the range;
    beyond that they are computed anew from the rows at each product, so that n is limited by where
    the rows are stored.
    """

    rows: Rows
    W: Array  # (d, m)
    low: Array  # (m,) position of the first knot
    gap: Array  # (m,) distance between knots, positive
    n_knots: int

    @classmethod
    def build(cls, rows: Rows, W: Array, /, *, n_knots: int) -> BinnedBrownianKernel:
        """Find each particle's range in one pass over the rows; O(n d m)."""
        xp = array_namespace(W)
        low, high = projection_range(rows, W)
        gap = (high - low) / (n_knots - 1)
        # Where all projections are equal any gap will do: every position is 0.
        return cls(rows, W, low, xp.where(gap == 0, xp.ones_like(gap), gap), n_knots)

    @property
    def n_samples(self) -> int:
        """Number of rows and columns."""
        return self.rows.shape[0]

    @property
    def n_particles(self) -> int:
        """Number of particles m."""
        return self.W.shape[1]

    @cached_property
    def _stored_positions(self) -> list[_Placed] | None:
        """Positions of all samples, kept with the rows if memory allows."""
        bare = replace(self)  # which does not know what it is about to keep

        def part(start: int, stop: int) -> list[_Placed] | None:
            needed = 4 * (stop - start) * bare.n_particles
            fits = needed <= available_memory(bare.W) // 2
            return list(bare._compute_positions(start, stop)) if fits else None

        return keep_rows(self.rows.source, part)

    def _compute_positions(self, start: int, stop: int) -> Iterator[_Placed]:
        for first, last in self.rows.ranges(2 * self.n_particles, start=start, stop=stop):
            yield first, last, Positions.concat(self._iterate_positions(first, last), last - first)

    def _iterate_positions(self, start: int, stop: int) -> Iterator[Positions]:
        for _, _, X in self.rows.strips(start, stop):
            A = self.W.T @ X.T
            yield Positions.from_projections(A, self.low, self.gap, self.n_knots, shift=self._shift)

    @property
    def _shift(self) -> int | None:
        """The bits of a position between knots; None means as many as fit."""
        spare = _NARROW - (self.n_knots - 1).bit_length()
        return spare if spare > 0 and self.n_samples * self.n_particles > _MANY else None

    def release(self) -> None:
        """Release the positions, which can be computed again."""
        self.__dict__.pop("_stored_positions", None)

    def _levels(self, V: Array, over: int) -> Array:
        """Knot values (m, q, t) of all samples."""
        self.prepare()

        def part(start: int, stop: int) -> list[Array]:
            at = self.positions(start, stop)
            return [knot_levels(at, V, self.gap, self.n_knots, over=over)]

        (levels,) = reduce_rows(self.rows.source, part)
        return levels

    def _matmat(self, V: Array, /) -> Array:
        U = self._levels(V, self.n_particles)

        def part(start: int, stop: int) -> Array:
            return concat_rows(
                [interpolate_bins(at, U) for _, _, at in self.positions(start, stop)]
            )

        return map_rows(self.rows.source, part, columns=V.shape[1:], dtype=U.dtype)

    def approximate_inverse(self, root_weights: Array | None, shift: float) -> CoarseInverse | None:
        """Invert the kernel between few knots, where the rows lie in one place."""
        return CoarseInverse.build(self.rows, self.W, root_weights, ends=self.ends, shift=shift)

    @property
    def ends(self) -> tuple[Array, Array]:
        """First and last knot of each particle, (m,)."""
        return self.low, self.low + (self.n_knots - 1) * self.gap

    def positions(self, start: int, stop: int, /) -> Iterable[_Placed]:
        """Return the positions of rows that lie together, by blocks; inside a pass."""
        return (
            self._compute_positions(start, stop)
            if self._stored_positions is None
            else self._stored_positions
        )

    def prepare(self) -> None:
        """Compute and keep the positions with the rows."""
        self._stored_positions  # noqa: B018

    def quadratic_gradient(self, alpha: Array, /) -> Array:
        r"""Approximate the derivative of :math:`\sum_c \alpha_c^\top K \alpha_c` in W: (d, m).

        The signed sums of the exact kernel with sign interpolated between knots both ways, so
        that a sample's pull on itself and on its ties cancels exactly, as it must. `alpha`
        (n, t) has columns that sum to zero. Pairs of samples within a cell pull less than they
        should, so that the error is larger than the product's: about 2 % of the derivative for
        white noise, 1e-4 and less for smooth `alpha` from 100 000 samples on.
        """
        xp, m, q = array_namespace(alpha), self.n_particles, self.n_knots
        self.prepare()
        (sums,) = reduce_rows(
            self.rows.source,
            lambda start, stop: [part_sums(self.positions(start, stop), alpha, m, q)],
        )
        mass = xp.cumulative_sum(sums, axis=1)
        signed = 2.0 * mass - sums - mass[:, -1:, :]  # below less above, half of a knot each way

        def part(start: int, stop: int) -> list[Array]:
            parts = []
            for first, last, at in self.positions(start, stop):
                for i, j, X in self.rows.strips(first, last):
                    some = at.part(i - first, j - first)
                    products = bin_products(some, signed, alpha[i:j, :])
                    parts.append(product_over_samples(xp.astype(products, X.dtype, copy=False), X))
            return [sum(parts[1:], start=parts[0])]

        (total,) = reduce_rows(self.rows.source, part)
        return xp.astype(total.T / (-1.0 * m), alpha.dtype)

    def curves(self, alpha: Array, /) -> tuple[Array, Array]:
        """Positions (m, q) and values (m, q, t), float64, of the shape functions of `alpha`."""
        xp = array_namespace(alpha)
        steps = xp.arange(self.n_knots, **double_like(alpha))
        levels = self._levels(alpha, 1)
        return self.low[:, None] + self.gap[:, None] * steps[None, :], levels

    of = OldName("build")
