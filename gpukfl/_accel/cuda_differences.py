"""CUDA twins of `gpukfl.linalg._difference_sums` for CuPy arrays: launches of ``differences.cu``.

Written against the array's own namespace, as `cuda` is, so that the tests run the same launches
on NumPy arrays. Results repeat to the last bit on the same device. No array may reach 2**31
elements.
"""

from __future__ import annotations

from gpukfl._accel._launch import Kernels, contiguous, type_name
from gpukfl.core._array import Array, array_namespace, double_like
from gpukfl.core._memory import block_size, run_in_blocks

_SIDE = 16  # threads along a side of a tile
_EACH = 4  # rows, and features, of a thread
_DEPTH = 16  # columns of the weights staged at once
_BLOCKS = 1024  # enough for every GPU: sums are cut into slices until there are as many
_MAX_BLOCKS = 65_535  # threads loop on beyond it
_CHUNK = 64  # samples of a thread, at least
_CHUNKS = 1024  # that one thread joins, at most
_COLUMN_THREADS = 2**17  # of a feature: a few features fill every GPU
KERNELS = Kernels("differences.cu", SIDE=_SIDE, EACH=_EACH, DEPTH=_DEPTH)


def difference_sums(A: Array, X: Array, /) -> Array:
    """Twin of `gpukfl.linalg.difference_sums` for power 1."""
    xp = array_namespace(A, X)
    n, p = X.shape
    A, X = contiguous(xp.astype(A, xp.float64, copy=False), X)
    tile = _SIDE * _EACH
    rows, blocks = -(-n // tile), -(-p // tile)
    tiles = rows * (rows + 1) // 2  # on and above the diagonal
    slices = max(1, min(_BLOCKS // max(blocks, 1), tiles))
    sums = xp.empty((slices, p), **double_like(X))
    args = (A, X, n, p, -(-tiles // slices), sums)
    KERNELS.launch(f"difference_sums_{type_name(X)}", (blocks, slices), _SIDE**2, args)
    return 2.0 * xp.sum(sums, axis=0)


def factored_difference_sums(V: Array, order: Array, gaps: Array, /) -> Array:
    """Twin of `gpukfl.linalg.factored_difference_sums`, of sorted columns: V is read once each."""
    xp = array_namespace(V)
    if V.dtype != gaps.dtype:
        V, gaps = (xp.astype(x, xp.float64, copy=False) for x in (V, gaps))
    V, order, gaps = contiguous(V, xp.astype(order, xp.int64, copy=False), gaps)
    (n, m), p = V.shape, order.shape[0]
    each = max(_CHUNK, -(-n // _CHUNKS), -(-n * m // _COLUMN_THREADS))
    chunks = -(-n // each)
    out = xp.empty((p,), **double_like(V))

    def body(start: int, stop: int) -> None:
        features, parts = stop - start, xp.empty((stop - start, chunks, 4, m), **double_like(V))
        grid = -(-chunks * m // _SIDE**2), min(features, _MAX_BLOCKS)
        given = V, order[start:stop, :], gaps[start:stop, :]
        args = (*given, features, n, m, each, chunks, parts)
        KERNELS.launch(f"factored_chunks_{type_name(V)}", grid, _SIDE**2, args)
        KERNELS.launch("factored_sums", (features,), _SIDE**2, (parts, m, chunks, out[start:stop]))

    size = 4 * chunks * m
    run_in_blocks(p, block_size(V, bytes_each=8 * size, elements_each=size, at_most=p), body)
    return out
