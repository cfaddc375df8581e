"""Memory that blocks of rows give back, kept by a worker for the next block.

Dask starts workers with ``MALLOC_TRIM_THRESHOLD_``, so that memory goes back to the system at once.
Each block's arrays are then new pages, which cost as much time as what is computed in them.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

_BLOCK = 2**24  # bytes of an array up to which it is made of what stays; larger ones leave gaps
_HEAP = 2**26  # bytes of the heaps of threads, which are given back one by one but for a pad
_KEPT = 2**28  # bytes that stay, at most
_DEFAULT = 2**17  # glibc's, of all three
# Parameters of `mallopt`, by their names in the environment, and what keeps memory
_KEEPING = {
    "MALLOC_TRIM_THRESHOLD_": (-1, _KEPT),
    "MALLOC_TOP_PAD_": (-2, _HEAP),
    "MALLOC_MMAP_THRESHOLD_": (-3, _BLOCK),
}


def keep_memory() -> None:
    """Let this process keep what is freed; does nothing where the C library is not glibc."""
    if (library := _glibc()) is not None:
        for parameter, value in _KEEPING.values():
            library.mallopt(parameter, value)


def trim_memory() -> None:
    """Give back the pages that are free between others, which only a look at all of them finds."""
    if (library := _glibc()) is not None:
        library.malloc_trim(0)


def give_memory_back() -> None:
    """Undo `keep_memory`, as far as the environment says what was before."""
    if (library := _glibc()) is not None:
        for variable, (parameter, _) in _KEEPING.items():
            text = os.environ.get(variable, "")
            library.mallopt(parameter, int(text) if text.isdigit() else _DEFAULT)
        library.malloc_trim(0)


@functools.cache
def _glibc() -> Any:
    """Give the C library; None where its allocator is another."""
    if os.name != "posix":
        return None
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None
