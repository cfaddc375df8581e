"""What CuPy's own functions must compute right: products, sums, factorisations, solves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace, beside, like, to_host
from gpukfl.linalg import CholeskyFactor, eigh, eigvalsh, erf, orthonormal_range, svd

_SIZE, _ROWS = 60, 3000
_OF_SPECTRUM = 600  # rows of a matrix whose eigenvalues a GPU finds, and not the host


@dataclass(frozen=True)
class Operation:
    """A function of CuPy, and what its results must be.

    Attributes
    ----------
    name : str
        What is done.
    run : callable
        ``run(A, B)``, where the arguments live; A is (n, n) and positive definite, B (rows, n).
    expected : callable
        The same of host arrays in float64.
    rounding : float
        Units of the last place of the largest value that rounding may take.
    """

    name: str
    run: Callable[[Any, Any], Array]
    expected: Callable[[np.ndarray, np.ndarray], np.ndarray]
    rounding: float


def inputs(dtype: str, /) -> tuple[np.ndarray, np.ndarray]:
    """Draw a well-conditioned matrix (n, n), and rows (rows, n)."""
    rng = np.random.RandomState(19)
    B = rng.standard_normal((_ROWS, _SIZE))
    A = B[:_SIZE].T @ B[:_SIZE] / _SIZE + np.eye(_SIZE)
    return A.astype(dtype), B.astype(dtype)


def _sums(_: Array, B: Array) -> Array:
    xp = array_namespace(B)
    return xp.sum(B * B, axis=0, dtype=xp.float64)


def _running_sums(_: Array, B: Array) -> Array:
    xp = array_namespace(B)
    return xp.cumulative_sum(B, axis=0, dtype=xp.float64)


def _erf_of(_: np.ndarray, B: np.ndarray) -> np.ndarray:
    from scipy.special import erf as reference

    return reference(B)


def _large(B: Array) -> Array:
    """Give a positive definite matrix from rows."""
    xp, few = array_namespace(B), B[:_OF_SPECTRUM, :]
    return few @ few.T / _SIZE + xp.eye(_OF_SPECTRUM, **like(B))


def _from_eigenvectors(_: Array, B: Array) -> Array:
    s, Q = eigh(_large(B))
    return (Q * s[None, :]) @ Q.T


def _eigenvalues_of(_: np.ndarray, B: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh(to_host(_large(B)))


def _twice(B: Array) -> Array:
    return array_namespace(B).concat([B, B], axis=0)


def _from_singular_values(_: Array, B: Array) -> Array:
    U, s, Vt = svd(_twice(B))
    return (U * s[None, :]) @ Vt


def _projected(_: Array, B: Array) -> Array:
    Q = orthonormal_range(B)
    return Q @ (Q.T @ B)


COPIES = Operation("copies there and back", lambda _, B: beside(to_host(B), B), lambda _, B: B, 0)
OPERATIONS = (
    COPIES,
    Operation("product", lambda A, B: B @ A, lambda A, B: B @ A, 200),
    Operation("sums over samples", _sums, lambda _, B: np.sum(B * B, axis=0), 200),
    Operation("running sums", _running_sums, lambda _, B: np.cumsum(B, axis=0), 200),
    Operation("erf", lambda _, B: erf(B), _erf_of, 8),
    Operation(
        "Cholesky solves",
        lambda A, B: CholeskyFactor.of(A).solve(B[:5, :].T),
        lambda A, B: np.linalg.solve(A, B[:5].T),
        4000,
    ),
    Operation("eigenvectors", _from_eigenvectors, lambda _, B: to_host(_large(B)), 2000),
    Operation("eigenvalues", lambda _, B: eigvalsh(_large(B)), _eigenvalues_of, 2000),
    Operation("singular values", _from_singular_values, lambda _, B: to_host(_twice(B)), 2000),
    Operation("QR", _projected, lambda _, B: B, 2000),
)
