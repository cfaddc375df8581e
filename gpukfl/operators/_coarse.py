"""Preconditioner of the Brownian ridge-sum kernel: the same kernel with rounded projections."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl._array import Array, array_namespace, device_of
from gpukfl._rows import Rows
from gpukfl.linalg import CholeskyFactor, Positions, bin_sums, interpolate_bins, pair_counts
from gpukfl.operators._centered import center

# Cells over all particles: what the Cholesky factor costs, against products with n samples
_RANKS = ((5_000, 400), (50_000, 800), (500_000, 1600))
_MAX_RANK = 3200
_MAX_CELLS = 128  # of one particle: the table of a pair then stays in cache


@dataclass(frozen=True, eq=False)
class CoarseInverse:
    r"""Exact inverse of :math:`\hat K + \mu I`, with projections rounded to q cells a particle.

    The Brownian kernel of rounded projections has the features :math:`\sqrt{h_j/m}\,
    1[cell_{ij} \ge l]`, so :math:`\hat K = F F^\top` with a Gram matrix :math:`F^\top F` made of
    the counts of samples in pairs of cells, and by the Woodbury identity

    .. math::
        (\hat K + \mu I)^{-1} = \tfrac1\mu (I - F (\mu I + F^\top F)^{-1} F^\top),

    where F has been weighted and centred as `CenteredKernel` does.

    Notes
    -----
    Building costs the m²/2 tables of pair counts, O(n m²), and a Cholesky factor of order m q;
    applying it O(n m + m² q²). What is left of the spectrum is of order :math:`n h / q`, so that
    the iterations hardly grow with n.
    """

    at: Positions  # cells, without shares: (m, n)
    factor: CholeskyFactor  # of mu I + F'F, order m (q - 1)
    scale: Array  # (m, 1, 1): root of the cells' width over m
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

        `ends` are the smallest and largest projection on each particle, float64 (m,).
        """
        n, m = rows.shape[0], W.shape[1]
        rank = next((rank for below, rank in _RANKS if n < below), _MAX_RANK)
        q = min(_MAX_CELLS, rank // m)
        if q < 4 or n < 2 * m * q:
            return None
        xp = array_namespace(W)
        width = (ends[1] - ends[0]) / q
        at = _cells(rows, W, ends[0], width, q)
        weights = None if root_weights is None else root_weights**2
        counts = xp.reshape(pair_counts(at, weights), (m, q, m, q))
        scale = xp.sqrt(width / m)[:, None, None]
        gram = _from_above(_from_above(counts, 1), 3)  # samples at or above both cells
        total = float(n) if weights is None else float(xp.sum(weights, dtype=xp.float64))
        # In any pair of particles, summing one side over all its cells leaves the other's counts
        above = _from_above(xp.sum(counts[:, :, 0, :], axis=2), 1)
        order = m * (q - 1)
        flat = xp.reshape(above, (order, 1))
        by = xp.reshape(scale + xp.zeros_like(above)[:, :, None], (order, 1))
        gram = by * (xp.reshape(gram, (order, order)) - flat @ flat.T / total) * by.T
        eye = xp.eye(order, dtype=gram.dtype, device=device_of(gram))
        return cls(at, CholeskyFactor.of(gram + shift * eye), scale, shift, root_weights)

    def __call__(self, r: Array, /) -> Array:
        """Apply to `r` (n, t)."""
        xp = array_namespace(r)
        s = self.root_weights
        r0 = center(r, s)
        m, q, t = self.scale.shape[0], self.at.n_knots, r.shape[1]
        sums = bin_sums(self.at, r0 if s is None else s * r0)
        projected = self.scale * _from_above(sums, 1)
        solved = self.factor.solve(xp.reshape(projected, (m * (q - 1), t)))
        steps = self.scale * xp.reshape(solved, (m, q - 1, t))
        levels = xp.cumulative_sum(steps, axis=1, include_initial=True)
        inside = interpolate_bins(self.at, levels)
        if s is not None:
            inside = s * inside
        inside = center(xp.astype(inside, r.dtype), s)
        return (r - inside) / self.shift


def _cells(rows: Rows, W: Array, low: Array, width: Array, q: int) -> Positions:
    """Cell of every projection."""
    xp = array_namespace(W)
    safe = xp.where(width > 0, width, xp.ones_like(width))
    parts = [
        Positions.of(W.T @ X.T, low, safe, q, rounded=True) for _, _, X in rows.blocks(W.shape[1])
    ]
    return Positions(xp.concat([part.codes for part in parts], axis=1), parts[0].shift, q)


def projection_range(rows: Rows, W: Array, /) -> tuple[Array, Array]:
    """Smallest and largest projection on each particle, float64 (m,), in one pass."""
    xp = array_namespace(W)
    low = high = None
    for _, _, X in rows.blocks(W.shape[1]):
        A = W.T @ X.T
        least, most = xp.min(A, axis=1), xp.max(A, axis=1)
        low = least if low is None else xp.minimum(low, least)
        high = most if high is None else xp.maximum(high, most)
    return xp.astype(low, xp.float64), xp.astype(high, xp.float64)


def _from_above(x: Array, axis: int, /) -> Array:
    """Sum from each index upwards along an axis, without the first, which sums everything."""
    xp = array_namespace(x)
    sums = xp.flip(xp.cumulative_sum(xp.flip(x, axis=axis), axis=axis), axis=axis)
    keep = tuple(slice(1, None) if k == axis else slice(None) for k in range(x.ndim))
    return sums[keep]
