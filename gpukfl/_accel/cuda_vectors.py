"""CUDA twins of `gpukfl.linalg._steps` for CuPy arrays: the launches of ``vectors.cu``.

One launch each, where steps of the array API take up to ten; two for sums of long columns.
Written against the array's own namespace, as `cuda` is, so that the tests run the same launches on
NumPy arrays.
"""

from __future__ import annotations

import struct
from typing import Any

from gpukfl._accel._launch import Kernels, contiguous, type_name
from gpukfl.core._array import Array, array_namespace, double_like, like

_THREADS = 256  # in a block
_MAX_BLOCKS = 65_535  # threads loop on beyond it
_SLICE = 2**13  # elements that one block sums up in the time a second launch takes
_MAX_SLICES = 256  # parts of a column that one thread joins
_MAX_JOINING = 2**11  # blocks that each join all slices first
KERNELS = Kernels("vectors.cu", THREADS=_THREADS)


def _launch(name: str, x: Array, args: tuple[Any, ...]) -> None:
    threads = max(_size(x), _columns(x))  # numbers of columns have no rows
    blocks = min(-(-threads // _THREADS), _MAX_BLOCKS)
    KERNELS.launch(f"{name}_{type_name(x)}", (blocks,), _THREADS, args)


def _size(x: Array) -> int:
    return x.shape[0] * _columns(x)


def _columns(x: Array) -> int:
    return x.shape[1] if x.ndim == 2 else 1


def can_sum_columns(x: Array, /) -> bool:
    """Whether a block has a thread for each column of `x`, (n,) or (n, t), and there is one."""
    return 0 < _columns(x) <= _THREADS


def conjugate_step(
    x: Array, r: Array, p: Array, Ap: Array, rz: Array, curvature: Array, worst: Array, /
) -> tuple[Array, Array, Array]:
    """Twin of `gpukfl.linalg.conjugate_step`."""
    xp = array_namespace(x)
    given = contiguous(x, r, p, Ap, rz, curvature, worst)
    new_x, new_r = (xp.empty(x.shape, **like(x)) for _ in range(2))
    new_worst = xp.empty(worst.shape, **like(worst))
    _launch("conjugate_step", x, (*given, _size(x), _columns(x), new_x, new_r, new_worst))
    return new_x, new_r, new_worst


def conjugate_direction(z: Array, p: Array, rz: Array, rz_old: Array, /) -> Array:
    """Twin of `gpukfl.linalg.conjugate_direction`."""
    z, p, rz, rz_old = contiguous(z, p, rz, rz_old)
    new_p = array_namespace(z).empty(z.shape, **like(z))
    _launch("conjugate_direction", z, (z, p, rz, rz_old, _size(z), _columns(z), new_p))
    return new_p


def column_dots(u: Array, v: Array, plus: Array | None, /) -> Array:
    """Twin of `gpukfl.linalg.column_dots`."""
    xp = array_namespace(u)
    u, v, more = contiguous(u, v, u if plus is None else plus)
    parts = _join_slices("column_dots", u, int(plus is not None), more, v)
    total = parts[0, :] if parts.shape[0] == 1 else xp.sum(parts, axis=0)
    return xp.reshape(total, u.shape[1:])


def record(log: Array, k: int, first: Array, second: Array, third: Array, /) -> None:
    """Twin of `gpukfl.linalg.record`."""
    vectors, t = contiguous(first, second, third), log.shape[2]
    KERNELS.launch("record", (-(-t // _THREADS),), _THREADS, (*vectors, t, log[k, ...]))


def column_maxima(V: Array, /) -> Array:
    """Largest absolute values of the columns of `V` (n, t), of slices of them: (slices, t)."""
    return _join_slices("column_maxima", *contiguous(V))


def _join_slices(name: str, x: Array, *more: Array | int) -> Array:
    """Reduce slices of the columns by a kernel: (slices, t)."""
    n, t = x.shape[0], _columns(x)
    slices = max(min(-(-_size(x) // _SLICE), _MAX_SLICES), 1)
    each = max(-(-n // slices), 1)
    slices = max(-(-n // each), 1)
    out = array_namespace(x).empty((slices, t), **double_like(x))
    KERNELS.launch(f"{name}_{type_name(x)}", (slices,), _THREADS, (x, *more, n, t, each, out))
    return out


def center_columns(product: Array, V: Array, shift: float, /) -> Array:
    """Twin of `gpukfl.linalg.center_columns`."""
    product, V = contiguous(product, V)
    xp, size, t = array_namespace(V), _size(V), _columns(V)
    out = xp.empty(V.shape, **like(V))
    blocks, parts = 1, xp.empty((0, t), **double_like(V))
    if size > _SLICE:
        blocks, parts = (
            min(-(-size // _THREADS), _MAX_JOINING),
            _join_slices("column_sums", product),
        )
    args = (product, parts, parts.shape[0], V, _bits(shift), size, t, out)
    name = f"center_{type_name(product)}_{type_name(V)}"
    KERNELS.launch(name, (blocks if size else 0,), _THREADS, args)
    return out


def _bits(x: float, /) -> int:
    """Bits of a float64, as an integer: kernels take no other numbers."""
    return struct.unpack("q", struct.pack("d", x))[0]
