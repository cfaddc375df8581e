"""Exponentials of powers of p-norms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpukfl.core._array import Array, array_namespace, like
from gpukfl.core._checks import check_number
from gpukfl.kernels._base import (
    LengthscaleKernel,
    are_coincident,
    divide_by_lengthscale,
    smallest_normal,
    to_common_precision,
)
from gpukfl.linalg import decay, distances, drop_negligible, power_sums


@dataclass(frozen=True)
class PowerExponential(LengthscaleKernel):
    r""":math:`k = e^{-r^q}` with :math:`r = \|x - z\|_p / \ell`, p the `order`, q the `exponent`.

    Positive definite for every :math:`0 < q \le p \le 2`, which is all that is taken:
    :math:`\|x - z\|_p^p` is conditionally negative definite for p up to 2, and so are its powers
    up to 1 (Schoenberg). p = 2, q = 1 is `Laplace`, p = q = 1 `ManhattanLaplace`, and p = q = 2
    the Gaussian. For p other than 2 rotations of the points change the kernel.

    Derivatives are 0 where points coincide, and leave out coordinates that are equal. For p < 1
    they have no bound near such.
    """

    order: float = 2.0
    exponent: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("order", self.order, low=0, high=2, low_allowed=False)
        check_number("exponent", self.exponent, low=0, high=self.order, low_allowed=False)

    @property
    def norm(self) -> str | float:  # type: ignore[override]
        """The p-norm in which typical distances are measured."""
        if self.order == 1:
            return "manhattan"
        return "euclidean" if self.order == 2 else self.order

    @property
    def factorises(self) -> bool:  # type: ignore[override]
        """Whether the exponent is the order: then differences of columns add up."""
        return self.exponent == self.order

    @property
    def power(self) -> float:
        """The power of the differences that `profile` sums: the order."""
        return self.order

    def profile(self, s: Array, /) -> Array:
        """Value at sums of powers of scaled differences."""
        return decay(s ** (self.exponent / self.order))

    def profile_at_distance(self, r: Array, /) -> Array:
        """Value at scaled distances."""
        return decay(r if self.exponent == 1 else r**self.exponent)

    def _scaled_distances(self, X: Array, Z: Array, /) -> Array:
        return divide_by_lengthscale(distances(X, Z, norm=self.norm), self.lengthscale)

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return drop_negligible(self.profile_at_distance(self._scaled_distances(X, Z)))

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:
        width = self._width(X)
        Q = P * self._slopes(X, Z, K) / width
        X, Z = X / width, Z / width
        return self._sums(Q, X, Z), self._sums(Q.T, Z, X)

    def _gradients(self, X: Array, Z: Array, A: Array, K: Array | None, /) -> Iterator[Array]:
        slopes, width = self._slopes(X, Z, K), self._width(X)
        X, Z = X / width, Z / width
        for c in range(A.shape[1]):
            yield self._sums(A[:, c] * slopes / width, X, Z)

    def _width(self, X: Array, /) -> float:
        """Return the lengthscale, or a larger one that avoids overflow."""
        return max(self.lengthscale, smallest_normal(X) ** 0.5)

    def _slopes(self, X: Array, Z: Array, K: Array | None, /) -> Array:
        """Differentiate by the sums of powers: (n, q), with 0 where points coincide."""
        xp = array_namespace(X, Z)
        r = self._scaled_distances(X, Z)
        power = r**self.exponent
        K = decay(power) if K is None else K
        # Rounding of each coordinate adds up to more in a norm of lower order
        longer = X.shape[1] ** (1.0 / self.order - 0.5)
        same = are_coincident(X, Z, self.lengthscale / longer * r)
        size = xp.where(same, xp.ones_like(r), r)
        # By |x - z|_p^p / p, whose gradient are the powers of the differences
        slopes = -self.exponent * power * K / size**self.order
        return xp.where(same, xp.zeros_like(r), slopes)

    def _sums(self, Q: Array, X: Array, Z: Array) -> Array:
        if self.order != 2:
            return power_sums(Q, X, Z, order=self.order)
        xp = array_namespace(Q, X, Z)
        middle = xp.mean(Z, axis=0)
        return xp.sum(Q, axis=1)[:, None] * (X - middle) - Q @ (Z - middle)

    def diagonal(self, X: Array, /) -> Array:
        """Values at distance 0."""
        (X,) = to_common_precision(X)
        return array_namespace(X).ones(X.shape[0], **like(X))
