r"""Sums over equally spaced knots: the primitives behind the binned Brownian kernel.

Interpolation between knots is linear both ways, with one matrix B per particle, so that
:math:`B K_{grid} B^T` stays symmetric positive semidefinite to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gpukfl._accel.trust import has_kernels
from gpukfl.core._array import (
    Array,
    array_namespace,
    assert_host,
    clip,
    double_like,
    get_device,
    is_host,
    like,
)
from gpukfl.core._lazy import OldName
from gpukfl.core._memory import block_size, run_in_blocks

MAX_KNOTS = 2**20  # leaves 11 bits for the share of a cell


@dataclass(frozen=True, eq=False)
class Positions:
    """Positions of samples among knots in fixed point: ``code / 2**shift`` knots.

    Integers, because a shift and a mask cost less than converting floats, because 4 bytes cost
    less than 8, and because every place then works with the same positions.
    """

    codes: Array  # (m, n) int32, or int16 on the host where few bits are enough
    shift: int
    n_knots: int

    @property
    def nbytes(self) -> int:
        """Bytes of the codes."""
        codes: Any = self.codes
        return int(codes.nbytes)

    @classmethod
    def from_projections(
        cls, A: Array, low: Array, gap: Array, n_knots: int, /, *, shift: int | None = None
    ) -> Positions:
        """Place projections `A` (m, n) among knots that start at `low` (m,), `gap` (m,) apart.

        Projections beyond the knots go to the nearest one. Each is rounded down to a multiple of
        ``2**-shift`` gaps; by default the finest that fits.
        """
        shift = 31 - (n_knots - 1).bit_length() if shift is None else shift
        if is_host(A):
            from gpukfl._accel import cpu_bins

            return cls(cpu_bins.encode(*assert_host(A, low, gap), n_knots, shift), shift, n_knots)
        if has_kernels(A, "brownian"):
            from gpukfl._accel import cuda

            return cls(cuda.encode(A, low, gap, n_knots, shift), shift, n_knots)
        return cls(_encode(A, low, gap, n_knots, shift), shift, n_knots)

    @classmethod
    def concat(cls, parts: Iterable[Positions], n: int, /) -> Positions:
        """Concatenate positions to those of n samples, holding one part at a time."""
        whole, start = None, 0
        for part in parts:
            m, count = part.codes.shape
            if count == n:
                return part
            if whole is None:
                xp = array_namespace(part.codes)
                whole = replace(part, codes=xp.empty((m, n), **like(part.codes)))
            whole.codes[:, start : start + count] = part.codes
            start += count
        assert whole is not None
        return whole

    def part(self, start: int, stop: int, /) -> Positions:
        """Return the positions of some samples."""
        if stop - start == self.codes.shape[1]:
            return self
        some = self.codes[:, start:stop]
        return replace(self, codes=array_namespace(some).asarray(some, copy=True))

    def rescale(self, factor: float, shift: int, n_knots: int, /) -> Positions:
        """Return the positions among other knots, with codes multiplied and rounded down."""
        if is_host(self.codes):
            from gpukfl._accel import cpu_bins

            return Positions(cpu_bins.rescale(self.codes, factor, n_knots, shift), shift, n_knots)
        xp, rows = array_namespace(self.codes), []
        for j in range(self.codes.shape[0]):
            wide = xp.astype(self.codes[j, :], xp.float64) * factor
            rows.append(xp.astype(xp.floor(wide), xp.int32))
        return Positions(xp.stack(rows, axis=0), shift, n_knots)

    def cells(self, j: int, /) -> tuple[Array, Array]:
        """Return the cell (n,) and the fraction towards the next knot (n,) of row j, as float64."""
        xp = array_namespace(self.codes)
        code = self.codes[j, :]
        cell = xp.bitwise_right_shift(code, xp.full_like(code, self.shift))
        share = xp.bitwise_and(code, xp.full_like(code, 2**self.shift - 1))
        return xp.astype(cell, xp.int64), xp.astype(share, xp.float64) / 2.0**self.shift

    of = OldName("from_projections")
    joined = OldName("concat")


def _encode(A: Array, low: Array, gap: Array, n_knots: int, shift: int, /) -> Array:
    xp = array_namespace(A)
    P = (xp.astype(A, xp.float64) - low[:, None]) / gap[:, None]
    P = clip(xp.where(P >= 0, P, xp.zeros_like(P)), high=float(n_knots - 1))  # NaN to 0
    return xp.astype(xp.floor(P * 2.0**shift), xp.int32)


def bin_sums(at: Positions, V: Array, /) -> Array:
    r"""Spread `V` (n, t) over the knots of each row: :math:`B_j^T V`, float64 (m, q, t)."""
    if is_host(V):
        from gpukfl._accel import cpu_bins

        codes, V = assert_host(at.codes, V)
        return cpu_bins.bin_sums(codes, at.shift, at.n_knots, V)
    if has_kernels(V, "brownian"):
        from gpukfl._accel import cuda

        return cuda.bin_sums(at.codes, at.shift, at.n_knots, V)
    return _bin_sums(at, V)


def _bin_sums(at: Positions, V: Array, /) -> Array:
    xp = array_namespace(V)
    V64 = xp.astype(V, xp.float64)
    rows = []
    for j in range(at.codes.shape[0]):
        cell, share = at.cells(j)
        moved = share[:, None] * V64
        # one knot more than there are, for the nothing that moves on from the last
        left = _segment_sums(V64 - moved, cell, at.n_knots + 1)
        right = _segment_sums(moved, cell + 1, at.n_knots + 1)
        rows.append((left + right)[: at.n_knots, :])
    return xp.stack(rows, axis=0)


def _segment_sums(V: Array, segment: Array, n_segments: int, /) -> Array:
    """Sum the rows of `V` (n, t) by segment; a sort, because the standard has no scatter-add."""
    xp = array_namespace(V)
    order = xp.argsort(segment)
    sums = xp.cumulative_sum(xp.take(V, order, axis=0), axis=0, include_initial=True)
    numbers = xp.arange(n_segments + 1, dtype=segment.dtype, device=get_device(segment))
    edges = xp.searchsorted(xp.take(segment, order, axis=0), numbers)
    at_edges = xp.take(sums, edges, axis=0)
    return at_edges[1:, :] - at_edges[:-1, :]


Parts = Iterable[tuple[int, int, Positions]]  # of samples from one up to another


def part_sums(parts: Parts, V: Array, m: int, n_knots: int, /) -> Array:
    """Spread `V` (n, t) over the knots, in parts of the samples: as `bin_sums`."""
    sums = (bin_sums(at, V[start:stop, :]) for start, stop, at in parts)
    total = next(sums, None)
    if total is None:
        return array_namespace(V).zeros((m, n_knots, V.shape[1]), **double_like(V))
    return sum(sums, start=total)


def knot_levels(parts: Parts, V: Array, gap: Array, n_knots: int, /, *, over: int = 1) -> Array:
    r"""Return the kernel's product with `V` (n, t) at the knots of each row: (m, q, t).

    These are the functions u of `ridge_sums`, 0 at the first knot, for samples spread over knots
    that are `gap` (m,) apart; divided by `over`, in float64.
    """
    if has_kernels(V, "brownian"):
        from gpukfl._accel import cuda

        return cuda.knot_levels(parts, V, gap, n_knots, over)
    return levels_of_sums(part_sums(parts, V, gap.shape[0], n_knots), gap, over)


def levels_of_sums(sums: Array, gap: Array, over: int, /) -> Array:
    """Return `knot_levels` (m, q, t) from binned sums of the same shape."""
    xp = array_namespace(sums)
    mass = xp.cumulative_sum(sums, axis=1)
    steps = -mass[:, : sums.shape[1] - 1, :] * gap[:, None, None]
    return xp.cumulative_sum(steps, axis=1, include_initial=True) / over


def interpolate_bins(at: Positions, U: Array, /) -> Array:
    r"""Sum knot values `U` (m, q, t) over the rows, interpolated: :math:`\sum_j B_j U_j` (n, t)."""
    if is_host(U):
        from gpukfl._accel import cpu_bins

        codes, U = assert_host(at.codes, U)
        return cpu_bins.interpolate_bins(codes, at.shift, U)
    if has_kernels(U, "brownian"):
        from gpukfl._accel import cuda

        return cuda.interpolate_bins(at.codes, at.shift, U)
    return _interpolate_bins(at, U)


def _interpolate_bins(at: Positions, U: Array, /) -> Array:
    xp = array_namespace(U)
    total = xp.zeros((at.codes.shape[1], U.shape[2]), **double_like(U))
    for j in range(at.codes.shape[0]):
        total = total + _interpolate_row(at, j, U)
    return total


def bin_products(at: Positions, S: Array, Z: Array, /) -> Array:
    """Multiply `Z` (n, t) by knot values `S` (m, q, t) interpolated at each row's positions.

    Returns the sum over t, (m, n) in the dtype of `Z`.
    """
    if is_host(Z):
        from gpukfl._accel import cpu_bins

        codes, S, Z = assert_host(at.codes, S, Z)
        return cpu_bins.bin_products(codes, at.shift, S, Z)
    if has_kernels(Z, "brownian"):
        from gpukfl._accel import cuda

        return cuda.bin_products(at.codes, at.shift, S, Z)
    return _bin_products(at, S, Z)


def _bin_products(at: Positions, S: Array, Z: Array, /) -> Array:
    xp = array_namespace(Z)
    Z64 = xp.astype(Z, xp.float64)
    rows = [xp.sum(_interpolate_row(at, j, S) * Z64, axis=1) for j in range(at.codes.shape[0])]
    return xp.astype(xp.stack(rows, axis=0), Z.dtype)


def _interpolate_row(at: Positions, j: int, U: Array, /) -> Array:
    """Interpolate row j's knot values of `U` (m, q, t) at its positions: (n, t)."""
    xp = array_namespace(U)
    cell, share = at.cells(j)
    left = xp.take(U[j, ...], cell, axis=0)
    right = xp.take(U[j, ...], clip(cell + 1, high=at.n_knots - 1), axis=0)
    return left + share[:, None] * (right - left)


def pair_sums(at: Positions, weights: Array | None, /, *, first: int | None = None) -> Array:
    r"""Multiply the interpolation matrices of all rows: :math:`B_j^T D B_k`, (m q, m q) float64.

    D holds `weights` (n, 1), or ones; j is one of the `first` rows only, if these are given. O(n
    m²) compiled, on a GPU without weights; O(n m² q²) as the products of dense matrices that stand
    beside it.
    """
    first = at.codes.shape[0] if first is None else first
    if is_host(at.codes):
        from gpukfl._accel import cpu_bins

        assert weights is None or is_host(weights)
        return cpu_bins.pair_sums(at.codes, at.shift, at.n_knots, weights, first)
    if has_kernels(at.codes, "brownian") and weights is None:
        from gpukfl._accel import cuda

        if cuda.can_sum_pairs(at.codes, at.shift, at.n_knots):
            return cuda.pair_sums(at.codes, at.shift, at.n_knots, first)
    return _pair_sums(at, weights, first)


def _pair_sums(at: Positions, weights: Array | None, first: int, /) -> Array:
    xp = array_namespace(at.codes)
    m, n = at.codes.shape
    q = at.n_knots
    total = xp.zeros((first * q, m * q), **double_like(at.codes))
    # float32 adds products of two shares exactly while sums and places need at most 24 bits
    spare = 24 - 2 * at.shift
    exact = weights is None and spare > 0 and q << at.shift <= 2**24
    dtype = xp.float32 if exact else xp.float64
    knots = xp.arange(q, dtype=dtype, device=get_device(at.codes))[None, :, None]

    def body(start: int, stop: int) -> None:
        nonlocal total
        place = xp.astype(at.codes[:, None, start:stop], dtype) / 2.0**at.shift
        B = xp.reshape(clip(1.0 - xp.abs(place - knots), low=0.0), (m * q, stop - start))
        heavy = B[: first * q, :]
        if weights is not None:
            heavy = heavy * xp.astype(weights[start:stop, 0], dtype)[None, :]
        total = total + xp.astype(heavy @ B.T, xp.float64)

    most = min(n, 2 ** min(spare, 16) if exact else 2**16)
    size = block_size(total, bytes_each=32 * m * q, elements_each=m * q, at_most=most)
    run_in_blocks(n, size, body)
    return total
