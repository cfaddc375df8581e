"""Cholesky factors by block columns, of matrices that no library holds as one array.

CuPy computes wrongly beyond 2**31 elements, which is 46 340 rows, and a whole matrix has twice the
bytes of its lower triangle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpukfl.core._array import Array, array_namespace
from gpukfl.linalg._factor import CholeskyFactor


@dataclass(frozen=True, eq=False)
class BlockCholeskyFactor:
    """Cholesky factor of a symmetric positive definite matrix, by block columns.

    Attributes
    ----------
    columns : tuple of array
        Of each block column the rows from its diagonal on, (n - start, width). Their first rows are
        lower triangular.
    """

    columns: tuple[Array, ...]

    @classmethod
    def factor(
        cls, n: int, width: int, form: Callable[[int, int], Array], /
    ) -> BlockCholeskyFactor:
        """Factor a matrix of n rows, from left to right; O(n³).

        Besides the factor, which is about half of the matrix, two blocks (width, width) are held.

        Parameters
        ----------
        n : int
            Rows.
        width : int
            Columns in a block, positive.
        form : callable
            ``form(start, stop)`` returns the rows from `start` on of these columns of the matrix,
            (n - start, stop - start), as a new array. Above the diagonal they are not read.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the matrix is not positive definite in its precision, whatever its library.
        """
        columns: list[Array] = []
        for start in range(0, n, width):
            stop = min(start + width, n)
            column = form(start, stop)
            for first, known in zip(range(0, n, width), columns, strict=False):
                below = known[start - first :, :]
                across = below[: stop - start, :].T
                for a, b in _panels(column, width):
                    column[a:b, :] -= below[a:b, :] @ across
            _factor_column(column, width)
            columns.append(column)
        return cls(tuple(columns))

    def solve(self, b: Array, /) -> Array:
        """Solve for `b` (n, t); O(n² t)."""
        return self.solve_upper(self.solve_lower(b))

    def solve_lower(self, b: Array, /) -> Array:
        """Solve ``L x = b``."""
        x, n = array_namespace(b).asarray(b, copy=True), b.shape[0]
        for column in self.columns:
            start, stop = n - column.shape[0], n - column.shape[0] + column.shape[1]
            x[start:stop, :] = _corner(column).solve_lower(x[start:stop, :])
            if stop < n:
                x[stop:, :] -= column[stop - start :, :] @ x[start:stop, :]
        return x

    def solve_upper(self, b: Array, /) -> Array:
        """Solve ``L.T x = b``."""
        x, n = array_namespace(b).asarray(b, copy=True), b.shape[0]
        for column in reversed(self.columns):
            start, stop = n - column.shape[0], n - column.shape[0] + column.shape[1]
            if stop < n:
                x[start:stop, :] -= column[stop - start :, :].T @ x[stop:, :]
            x[start:stop, :] = _corner(column).solve_upper(x[start:stop, :])
        return x


def _factor_column(column: Array, width: int) -> None:
    """Factor the first rows of a block column, and divide those below, in place."""
    size = column.shape[1]
    corner = CholeskyFactor.factor(column[:size, :], overwrite=True)
    column[:size, :] = corner.L
    for a, b in _panels(column[size:, :], width):
        column[size + a : size + b, :] = corner.solve_lower(column[size + a : size + b, :].T).T


def _corner(column: Array) -> CholeskyFactor:
    return CholeskyFactor(column[: column.shape[1], :])


def _panels(x: Array, width: int) -> Iterator[tuple[int, int]]:
    """Yield where blocks of rows of `x` start and stop."""
    n = x.shape[0]
    for start in range(0, n, width):
        yield start, min(start + width, n)
