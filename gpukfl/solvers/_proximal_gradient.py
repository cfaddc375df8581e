"""Proximal gradient with backtracking, for functions with certified bounds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from gpukfl.core._array import Array, array_namespace
from gpukfl.core._checks import check_number, check_steps
from gpukfl.core._results import History, Status

_HALVINGS = 60  # from any float64 step to none
_GAIN = 0.01  # share of ||W - W+||^2 / 2 gamma by which an automatic step must gain
_FLAT = 2  # iterations in a row that must gain less than tol


class Evaluation(Protocol):
    """Bounds on a smooth function at a point."""

    @property
    def lower(self) -> float:
        """A certified lower bound on the value."""

    @property
    def upper(self) -> float:
        """A certified upper bound on the value."""

    @property
    def residual(self) -> float:
        """Relative residual of the computation behind the bounds."""


E = TypeVar("E", bound=Evaluation)


class Smooth(Protocol[E]):
    """A smooth function with an expensive value, which is evaluated by bounds."""

    def evaluate(self, W: Array, near: E | None, reject_above: float, /) -> E:
        """Evaluate at `W`; may stop early once the lower bound passes `reject_above`."""

    def gradient(self, evaluation: E, /) -> Array:
        """Return the gradient at an evaluated point."""


@dataclass(frozen=True, eq=False)
class Trace(Generic[E]):
    """The end of a minimisation, with its status and history."""

    W: Array
    evaluation: E
    status: Status
    history: History = field(default_factory=History)


@dataclass(frozen=True, eq=False)
class _State(Generic[E]):
    """An iterate with its evaluation."""

    W: Array
    evaluation: E
    objective: float


class _Clock:
    """A clock that predicts whether another trial would end in time.

    That is for what the caller does at the end: a solve that begins from nothing, as the first.
    A start that was not learned has a first step in any case.
    """

    def __init__(self, max_time: float | None, learned: bool) -> None:
        self._begun, self._limit, self._binds = time.perf_counter(), max_time, learned
        self.seconds = self._last = self._left = 0.0

    def note_start(self) -> None:
        """Record the end of the first evaluation."""
        self.note_trial()
        self._last, self._left = 0.0, self.seconds

    def note_trial(self) -> None:
        """Record the end of a trial."""
        now = time.perf_counter() - self._begun
        self.seconds, self._last = now, now - self.seconds

    def note_step(self) -> None:
        """Record the end of a step."""
        self._binds = True

    @property
    def is_over(self) -> bool:
        """Whether another trial would exceed the time limit."""
        if self._limit is None or not self._binds:
            return False
        return self.seconds + self._last + self._left >= self._limit


@dataclass(frozen=True)
class ProximalGradient:
    r"""Minimise G(W) + penalty(W) by proximal gradient steps with backtracking.

    A step γ goes from W to :math:`W^+ = \mathrm{prox}_\gamma(W - \gamma \nabla G)`, and is halved
    until it gains enough. A trial is dropped as soon as a certified lower bound of G(W⁺) shows
    that it does not.

    Parameters
    ----------
    step_size : float or "auto"
        A float is Algorithm 1 of [1]_: γ begins there, each iteration begins with 1.5 times the
        last, and a step is taken when :math:`G(W^+) \le G(W) - \gamma \langle \nabla G, G_\gamma
        \rangle + \frac\gamma2 \|G_\gamma\|^2` with :math:`G_\gamma = (W - W^+)/\gamma`.
        "auto" begins at the scale of W, then with the step of Barzilai and Borwein, and takes a
        step when the whole objective falls by :math:`\frac{\gamma}{200} \|G_\gamma\|^2`: the
        other test refuses long steps that lower the penalty by much and G by little.
    max_iter : int
        Iterations, at least 0.
    tol : float
        Ends when the objective falls by less than this share of itself twice in a row.
    max_time : float or None
        Seconds, of which as many as the first evaluation took are left for what the caller does
        with the result. No trial is begun that would not end in time, as long as the last one;
        but one step is taken in any case.

    References
    ----------
    .. [1] Follain and Bach, arXiv:2407.17280, Algorithm 1.
    """

    step_size: float | str = "auto"
    max_iter: int = 200
    tol: float = 1e-4
    max_time: float | None = None

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, low=0, low_allowed=False, also=("auto",))
        check_steps(self)

    def minimize(
        self,
        smooth: Smooth[E],
        prox: Callable[[Array, float], Array],
        penalty: Callable[[Array], float],
        W: Array,
        /,
        *,
        watch: Callable[[int, Array, E, History], Status | None] = lambda *_: None,
        learned: bool = False,
    ) -> Trace[E]:
        """Minimise from `W`.

        Parameters
        ----------
        smooth : Smooth
            G and its gradient.
        prox : callable
            ``prox(W, step)`` of the penalty.
        penalty : callable
            Its value, a float.
        W : array
            Starting point. Zero may be a stationary point; it is never stepped into while a
            shorter step gains.
        watch : callable
            Called after every iteration; a status it returns ends the minimisation.
        learned : bool
            Whether `W` is worth something already, so that without time no step is taken.

        Returns
        -------
        Trace
            The iterate with the lowest objective. An interruption from the keyboard ends the
            minimisation with the best iterate so far.

        Raises
        ------
        FloatingPointError
            If G is not finite at the starting point.
        """
        clock, history = _Clock(self.max_time, learned), History()
        evaluation = smooth.evaluate(W, None, math.inf)
        clock.note_start()
        if not (math.isfinite(evaluation.lower) and math.isfinite(evaluation.upper)):
            msg = "the objective is not finite at the start: the data overflow this precision"
            raise FloatingPointError(msg)
        # Replaced as a whole, so that an interruption leaves a whole iterate
        best = [_State(W, evaluation, evaluation.lower + penalty(W))]
        try:
            status = self._iterate(smooth, prox, penalty, best, history, watch, clock)
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        state = best[0]
        found = Trace(state.W, state.evaluation, status, history)
        if status not in (Status.CONVERGED, Status.STALLED):
            return found
        try:
            return self._compare_with_zero(smooth, penalty, found, state.objective)
        except KeyboardInterrupt:
            return replace(found, status=Status.INTERRUPTED)

    def _compare_with_zero(
        self,
        smooth: Smooth[E],
        penalty: Callable[[Array], float],
        found: Trace[E],
        objective: float,
    ) -> Trace[E]:
        """Return zero if it is no worse than the point that was found."""
        zero = array_namespace(found.W).zeros_like(found.W)
        at_zero = smooth.evaluate(zero, None, math.inf)
        if at_zero.upper + penalty(zero) <= objective:
            return Trace(zero, at_zero, Status.COLLAPSED, found.history)
        return found

    def _iterate(
        self,
        smooth: Smooth[E],
        prox: Callable[[Array, float], Array],
        penalty: Callable[[Array], float],
        best: list[_State[E]],
        history: History,
        watch: Callable[[int, Array, E, History], Status | None],
        clock: _Clock,
    ) -> Status:
        gradient = smooth.gradient(best[0].evaluation)
        step = self._first_step(best[0].W, gradient)
        flat = 0
        for k in range(self.max_iter):
            state = best[0]
            taken = self._search(smooth, prox, penalty, state, gradient, step, clock)
            if isinstance(taken, Status):
                return taken
            new, used = taken
            clock.note_step()
            new_gradient = smooth.gradient(new.evaluation)
            step = self._next_step(used, new.W - state.W, new_gradient - gradient)
            gain = state.objective - new.objective
            best[0] = state = new
            gradient = new_gradient
            history.objective.append(state.objective)
            history.step.append(used)
            history.residual.append(state.evaluation.residual)
            history.seconds.append(clock.seconds)
            asked = watch(k, state.W, state.evaluation, history)
            if asked is not None:
                return asked
            flat = flat + 1 if gain <= self.tol * abs(state.objective) else 0
            if flat == _FLAT:
                return Status.CONVERGED
        return Status.MAX_ITER

    def _search(
        self,
        smooth: Smooth[E],
        prox: Callable[[Array, float], Array],
        penalty: Callable[[Array], float],
        state: _State[E],
        gradient: Array,
        step: float,
        clock: _Clock,
    ) -> tuple[_State[E], float] | Status:
        for halving in range(_HALVINGS):
            if clock.is_over:
                return Status.TIME_LIMIT
            W = prox(state.W - step * gradient, step)
            moved = state.W - W
            change = _inner(moved, moved)
            if change == 0.0:  # at the full step a fixed point, later too short a step to see
                return Status.CONVERGED if halving == 0 else Status.STALLED
            # Zero is absorbing, so a shorter step is tried first while W is not tiny.
            if _inner(W, W) > 0.0:
                cost = penalty(W)
                if isinstance(self.step_size, str):
                    limit = state.objective - cost - _GAIN * change / (2.0 * step)
                else:
                    model = -_inner(gradient, moved) + change / (2.0 * step)
                    limit = state.evaluation.lower + model
                evaluation = smooth.evaluate(W, state.evaluation, limit)
                clock.note_trial()
                # Written so that NaN fails
                if evaluation.lower <= limit and math.isfinite(evaluation.upper):
                    return _State(W, evaluation, evaluation.lower + cost), step
                del evaluation  # its operator is as large as the data
            step *= 0.5
        return Status.STALLED

    def _first_step(self, W: Array, gradient: Array) -> float:
        if not isinstance(self.step_size, str):
            return 1.5 * self.step_size
        slope = math.sqrt(_inner(gradient, gradient))
        return math.sqrt(_inner(W, W)) / slope if slope > 0 else 1.0

    def _next_step(self, step: float, dW: Array, dgradient: Array) -> float:
        if not isinstance(self.step_size, str):
            return 1.5 * step
        curvature = _inner(dW, dgradient)
        secant = _inner(dW, dW) / curvature if curvature > 0 else math.inf
        return min(max(secant, 0.1 * step), 4.0 * step)


def _inner(U: Array, V: Array, /) -> float:
    """Return the Frobenius inner product in float64 as a float; waits for the device."""
    xp = array_namespace(U)
    return float(xp.sum(xp.astype(U, xp.float64) * xp.astype(V, xp.float64)))
