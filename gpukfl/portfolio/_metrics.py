"""Metrics by name, which weight a blend on request and score its models."""

from __future__ import annotations

import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from gpukfl.core._array import to_host
from gpukfl.core._checks import suggest
from gpukfl.core._warnings import warn
from gpukfl.estimators._samples import Samples
from gpukfl.inspection._metrics import (
    Measured,
    accuracy,
    area_of_targets,
    balanced_accuracy,
    brier,
    d2,
    influence_error,
    log_loss,
    mae,
    mean_loss,
    r2,
    rmse,
    roc_auc,
)
from gpukfl.losses import Loss
from gpukfl.portfolio._blend import STEPS, blend_weights
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss, all_indicators

# ---------------------------------------------------------------------------------- metrics

_BOOTSTRAPS = 50  # samples of the bootstrap
_MIN_SECONDS, _MIN_STEPS = 0.5, 10  # of the choice of weights, even if time is over
_REGRESSION, _CLASSES = "regression", "classification"
_TIE_SHARE = 0.01  # of the smooth loss, added to metrics with plateaus


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric of held-out predictions, by its name.

    Attributes
    ----------
    name : str
        Name in `METRICS`, or of a scikit-learn scorer.
    greater_is_better : bool
        Whether larger values are better. Scorers of errors are negative.
    task : str
        "regression", for predictions (n, t), or "classification", for probabilities (n, k).
    is_smooth : bool
        Whether small changes of predictions change it.
    measure : callable
        Value and influences (n,) for truth, predictions and weights.
    best : float
        Value of perfect predictions.
    has_influences : bool
        Whether `measure` returns influences.
    fast_evaluator : callable, optional
        For truth and weights, returns a function of predictions that is faster than `measure`.
    """

    name: str
    greater_is_better: bool
    task: str
    is_smooth: bool
    measure: Callable[[np.ndarray, np.ndarray, np.ndarray], Measured]
    best: float = 0.0
    has_influences: bool = True
    fast_evaluator: Callable[[np.ndarray, np.ndarray], Callable[[np.ndarray], float]] | None = None

    def value(self, truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, /) -> float:
        """Return the metric of predictions (n, t), or of probabilities (n, k) for indicators."""
        return self.measure(truth, predicted, weights)[0]

    def loss(self, value: float, /) -> float:
        """Return by how much a value is worse than the best."""
        return self.best - value if self.greater_is_better else value - self.best

    def evaluate(
        self,
        truth: np.ndarray,
        predicted: np.ndarray,
        weights: np.ndarray,
        groups: np.ndarray | None = None,
        /,
    ) -> tuple[float, float]:
        """Return the metric and its standard error, by rows or by whole groups (n,).

        The error is that of the infinitesimal jackknife, or of the bootstrap for other scorers. It
        is NaN for too few rows, and both are if the scorer refuses the predictions.
        """
        try:
            value, influences = self.measure(truth, predicted, weights)
        except ValueError:
            return np.nan, np.nan
        units = np.arange(len(truth))
        if groups is not None:
            units = np.unique(groups, return_inverse=True)[1].reshape(-1)
        count = int(units.max(initial=-1)) + 1
        if count < 2 or not np.isfinite(value):
            return value, np.nan
        if self.has_influences:
            return value, influence_error(influences, groups)
        rng, values = np.random.RandomState(0), []
        for _ in range(_BOOTSTRAPS):
            times = np.bincount(rng.randint(count, size=count), minlength=count)
            rows = np.repeat(np.arange(len(truth)), times[units])
            values.append(self.value_or_nan(truth[rows], predicted[rows], weights[rows]))
        known = np.array(values)[np.isfinite(values)]
        return value, float(np.std(known, ddof=1)) if len(known) > _BOOTSTRAPS // 2 else np.nan

    def value_or_nan(self, *given: np.ndarray) -> float:
        """Return the value, or NaN if the scorer refuses the rows."""
        try:
            return self.value(*given)
        except ValueError:
            return np.nan

    def evaluator(self, truth: np.ndarray, weights: np.ndarray, /) -> Callable[[np.ndarray], float]:
        """Return a function of predictions: the value, or NaN if the scorer refuses them."""
        if self.fast_evaluator is not None:
            return self.fast_evaluator(truth, weights)
        return lambda predicted: self.value_or_nan(truth, predicted, weights)

    def check(self, truth: np.ndarray, weights: np.ndarray, /) -> None:
        """Raise ValueError if the metric cannot judge such targets or weights.

        It is tried on constant predictions.
        """
        constant = np.broadcast_to(np.average(truth, axis=0, weights=weights), truth.shape)
        try:
            self.value(truth, constant, weights)
        except (AttributeError, TypeError, ValueError) as error:
            said = str(error).split("\n", 1)[0]
            msg = f"expected a metric for this target, got {self.name!r}: {said}"
            raise ValueError(msg) from error


METRICS: Mapping[str, Metric] = {
    one.name: one
    for one in (
        Metric("r2", True, _REGRESSION, True, r2, 1.0),
        Metric("rmse", False, _REGRESSION, True, rmse),
        Metric("mae", False, _REGRESSION, True, mae),
        Metric("log_loss", False, _CLASSES, True, log_loss),
        Metric("roc_auc", True, _CLASSES, False, roc_auc, 1.0, fast_evaluator=area_of_targets),
        Metric("accuracy", True, _CLASSES, False, accuracy, 1.0),
        Metric("balanced_accuracy", True, _CLASSES, False, balanced_accuracy, 1.0),
        Metric("brier", False, _CLASSES, True, brier),
    )
}
TITLES = {
    "r2": "R²",
    "d2": "D²",
    "rmse": "RMSE",
    "mae": "MAE",
    "log_loss": "log loss",
    "roc_auc": "ROC AUC",
    "balanced_accuracy": "balanced accuracy",
    "brier": "Brier score",
}  # of names that are not words


def usual_metrics(*, classes: bool) -> list[Metric]:
    """Return the metrics in `METRICS` of a task."""
    task = _CLASSES if classes else _REGRESSION
    return [one for one in METRICS.values() if one.task == task]


def loss_metrics(loss: Loss, /) -> list[Metric]:
    """Return the D² and the mean of a regression loss as metrics."""

    def measure_d2(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> Measured:
        return d2(truth, predicted, weights, loss)

    def measure_mean(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> Measured:
        return mean_loss(truth, predicted, weights, loss)

    return [
        Metric("d2", True, _REGRESSION, True, measure_d2, 1.0),
        Metric("mean_loss", False, _REGRESSION, True, measure_mean),
    ]


def find_metric(name: Any, /, *, classes: bool) -> Metric | None:
    """Return a metric by its name; None for "auto".

    Raises
    ------
    TypeError, ValueError
        If the name is no text, unknown, or that of a metric for the other task.
    """
    if isinstance(name, str) and name == "auto":
        return None
    own = ", ".join(one.name for one in usual_metrics(classes=classes))
    expected = (
        f"expected metric to be 'auto', one of {own}, or the name of a scikit-learn scorer for "
        f"a {_CLASSES if classes else _REGRESSION}"
    )
    if not isinstance(name, str):
        msg = f"{expected}, got {name!r}"
        raise TypeError(msg)
    known = {*METRICS, *get_scorer_names()}
    if name not in known:
        msg = f"{expected}, got {name!r}{suggest(name, ['auto', *sorted(known)])}"
        raise ValueError(msg)
    found = METRICS.get(name) or _make_scorer_metric(name)
    if (found.task == _CLASSES) != classes:
        msg = f"{expected}, got {name!r}, which is for a {found.task}"
        raise ValueError(msg)
    return found


def check_metric(metric: Metric | None, samples: Samples, n_classes: int, /) -> None:
    """Raise ValueError if a metric cannot judge the targets of samples, before any fit."""
    if metric is None:
        return
    truth = all_indicators(to_host(samples.Y).astype(np.float64), n_classes)
    weights = samples.weights
    metric.check(truth, np.ones(len(truth)) if weights is None else weights)


# ---------------------------------------------------------------------------------- scorers

# Scorers of scikit-learn take an estimator and rows: these estimators return the rows.


class _PredictedNumbers(RegressorMixin, BaseEstimator):
    """A regressor whose rows are its predictions."""

    def predict(self, X: np.ndarray) -> np.ndarray:
        return X


class _PredictedClasses(ClassifierMixin, BaseEstimator):
    """A classifier whose rows are its probabilities, for classes 0, 1, ..."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    @property
    def classes_(self) -> np.ndarray:
        return np.arange(self.n_classes)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return np.argmax(X, axis=1)

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return X


@functools.cache
def _make_scorer_metric(name: str) -> Metric:
    """Return the metric of a scorer; greater is better."""
    task = _REGRESSION if _takes_numbers(name) else _CLASSES
    measure = functools.partial(_measure_by_scorer, name, task)
    best = 0.0 if name.startswith("neg_") else 1.0
    return Metric(name, True, task, False, measure, best, has_influences=False)


def _takes_numbers(name: str) -> bool:
    """Whether a scorer takes real targets without an error or a warning."""
    truth = np.array([1.25, 2.5, 4.75, 3.5])
    with np.errstate(all="ignore"), _record_warnings() as caught:
        try:
            get_scorer(name)(_PredictedNumbers(), truth + 0.125, truth)
        except (AttributeError, TypeError, ValueError):
            return False
    return not caught


def _record_warnings() -> Any:
    return warnings.catch_warnings(record=True, action="always")


def _measure_by_scorer(
    name: str, task: str, truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray
) -> Measured:
    """Return the value of a scorer, without influences.

    Of two classes the second is positive. If a scorer takes no weights, and these are multiples of
    the smallest one, rows are repeated.
    """
    estimator: Any = _PredictedNumbers()
    if task == _CLASSES:
        estimator, truth = _PredictedClasses(truth.shape[1]), np.argmax(truth, axis=1)
    elif truth.shape[1] == 1:
        truth, predicted = truth[:, 0], predicted[:, 0]
    given = {"sample_weight": weights} if np.ptp(weights) else {}
    scorer = get_scorer(name)
    with np.errstate(all="ignore"), _record_warnings():
        try:
            return float(scorer(estimator, predicted, truth, **given)), np.zeros(0)
        except TypeError as error:
            if not given or "sample_weight" not in str(error):
                raise
        rows = np.repeat(np.arange(len(weights)), _count_copies(weights))
        return float(scorer(estimator, predicted[rows], truth[rows])), np.zeros(0)


def _count_copies(weights: np.ndarray) -> np.ndarray:
    """Return the copies of each row; the row with the smallest weight counts once."""
    exact = weights / weights[weights > 0].min()
    found = np.rint(exact)
    if np.abs(exact - found).max() > 1e-6 or found.sum() > 100 * len(weights):
        msg = "the scorer takes no sample weights, and these are not counts of rows"
        raise ValueError(msg)
    return found.astype(np.int64)


# ---------------------------------------------------------------------------------- weights


def metric_weights(
    metric: Metric,
    judge: HeldOutLoss,
    outputs: Sequence[np.ndarray],
    left: Callable[[], float | None],
    /,
) -> np.ndarray | None:
    """Return the weights of the blend with the best metric, as `blend_weights` does.

    A metric with plateaus is combined with a hundredth of the loss, each relative to that of the
    best constant predictions. Ties then go to the blend with the lower loss.

    Parameters
    ----------
    metric : Metric
        The metric.
    judge : HeldOutLoss
        Truth and weights.
    outputs : sequence of arrays, shape (n, t)
        Out-of-fold predictions, or positive probabilities, of each member.
    left : callable
        Seconds left, or None. With few there are fewer steps, but at least half a second of them.

    Returns
    -------
    array, shape (n_members,), or None
        None if the metric is not finite for any member, or there is no time for ten steps.
    """
    parts = list(outputs)
    if isinstance(judge, LogLoss):  # in column order, which is faster
        judge = replace(judge, truth=np.asfortranarray(judge.truth))
        parts = [np.log(np.asfortranarray(one)) for one in outputs]
    loss = _make_blend_loss(metric, judge)
    begun = time.perf_counter()
    tried = next((k for k, one in enumerate(parts, 1) if np.isfinite(loss(one))), 0)
    if not tried:
        warn(f"the metric {metric.name!r} is not finite for any model: the loss is used instead")
        return None
    each, there = (time.perf_counter() - begun) * len(parts) / tried, left()
    steps = STEPS if there is None else int(min(STEPS, max(there, _MIN_SECONDS) / each))
    if steps < _MIN_STEPS:
        warn(f"max_time leaves no time for the metric {metric.name!r}: the loss is used instead")
        return None
    return blend_weights(parts, loss, judge.n_effective, steps=steps)


def _make_blend_loss(metric: Metric, judge: HeldOutLoss) -> Callable[[np.ndarray], float]:
    """Return the loss of a mean of predictions, or of logarithms of probabilities."""
    truth, weights, spread = judge.truth, judge.weights, judge.spread
    constant = np.broadcast_to(np.average(truth, axis=0, weights=weights), truth.shape)
    of_constant = metric.loss(metric.value_or_nan(truth, constant, weights))
    unit = of_constant if np.isfinite(of_constant) and of_constant > 0 else 1.0
    share = 0.0 if metric.is_smooth or not spread else _TIE_SHARE * unit / spread
    value, of_classes = metric.evaluator(truth, weights), isinstance(judge, LogLoss)
    own = np.arange(len(truth)), truth.argmax(axis=1)

    def loss(mean: np.ndarray) -> float:
        predicted = _normalize(mean) if of_classes else mean
        found = metric.loss(value(predicted))
        if not share:
            return found
        if of_classes:  # the log loss, from the true classes alone
            with np.errstate(divide="ignore"):
                return found - share * float((weights * np.log(predicted[own])).sum())
        return found + share * float(judge.losses(predicted).sum())

    return loss


def _normalize(logs: np.ndarray) -> np.ndarray:
    """Return the probabilities (n, k) of logarithms up to a constant in each row."""
    found = logs - logs.max(axis=1, keepdims=True)
    np.exp(found, out=found)
    found /= found.sum(axis=1, keepdims=True)
    return found
