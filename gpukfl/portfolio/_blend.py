"""Weights and temperature of a blend, and the transform of the targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from scipy.optimize import minimize_scalar

from gpukfl.core._array import to_host
from gpukfl.core._warnings import collect_warnings
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._folds import LogLoss, split_folds, target_scale, to_host_samples
from gpukfl.predictor import (
    LogTransform,
    RankTransform,
    TargetTransform,
    skewness,
)

# ----------------------------------------------------------------------------------- blend

# Weights of a blend by greedy selection with replacement, drawn to equal ones.


STEPS = 50
# Chosen by cross-validation on training rows of 17 sets: greedy weights of few rows follow noise.
# Of more rows it fades as a prior does, which counts as so many rows
_EVENNESS = 0.1
_PRIOR_ROWS = 40.0
_TIE = 1e-12  # share of a loss by which rounding may part equals


def greedy_weights(
    predictions: Sequence[np.ndarray],
    loss: Callable[[np.ndarray], float],
    /,
    *,
    steps: int = STEPS,
    evenness: float = 0.0,
) -> np.ndarray:
    r"""Choose members greedily, with repetition, while the loss of the mean prediction falls.

    Parameters
    ----------
    predictions : sequence of arrays, shape (n, t)
        Of every member, for rows that it has not seen.
    loss : callable
        Of a mean of predictions, to be made small.
    steps : int
        Members that are chosen, with replacement.
    evenness : float
        What weights w of m members cost beside their loss: so many times the smallest loss of a
        member, times :math:`\|w - 1/m\|^2`. So a member that is far better than the others keeps
        all weight.

    Returns
    -------
    array, shape (n_members,)
        Weights, summing to 1: how often each member is among the first ones chosen, cut where the
        loss was lowest. Of members that are as good one is taken that is in already, or the first.

    Raises
    ------
    ValueError
        If there is no member, or none has a finite loss.

    Notes
    -----
    ``steps * n_members`` evaluations of the loss.

    References
    ----------
    .. [1] Caruana, Niculescu-Mizil, Crew and Ksikes, "Ensemble selection from libraries of
       models", ICML 2004, Sections 2.1 and 2.2.
    """
    counts = np.zeros(len(predictions), dtype=np.int64)
    best, lowest = None, np.inf
    total: np.ndarray | float = 0.0
    alone = [loss(one) for one in predictions]
    smallest = min((x for x in alone if np.isfinite(x)), default=0.0)
    for k in range(1, steps + 1):
        of_means = alone if k == 1 else [loss((total + one) / k) for one in predictions]
        losses = np.asarray(of_means)
        losses += evenness * abs(smallest) * _unevenness(counts, k)
        chosen = _best_member(losses, counts)
        if chosen is None:
            break
        total = total + predictions[chosen]
        counts[chosen] += 1
        if losses[chosen] < lowest * (1.0 - _TIE):
            best, lowest = counts.copy(), losses[chosen]
    if best is None:
        msg = "expected a member whose predictions have a finite loss, got none"
        raise ValueError(msg)
    return best / best.sum()


def blend_weights(
    predictions: Sequence[np.ndarray],
    loss: Callable[[np.ndarray], float],
    n: float,
    /,
    *,
    steps: int = STEPS,
) -> np.ndarray:
    """Return greedy weights, shrunk to equal ones, less so with many rows.

    Parameters
    ----------
    predictions, loss
        As of `greedy_weights`.
    n : float
        Rows; where they have weights, of so many of equal weight a mean is as certain.
    steps : int
        As of `greedy_weights`.

    Returns
    -------
    array, shape (n_members,)
        Weights, summing to 1; each is 0 or at least 0.02, one of 50 steps.

    Raises
    ------
    ValueError
        If there is no member, or none has a finite loss.
    """
    evenness = min(_EVENNESS, _PRIOR_ROWS / max(n, 1.0))
    return greedy_weights(predictions, loss, steps=steps, evenness=evenness)


def _unevenness(counts: np.ndarray, k: int) -> np.ndarray:
    """Return the squared distance from equal weights after each possible choice."""
    tried = (counts + np.eye(len(counts))) / k
    return np.sum((tried - 1.0 / len(counts)) ** 2, axis=1)


def _best_member(losses: np.ndarray, counts: np.ndarray) -> int | None:
    """Return the member of the smallest loss, preferring chosen ones."""
    finite = np.where(np.isfinite(losses), losses, np.inf)
    lowest = finite.min(initial=np.inf)
    if not np.isfinite(lowest):
        return None
    equal = finite <= lowest + _TIE * abs(lowest)
    return int(np.argmax(2 * equal + (equal & (counts > 0))))


# ----------------------------------------------------------------------------- temperature

# Probabilities :math:`p_k^{1/T} / \sum_l p_l^{1/T}` of a temperature T, by rows held out.
#
# A mean of models that have seen different rows is less sure than it may be, and members may be
# too sure; one number mends what is common to all rows, and leaves the order of the classes as it
# is.


_MOST = 4.0  # and one over it the least: so that no probability becomes 0 in float32
_SPREAD = 0.3  # expected of the temperature's logarithm, which few rows say little of


def choose_temperature(probabilities: np.ndarray, judge: LogLoss, /) -> float:
    """Choose the temperature of the lowest log loss.

    Parameters
    ----------
    probabilities : host array, shape (n, k)
        Positive, for the rows of the judge, by models that have not seen them.
    judge : LogLoss
        The truth, and weights.

    Returns
    -------
    float
        From 1/4 to 4; of few rows near 1, by a normal prior of its logarithm. O(n k) a trial.
    """
    part = judge.part(probabilities)

    def loss(log: float) -> float:
        return float(judge.row_losses(part / math.exp(log)).sum()) + 0.5 * (log / _SPREAD) ** 2

    most = math.log(_MOST)
    found = minimize_scalar(loss, bounds=(-most, most), method="bounded")
    return math.exp(found.x) if found.fun < loss(0.0) else 1.0


# ------------------------------------------------------------------------------ transforms

# Which other scale targets are fitted on.


TRANSFORMS = ("auto", "log", "rank", None)
_SKEWED = 1.0  # skewness from which another scale is tried
_QUANTILES = 51
_ROWS, _FEW_ROWS = 1_000, 250  # that a scale is chosen on, and where there is little time
_WORKS = 100  # first errors of few rows that there is time for: of more they take the cube of that
_TRIED_ON = 3  # folds
_GAIN = 0.02  # share of the error that another scale must save


KINDS: dict[str, type[TargetTransform]] = {"log": LogTransform, "rank": RankTransform}


def residual_quantiles(residuals: np.ndarray, weights: np.ndarray | None, /) -> np.ndarray:
    """Return quantiles (q, t) of weighted residuals (n, t), at midpoints of equal shares."""
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    if weights is None or not np.ptp(weights):
        return np.quantile(residuals, shares, axis=0)
    return np.quantile(residuals, shares, axis=0, weights=weights, method="inverted_cdf")


def choose_transform(asked: str | None, samples: Samples, run: Run, /) -> TargetTransform | None:
    """Return the transform of the targets; "auto" is chosen by quick fits."""
    if asked is None or samples.labels:
        return None
    kept = rows_with_weight(samples)
    Y, w = to_host(samples.Y).astype(np.float64)[kept], samples.weights
    w = None if w is None else w[kept]
    if asked != "auto":
        return KINDS[asked].fit(Y, w)
    if len(kept) < 2 * _TRIED_ON or np.abs(skewness(Y, w)).max() < _SKEWED:
        return None
    drawn = run.again().permutation(len(kept))

    def take_part(count: int) -> Samples:
        return to_host_samples(samples.take(kept[np.sort(drawn[:count])]))

    own_scale = cache(lambda n: _kernel_ridge_error(None, take_part(n)))
    wanted = min(_ROWS, len(kept))
    few = min(_FEW_ROWS, wanted)
    count = run.affordable(wanted, own_scale, times=_WORKS, few=few)
    part = take_part(count)
    best, lowest = None, (1.0 - _GAIN) * own_scale(count)
    for kind in KINDS.values():
        error = _kernel_ridge_error(
            kind.fit(to_host(part.Y).astype(np.float64), part.weights), part
        )
        if error < lowest:
            best, lowest = kind.fit(Y, w), error
    return best


def rows_with_weight(samples: Samples, /) -> np.ndarray:
    """Return the rows that have a weight."""
    w = samples.weights
    return np.arange(len(samples)) if w is None else np.flatnonzero(w)


def _kernel_ridge_error(transform: TargetTransform | None, samples: Samples) -> float:
    """Return the held-out error of a plain kernel ridge regression, in the targets' units."""
    scale = target_scale(to_host(samples.Y), samples.weights)
    found, truth, weights, precedent = [], [], [], None
    for fold in split_folds(samples, np.random.RandomState(0), _TRIED_ON):
        Y = to_host(fold.inside.Y)
        Y = Y if transform is None else transform.forward(Y)
        # Of the quick members it is the best: a weak one gains by ranks where the others lose
        model = KernelRidgeRegressor("manhattan_laplace", backend="numpy", random_state=0)
        with collect_warnings():  # what it warns of is not of a fit that stays
            precedent = model.fit_like(
                *(fold.inside.X, Y, fold.inside.weights, precedent),
                relations=fold.inside.relations,
            )
        found.append(to_host(model.predict(fold.outside.X)).reshape(len(fold.outside), -1))
        truth.append(to_host(fold.outside.Y))
        w = fold.outside.weights
        weights.append(np.ones(len(fold.outside)) if w is None else w)
    F, Y, w = np.concatenate(found), np.concatenate(truth), np.concatenate(weights)
    if transform is not None:
        F = to_host(transform.mean(F, residual_quantiles(transform.forward(Y) - F, w)))
    return float(w @ np.sum(((Y - F) / scale) ** 2, axis=1))
