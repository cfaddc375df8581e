"""Preconditioner of the Brownian ridge-sum kernel: the same kernel between few knots."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpukfl._array import Array, array_namespace, device_of, like, sample_sums
from gpukfl._memory import MAX_ELEMENTS
from gpukfl._passes import keep_rows, lowest, map_rows, reduce_rows
from gpukfl._rows import Rows
from gpukfl.linalg import CholeskyFactor, Positions, bin_sums, interpolate_bins, pair_sums
from gpukfl.operators._centered import center

# Cells over all particles: what the Cholesky factor costs, against products with n samples
_RANKS = ((30_000, 400), (200_000, 800), (600_000, 1600))
_MAX_RANK = 2400
_MAX_CELLS = 128  # of one particle: the table of a pair then stays in cache
_SHARE_BITS = 4  # positions between knots; with more, float32 no longer sums their products exactly


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

    rows: Rows
    at: list[Positions]  # among the knots: (m, n), in parts that CuPy computes with
    n_knots: int  # q + 1
    factor: CholeskyFactor  # of mu G^-1 + B'B, order m q
    shift: float  # mu
    root_weights: Array | None  # (n, 1)

    @classmethod
    def of(
        cls,
        rows: Rows,
        W: Array,
        root_weights: Array | None,
        /,
        *,
        ends: tuple[Array, Array],
        shift: float,
    ) -> CoarseInverse | None:
        """Build from the rows and the particles `W` (d, m); None where it would not pay.

        `ends` are the first and the last knot of each particle, float64 (m,).
        """
        n, m = rows.shape[0], W.shape[1]
        rank = next((rank for below, rank in _RANKS if n < below), _MAX_RANK)
        q = min(_MAX_CELLS, rank // m)
        if q < 4 or n < 2 * m * q:
            return None
        xp = array_namespace(W)
        width = (ends[1] - ends[0]) / q
        width = xp.where(width > 0, width, xp.ones_like(width))
        at = keep_rows(rows.source, lambda a, b: _positions(rows, (a, b), W, ends[0], width, q + 1))
        weights = None if root_weights is None else root_weights**2
        (pairs,) = reduce_rows(rows.source, lambda a, _: [_pair_sums(at, a, weights)])
        sums = xp.reshape(pairs, (m, q + 1, m, q + 1))
        # The shares of a sample among the knots of any particle sum to one
        margins = xp.reshape(xp.sum(sums[0, :, :, 1:], axis=0), (m * q, 1))
        total = float(n) if weights is None else float(sample_sums(weights)[0])
        gram = xp.reshape(sums[:, 1:, :, 1:], (m * q, m * q))
        del pairs, sums  # as large as the gram matrix
        gram -= margins @ (margins.T / total)
        _add_precision(gram, shift * m / width, q)
        factor = CholeskyFactor.of(gram, overwrite=True)
        return cls(rows, at, q + 1, factor, shift, root_weights)

    def __call__(self, r: Array, /) -> Array:
        """Apply to `r` (n, t)."""
        s = self.root_weights
        r0 = center(r, s)
        spread = r0 if s is None else s * r0
        at, source = self.at, self.rows.source

        def part_sums(start: int, _: int) -> list[Array]:
            parts = [bin_sums(here, spread[a:b, :]) for a, b, here in _numbered(at, start)]
            return [sum(parts[1:], start=parts[0])]

        (sums,) = reduce_rows(source, part_sums)
        xp, (m, _, t), q = array_namespace(sums), sums.shape, self.n_knots - 1
        solved = self.factor.solve(xp.reshape(sums[:, 1:, :], (m * q, t)))
        levels = xp.reshape(solved, (m, q, t))
        levels = xp.concat([xp.zeros_like(levels[:, :1, :]), levels], axis=1)
        inside = map_rows(
            source,
            lambda *_: xp.concat([interpolate_bins(here, levels) for here in at], axis=0),
            columns=(t,),
            dtype=levels.dtype,
        )
        if s is not None:
            inside = s * inside
        inside = center(array_namespace(r).astype(inside, r.dtype), s)
        return (r - inside) / self.shift


def _positions(
    rows: Rows, part: tuple[int, int], W: Array, low: Array, width: Array, n_knots: int
) -> list[Positions]:
    """Place every projection of some rows among the knots, in as few arrays as CuPy takes."""
    xp, at_most = array_namespace(W), max(MAX_ELEMENTS // W.shape[1], 1)
    groups: list[list[Array]] = []
    room = 0
    for _, _, X in rows.blocks(W.shape[1], start=part[0], stop=part[1]):
        codes = Positions.of(W.T @ X.T, low, width, n_knots, shift=_SHARE_BITS).codes
        if codes.shape[1] > room:
            groups.append([])
            room = at_most
        groups[-1].append(codes)
        room -= codes.shape[1]
    return [Positions(xp.concat(group, axis=1), _SHARE_BITS, n_knots) for group in groups]


def _numbered(parts: Sequence[Positions], start: int) -> Iterator[tuple[int, int, Positions]]:
    """Give each part of the samples, the first of which is known, with its start and stop."""
    for part in parts:
        stop = start + part.codes.shape[1]
        yield start, stop, part
        start = stop


def _pair_sums(parts: Sequence[Positions], first: int, weights: Array | None) -> Array:
    """Sum `pair_sums` over the parts."""
    total: Array | None = None
    for start, stop, part in _numbered(parts, first):
        sums = pair_sums(part, None if weights is None else weights[start:stop, :])
        total = sums if total is None else total + sums
    assert total is not None
    return total


def _add_precision(gram: Array, scale: Array, q: int, /) -> None:
    """Add inverses of the kernels min(l, l'), l = 1, ..., q, times `scale` (m,), to the blocks."""
    xp = array_namespace(scale)
    on = like(scale)
    one = 2.0 * xp.eye(q, **on) - xp.eye(q, k=1, **on) - xp.eye(q, k=-1, **on)
    last = xp.arange(q, dtype=xp.int64, device=device_of(scale)) == q - 1
    one = xp.where(last[:, None] & last[None, :], xp.ones_like(one), one)
    for j in range(scale.shape[0]):
        block = slice(j * q, (j + 1) * q)
        gram[block, block] += scale[j] * one


def projection_range(rows: Rows, W: Array, /) -> tuple[Array, Array]:
    """Smallest and largest projection on each particle, float64 (m,), in one pass."""
    xp = array_namespace(W)

    def part(start: int, stop: int) -> list[Array]:
        ends: list[tuple[Array, Array]] = []
        for _, _, X in rows.blocks(W.shape[1], start=start, stop=stop):
            A = W.T @ X.T
            ends.append((xp.min(A, axis=1), -xp.max(A, axis=1)))
        return [functools.reduce(lowest, side) for side in zip(*ends, strict=True)]

    low, high = reduce_rows(rows.source, part, combine=lowest)
    return xp.astype(low, xp.float64), -xp.astype(high, xp.float64)
