"""Stochastic descent in the RKHS of the weights: Algorithms 1 and 2, and their losses."""

from __future__ import annotations

import functools
import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gpukfl.core._array import Array, array_namespace, clip, double_like, to_double
from gpukfl.core._results import History, Status
from gpukfl.operators import FeatureOperator

# ---------------------------------------------------------------------------------- losses

# Losses of predictions z at targets y, elementwise on arrays of any library.


class Loss(ABC):
    """A convex loss with a continuous derivative, as a frozen value."""

    for_labels: ClassVar[bool]  # y must be -1 or 1
    unit: ClassVar[float]  # times the loss is at least 1 where y is -1 or 1 and yz is at most 0

    @property
    def knots(self) -> tuple[tuple[float, float], ...]:
        """Ascending points z and derivatives at y = 1, which is nearly linear between them.

        Two at least, beyond the first and last of which it hardly changes. An optimal step is
        looked for from the best one for these lines: they cost time, and change no result. Here
        those of the logistic loss.
        """
        return tuple((z, -1.0 / (1.0 + math.exp(z))) for z in (-5.0, -2.0, 0.0, 2.0, 5.0))

    @abstractmethod
    def value(self, z: Array, y: Array, /) -> Array:
        """Losses of the predictions `z` at the targets `y` of the same shape: like `z`."""

    @abstractmethod
    def derivative(self, z: Array, y: Array, /) -> Array:
        """Differentiate the losses in `z`: like `z`."""

    @abstractmethod
    def second(self, z: Array, y: Array, /) -> Array:
        """Differentiate the losses in `z` twice: like `z`."""

    @abstractmethod
    def lipschitz(self, radius: float, largest_y: float = 1.0) -> float:
        """Return the largest slope ρ for ``|z|`` up to `radius` and ``|y|`` up to `largest_y`."""

    @abstractmethod
    def largest(self, radius: float, largest_y: float = 1.0) -> float:
        """Return the largest loss M for ``|z|`` up to `radius` and ``|y|`` up to `largest_y`."""


@dataclass(frozen=True)
class Squared(Loss):
    r""":math:`\frac12 (z - y)^2`, Section 5.3 of hal-04236058; half the loss of its eq. (73)."""

    for_labels: ClassVar[bool] = False
    unit: ClassVar[float] = 2.0

    def value(self, z: Array, y: Array, /) -> Array:
        """Return half the squared errors."""
        return 0.5 * (z - y) * (z - y)

    def derivative(self, z: Array, y: Array, /) -> Array:
        """Return the errors."""
        return z - y

    def second(self, z: Array, y: Array, /) -> Array:  # noqa: ARG002
        """Return 1."""
        return array_namespace(z).ones_like(z)

    def lipschitz(self, radius: float, largest_y: float = 1.0) -> float:
        """Largest error."""
        return radius + largest_y

    def largest(self, radius: float, largest_y: float = 1.0) -> float:
        """Half the square of the largest error."""
        return 0.5 * (radius + largest_y) * (radius + largest_y)


@dataclass(frozen=True)
class Logistic(Loss):
    r""":math:`\log(1 + e^{-yz})`."""

    for_labels: ClassVar[bool] = True
    unit: ClassVar[float] = 1.0 / math.log(2.0)

    def value(self, z: Array, y: Array, /) -> Array:
        """Losses, by an exponential that does not overflow."""
        xp = array_namespace(z, y)
        t = y * z
        return clip(-t, low=0.0) + xp.log1p(xp.exp(-xp.abs(t)))

    def derivative(self, z: Array, y: Array, /) -> Array:
        """Return minus y times the probability of the other label."""
        xp = array_namespace(z, y)
        t = y * z
        small = xp.exp(-xp.abs(t))
        return -y * xp.where(t > 0, small, xp.ones_like(t)) / (1.0 + small)

    def second(self, z: Array, y: Array, /) -> Array:
        """Multiply the probabilities of both labels with the square of y."""
        small = array_namespace(z, y).exp(-array_namespace(z, y).abs(y * z))
        return y * y * small / ((1.0 + small) * (1.0 + small))

    def lipschitz(self, radius: float, largest_y: float = 1.0) -> float:
        """Slope at the most negative yz."""
        return largest_y / (1.0 + math.exp(-radius * largest_y))

    def largest(self, radius: float, largest_y: float = 1.0) -> float:
        """Loss at the most negative yz."""
        return radius * largest_y + math.log1p(math.exp(-radius * largest_y))


@dataclass(frozen=True)
class Hinge(Loss):
    r""":math:`\max(0, 1 - yz)`, with a parabola over the kink where yz is within s/2 of 1.

    The parabola :math:`(1 + s/2 - yz)^2 / 2s` lies above the hinge and meets it with its slope at
    both ends. The loss is therefore at least the hinge loss, at most s/8 more, and 1 at z = 0,
    so that it is at least the 0-1 loss as it stands.

    Parameters
    ----------
    smoothing : float
        s, the width of the parabola, above 0 and at most 1.

    Raises
    ------
    ValueError
        If `smoothing` is out of its range.
    """

    smoothing: float = 0.5
    for_labels: ClassVar[bool] = True
    unit: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        if not 0.0 < self.smoothing <= 1.0:
            msg = f"expected a smoothing above 0 and at most 1, got {self.smoothing}"
            raise ValueError(msg)

    @property
    def knots(self) -> tuple[tuple[float, float], ...]:
        """Ends of the parabola, between which the derivative is a line."""
        return (1.0 - 0.5 * self.smoothing, -1.0), (1.0 + 0.5 * self.smoothing, 0.0)

    def _missing(self, z: Array, y: Array) -> Array:
        """Return the margin that yz lacks for a loss of 0."""
        return (1.0 + 0.5 * self.smoothing) - y * z

    def value(self, z: Array, y: Array, /) -> Array:
        """Return a parabola up to a gap of s, and a line beyond."""
        missing = self._missing(z, y)
        curved = clip(missing, low=0.0, high=self.smoothing)
        straight = clip(missing - self.smoothing, low=0.0)
        return curved * curved / (2.0 * self.smoothing) + straight

    def derivative(self, z: Array, y: Array, /) -> Array:
        """Return minus y, times a factor that falls to 0 over the parabola."""
        share = self._missing(z, y) / self.smoothing
        return -y * clip(share, low=0.0, high=1.0)

    def second(self, z: Array, y: Array, /) -> Array:
        """Return the curvature of the parabola, and 0 elsewhere."""
        xp = array_namespace(z, y)
        missing = self._missing(z, y)
        inside = (missing > 0) & (missing < self.smoothing)
        return y * y * xp.astype(inside, z.dtype) / self.smoothing

    def lipschitz(self, radius: float, largest_y: float = 1.0) -> float:  # noqa: ARG002
        """Slope of the line."""
        return largest_y

    def largest(self, radius: float, largest_y: float = 1.0) -> float:
        """Loss at the most negative yz."""
        return 1.0 + radius * largest_y


LOSSES: dict[str, Loss] = {"squared": Squared(), "logistic": Logistic(), "hinge": Hinge()}


# --------------------------------------------------------------------- functional gradient

# Stochastic descent in the RKHS of the weights: Algorithms 1 and 2.
#
# Each step draws a parameter :math:`w_t` and a batch of rows, and adds a multiple of :math:`K(w_t,
# \cdot)` to α (Dubé and Marchand, "RKHS Weightings of Functions", Sections 5.1, 5.2).


_CHUNK = 2_048  # rows of batches whose features are computed at once
_NEWTON = 200  # steps to the root of (49), more than it ever needs
_FLAT = 1e-12  # share of the slope at 0 that is left there
_STILL = 1e-15  # share of the root below which a step is rounding
_LARGEST_LOG = 300.0  # of what is squared


@dataclass(frozen=True, eq=False)
class DescentFit:
    """Coefficients of every column after the steps."""

    A: Array  # (T, c), float64, of the features as the operator scales them
    status: Status
    history: History  # mean risk of the batches before each step, of all columns
    n_steps: int


@dataclass(frozen=True)
class FunctionalDescent:
    r"""Settings of Algorithms 1 and 2.

    Parameters
    ----------
    loss : Loss
        The loss ℓ.
    optimal_step : bool
        Take the step that minimises the regularised risk of the batch (Algorithm 2), from its
        expected features; else :math:`1 / \lambda t` with projection and averaging (Algorithm 1),
        from its base predictors.
    radius : float
        B, the largest norm of α in Algorithm 1.
    max_time : float, optional
        Seconds.
    """

    loss: Loss
    optimal_step: bool
    radius: float = math.inf
    max_time: float | None = None

    def run(
        self,
        operator: FeatureOperator,
        Y: Array,
        batches: np.ndarray,
        log_ridges: Array,
        /,
        watch: Callable[[int, History], None] = lambda *_: None,
    ) -> DescentFit:
        """Take one step for each batch.

        Parameters
        ----------
        operator : FeatureOperator
            Rows, and the parameter of each step.
        Y : array, shape (n, c)
            Targets of each of c columns that descend side by side.
        batches : host array of int, shape (T, b)
            Rows of each step.
        log_ridges : array, shape (c,)
            Logarithm of λ of each column, float64: λ itself may be below all numbers.
        watch : callable
            Called with the step and the history after some steps.

        Returns
        -------
        DescentFit
            After all steps, or those until time was up or Ctrl-C.

        Notes
        -----
        O(b d T²) for the features, O((b + T) T c) for the steps.
        """
        begun = time.perf_counter()
        T, b = batches.shape
        kind = _OptimalSteps if self.optimal_step else _GradientSteps
        walk = kind(self, operator, log_ridges, T)
        chunk = max(1, _CHUNK // b)
        history, status, done, A = History(), Status.CONVERGED, 0, walk.result(0)
        try:
            for start in range(0, T, chunk):
                stop = min(start + chunk, T)
                risk = _take_steps(walk, operator, Y, batches[start:stop], start)
                history.append(risk, float(stop - start), 0.0, begun)
                done, A = stop, walk.result(stop)  # what an interrupted chunk leaves is not kept
                watch(stop, history)
                late = self.max_time is not None and history.seconds[-1] > self.max_time
                if late and stop < T:
                    status = Status.TIME_LIMIT
                    break
        except KeyboardInterrupt:
            if not done:
                raise
            status = Status.INTERRUPTED
        return DescentFit(A, status, history, done)


def _take_steps(
    walk: _Walk, operator: FeatureOperator, Y: Array, batches: np.ndarray, start: int
) -> float:
    """Take one step for each batch from `start`; return the mean risk before the steps."""
    xp = array_namespace(operator.W)
    count, b = batches.shape
    rows = batches.reshape(-1)
    some, targets = operator.rows.take_with(rows, Y)
    X, targets = some.whole(), to_double(targets)
    known = replace(operator, W=operator.W[: start + count, :])
    F = xp.astype(known.evaluate(X), xp.float64)
    K = _kernel_rows(known, start)
    risks = []
    for k in range(count):
        batch, t = slice(k * b, (k + 1) * b), start + k
        y, f = targets[batch, :], F[batch, :t] @ walk.A[:t, :]
        risks.append(xp.mean(walk.loss.value(f, y)))
        new = Arrival(t, f, y, F[batch, t : t + 1], X[batch, :], K[k, :t] @ walk.A[:t, :], K[k, t])
        walk.step(new)
    return float(xp.mean(xp.stack(risks)))


def _kernel_rows(operator: FeatureOperator, start: int) -> Array:
    """Kernel between the parameters from `start` and all, in float64."""
    xp = array_namespace(operator.W)
    W = xp.astype(operator.W, xp.float64)
    return operator.instantiation.kernel(W[start:, :], W)


@dataclass(frozen=True, eq=False)
class Arrival:
    """The batch and the parameter u of a step."""

    t: int  # steps before this one
    f: Array  # predictions (b, c)
    y: Array  # targets (b, c)
    feature: Array  # expected feature of u at the batch (b, 1), scaled
    X: Array  # the batch (b, d)
    at_u: Array  # α(u) of each column (c,), scaled
    norm: Array  # K(u, u)


class _Walk(ABC):
    """α of every column: coefficients A (T, c) of the scaled features.

    The operator's features are e^-c times the true ones, so A is e^c times the true coefficients.
    """

    def __init__(
        self, settings: FunctionalDescent, operator: FeatureOperator, log_ridges: Array, T: int
    ) -> None:
        xp = array_namespace(log_ridges)
        self.loss, self.operator = settings.loss, operator
        self.A = xp.zeros((T, log_ridges.shape[0]), **double_like(log_ridges))

    @abstractmethod
    def step(self, new: Arrival, /) -> None:
        """Move α."""

    def result(self, steps: int, /) -> Array:  # noqa: ARG002
        """Return the coefficients after all steps."""
        return array_namespace(self.A).asarray(self.A, copy=True)


class _GradientSteps(_Walk):
    """Algorithm 1."""

    def __init__(
        self, settings: FunctionalDescent, operator: FeatureOperator, log_ridges: Array, T: int
    ) -> None:
        super().__init__(settings, operator, log_ridges, T)
        xp = array_namespace(log_ridges)
        self.total = xp.zeros_like(self.A)  # of all iterates
        self.square = xp.zeros_like(log_ridges)  # of the norm of α, scaled, by (42)
        # Beyond these numbers all steps end on the ball, or the ball is a point
        self.steps = xp.exp(clip(operator.log_scale - log_ridges, high=_LARGEST_LOG))
        radius = settings.radius * math.exp(max(operator.log_scale, -2.0 * _LARGEST_LOG))
        self.radius = min(radius, math.exp(2.0 * _LARGEST_LOG))  # infinity would have no ratio

    def step(self, new: Arrival, /) -> None:
        """Take a stochastic gradient step (35), and project on the ball."""
        xp = array_namespace(self.A)
        t = new.t
        phi = self.operator.instantiation.base(self.operator.W[t : t + 1, :], new.X)
        slope = xp.mean(self.loss.derivative(new.f, new.y) * xp.astype(phi, xp.float64), axis=0)
        shrink = 1.0 - 1.0 / (t + 1)  # 1 - step size x λ
        added = -slope * self.steps / (t + 1)
        self.square = (
            shrink**2 * self.square + 2.0 * shrink * added * new.at_u + added**2 * new.norm
        )
        norm = xp.sqrt(clip(self.square, low=0.0))
        factor = self.radius / clip(norm, low=self.radius)
        self.A[:t, :] = self.A[:t, :] * (shrink * factor)
        self.A[t, :] = added * factor
        self.square = self.square * factor**2
        self.total = self.total + self.A

    def result(self, steps: int, /) -> Array:
        """Return the average of all iterates, the first of which is 0."""
        return self.total / (steps + 1)


class _OptimalSteps(_Walk):
    """Algorithm 2."""

    def __init__(
        self, settings: FunctionalDescent, operator: FeatureOperator, log_ridges: Array, T: int
    ) -> None:
        super().__init__(settings, operator, log_ridges, T)
        xp = array_namespace(log_ridges)
        self.ridges = xp.exp(log_ridges)
        # λ in units of the scaled features: α stays 0 at the largest, the smallest is like none
        logs = clip(log_ridges - 2.0 * operator.log_scale, low=-100.0, high=2.0 * _LARGEST_LOG)
        self.scaled = xp.exp(logs)

    def step(self, new: Arrival, /) -> None:
        """Shrink α as in (44), and add the η at which (49) is 0."""
        shrink = 1.0 - self.ridges
        pull = self.scaled * shrink * new.at_u
        curvature = self.scaled * new.norm
        eta = _root(self.loss, shrink * new.f, new.y, new.feature, pull, curvature)
        self.A[: new.t, :] = self.A[: new.t, :] * shrink
        self.A[new.t, :] = eta


def _root(loss: Loss, f: Array, y: Array, g: Array, pull: Array, curvature: Array, /) -> Array:
    """Find the η (c,) at which mean(ℓ'(f + η g, y) g) + pull + η curvature is 0.

    In closed form for the squared loss; else by Newton steps inside a bracket, from the root where
    ℓ' is made of lines. For a loss that is, the first step confirms it.
    """
    xp = array_namespace(f)

    def slope(z: Array, eta: Array) -> Array:
        return xp.mean(loss.derivative(z, y) * g, axis=0) + pull + eta * curvature

    at_zero = slope(f, xp.zeros_like(pull))
    if isinstance(loss, Squared):
        return -at_zero / (xp.mean(g * g, axis=0) + curvature)
    # The slope rises by at least the curvature: the root lies between 0 and the far end
    far = -at_zero / curvature
    low, high = xp.minimum(far, 0.0 * far), xp.maximum(far, 0.0 * far)
    flat = _FLAT * xp.abs(at_zero)
    eta = clip(_root_of_lines(loss, y * f, y * g, pull, curvature, high), low=low, high=high)
    for _ in range(_NEWTON):
        z = f + eta * g
        value = slope(z, eta)
        low = xp.where(value < 0, eta, low)
        high = xp.where(value > 0, eta, high)
        new = eta - value / (xp.mean(loss.second(z, y) * g * g, axis=0) + curvature)
        new = xp.where((new < low) | (new > high), 0.5 * (low + high), new)
        reached = (xp.abs(value) <= flat) | (xp.abs(new - eta) <= _STILL * xp.abs(new))
        eta = new
        if bool(xp.all(reached)):
            break
    return eta


def _root_of_lines(
    loss: Loss, margins: Array, slopes: Array, pull: Array, curvature: Array, high: Array, /
) -> Array:
    """Find the root (c,) for a loss whose derivative is made of lines between its knots.

    The slope then is made of lines too. It bends where the margin of a row, which moves by `slopes`
    (b, c) from `margins`, meets a knot: sorted, these points have running sums that are the slope
    on every line. Points beyond `high` only need to stay beyond the root.
    """
    xp, (b, c) = array_namespace(margins), margins.shape
    ends, bends = _lines(loss)
    still = slopes == 0
    each = xp.where(still, xp.ones_like(slopes), slopes)
    weight = xp.abs(slopes) * slopes / b
    where = [xp.minimum((knot - margins) / each, high) for knot, _ in loss.knots]
    points = xp.concat([xp.where(still, xp.zeros_like(each), one) for one in where], axis=0)
    order = xp.argsort(points, axis=0)
    points = xp.take_along_axis(points, order, axis=0)
    bend = xp.take_along_axis(xp.concat([weight * k for k in bends], axis=0), order, axis=0)
    outside = xp.where(slopes > 0, ends[0] * slopes, ends[1] * slopes)
    first = xp.reshape(xp.sum(outside, axis=0) / b + pull, (1, c))
    rise = curvature + xp.cumulative_sum(bend, axis=0, include_initial=True)
    value = first - xp.cumulative_sum(bend * points, axis=0, include_initial=True)  # at η = 0
    # Far beyond the root all is rounding: the first point where the slope is positive ends the line
    beyond = xp.astype(rise[1:, :] * points + value[1:, :] >= 0, xp.int64)
    before = xp.sum(xp.astype(xp.cumulative_sum(beyond, axis=0) == 0, xp.int64), axis=0)
    line = xp.reshape(before, (1, c))
    found = -xp.take_along_axis(value, line, axis=0) / xp.take_along_axis(rise, line, axis=0)
    return found[0, :]


@functools.cache
def _lines(loss: Loss, /) -> tuple[tuple[float, float], list[float]]:
    """Return the derivative below and above all knots, and its change of slope at each."""
    pairs = list(itertools.pairwise(loss.knots))
    rises = [0.0, *((high - low) / (right - left) for (left, low), (right, high) in pairs), 0.0]
    bends = [after - before for before, after in itertools.pairwise(rises)]
    return (loss.knots[0][1], loss.knots[-1][1]), bends
