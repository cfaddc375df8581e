"""Limits on the threads of other libraries during a fit.

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
import sys
import threading
from collections.abc import Iterator

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> contextlib.AbstractContextManager[None]:
    """Limit the BLAS to one thread inside the block, and restore it at the end."""
    return _Held()


@contextlib.contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Limit torch's OpenMP to one thread in the calling thread only."""
    import torch

    torch.get_num_threads()  # the first call in a thread sets its number, and would undo the limit
    with _openmp().limit(limits=1):
        yield


def one_sklearn_openmp_thread() -> contextlib.AbstractContextManager[object]:
    """Limit scikit-learn's OpenMP to one thread in the calling thread."""
    return limit_sklearn_openmp(1)


def limit_sklearn_openmp(threads: int, /) -> contextlib.AbstractContextManager[object]:
    """Let scikit-learn's OpenMP have so many threads in the calling thread."""
    return _openmp().limit(limits=threads)


class _Limit:
    """The limit of a process, set by the first user and restored by the last one.

    Every step may be repeated, so that one which Ctrl-C cuts off is made good by the next.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[int, int] = {}  # threads of those that hold the limit
        self._before: list[int] | None = None  # threads of each library, while it is limited

    def enter(self, user: int) -> None:
        with self._lock:
            self._users[user] = threading.get_ident()
            if self._before is None:
                self._before = [library.get_num_threads() for library in _blas().lib_controllers]
                _set([1] * len(self._before))

    def leave(self, user: int) -> None:
        with self._lock:
            self._users.pop(user, None)
            if self._before is not None and not self._users:
                _set(self._before)
                self._before = None

    def reset_after_fork(self) -> None:
        """Forget the threads of the parent process and what they held, after a fork."""
        self._lock = threading.Lock()
        here = threading.get_ident()
        self._users = {user: thread for user, thread in self._users.items() if thread == here}


class _Held(contextlib.AbstractContextManager[None]):
    """A context manager that holds the limit; it is a class so that Ctrl-C cannot leave it set."""

    def __enter__(self) -> None:
        try:
            _limit.enter(id(self))
        except BaseException:
            _limit.leave(id(self))
            raise

    def __exit__(self, *_: object) -> None:
        try:
            _limit.leave(id(self))
        except BaseException:
            _limit.leave(id(self))
            raise


def _set(numbers: list[int]) -> None:
    """Set the threads of each BLAS.

    Newer versions of threadpoolctl let only the thread that set the number of OpenBLAS change it
    again, until a ``with`` of that thread ends. So an empty one follows, and any may set it back.
    """
    for library, number in zip(_blas().lib_controllers, numbers, strict=True):
        library.set_num_threads(number)
    with _blas().limit(limits=1):
        pass


_limit = _Limit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_limit.reset_after_fork)


@functools.cache
def _blas() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 - may bring a BLAS of its own, which must be loaded by now

    return ThreadpoolController().select(user_api="blas")


def _openmp() -> ThreadpoolController:
    return _select_openmp("torch" in sys.modules)  # which brings one of its own


@functools.cache
def _select_openmp(torch_is_loaded: bool) -> ThreadpoolController:  # noqa: ARG001
    return ThreadpoolController().select(user_api="openmp")
