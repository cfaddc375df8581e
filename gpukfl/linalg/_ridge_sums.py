r"""Sums over sorted projections: the primitives behind the Brownian kernel.

For one particle with sorted projections :math:`a_1 \le \dots \le a_n` and weights v that sum
to zero, :math:`u(x) = -\frac12 \sum_i v_i |x - a_i|` is piecewise linear with slope
:math:`-C_k` between :math:`a_k` and :math:`a_{k+1}`, C the prefix sums of v. One sort and two
prefix sums therefore give u at every sample.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl._accel.trust import has_kernels
from gpukfl.core._array import Array, array_namespace, assert_host, double_like, is_host
from gpukfl.core._memory import block_size, run_in_blocks

# Of one projection: values, C, steps, u, u at the samples, about eight arrays of doubles
_BYTES = 64


@dataclass(frozen=True, eq=False)
class SortedRows:
    """The sorted rows of a matrix: ``values[j, k] = A[j, order[j, k]]``."""

    values: Array  # (m, n), each row ascending
    order: Array  # (m, n) integers
    rank: Array | None  # (m, n) inverse permutations; None where compiled code scatters instead

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and their length."""
        m, n = self.values.shape
        return m, n

    def part(self, start: int, stop: int, /) -> SortedRows:
        """Return the rows from start to stop."""
        rank = None if self.rank is None else self.rank[start:stop, :]
        return SortedRows(self.values[start:stop, :], self.order[start:stop, :], rank)


def sort_rows(A: Array, /) -> SortedRows:
    """Sort each row of `A` (m, n); O(m n log n)."""
    if is_host(A):
        from gpukfl._accel import cpu

        values, order = cpu.sort_rows(A)
        return SortedRows(values, order, None)
    if has_kernels(A, "brownian"):
        from gpukfl._accel import cuda

        return SortedRows(*cuda.sort_rows(A))
    return _sort_rows(A)


def _sort_rows(A: Array, /) -> SortedRows:
    xp = array_namespace(A)
    order = xp.argsort(A, axis=1, stable=False)
    return SortedRows(
        xp.take_along_axis(A, order, axis=1), order, xp.argsort(order, axis=1, stable=False)
    )


def ridge_sums(rows: SortedRows, V: Array, /) -> Array:
    r"""Sum the ridge functions of all rows at the samples.

    .. math:: out_{ic} = \sum_j u_{jc}(a_{ji}), \quad
              u_{jc}(x) = -\tfrac12 \sum_{i'} V_{i'c} |x - a_{ji'}| + \text{const}_{jc}

    The constants make u vanish at the smallest projection. `V` (n, t) must sum to zero over
    its rows (not checked). Returns float64 (n, t): the sums run over samples.
    """
    if rows.rank is None:
        from gpukfl._accel import cpu

        return cpu.ridge_sums(*assert_host(rows.values, rows.order, V))
    if has_kernels(V, "brownian"):
        from gpukfl._accel import cuda

        return cuda.ridge_sums(rows.values, rows.order, rows.rank, V)
    return _ridge_sums(rows, V)


def _ridge_sums(rows: SortedRows, V: Array, /) -> Array:
    xp = array_namespace(V)
    m, n = rows.shape
    rank = rows.rank
    assert rank is not None
    columns = []
    for c in range(V.shape[1]):
        total = xp.zeros((n,), **double_like(V))

        def body(start: int, stop: int, c: int = c) -> None:
            nonlocal total
            u = _ridge_curve(rows.part(start, stop), V[:, c])
            total = total + xp.sum(xp.take_along_axis(u, rank[start:stop, :], axis=1), axis=0)

        run_in_blocks(m, block_size(V, bytes_each=_BYTES * n, elements_each=n, at_most=m), body)
        columns.append(total)
    return xp.stack(columns, axis=1)


def _ridge_curve(rows: SortedRows, v: Array, /) -> Array:
    """Return u at the sorted projections, float64 (m, n), for one right-hand side (n,)."""
    xp = array_namespace(v)
    m, n = rows.shape
    sorted_v = xp.reshape(xp.take(v, xp.reshape(rows.order, (-1,)), axis=0), (m, n))
    mass = xp.cumulative_sum(sorted_v, axis=1, dtype=xp.float64)
    values = xp.astype(rows.values, xp.float64)
    steps = -mass[:, : n - 1] * (values[:, 1:] - values[:, : n - 1])
    return xp.cumulative_sum(steps, axis=1, include_initial=True)


def ridge_curves(rows: SortedRows, V: Array, /) -> Array:
    """Return each row's u of `ridge_sums` at its sorted projections: float64 (m, n, t)."""
    if is_host(V) and rows.rank is None:
        from gpukfl._accel import cpu

        return cpu.ridge_curves(*assert_host(rows.values, rows.order, V))
    (m, n), t = rows.shape, V.shape[1]
    out = array_namespace(V).empty((m, n, t), **double_like(V))

    def body(start: int, stop: int) -> None:
        block = rows.part(start, stop)
        for c in range(t):
            out[start:stop, :, c] = _ridge_curve(block, V[:, c])

    run_in_blocks(m, block_size(V, bytes_each=_BYTES * n, elements_each=n, at_most=m), body)
    return out


def sign_products(rows: SortedRows, Z: Array, /) -> Array:
    r"""Return the samples' signed sums, times their own weights.

    .. math:: out_{ji} = \sum_c Z_{ic} \sum_{i'} Z_{i'c}\, \mathrm{sign}(a_{ji} - a_{ji'})

    with sign(0) = 0: tied projections cancel exactly. Returns (m, n) in the dtype of `Z`.
    """
    if rows.rank is None:
        from gpukfl._accel import cpu

        return cpu.sign_products(*assert_host(rows.values, rows.order, Z))
    if has_kernels(Z, "brownian"):
        from gpukfl._accel import cuda

        return cuda.sign_products(rows.values, rows.order, rows.rank, Z)
    return _sign_products(rows, Z)


def _sign_products(rows: SortedRows, Z: Array, /) -> Array:
    xp = array_namespace(Z)
    m, n = rows.shape
    rank = rows.rank
    assert rank is not None
    products = []
    for j in range(m):
        values = rows.values[j, :]
        # Sums strictly below and up to the end of each tie group
        first = xp.searchsorted(values, values, side="left")
        last = xp.searchsorted(values, values, side="right")
        total = xp.zeros((n,), **double_like(Z))
        for c in range(Z.shape[1]):
            z = xp.take(Z[:, c], rows.order[j, :], axis=0)
            mass = xp.cumulative_sum(z, axis=0, dtype=xp.float64, include_initial=True)
            signed = xp.take(mass, first, axis=0) + xp.take(mass, last, axis=0) - mass[n]
            total = total + xp.astype(z, xp.float64) * signed
        products.append(xp.take(total, rank[j, :], axis=0))
    return xp.astype(xp.stack(products, axis=0), Z.dtype)


def absolute_differences(A: Array, /) -> Array:
    r"""Sum :math:`|a_{ji} - a_{ji'}|` over the rows j of `A` (m, n): (n, n), O(n² m)."""
    if is_host(A):
        from gpukfl._accel import cpu

        return _cast(cpu.absolute_differences(A), A)
    if has_kernels(A, "distances"):
        from gpukfl._accel import cuda_distances

        return cuda_distances.distances(A.T, A.T, "manhattan")
    xp = array_namespace(A)
    m, n = A.shape
    total = xp.zeros((n, n), **double_like(A))

    def body(start: int, stop: int) -> None:
        nonlocal total
        block = A[start:stop, :]
        gaps = xp.abs(block[:, :, None] - block[:, None, :])
        total = total + xp.sum(gaps, axis=0, dtype=xp.float64)

    run_in_blocks(m, block_size(A, bytes_each=24 * n * n, elements_each=n * n, at_most=m), body)
    return _cast(total, A)


def _cast(x: Array, reference: Array, /) -> Array:
    """Cast `x` to the dtype of `reference`."""
    return array_namespace(x).astype(x, reference.dtype, copy=False)
