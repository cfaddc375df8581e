"""CUDA twins of `gpukfl.linalg._distances` for CuPy arrays: the launches of ``distances.cu``.

Written against the array's own namespace, as `cuda` is, so that the tests run the same launches
on NumPy arrays. Results repeat to the last bit on the same device. No array may reach 2**31
elements, which CuPy would not compute right: callers block the rows.

Sums run in float64, and where that is slow those of absolute differences and of signs of float32
data in pairs of floats, which carry 48 bits.
"""

from __future__ import annotations

from gpukfl._accel._launch import Kernels, contiguous, double_is_slow, strides, type_name
from gpukfl.core._array import Array, array_namespace, double_like, like

_SIDE = 16  # threads along a side of a tile
_EACH = 4  # outputs of a thread along a side
_DEPTH = 16  # columns staged at once
_BLOCKS = 1024  # enough for every GPU: sums are cut into slices until there are as many
_SLICE = 256  # terms of a sum that are not worth cutting
_PAIRS = ("manhattan_pairs_float32", "sign_sums_pairs_float32")
KERNELS = Kernels("distances.cu", SIDE=_SIDE, EACH=_EACH, DEPTH=_DEPTH)


def _kernel(name: str, X: Array) -> str:
    pairs = f"{name}_pairs_{type_name(X)}"
    return pairs if pairs in _PAIRS and double_is_slow(X) else f"{name}_{type_name(X)}"


def distances(X: Array, Z: Array, norm: str, /) -> Array:
    """Twin of `gpukfl.linalg.distances`."""
    xp = array_namespace(X, Z)
    (n, d), q = X.shape, Z.shape[0]
    X, Z = contiguous(X, xp.astype(Z, X.dtype, copy=False))
    out = xp.empty((n, q), **like(X))
    tile = _SIDE * _EACH
    blocks = -(-n // tile) * -(-q // tile)
    KERNELS.launch(_kernel(norm, X), (blocks,), _SIDE**2, (X, Z, n, q, d, out))
    return out


def sign_sums(Q: Array, X: Array, Z: Array, /) -> Array:
    """Twin of `gpukfl.linalg.sign_sums`."""
    xp = array_namespace(Q, X, Z)
    (n, d), q = X.shape, Z.shape[0]
    X, Z = contiguous(X, xp.astype(Z, X.dtype, copy=False))
    Q = xp.astype(Q, X.dtype, copy=False)
    blocks = -(-n // (_SIDE * _EACH)) * -(-d // _SIDE)
    slices = max(1, min(_BLOCKS // max(blocks, 1), -(-q // _SLICE)))
    each = -(-q // slices)
    sums = xp.empty((slices, n, d), **double_like(X))
    steps = strides(Q)  # no copy of a transposed Q
    args = (Q, *steps, X, Z, n, q, d, each, sums)
    KERNELS.launch(_kernel("sign_sums", X), (blocks, slices), _SIDE**2, args)
    return xp.astype(xp.sum(sums, axis=0), X.dtype, copy=False)
