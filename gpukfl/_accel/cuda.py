"""CUDA twins for CuPy arrays: launches of the kernels of ``brownian.cu``.

Written against the array's own namespace, so that the tests run the same launches on NumPy
arrays with kernels compiled for the CPU.
No floating-point atomics: results repeat to the last bit on the same device, and do not depend
on how much memory is free.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from gpukfl._accel import cuda_vectors
from gpukfl._accel._launch import Kernels, contiguous, n_filling_blocks, shared_bytes, type_name
from gpukfl.core._array import Array, array_namespace, double_like, get_device, like
from gpukfl.core._memory import block_size, run_in_blocks

_THREADS = 256  # in a block
_ITEMS = 8  # sorted elements that one thread scans
_MAX_BLOCKS = 65_535  # in a grid whose threads loop on; the hardware's limit on gridDim.y
_TOGETHER_UP_TO = 2**16  # elements of rows that are sorted together; on an H100 0.5 ns an element
_BIN_SAMPLES = 4096  # samples of one block; more where there are more bins to hand over
_PAIR_BITS = 20  # of a product of two shares, which leaves 2**11 samples to a slice
KERNELS = Kernels("brownian.cu", THREADS=_THREADS, ITEMS=_ITEMS)


def _launch(name: str, grid: tuple[int, ...], args: tuple[Any, ...], shared_bytes: int = 0) -> None:
    KERNELS.launch(name, grid, _THREADS, args, shared_bytes)


def _thread_grid(n: int, rows: int = 1) -> tuple[int, int]:
    """Return a grid with one thread per sample and rows of blocks; kernels loop beyond it."""
    return min(-(-n // _THREADS), _MAX_BLOCKS), min(rows, _MAX_BLOCKS)


def sort_rows(A: Array, /) -> tuple[Array, Array, Array]:
    """Sort each row of `A` (m, n): values, int32 order, and int32 rank, its inverse."""
    xp = array_namespace(A)
    m, n = A.shape
    (A,) = contiguous(A)
    values = xp.empty((m, n), **like(A))
    order, rank = (xp.empty((m, n), dtype=xp.int32, device=get_device(A)) for _ in range(2))
    # CuPy sorts one row by radix, in a dozen launches, and all rows of a matrix by comparisons
    each = m if n <= _TOGETHER_UP_TO else 1
    for j in range(0, m, max(each, 1)):
        rows = slice(j, j + each)
        by_value = xp.argsort(A[rows, :] if each > 1 else A[j, :])
        args = (A[rows, :], by_value, each, n, values[rows, :], order[rows, :], rank[rows, :])
        _launch(f"unpack_order_{type_name(A)}", _thread_grid(n, each), args)
    return values, order, rank


def ridge_sums(values: Array, order: Array, rank: Array, V: Array, /) -> Array:
    """Twin of `gpukfl.linalg.ridge_sums`."""
    xp = array_namespace(V)
    m, n = values.shape
    t = V.shape[1]
    values, order, rank = contiguous(values, order, rank)
    total = (xp.empty if m > 0 else xp.zeros)((n, t), **double_like(V))
    for c in range(t):
        (v,) = contiguous(V[:, c])

        def body(start: int, stop: int, v: Array = v, column: Array = total[:, c]) -> None:
            levels = xp.empty((stop - start, n), **double_like(V))
            _scan("ridge", 3, (values[start:stop, :], order[start:stop, :], v), levels, n)
            args = (levels, rank[start:stop, :], stop - start, n, int(start > 0), t, column)
            _launch("add_levels", _thread_grid(n), args)

        # the levels; the chunks' states are 24 bytes to a chunk
        run_in_blocks(m, block_size(V, bytes_each=9 * n, elements_each=n, at_most=m), body)
    return total


def _scan(kind: str, width: int, inputs: tuple[Array, ...], levels: Array, stride: int, /) -> None:
    """Fill `levels` with the running sums along sorted rows; row j starts at ``j * stride``.

    `inputs` are the kernel's arrays: projections (rows, n) where `kind` needs them, the order
    (rows, n), the weights (n,). `width` counts the doubles in the state of a chunk.
    """
    xp = array_namespace(levels)
    rows, n = inputs[-2].shape
    chunks = -(-n // (_THREADS * _ITEMS))
    states = xp.empty((rows, chunks, width), **double_like(levels))
    typed = "_".join(type_name(x) for x in (*inputs[:-2], inputs[-1]))
    _launch(f"{kind}_chunks_{typed}", (rows * chunks,), (*inputs, n, chunks, states))
    _launch(f"{kind}_carries", (rows,), (chunks, states))
    args = (*inputs, n, chunks, states, stride, levels)
    _launch(f"{kind}_levels_{typed}", (rows * chunks,), args)


def sign_products(values: Array, order: Array, rank: Array, Z: Array, /) -> Array:
    """Twin of `gpukfl.linalg.sign_products`."""
    xp = array_namespace(Z)
    m, n = values.shape
    t = Z.shape[1]
    values, order, rank, Z = contiguous(values, order, rank, Z)
    columns = [contiguous(Z[:, c])[0] for c in range(t)]
    out = xp.empty((m, n), **like(Z))

    def body(start: int, stop: int) -> None:
        mass = xp.empty((stop - start, t, n), **double_like(Z))
        for c, z in enumerate(columns):
            _scan("mass", 1, (order[start:stop, :], z), mass[:, c, :], t * n)
        args = (values[start:stop, :], rank[start:stop, :], mass, Z, stop - start, n, t)
        name = f"sign_products_{type_name(values)}_{type_name(Z)}"
        _launch(name, _thread_grid(n, stop - start), (*args, out[start:stop, :]))

    # All columns together, so that ties are looked up once
    run_in_blocks(m, block_size(Z, bytes_each=9 * t * n, elements_each=t * n, at_most=m), body)
    return out


def encode(A: Array, low: Array, gap: Array, n_knots: int, shift: int, /) -> Array:
    """Codes (m, n) of projections among knots; see `gpukfl.linalg.Positions.from_projections`."""
    xp = array_namespace(A)
    m, n = A.shape
    low, gap = (xp.astype(x, xp.float64, copy=False) for x in (low, gap))
    A, low, gap = contiguous(A, low, gap)
    codes = xp.empty((m, n), dtype=xp.int32, device=get_device(A))
    _launch(
        f"encode_{type_name(A)}", _thread_grid(n, m), (A, low, gap, m, n, n_knots, shift, codes)
    )
    return codes


def bin_sums(codes: Array, shift: int, n_knots: int, V: Array, /) -> Array:
    """Twin of `gpukfl.linalg.bin_sums`.

    Sums are integers in a fixed point of 62 bits, scaled by the largest ``|v|`` of a column: each
    term is rounded by at most ``n * max|v| / 2**60``, and no sum depends on the order of its terms.
    A column with a value that is not finite gives NaN.
    """
    m = codes.shape[0]
    bins = _Bins(V, m, n_knots)
    bins.add(codes, shift, V)
    t = V.shape[1]
    out = array_namespace(V).empty((m, n_knots, t), **double_like(V))
    args = (bins.sums, bins.roots, m * n_knots, t, out)
    _launch("bin_totals", _thread_grid(m * n_knots * t), args)
    return out


class _Bins:
    """Sums over knots of the columns of V, in a fixed point that suits all of its samples."""

    def __init__(self, V: Array, m: int, n_knots: int) -> None:
        xp, (n, t) = array_namespace(V), V.shape
        if cuda_vectors.can_sum_columns(V):
            parts = cuda_vectors.column_maxima(V)
        else:
            parts = xp.astype(xp.max(xp.abs(V), axis=0, keepdims=True), xp.float64)
        self.roots = xp.empty((t,), **double_like(V))
        self.sums = xp.empty((t, m, n_knots), dtype=xp.int64, device=get_device(V))
        size, bits = t * m * n_knots, (n - 1).bit_length()
        args = (parts, parts.shape[0], t, bits, self.roots, size, self.sums)
        _launch("bin_roots", _thread_grid(max(size, t)), args)

    def add(self, codes: Array, shift: int, V: Array) -> None:
        """Spread samples of V."""
        (codes,) = contiguous(codes)
        (m, n), n_knots = codes.shape, self.sums.shape[2]
        kind = "shared" if 8 * n_knots <= shared_bytes(codes) else "global"
        table_bytes = 8 * n_knots if kind == "shared" else 0
        # Sums of integers are the same however samples are cut
        each = max(_BIN_SAMPLES, 8 * n_knots, -(-m * n // n_filling_blocks(codes)))
        slices = -(-n // each)
        for c in range(V.shape[1]):
            (v,) = contiguous(V[:, c])
            sums = self.sums[c, ...]
            args = (codes, shift, v, self.roots[c:], n, n_knots, each, slices, sums)
            _launch(f"bin_sums_{kind}_{type_name(v)}", (m * slices,), args, table_bytes)


class _Positions(Protocol):
    """Positions of samples among knots; see `gpukfl.linalg.Positions`."""

    @property
    def codes(self) -> Array: ...
    @property
    def shift(self) -> int: ...


def knot_levels(
    parts: Iterable[tuple[int, int, _Positions]], V: Array, gap: Array, n_knots: int, over: int, /
) -> Array:
    """Twin of `gpukfl.linalg.knot_levels`."""
    xp = array_namespace(V)
    m, t = gap.shape[0], V.shape[1]
    bins = _Bins(V, m, n_knots)
    for start, stop, at in parts:
        bins.add(at.codes, at.shift, V[start:stop, :])
    (gap,) = contiguous(xp.astype(gap, xp.float64, copy=False))
    out = xp.empty((m, n_knots, t), **double_like(V))
    _launch("knot_levels", (m * t,), (bins.sums, bins.roots, gap, m, n_knots, t, over, out))
    return out


def can_sum_pairs(codes: Array, shift: int, n_knots: int, /) -> bool:
    """Whether the tables of `pair_sums` fit in memory, and 32 bits count the samples."""
    return 4 * n_knots <= shared_bytes(codes) and 2 * shift <= _PAIR_BITS


def pair_sums(codes: Array, shift: int, n_knots: int, rows: int, /) -> Array:
    """Twin of `gpukfl.linalg.pair_sums` without weights: exact, as sums of integers."""
    xp = array_namespace(codes)
    m, n = codes.shape
    (codes,) = contiguous(codes)
    sums = xp.zeros((rows * n_knots, m * n_knots), dtype=xp.int64, device=get_device(codes))
    height = min(n_knots, shared_bytes(codes) // (4 * n_knots))
    pairs = rows * (2 * m - rows + 1) // 2
    tables = pairs * -(-n_knots // height)
    slices = -(-n_filling_blocks(codes) // tables)
    # Handing a table over costs as much as some samples for each of its entries
    each = min(max(-(-n // slices), 4 * height * n_knots), 2 ** (31 - 2 * shift))
    grid = (tables, -(-n // each))
    args = (codes, shift, rows, m, n, n_knots, height, each, sums)
    _launch("pair_sums", grid, args, 4 * height * n_knots)
    return xp.astype(sums, xp.float64) / 4.0**shift


def interpolate_bins(codes: Array, shift: int, U: Array, /) -> Array:
    """Twin of `gpukfl.linalg.interpolate_bins`."""
    xp = array_namespace(U)
    m, n = codes.shape
    n_knots, t = U.shape[1:]
    codes, U = contiguous(codes, xp.astype(U, xp.float64, copy=False))
    out = xp.empty((n, t), **double_like(U))
    _launch("interpolate_bins", _thread_grid(n * t), (codes, shift, U, m, n, n_knots, t, out))
    return out


def bin_products(codes: Array, shift: int, S: Array, Z: Array, /) -> Array:
    """Twin of `gpukfl.linalg.bin_products`."""
    xp = array_namespace(Z)
    m, n = codes.shape
    n_knots, t = S.shape[1:]
    codes, S, Z = contiguous(codes, xp.astype(S, xp.float64, copy=False), Z)
    out = xp.empty((m, n), **like(Z))
    args = (codes, shift, S, Z, m, n, n_knots, t, out)
    _launch(f"bin_products_{type_name(Z)}", _thread_grid(n, m), args)
    return out
