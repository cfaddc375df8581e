"""Memory of the devices: limited, poisoned, and on demand between pages that nobody may touch."""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections import Counter
from typing import Any

import numpy as np

from cupy._devices import current, use_cuda

GUARDED = os.environ.get("CUPY_STANDIN_GUARD") == "1"
_POISON = 0xFF  # NaN as a float, and -1 as an integer
_UNIT = (
    512  # bytes that an allocation is rounded up to (cupy/cuda/memory.pyx, ALLOCATION_UNIT_SIZE)
)
_READ_WRITE, _PRIVATE_ANONYMOUS = 3, 0x22
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class OutOfMemoryError(MemoryError):
    """What CuPy's pool raises."""


OutOfMemoryError.__module__ = "cupy.cuda.memory"


class Memory:
    """Bytes in use on each device; tests set `limit`, and what other processes have `taken`."""

    limit = 80 * 2**30
    taken = 0

    def __init__(self) -> None:
        self.used: Counter[int] = Counter()
        self.peak: Counter[int] = Counter()

    def free(self, device: int) -> int:
        """Bytes that could be allocated."""
        return self.limit - self.taken - self.used[device]

    def take(self, device: int, n_bytes: int) -> None:
        """Allocate, or raise OutOfMemoryError."""
        if n_bytes > self.free(device):
            used = self.used[device]
            msg = f"Out of memory allocating {n_bytes:,} bytes (allocated so far: {used:,} bytes)."
            raise OutOfMemoryError(msg)
        self.used[device] += n_bytes
        self.peak[device] = max(self.peak[device], self.used[device])


MEMORY = Memory()


class Block:
    """Bytes of an allocation, given back with the last array in it."""

    __slots__ = ("device", "n_bytes")

    def __init__(self, n_bytes: int) -> None:
        use_cuda()
        self.device, self.n_bytes = current(), 0
        rounded = -(-n_bytes // _UNIT) * _UNIT
        MEMORY.take(self.device, rounded)
        self.n_bytes = rounded

    def __del__(self) -> None:
        MEMORY.used[self.device] -= self.n_bytes


class _Pages:
    """Memory flush with a page behind it that nobody may touch, and with one before."""

    def __init__(self, n_bytes: int) -> None:
        inside = -(-n_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self.length = inside + 2 * mmap.PAGESIZE
        self.start = _libc.mmap(None, self.length, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0)
        behind = self.start + mmap.PAGESIZE + inside
        _libc.mprotect(self.start, mmap.PAGESIZE, 0)
        _libc.mprotect(behind, mmap.PAGESIZE, 0)
        ctypes.memset(self.start + mmap.PAGESIZE, _POISON, inside)  # before the array too
        self.buffer_at = behind - n_bytes

    def __del__(self) -> None:
        _libc.munmap(self.start, self.length)


def _guarded(n_bytes: int) -> np.ndarray:
    pages = _Pages(n_bytes)
    buffer = (ctypes.c_ubyte * n_bytes).from_address(pages.buffer_at)
    buffer.pages = pages  # unmapped with the last array that reads them
    return np.frombuffer(buffer, np.uint8)


def allocate(shape: Any, dtype: Any, order: str = "C") -> tuple[np.ndarray, Block]:
    """Poisoned memory, and what to hold while it is used."""
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(int(s) for s in shape)
    n_bytes = math.prod(shape) * dtype.itemsize
    block = Block(n_bytes)
    bytes_ = _guarded(n_bytes) if GUARDED and n_bytes else np.empty(n_bytes, np.uint8)
    bytes_[...] = _POISON
    return bytes_.view(dtype).reshape(shape, order="F" if order == "F" else "C"), block
