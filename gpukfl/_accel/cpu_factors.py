r"""Cholesky factors of large matrices, and solves with them, on several threads.

By halves: a problem of half the size, a quotient or two and products with the other half, which
are split over the threads, and another of half the size. LAPACK does what is small, in one thread.
BLAS's own threads are as quick on idle cores, but spin where they wait: see `gpukfl._accel.limits`.
All take C-ordered arrays. What is symmetric is left in the lower triangle alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpukfl._accel.blas import add_product, divide
from gpukfl._accel.threads import map_in_pool, n_parts, run_in_chunks

_LEAF = 512  # rows that LAPACK does at once
_SHARES = 2  # of a triangle's rows for each thread: those of the last are the longest
_FEWEST, _MOST = 64, 256  # rows of such a share


def is_worth_threads() -> bool:
    """Return whether several threads can share the work, though they may be busy now."""
    return n_parts() > 1


def factor(A: np.ndarray, /) -> None:
    """Replace A (n, n) by its Cholesky factor, with zeros above the diagonal.

    Raises
    ------
    numpy.linalg.LinAlgError
        If A is not positive definite; it has been written to.
    """
    if A.shape[0] <= _LEAF:
        from scipy.linalg import cholesky

        A[...] = cholesky(A.T, lower=False, check_finite=False).T
        return
    first, below, second = _quarters(A)
    factor(first)
    _split_rows(below, lambda s, t: divide(below[s:t], first, left=False, turned=True))

    def subtract(s: int, t: int) -> None:
        add_product(second[s:t, :t], below[s:t], below[:t], times=-1.0, turned="B")

    _split_triangle(second.shape[0], subtract)
    factor(second)
    A[: first.shape[0], first.shape[0] :] = 0.0


def whiten(A: np.ndarray, L: np.ndarray, /) -> None:
    r"""Replace a symmetric A (n, n) by the lower triangle of :math:`L^{-1} A L^{-\top}`.

    With halves of A, L and the result W:

    .. math:: W_{21} = L_{22}^{-1} (B - L_{21} W_{11}), \qquad B = A_{21} L_{11}^{-\top}

    and :math:`W_{22}` whitens :math:`A_{22} - L_{21} C^\top - C L_{21}^\top`,
    :math:`C = B - \frac12 L_{21} W_{11}`.
    """
    if A.shape[0] <= _LEAF:
        from scipy.linalg import get_lapack_funcs

        (sygst,) = get_lapack_funcs(("sygst",), (L, A))
        A[...] = sygst(A.T, L.T, itype=1, lower=0)[0].T
        return
    (first, below, second), (L_first, L_below, L_second) = _quarters(A), _quarters(L)
    _split_rows(below, lambda s, t: divide(below[s:t], L_first, left=False, turned=True))
    whiten(first, L_first)
    own = np.tril(first)
    own += np.tril(first, -1).T
    half = np.empty_like(below, order="C")

    def add_half(s: int, t: int) -> None:
        add_product(half[s:t], L_below[s:t], own, times=-0.5, keep=0.0)
        below[s:t] += half[s:t]

    def subtract(s: int, t: int) -> None:
        add_product(second[s:t, :t], L_below[s:t], below[:t], times=-1.0, turned="B")
        add_product(second[s:t, :t], below[s:t], L_below[:t], times=-1.0, turned="B")

    _split_rows(below, add_half)
    _split_triangle(second.shape[0], subtract)
    below += half
    _split_rows(below.T, lambda s, t: divide(below[:, s:t], L_second, left=True, turned=False))
    whiten(second, L_second)


def inverse(L: np.ndarray, /) -> np.ndarray:
    r"""Return the lower triangle of :math:`L^{-\top} L^{-1}` (n, n); L is left as it is."""
    n = L.shape[0]
    X, found = np.zeros_like(L, order="C"), np.empty_like(L, order="C")

    def invert(s: int, t: int) -> None:  # some columns of L⁻¹, which begin at the diagonal
        X[range(s, t), range(s, t)] = 1.0
        divide(X[s:, s:t], L[s:, s:], left=True, turned=False)

    def multiply(s: int, t: int) -> None:
        add_product(found[s:t, :t], X[s:, s:t], X[s:, :t], keep=0.0, turned="A")

    _split_triangle(n, invert)
    _split_triangle(n, multiply)
    return found


def solve(L: np.ndarray, B: np.ndarray, /, *, turned: bool) -> None:
    """Replace B (n, t) by the solution X of L X = B or Lᵀ X = B."""
    _split_rows(B.T, lambda s, t: divide(B[:, s:t], L, left=True, turned=turned))


def _quarters(A: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return views of the upper left, lower left and lower right quarters."""
    half = A.shape[0] // 2
    return A[:half, :half], A[half:, :half], A[half:, half:]


def _split_rows(A: np.ndarray, body: Callable[[int, int], None]) -> None:
    """Call ``body(start, stop)`` for equal parts of the rows, one per thread."""
    run_in_chunks(A.shape[0], A.size, lambda _, start, stop: body(start, stop))


def _split_triangle(n: int, body: Callable[[int, int], None]) -> None:
    """Call ``body(start, stop)`` for parts of a triangle's n rows, the last ones first."""
    rows = min(max(-(-n // (_SHARES * n_parts())), _FEWEST), _MOST)
    starts = list(range(0, n, rows))[::-1]
    map_in_pool(body, starts, [min(start + rows, n) for start in starts])
