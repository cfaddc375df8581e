"""Limits on the threads of other libraries, for as long as a model is fitted.

Threads of a BLAS, and of OpenMP, spin while they wait for each other. Where another process has one
of the cores, a product of small matrices that takes microseconds in one thread then takes
milliseconds, and in between the waiting threads take the processor from everyone else. So products
and factorisations of NumPy run in one thread each, and what is large is split over the threads of
`gpukfl._accel.threads`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Iterator
from typing import Any

from threadpoolctl import ThreadpoolController

_here = threading.local()


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS to one thread in here, and set it back at the end, whatever happens."""
    depth = getattr(_here, "depth", 0)
    if depth == 0:
        _limit.enter()
    _here.depth = depth + 1
    try:
        yield
    finally:
        _here.depth = depth
        if depth == 0:
            _limit.leave()


@contextlib.contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Limit OpenMP to one thread for what torch does in the thread that calls this, no other."""
    import torch

    torch.get_num_threads()  # the first call in a thread sets its number, and would undo the limit
    with _openmp().limit(limits=1):
        yield


class _Limit:
    """The limit of a process: set by the first thread that asks, set back by the last to leave.

    Newer versions of threadpoolctl let only the thread that set the number of OpenBLAS change it
    again, until a ``with`` of that thread ends. So an empty one follows, and any may set it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._set: Any = None

    def enter(self) -> None:
        with self._lock:
            if self._users == 0:
                self._set = _blas().limit(limits=1)
                with _blas().limit(limits=1):
                    pass
            self._users += 1

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                with self._set:
                    pass  # sets it back at the end

    def after_fork(self) -> None:
        """Forget the other threads, which a forked process has not, and what they held."""
        self._lock = threading.Lock()
        self._users = min(getattr(_here, "depth", 0), 1)


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.after_fork)


@functools.cache
def _blas() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 - may bring a BLAS of its own, which must be loaded by now

    return ThreadpoolController().select(user_api="blas")


@functools.cache
def _openmp() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="openmp")
