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
    """An allocation, given back with the last array in it."""

    __slots__ = ("buffer", "device", "n_bytes", "start")

    def __init__(self, n_bytes: int) -> None:
        use_cuda()
        self.start, self.device, self.n_bytes = 0, current(), 0
        rounded = -(-n_bytes // _UNIT) * _UNIT
        MEMORY.take(self.device, rounded)
        self.n_bytes = rounded
        self.buffer = self._guarded(n_bytes) if GUARDED and n_bytes else None

    def _guarded(self, n_bytes: int) -> Any:
        """Memory flush with an unmapped page behind, and with one before."""
        pages = -(-n_bytes // mmap.PAGESIZE)
        self.start = _libc.mmap(
            None, (pages + 2) * mmap.PAGESIZE, _READ_WRITE, _PRIVATE_ANONYMOUS, -1, 0
        )
        behind = self.start + (pages + 1) * mmap.PAGESIZE
        _libc.mprotect(self.start, mmap.PAGESIZE, 0)
        _libc.mprotect(behind, mmap.PAGESIZE, 0)
        return (ctypes.c_ubyte * n_bytes).from_address(behind - n_bytes)

    def __del__(self) -> None:
        MEMORY.used[self.device] -= self.n_bytes
        if self.start:
            pages = -(-len(self.buffer) // mmap.PAGESIZE)
            _libc.munmap(self.start, (pages + 2) * mmap.PAGESIZE)


def allocate(shape: Any, dtype: Any, order: str = "C") -> tuple[np.ndarray, Block]:
    """Poisoned memory, and what to hold while it is used."""
    dtype = np.dtype(dtype)
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(int(s) for s in shape)
    n_bytes = math.prod(shape) * dtype.itemsize
    block = Block(n_bytes)
    if block.buffer is None:
        bytes_ = np.empty(n_bytes, np.uint8)
    else:
        bytes_ = np.frombuffer(block.buffer, np.uint8)
    bytes_[...] = _POISON
    return bytes_.view(dtype).reshape(shape, order="F" if order == "F" else "C"), block
