"""CuPy's array, over memory of NumPy, that refuses what CuPy refuses.

Where CuPy says so: docs/source/user_guide/basic.rst (devices), cupy/_core/core.pyx (conversion,
operators, filling), cupy/_core/_routines_indexing.pyx (indices).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cupy._counts import launched, waited
from cupy._devices import Device, current, use_cuda
from cupy._indexing import Index
from cupy._memory import Block, allocate
from cupy._surface import SURFACE, MissingError

_DLPACK_HOST, _DLPACK_CUDA = 1, 2  # numbers of kinds of devices
SCALARS = (bool, int, float, complex)


def unwrapped(x: Any, what: str, /) -> Any:
    """NumPy's operand for an operand of CuPy, or the error that CuPy raises."""
    if isinstance(x, ndarray):
        if x._device != current():
            msg = (
                f"Array device must be same as the current device: array device = {x._device} "
                f"while current = {current()}"
            )
            raise ValueError(msg)
        return x._memory
    if type(x) in SCALARS or isinstance(x, np.generic):
        return x
    msg = f"Unsupported type {type(x)} in {what}"
    raise TypeError(msg)


def new(result: Any, /, order: str = "C") -> ndarray:
    """Put a result into memory of the current device."""
    result = np.asarray(result)
    out = ndarray(result.shape, result.dtype, order=order)
    out._memory[...] = result
    return out


def view(memory: np.ndarray, of: ndarray, /) -> ndarray:
    """Share the memory of an array."""
    out = object.__new__(ndarray)
    out._memory, out._block, out._device, out.base = memory, of._block, of._device, of
    return out


def n_bytes(*operands: Any) -> int:
    """Bytes of the arrays among operands of NumPy."""
    return sum(x.nbytes for x in operands if isinstance(x, np.ndarray))


def _layout(memory: np.ndarray, order: str) -> str:
    """C or F, for an order that may be K or A."""
    kept = memory.flags.f_contiguous and not memory.flags.c_contiguous
    return "F" if order == "F" or (order in "KA" and kept) else "C"


class ndarray:  # noqa: N801 - CuPy's name
    """An array on one of the devices."""

    __slots__ = ("__weakref__", "_block", "_device", "_memory", "base")
    __array_priority__ = 100
    __hash__ = None

    _memory: np.ndarray
    _block: Block
    _device: int
    base: ndarray | None

    def __init__(self, shape: Any, dtype: Any = float, *, order: str = "C") -> None:
        self._memory, self._block = allocate(shape, dtype, order)
        self._device, self.base = current(), None

    def __getattr__(self, name: str) -> Any:
        if name in SURFACE["cupy.ndarray"]:
            msg = "cupy.ndarray." + name
            raise MissingError(msg)
        msg = f"'cupy.ndarray' object has no attribute '{name}'"
        raise AttributeError(msg)

    shape = property(lambda self: self._memory.shape)
    dtype = property(lambda self: self._memory.dtype)
    ndim = property(lambda self: self._memory.ndim)
    size = property(lambda self: self._memory.size)
    strides = property(lambda self: self._memory.strides)
    itemsize = property(lambda self: self._memory.itemsize)
    nbytes = property(lambda self: self._memory.nbytes)
    device = property(lambda self: Device(self._device))
    flags = property(lambda self: Flags(self._memory))
    T = property(lambda self: view(self._memory.T, self))
    mT = property(lambda self: view(self._memory.mT, self))  # noqa: N815 - CuPy's name
    data = property(lambda self: Pointer(self._memory.ctypes.data))

    # Conversions: refused where they would hide a copy, counted where they wait

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        msg = (
            "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct "
            "a NumPy array explicitly."
        )
        raise TypeError(msg)

    def get(
        self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> np.ndarray:
        """Copy to the host."""
        use_cuda()
        waited("get")
        host = np.array(self._memory, order=_layout(self._memory, order), copy=True)
        if out is None:
            return host
        out[...] = host
        return out

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        """Copy from the host."""
        if not isinstance(arr, np.ndarray):
            msg = "Only numpy.ndarray can be set to cupy.ndarray"
            raise TypeError(msg)
        self._memory[...] = arr

    def item(self) -> Any:
        """Give the only element."""
        return self._element("item")

    def tolist(self) -> Any:
        """Copy to lists."""
        waited("tolist")
        return self._memory.tolist()

    def _element(self, name: str) -> Any:
        use_cuda()
        waited(name)
        return self._memory.item()

    def __float__(self) -> float:
        return float(self._element("float"))

    def __int__(self) -> int:
        return int(self._element("int"))

    def __complex__(self) -> complex:
        return complex(self._element("complex"))

    def __bool__(self) -> bool:
        waited("bool")
        return bool(self._memory)

    def __len__(self) -> int:
        return len(self._memory)

    def __iter__(self) -> Any:
        if self.ndim == 0:
            msg = "iteration over a 0-d array"
            raise TypeError(msg)
        return (self[k] for k in range(len(self)))

    def __repr__(self) -> str:
        waited("repr")
        return repr(self._memory)

    def __str__(self) -> str:
        waited("str")
        return str(self._memory)

    def __format__(self, spec: str) -> str:
        waited("format")
        return format(self._memory.item() if self.size == 1 else str(self._memory), spec)

    def __reduce__(self) -> Any:
        from cupy import array

        return array, (self.get(),)

    def __deepcopy__(self, memo: Any) -> ndarray:
        return self.copy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CUDA, self._device

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: Any = None,
    ) -> Any:
        """Hand over a copy on the host; others would get an address of a device."""
        if dl_device is None or dl_device[0] != _DLPACK_HOST:
            msg = "cupy.ndarray.__dlpack__ to a device"
            raise MissingError(msg)
        return self.get().__dlpack__(max_version=max_version)

    def __copy__(self) -> ndarray:
        return self.copy()

    # Copies

    def copy(self, order: str = "C") -> ndarray:
        """Copy to the current device."""
        launched("copy", 2 * self.nbytes)
        return new(self._memory, _layout(self._memory, order))

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = None,
        subok: Any = None,
        copy: bool = True,
    ) -> ndarray:
        """Convert, to a copy unless there is nothing to do."""
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        memory = unwrapped(self, "astype")
        with np.errstate(all="ignore"):
            result = memory.astype(dtype, order=order)
        launched("astype", n_bytes(memory, result))
        return new(result, _layout(result, order))

    def fill(self, value: Any) -> None:
        """Set every element to a scalar."""
        if isinstance(value, np.ndarray) and value.shape != ():
            msg = "non-scalar numpy.ndarray cannot be used for fill"
            raise ValueError(msg)
        unwrapped(self, "fill")[...] = unwrapped(_plain(value), "fill")
        launched("fill", self.nbytes)

    def reshape(self, *shape: Any, order: str = "C") -> ndarray:
        """View as another shape, or copy."""
        from cupy import reshape

        return reshape(self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> ndarray:
        """View with axes in another order."""
        return view(self._memory.transpose(*axes), self)

    def flatten(self, order: str = "C") -> ndarray:
        """Copy to one dimension."""
        return self.reshape(-1, order=order).copy()

    def view(self, dtype: Any = None) -> ndarray:
        """View the same memory, with another dtype where one is given."""
        return view(self._memory.view() if dtype is None else self._memory.view(dtype), self)

    # Indices

    def __getitem__(self, key: Any) -> ndarray:
        memory = unwrapped(self, "getitem")
        index = Index.of(key, unwrapped)
        with np.errstate(all="ignore"):
            result = memory[index.host]
        if index.is_basic:
            # Integers for all axes give a view of no dimensions, not a scalar
            return view(memory[(*index.host, ...)] if np.isscalar(result) else result, self)
        index.count("getitem", n_bytes(np.asarray(result)))
        return new(result)

    def __setitem__(self, key: Any, value: Any) -> None:
        memory = unwrapped(self, "setitem")
        index = Index.of(key, unwrapped)
        if isinstance(value, np.ndarray) and value.shape != ():
            msg = "non-scalar numpy.ndarray cannot be used for fill"
            raise ValueError(msg)
        with np.errstate(all="ignore"):
            memory[index.host] = unwrapped(_plain(value), "setitem")
        if not index.is_basic:
            index.count("setitem", memory[index.host].nbytes)
        else:
            launched("setitem", 2 * np.asarray(memory[index.host]).nbytes)

    # NumPy's functions on these arrays are CuPy's

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from cupy._ufuncs import UFUNCS

        if method != "__call__" or ufunc.__name__ not in UFUNCS:
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        return UFUNCS[ufunc.__name__](*inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        import cupy

        module = cupy.linalg if "linalg" in function.__module__ else cupy
        if any(t not in (ndarray, np.ndarray) for t in types):
            return NotImplemented
        return getattr(module, function.__name__)(*args, **kwargs)


ndarray.__module__ = "cupy"


def _plain(value: Any) -> Any:
    """Scalar of an array of NumPy without dimensions."""
    return value[()] if isinstance(value, np.ndarray) and value.shape == () else value


class Flags:
    """The three flags that CuPy has."""

    def __init__(self, memory: np.ndarray) -> None:
        self.c_contiguous = memory.flags.c_contiguous
        self.f_contiguous = memory.flags.f_contiguous
        self.owndata = memory.base is None

    def __getitem__(self, name: str) -> bool:
        return getattr(self, name.lower())


class Pointer:
    """Where an array is."""

    def __init__(self, address: int) -> None:
        self.ptr = address
