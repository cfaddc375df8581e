"""Classes and probabilities from scores, for all libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from gpukfl.core._annotations import Count
from gpukfl.core._array import Array, array_namespace


class Calibrated(Protocol):
    """Probabilities from scores: see `gpukfl.estimators._calibration`."""

    def log_proba(self, scores: Array, /) -> Array:
        """Logarithms of the probabilities for scores (..., k)."""


@dataclass(frozen=True)
class Classes:
    """The map from a function's values to classes and probabilities.

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

    count: Annotated[int, Count()]
    calibration: Calibrated
    signs: bool = False

    @property
    def neutral(self) -> float:
        """The score of the second of two classes at equal probabilities."""
        return 0.0 if self.signs else 0.5

    def margins(self, found: Array, /) -> Array:
        """Return scores (n,) of the second of two classes minus the neutral one, or (n, k)."""
        return found[:, 0] - self.neutral if self.count <= 2 else found

    def codes(self, margins: Array, /) -> Array:
        """Return the codes (n,) of the classes with the largest scores."""
        xp = array_namespace(margins)
        if self.count == 1:
            return xp.zeros_like(margins, dtype=xp.int64)
        if margins.ndim == 1:
            return xp.astype(margins > 0, xp.int64)
        return xp.argmax(margins, axis=1)

    def all_probabilities(self, found: Array, /) -> Array:
        """Return the probabilities (..., k) of at least two classes."""
        if self.count <= 2:
            other = 2.0 * self.neutral - found
            found = array_namespace(found).concat([other, found], axis=-1)
        return 0.5 + 0.5 * found if self.signs else found

    def log_proba(self, found: Array, /) -> Array:
        """Return the logarithms (..., k) of the probabilities."""
        if self.count == 1:
            return array_namespace(found).zeros_like(found)
        return self.calibration.log_proba(self.all_probabilities(found))


def proba(raw: Array, count: int, /) -> Array:
    """Return probabilities (..., k) from `count` raw scores, or one of the second of two classes.

    Arrays that only record what is done with them need not know how many columns they have.
    """
    xp = array_namespace(raw)
    if count == 1:
        raw = xp.concat([xp.zeros_like(raw), raw], axis=-1)
    return softmax(raw)


def softmax(logs: Array, /) -> Array:
    """Return probabilities (..., k) by logarithms, each row up to a constant."""
    xp = array_namespace(logs)
    powers = xp.exp(logs - xp.max(logs, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)
