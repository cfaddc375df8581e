"""Arrays of several libraries: recognition, conversion, and arrays on the same device."""

from __future__ import annotations

import contextlib
import functools
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard, overload

import numpy as np

from gpukfl.core._types import Array, Device, Namespace, Placement

_NO_ARRAYS = (str, bytes, int, float, list, tuple, dict, type(None))  # a fast check of classes
_STRIPES = 4096  # partial sums of a column, which a GPU computes in parallel


@functools.cache
def _compat() -> ModuleType:
    """Return array-api-compat, which NumPy arrays do not need."""
    import array_api_compat

    return array_api_compat


_HOST = np if hasattr(np, "cumulative_sum") else _compat().array_namespace(np.empty(0))

if TYPE_CHECKING:
    import cupy
    import torch

    def array_namespace(*xs: Array | None) -> Namespace: ...
    def get_device(x: Array, /) -> Device: ...
    def is_array(x: object, /) -> TypeGuard[Array]: ...

else:

    def get_device(x, /):
        """Device of an array."""
        return "cpu" if isinstance(x, np.ndarray) else _compat().device(x)

    def is_array(x, /):
        """Whether `x` is an array of a supported library."""
        return isinstance(x, (np.ndarray, np.generic)) or (
            not isinstance(x, _NO_ARRAYS) and _compat().is_array_api_obj(x)
        )

    def array_namespace(*arrays):
        """Return the namespace of arrays of one library; a fast path serves NumPy."""
        for x in arrays:  # `all` would take three times as long
            if type(x) is not np.ndarray:
                return _compat().array_namespace(*arrays)
        return _HOST


def library_name(x: object, /) -> str:
    """Return the name of the library of `x`, as a user imports it."""
    if isinstance(x, (np.ndarray, np.generic)):
        return "numpy"
    return str(type(x).__module__).split(".")[0]


def is_host(x: object, /) -> TypeGuard[np.ndarray]:
    """Whether `x` is a NumPy array, so that compiled CPU code may read it."""
    return isinstance(x, np.ndarray)


@overload
def assert_host(x: Array, y: Array, /) -> tuple[np.ndarray, np.ndarray]: ...
@overload
def assert_host(x: Array, y: Array, z: Array, /) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
def assert_host(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays, all of NumPy; this tells type checkers what `is_host` has found."""
    assert all(isinstance(x, np.ndarray) for x in arrays)
    return arrays


def lies_in_parts(x: object, /) -> bool:
    """Whether the rows of `x` are partitioned among devices or machines."""
    return hasattr(x, "partitioning")


def small_reference(x: Any, /) -> Array:
    """Return an empty array on the device for small arrays that are used with `x`."""
    return x.partitioning.reference if lies_in_parts(x) else x[:0, ...]


def is_cupy(x: object, /) -> TypeGuard[cupy.ndarray]:
    """Whether `x` is a CuPy array, so that CUDA kernels may read it."""
    return _is_loaded("cupy", x) and bool(_compat().is_cupy_array(x))


def is_on_gpu(x: object, /) -> bool:
    """Whether `x` is on a GPU, where each step costs a launch of microseconds."""
    return is_cupy(x) or (is_torch(x) and x.device.type == "cuda")


def is_torch(x: object, /) -> TypeGuard[torch.Tensor]:
    """Whether `x` is a torch tensor."""
    return _is_loaded("torch", x) and bool(_compat().is_torch_array(x))


def _is_loaded(library: str, x: object) -> bool:
    """Whether a library is imported, so that `x` may belong to it."""
    return library in sys.modules and not isinstance(x, np.ndarray)


def device_context(x: object, /) -> contextlib.AbstractContextManager[object]:
    """Return a context on the device of a CuPy array; it does nothing for other libraries.

    CuPy makes arrays, allocates memory and runs kernels on the current device, wherever the
    operands are.
    """
    return x.device if is_cupy(x) else contextlib.nullcontext()


def unsupported_storage(x: object, /) -> str | None:
    """Return the unsupported storage of a torch tensor by name, or None."""
    if not is_torch(x):
        return None
    if "strided" not in str(x.layout):
        return f"sparse tensor ({x.layout})"
    if x.is_quantized:
        return "quantized tensor"
    return "meta tensor, which has no values" if x.is_meta else None


def clip(
    x: Array, /, *, low: Array | float | None = None, high: Array | float | None = None
) -> Array:
    """Clip values of `x` to limits; NaN stays.

    `clip` of array-api-compat assigns by masks. That takes ten passes, and waits twice for a GPU.
    """
    xp: Any = array_namespace(x)
    # NumPy's scalars would convert float32 to float64
    low, high = (limit.item() if isinstance(limit, np.generic) else limit for limit in (low, high))
    if not (is_host(x) or is_cupy(x)):
        return xp.clip(x, min=low, max=high)
    x = x if low is None else xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)


def take_rows(x: Array, index: np.ndarray | slice, /) -> Array:
    """Return rows of `x` at host indices in any order, or at a slice of NumPy."""
    if isinstance(x, np.ndarray):
        return x[index]
    assert not isinstance(index, slice)
    xp = array_namespace(x)
    if lies_in_parts(x):
        return xp.take(x, index, axis=0)
    return xp.take(x, xp.asarray(index, **index_like(x)), axis=0)


def like(x: Array, /) -> Placement:
    """Return the creation keywords for a new array with the dtype and device of `x`."""
    return {"dtype": x.dtype, "device": get_device(x)}


def double_like(x: Array, /) -> Placement:
    """Return the creation keywords for a float64 array on the device of `x`."""
    return {"dtype": array_namespace(x).float64, "device": get_device(x)}


def reference_like(x: Array, /) -> Array:
    """Return an empty array with the library, dtype and device of `x`."""
    return array_namespace(x).empty((0,), **like(x))


def double_reference(x: Array, /) -> Array:
    """Return an empty float64 array with the library and device of `x`."""
    return array_namespace(x).empty((0,), **double_like(x))


def to_double(x: Array, /) -> Array:
    """Return `x` in float64, itself if it is float64 already."""
    xp = array_namespace(x)
    return xp.astype(x, xp.float64, copy=False)


def index_like(x: Array, /) -> Placement:
    """Return the creation keywords for an int64 index array on the device of `x`."""
    return {"dtype": array_namespace(x).int64, "device": get_device(x)}


def asarray_like(host: Array, x: Array, /) -> Array:
    """Copy a host array to the library, dtype and device of `x`; partitioned rows stay there."""
    xp = array_namespace(host) if lies_in_parts(host) else array_namespace(x)
    return xp.asarray(host, **like(x))


def epsilon(x: Array, /) -> float:
    """Return the machine epsilon of the dtype of `x`."""
    return float(array_namespace(x).finfo(x.dtype).eps)


def to_host(x: Array, /) -> np.ndarray:
    """Copy `x` to a NumPy array, from any library and device."""
    if is_host(x):
        return x
    if is_cupy(x):
        return x.get()
    if is_torch(x):
        return x.detach().cpu().numpy()
    xp: Any = array_namespace(x)
    if _compat().is_array_api_strict_namespace(xp):
        x = _compat().to_device(x, xp.Device("CPU_DEVICE"))
    return np.asarray(x)


def writable(x: Array, target: Array, /) -> Array:
    """Copy a read-only host array for torch, which would warn when it shares the memory."""
    if is_torch(target) and isinstance(x, np.ndarray) and not x.flags.writeable:
        return np.array(x)
    return x


def sample_sums(x: Array, /) -> Array:
    """Sum `x`, (n,) or (n, t), over the samples (axis 0) in float64.

    A GPU sums long arrays in two steps, as it has only one block of threads for a few columns.
    """
    xp = array_namespace(x)
    wide, n = xp.float64, x.shape[0]
    if x.ndim == 1 or n < 2 * _STRIPES or not is_on_gpu(x):
        return xp.sum(x, axis=0, dtype=wide)
    end, t = n - n % _STRIPES, x.shape[1]
    stripes = xp.reshape(x[:end, :], (end // _STRIPES, _STRIPES * t))
    parts = xp.reshape(xp.sum(stripes, axis=0, dtype=wide), (_STRIPES, t))
    return xp.sum(parts, axis=0) + xp.sum(x[end:, :], axis=0, dtype=wide)


def sample_dot(u: Array, v: Array, /) -> Array:
    """Inner products over the samples (axis 0), accumulated in float64."""
    return sample_sums(u * v)


def sample_norm(u: Array, /) -> Array:
    """Euclidean norms over the samples (axis 0), accumulated in float64."""
    return array_namespace(u).sqrt(sample_dot(u, u))


def unique_rows(host: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted distinct rows (m, d) of (n, d), and the index (n,) of each row in them.

    Every NaN differs. This sorts columns, in O(d n log n). NumPy compares rows as records, and
    reports a Ctrl-C there as an error of comparison.
    """
    order = np.lexsort(host.T[::-1]) if host.shape[1] else np.arange(len(host))
    ordered = host[order]
    is_new = np.ones(len(host), dtype=bool)
    is_new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    which = np.empty(len(host), dtype=np.int64)
    which[order] = np.cumsum(is_new) - 1
    return ordered[is_new], which


def concat_rows(parts: list[Array], /) -> Array:
    """Concatenate the rows of all parts; return a single part itself."""
    return parts[0] if len(parts) == 1 else array_namespace(*parts).concat(parts, axis=0)


def as_columns(v: Array, /) -> Array:
    """View (n,) as (n, 1); leave (n, t) as it is."""
    xp = array_namespace(v)
    return xp.reshape(v, (v.shape[0], 1)) if v.ndim == 1 else v
