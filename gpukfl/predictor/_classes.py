"""Classes and probabilities from scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

from gpukfl.core._annotations import Count
from gpukfl.core._array import Array, array_namespace


class Calibrated(Protocol):
    """A calibration of scores: see `gpukfl.estimators._calibration`."""

    def log_proba(self, scores: Array, /) -> Array:
        """Logarithms of the probabilities for scores (..., k)."""


@dataclass(frozen=True)
class Classes:
    """The map from scores to classes and probabilities.

    With two classes, scores have one column, for the second class.

    Attributes
    ----------
    count : int
        Number of classes.
    calibration : Calibration
        Converts scores to probabilities.
    signs : bool
        Whether the fit coded classes as -1 and 1 instead of 0 and 1.
    """

    count: Annotated[int, Count()]
    calibration: Calibrated
    signs: bool = False

    @property
    def neutral(self) -> float:
        """The score at which two classes are equally probable."""
        return 0.0 if self.signs else 0.5

    def margins(self, found: Array, /) -> Array:
        """Return scores (n, k); with two classes, scores (n,) minus the neutral score."""
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
        """Return the scores (..., k) of all classes on the scale of 0 and 1."""
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
    """Return probabilities (..., k) from `count` columns of raw scores.

    One column is the score of the second of two classes. `count` is an argument because arrays that
    record operations may not know it.
    """
    xp = array_namespace(raw)
    if count == 1:
        raw = xp.concat([xp.zeros_like(raw), raw], axis=-1)
    return softmax(raw)


def softmax(logs: Array, /) -> Array:
    """Return probabilities (..., k) from their logarithms, known up to a constant per row."""
    xp = array_namespace(logs)
    powers = xp.exp(logs - xp.max(logs, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)
