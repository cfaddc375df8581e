"""Kernels from source: every launch is checked, counted, on demand recorded, and run on fibers.

CuPy hands over arguments as they are (cupy/_core/raw.pyx, docs/source/user_guide/kernel.rst): a
wrong number, type or dtype reads and writes whatever is there. Here that is an error.
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import Any

import numpy as np

from cupy import _compiler, _recording
from cupy._array import n_bytes, ndarray, unwrapped
from cupy._compiler import Parameter
from cupy._counts import launched
from cupy._devices import CUDARuntimeError, use_cuda

ORDER = int(os.environ.get("CUPY_STANDIN_ORDER", "0"))  # of threads and blocks: a seed
_ONE_AT_A_TIME = threading.Lock()  # the fibers of a launch are the process's
_MAX_GRID = (2**31 - 1, 65_535)
_MAX_THREADS = 1024
_MAX_SHARED = 48 * 1024  # bytes a block gets without asking
_MAX_ARGUMENTS = 16  # of the header
# What the parameters of kernels point to; states of scans are records of doubles
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "Mass": "float64",
    "Ridge": "float64",
    "int": "int32",
    "long long": "int64",
    "unsigned long long": "int64",
}


class RawModule:
    """A source, compiled when its first kernel is asked for."""

    def __init__(
        self,
        *,
        code: str,
        options: tuple[str, ...] = (),
        backend: str = "nvrtc",
        name_expressions: Any = None,
    ) -> None:
        if not isinstance(code, str) or not isinstance(options, tuple):
            msg = f"expected code to be str and options a tuple, got {type(code)}, {type(options)}"
            raise TypeError(msg)
        if backend != "nvrtc" or name_expressions is not None:
            msg = "the stand-in compiles by NVRTC's options, and kernels by their plain names, only"
            raise ValueError(msg)
        self.code, self.options = code, options

    def get_function(self, name: str) -> RawKernel:
        """Find a kernel."""
        return RawKernel(self.code, name, self.options)


class RawKernel:
    """A kernel."""

    def __init__(self, code: str, name: str, options: tuple[str, ...] = ()) -> None:
        self.code, self.name, self.options = code, name, options
        self.compiled = _compiler.compiled(code, options)
        known = _compiler.parameters(code, options)
        if name not in known:
            msg = f"CUDA_ERROR_NOT_FOUND: named symbol not found ({name})"
            raise CUDARuntimeError(msg)
        self.parameters = known[name]
        assert len(self.parameters) <= _MAX_ARGUMENTS

    def __call__(
        self,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: tuple[Any, ...],
        *,
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        use_cuda()
        _check_sizes(grid, block, shared_mem)
        if len(args) != len(self.parameters):
            msg = f"{self.name}: expected {len(self.parameters)} arguments, got {len(args)}"
            raise AssertionError(msg)
        operands = [self._operand(p, x) for p, x in zip(self.parameters, args, strict=True)]
        launched(self.name, n_bytes(*operands))
        across, down = (*(max(size, 1) for size in grid), 1)[:2]
        sizes = (across, down, block[0], shared_mem)
        _recording.record(self, sizes, args)
        words = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in operands]
        with _ONE_AT_A_TIME:
            failure = self.compiled.launch(
                ctypes.cast(getattr(self.compiled, self.name), ctypes.c_void_p),
                *(ctypes.c_longlong(size) for size in sizes),
                (ctypes.c_longlong * _MAX_ARGUMENTS)(*words),
                ctypes.c_ulonglong(ORDER),
            )
        if failure:
            msg = f"{self.name}: {failure.decode()}"
            raise AssertionError(msg)

    def _operand(self, parameter: Parameter, x: Any) -> Any:
        """Memory for a pointer, a number for a number."""
        expected = _DTYPES[parameter.type] if parameter.is_pointer else "a number of 8 bytes"
        if isinstance(x, ndarray):
            got = x.dtype.name
        else:
            got = "a number of 8 bytes" if type(x) is int else str(type(x))
        if got != expected or (not parameter.is_pointer and parameter.type != "long long"):
            msg = f"{self.name}: expected {parameter.name} to be {expected}, got {got}"
            raise AssertionError(msg)
        return unwrapped(x, self.name)


def _check_sizes(grid: tuple[int, ...], block: tuple[int, ...], shared_bytes: int) -> None:
    """The limits of every GPU on a launch (CUDA C++ Programming Guide, compute capabilities)."""
    if not (isinstance(grid, tuple) and isinstance(block, tuple)):
        msg = f"expected grid and block to be tuples, got {type(grid)}, {type(block)}"
        raise TypeError(msg)
    if any(type(size) is not int for size in (*grid, *block)) or len(grid) > 2 or len(block) > 1:
        msg = f"expected one or two ints as grid and one as block, got {grid}, {block}"
        raise TypeError(msg)
    fits = all(size <= limit for size, limit in zip(grid, _MAX_GRID, strict=False))
    if not fits or not 0 < block[0] <= _MAX_THREADS or shared_bytes > _MAX_SHARED:
        msg = f"CUDA_ERROR_INVALID_VALUE: invalid argument ({grid}, {block}, {shared_bytes})"
        raise CUDARuntimeError(msg)
