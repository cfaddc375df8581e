"""CUDA twins of `gpukfl.linalg._hermite` for CuPy arrays: a launch each, whatever the degree.

Written against the array's own namespace, as `cuda` is, so that the tests run the same launches on
NumPy arrays.
"""

from __future__ import annotations

from gpukfl._accel._launch import Kernels, contiguous
from gpukfl.core._array import Array, array_namespace, double_like

_THREADS = 256  # in a block
_MAX_BLOCKS = 65_535  # threads loop on beyond it
KERNELS = Kernels("hermite.cu", THREADS=_THREADS)


def hermite_table(X: Array, degree: int, /) -> Array:
    """Twin of `gpukfl.linalg.hermite_table`."""
    xp, (n, d) = array_namespace(X), X.shape
    (x,) = contiguous(xp.astype(X, xp.float64, copy=False))
    out = xp.empty((n, degree + 1, d), **double_like(X))
    KERNELS.launch("hermite_table", _blocks(n * d), _THREADS, (x, n * d, d, degree, out))
    return out


def row_products(table: Array, rows: Array, scales: Array, /) -> Array:
    """Twin of `gpukfl.linalg.row_products`."""
    xp, (most, m), n = array_namespace(table), rows.shape, table.shape[1]
    out = xp.empty((m, n), **double_like(table))
    args = (*contiguous(table, rows, scales), most, m, n, out)
    KERNELS.launch("row_products", _blocks(m * n), _THREADS, args)
    return out


def _blocks(size: int) -> tuple[int]:
    return (min(-(-size // _THREADS), _MAX_BLOCKS),)
