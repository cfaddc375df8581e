"""Factorisations: Cholesky that raises everywhere, singular values of a thin matrix."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpukfl._array import Array, array_namespace, is_cupy, is_host, is_torch, like


@dataclass(frozen=True, eq=False)
class CholeskyFactor:
    """Cholesky factor of a symmetric positive definite matrix."""

    L: Array  # (n, n), lower triangular

    @classmethod
    def of(cls, A: Array, /, *, overwrite: bool = False) -> CholeskyFactor:
        """Factor `A` (n, n); O(n³). With `overwrite` NumPy's factor takes the place of `A`.

        Raises
        ------
        numpy.linalg.LinAlgError
            If `A` is not positive definite in its precision, whatever its library.
        """
        xp = array_namespace(A)
        try:
            with _raising(A):
                L = _in_place(A) if overwrite and is_host(A) else xp.linalg.cholesky(A)
        except RuntimeError as error:  # torch has a class of its own
            if type(error).__name__ == "OutOfMemoryError":
                raise
            raise np.linalg.LinAlgError(str(error)) from error
        # Some libraries factor NaN without complaint; it reaches the last entry from anywhere
        if not bool(xp.isfinite(L[-1, -1])):
            msg = "Matrix is not positive definite: it is not finite"
            raise np.linalg.LinAlgError(msg)
        return cls(L)

    def solve(self, b: Array, /) -> Array:
        """Solve for `b` (n, t); O(n² t)."""
        return self.solve_upper(self.solve_lower(b))

    def solve_lower(self, b: Array, /) -> Array:
        """Solve ``L x = b``."""
        return _solve_triangular(self.L, b, transposed=False)

    def solve_upper(self, b: Array, /) -> Array:
        """Solve ``L.T x = b``."""
        return _solve_triangular(self.L, b, transposed=True)


def add_to_diagonal(A: Array, value: float, /) -> Array:
    """Give `A` (n, n) plus `value` times the identity."""
    if is_host(A):
        A = A.copy()
        A.flat[:: A.shape[0] + 1] += value
        return A
    return A + value * array_namespace(A).eye(A.shape[0], **like(A))


def mean_diagonal(A: Array, /) -> float:
    """Mean of the diagonal of `A` (n, n), or 1 where that is 0. Waits for the device."""
    xp = array_namespace(A)
    return float(xp.mean(xp.linalg.diagonal(A))) or 1.0


def _in_place(A: np.ndarray, /) -> np.ndarray:
    from scipy.linalg import cholesky

    # LAPACK reads columns first: to it the rows of A are columns, and its lower part the upper
    return cholesky(A.T, lower=False, overwrite_a=True, check_finite=False).T


def _raising(A: Array, /) -> contextlib.AbstractContextManager:
    """Make CuPy raise where it would silently return rubbish."""
    if is_cupy(A):
        import cupyx

        return cupyx.errstate(linalg="raise")
    return contextlib.nullcontext()


def _solve_triangular(L: Array, b: Array, /, *, transposed: bool) -> Array:
    if is_host(L):
        from scipy.linalg import solve_triangular

        return solve_triangular(L, b, lower=True, trans=int(transposed), check_finite=False)
    if is_cupy(L):
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, b, lower=True, trans=int(transposed))
    if is_torch(L):
        import torch

        return torch.linalg.solve_triangular(L.mT if transposed else L, b, upper=transposed)
    return array_namespace(L).linalg.solve(L.T if transposed else L, b)


def map_singular_values(W: Array, shrink: Callable[[Array], Array], /) -> tuple[Array, Array]:
    """Replace the singular values s of `W` (d, m) by ``shrink(s)``.

    Returns the new matrix, and the singular values (min(d, m),) it came from, descending. One
    side at most half of the other: by the Gram matrix of that side, in float64 so that the
    squared condition does not show in float32. O(d m min(d, m)).
    """
    xp = array_namespace(W)
    d, m = W.shape
    if m < d:
        mapped, s = map_singular_values(W.T, shrink)
        return mapped.T, s
    if m >= 2 * d:
        return _map_by_gram(W, shrink)
    U, s, Vt = xp.linalg.svd(W, full_matrices=False)
    return (U * shrink(s)[None, :]) @ Vt, s


def _map_by_gram(W: Array, shrink: Callable[[Array], Array], /) -> tuple[Array, Array]:
    xp = array_namespace(W)
    W64 = xp.astype(W, xp.float64)
    squares, U = xp.linalg.eigh(W64 @ W64.T)
    s = xp.sqrt(xp.clip(xp.flip(squares), min=0.0))
    U = xp.flip(U, axis=1)
    zero = s <= 0
    factor = xp.where(zero, xp.zeros_like(s), shrink(s) / xp.where(zero, xp.ones_like(s), s))
    mapped = (U * factor[None, :]) @ (U.T @ W64)
    return xp.astype(mapped, W.dtype), xp.astype(s, W.dtype)


def orthonormal_range(Y: Array, /) -> Array:
    """Orthonormal basis of the columns of a tall `Y` (n, r)."""
    Q, _ = array_namespace(Y).linalg.qr(Y, mode="reduced")
    return Q
