"""Products and triangular solves in place on parts of matrices, while other threads work.

NumPy's products need a new array, and SciPy's wrappers hold the interpreter's lock; `ctypes` calls
what those wrap without it. Rows are contiguous: to BLAS, which reads columns first, every matrix
here is its transpose.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

_PREFIX = {np.dtype(np.float32): "s", np.dtype(np.float64): "d"}
_NUMBER: dict[str, type[Any]] = {"s": ctypes.c_float, "d": ctypes.c_double}


def add_product(
    C: np.ndarray,
    A: np.ndarray,
    B: np.ndarray,
    /,
    *,
    times: float = 1.0,
    keep: float = 1.0,
    turned: str = "",
) -> None:
    """Set C to ``times`` A B + ``keep`` C; the transposes of what `turned`, of "A" and "B", names.

    Old entries that are kept by 0 may be anything.
    """
    inner = A.shape[0 if "A" in turned else 1]
    number = _NUMBER[_PREFIX[C.dtype]]
    _call(
        "gemm",
        C.dtype,
        *(b"T" if "B" in turned else b"N", b"T" if "A" in turned else b"N"),
        *(C.shape[1], C.shape[0], inner),
        *(number(times), B, A, number(keep), C),
    )


def divide(B: np.ndarray, L: np.ndarray, /, *, left: bool, turned: bool) -> None:
    """Set B to L⁻¹ B, or on the right to B L⁻¹, with L lower triangular, or `turned` to Lᵀ."""
    one = _NUMBER[_PREFIX[B.dtype]](1.0)
    side, transposed = b"R" if left else b"L", b"T" if turned else b"N"
    _call("trsm", B.dtype, side, b"U", transposed, b"N", B.shape[1], B.shape[0], one, L, B)


def _call(name: str, dtype: np.dtype, *arguments: Any) -> None:
    """Call a routine with letters, sizes, numbers, and arrays, each before the step of its rows."""
    given: list[Any] = []
    for one in arguments:
        if isinstance(one, np.ndarray):
            step = one.strides[0] // one.itemsize
            given += [ctypes.c_void_p(one.ctypes.data), ctypes.byref(ctypes.c_int(step))]
        elif isinstance(one, bytes):
            given.append(ctypes.c_char_p(one))
        else:
            given.append(ctypes.byref(ctypes.c_int(one) if isinstance(one, int) else one))
    _routine(_PREFIX[dtype] + name, len(given))(*given)


@functools.cache
def _routine(name: str, count: int) -> Callable[..., None]:
    """Return a routine of so many arguments, of the BLAS that SciPy has."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[name]
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.argtypes, name_of.restype = [ctypes.py_object], ctypes.c_char_p
    pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pointer_of.restype = ctypes.c_void_p
    address = pointer_of(capsule, name_of(capsule))
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * count)(address)
