"""What a blend makes of the predictions of its members."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpukfl.core._array import Array, array_namespace, asarray_like
from gpukfl.prediction._transforms import TargetTransform


@dataclass(frozen=True, eq=False)
class Blending:
    """How predictions of models are joined.

    Attributes
    ----------
    classes : bool
        Whether they are probabilities.
    floor : float
        Least probability that is believed.
    temperature : float
        Of the blend of probabilities.
    reach : array, shape (2, t), optional
        Least and largest prediction that is believed.
    transform : TargetTransform, optional
        What members predict on another scale by.
    whole : bool
        Whether the last model of each member knows all samples, and others those of a fold.
    """

    classes: bool
    floor: float
    temperature: float
    reach: Array | None = None
    transform: TargetTransform | None = None
    whole: bool = False

    def shares(self, count: int, /) -> list[float]:
        """Shares of a member's models in its mean: equal ones, and half of it for a whole one."""
        if self.whole and count > 1:
            return [0.5 / (count - 1)] * (count - 1) + [0.5]
        return [1.0 / count] * count

    def mean(self, found: Sequence[Array], residuals: Array | None, /) -> Array:
        """Mean (n, t) of what a member's models predict, in the targets' own units."""
        within = [
            mixed(one, self.floor) if self.classes else bounded(one, self.reach) for one in found
        ]
        mean = functools.reduce(operator.add, map(operator.mul, self.shares(len(found)), within))
        if self.transform is None or residuals is None:
            return mean
        return self.transform.mean(mean, asarray_like(residuals, mean))

    def total(self, members: Iterable[tuple[float, Array]], /) -> Array:
        """Blend (n, t) of members with weights."""
        total = functools.reduce(operator.add, (weight * mean for weight, mean in members))
        return tempered(total, self.temperature) if self.classes else total


def mixed(probabilities: Array, floor: float, /) -> Array:
    """Probabilities (..., k) of which none is below `floor`."""
    xp = array_namespace(probabilities)
    raised = xp.clip(probabilities, min=floor)
    return raised / xp.sum(raised, axis=-1, keepdims=True)


def tempered(probabilities: Array, temperature: float, /) -> Array:
    """Return positive probabilities (n, k) at a temperature."""
    xp = array_namespace(probabilities)
    logs = xp.log(probabilities) / temperature
    powers = xp.exp(logs - xp.max(logs, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)


def bounded(found: Array, reach: Array | None, /) -> Array:
    """Predictions (..., t) no lower and no higher than they are believed; what overflowed stays."""
    if reach is None:
        return found
    xp = array_namespace(found)
    within = xp.minimum(xp.maximum(found, reach[0, :]), reach[1, :])
    return xp.where(xp.isfinite(found), within, found)
