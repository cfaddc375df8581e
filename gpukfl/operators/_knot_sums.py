"""Systems of the binned Brownian kernel for rows in parts, by few sums over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpukfl.core._array import Array, array_namespace, concat_rows, like
from gpukfl.linalg import (
    CholeskyFactor,
    Positions,
    bin_sums,
    interpolate_bins,
    levels_of_sums,
    pair_sums,
)
from gpukfl.operators._binned import BinnedBrownianKernel
from gpukfl.operators._coarse import CoarseGrid
from gpukfl.partitioned._rows import keep_rows, map_rows, reduce_rows

_Vectors = tuple[Array]  # x, r, p and u of some rows, (4, n, t): in a tuple, as rows come first
_Levels = tuple[bool, Array]  # whether between the few knots, and the values at knots
_S, _B, _X = 4, 5, 0  # among the vectors
_AT_ONCE = 2**19  # sums of pairs of knots: of each worker some wait for others to be added to


@dataclass(frozen=True, eq=False)
class KnotSums:
    r"""The centred, weighted kernel plus a shift, as `OnSums` says, with a right-hand side.

    E spreads knot values over the samples, times the root weights s; G is the kernel of the knots.
    With a factor of the kernel between few knots, whose sums are among those of each vector, that
    kernel's inverse is the preconditioner.
    """

    kernel: BinnedBrownianKernel
    b: Array  # (n, t)
    root_weights: Array | None  # (n, 1)
    shift: float
    grid: CoarseGrid | None = None
    factor: CholeskyFactor | None = None

    def begin(self, start: Array | None, /) -> tuple[Any, list[Array], Array]:
        """Take x = p = `start`, r = b, u = 0: vectors, sums of s, b and x, inner products.

        Without `start`, x = p = 0, whose sums are left out.
        """
        b, of = self.b, (_S, _B) if start is None else (_S, _B, _X)
        self.kernel.prepare()

        def first(i: int, j: int) -> _Vectors:
            right = b[i:j, :]
            xp = array_namespace(right)
            none = xp.zeros_like(right)
            x = none if start is None else start[i:j, :]
            return (xp.stack([x, right, x, none], axis=0),)

        return self._sum_vectors(keep_rows(self.kernel.rows.source, first), of)

    def advance(
        self, vectors: Any, coordinates: Array, levels: _Levels | None, of: Sequence[int], /
    ) -> tuple[Any, list[Array], Array]:
        """Combine vectors, multiply by E, and sum: one pass."""
        kernel, grid, s, b = self.kernel, self.grid, self.root_weights, self.b

        def move_rows(i: int, j: int) -> _Vectors:
            three = _combine_columns(_columns(vectors, s, b, i, j), coordinates)
            xp = array_namespace(three)
            if levels is None:
                return (xp.concat([three, xp.zeros_like(three[:1, ...])], axis=0),)
            is_coarse, values = levels
            placed = _group_positions(kernel, grid if is_coarse else None, i, j)
            spread = concat_rows([interpolate_bins(at, values) for _, _, at in placed])
            spread = spread if s is None else s[i:j, :] * spread
            return (xp.concat([three, spread[None, :, :]], axis=0),)

        kept = keep_rows(kernel.rows.source, move_rows, instead_of=vectors)
        return self._sum_vectors(kept, of)

    def _sum_vectors(self, vectors: Any, of: Sequence[int]) -> tuple[Any, list[Array], Array]:
        kernel, grid, s, b = self.kernel, self.grid, self.root_weights, self.b

        def part(i: int, j: int) -> list[Array]:
            columns = _columns(vectors, s, b, i, j)
            asked = [columns[k, :, :] for k in of]
            asked = asked if s is None else [s[i:j, :] * v for v in asked]
            return [*_spread_columns(kernel, grid, (i, j), asked), _products(columns)]

        *sums, products = reduce_rows(kernel.rows.source, part)
        return vectors, sums, products

    def levels(self, sums: Array, /) -> _Levels:
        """Return G times the sums of a vector."""
        fine = sums[:, : self.kernel.n_knots, :]
        return False, levels_of_sums(fine, self.kernel.gap, self.kernel.n_particles)

    def coarse(self, sums: Array, /) -> _Levels | None:
        """Return the knot values of the preconditioner, or None."""
        if self.factor is None or self.grid is None:
            return None
        return True, self.grid.levels(self.factor, sums[:, self.kernel.n_knots :, :])

    def vector(self, vectors: Any, coordinates: Array, /) -> Array:
        """Return a vector over the rows by its coordinates (6, t)."""
        s, b = self.root_weights, self.b
        dtype = getattr(array_namespace(b), str(b.dtype))

        def part(i: int, j: int) -> Array:
            found = _combine_columns(_columns(vectors, s, b, i, j), coordinates[None, :, :])[0, ...]
            return array_namespace(found).astype(found, b[i:j, :].dtype, copy=False)

        form: dict[str, Any] = {"columns": b.shape[1:], "dtype": dtype}
        return map_rows(self.kernel.rows.source, part, **form, instead_of=vectors)


def coarse_factor(
    kernel: BinnedBrownianKernel, grid: CoarseGrid, root_weights: Array | None, shift: float, /
) -> CholeskyFactor:
    """Factor the coarse kernel in few passes, and O(m³ q³)."""
    m, q = kernel.n_particles, grid.n_cells
    kernel.prepare()
    xp = array_namespace(kernel.gap)
    gram = xp.empty((m * q, m * q), **like(kernel.gap))
    for first, last in reversed(_groups(m, q)):
        packed, margins, weight = _group_pair_sums(kernel, grid, root_weights, first, last)
        _unpack(packed, gram, first * q, last * q, q)
    return grid.factor_sums(gram, margins, float(weight), shift)


def _groups(m: int, q: int) -> list[tuple[int, int]]:
    """Divide m particles into groups with few pair sums."""
    groups, first = [], 0
    while first < m:
        last = min(first + max(_AT_ONCE // (q * q * (m - first)), 1), m)
        groups.append((first, last))
        first = last
    return groups


def _group_pair_sums(
    kernel: BinnedBrownianKernel,
    grid: CoarseGrid,
    root_weights: Array | None,
    first: int,
    last: int,
) -> list[Array]:
    """Pair sums of particles from one up to another with all behind, as `_pack`: one pass."""
    m, q = kernel.n_particles - first, grid.n_cells

    def part(i: int, j: int) -> list[Array]:
        total: list[Array] = []
        for start, stop, at in kernel.positions(i, j):
            some = grid.coarsen(replace(at, codes=at.codes[first:, :]))
            weights = None if root_weights is None else root_weights[start:stop, :] ** 2
            found = _pack(pair_sums(some, weights, first=last - first), m, q)
            total = [a + b for a, b in zip(total, found, strict=True)] if total else found
        return total

    return reduce_rows(kernel.rows.source, part)


def _pack(pairs: Array, m: int, q: int) -> list[Array]:
    """Upper part of some rows without first knots, sums over the first particle's, and of all."""
    xp = array_namespace(pairs)
    sums = xp.reshape(pairs, (-1, q + 1, m, q + 1))
    # The shares of a sample among the knots of any particle sum to one
    margins = xp.reshape(xp.sum(sums[0, :, :, 1:], axis=0), (m * q, 1))
    upper = [xp.reshape(sums[j, 1:, j:, 1:], (-1,)) for j in range(sums.shape[0])]
    return [xp.concat(upper), margins, xp.sum(sums[0, :, 0, :])]


def _unpack(packed: Array, gram: Array, first: int, last: int, q: int) -> None:
    """Write the sums of rows from one up to another into a symmetric matrix."""
    xp, start = array_namespace(packed), 0
    for j in range(first, last, q):
        width = gram.shape[0] - j
        block = xp.reshape(packed[start : start + q * width], (q, width))
        gram[j : j + q, j:] = block
        gram[j:, j : j + q] = block.T
        start += q * width


def _group_positions(
    kernel: BinnedBrownianKernel, grid: CoarseGrid | None, start: int, stop: int
) -> list[tuple[int, int, Positions]]:
    """Positions of rows that lie together; between few knots, if these are given."""
    found = kernel.positions(start, stop)
    if grid is None:
        return list(found)
    return [(first, last, grid.coarsen(at)) for first, last, at in found]


def _spread_columns(
    kernel: BinnedBrownianKernel,
    grid: CoarseGrid | None,
    rows: tuple[int, int],
    columns: Sequence[Array],
) -> list[Array]:
    """Spread columns (n, t) over the knots, (m, q, t), and behind these over the few."""
    totals: list[Array] = []
    for first, last, at in kernel.positions(*rows):
        grids = [at] if grid is None else [at, grid.coarsen(at)]
        here = slice(first - rows[0], last - rows[0])
        found = [
            array_namespace(v).concat([bin_sums(each, v[here, :]) for each in grids], axis=1)
            for v in columns
        ]
        totals = [a + b for a, b in zip(totals, found, strict=True)] if totals else found
    return totals


def _columns(vectors: _Vectors, s: Array | None, b: Array, start: int, stop: int) -> Array:
    """All vectors of some rows, (6, n, t)."""
    right = b[start:stop, :]
    xp = array_namespace(right)
    ones = xp.ones_like(right) if s is None else s[start:stop, :] * xp.ones_like(right)
    return xp.concat([vectors[0], ones[None, :, :], right[None, :, :]], axis=0)


def _combine_columns(columns: Array, shares: Array) -> Array:
    """Sum columns (k, n, t), each times its shares (l, k, t): (l, n, t)."""
    xp = array_namespace(columns)
    found = [shares[:, :, c] @ columns[:, :, c] for c in range(columns.shape[2])]
    return found[0][:, :, None] if len(found) == 1 else xp.stack(found, axis=2)


def _products(columns: Array) -> Array:
    """Inner products (k, k, t) of columns (k, n, t)."""
    xp = array_namespace(columns)
    found = [columns[:, :, c] @ columns[:, :, c].T for c in range(columns.shape[2])]
    return xp.stack(found, axis=2)
