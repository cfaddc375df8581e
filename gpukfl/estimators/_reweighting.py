"""Fits for other losses than the squared one, by repeated reweighted least squares of a method.

Each step computes weights and working targets, whose least-squares fit lowers the loss: by Fisher
scoring for deviances, by majorisation for others. Every method gets every loss in this way.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpukfl.core._array import asarray_like, to_host
from gpukfl.core._results import Status
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, relative_weights
from gpukfl.losses import Loss, Squared, make_loss
from gpukfl.predictor import Function, LogLink

LOSS = """    loss : str or Loss, default="squared"
        The loss, which determines what is predicted. "squared" predicts the mean, "absolute" the
        median, "quantile:0.9" a quantile, and "huber" a mean that is robust to outliers. "poisson"
        (counts), "gamma" (positive amounts) and "tweedie:1.5" (amounts with many zeros) predict the
        mean on a log scale. It may be a value of `gpukfl.losses`. Losses other than "squared" take
        about ten fits instead of one.
"""  # of every regressor

_MAX_FITS = 25  # reweighted fits
_TOL = 1e-3  # change of the values, in their standard deviations, at which the fits end
_GAIN = 1e-4  # least relative decrease of the loss by a step of majorisation
# Methods with random draws end after _PATIENCE fits without a change below _SHRINKAGE times the
# smallest, if the change is at most _NEAR_CHANGE
_SHRINKAGE, _PATIENCE, _NEAR_CHANGE = 0.9, 4, 0.05
_LEAST_SHARE = 0.1  # least share of a fit's change that is taken, when changes grow
_CHOICE_SHARE = 0.3  # share of the time after which the second fit keeps the first one's setting
_LOG_MARGIN = 0.7  # largest predicted log mean, beyond the log of the largest target
_LEAST_MEAN_SHARE = 0.1  # factor of the least predicted mean; see `least_means`

Fit = Callable[[Samples, Any], Any]  # takes samples, and another fit's result or None


def read_loss(estimator: Any, /) -> Loss | None:
    """Return the loss of a regressor; None for the squared loss."""
    found = make_loss(getattr(estimator, "loss", "squared"))
    return None if isinstance(found, Squared) else found


def check_not_in_parts(loss: Loss | None, /) -> None:
    """Raise ValueError for another loss than the squared one, for partitioned rows."""
    if loss is not None:
        msg = f"expected data in memory with loss={loss!r}, got partitioned data: use "
        raise ValueError(msg + "loss='squared'")


def make_log_link(Y: np.ndarray, weights: np.ndarray, /) -> LogLink:
    """Return the log link of means of targets (n, t), with limits from the targets."""
    least = least_means(Y, weights)
    high = np.log(np.maximum(Y.max(axis=0), least)) + _LOG_MARGIN
    return LogLink(np.log(least).tolist(), high.tolist())


def least_means(Y: np.ndarray, weights: np.ndarray, /) -> np.ndarray:
    """Return the least mean (t,) that is predicted of targets (n, t)."""
    middle = np.average(Y, axis=0, weights=weights)
    positive = np.where(Y > 0, Y, np.inf).min(axis=0)
    middle = np.where(middle > 0, middle, 1.0)  # a fold may hold zeros alone
    return _LEAST_MEAN_SHARE * np.minimum(middle / len(Y), positive)


@dataclass(eq=False)
class _Convergence:
    """The changes of successive fits, and whether they have converged.

    Attributes
    ----------
    least_gain : float
        Least relative decrease of the loss; 0 for Fisher scoring, which converges fast.
    change, loss : float
        Those of the last fit.
    closest : float
        The smallest change so far.
    since : int
        Fits since the smallest change clearly decreased.
    """

    least_gain: float
    change: float = math.inf
    loss: float = math.inf
    closest: float = math.inf
    since: int = 0

    def add(self, change: float, /) -> None:
        """Add the change of a fit."""
        self.change = change
        self.since = 0 if change < _SHRINKAGE * self.closest else self.since + 1
        self.closest = min(self.closest, change)

    def is_settled(self, loss: float, /) -> bool:
        """Whether the fits end: the change or the gain is small, or changes no longer shrink."""
        gain = abs(self.loss - loss) / max(abs(loss), 1e-300)
        if self.change <= _TOL or (gain <= self.least_gain and self.change <= _NEAR_CHANGE):
            return True
        return self.since >= _PATIENCE and self.change <= _NEAR_CHANGE


@dataclass(eq=False)
class Reweighting:
    """Reweighted fits of an estimator to samples, for one loss.

    Attributes
    ----------
    estimator : Learner
        The estimator that `fit` fits.
    loss : Loss
        The loss to minimise.
    samples : Samples
        Rows, targets and the user's weights.
    run : Run
        The time limit.
    fit : callable
        Fits the estimator by least squares; returns a start for similar fits.
    count : int
        Number of reweighted fits.
    status : Status
        How the fits ended.
    """

    estimator: Any
    loss: Loss
    samples: Samples
    run: Run
    fit: Fit
    count: int = 0
    status: Status = Status.MAX_ITER
    _messages: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        given, n = self.samples.weights, len(self.samples)
        self.Y = to_host(self.samples.Y).astype(np.float64)
        self.weights = np.ones(n) if given is None else given
        self.scale = self.loss.scale(self.Y, self.weights)
        is_log = self.loss.link == "log"
        self.link = make_log_link(self.Y, self.weights) if is_log else None

    def go(self, like: Any, /) -> Any:
        """Fit until the values converge, and return a start for similar fits.

        `like` is such a start, or None to choose the setting.
        """
        start = self._refit(*self._first_response(), like)
        F, best, kept = self._move_values(), math.inf, dict(vars(self.estimator))
        watch, share = _Convergence(_GAIN if self.link is None else 0.0), 1.0
        for step in range(_MAX_FITS):
            now = self._mean_loss(F)
            if step > self.loss.settled_from and watch.is_settled(now):
                self.status = Status.CONVERGED
                break
            watch.loss = now
            if now < best:
                best, kept = now, dict(vars(self.estimator))
            if self.run.is_over():
                self.status = Status.TIME_LIMIT
                break
            try:
                start = self._reweigh(F, step, like, start)
            except KeyboardInterrupt:
                self.status = Status.INTERRUPTED
                break
            new = self._move_values()
            before = watch.change
            watch.add(self._relative_change(F, new))
            if step > self.loss.settled_from and watch.change > before:
                share = max(0.5 * share, _LEAST_SHARE)
            F = F + share * (new - F)
            if self.estimator.status_ == Status.INTERRUPTED.name:
                self.status = Status.INTERRUPTED
                break
        self._finish(kept)
        return start

    def _first_response(self) -> tuple[np.ndarray, np.ndarray]:
        """Return targets (n, t) and weights (n,) of the first fit, which has no values yet."""
        if self.link is None:
            return self.Y, self.weights
        middle = np.average(self.Y, axis=0, weights=self.weights)
        near = 0.5 * (self.Y + np.where(middle > 0, middle, 1.0))
        return self._response(np.log(near), self.loss.settled_from)

    def _reweigh(self, F: np.ndarray, step: int, like: Any, start: Any) -> Any:
        """Fit with the weights and working targets at values F (n, t).

        The first such fit chooses a new setting, as outliers had full weight before. With a link it
        does not: its working targets contain F, which was fitted to the held-out rows too.
        """
        chooses = (
            like is None and step == 0 and self.link is None and not self.run.is_over(_CHOICE_SHARE)
        )
        self.count += 1
        return self._refit(*self._response(F, step), None if chooses else start)

    def _response(self, F: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return targets (n, t) and weights (n,) whose least-squares fit lowers the loss.

        A row has the largest weight of its targets. Those of smaller weight move less, so that the
        solution is that of separate weights.
        """
        slopes, own = map(np.asarray, self.loss.slopes_and_weights(self.Y, F, self.scale, step))
        relative = own / np.average(own, axis=0, weights=self.weights)
        most = relative.max(axis=1, keepdims=True)
        return F + slopes / own * (relative / most), self.weights * most[:, 0]

    def _refit(self, Z: np.ndarray, weights: np.ndarray, start: Any) -> Any:
        samples = replace(
            self.samples,
            Y=Z,
            weights=relative_weights(weights),
            given_weights=self.weights,
        )
        self.run.rewind()
        with collect_warnings() as self._messages:
            return self.fit(samples, start)

    def _move_values(self) -> np.ndarray:
        """Add the best constant to the estimator's function, set its link, and return its values.

        The constant is not penalised, so that predicted means sum to the targets.
        """
        e = self.estimator
        F = to_host(e.predictor_.outputs_by_blocks(self.samples.X, 0))
        if self.link is not None:
            low, high = map(np.asarray, (self.link.low, self.link.high))
            F = np.clip(F, low, high)
        shift = self.loss.best_shift(self.Y, F, self.weights, self.scale)
        values = _move_function(e.predictor_.values, shift, self.link)
        e.predictor_ = replace(e.predictor_, values=values)
        return F + shift

    def _mean_loss(self, F: np.ndarray) -> float:
        P = F if self.link is None else np.asarray(self.link(F))
        losses = np.asarray(self.loss.losses(self.Y, P, self.scale))
        unit = self.scale if self.link is None else np.ones(1)
        return float(np.average(np.mean(losses / unit, axis=1), weights=self.weights))

    def _relative_change(self, F: np.ndarray, new: np.ndarray) -> float:
        """Return the largest change of a target's values, in their standard deviations."""
        spread = np.sqrt(np.average((new - new.mean(axis=0)) ** 2, axis=0, weights=self.weights))
        size = np.sqrt(np.average((new - F) ** 2, axis=0, weights=self.weights))
        least = 1e-6 * (self.scale if self.link is None else 1.0)
        return float(np.max(size / np.maximum(spread, least)))

    def _finish(self, kept: dict[str, Any]) -> None:
        """Keep the best fit if the fits did not converge; set the status, and warn."""
        e = self.estimator
        if self.status is not Status.CONVERGED:
            vars(e).clear()
            vars(e).update(kept)
        e.n_reweightings_ = self.count
        for message in dict.fromkeys(self._messages):
            warn(message)
        if self.status is Status.CONVERGED:
            return
        e.status_ = self.status.name
        msg = f"{type(e).__name__} with loss={self.loss!r} after {self.count} reweighted fits: "
        why = self.status.value
        if self.status is Status.MAX_ITER:
            why = (
                "predictions still changed. The fit with the lowest loss is kept, and can be used. "
                "Compare its score with that of another method"
            )
        warn(msg + why, ConvergenceWarning)


def _move_function(values: Function, shift: np.ndarray, link: LogLink | None) -> Function:
    """Return a function and its bounds plus constants (t,), with a link."""
    parts: dict[str, Any] = {"intercept": values.intercept + asarray_like(shift, values.intercept)}
    bounds = getattr(values, "bounds", None)
    if bounds is not None:
        parts["bounds"] = bounds + asarray_like(shift, bounds)
    return dataclasses.replace(values, **parts, link=link)
