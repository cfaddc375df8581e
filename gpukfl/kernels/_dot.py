"""Kernels of the inner product."""

from __future__ import annotations

import numbers
from dataclasses import dataclass

from gpukfl.core._array import Array, array_namespace
from gpukfl.core._checks import check_number
from gpukfl.kernels._base import LengthscaleKernel, to_common_precision


@dataclass(frozen=True)
class Polynomial(LengthscaleKernel):
    r""":math:`k = (x^\top z / \ell^2 + c)^p`, with c the `offset` and p the `degree`."""

    degree: int = 3
    offset: float = 1.0
    bounded = False

    def __post_init__(self) -> None:
        super().__post_init__()
        degree: float = self.degree
        whole = int(degree) if isinstance(degree, float) and degree.is_integer() else degree
        check_number("degree", whole, kind=numbers.Integral, low=1)
        check_number("offset", self.offset, low=0)

    def _base(self, X: Array, Z: Array, /) -> Array:
        return X @ (Z.T / self.lengthscale**2) + self.offset

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        base = self._base(X, Z)
        return base if self.degree == 1 else base**self.degree

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:  # noqa: ARG002
        Q = P / self.lengthscale**2
        if self.degree > 1:
            Q = Q * self.degree * self._base(X, Z) ** (self.degree - 1)
        return Q @ Z, Q.T @ X

    def diagonal(self, X: Array, /) -> Array:
        """Values k(x, x)."""
        (X,) = to_common_precision(X)
        squares = array_namespace(X).sum(X * X, axis=1)
        return (squares / self.lengthscale**2 + self.offset) ** self.degree


@dataclass(frozen=True)
class Linear(Polynomial):
    r""":math:`k = x^\top z / \ell^2 + c`, with c the `offset`."""

    degree: int = 1
    offset: float = 0.0
