"""CUDA twin of `gpukfl.linalg.interpolate_knots` for CuPy arrays: one launch for all functions.

Written against the array's own namespace, as `cuda` is, so that the tests run the same launch on
NumPy arrays.
"""

from __future__ import annotations

from gpukfl._accel._launch import Kernels, contiguous, type_name
from gpukfl.core._array import Array, array_namespace, double_like

_THREADS = 256  # in a block
_MAX_BLOCKS = 65_535  # threads loop on beyond it
KERNELS = Kernels("knots.cu", THREADS=_THREADS)


def interpolate_knots(A: Array, knots: Array, values: Array, /) -> Array:
    """Twin of `gpukfl.linalg.interpolate_knots`."""
    xp = array_namespace(A)
    if A.dtype != knots.dtype:
        A, knots = (xp.astype(x, xp.float64, copy=False) for x in (A, knots))
    A, knots, values = contiguous(A, knots, xp.astype(values, xp.float64, copy=False))
    (m, n), (_, q, t) = A.shape, values.shape
    out = xp.empty((n, t), **double_like(A))
    blocks = min(-(-n * t // _THREADS), _MAX_BLOCKS)
    args = (A, knots, values, m, n, q, t, out)
    KERNELS.launch(f"interpolate_knots_{type_name(A)}", (blocks,), _THREADS, args)
    return out
