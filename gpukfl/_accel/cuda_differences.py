"""CUDA twin of `gpukfl.linalg.difference_sums` for CuPy arrays: the launches of ``differences.cu``.

Written against the array's own namespace, as `cuda` is, so that the tests run the same launches
on NumPy arrays. Results repeat to the last bit on the same device. No array may reach 2**31
elements.
"""

from __future__ import annotations

from gpukfl._accel._launch import Kernels, contiguous, type_name
from gpukfl._array import Array, array_namespace, double_like

_SIDE = 16  # threads along a side of a tile
_EACH = 4  # rows, and features, of a thread
_DEPTH = 16  # columns of the weights staged at once
_BLOCKS = 1024  # enough for every GPU: sums are cut into slices until there are as many
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
