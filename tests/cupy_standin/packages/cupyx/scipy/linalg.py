"""Triangular solves, by cuBLAS: they divide by zero without a word."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from cupy._array import ndarray, new, unwrapped
from cupy._counts import launched

__all__ = ["solve_triangular"]


def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = False,
) -> ndarray:
    """Solve; the result is in Fortran's order (cupyx/scipy/linalg/_solve_triangular.py)."""
    for x in (a, b):
        if not isinstance(x, ndarray):
            msg = "cupy.linalg only supports cupy.ndarray"
            raise np.linalg.LinAlgError(msg)
    L, y = unwrapped(a, "solve_triangular"), unwrapped(b, "solve_triangular")
    if L.ndim != 2 or L.shape[0] != L.shape[1]:
        msg = "expected square matrix"
        raise ValueError(msg)
    if len(L) != len(y):
        msg = "incompatible dimensions"
        raise ValueError(msg)
    dtype = L.dtype if L.dtype.char in "fd" else np.promote_types(L.dtype.char, "f")
    launched("trsm", L.nbytes + 4 * y.nbytes, launches=3)
    options = {"trans": trans, "lower": lower, "unit_diagonal": unit_diagonal}
    with np.errstate(all="ignore"):
        try:
            x = scipy.linalg.solve_triangular(
                L.astype(dtype), y.astype(dtype), check_finite=False, **options
            )
        except np.linalg.LinAlgError:
            x = np.full(y.shape, np.inf, dtype)
    return new(x.astype(dtype), "F")
