"""Numba's compiler, which also works where no cache can be written."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def njit(*, cache: bool, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile as `numba.njit` does; with `cache`, keep the code where a cache can be written.

    Numba itself refuses to define a function where neither the folder of the package nor the
    home can be written to, and fails where the disk is full.

    Arrays are copied by loops in compiled code: for `a[:] = b` Numba also compiles the text of its
    error, which takes seconds of a first fit.
    """

    def compile_function(function: Callable[..., Any]) -> Any:
        if cache:
            try:
                return _keep_if_possible(numba.njit(cache=True, **options)(function))
            except RuntimeError as error:
                if "no locator" not in str(error):
                    raise
        return numba.njit(**options)(function)  # anew in each process

    return compile_function


def _keep_if_possible(dispatcher: Any, /) -> Any:
    """Compile without a cache where the cache cannot be read or written."""
    if hasattr(dispatcher, "_cache"):  # Python's own function, where compiling is turned off
        dispatcher._cache = _Cache(dispatcher._cache)
    return dispatcher


class _Cache:
    """A cache of Numba's for compiled code; on a full disk each process compiles for itself."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_cache"], name)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the cached code, or None."""
        try:
            return self._cache.load_overload(sig, target_context)
        except OSError:
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Cache compiled code, if there is room."""
        with contextlib.suppress(OSError):
            self._cache.save_overload(sig, data)


def read_only_arguments(twin: Callable[P, R], /) -> Callable[P, R]:
    """Decorate a function that only reads its arrays; it receives read-only views.

    For those that can, Numba would compile the same code once more: a second, of a first fit.
    """

    @functools.wraps(twin)
    def wrapper(*args: P.args, **options: P.kwargs) -> R:
        return twin(*map(_freeze, args), **options)

    return wrapper


def contiguous(A: np.ndarray, dtype: Any = None, /) -> np.ndarray:
    """Return a read-only array in C order, copied if it was in another order."""
    return _read_only(np.ascontiguousarray(A, dtype=dtype))


def _freeze(given: Any) -> Any:
    return _read_only(given) if isinstance(given, np.ndarray) else given


def _read_only(A: np.ndarray) -> np.ndarray:
    seen = A.view()
    seen.flags.writeable = False
    return seen
