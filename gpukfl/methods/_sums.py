"""Sums over rows that least squares and the Lasso are solved from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from gpukfl._array import Array, array_namespace, clipped, double_like, epsilon

_ERROR_ROUNDING = 10.0  # of a quadratic form, in units of the precision and of its largest terms


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over some rows, in float64; they add and subtract."""

    gram: Array  # Phi' D Phi (T, T)
    moment: Array  # Phi' D Y (T, t)
    squares: Array  # Y' D Y (t,)
    total: Array  # D-weighted sum of Y (t,)
    weight: float  # N
    count: int  # rows

    @classmethod
    def of(cls, arrays: Sequence[Array], /) -> Self:
        """Make of `arrays`."""
        gram, moment, squares, total, weight, count = arrays
        return cls(gram, moment, squares, total, float(weight), int(count))

    @property
    def arrays(self) -> list[Array]:
        """All of them as arrays."""
        xp, on = array_namespace(self.gram), double_like(self.gram)
        numbers = [xp.asarray(float(x), **on) for x in (self.weight, self.count)]
        return [self.gram, self.moment, self.squares, self.total, *numbers]

    def __add__(self, other: Sums, /) -> Sums:
        return self._with(other, 1)

    def __sub__(self, other: Sums, /) -> Sums:
        return self._with(other, -1)

    def _with(self, other: Sums, sign: int) -> Sums:
        return Sums(
            self.gram + sign * other.gram,
            self.moment + sign * other.moment,
            self.squares + sign * other.squares,
            self.total + sign * other.total,
            self.weight + sign * other.weight,
            self.count + sign * other.count,
        )

    def squared_error(self, A: Array, /) -> Array:
        """Weighted squared errors (t,) that coefficients `A` (T, t) make on the rows."""
        xp = array_namespace(A)
        fitted = xp.sum(A * (self.gram @ A), axis=0)
        return clipped(self.squares - 2.0 * xp.sum(A * self.moment, axis=0) + fitted, low=0.0)

    @property
    def spread(self) -> float:
        """Weighted squares of the targets about their means."""
        xp = array_namespace(self.squares)
        return float(xp.sum(self.squares - self.total**2 / self.weight))

    def rounding(self, A: Array, /) -> Array:
        """Estimate the rounding (t,) of `squared_error`, in which large coefficients cancel."""
        xp = array_namespace(A)
        norms = xp.sqrt(xp.linalg.diagonal(self.gram))
        largest = xp.sqrt(self.squares) + xp.sum(xp.abs(A) * norms[:, None], axis=0)
        return _ERROR_ROUNDING * epsilon(A) * largest**2
