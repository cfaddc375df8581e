"""Factorisations that fail without a word unless told to look.

cupy/linalg/_util.py of 14.2.0: what cuSOLVER reports is looked at only under
``cupyx.errstate(linalg="raise")``, because looking waits for the device.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from cupyx._state import STATE
from numpy.linalg import LinAlgError

from cupy._array import ndarray, new, unwrapped
from cupy._counts import launched, waited
from cupy._surface import SURFACE, missing


def _matrix(a: Any, *, square: bool = False) -> np.ndarray:
    if not isinstance(a, ndarray):
        msg = "cupy.linalg only supports cupy.ndarray"
        raise LinAlgError(msg)
    if a.ndim != 2 or a.dtype.kind != "f":
        missing("cupy.linalg", f"{a.ndim}-dimensional arrays of {a.dtype}")()
    if square and a.shape[0] != a.shape[1]:
        msg = "Last 2 dimensions of the array must be square"
        raise LinAlgError(msg)
    return unwrapped(a, "linalg")


def _look(info: int, routine: str) -> None:
    """Raise what a routine reports, but only if asked to."""
    if STATE["linalg"] != "raise":
        return
    waited("devInfo")
    if info:
        msg = (
            f"Error reported by {routine} in cuSOLVER. devInfo = {info}. Please refer to the "
            "cuSOLVER documentation."
        )
        raise LinAlgError(msg)


def _all_nan(*shapes: tuple[int, ...], like: np.ndarray) -> tuple[ndarray, ...]:
    return tuple(new(np.full(shape, np.nan, like.dtype)) for shape in shapes)


def cholesky(a: Any) -> ndarray:
    """Lower factor; of a matrix that is not positive definite, finite rubbish."""
    x = _matrix(a, square=True)
    launched("potrf", 3 * x.nbytes, launches=3)
    if not x.size:
        return new(x)
    factor, info = scipy.linalg.lapack.dpotrf(x.astype(np.float64), lower=1, clean=1)
    _look(info, "potrf")
    return new(np.tril(factor).astype(x.dtype))


def eigh(a: Any, UPLO: str = "L") -> tuple[ndarray, ndarray]:
    """Eigenvalues and eigenvectors; of a matrix that is not finite, NaN."""
    x = _matrix(a, square=True)
    launched("syevd", 10 * x.nbytes, launches=50)
    finite = bool(np.isfinite(x).all())
    _look(int(not finite), "syevd")
    if not finite:
        values, vectors = _all_nan(x.shape[:1], x.shape, like=x)
        return values, vectors
    values, vectors = np.linalg.eigh(x, UPLO)
    return new(values), new(vectors, "F")


def eigvalsh(a: Any, UPLO: str = "L") -> ndarray:
    """Eigenvalues."""
    return eigh(a, UPLO)[0]


def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Singular values and vectors; of a matrix that is not finite, NaN."""
    x = _matrix(a)
    launched("gesvd", 10 * x.nbytes, launches=50)
    finite = bool(np.isfinite(x).all())
    _look(int(not finite), "gesvd")
    if not finite:
        k = min(x.shape)
        given = _all_nan((x.shape[0], k), (k,), (k, x.shape[1]), like=x)
        return given if compute_uv else given[1]
    found = np.linalg.svd(x, full_matrices, compute_uv)
    return tuple(new(part) for part in found) if compute_uv else new(found)


def qr(a: Any, mode: str = "reduced") -> tuple[ndarray, ndarray]:
    """Orthonormal columns and a triangle."""
    x = _matrix(a)
    launched("geqrf", 10 * x.nbytes, launches=50)
    Q, R = np.linalg.qr(x, mode)
    return new(Q), new(R)


def solve(a: Any, b: Any) -> ndarray:
    """Solve; with a singular matrix the result is not finite, and that is all."""
    x, y = _matrix(a, square=True), unwrapped(b, "solve")
    launched("getrf", 10 * x.nbytes, launches=10)
    singular = np.linalg.matrix_rank(x) < len(x)
    _look(int(singular), "getrf")
    return new(np.full(y.shape, np.nan, x.dtype) if singular else np.linalg.solve(x, y))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> ndarray:
    """Euclidean norms."""
    if ord not in (None, 2) or isinstance(axis, tuple):
        missing("cupy.linalg", f"norm of order {ord} along {axis}")()
    memory = unwrapped(x, "norm")
    launched("norm", memory.nbytes, launches=3)
    with np.errstate(all="ignore"):
        return new(np.sqrt(np.sum(memory * memory, axis=axis, keepdims=keepdims)))


for _name in SURFACE["cupy.linalg.__all__"]:
    globals().setdefault(_name, missing("cupy.linalg", _name))
__all__ = list(SURFACE["cupy.linalg.__all__"])
