"""Threads for work on NumPy arrays.

Compiled loops and NumPy release the GIL and run in Python threads: no OpenMP or TBB runtime that
would break in forked workers. Work is split by the number of threads of the process, also where
fewer are free for it: results are the same on all of them, on a share, and on one.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gpukfl._accel.limits import one_blas_thread
from gpukfl._accel.pool import Pool

_WORTH_A_THREAD = 100_000  # elements for each; waking a thread costs about what so many cost
_LIMITS = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")  # what joblib and Dask give to their workers
_here = threading.local()


def n_threads() -> int:
    """Return how many threads to use: ``GPUKFL_NUM_THREADS``, or all cores of the process.

    That is every core that its affinity and its control group leave it, or fewer where
    ``OMP_NUM_THREADS`` or ``NUMBA_NUM_THREADS`` says so, as it does in workers of joblib.
    """
    wanted = _number("GPUKFL_NUM_THREADS")
    if wanted is not None:
        return wanted
    return min([_cores(os.getpid()), *filter(None, map(_number, _LIMITS))])


def _number(variable: str) -> int | None:
    """Return an environment variable as a number of at least 1, or None; the first of ``4,2``."""
    text = os.environ.get(variable, "").split(",")[0].strip()
    return max(1, int(text)) if text else None


@functools.lru_cache(maxsize=1)
def _cores(process: int) -> int:  # noqa: ARG001
    """Return how many cores this process may use; count again after a fork."""
    from joblib import cpu_count

    return cpu_count()


def run_in_chunks(n_items: int, elements: int, body: Callable[[int, int, int], None], /) -> int:
    """Call ``body(chunk, start, stop)`` over a fixed split of the items; return how many chunks."""
    chunks = min(n_items, elements // _WORTH_A_THREAD)
    if chunks <= 1 or (chunks := min(chunks, n_parts())) <= 1:  # asking takes its time
        body(0, 0, n_items)
        return 1
    edges = np.linspace(0, n_items, chunks + 1).astype(int).tolist()
    map_in_pool(body, range(chunks), edges[:-1], edges[1:])
    return chunks


def n_parts() -> int:
    """Return into how many parts work is split, however many threads are free for them."""
    return getattr(_here, "parts", 0) or n_threads()


def free_threads() -> int:
    """Return how many threads work may take: one inside a thread of the pool."""
    return _share() or n_threads()


def _share() -> int:
    """Return how many threads the current one may use; 0 means all."""
    return getattr(_here, "share", 0)


@contextlib.contextmanager
def share_threads(threads: int, /) -> Iterator[None]:
    """Work on so many threads."""
    before, _here.share = _share(), threads
    try:
        yield
    finally:
        _here.share = before


@contextlib.contextmanager
def use_one_thread() -> Iterator[None]:
    """Work on one thread and in one part, so that sums do not depend on how many there are."""
    before, _here.parts = getattr(_here, "parts", 0), 1
    try:
        with share_threads(1), one_blas_thread():
            yield
    finally:
        _here.parts = before


def map_in_pool(body: Callable[..., Any], /, *arguments: Iterable[Any]) -> list[Any]:
    """Map `body` over the arguments in as many threads as are free, with one BLAS thread each."""
    share, threads = _share(), n_threads()
    with one_blas_thread():
        if share == 1:
            return [body(*given) for given in zip(*arguments, strict=True)]
        if not share or share >= threads:
            return _pool(os.getpid()).map(threads, body, *arguments)
        calls = list(zip(*arguments, strict=True))
        edges = np.linspace(0, len(calls), share + 1).astype(int).tolist()

        def run_group(start: int, stop: int) -> list[Any]:
            return [body(*given) for given in calls[start:stop]]

        found = _pool(os.getpid()).map(threads, run_group, edges[:-1], edges[1:])
        return [one for each in found for one in each]


def map_in_shared_threads(body: Callable[..., Any], /, *arguments: Iterable[Any]) -> list[Any]:
    """Map `body` over the arguments in threads that share the free ones.

    For work of many steps, of which each splits what it can over its share. Where this thread has
    a share of its own already, one call comes after the other.
    """
    calls = list(zip(*arguments, strict=True))
    if _share() or len(calls) <= 1:
        return [body(*given) for given in calls]
    share = max(1, n_threads() // len(calls))

    def run_shared(given: tuple[Any, ...]) -> Any:
        with share_threads(share):
            return body(*given)

    return _guides(os.getpid()).map(len(calls), run_shared, calls)


def _enter_pool() -> None:
    _here.share = 1


@functools.lru_cache(maxsize=1)
def _pool(process: int) -> Pool:  # noqa: ARG001
    """Return the pool of threads, which is kept; a forked process starts its own."""
    return Pool(_enter_pool)


@functools.lru_cache(maxsize=1)
def _guides(process: int) -> Pool:  # noqa: ARG001
    """Return the pool of threads that hand work to the other pool and wait for it."""
    return Pool(lambda: None)
