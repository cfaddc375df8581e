"""Cholesky, eigenvalues, singular values and QR with the same errors in all libraries.

Where a matrix cannot be factored some libraries raise errors of their own, some give NaN, and CuPy
gives rubbish unless it is told to look. Here all raise `numpy.linalg.LinAlgError`, and errors of
the device pass as they are.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    assert_host,
    clip,
    epsilon,
    is_cupy,
    is_host,
    is_on_gpu,
    is_torch,
    like,
    to_host,
)
from gpukfl.core._lazy import OldName

# ------------------------------------------------------------------------------- host eigh

# Eigenvalues on the host, also where the quicker way to them fails.


def host_eigh(A: np.ndarray, /) -> tuple[np.ndarray, np.ndarray]:
    """Call `numpy.linalg.eigh`, with another algorithm where it fails.

    LAPACK's divide and conquer gives up on some finite matrices of near-copies and numbers far
    below rounding. QR iterations do not; they take some three times as long.
    """
    try:
        return np.linalg.eigh(A)
    except np.linalg.LinAlgError:
        from scipy.linalg import eigh

        return eigh(A, driver="ev", check_finite=False)


# Elements of a matrix with which the host is done before a GPU, copies included. An H100 beside one
# core of its host takes for the eigenvectors of 96, 128, 256 and 512 rows 1.4, 1.8, 2.3 and 4.9 ms
# (.9, 1.8, 7 and 32 there), to factor 64 and 128 rows .11 and .19 ms (.12, .23)
_SMALL = 2**14
# The same of one whose singular values are wanted, which it finds in 14, 41, 56 and 46 ms for 96,
# 362, 450 and 512 rows (1.6, 25, 43 and 69 there)
_SMALL_SVD = 2**17
_ALONE = 1024  # rows up to which one thread is about as quick
_WIDE = 128  # columns that threads solve for sooner
_BLOCK = 64  # rows and columns that are mirrored at a time, in the first-level cache
# Epsilons and sizes by which squared rows of a factor may miss the diagonal: rounding takes two
_MISS = 8.0


@dataclass(frozen=True, eq=False)
class CholeskyFactor:
    """Cholesky factor of a symmetric positive definite matrix."""

    L: Array  # (n, n), lower triangular

    @classmethod
    def factor(cls, A: Array, /, *, overwrite: bool = False) -> CholeskyFactor:
        """Factor `A` (n, n); O(n³). With `overwrite` NumPy's factor takes the place of `A`.

        Raises
        ------
        numpy.linalg.LinAlgError
            If `A` is not positive definite in its precision, whatever its library.
        """
        xp = array_namespace(A)
        if is_cupy(A):
            return _factor_on_cupy(A, lambda _: [])[0]
        with _unify_errors(A):
            L = _factor_on_host(A, overwrite) if is_host(A) else xp.linalg.cholesky(A)
        # Some libraries factor NaN without complaint; from anywhere it reaches the diagonal
        diagonal = xp.linalg.diagonal(L)
        _check_finite(diagonal, "Matrix is not positive definite: it is not finite")
        return cls(L)

    def solve(self, b: Array, /) -> Array:
        """Solve for `b` (n, t); O(n² t)."""
        return self.solve_upper(self.solve_lower(b))

    def inverse(self) -> Array:
        """Return the inverse (n, n) of the factored matrix; O(n³)."""
        if is_host(self.L):
            return _invert_on_host(self.L)
        xp = array_namespace(self.L)
        return self.solve(xp.eye(self.L.shape[0], **like(self.L)))

    def whiten(self, A: Array, /) -> Array:
        r"""Return :math:`L^{-1} A L^{-\top}` for a symmetric `A` (n, n); O(n³)."""
        if is_host(self.L):
            return _whiten_on_host(self.L, np.asarray(A))
        inner = self.solve_lower(self.solve_lower(A).T)
        return 0.5 * (inner + inner.T)

    def unwhiten(self, A: Array, /) -> Array:
        r"""Return :math:`L^{-\top} A L^{-1}` for a symmetric `A` (n, n); O(n³)."""
        if is_host(self.L):
            # With rows and columns in reverse order the transpose of L is lower triangular
            back = _whiten_on_host(_reverse_both(self.L.T), _reverse_both(np.asarray(A)))
            return _reverse_both(back)
        outer = self.solve_upper(self.solve_upper(A).T)
        return 0.5 * (outer + outer.T)

    def solve_lower(self, b: Array, /) -> Array:
        """Solve ``L x = b``."""
        return _solve_triangular(self.L, b, transposed=False)

    def solve_upper(self, b: Array, /) -> Array:
        """Solve ``L.T x = b``."""
        return _solve_triangular(self.L, b, transposed=True)

    of = OldName("factor")


def solve_and_measure(
    A: Array, b: Array, measure: Callable[[Array], Array], /
) -> tuple[Array, np.ndarray]:
    """Solve ``A x = b``, and return ``measure(x)`` on the host as `factor_and_measure`."""
    solutions: list[Array] = []

    def solve_and_keep(factor: CholeskyFactor) -> Array:
        solutions.append(factor.solve(b))
        return measure(solutions[0])

    numbers = factor_and_measure(A, solve_and_keep)
    return solutions[0], numbers


def factor_and_measure(A: Array, measure: Callable[[CholeskyFactor], Array], /) -> np.ndarray:
    """Factor `A`, and return the host vector ``measure(factor)``: CuPy waits once.

    `A` (n, n) is symmetric positive definite, and overwritten; all have its dtype. O(n³).

    Raises
    ------
    numpy.linalg.LinAlgError
        If `A` is not positive definite in its precision.
    """
    if not is_cupy(A):
        return to_host(measure(CholeskyFactor.factor(A, overwrite=True)))
    return _factor_on_cupy(A, lambda factor: [measure(factor)])[1]


def _factor_on_cupy(
    A: Array, measure: Callable[[CholeskyFactor], list[Array]]
) -> tuple[CholeskyFactor, np.ndarray]:
    """Factor `A` of CuPy, and copy measures and success to the host in one wait."""
    import cupyx

    xp = array_namespace(A)
    with cupyx.errstate(linalg="ignore"):  # else CuPy waits for the solver's verdict
        factor = CholeskyFactor(xp.linalg.cholesky(A))
    L, n = factor.L, A.shape[0]
    signs = [xp.sum(L * L, axis=1), xp.linalg.diagonal(A), xp.linalg.diagonal(L)]
    numbers = to_host(xp.concat([*signs, *measure(factor)]))
    if not _is_factor(*numbers[: 3 * n].reshape(3, n), rounding=_MISS * n * epsilon(A)):
        msg = "Matrix is not positive definite"
        raise np.linalg.LinAlgError(msg)
    return factor, numbers[3 * n :]


def _is_factor(
    squares: np.ndarray, diagonal: np.ndarray, pivots: np.ndarray, *, rounding: float
) -> bool:
    """Return whether L is a factor of A, for solvers that fail silently: (n,).

    The `squares` of a factor's rows add up to A's `diagonal`. Those of rows that were not reached
    do not: off the diagonal they still have what would have been subtracted there.
    """
    if not (np.isfinite(squares) & np.isfinite(diagonal) & (pivots > 0)).all():
        return False
    return bool((abs(squares - diagonal) <= rounding * diagonal).all())


def add_to_diagonal(A: Array, value: Array | float, /) -> Array:
    """Return `A` (n, n) plus `value`, a number or an array of one, times the identity."""
    if is_host(A):
        A = A.copy()
        A.flat[:: A.shape[0] + 1] += value
        return A
    if is_cupy(A):  # two launches, where the standard's way takes four
        A = A.copy(order="C")  # so that what follows is no copy of a transposed one
        diagonal = array_namespace(A).reshape(A, (-1,))[:: A.shape[0] + 1]
        diagonal += value
        return A
    return A + value * array_namespace(A).eye(A.shape[0], **like(A))


def mean_diagonal(A: Array, /) -> Array:
    """Return the mean diagonal of `A` (n, n), or 1 if that is 0, as a 0-d array."""
    xp = array_namespace(A)
    mean = xp.mean(xp.linalg.diagonal(A))
    return xp.where(mean == 0, xp.ones_like(mean), mean)


def _factor_on_host(A: np.ndarray, overwrite: bool) -> np.ndarray:
    if (split := _threaded_module(A.shape[0])) is not None:
        L = np.array(A, order="C", copy=None if overwrite else True)
        split.factor(L)
        return L
    from scipy.linalg import cholesky

    # LAPACK reads columns first: to it the rows of A are columns, and its lower part the upper
    return cholesky(A.T, lower=False, overwrite_a=overwrite, check_finite=False).T


def _invert_on_host(L: np.ndarray, /) -> np.ndarray:
    if (split := _threaded_module(L.shape[0])) is not None:
        return _mirror(split.inverse(np.ascontiguousarray(L)).T)
    from scipy.linalg import get_lapack_funcs

    (potri,) = get_lapack_funcs(("potri",), (L,))
    upper, info = potri(L.T, lower=0)  # in the order of LAPACK, and without a second copy
    assert info == 0  # the diagonal of a factor has no 0
    return _mirror(upper)


def _reverse_both(A: np.ndarray, /) -> np.ndarray:
    return np.ascontiguousarray(A[::-1, ::-1])


def _whiten_on_host(L: np.ndarray, A: np.ndarray, /) -> np.ndarray:
    if (split := _threaded_module(L.shape[0])) is not None:
        white = np.array(A, dtype=np.result_type(A, L), order="C")
        split.whiten(white, np.ascontiguousarray(L, dtype=white.dtype))
        return _mirror(white.T)
    from scipy.linalg import get_lapack_funcs

    # Half of the arithmetic of two triangular solves, which know nothing of the symmetry
    (sygst,) = get_lapack_funcs(("sygst",), (L, A))
    upper, info = sygst(A.T, L.T, itype=1, lower=0)
    assert info == 0  # which it is for arguments of right shapes
    return _mirror(upper)


def _mirror(A: np.ndarray, /) -> np.ndarray:
    """Make `A` (n, n) symmetric in place, by its upper triangle."""
    n = A.shape[0]
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        block = A[start:stop, start:stop]
        above = np.triu(block, 1)
        block[...] = above + above.T + np.diag(np.diagonal(block))
        A[stop:, start:stop] = A[start:stop, stop:].T
    return A


@contextlib.contextmanager
def _unify_errors(A: Array, /) -> Iterator[None]:
    """Raise NumPy's LinAlgError in every library if `A` cannot be factored.

    Errors of the device are RuntimeErrors too, and stay what they are.
    """
    if is_cupy(A):
        import cupyx

        with cupyx.errstate(linalg="raise"):
            yield
    elif is_torch(A):
        import torch

        try:
            yield
        except torch.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(str(error)) from error
    else:
        yield


def _check_finite(x: Array, complaint: str, /) -> None:
    """Raise LinAlgError if `x` holds NaN or infinity. Waits for the device."""
    xp = array_namespace(x)
    if not bool(xp.all(xp.isfinite(x))):
        raise np.linalg.LinAlgError(complaint)


def _is_small_on_gpu(A: Array, most: int, /) -> bool:
    """Whether `A` is on a GPU, and so small that the host is faster."""
    return is_on_gpu(A) and A.shape[0] * A.shape[1] <= most


def move_small_to_host(*arrays: Array) -> tuple[Array, ...]:
    """Copy small float64 arrays of a GPU to the host, where they are processed faster.

    All or none, in one transfer; arrays of other places stay what they are.
    """
    first = arrays[0]
    if not is_on_gpu(first) or max(math.prod(x.shape) for x in arrays) > _SMALL:
        return arrays
    xp = array_namespace(first)
    host = to_host(xp.concat([xp.reshape(x, (-1,)) for x in arrays]))
    ends = itertools.accumulate(math.prod(x.shape) for x in arrays)
    return tuple(
        host[end - math.prod(x.shape) : end].reshape(x.shape)
        for x, end in zip(arrays, ends, strict=True)
    )


def restore_device(x: Array, reference: Array, /) -> Array:
    """Return `x` on the device of `reference`, after `move_small_to_host`."""
    return asarray_like(x, reference) if is_host(x) and not is_host(reference) else x


def eigh(A: Array, /) -> tuple[Array, Array]:
    """Return ascending eigenvalues (n,) and eigenvectors (n, n) of a symmetric `A`; O(n³).

    Raises
    ------
    numpy.linalg.LinAlgError
        If they are not found, or `A` is not finite. Waits for the device.
    """
    if _is_small_on_gpu(A, _SMALL):
        s, Q = eigh(to_host(A))
        return asarray_like(s, A), asarray_like(Q, A)
    s, Q, _ = eigh_and_measure(A, lambda s, _: s[:0])
    return s, Q


def eigh_and_measure(
    A: Array, measure: Callable[[Array, Array], Array], /
) -> tuple[Array, Array, np.ndarray]:
    """Return `eigh` of `A`, and the host vector ``measure(s, Q)``: CuPy waits once.

    And once more where `A` is small, for it to come to the host.
    """
    if _is_small_on_gpu(A, _SMALL):
        s, Q = eigh(A)
        return s, Q, to_host(measure(s, Q))
    if not is_cupy(A):
        _check_finite(A, "Eigenvalues were not found: the matrix is not finite")
        with _unify_errors(A):
            s, Q = host_eigh(A) if is_host(A) else array_namespace(A).linalg.eigh(A)
        return s, Q, to_host(measure(s, Q))
    import cupyx

    xp, n = array_namespace(A), A.shape[0]
    with cupyx.errstate(linalg="ignore"):  # else CuPy waits for the solver's verdict
        s, Q = xp.linalg.eigh(A)
    signs = [s, xp.sum(Q * Q * s[None, :], axis=1), xp.linalg.diagonal(A), measure(s, Q)]
    numbers = to_host(xp.concat(signs))
    if not _is_spectrum(*numbers[: 3 * n].reshape(3, n), rounding=_MISS * n * epsilon(A)):
        msg = "Eigenvalues were not found"
        raise np.linalg.LinAlgError(msg)
    return s, Q, numbers[3 * n :]


def _is_spectrum(
    s: np.ndarray, diagonal: np.ndarray, expected: np.ndarray, *, rounding: float
) -> bool:
    """Return whether eigenvalues were found, for solvers that fail silently.

    By the `diagonal` of what eigenvectors and eigenvalues multiply to, which is A's.
    """
    if not (np.isfinite(s) & np.isfinite(diagonal) & np.isfinite(expected)).all():
        return False
    return bool((abs(diagonal - expected) <= rounding * abs(s).max(initial=0.0)).all())


def eigvalsh(A: Array, /) -> Array:
    """Return ascending eigenvalues (n,) of a symmetric `A`; O(n³). Raises as `eigh` does."""
    if _is_small_on_gpu(A, _SMALL):
        return asarray_like(eigvalsh(to_host(A)), A)
    _check_finite(A, "Eigenvalues were not found: the matrix is not finite")
    with _unify_errors(A):
        return array_namespace(A).linalg.eigvalsh(A)


def svd(A: Array, /) -> tuple[Array, Array, Array]:
    """Return the thin singular value decomposition U, s, V' of `A`. Raises as `eigh` does."""
    if _is_small_on_gpu(A, _SMALL_SVD):
        U, s, Vt = svd(to_host(A))
        return asarray_like(U, A), asarray_like(s, A), asarray_like(Vt, A)
    # First, because LAPACK may search for them in infinite numbers for ever
    _check_finite(A, "Singular values were not found: the matrix is not finite")
    with _unify_errors(A):
        U, s, Vt = array_namespace(A).linalg.svd(A, full_matrices=False)
    return U, s, Vt


def _solve_triangular(L: Array, b: Array, /, *, transposed: bool) -> Array:
    if is_host(L):
        return _solve_on_host(*assert_host(L, b), transposed)
    if is_cupy(L):
        from cupyx.scipy.linalg import solve_triangular

        return solve_triangular(L, b, lower=True, trans=int(transposed))
    if is_torch(L):
        import torch

        return torch.linalg.solve_triangular(L.mT if transposed else L, b, upper=transposed)
    return array_namespace(L).linalg.solve(L.T if transposed else L, b)


def _solve_on_host(L: np.ndarray, b: np.ndarray, transposed: bool) -> np.ndarray:
    wide = b.ndim == 2 and b.shape[1] >= _WIDE
    if wide and (split := _threaded_module(L.shape[0])) is not None:
        x = np.array(b, dtype=np.result_type(L, b), order="C")
        split.solve(np.ascontiguousarray(L, dtype=x.dtype), x, turned=transposed)
        return x
    from scipy.linalg import solve_triangular

    return solve_triangular(L, b, lower=True, trans=int(transposed), check_finite=False)


def _threaded_module(n: int) -> Any:
    """Return the module with threaded factorisations for n rows, or None."""
    if n <= _ALONE:  # and nothing more is imported
        return None
    from gpukfl._accel import cpu_factors

    return cpu_factors if cpu_factors.is_worth_threads() else None


def map_singular_values(W: Array, shrink: Callable[[Array], Array], /) -> tuple[Array, Array]:
    """Replace the singular values s of `W` (d, m) by ``shrink(s)``.

    Returns the new matrix, and the singular values (min(d, m),) it came from, descending. One
    side at most half of the other: by the Gram matrix of that side, in float64 so that the
    squared condition does not show in float32. O(d m min(d, m)); small matrices of a GPU on the
    host, where a factorisation takes less than its launches.
    """
    d, m = W.shape
    if _is_small_on_gpu(W, _SMALL):
        mapped, s = map_singular_values(to_host(W), shrink)
        return asarray_like(mapped, W), asarray_like(s, W)
    if m < d:
        mapped, s = map_singular_values(W.T, shrink)
        return mapped.T, s
    if m >= 2 * d:
        return _map_by_gram(W, shrink)
    U, s, Vt = svd(W)
    return (U * shrink(s)[None, :]) @ Vt, s


def _map_by_gram(W: Array, shrink: Callable[[Array], Array], /) -> tuple[Array, Array]:
    xp = array_namespace(W)
    W64 = xp.astype(W, xp.float64)
    squares, U = eigh(W64 @ W64.T)
    s = xp.sqrt(clip(xp.flip(squares), low=0.0))
    U = xp.flip(U, axis=1)
    zero = s <= 0
    factor = xp.where(zero, xp.zeros_like(s), shrink(s) / xp.where(zero, xp.ones_like(s), s))
    mapped = (U * factor[None, :]) @ (U.T @ W64)
    return xp.astype(mapped, W.dtype), xp.astype(s, W.dtype)


def orthonormal_range(Y: Array, /) -> Array:
    """Return an orthonormal basis of the columns of a tall `Y` (n, r). Raises as `eigh` does."""
    _check_finite(Y, "A basis was not found: the matrix is not finite")
    with _unify_errors(Y):
        Q, _ = array_namespace(Y).linalg.qr(Y, mode="reduced")
    return Q
