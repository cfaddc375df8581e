"""CUDA twins of `gpukfl.linalg._steps` for CuPy arrays: the launches of ``vectors.cu``.

One launch each, where elementwise steps of the array API take up to ten. Written against the
array's own namespace, as `cuda` is, so that the tests run the same launches on NumPy arrays.
"""

from __future__ import annotations

from typing import Any

from gpukfl._accel._launch import Kernels, contiguous, type_name
from gpukfl._array import Array, array_namespace, like

_THREADS = 256  # in a block
_MAX_BLOCKS = 65_535  # threads loop on beyond it
KERNELS = Kernels("vectors.cu", THREADS=_THREADS)


def _launch(name: str, x: Array, args: tuple[Any, ...]) -> None:
    size = x.shape[0] * _columns(x)
    blocks = min(-(-size // _THREADS), _MAX_BLOCKS)
    KERNELS.launch(f"{name}_{type_name(x)}", (blocks,), _THREADS, args)


def _columns(x: Array) -> int:
    return x.shape[1] if x.ndim == 2 else 1


def conjugate_step(
    x: Array, r: Array, p: Array, Ap: Array, rz: Array, curvature: Array, /
) -> tuple[Array, Array]:
    """Twin of `gpukfl.linalg.conjugate_step`."""
    xp = array_namespace(x)
    x, r, p, Ap, rz, curvature = contiguous(x, r, p, Ap, rz, curvature)
    new_x, new_r = (xp.empty(x.shape, **like(x)) for _ in range(2))
    t = _columns(x)
    args = (x, r, p, Ap, rz, curvature, x.shape[0] * t, t, new_x, new_r)
    _launch("conjugate_step", x, args)
    return new_x, new_r


def conjugate_direction(z: Array, p: Array, rz: Array, rz_old: Array, /) -> Array:
    """Twin of `gpukfl.linalg.conjugate_direction`."""
    z, p, rz, rz_old = contiguous(z, p, rz, rz_old)
    new_p, t = array_namespace(z).empty(z.shape, **like(z)), _columns(z)
    _launch("conjugate_direction", z, (z, p, rz, rz_old, z.shape[0] * t, t, new_p))
    return new_p


def subtract_means(V: Array, totals: Array, /) -> Array:
    """Twin of `gpukfl.linalg.subtract_means`."""
    V, totals = contiguous(V, totals)
    out, t = array_namespace(V).empty(V.shape, **like(V)), _columns(V)
    _launch("subtract_means", V, (V, totals, V.shape[0] * t, t, out))
    return out
