"""Classes of scores: the same for every library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpukfl.core._array import Array, array_namespace


@dataclass(frozen=True)
class Classes:
    """What makes classes and probabilities of the values of a function.

    Two classes have one column: the second's.

    Attributes
    ----------
    count : int
        Number of classes.
    calibration : Calibration
        What makes probabilities of scores.
    signs : bool
        Whether targets are -1 and 1 instead of 0 and 1.
    """

    count: int
    calibration: Any
    signs: bool = False

    @property
    def neutral(self) -> float:
        """Score of the second of two classes where both are as likely."""
        return 0.0 if self.signs else 0.5

    def margins(self, found: Array, /) -> Array:
        """Scores (n,) of the second of two classes, less the neutral; (n, k) of more."""
        return found[:, 0] - self.neutral if self.count <= 2 else found

    def codes(self, margins: Array, /) -> Array:
        """Numbers (n,) of the classes whose scores are largest."""
        xp = array_namespace(margins)
        if self.count == 1:
            return xp.zeros_like(margins, dtype=xp.int64)
        if margins.ndim == 1:
            return xp.astype(margins > 0, xp.int64)
        return xp.argmax(margins, axis=1)

    def of_every_class(self, found: Array, /) -> Array:
        """Estimates (..., k) of the probabilities of every class, where these are at least two."""
        if self.count <= 2:
            other = 2.0 * self.neutral - found
            found = array_namespace(found).concat([other, found], axis=-1)
        return 0.5 + 0.5 * found if self.signs else found

    def log_proba(self, found: Array, /) -> Array:
        """Logarithms (..., k) of the probabilities."""
        if self.count == 1:
            return array_namespace(found).zeros_like(found)
        return self.calibration.log_proba(self.of_every_class(found))


def proba(raw: Array, count: int, /) -> Array:
    """Probabilities (..., k) of `count` raw scores, or of one score: the second of two classes.

    Arrays that only record what is done with them need not know how many columns they have.
    """
    xp = array_namespace(raw)
    if count == 1:
        raw = xp.concat([xp.zeros_like(raw), raw], axis=-1)
    powers = xp.exp(raw - xp.max(raw, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)
