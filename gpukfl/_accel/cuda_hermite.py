"""CUDA twin of `gpukfl.linalg.hermite_table` for CuPy arrays: one launch, whatever the degree.

Written against the array's own namespace, as `cuda` is, so that the tests run the same launch on
NumPy arrays.
"""

from __future__ import annotations

from gpukfl._accel._launch import Kernels, contiguous
from gpukfl._array import Array, array_namespace, double_like

_THREADS = 256  # in a block
_MAX_BLOCKS = 65_535  # threads loop on beyond it
KERNELS = Kernels("hermite.cu", THREADS=_THREADS)


def hermite_table(X: Array, degree: int, /) -> Array:
    """Twin of `gpukfl.linalg.hermite_table`."""
    xp, (n, d) = array_namespace(X), X.shape
    (x,) = contiguous(xp.astype(X, xp.float64, copy=False))
    out = xp.empty((n, degree + 1, d), **double_like(X))
    blocks = min(-(-n * d // _THREADS), _MAX_BLOCKS)
    KERNELS.launch("hermite_table", (blocks,), _THREADS, (x, n * d, d, degree, out))
    return out
