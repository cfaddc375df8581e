"""Kernels of the Euclidean distance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from gpukfl.core._array import Array, array_namespace, like
from gpukfl.kernels._base import (
    LengthscaleKernel,
    are_coincident,
    check_positive_number,
    divide_by_lengthscale,
    is_lengthscale_tiny,
    smallest_normal,
    to_common_precision,
)
from gpukfl.linalg import decay, distances, drop_negligible, squared_distances


@dataclass(frozen=True)
class Radial(LengthscaleKernel):
    r"""A function of the scaled squared distance :math:`s = \|x - z\|^2 / \ell^2`.

    A new kernel gives `profile` and its `derivative`, both in s.

    Notes
    -----
    The profiles h that are differentiable at 0, all but that of `Laplace`, take s from one matrix
    product, `squared_distances`, whose rounding does not shrink with s. The error of a value is
    up to about :math:`\max|h'|\,(8 + \sqrt d)\,\epsilon R^2/\ell^2`, where R is the longer of the
    distances of x and z from the mean of the second set of points, :math:`\epsilon` of their
    precision, and :math:`\max|h'|` 1/2 for the Gaussian. So values between ordinary points are
    wrong where one far off moves that mean, and where the lengthscale is not well above
    :math:`\sqrt\epsilon` times the extent of the points: in float32, 100 normal ones and one at
    1e5 are off by 0.08. Equal points may have a value below `diagonal`. What helps is float64, to
    move or leave out such points, or a kernel of differences, which are exact: `Laplace`,
    `Manhattan` and `PowerExponential`, of which the one of order and exponent 2 is the Gaussian.
    """

    power: ClassVar[int] = 2  # of the differences that s adds up
    smooth: ClassVar[bool] = True  # differentiable in s at 0; else distances need more digits

    @abstractmethod
    def profile(self, s: Array, /) -> Array:
        """Value at scaled squared distances `s`."""

    @abstractmethod
    def derivative(self, s: Array, /) -> Array:
        """Differentiate `profile`; 0 where it is infinite."""

    def derivative_from(self, s: Array, K: Array, /) -> Array:  # noqa: ARG002
        """Differentiate `profile` at `s`, where it is `K`."""
        return self.derivative(s)

    def _scaled_squares(self, X: Array, Z: Array, /) -> Array:
        if is_lengthscale_tiny(self.lengthscale, X):
            return divide_by_lengthscale(distances(X, Z), self.lengthscale) ** 2
        if self.lengthscale != 1.0:  # as where a map scales the rows
            X, Z = X / self.lengthscale, Z / self.lengthscale
        return squared_distances(X, Z) if self.smooth else distances(X, Z) ** 2

    def _evaluate(self, X: Array, Z: Array, /) -> Array:
        return drop_negligible(self.profile(self._scaled_squares(X, Z)))

    def _slopes(self, X: Array, Z: Array, K: Array | None, /) -> Array:  # noqa: ARG002
        s = self._scaled_squares(X, Z)
        slopes = self.derivative(s)
        if self.smooth:
            return slopes
        xp = array_namespace(s)
        same = are_coincident(X, Z, self.lengthscale * xp.sqrt(s))
        return xp.where(same, xp.zeros_like(s), slopes)

    def _scale(self, X: Array, /) -> float:
        """Return the derivative of s by half the squared distance, bounded to avoid overflow."""
        return 2.0 / max(self.lengthscale**2, smallest_normal(X))

    def _pullback(self, X: Array, Z: Array, P: Array, K: Array | None, /) -> tuple[Array, Array]:
        # d/dx_i of sum_j Q_ij |x_i - z_j|^2, with Q = P times the slopes
        xp = array_namespace(X, Z, P)
        Q = P * self._slopes(X, Z, K)
        middle = xp.mean(Z, axis=0)
        X, Z = X - middle, Z - middle
        scale = self._scale(X)
        dX = scale * (xp.sum(Q, axis=1)[:, None] * X - Q @ Z)
        dZ = scale * (xp.sum(Q, axis=0)[:, None] * Z - Q.T @ X)
        return dX, dZ

    def _gradients(self, X: Array, Z: Array, A: Array, K: Array | None, /) -> Iterator[Array]:
        xp, slopes = array_namespace(X, Z), self._slopes(X, Z, K)
        middle = xp.mean(Z, axis=0)
        X, Z = X - middle, Z - middle
        scale = self._scale(X)
        for c in range(A.shape[1]):
            Q = A[:, c] * slopes
            yield scale * (xp.sum(Q, axis=1)[:, None] * X - Q @ Z)

    def diagonal(self, X: Array, /) -> Array:
        """Values at distance 0."""
        (X,) = to_common_precision(X)
        return self.profile(array_namespace(X).zeros(X.shape[0], **like(X)))


@dataclass(frozen=True)
class Gaussian(Radial):
    r""":math:`k = e^{-s/2}`, a product of one-dimensional Gaussians."""

    factorises = True

    def profile(self, s: Array, /) -> Array:
        """Value at scaled squared distances `s`."""
        return decay(s, rate=0.5)

    def derivative(self, s: Array, /) -> Array:
        """Differentiate `profile`."""
        return -0.5 * self.profile(s)

    def derivative_from(self, s: Array, K: Array, /) -> Array:  # noqa: ARG002
        """Differentiate `profile` at `s`, where it is `K`."""
        return -0.5 * K

    def _slopes(self, X: Array, Z: Array, K: Array | None, /) -> Array:
        return -0.5 * (self._evaluate(X, Z) if K is None else K)


@dataclass(frozen=True)
class Laplace(Radial):
    r""":math:`k = e^{-\sqrt{s}}`."""

    smooth: ClassVar[bool] = False

    def profile(self, s: Array, /) -> Array:
        """Value at scaled squared distances `s`."""
        return decay(s, root=True)

    def derivative(self, s: Array, /) -> Array:
        """Differentiate `profile`; 0 at s = 0."""
        xp = array_namespace(s)
        zero = s <= 0
        root = xp.sqrt(xp.where(zero, xp.ones_like(s), s))
        return xp.where(zero, xp.zeros_like(s), decay(root, (-0.5,)) / root)


@dataclass(frozen=True)
class Matern32(Radial):
    r""":math:`k = (1 + \sqrt{3s})\, e^{-\sqrt{3s}}`."""

    def profile(self, s: Array, /) -> Array:
        """Value at scaled squared distances `s`."""
        return decay(s, (1.0, 1.0), rate=3.0, root=True)

    def derivative(self, s: Array, /) -> Array:
        """Differentiate `profile`."""
        return decay(s, (-1.5,), rate=3.0, root=True)


@dataclass(frozen=True)
class Matern52(Radial):
    r""":math:`k = (1 + \sqrt{5s} + 5s/3)\, e^{-\sqrt{5s}}`."""

    def profile(self, s: Array, /) -> Array:
        """Value at scaled squared distances `s`."""
        return decay(s, (1.0, 1.0, 1.0 / 3.0), rate=5.0, root=True)

    def derivative(self, s: Array, /) -> Array:
        """Differentiate `profile`."""
        return decay(s, (-5.0 / 6.0, -5.0 / 6.0), rate=5.0, root=True)


@dataclass(frozen=True)
class RationalQuadratic(Radial):
    r""":math:`k = (1 + s / 2a)^{-a}`, with a the `mixture`: a mixture of Gaussian kernels."""

    mixture: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive_number("mixture", self.mixture)

    def profile(self, s: Array, /) -> Array:
        """Value at scaled squared distances `s`."""
        return (1.0 + s / (2.0 * self.mixture)) ** (-self.mixture)

    def derivative(self, s: Array, /) -> Array:
        """Differentiate `profile`."""
        return -0.5 * (1.0 + s / (2.0 * self.mixture)) ** (-self.mixture - 1.0)


@dataclass(frozen=True)
class InverseMultiquadric(Radial):
    r""":math:`k = (1 + s)^{-1/2}`."""

    def profile(self, s: Array, /) -> Array:
        """Value at scaled squared distances `s`."""
        return (1.0 + s) ** -0.5

    def derivative(self, s: Array, /) -> Array:
        """Differentiate `profile`."""
        return -0.5 * (1.0 + s) ** -1.5
