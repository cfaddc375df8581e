"""Losses of predictions z at targets y, elementwise on arrays of any library."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from gpukfl._array import Array, array_namespace, clipped


class Loss(ABC):
    """A convex loss with a continuous derivative, as a frozen value."""

    for_labels: ClassVar[bool]  # y must be -1 or 1
    unit: ClassVar[float]  # times the loss is at least 1 where y is -1 or 1 and yz is at most 0

    @property
    def knots(self) -> tuple[tuple[float, float], ...]:
        """Ascending values z between which the derivative at y = 1 is nearly a line, and it there.

        Two at least, beyond the first and last of which it hardly changes. An optimal step is
        looked for from the best one for these lines: they cost time, and change no result. Here
        those of the logistic loss.
        """
        return tuple((z, -1.0 / (1.0 + math.exp(z))) for z in (-5.0, -2.0, 0.0, 2.0, 5.0))

    @abstractmethod
    def value(self, z: Array, y: Array, /) -> Array:
        """Losses of the predictions `z` at the targets `y` of the same shape: like `z`."""

    @abstractmethod
    def derivative(self, z: Array, y: Array, /) -> Array:
        """Differentiate the losses in `z`: like `z`."""

    @abstractmethod
    def second(self, z: Array, y: Array, /) -> Array:
        """Differentiate the losses in `z` twice: like `z`."""

    @abstractmethod
    def lipschitz(self, radius: float, largest_y: float = 1.0) -> float:
        """Largest slope ρ where z is at most `radius` and y at most `largest_y` in size."""

    @abstractmethod
    def largest(self, radius: float, largest_y: float = 1.0) -> float:
        """Largest value M where z is at most `radius` and y at most `largest_y` in size."""


@dataclass(frozen=True)
class Squared(Loss):
    r""":math:`\frac12 (z - y)^2`, Section 5.3 of hal-04236058; half the loss of its eq. (73)."""

    for_labels: ClassVar[bool] = False
    unit: ClassVar[float] = 2.0

    def value(self, z: Array, y: Array, /) -> Array:
        """Half the squared errors."""
        return 0.5 * (z - y) * (z - y)

    def derivative(self, z: Array, y: Array, /) -> Array:
        """Errors."""
        return z - y

    def second(self, z: Array, y: Array, /) -> Array:  # noqa: ARG002
        """Give 1."""
        return array_namespace(z).ones_like(z)

    def lipschitz(self, radius: float, largest_y: float = 1.0) -> float:
        """Largest error."""
        return radius + largest_y

    def largest(self, radius: float, largest_y: float = 1.0) -> float:
        """Half the square of the largest error."""
        return 0.5 * (radius + largest_y) * (radius + largest_y)


@dataclass(frozen=True)
class Logistic(Loss):
    r""":math:`\log(1 + e^{-yz})`."""

    for_labels: ClassVar[bool] = True
    unit: ClassVar[float] = 1.0 / math.log(2.0)

    def value(self, z: Array, y: Array, /) -> Array:
        """Losses, by an exponential that does not overflow."""
        xp = array_namespace(z, y)
        t = y * z
        return clipped(-t, low=0.0) + xp.log1p(xp.exp(-xp.abs(t)))

    def derivative(self, z: Array, y: Array, /) -> Array:
        """Minus y times the probability of the other label."""
        xp = array_namespace(z, y)
        t = y * z
        small = xp.exp(-xp.abs(t))
        return -y * xp.where(t > 0, small, xp.ones_like(t)) / (1.0 + small)

    def second(self, z: Array, y: Array, /) -> Array:
        """Multiply the probabilities of both labels with the square of y."""
        small = array_namespace(z, y).exp(-array_namespace(z, y).abs(y * z))
        return y * y * small / ((1.0 + small) * (1.0 + small))

    def lipschitz(self, radius: float, largest_y: float = 1.0) -> float:
        """Slope at the most negative yz."""
        return largest_y / (1.0 + math.exp(-radius * largest_y))

    def largest(self, radius: float, largest_y: float = 1.0) -> float:
        """Loss at the most negative yz."""
        return radius * largest_y + math.log1p(math.exp(-radius * largest_y))


@dataclass(frozen=True)
class Hinge(Loss):
    r""":math:`\max(0, 1 - yz)`, with a parabola over the kink where yz is within s/2 of 1.

    The parabola :math:`(1 + s/2 - yz)^2 / 2s` lies above the hinge and meets it with its slope at
    both ends. The loss is therefore at least the hinge loss, at most s/8 more, and 1 at z = 0,
    so that it is at least the 0-1 loss as it stands.

    Parameters
    ----------
    smoothing : float
        s, the width of the parabola, above 0 and at most 1.

    Raises
    ------
    ValueError
        If `smoothing` is out of its range.
    """

    smoothing: float = 0.5
    for_labels: ClassVar[bool] = True
    unit: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.smoothing <= 1.0:
            msg = f"expected a smoothing above 0 and at most 1, got {self.smoothing}"
            raise ValueError(msg)

    @property
    def knots(self) -> tuple[tuple[float, float], ...]:
        """Ends of the parabola, between which the derivative is a line."""
        return (1.0 - 0.5 * self.smoothing, -1.0), (1.0 + 0.5 * self.smoothing, 0.0)

    def _missing(self, z: Array, y: Array) -> Array:
        """Give what yz lacks for a loss of 0."""
        return (1.0 + 0.5 * self.smoothing) - y * z

    def value(self, z: Array, y: Array, /) -> Array:
        """Parabola up to a gap of s, and the line after it."""
        missing = self._missing(z, y)
        curved = clipped(missing, low=0.0, high=self.smoothing)
        straight = clipped(missing - self.smoothing, low=0.0)
        return curved * curved / (2.0 * self.smoothing) + straight

    def derivative(self, z: Array, y: Array, /) -> Array:
        """Minus y, times a share that falls to 0 over the parabola."""
        share = self._missing(z, y) / self.smoothing
        return -y * clipped(share, low=0.0, high=1.0)

    def second(self, z: Array, y: Array, /) -> Array:
        """Give the curvature of the parabola, and 0 elsewhere."""
        xp = array_namespace(z, y)
        missing = self._missing(z, y)
        inside = (missing > 0) & (missing < self.smoothing)
        return y * y * xp.astype(inside, z.dtype) / self.smoothing

    def lipschitz(self, radius: float, largest_y: float = 1.0) -> float:  # noqa: ARG002
        """Slope of the line."""
        return largest_y

    def largest(self, radius: float, largest_y: float = 1.0) -> float:
        """Loss at the most negative yz."""
        return 1.0 + radius * largest_y


LOSSES: dict[str, Loss] = {"squared": Squared(), "logistic": Logistic(), "hinge": Hinge()}
