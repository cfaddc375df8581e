r"""Sums over equally spaced knots: the primitives behind the binned Brownian kernel.

Interpolation between knots is linear both ways, with one matrix B per particle, so that
:math:`B K_{grid} B^T` stays symmetric positive semidefinite to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl._array import Array, array_namespace, device_of, double_like, is_cupy, is_host

MAX_KNOTS = 2**20  # leaves 11 bits for the share of a cell


@dataclass(frozen=True, eq=False)
class Positions:
    """Where samples lie among the knots, in fixed point: ``code / 2**shift`` counts knots.

    Integers, because a shift and a mask cost less than converting floats, because 4 bytes cost
    less than 8, and because every place then works with the same positions.
    """

    codes: Array  # (m, n) int32
    shift: int
    n_knots: int

    @classmethod
    def of(cls, P: Array, n_knots: int, /) -> Positions:
        """Encode positions `P` (m, n) in [0, n_knots - 1]."""
        xp = array_namespace(P)
        shift = 31 - (n_knots - 1).bit_length()
        clipped = xp.clip(xp.astype(P, xp.float64), min=0.0, max=float(n_knots - 1))
        return cls(xp.astype(xp.floor(clipped * 2.0**shift), xp.int32), shift, n_knots)

    def cells(self, j: int, /) -> tuple[Array, Array]:
        """Cell (n,) and share of the way to the next knot (n,) of row j, as float64."""
        xp = array_namespace(self.codes)
        code = self.codes[j, :]
        cell = xp.bitwise_right_shift(code, xp.full_like(code, self.shift))
        share = xp.bitwise_and(code, xp.full_like(code, 2**self.shift - 1))
        return xp.astype(cell, xp.int64), xp.astype(share, xp.float64) / 2.0**self.shift


def bin_sums(at: Positions, V: Array, /) -> Array:
    r"""Spread `V` (n, t) over the knots of each row: :math:`B_j^T V`, float64 (m, q, t)."""
    if is_host(V):
        from gpukfl._accel import cpu

        return cpu.bin_sums(at.codes, at.shift, at.n_knots, V)
    if is_cupy(V):
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
    numbers = xp.arange(n_segments + 1, dtype=segment.dtype, device=device_of(segment))
    edges = xp.searchsorted(xp.take(segment, order, axis=0), numbers)
    at_edges = xp.take(sums, edges, axis=0)
    return at_edges[1:, :] - at_edges[:-1, :]


def interpolate_bins(at: Positions, U: Array, /) -> Array:
    r"""Sum knot values `U` (m, q, t) over the rows, interpolated: :math:`\sum_j B_j U_j` (n, t)."""
    if is_host(U):
        from gpukfl._accel import cpu

        return cpu.interpolate_bins(at.codes, at.shift, U)
    if is_cupy(U):
        from gpukfl._accel import cuda

        return cuda.interpolate_bins(at.codes, at.shift, U)
    return _interpolate_bins(at, U)


def _interpolate_bins(at: Positions, U: Array, /) -> Array:
    xp = array_namespace(U)
    total = xp.zeros((at.codes.shape[1], U.shape[2]), **double_like(U))
    for j in range(at.codes.shape[0]):
        cell, share = at.cells(j)
        left = xp.take(U[j, ...], cell, axis=0)
        right = xp.take(U[j, ...], xp.clip(cell + 1, max=at.n_knots - 1), axis=0)
        total = total + left + share[:, None] * (right - left)
    return total


def bin_products(at: Positions, S: Array, Z: Array, /) -> Array:
    """Multiply `Z` (n, t) by the cell values `S` (m, q - 1, t) at each row's positions.

    Returns the sum over t, (m, n) in the dtype of `Z`.
    """
    if is_host(Z):
        from gpukfl._accel import cpu

        return cpu.bin_products(at.codes, at.shift, S, Z)
    if is_cupy(Z):
        from gpukfl._accel import cuda

        return cuda.bin_products(at.codes, at.shift, S, Z)
    return _bin_products(at, S, Z)


def _bin_products(at: Positions, S: Array, Z: Array, /) -> Array:
    xp = array_namespace(Z)
    rows = []
    for j in range(at.codes.shape[0]):
        cell, _ = at.cells(j)
        slopes = xp.take(S[j, ...], xp.clip(cell, max=S.shape[1] - 1), axis=0)
        rows.append(xp.sum(slopes * xp.astype(Z, xp.float64), axis=1))
    return xp.astype(xp.stack(rows, axis=0), Z.dtype)
