"""The rule that combines the predictions of a blend's members."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from gpukfl.core._annotations import Doubles
from gpukfl.core._array import Array, array_namespace, asarray_like, is_host
from gpukfl.predictor._classes import softmax
from gpukfl.predictor._transforms import TargetTransform


@dataclass(frozen=True, eq=False)
class Blending:
    """The rule that combines predictions of models.

    Attributes
    ----------
    classes : bool
        Whether predictions are probabilities.
    floor : float
        Lower limit of a model's probabilities.
    temperature : float
        Temperature of the blended probabilities.
    reach : array, shape (2, t), optional
        Lower and upper limits of a model's predictions.
    transform : TargetTransform, optional
        Transform of the targets that members are fitted to.
    whole : bool
        Whether the last model of each member is fitted to all samples, in addition to the folds.
    log_odds : bool
        Whether log-odds of members are averaged. Probabilities of a member's models are averaged
        first.
    shift : array, shape (t,), optional
        Constant added to the blend, so that it is the quantile of held-out rows.
    """

    classes: bool
    floor: float
    temperature: float
    reach: Annotated[Array, Doubles(2, "t")] | None = None
    transform: TargetTransform | None = None
    whole: bool = False
    log_odds: bool = False
    shift: Annotated[Array, Doubles("t")] | None = None

    def shares(self, count: int, /) -> list[float]:
        """Return the weights of a member's `count` models; a model of all rows has half."""
        if self.whole and count > 1:
            return [0.5 / (count - 1)] * (count - 1) + [0.5]
        return [1.0 / count] * count

    def clip(self, found: Array, /) -> Array:
        """Return the clipped predictions (..., t) of models."""
        if self.classes:
            return floor_probabilities(found, self.floor)
        return clip_predictions(found, self.reach)

    def total(
        self, shares: np.ndarray, weights: np.ndarray, found: Array, residuals: Array | None, /
    ) -> Array:
        """Blend predictions of models, in the units of the targets.

        Parameters
        ----------
        shares : host array, shape (p, m)
            Weight of each of m models in the mean of each of p members.
        weights : host array, shape (p,)
            Weights of the members.
        found : array, shape (m, n, t)
            Clipped predictions of the models.
        residuals : array, shape (p, q, 1, t), or None
            Quantiles of the members' residuals, if they predict transformed targets.

        Returns
        -------
        array, shape (n, t)
        """
        means = weigh_predictions(shares, found)
        if self.log_odds:
            return pool_probabilities(weights / self.temperature, means)
        if self.transform is not None and residuals is not None:
            means = _smear_means(self.transform, means, residuals)
        total = weigh_predictions(weights, means)
        if self.classes:
            return apply_temperature(total, self.temperature)
        return total if self.shift is None else total + self.shift


def weigh_predictions(weights: np.ndarray, found: Array, /) -> Array:
    """Return the weighted sums of predictions (m, n, t) by weights (..., m)."""
    m, _, t = found.shape
    if is_host(found):
        return (weights @ found.reshape(m, -1)).reshape(*weights.shape[:-1], -1, t)
    xp = array_namespace(found)
    if m is None or t is None:  # unknown sizes of arrays that record operations
        rows = np.atleast_2d(weights)
        parts = [xp.sum(xp.asarray(row[:, None, None]) * found, axis=0) for row in rows]
        return parts[0] if weights.ndim == 1 else xp.stack(parts, axis=0)
    flat = asarray_like(weights, found) @ xp.reshape(found, (m, -1))
    return xp.reshape(flat, (*weights.shape[:-1], -1, t))


def pool_probabilities(weights: np.ndarray, found: Array, /) -> Array:
    r"""Return the logarithmic pool (n, k) of probabilities (m, n, k).

    Parameters
    ----------
    weights : host array, shape (m,)
        Powers of the probabilities, divided by the temperature of the pool.
    found : array, shape (m, n, k)
        Positive probabilities.

    Returns
    -------
    array, shape (n, k)
        :math:`\prod_m p_m^{w_m}` over its sum. If weights sum to 1, this averages log-odds [1]_.

    References
    ----------
    .. [1] Genest and Zidek, "Combining probability distributions: a critique and an annotated
       bibliography", Statistical Science 1, 1986.
    """
    return softmax(weigh_predictions(weights, array_namespace(found).log(found)))


def _smear_means(transform: TargetTransform, means: Array, residuals: Array) -> Array:
    """Return the means (p, n, t) of `TargetTransform.mean`, for all quantiles at once."""
    xp = array_namespace(means)
    if None in means.shape[::2]:  # unknown sizes of arrays that record operations
        kept = range(residuals.shape[0])
        parts = [transform.mean(means[k, ...], residuals[k, :, 0, :]) for k in kept]
        return xp.stack(parts, axis=0)
    every = means[:, None, ...] + asarray_like(residuals, means)
    p, q, _, t = every.shape
    found = transform.inverse(xp.reshape(every, (-1, t)))
    return xp.mean(xp.reshape(found, (p, q, -1, t)), axis=1)


def stack_residuals(residuals: Sequence[Array], /) -> Array:
    """Stack the quantiles (q, t) of residuals of p members: (p, q, 1, t)."""
    return array_namespace(*residuals).stack(list(residuals), axis=0)[:, :, None, :]


def floor_probabilities(probabilities: Array, floor: float, /) -> Array:
    """Raise probabilities (..., k) to at least `floor`, and rescale them to sum 1."""
    xp = array_namespace(probabilities)
    raised = xp.clip(probabilities, min=floor)
    return raised / xp.sum(raised, axis=-1, keepdims=True)


def apply_temperature(probabilities: Array, temperature: float, /) -> Array:
    """Return probabilities (n, k) at a temperature."""
    return softmax(array_namespace(probabilities).log(probabilities) / temperature)


def clip_predictions(found: Array, reach: Array | None, /) -> Array:
    """Clip predictions (..., t) to their limits; overflowed ones stay."""
    if reach is None:
        return found
    xp = array_namespace(found)
    within = xp.minimum(xp.maximum(found, reach[0, :]), reach[1, :])
    return xp.where(xp.isfinite(found), within, found)
