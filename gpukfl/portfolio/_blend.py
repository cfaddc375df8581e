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

# --------------------------------------------------------------------------------- weights

STEPS = 50  # of the greedy selection
# Penalty of uneven weights, in units of the smallest loss of a member. Chosen by cross-validation
# on training rows of 17 data sets. With many rows it fades like a prior of 40 rows
_EVENNESS = 0.1
_PRIOR_ROWS = 40.0
_TIE = 1e-12  # relative difference of losses that may be rounding


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
        Held-out predictions of every member.
    loss : callable
        Loss of a mean of predictions.
    steps : int
        Number of choices.
    evenness : float
        Penalty :math:`\|w - 1/m\|^2` of the weights w of m members, in units of the smallest loss
        of a member. A member that is far better than the others keeps all weight.

    Returns
    -------
    array, shape (n_members,)
        Weights, summing to 1: how often each member was chosen up to the step with the lowest loss.
        Of equal members, one that was chosen before is preferred, then the first.

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
        losses = np.asarray(alone if k == 1 else [loss((total + one) / k) for one in predictions])
        losses += evenness * abs(smallest) * _unevenness(counts, k)
        chosen = _best_member(losses, counts)
        if chosen is None:
            break
        total = total + predictions[chosen]
        counts[chosen] += 1
        if losses[chosen] < lowest * (1.0 - _TIE):
            best, lowest = counts.copy(), losses[chosen]
    if best is None:
        msg = "expected a member of the blend whose predictions have a finite loss, got none"
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
    """Return greedy weights, shrunk towards equal ones, less so with many rows.

    Parameters
    ----------
    predictions, loss
        As for `greedy_weights`.
    n : float
        Number of rows; with weights, the effective number.
    steps : int
        As for `greedy_weights`.

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

# A temperature T turns probabilities into :math:`p_k^{1/T} / \sum_l p_l^{1/T}`. Means of models may
# not be confident enough, and members too confident. One number, chosen on held-out rows, corrects
# both without changing the order of the classes.

_MAX_TEMPERATURE = 4.0  # the lowest is 1 / 4: so that no probability becomes 0 in float32
_LOG_DEVIATION = 0.3  # standard deviation of the prior of the temperature's logarithm


def choose_temperature(probabilities: np.ndarray, judge: LogLoss, /) -> float:
    """Choose the temperature of the lowest log loss.

    Parameters
    ----------
    probabilities : host array, shape (n, k)
        Positive held-out probabilities for the rows of the judge.
    judge : LogLoss
        True classes and weights.

    Returns
    -------
    float
        From 1/4 to 4; near 1 for few rows, by a normal prior of its logarithm. O(n k) a trial.
    """
    part = judge.part(probabilities)

    def loss(log: float) -> float:
        prior = 0.5 * (log / _LOG_DEVIATION) ** 2
        return float(judge.row_losses(part / math.exp(log)).sum()) + prior

    most = math.log(_MAX_TEMPERATURE)
    found = minimize_scalar(loss, bounds=(-most, most), method="bounded")
    return math.exp(found.x) if found.fun < loss(0.0) else 1.0


# ------------------------------------------------------------------------------ transforms

TRANSFORMS = ("auto", "log", "rank", None)
_MIN_SKEWNESS = 1.0  # of a target, from which "auto" tries transforms
_QUANTILES = 51
_ROWS, _FEW_ROWS = 1_000, 250  # of the fits that choose a transform, without and with little time
_AFFORDABLE_FITS = 100  # quick fits for which the time left must suffice
_TRIAL_FOLDS = 3
_MIN_GAIN = 0.02  # share of the error that a transform must save
_CLASSES: dict[str, type[TargetTransform]] = {"log": LogTransform, "rank": RankTransform}


def residual_quantiles(residuals: np.ndarray, weights: np.ndarray | None, /) -> np.ndarray:
    """Return quantiles (q, t) of weighted residuals (n, t), at midpoints of equal shares."""
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    if weights is None or not np.ptp(weights):
        return np.quantile(residuals, shares, axis=0)
    return np.quantile(residuals, shares, axis=0, weights=weights, method="inverted_cdf")


def choose_transform(asked: str | None, samples: Samples, run: Run, /) -> TargetTransform | None:
    """Return the transform of the targets; quick fits choose that of "auto"."""
    if asked is None or samples.labels:
        return None
    kept, Y, w = weighted_targets(samples)
    if asked != "auto":
        return _CLASSES[asked].fit(Y, w)
    if len(kept) < 2 * _TRIAL_FOLDS or np.abs(skewness(Y, w)).max() < _MIN_SKEWNESS:
        return None
    drawn = run.again().permutation(len(kept))

    def take_part(count: int) -> Samples:
        return to_host_samples(samples.take(kept[np.sort(drawn[:count])]))

    plain_error = cache(lambda n: _kernel_ridge_error(None, take_part(n)))
    wanted = min(_ROWS, len(kept))
    few = min(_FEW_ROWS, wanted)
    count = run.affordable(wanted, plain_error, times=_AFFORDABLE_FITS, few=few)
    part = take_part(count)
    best, lowest = None, (1.0 - _MIN_GAIN) * plain_error(count)
    for kind in _CLASSES.values():
        error = _kernel_ridge_error(
            kind.fit(to_host(part.Y).astype(np.float64), part.weights), part
        )
        if error < lowest:
            best, lowest = kind.fit(Y, w), error
    return best


def weighted_targets(samples: Samples, /) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the numbers of the rows with a positive weight, their targets and weights."""
    Y, w = to_host(samples.Y).astype(np.float64), samples.weights
    if w is None:
        return np.arange(len(samples)), Y, None
    rows = np.flatnonzero(w)
    return rows, Y[rows], w[rows]


def _kernel_ridge_error(transform: TargetTransform | None, samples: Samples) -> float:
    """Return the held-out error of a plain kernel ridge regression, in the targets' units."""
    scale = target_scale(to_host(samples.Y), samples.weights)
    found, truth, weights, warm_start = [], [], [], None
    for fold in split_folds(samples, np.random.RandomState(0), _TRIAL_FOLDS):
        Y = to_host(fold.inside.Y)
        Y = Y if transform is None else transform.forward(Y)
        # The best of the quick members: weaker ones gain by ranks where the others lose
        model = KernelRidgeRegressor("manhattan_laplace", backend="numpy", random_state=0)
        with collect_warnings():  # this fit is not kept
            warm_start = model.fit_like(
                *(fold.inside.X, Y, fold.inside.weights, warm_start),
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
