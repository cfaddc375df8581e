"""Memory budgets, and work in blocks that fit in them."""

from __future__ import annotations

import contextlib
import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

from gpukfl.core._array import Array, device_context, is_cupy, is_torch
from gpukfl.core._warnings import warn

# CuPy 14 silently computes wrong results for operands of 2**31 elements or more
MAX_ELEMENTS = 2**31 - 1
_FREE_SHARE = 0.5  # share of free memory that a computation may plan for
_CACHE_SECONDS = 0.1  # the free memory of the host is asked for again after this time
# Words in errors of CUDA, and of cuBLAS and cuSOLVER without memory for their workspace
_OUT_OF_MEMORY = ("cudaErrorMemoryAllocation", "ALLOC_FAILED")
_FULL = (
    "The GPU's memory is full: nvidia-smi shows which processes use it. Use backend='numpy' to "
    "compute on the CPU, or gpukfl.Backend(dtype='float32') for half of the memory."
)
_budget: int | None = None
_sharers: ContextVar[int] = ContextVar("gpukfl_sharers", default=1)
_free_on_host = (-_CACHE_SECONDS, 0)  # when free memory was last asked for, and its bytes


@contextlib.contextmanager
def memory_budget(n_bytes: int | None, /) -> Iterator[None]:
    """Limit the temporary memory that computations inside the ``with`` block plan for.

    Parameters
    ----------
    n_bytes : int or None
        Bytes, positive. None restores the default: half of what is free on the device.

    Raises
    ------
    ValueError
        If `n_bytes` is not positive.

    Examples
    --------
    >>> import gpukfl
    >>> with gpukfl.memory_budget(2**30):
    ...     pass
    """
    global _budget  # noqa: PLW0603
    if n_bytes is not None and n_bytes <= 0:
        msg = f"expected a positive number of bytes, got {n_bytes}"
        raise ValueError(msg)
    before, _budget = _budget, n_bytes
    try:
        yield
    finally:
        _budget = before


@contextlib.contextmanager
def share_memory(among: int, /) -> Iterator[None]:
    """Divide the memory budget among parallel computations."""
    before = _sharers.set(among * _sharers.get())
    try:
        yield
    finally:
        _sharers.reset(before)


def planned_budget() -> int | None:
    """Return the budget that the user has set, or None."""
    return _budget


def available_memory(x: Array, /) -> int:
    """Return the bytes that temporaries on the device of `x` may take."""
    planned = int(_FREE_SHARE * _free_memory(x)) if _budget is None else _budget
    return planned // _sharers.get()


def _free_memory(x: Array, /) -> int:
    if is_cupy(x):
        return _free_cupy_memory(x)
    if is_torch(x) and x.device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(x.device)[0]
    return _free_host_memory()


def _free_cupy_memory(x: Array, /) -> int:
    """Return the free bytes of the device and of CuPy's pool."""
    import cupy

    pool = cupy.get_default_memory_pool()
    with device_context(x):
        free = cupy.cuda.runtime.memGetInfo()[0]
        limit = pool.get_limit()  # 0 without a limit
        if limit:
            free = min(free, max(limit - pool.total_bytes(), 0))
        return free + pool.free_bytes()


def _free_host_memory() -> int:
    global _free_on_host  # noqa: PLW0603
    asked, free = _free_on_host
    if (now := time.monotonic()) - asked >= _CACHE_SECONDS:
        import psutil

        free = psutil.virtual_memory().available
        _free_on_host = now, free
    return free


def block_size(x: Array, /, *, bytes_each: int, elements_each: int, at_most: int) -> int:
    """Return the number of items of a block that fits on the device of `x`, at least 1.

    Raises ValueError if a single item has too many elements for CuPy.
    """
    if elements_each > MAX_ELEMENTS and is_cupy(x):
        msg = f"expected arrays of at most {MAX_ELEMENTS} elements on CuPy, got {elements_each}"
        raise ValueError(msg)
    fitting = min(
        available_memory(x) // max(bytes_each, 1), MAX_ELEMENTS // max(elements_each, 1), at_most
    )
    return max(1, int(fitting))


def run_in_blocks(n_items: int, size: int, body: Callable[[int, int], None], /) -> None:
    """Call ``body(start, stop)`` over consecutive blocks; halve the block when memory runs out.

    If `body` raises, the block is repeated, so it must not leave partial changes.
    """
    start = 0
    while start < n_items:
        stop = min(start + size, n_items)
        try:
            body(start, stop)
        except Exception as error:
            if not is_out_of_memory(error) or size == 1:
                raise
            size = max(1, size // 2)
        else:
            start = stop
            continue
        # Outside the handler, where the traceback no longer holds the block's temporaries
        _release_memory()
        warn(
            f"out of memory: continuing with blocks of {size} rows instead of {stop - start}",
            RuntimeWarning,
        )


def is_out_of_memory(error: Exception, /) -> bool:
    """Whether an error of any library means that memory ran out."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in _OUT_OF_MEMORY)


def explain_full_gpu(error: Exception, /) -> None:
    """Add advice to an error of a full GPU, once."""
    is_on_host = isinstance(error, MemoryError) and not type(error).__module__.startswith("cupy")
    has_note = _FULL in getattr(error, "__notes__", ())
    if is_out_of_memory(error) and not (is_on_host or has_note):
        error.add_note(_FULL)


def release_arrow() -> None:
    """Let pyarrow release its unused memory."""
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()


def _release_memory() -> None:
    gc.collect()
    if "cupy" in sys.modules and sys.modules["cupy"].is_available():
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
    if "torch" in sys.modules and sys.modules["torch"].cuda.is_available():
        sys.modules["torch"].cuda.empty_cache()
