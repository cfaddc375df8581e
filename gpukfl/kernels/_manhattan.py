"""Kernels of the l1 distance."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gpukfl.core._array import Array, array_namespace, like
from gpukfl.kernels._base import (
    LengthscaleKernel,
    are_coincident,
    check_positive_number,
    divide_by_lengthscale,
    smallest_normal,
    to_common_precision,
)
from gpukfl.linalg import decay, distances, drop_negligible, sign_sums


@dataclass(frozen=True)
class Manhattan(LengthscaleKernel):
    r"""A completely monotone function of the scaled distance :math:`u = \|x - z\|_1 / \ell`.

    Evaluated coordinate by coordinate in O(n q d), without an (n, q, d) array. A new kernel gives
    `profile` and its `derivative`, both in u.
    """

    norm = "manhattan"
    power: ClassVar[int] = 1  # of the differences that u adds up

    @abstractmethod
    def profile(self, u: Array, /) -> Array:
        """Value at scaled distances `u`."""

    @abstractmethod
    def derivative(self, u: Array, /) -> Array:
        """Differentiate `profile`, from the right at 0."""

    def derivative_from(self, u: Array, K: Array, /) -> Array:  # noqa: ARG002
        """Differentiate `profile` at `u`, where it is `K`."""
        return self.derivative(u)

    def _scaled_distances(self, X: Array, Z: Array, /) -> Array:
        return divide_by_lengthscale(distances(X, Z, norm="manhattan"), self.lengthscale)

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return drop_negligible(self.profile(self._scaled_distances(X, Z)))

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:
        del K  # not every profile gives its distance back
        xp = array_namespace(X, Z, P)
        u = self._scaled_distances(X, Z)
        same = are_coincident(X, Z, self.lengthscale * u)
        width = max(self.lengthscale, smallest_normal(X))  # what the precision holds
        Q = xp.where(same, xp.zeros_like(P), P * self.derivative(u) / width)
        return sign_sums(Q, X, Z), sign_sums(Q.T, Z, X)

    def diagonal(self, X: Array, /) -> Array:
        """Values at distance 0."""
        (X,) = to_common_precision(X)
        xp = array_namespace(X)
        return self.profile(xp.zeros(X.shape[0], **like(X)))


@dataclass(frozen=True)
class ManhattanLaplace(Manhattan):
    r""":math:`k = e^{-u}`, a product of one-dimensional Laplace kernels."""

    factorises = True

    def profile(self, u: Array, /) -> Array:
        """Value at scaled distances `u`."""
        return decay(u)

    def derivative(self, u: Array, /) -> Array:
        """Differentiate `profile`."""
        return -self.profile(u)

    def derivative_from(self, u: Array, K: Array, /) -> Array:  # noqa: ARG002
        """Differentiate `profile` at `u`, where it is `K`."""
        return -K


@dataclass(frozen=True)
class InverseManhattan(Manhattan):
    r""":math:`k = (1 + u)^{-a}`, with a the `exponent`: a mixture of l1 Laplace kernels."""

    exponent: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive_number("exponent", self.exponent)

    def profile(self, u: Array, /) -> Array:
        """Value at scaled distances `u`."""
        return (1.0 + u) ** -self.exponent

    def derivative(self, u: Array, /) -> Array:
        """Differentiate `profile`."""
        return -self.exponent * (1.0 + u) ** (-self.exponent - 1.0)
