"""The rule by which a blend joins the predictions of its members."""

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
    """The rule by which predictions of models are joined.

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
    log_odds : bool
        Whether members' probabilities are joined by their log-odds; those of a member are averaged.
    shift : array, shape (t,), optional
        What is added to the blend of values, such that it is a quantile of rows held out.
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
        """Return the shares of a member's models in its mean: half for a model of all rows."""
        if self.whole and count > 1:
            return [0.5 / (count - 1)] * (count - 1) + [0.5]
        return [1.0 / count] * count

    def clip(self, found: Array, /) -> Array:
        """Return the clipped predictions (..., t) of models."""
        return (
            floor_probabilities(found, self.floor)
            if self.classes
            else clip_predictions(found, self.reach)
        )

    def total(
        self, shares: np.ndarray, weights: np.ndarray, found: Array, residuals: Array | None, /
    ) -> Array:
        """Blend predictions of models, in the targets' own units.

        Parameters
        ----------
        shares : host array, shape (p, m)
            Of each of m models in the mean of each of p members.
        weights : host array, shape (p,)
            Of the members.
        found : array, shape (m, n, t)
            What models predict, within its bounds.
        residuals : array, shape (p, q, 1, t), or None
            Quantiles of the members' residuals, where they predict on another scale.

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
    if m is None or t is None:  # of arrays that are only described
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
        Powers of the probabilities; divided by a temperature, the pool is of that.
    found : array, shape (m, n, k)
        Positive.

    Returns
    -------
    array, shape (n, k)
        :math:`\prod_m p_m^{w_m}` over its sum: with weights of sum 1 the mean of log-odds [1]_.

    References
    ----------
    .. [1] Genest and Zidek, "Combining probability distributions: a critique and an annotated
       bibliography", Statistical Science 1, 1986.
    """
    return softmax(weigh_predictions(weights, array_namespace(found).log(found)))


def _smear_means(transform: TargetTransform, means: Array, residuals: Array) -> Array:
    """Return means (p, n, t) as `TargetTransform.mean`, by all quantiles at once."""
    xp = array_namespace(means)
    if None in means.shape[::2]:  # of arrays that are only described
        kept = range(residuals.shape[0])
        parts = [transform.mean(means[k, ...], residuals[k, :, 0, :]) for k in kept]
        return xp.stack(parts, axis=0)
    every = means[:, None, ...] + asarray_like(residuals, means)
    p, q, _, t = every.shape
    found = transform.inverse(xp.reshape(every, (-1, t)))
    return xp.mean(xp.reshape(found, (p, q, -1, t)), axis=1)


def stacked_residuals(residuals: Sequence[Array], /) -> Array:
    """Quantiles (p, q, 1, t) of the residuals (q, t) of members."""
    return array_namespace(*residuals).stack(list(residuals), axis=0)[:, :, None, :]


def floor_probabilities(probabilities: Array, floor: float, /) -> Array:
    """Return probabilities (..., k) of at least `floor`."""
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
