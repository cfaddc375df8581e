"""A kernel between data and centres, by blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gpukfl._array import Array, array_namespace, as_columns, like
from gpukfl._memory import available_memory
from gpukfl._rows import Rows
from gpukfl.kernels import Kernel
from gpukfl.linalg import each_block
from gpukfl.operators._base import LinearOperator

_KEPT_SHARE = 0.25  # of the memory that may be used, for kernel values that are kept


@dataclass(frozen=True, eq=False)
class KernelOperator:
    r"""The matrix :math:`K_{ij} = k(B x_i, B z_j)` between n rows and q centres.

    Known by its products, each in one pass over blocks of rows; sums over rows are accumulated in
    float64. Values are computed anew in every pass, unless `keep` is set and all of them fit in a
    quarter of the memory budget.

    Parameters
    ----------
    kernel : Kernel
        The function k.
    rows : Rows
        Data (n, d); may be longer than memory.
    Z : array, shape (q, d)
        Centres, beside ``rows.reference``.
    B : array, shape (k, d), optional
        A linear map of both; the identity without one.
    keep : bool
        Keep values between passes where they fit.
    """

    kernel: Kernel
    rows: Rows
    Z: Array
    B: Array | None = None
    keep: bool = False
    _kept: dict[tuple[int, int], Array] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of centres."""
        return self.rows.shape[0], self.Z.shape[0]

    @cached_property
    def centers(self) -> Array:
        """Centres as the kernel sees them (q, k)."""
        return self.project(self.Z)

    @cached_property
    def _keeps(self) -> bool:
        n, q = self.shape
        return self.keep and 8 * n * q <= _KEPT_SHARE * available_memory(self.Z)

    def project(self, X: Array, /) -> Array:
        """Map rows by B."""
        return X if self.B is None else X @ self.B.T

    def values(self, start: int, stop: int, /, U: Array | None = None) -> Array:
        """Block (stop - start, q) of the matrix; `U` are the projected rows, where known."""
        if (start, stop) in self._kept:
            return self._kept[start, stop]
        if U is None:
            U = self.project(self.rows.block(start, stop))
        K = self.kernel._evaluate(U, self.centers)
        if self._keeps:
            self._kept[start, stop] = K
        return K

    def over_blocks(
        self, compute: Callable[[int, int], Any], take: Callable[[int, int, Any], None], /
    ) -> None:
        """Pass over the rows: ``take(start, stop, compute(start, stop))``, in order."""
        n, q = self.shape
        self.centers  # noqa: B018  # once, not in every thread
        each_block(self.Z, n, max(q, self.Z.shape[1]), compute, take)

    def sum_over_blocks(self, compute: Callable[[int, int], tuple[Array, ...]], /) -> list[Array]:
        """Sum the arrays that `compute` gives for each block, in float64."""
        xp = array_namespace(self.Z)
        totals: list[Array] = []

        def take(_start: int, _stop: int, parts: tuple[Array, ...]) -> None:
            wide = [xp.astype(part, xp.float64) for part in parts]
            totals[:] = [a + b for a, b in zip(totals, wide, strict=True)] if totals else wide

        self.over_blocks(compute, take)
        return totals

    def __matmul__(self, V: Array, /) -> Array:
        """Multiply with (q,) or (q, t): one pass.

        Raises
        ------
        ValueError
            If `V` has another number of rows.
        """
        n, q = self.shape
        _check_rows(V, q)
        xp = array_namespace(V)
        columns = as_columns(V)
        parts: list[Array] = []
        self.over_blocks(
            lambda start, stop: self.values(start, stop) @ columns,
            lambda _start, _stop, part: parts.append(part),
        )
        return xp.reshape(xp.concat(parts, axis=0), (n, *V.shape[1:]))

    def adjoint(self, V: Array, /) -> Array:
        """Multiply the transpose with (n,) or (n, t): one pass.

        Raises
        ------
        ValueError
            If `V` has another number of rows.
        """
        n, q = self.shape
        _check_rows(V, n)
        xp = array_namespace(V)
        columns = as_columns(V)

        def compute(start: int, stop: int) -> tuple[Array, ...]:
            K = xp.astype(self.values(start, stop), V.dtype, copy=False)
            return (K.T @ columns[start:stop, :],)

        (total,) = self.sum_over_blocks(compute)
        return xp.reshape(xp.astype(total, V.dtype), (q, *V.shape[1:]))

    def normal(self, V: Array, weights: Array | None = None, /) -> Array:
        r"""Compute :math:`K^\top D K V` for `V` (q, t), with D the weights (n, 1): one pass.

        Products are in the precision of `V`.
        """
        xp = array_namespace(V)

        def compute(start: int, stop: int) -> tuple[Array, ...]:
            K = xp.astype(self.values(start, stop), V.dtype, copy=False)
            product = K @ V
            if weights is not None:
                product = xp.astype(weights[start:stop, :], V.dtype, copy=False) * product
            return (K.T @ product,)

        (total,) = self.sum_over_blocks(compute)
        return xp.astype(total, V.dtype)

    def moments(self, Y: Array, weights: Array | None = None, /) -> tuple[Array, Array]:
        r"""Compute :math:`K^\top D K` (q, q) and :math:`K^\top D Y` (q, t), float64: one pass.

        O(n q²). The products are float64 too, so that the first is positive semidefinite to that
        precision, whatever the precision of the kernel's values.
        """
        xp = array_namespace(Y)

        def compute(start: int, stop: int) -> tuple[Array, ...]:
            K = xp.astype(self.values(start, stop), xp.float64, copy=False)
            right = xp.astype(Y[start:stop, :], xp.float64, copy=False)
            if weights is None:
                return K.T @ K, K.T @ right
            s = xp.sqrt(xp.astype(weights[start:stop, :], xp.float64, copy=False))
            K = s * K
            return K.T @ K, K.T @ (s * right)

        gram, moment = self.sum_over_blocks(compute)
        return gram, moment

    @cached_property
    def core(self) -> Array:
        """Kernel among the centres (q, q), in float64."""
        xp = array_namespace(self.Z)
        Z = xp.astype(self.Z, xp.float64)
        V = Z if self.B is None else Z @ xp.astype(self.B, xp.float64).T
        return self.kernel._evaluate(V, V)

    def dense(self) -> Array:
        """Form the matrix (n, q)."""
        K = array_namespace(self.Z).empty(self.shape, **like(self.Z))

        def take(start: int, stop: int, part: Array) -> None:
            K[start:stop, :] = part  # in place: joining the parts would hold them twice

        self.over_blocks(self.values, take)
        return K


@dataclass(frozen=True, eq=False)
class KernelMatrix(LinearOperator):
    """The kernel among the rows of X, never stored: O(n² d) for each product."""

    kernel: Kernel
    X: Array  # (n, d)

    @property
    def n_samples(self) -> int:
        """Number of rows and columns."""
        return self.X.shape[0]

    def between(self, Z: Array, /) -> KernelOperator:
        """Kernel between `Z` (q, d) and the rows of X."""
        xp = array_namespace(Z)
        return KernelOperator(self.kernel, Rows(Z, xp.zeros_like(Z[:0, 0])), self.X)

    def _matmat(self, V: Array, /) -> Array:
        return self.between(self.X) @ V

    def dense(self, reference: Array, /) -> Array:  # noqa: ARG002
        """Form the matrix (n, n)."""
        return self.between(self.X).dense()


def _check_rows(V: Array, n: int) -> None:
    if V.ndim not in (1, 2) or V.shape[0] != n:
        msg = f"expected ({n},) or ({n}, t), got {tuple(V.shape)}"
        raise ValueError(msg)
