"""Which compiled twins may run: CUDA kernels that the self-test has not found wrong here.

And code for the CPU, unless somebody asked for NumPy alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TypeGuard

import numpy as np

from gpukfl.core._array import is_cupy, is_host
from gpukfl.core._types import Array

_numpy_alone: ContextVar[bool] = ContextVar("numpy_alone", default=False)
_distrusted: set[str] = set()  # files of kernels, by their names without the ending


def has_kernels(x: object, file: str, /) -> TypeGuard[Array]:
    """Whether CUDA kernels of a ``.cu`` file replace array operations on `x`."""
    return is_cupy(x) and file not in _distrusted


def distrust(file: str, /) -> None:
    """Use array operations in place of the kernels of `file`, in this process."""
    _distrusted.add(file)


def has_compiled_code(x: object, /) -> TypeGuard[np.ndarray]:
    """Whether compiled CPU code, or SciPy, computes with `x`."""
    return is_host(x) and not is_numpy_only()


def prepare_compiled_code(x: object, /) -> None:
    """Import Numba and call compiled code once, if it computes with `x`.

    That takes as long as many a small fit: it is done before fits are timed.
    """
    if has_compiled_code(x):
        from gpukfl._accel import cpu_distances

        cpu_distances.distances(np.zeros((1, 1)), np.zeros((1, 1)), "euclidean")


def is_numpy_only() -> bool:
    """Whether only NumPy may be used."""
    return _numpy_alone.get()


@contextlib.contextmanager
def use_numpy_only() -> Iterator[None]:
    """Use array operations in place of compiled code, so that only NumPy is imported."""
    token = _numpy_alone.set(True)
    try:
        yield
    finally:
        _numpy_alone.reset(token)
