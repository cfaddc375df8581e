"""Fits by other losses than the squared one: least squares of a method, reweighted step by step.

A method fits weighted squared errors. Another loss is lowered by repeating that: each step gives
rows weights, and targets by which its least squares go down the loss (Fisher's scoring of
deviances, majorisation of the others). Every method has every loss so, in one place.
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

_MOST = 25  # reweighted fits
_TOL = 1e-3  # change of the values, in deviations of these, that ends them
_GAIN = 1e-4  # share of the loss that a step of majorisation must gain
_CLOSER, _TRIES, _NEAR = 0.9, 4, 0.05  # methods that draw may come no closer than a change
_LEAST_STEP = 0.1  # of what a fit would change
_SHARE = 0.3  # of the time, after which the second fit takes the setting of the first
_BEYOND = 0.7  # of a logarithm, that is predicted beyond the largest target
_RARE = 0.1  # of a mean of the targets over their number: the least mean that is predicted

Fit = Callable[[Samples, Any], Any]  # of samples, with the setting of another fit or None


def read_loss(estimator: Any, /) -> Loss | None:
    """Return the loss of a regressor; None where least squares alone fit it."""
    found = make_loss(getattr(estimator, "loss", "squared"))
    return None if isinstance(found, Squared) else found


def check_not_in_parts(loss: Loss | None, /) -> None:
    """Raise ValueError for another loss than the squared one, where rows lie in parts."""
    if loss is not None:
        msg = f"expected data in memory with loss={loss!r}, got partitioned data: use "
        raise ValueError(msg + "loss='squared'")


def make_log_link(Y: np.ndarray, weights: np.ndarray, /) -> LogLink:
    """Return the link of means of targets (n, t), with limits that the targets say."""
    least = least_means(Y, weights)
    high = np.log(np.maximum(Y.max(axis=0), least)) + _BEYOND
    return LogLink(np.log(least).tolist(), high.tolist())


def least_means(Y: np.ndarray, weights: np.ndarray, /) -> np.ndarray:
    """Return the least mean (t,) that is predicted of targets (n, t)."""
    middle = np.average(Y, axis=0, weights=weights)
    positive = np.where(Y > 0, Y, np.inf).min(axis=0)
    middle = np.where(middle > 0, middle, 1.0)  # a fold may hold zeros alone
    return _RARE * np.minimum(middle / len(Y), positive)


@dataclass(eq=False)
class _Watch:
    """How far the fits have changed, and whether they are settled.

    Attributes
    ----------
    least_gain : float
        Share of the loss that a fit must gain; 0 where steps become quick.
    change, loss : float
        Of the last fit.
    closest : float
        Smallest change so far.
    since : int
        Fits since it was clearly smaller than before.
    """

    least_gain: float
    change: float = math.inf
    loss: float = math.inf
    closest: float = math.inf
    since: int = 0

    def add(self, change: float, /) -> None:
        """Add the change of a fit."""
        self.change = change
        self.since = 0 if change < _CLOSER * self.closest else self.since + 1
        self.closest = min(self.closest, change)

    def is_settled(self, loss: float, /) -> bool:
        """Whether a fit of a loss ends: by its change, or as the method's fits come no closer."""
        gain = abs(self.loss - loss) / max(abs(loss), 1e-300)
        if self.change <= _TOL or (gain <= self.least_gain and self.change <= _NEAR):
            return True
        return self.since >= _TRIES and self.change <= _NEAR


@dataclass(eq=False)
class Reweighting:
    """Reweighted fits of an estimator to samples, for one loss.

    Attributes
    ----------
    estimator : Learner
        That `fit` fits, over and over.
    loss : Loss
        To be made small.
    samples : Samples
        Rows and targets; weights are those of the user.
    run : Run
        The time that there is.
    fit : callable
        Fits the estimator by least squares; returns from what similar fits may start.
    count : int
        Fits with weights so far.
    status : Status
        How they ended.
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
        """Fit until the values stay as they are, and return from what similar fits may start.

        `like` is that of a similar fit, or None to choose the setting.
        """
        start = self._refit(*self._first_response(), like)
        F, best, kept = self._move_values(), math.inf, dict(vars(self.estimator))
        watch, share = _Watch(_GAIN if self.link is None else 0.0), 1.0
        for step in range(_MOST):
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
            watch.add(self._change(F, new))
            if step > self.loss.settled_from and watch.change > before:
                share = max(0.5 * share, _LEAST_STEP)
            F = F + share * (new - F)
            if self.estimator.status_ == Status.INTERRUPTED.name:
                self.status = Status.INTERRUPTED
                break
        self._end(kept)
        return start

    def _first_response(self) -> tuple[np.ndarray, np.ndarray]:
        """Return targets (n, t) and weights (n,) of the first fit, which knows no values yet."""
        if self.link is None:
            return self.Y, self.weights
        middle = np.average(self.Y, axis=0, weights=self.weights)
        near = 0.5 * (self.Y + np.where(middle > 0, middle, 1.0))
        return self._response(np.log(near), self.loss.settled_from)

    def _reweigh(self, F: np.ndarray, step: int, like: Any, start: Any) -> Any:
        """Fit with the weights of values F (n, t).

        The first such fit chooses its setting anew where outliers had their whole weight before.
        Working targets of deviances hold F itself: rows held out would be judged by a fit to them.
        """
        chooses = like is None and step == 0 and self.link is None and not self.run.is_over(_SHARE)
        self.count += 1
        return self._refit(*self._response(F, step), None if chooses else start)

    def _response(self, F: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return targets (n, t) and weights (n,) by which least squares go down the loss.

        Targets share the weight of a row, the largest of theirs, and move less for it: where the
        values stay as they are, they are those of each target by itself.
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
        """Move the estimator's function by the best constant, set its link, and return its values.

        The constant is not penalised: means of a deviance add up to the targets so.
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

    def _change(self, F: np.ndarray, new: np.ndarray) -> float:
        """Return the largest change of a target's values, in deviations of these."""
        spread = np.sqrt(np.average((new - new.mean(axis=0)) ** 2, axis=0, weights=self.weights))
        size = np.sqrt(np.average((new - F) ** 2, axis=0, weights=self.weights))
        least = 1e-6 * (self.scale if self.link is None else 1.0)
        return float(np.max(size / np.maximum(spread, least)))

    def _end(self, kept: dict[str, Any]) -> None:
        """Keep the best fit where the last one may not be it, and say how the fits ended."""
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
    """Return a function moved by constants (t,), with its limits, and with a link."""
    parts: dict[str, Any] = {"intercept": values.intercept + asarray_like(shift, values.intercept)}
    bounds = getattr(values, "bounds", None)
    if bounds is not None:
        parts["bounds"] = bounds + asarray_like(shift, bounds)
    return dataclasses.replace(values, **parts, link=link)
