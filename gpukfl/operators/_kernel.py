"""A kernel between data and centres, by blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from gpukfl.core._array import Array, array_namespace, lies_in_parts
from gpukfl.core._lazy import OldName
from gpukfl.core._memory import available_memory
from gpukfl.kernels import Kernel
from gpukfl.operators._base import LinearOperator
from gpukfl.operators._maps import apply_map
from gpukfl.operators._rows import RowOperator
from gpukfl.partitioned._rows import Rows, keep_rows

_KEPT_SHARE = 0.25  # of the memory that may be used, for kernel values that are kept


@dataclass(frozen=True, eq=False)
class KernelOperator(RowOperator):
    r"""The matrix :math:`K_{ij} = k(B x_i, B z_j)` between n rows and q centres.

    Values are computed anew in every pass, unless `keep` is set and all of them fit in a quarter
    of the memory budget. Where rows lie in parts, `kept_in_parts` does what `keep` does elsewhere.

    Parameters
    ----------
    kernel : Kernel
        The function k.
    rows : Rows
        Data (n, d); may be longer than memory.
    Z : array, shape (q, d)
        Centres, beside ``rows.reference``.
    B : array, shape (k, d), or (d,) where it is diagonal, optional
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

    def __getstate__(self) -> dict[str, Any]:
        """Drop cached arrays that can be computed from the rest."""
        return super().__getstate__() | {"_kept": self._kept if lies_in_parts(self._kept) else {}}

    @cached_property
    def centers(self) -> Array:
        """Centres as the kernel sees them (q, k)."""
        return self.project(self.Z)

    @cached_property
    def _keeps(self) -> bool:
        return self.keep and self._fits()

    def _fits(self) -> bool:
        n, q = self.shape
        return 8 * n * q <= _KEPT_SHARE * available_memory(self.Z)

    def kept_in_parts(self) -> KernelOperator:
        """Return an operator that keeps the values of rows in parts; itself for other rows.

        Only where there is room for those of all parts: others may be on the same machine.
        """
        if not lies_in_parts(self.rows.source):
            return self
        bare = replace(self, keep=False)

        def part(start: int, stop: int) -> dict[tuple[int, int], Array]:
            found: dict[tuple[int, int], Array] = {}

            def take(first: int, last: int, K: Array) -> None:
                found[first, last] = K

            if bare._fits():
                bare.for_each_block(bare.values, take, rows=(start, stop))
            return found

        return replace(bare, _kept=keep_rows(self.rows.source, part))

    def evaluate_rows(self, rows: Rows, /) -> KernelOperator:
        """Return the kernel between other rows, in one place, and the same centres."""
        return KernelOperator(self.kernel, Rows(rows.whole(), rows.reference), self.Z, self.B)

    def with_rows(self, rows: Rows, /) -> KernelOperator:
        """Return the kernel between other rows and the same projected centres."""
        other = KernelOperator(self.kernel, rows, self.Z, self.B)
        vars(other)["centers"] = self.centers
        return other

    def project(self, X: Array, /) -> Array:
        """Map rows by B."""
        return X if self.B is None else apply_map(X, self.B)

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

    @cached_property
    def core(self) -> Array:
        """Kernel among the centres (q, q), in float64."""
        xp = array_namespace(self.Z)
        Z = xp.astype(self.Z, xp.float64)
        V = Z if self.B is None else apply_map(Z, xp.astype(self.B, xp.float64))
        return self.kernel._evaluate(V, V)

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return max(self.shape[1], self.Z.shape[1])

    def _prepare(self) -> None:
        self.centers  # noqa: B018

    at_rows = OldName("evaluate_rows")
    on = OldName("with_rows")


@dataclass(frozen=True, eq=False)
class KernelMatrix(LinearOperator):
    """The kernel among the rows of X, never stored: O(n² d) for each product."""

    kernel: Kernel
    X: Array  # (n, d)

    @property
    def n_samples(self) -> int:
        """Number of rows and columns."""
        return self.X.shape[0]

    def cross_operator(self, Z: Array, /) -> KernelOperator:
        """Kernel between `Z` (q, d) and the rows of X."""
        return KernelOperator(self.kernel, Rows(Z, Z[:0, 0]), self.X)

    def _matmat(self, V: Array, /) -> Array:
        return self.cross_operator(self.X) @ V

    def dense(self, reference: Array, /) -> Array:  # noqa: ARG002
        """Form the matrix (n, n)."""
        return self.cross_operator(self.X).dense()

    between = OldName("cross_operator")
