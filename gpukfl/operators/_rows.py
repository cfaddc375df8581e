"""Matrices between the rows of data and something else, by blocks of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

from gpukfl.core._array import Array, array_namespace, as_columns, concat_rows, like
from gpukfl.linalg import each_block
from gpukfl.partitioned._rows import Rows, map_rows, reduce_rows

_GRAM_ROWS = 2  # rows to a column in a block, so that adding up (q, q) parts costs little

T = TypeVar("T")


class RowOperator(ABC):
    """A matrix between n rows of data and q columns of another kind, never stored.

    Known by its products, each in one pass over blocks of rows; sums over rows are accumulated in
    float64.
    """

    rows: Rows
    _by_columns: ClassVar[bool] = False  # how values lie in memory

    def __getstate__(self) -> dict[str, Any]:
        """Drop cached arrays, which may be large."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""

    @abstractmethod
    def values(self, start: int, stop: int, /) -> Array:
        """Block (stop - start, q) of the matrix."""

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return max(self.shape[1], self.rows.shape[1])

    def _prepare(self) -> None:  # noqa: B027
        """Compute what all blocks need, once and not in every thread."""

    def for_each_block(
        self,
        compute: Callable[[int, int], T],
        take: Callable[[int, int, T], None],
        /,
        *,
        rows: tuple[int, int] | None = None,
        fewest: int = 1,
    ) -> None:
        """Pass over rows: ``take(start, stop, compute(start, stop))``, in order.

        `rows` lie together; without them they are all, which must.
        """
        self._prepare()
        rows = (0, self.shape[0]) if rows is None else rows
        each_block(self.rows.reference, rows, self.width, compute, take, fewest=fewest)

    def sum_over_blocks(
        self,
        compute: Callable[[int, int], tuple[Array, ...]],
        /,
        *,
        fewest: int = 1,
        also: Callable[[int, int], Sequence[Array]] = lambda _start, _stop: (),
    ) -> list[Array]:
        """Sum the arrays that `compute` gives for each block, in float64.

        And those that `also` gives for all rows that lie together, in the same pass.
        """
        xp = array_namespace(self.rows.reference)

        def part(first: int, last: int) -> list[Array]:
            totals: list[Array] = []

            def take(_start: int, _stop: int, parts: tuple[Array, ...]) -> None:
                wide = [xp.astype(part, xp.float64, copy=False) for part in parts]
                totals[:] = [a + b for a, b in zip(totals, wide, strict=True)] if totals else wide

            self.for_each_block(compute, take, rows=(first, last), fewest=fewest)
            return [*totals, *also(first, last)]

        return reduce_rows(self.rows.source, part)

    def map_blocks(
        self, compute: Callable[[int, int], Array], /, *, columns: tuple[int, ...], dtype: object
    ) -> Array:
        """Join the rows that `compute` gives for each block, of so many columns."""

        def part(first: int, last: int) -> Array:
            parts: list[Array] = []
            self.for_each_block(
                compute, lambda _start, _stop, part: parts.append(part), rows=(first, last)
            )
            return concat_rows(parts)

        return map_rows(self.rows.source, part, columns=columns, dtype=dtype)

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
        columns, dtype = as_columns(V), V.dtype
        product = self.map_blocks(
            lambda start, stop: xp.astype(self.values(start, stop), dtype, copy=False) @ columns,
            columns=columns.shape[1:],
            dtype=dtype,
        )
        return array_namespace(product).reshape(product, (n, *V.shape[1:]))

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

    def moments(
        self,
        Y: Array,
        weights: Array | None = None,
        /,
        *,
        also: Callable[[int, int], Sequence[Array]] = lambda _start, _stop: (),
    ) -> list[Array]:
        r"""Compute :math:`K^\top D K` (q, q) and :math:`K^\top D Y` (q, t), float64: one pass.

        O(n q²). After them come the sums of `also`, as in `sum_over_blocks`. The products are
        float64 too, so that the first is positive semidefinite to that precision, whatever the
        precision of the kernel's values.
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

        fewest = _GRAM_ROWS * self.shape[1]
        return self.sum_over_blocks(compute, fewest=fewest, also=also)

    def dense(self) -> Array:
        """Form the matrix (n, q)."""
        reference, (n, q) = self.rows.reference, self.shape
        xp = array_namespace(reference)
        whole: list[Array] = []

        def take(start: int, stop: int, part: Array) -> None:
            if stop - start == n:  # as it lies: there is nothing to join
                whole.append(part)
                return
            if not whole:  # joining the parts would hold them twice
                by_columns, on = self._by_columns, like(reference)
                whole.append(xp.empty((q, n), **on).T if by_columns else xp.empty((n, q), **on))
            whole[0][start:stop, :] = part

        self.for_each_block(self.values, take)
        return whole[0] if whole else xp.empty((n, q), **like(reference))


def _check_rows(V: Array, n: int) -> None:
    if V.ndim not in (1, 2) or V.shape[0] != n:
        msg = f"expected ({n},) or ({n}, t), got {tuple(V.shape)}"
        raise ValueError(msg)
