"""The map and the noise ratio that maximise the evidence, or another criterion of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from gpukfl._array import Array, beside, to_host
from gpukfl._results import History, Status
from gpukfl.methods._evidence import Slopes
from gpukfl.solvers import LBFGS, Descent

_FIRST_STEPS = 8  # after which the best start goes on alone
_SHORTEST = 1e-3  # norm of a column, beside the longest, in units of which its entries are counted
_STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)
_LOG_RATIOS = (
    math.log(1e-8),
    math.log(1e8),
)  # the first is that below which rounding is mistaken for structure
_LOG_SHARPEST = math.log(1e3)  # typical lengthscales in one: of shorter ones distances are rounded


class MetricCriterion(Protocol):
    """A function of the map and of the noise ratio; larger is better."""

    @property
    def scale(self) -> float:
        """Number of samples times that of targets."""

    def enough(self, *, diagonal: bool) -> float:
        """Nats of a sample and target that a step must gain, in the mean of two."""

    def __call__(self, C: Array, ratio: float, /) -> Slopes:
        """Evaluate with the gradient."""


@dataclass(frozen=True)
class MetricPrior:
    r"""What is believed of lengthscales and the noise ratio before the data are seen.

    Normal densities of the logarithms, so weak that they say little where the data say anything:
    lengthscales of features that do not matter stay finite, and noise is not taken for structure.

    Attributes
    ----------
    lengthscale : float
        Typical one of a feature.
    length_spread : float
        Standard deviation of its logarithm.
    ratio, ratio_spread : float
        The same of the noise ratio.
    """

    lengthscale: float
    length_spread: float = 1.0
    ratio: float = 0.05
    ratio_spread: float = 2.0

    def __call__(self, logs: np.ndarray, /, *, lengths: bool) -> tuple[float, np.ndarray]:
        """Give the log density up to a constant, and its gradient.

        Of the logarithms of inverse lengthscales, unless `lengths` is false, and of the ratio.
        """
        center = np.full(len(logs), -math.log(self.lengthscale))
        spread = np.full(len(logs), self.length_spread if lengths else math.inf)
        center[-1], spread[-1] = math.log(self.ratio), self.ratio_spread
        away = (logs - center) / spread
        return -0.5 * float(away @ away), -away / spread


@dataclass(frozen=True, eq=False)
class MetricFit:
    """A map and a noise ratio, and how they were found."""

    C: Array  # (k, d), or the diagonal (d,)
    ratio: float
    value: float  # of the criterion and the log prior
    status: Status
    history: History


def fit_metric(
    criterion: MetricCriterion,
    starts: Sequence[tuple[Array, float]],
    /,
    *,
    prior: MetricPrior,
    learn_ratio: bool = True,
    optimizer: LBFGS,
    watch: Callable[[int, Array, History], Status | None] = lambda *_: None,
) -> MetricFit:
    r"""Maximise a criterion of the map and the noise ratio.

    Parameters
    ----------
    criterion : MetricCriterion
        `ExactCriterion` or `BoundCriterion`.
    starts : sequence of (array, float)
        Maps (k, d) with noise ratios, or diagonals (d,) of maps, which then stay diagonal and
        positive: a lengthscale for each feature, of at least a thousandth of the prior's. Of
        several the best after a few steps goes on.
    prior : MetricPrior
        Of lengthscales, where maps are diagonal, and of the noise ratio.
    learn_ratio : bool
        Whether the noise ratio is learned, or kept.
    optimizer : LBFGS
        Steps and time; it also ends where two steps gain less than is `enough` for the criterion.
    watch : callable
        ``watch(k, x, history)`` after each step, with the logarithms that are optimised, or the
        entries of the map, each in units of its column at the start.

    Returns
    -------
    MetricFit
        The best that was met.

    Raises
    ------
    FloatingPointError
        If the criterion is not finite at a start.
    """
    descents = [_Descent(criterion, prior, C, ratio, learn_ratio) for C, ratio in starts]
    best, begun = descents[0], descents[0].start
    enough = criterion.enough(diagonal=best.diagonal)
    solver, watch = replace(optimizer, tol=0.0), _ended(watch, enough)
    if len(descents) > 1:
        short = replace(solver, max_iter=min(_FIRST_STEPS, solver.max_iter))
        tried = []
        for one in descents:
            tried.append((short.minimize(one.function, one.start, watch=watch), one))
            if tried[-1][0].status in _STOPPED:
                return replace(_lowest(tried), status=tried[-1][0].status)
        first, best = min(tried, key=_value)
        begun = to_host(first.x)
    return best.fit(solver.minimize(best.function, begun, watch=watch))


def _lowest(tried: Sequence[tuple[Descent, _Descent]]) -> MetricFit:
    found, one = min(tried, key=_value)
    return one.fit(found)


def _value(tried: tuple[Descent, _Descent]) -> float:
    return tried[0].value


class _Descent:
    """A criterion as a function of numbers on the host, beginning at one map."""

    def __init__(
        self,
        criterion: MetricCriterion,
        prior: MetricPrior,
        C: Array,
        ratio: float,
        learn_ratio: bool,
    ) -> None:
        self.criterion, self.prior, self.C = criterion, prior, C
        self.diagonal, self.learn_ratio = C.ndim == 1, learn_ratio
        host = to_host(C).astype(np.float64)
        # Lengthscales of features differ by orders of magnitude, and so would slopes in entries
        self.units = np.ones(1) if self.diagonal else _norms_of_columns(host)
        metric = np.log(host) if self.diagonal else host / self.units
        # Of a longer metric squares are so large that small distances are their rounding
        self.most = _LOG_SHARPEST - math.log(prior.lengthscale) if self.diagonal else math.inf
        self.start = np.append(metric, math.log(ratio))

    def unpacked(self, x: np.ndarray, /) -> tuple[Array, float]:
        """Give map and noise ratio."""
        entries = x[:-1].reshape(tuple(self.C.shape))
        host = self._inverse_lengths(entries) if self.diagonal else entries * self.units
        return beside(host, self.C), math.exp(np.clip(x[-1], *_LOG_RATIOS))

    def _inverse_lengths(self, logs: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(logs, self.most))

    def fit(self, descent: Descent, /) -> MetricFit:
        """Give where a descent ended."""
        C, ratio = self.unpacked(to_host(descent.x))
        value = -descent.value * self.criterion.scale
        return MetricFit(C, ratio, value, descent.status, descent.history)

    def function(self, at: Array, /) -> tuple[float, Array]:
        """Give what is minimised, a sample and target, with its gradient."""
        x = to_host(at)
        with np.errstate(over="ignore", invalid="ignore"):  # the line search turns back
            C, ratio = self.unpacked(x)
            try:
                found = self.criterion(C, ratio)
            except np.linalg.LinAlgError:
                return math.inf, np.zeros_like(x)
        metric = to_host(found.metric)
        if self.diagonal:
            metric = metric * self._inverse_lengths(x[:-1]) * (x[:-1] <= self.most)
        else:
            metric = metric * self.units
        slope = np.append(metric, found.log_ratio)
        more, pull = self.prior(x, lengths=self.diagonal)
        low, high = _LOG_RATIOS
        slope[-1] *= low <= x[-1] <= high
        slope = slope + pull
        slope[-1] *= self.learn_ratio
        return -(found.value + more) / self.criterion.scale, -slope / self.criterion.scale


def _norms_of_columns(C: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(C, axis=0)
    return np.maximum(norms, _SHORTEST * norms.max()) if norms.any() else np.ones_like(norms)


def _ended(
    watch: Callable[[int, Array, History], Status | None], enough: float
) -> Callable[[int, Array, History], Status | None]:
    """End a descent also where two steps gain next to nothing: one may where features come in."""

    def stop(k: int, x: Array, history: History) -> Status | None:
        asked, values = watch(k, x, history), history.objective
        if asked is None and len(values) > 2 and values[-3] - values[-1] <= 2.0 * enough:
            return Status.CONVERGED
        return asked

    return stop
