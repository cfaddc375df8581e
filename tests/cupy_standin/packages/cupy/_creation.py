"""Making arrays: on the current device, from nothing or from the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from cupy._array import ndarray, new, unwrapped
from cupy._counts import launched, uploaded
from cupy._devices import current
from cupy._surface import missing


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """Poisoned memory."""
    return ndarray(shape, float if dtype is None else dtype, order=order)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
    """One value."""
    if dtype is None:
        dtype = getattr(fill_value, "dtype", None) or np.array(fill_value).dtype
    out = empty(shape, dtype, order)
    out._memory[...] = unwrapped(fill_value, "full")
    launched("fill", out.nbytes)
    return out


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """Zeros."""
    return full(shape, 0, float if dtype is None else dtype, order)


def ones(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    """Ones."""
    return full(shape, 1, float if dtype is None else dtype, order)


def empty_like(
    prototype: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    """As `empty`, of the shape and dtype of another array."""
    memory = unwrapped(prototype, "empty_like")
    kept = memory.flags.f_contiguous and not memory.flags.c_contiguous
    order = "F" if order == "F" or (order in "KA" and kept) else "C"
    return empty(memory.shape if shape is None else shape, dtype or memory.dtype, order)


def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: Any = None,
    shape: Any = None,
) -> ndarray:
    """As `full`, of the shape and dtype of another array."""
    out = empty_like(a, dtype, order, subok, shape)
    out.fill(fill_value)
    return out


def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    """As `zeros`, of the shape and dtype of another array."""
    return full_like(a, 0, dtype, order, subok, shape)


def ones_like(
    a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None
) -> ndarray:
    """As `ones`, of the shape and dtype of another array."""
    return full_like(a, 1, dtype, order, subok, shape)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, order: str = "C") -> ndarray:
    """Ones on a diagonal, zeros elsewhere."""
    out = new(np.eye(N, M, k, float if dtype is None else dtype), order)
    launched("eye", out.nbytes, launches=2)
    return out


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    """Numbers at one distance."""
    limits = (0, start) if stop is None else (start, stop)
    out = new(np.arange(*limits, step, dtype))
    launched("arange", out.nbytes)
    return out


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> ndarray:
    """So many numbers at one distance."""
    out = new(np.linspace(start, stop, num, endpoint=endpoint, dtype=dtype, axis=axis))
    launched("linspace", out.nbytes, launches=3)
    return out


def array(
    obj: Any,
    dtype: Any = None,
    copy: bool | None = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    *,
    blocking: bool = False,
) -> ndarray:
    """Copy from the host, from another device, or on this one."""
    if isinstance(obj, ndarray):
        return _from_array(obj, obj.dtype if dtype is None else dtype, copy, order or "K")
    if isinstance(obj, (list, tuple)) and any(isinstance(item, ndarray) for item in obj):
        from cupy import stack

        stacked = stack([array(item) for item in obj])
        return stacked.astype(dtype or stacked.dtype, copy=False)
    host = np.array(obj, dtype=dtype, ndmin=ndmin)
    if host.dtype.kind not in "?biufc":
        msg = f"Unsupported dtype {host.dtype}"
        raise ValueError(msg)
    out = new(host, "F" if order == "F" else "C")
    if host.ndim:
        uploaded("array", host.nbytes)
    else:
        launched("fill", host.nbytes)
    return out


def _from_array(obj: ndarray, dtype: Any, copy: bool | None, order: str) -> ndarray:
    if obj._device != current():
        launched("copy between devices", 2 * obj.nbytes)
        return new(obj._memory.astype(dtype))
    fits = order in "KA" or getattr(obj.flags, f"{order.lower()}_contiguous")
    if not copy and fits and obj.dtype == np.dtype(dtype):
        return obj
    if copy is False:
        msg = "Unable to avoid copy while creating an array as requested."
        raise ValueError(msg)
    return obj.astype(dtype, order=order)


def asarray(
    a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False
) -> ndarray:
    """Copy unless it is on the current device, of the dtype."""
    return array(a, dtype, copy, order, blocking=blocking)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    """Copy unless it is in C order."""
    return array(a, dtype, None, "C")


def asfortranarray(a: Any, dtype: Any = None) -> ndarray:
    """Copy unless it is in Fortran's order."""
    return array(a, dtype, None, "F")


def asnumpy(
    a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True
) -> np.ndarray:
    """Copy to the host."""
    return a.get(stream, order, out) if isinstance(a, ndarray) else np.asarray(a, order=order)


def astype(x: Any, dtype: Any, *, copy: bool = True) -> ndarray:
    """Convert."""
    return x.astype(dtype, copy=copy)


def copy(a: Any, order: str = "K") -> ndarray:
    """Copy."""
    return a.copy(order)


def get_array_module(*args: Any) -> Any:
    """CuPy where one of the arguments is its array, else NumPy."""
    import cupy

    return cupy if any(isinstance(x, ndarray) for x in args) else np


def meshgrid(*xi: Any, **kwargs: Any) -> Any:
    """Not needed so far."""
    return missing("cupy", "meshgrid")()


CREATION = {
    function.__name__: function
    for function in (
        *(empty, full, zeros, ones, empty_like, full_like, zeros_like, ones_like),
        *(eye, arange, linspace, array, asarray, ascontiguousarray, asfortranarray),
        *(asnumpy, astype, copy, get_array_module, meshgrid),
    )
} | {"asanyarray": asarray}
