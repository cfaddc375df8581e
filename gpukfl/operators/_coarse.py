"""Preconditioner of the Brownian ridge-sum kernel: the same kernel between few knots."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpukfl.core._array import Array, array_namespace, as_columns, get_device, like, sample_sums
from gpukfl.core._lazy import OldName
from gpukfl.core._memory import MAX_ELEMENTS
from gpukfl.linalg import CholeskyFactor, Positions, bin_sums, interpolate_bins, pair_sums
from gpukfl.partitioned._rows import Rows, elementwise_min, reduce_rows

# Cells over all particles: what the Cholesky factor costs, against products with n samples
_RANKS = ((30_000, 400), (200_000, 800), (600_000, 1600))
_MAX_RANK = 2400
_MAX_CELLS = 128  # of one particle: the table of a pair then stays in cache
_MIN_CELLS = 2
_BLOCK = 256  # rows of a matrix that change together
_ROUND_BITS = 12  # of particles and ends of knots, before positions are taken of them
_SHARE_BITS = 4  # positions between knots; with more, float32 no longer sums their products exactly


@dataclass(frozen=True, eq=False)
class CoarseGrid:
    """Few equally spaced knots on each particle's range."""

    low: Array  # (m,) position of the first knot
    width: Array  # (m,) of a cell, positive
    n_cells: int

    @classmethod
    def build(cls, n: int, ends: tuple[Array, Array], /) -> CoarseGrid | None:
        """Choose the cells for n samples; return None if the factor would cost too much.

        `ends` are the first and the last knot of each particle, float64 (m,).
        """
        m = ends[0].shape[0]
        rank = next((rank for below, rank in _RANKS if n < below), _MAX_RANK)
        q = min(_MAX_CELLS, rank // m, n // (2 * m))
        if q < _MIN_CELLS:
            return None
        xp = array_namespace(ends[0])
        width = (ends[1] - ends[0]) / q
        return cls(ends[0], xp.where(width > 0, width, xp.ones_like(width)), q)

    def coarsen(self, at: Positions, /) -> Positions:
        """Return the positions among these knots, from positions among more knots."""
        factor = self.n_cells / (at.n_knots - 1) * 2.0 ** (_SHARE_BITS - at.shift)
        return at.rescale(factor, _SHARE_BITS, self.n_cells + 1)

    def factor(self, pairs: Array, total: float, shift: float, /) -> CholeskyFactor:
        r"""Factor :math:`\mu G^{-1} + B^\top B`, with B centred: order m q.

        `pairs` (m (q + 1), m (q + 1)) are sums over the samples, of weights that sum to `total`.
        """
        xp, m, q = array_namespace(pairs), self.width.shape[0], self.n_cells
        sums = xp.reshape(pairs, (m, q + 1, m, q + 1))
        # The shares of a sample among the knots of any particle sum to one
        margins = xp.reshape(xp.sum(sums[0, :, :, 1:], axis=0), (m * q, 1))
        gram = xp.reshape(sums[:, 1:, :, 1:], (m * q, m * q))
        del pairs, sums  # as large as the gram matrix
        return self.factor_sums(gram, margins, total, shift)

    def centered_inverse(self, pairs: Array, total: float, shift: float, /) -> Array:
        r"""Return :math:`C (\mu G^{-1} + B^\top B)^{-1} C^\top`, of order m (q + 1), from `pairs`.

        C takes from knot values, of which the first ones are 0, the mean over the samples. What
        it makes of sums is then centred, and sums need not be of a centred vector.
        """
        xp, m, q = array_namespace(pairs), self.width.shape[0], self.n_cells
        size = m * (q + 1)
        margins = xp.sum(xp.reshape(pairs, (m, q + 1, size))[0, :, :], axis=0)
        inner = self.factor(pairs, total, shift).inverse()
        wide = xp.zeros((m, q + 1, m, q + 1), **like(pairs))
        wide[:, 1:, :, 1:] = xp.reshape(inner, (m, q, m, q))
        matrix = xp.reshape(wide, (size, size))
        # A constant is the same value, over m, at all knots
        mean = margins / (total * m)
        on_mean = matrix @ mean
        matrix -= on_mean[:, None] - 0.5 * xp.sum(mean * on_mean)
        matrix -= on_mean[None, :] - 0.5 * xp.sum(mean * on_mean)
        return matrix

    def factor_sums(
        self, gram: Array, margins: Array, total: float, shift: float, /
    ) -> CholeskyFactor:
        """Factor as `factor`, in place, from sums without the first knots: (m q, m q), (m q, 1)."""
        for block in range(0, gram.shape[0], _BLOCK):
            rows = slice(block, min(block + _BLOCK, gram.shape[0]))
            gram[rows, :] -= margins[rows, :] @ (margins.T / total)
        _add_precision(gram, shift * self.width.shape[0] / self.width, self.n_cells)
        return CholeskyFactor.factor(gram, overwrite=True)

    def levels(self, factor: CholeskyFactor, sums: Array, /) -> Array:
        """Solve for knot values (m, q + 1, t) from sums of the same shape."""
        xp, (m, _, t), q = array_namespace(sums), sums.shape, self.n_cells
        solved = factor.solve(xp.reshape(sums[:, 1:, :], (m * q, t)))
        levels = xp.reshape(solved, (m, q, t))
        return xp.concat([xp.zeros_like(levels[:, :1, :]), levels], axis=1)

    of = OldName("build")
    among = OldName("coarsen")


@dataclass(frozen=True, eq=False)
class CoarseInverse:
    r"""Exact inverse of :math:`\hat K + \mu I`, with q + 1 knots for each particle.

    Let :math:`B` interpolate linearly between the knots of each particle but its first, and
    :math:`G` be the block-diagonal matrix of Brownian kernels of the knots, over m. The kernel
    of interpolated functions is :math:`\hat K = B G B^\top`, and by the Woodbury identity

    .. math::
        (\hat K + \mu I)^{-1} = \tfrac1\mu (I - B (\mu G^{-1} + B^\top B)^{-1} B^\top),

    where B has been weighted and centred as `CenteredKernel` does, and :math:`G^{-1}` is
    tridiagonal.

    Notes
    -----
    Building costs the m²/2 tables of :math:`B^\top B`, O(n m²), and a Cholesky factor of order
    m q; applying it O(n m + m² q²). What is left of the spectrum is Brownian bridges inside the
    cells, of order :math:`n h / m q` with cells of width h.
    """

    at: list[Positions]  # among the knots: (m, n), in parts that CuPy computes with
    matrix: Array  # (m (q + 1), m (q + 1)): what makes knot values of sums, centred on both sides
    shift: float  # mu
    root_weights: Array | None  # (n, 1)

    @classmethod
    def build(
        cls,
        rows: Rows,
        W: Array,
        root_weights: Array | None,
        /,
        *,
        ends: tuple[Array, Array],
        shift: float,
    ) -> CoarseInverse | None:
        """Build from the rows and the particles `W` (d, m); return None if it would cost too much.

        `ends` are the first and the last knot of each particle, float64 (m,).
        """
        n = rows.shape[0]
        low, high = ends
        span = high - low
        grid = CoarseGrid.build(n, (_round_to_bits(low, span), _round_to_bits(high, span)))
        if grid is None:
            return None
        xp = array_namespace(W)
        W = _round_to_bits(W, xp.max(xp.abs(W), axis=0))
        at = _positions(rows, W, grid)
        weights = None if root_weights is None else root_weights**2
        pairs = _pair_sums(at, weights)
        total = float(n) if weights is None else float(sample_sums(weights)[0])
        return cls(at, grid.centered_inverse(pairs, total, shift), shift, root_weights)

    def __call__(self, r: Array, /) -> Array:
        """Apply to `r` (n,) or (n, t)."""
        xp, s, columns = array_namespace(r), self.root_weights, as_columns(r)
        spread = columns if s is None else s * columns
        parts = [bin_sums(here, spread[a:b, :]) for a, b, here in _enumerate_parts(self.at)]
        sums = sum(parts[1:], start=parts[0])
        levels = self.matrix @ xp.reshape(sums, (self.matrix.shape[0], -1))
        levels = xp.reshape(levels, sums.shape)
        inside = xp.concat([interpolate_bins(here, levels) for here in self.at], axis=0)
        if s is not None:
            inside = s * inside
        inside = xp.reshape(xp.astype(inside, r.dtype, copy=False), r.shape)
        return (r - inside) / self.shift


def _round_to_bits(x: Array, size: Array, /) -> Array:
    """Round `x` to `_ROUND_BITS` bits of the power of two below `size`.

    The positions of samples among few knots are in coarse steps. Particles that differ by rounding
    alone must give the same positions: else two fits of the same data part.
    """
    xp = array_namespace(x)
    size = xp.where(size > 0, size, xp.ones_like(size))
    step = 2.0 ** (xp.floor(xp.log(size) / math.log(2.0)) - _ROUND_BITS)
    return xp.floor(x / step + 0.5) * step


def _positions(rows: Rows, W: Array, grid: CoarseGrid) -> list[Positions]:
    """Place every projection among the knots, in as few arrays as CuPy takes."""
    xp, at_most, q = array_namespace(W), max(MAX_ELEMENTS // W.shape[1], 1), grid.n_cells + 1
    groups: list[list[Array]] = []
    room = 0
    for _, _, X in rows.blocks(W.shape[1]):
        codes = Positions.from_projections(
            W.T @ X.T, grid.low, grid.width, q, shift=_SHARE_BITS
        ).codes
        if codes.shape[1] > room:
            groups.append([])
            room = at_most
        groups[-1].append(codes)
        room -= codes.shape[1]
    return [Positions(xp.concat(group, axis=1), _SHARE_BITS, q) for group in groups]


def _enumerate_parts(parts: Sequence[Positions]) -> Iterator[tuple[int, int, Positions]]:
    """Yield each part of the samples with its start and stop."""
    start = 0
    for part in parts:
        stop = start + part.codes.shape[1]
        yield start, stop, part
        start = stop


def _pair_sums(parts: Sequence[Positions], weights: Array | None) -> Array:
    """Sum `pair_sums` over the parts."""
    total: Array | None = None
    for start, stop, part in _enumerate_parts(parts):
        sums = pair_sums(part, None if weights is None else weights[start:stop, :])
        total = sums if total is None else total + sums
    assert total is not None
    return total


def _add_precision(gram: Array, scale: Array, q: int, /) -> None:
    """Add inverses of the kernels min(l, l'), l = 1, ..., q, times `scale` (m,), to the blocks."""
    xp = array_namespace(scale)
    on = like(scale)
    one = 2.0 * xp.eye(q, **on) - xp.eye(q, k=1, **on) - xp.eye(q, k=-1, **on)
    last = xp.arange(q, dtype=xp.int64, device=get_device(scale)) == q - 1
    one = xp.where(last[:, None] & last[None, :], xp.ones_like(one), one)
    for j in range(scale.shape[0]):
        block = slice(j * q, (j + 1) * q)
        gram[block, block] += scale[j] * one


def projection_range(rows: Rows, W: Array, /) -> tuple[Array, Array]:
    """Smallest and largest projection on each particle, float64 (m,), in one pass."""
    xp = array_namespace(W)

    def part(start: int, stop: int) -> list[Array]:
        ends: list[tuple[Array, Array]] = []
        for first, last in rows.ranges(W.shape[1], start=start, stop=stop):
            for _, _, X in rows.strips(first, last):
                A = W.T @ X.T
                ends.append((xp.min(A, axis=1), -xp.max(A, axis=1)))
        return [functools.reduce(elementwise_min, side) for side in zip(*ends, strict=True)]

    low, high = reduce_rows(rows.source, part, combine=elementwise_min)
    return xp.astype(low, xp.float64), -xp.astype(high, xp.float64)
