"""Sums, products and multiples of kernels."""

from __future__ import annotations

from dataclasses import dataclass

from gpukfl._array import Array
from gpukfl.kernels._base import Kernel, check_positive


@dataclass(frozen=True)
class _Pair(Kernel):
    first: Kernel
    second: Kernel

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether both are."""
        return self.first.bounded and self.second.bounded

    def stretched(self, factor: float, /) -> Kernel:
        """Stretch both."""
        return type(self)(self.first.stretched(factor), self.second.stretched(factor))


@dataclass(frozen=True)
class Sum(_Pair):
    """The sum of two kernels."""

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return self.first._evaluate(X, Z) + self.second._evaluate(X, Z)

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:  # noqa: ARG002
        dX, dZ = self.first._pullback(X, Z, P, None)
        more_X, more_Z = self.second._pullback(X, Z, P, None)
        return dX + more_X, dZ + more_Z

    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x)."""
        return self.first.diagonal(X) + self.second.diagonal(X)


@dataclass(frozen=True)
class Product(_Pair):
    """The product of two kernels."""

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return self.first._evaluate(X, Z) * self.second._evaluate(X, Z)

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:  # noqa: ARG002
        one, other = self.first._evaluate(X, Z), self.second._evaluate(X, Z)
        dX, dZ = self.first._pullback(X, Z, P * other, one)
        more_X, more_Z = self.second._pullback(X, Z, P * one, other)
        return dX + more_X, dZ + more_Z

    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x)."""
        return self.first.diagonal(X) * self.second.diagonal(X)


@dataclass(frozen=True)
class Scaled(Kernel):
    """A positive multiple of a kernel."""

    kernel: Kernel
    factor: float

    def __post_init__(self) -> None:
        check_positive("factor", self.factor)

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Whether the kernel is."""
        return self.kernel.bounded

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return self.factor * self.kernel._evaluate(X, Z)

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:
        return self.kernel._pullback(X, Z, self.factor * P, None if K is None else K / self.factor)

    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x)."""
        return self.factor * self.kernel.diagonal(X)

    def stretched(self, factor: float, /) -> Kernel:
        """Stretch the kernel."""
        return Scaled(self.kernel.stretched(factor), self.factor)
