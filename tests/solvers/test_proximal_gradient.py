"""Proximal gradient finds minimisers, never rises, and says how it ended."""

import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from gpukfl.core._results import Status
from gpukfl.penalties import ConcaveVariable, Feature, Variable
from gpukfl.solvers import ProximalGradient, _proximal_gradient

SHAPE = (4, 6)
steps = pytest.mark.parametrize("step_size", ["auto", 1e-2, 1e4])


@dataclass
class Quadratic:
    """``½ <W - T, H (W - T)>``, known exactly."""

    on: object
    target: np.ndarray
    H: np.ndarray
    calls: list = field(default_factory=list)

    def value(self, W):
        gap = self.on.host(W).astype(np.float64) - self.target
        return 0.5 * float(np.sum(gap * (self.H @ gap)))

    def evaluate(self, W, _near, _reject_above):
        self.calls.append(W)
        value = self.value(W)
        return SimpleNamespace(W=W, lower=value, upper=value, residual=0.0)

    def gradient(self, evaluation):
        gap = self.on.host(evaluation.W).astype(np.float64) - self.target
        return self.on.put(self.H @ gap)


class Problem:
    """A quadratic and a penalty of some strength."""

    def __init__(self, on, rng, penalty, strength, *, kind=Quadratic, condition=1.0, **more):
        target = on.rounded(3 * rng.standard_normal(SHAPE))
        H = np.diag(np.geomspace(1.0, 1.0 / condition, SHAPE[0]))
        self.on, self.penalty, self.strength = on, penalty, strength
        self.smooth = kind(on, target, H, **more)
        self.start = on.put(rng.standard_normal(SHAPE))

    def prox(self, W, step):
        return self.penalty.prox(W, self.strength * step)

    def cost(self, W):
        return self.strength * float(self.penalty.value(W))

    def objective(self, W):
        return self.smooth.value(W) + self.cost(W)

    def minimize(self, start=None, **settings):
        watch = settings.pop("watch", lambda *_: None)
        learned = settings.pop("learned", False)
        start = self.start if start is None else start
        solver = ProximalGradient(**settings)
        given = self.smooth, self.prox, self.cost, start
        return solver.minimize(*given, watch=watch, learned=learned)


@pytest.mark.pairs
@steps
@pytest.mark.parametrize("penalty", [Variable(), Feature(), ConcaveVariable()], ids=str)
def test_identity_quadratic_is_minimised_by_the_prox_of_its_target(on, rng, penalty, step_size):
    problem = Problem(on, rng, penalty, 2.0)
    trace = problem.minimize(step_size=step_size, max_iter=1000, tol=on.eps)
    assert trace.status in (Status.CONVERGED, Status.STALLED)  # stalled: to the last digit
    expected = on.host(problem.prox(on.put(problem.smooth.target), 1.0))
    on.assert_close(trace.W, expected, ulps=100 * on.eps**-0.5)
    least = problem.objective(on.put(expected))
    assert abs(problem.objective(trace.W) - least) <= 100 * on.eps * least


def test_minimum_is_that_of_a_long_plain_iteration(on_double, rng):
    problem = Problem(on_double, rng, Feature(), 1.0, condition=30.0)
    trace = problem.minimize(max_iter=2000, tol=1e-14)
    assert trace.status is Status.CONVERGED
    W = problem.start
    for _ in range(2000):
        slope = problem.smooth.gradient(SimpleNamespace(W=W))
        W = problem.prox(W - slope, 1.0)
    assert problem.objective(trace.W) <= problem.objective(W) * (1 + 1e-11)


@pytest.mark.pairs
@steps
@pytest.mark.parametrize("penalty", [Variable(), ConcaveVariable(concavity=20.0)], ids=str)
def test_objective_never_rises_and_is_recorded(on, rng, penalty, step_size):
    problem = Problem(on, rng, penalty, 3.0, condition=30.0)
    seen = []
    trace = problem.minimize(
        step_size=step_size, max_iter=60, tol=0.0, watch=lambda k, W, *_: seen.append((k, W))
    )
    history = trace.history
    assert [k for k, _ in seen] == list(range(len(history)))
    objective = [problem.objective(W) for _, W in seen]
    assert history.objective == pytest.approx(objective, rel=1e-12)
    start = problem.objective(problem.start)
    assert np.all(np.diff([start, *objective]) <= 100 * on.eps * start)
    assert len(history.step) == len(history.residual) == len(history.seconds) == len(history)
    assert min(history.step) > 0.0
    assert np.all(np.diff(history.seconds) >= 0.0)
    on.assert_close(trace.W, on.host(seen[-1][1]), ulps=0)


@pytest.mark.parametrize("step_size", [1e-2, 1e4])
def test_no_fixed_rule_step_is_longer_than_the_curvature_allows(on_double, rng, step_size):
    problem = Problem(on_double, rng, Variable(), 2.0)  # of curvature 1
    history = problem.minimize(step_size=step_size, max_iter=20, tol=1e-9).history
    assert 0.1 < max(history.step) <= 1.0 + 1e-6


@steps
def test_every_step_gains_a_share_of_its_length(on_double, rng, step_size):
    on, seen = on_double, []
    problem = Problem(on, rng, Variable(), 2.0, condition=30.0)
    history = problem.minimize(
        step_size=step_size, max_iter=20, watch=lambda *given: seen.append(given[1])
    ).history
    before = problem.start
    for W, step in zip(seen, history.step, strict=True):
        moved = np.linalg.norm(on.host(W) - on.host(before))
        least = 0.01 * moved**2 / (2 * step)
        gain = problem.objective(before) - problem.objective(W)
        assert gain >= least - 100 * on.eps * problem.objective(before)
        before = W


def test_convergence_is_two_flat_iterations(on_double, rng):
    problem = Problem(on_double, rng, Variable(), 1.0, condition=30.0)
    objective = problem.minimize(tol=1e-3, max_iter=1000).history.objective
    gains = -np.diff([problem.objective(problem.start), *objective]) / objective
    flat = gains <= 1e-3
    assert flat[-1]
    assert flat[-2]
    assert not np.any(flat[:-2] & flat[1:-1])


@pytest.mark.parametrize("max_iter", [0, 3])
def test_max_iter_is_reached(on, rng, max_iter):
    problem = Problem(on, rng, Variable(), 1.0, condition=30.0)
    trace = problem.minimize(max_iter=max_iter, tol=0.0)
    assert trace.status is Status.MAX_ITER
    assert len(trace.history) == max_iter
    if max_iter == 0:
        on.assert_close(trace.W, on.host(problem.start), ulps=0)


def test_time_limit_is_reached_after_a_step_unless_the_start_was_learned(on, rng):
    problem = Problem(on, rng, Variable(), 1.0, condition=30.0)
    for learned in (False, True):
        trace = problem.minimize(max_time=0.0, tol=0.0, learned=learned)
        assert trace.status is Status.TIME_LIMIT
        assert len(trace.history) == (0 if learned else 1)


class Slow:
    """Evaluations that take a second each, and refuse all steps."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def evaluate(self, W, near, reject_above):
        self.now += 1.0
        value = 0.0 if near is None else math.inf
        return SimpleNamespace(lower=value, upper=value, residual=0.0)

    def gradient(self, evaluation):
        return np.ones((2, 3))


@pytest.mark.parametrize(("max_time", "seconds"), [(7.5, 6), (7.0, 5), (0.0, 1)])
def test_trials_end_in_time_with_as_long_left_as_the_start_took(monkeypatch, max_time, seconds):
    slow = Slow()
    monkeypatch.setattr(_proximal_gradient, "time", slow)
    trace = ProximalGradient(max_time=max_time).minimize(
        slow, lambda W, _: W, lambda _: 0.0, np.ones((2, 3)), learned=True
    )
    assert slow.now == seconds
    assert trace.status is Status.TIME_LIMIT
    assert not trace.history


def test_a_fixed_point_is_converged_at_once(on, rng):
    problem = Problem(on, rng, Variable(), 0.0)
    trace = problem.minimize(start=on.put(problem.smooth.target))
    assert trace.status is Status.CONVERGED
    on.assert_close(trace.W, problem.smooth.target, ulps=0)


@dataclass
class Pit(Quadratic):
    """Higher everywhere than at its start, whatever the gradient says."""

    def value(self, W):
        return super().value(W) + (1.0 if W is not self.calls[0] else 0.0)


def test_no_step_that_decreases_is_a_stall(on, rng):
    problem = Problem(on, rng, Variable(), 0.0, kind=Pit)
    start = on.put(problem.smooth.target + 0.1)
    trace = problem.minimize(start=start)
    assert trace.status is Status.STALLED
    assert len(trace.history) == 0
    on.assert_close(trace.W, on.host(start), ulps=0)


@steps
def test_zero_is_found_where_it_minimises(on, rng, step_size):
    problem = Problem(on, rng, Variable(), 1e3)
    trace = problem.minimize(step_size=step_size)
    assert trace.status is Status.COLLAPSED
    on.assert_close(trace.W, np.zeros(SHAPE), ulps=0)
    assert trace.evaluation.lower == problem.smooth.value(trace.W)


@dataclass
class Interrupted(Quadratic):
    """Somebody presses Ctrl-C during one evaluation."""

    at: int = 0

    def evaluate(self, W, near, reject_above):
        evaluation = super().evaluate(W, near, reject_above)
        if len(self.calls) == self.at:
            raise KeyboardInterrupt
        return evaluation


@pytest.mark.parametrize("at", [2, 7])
def test_interruption_keeps_the_best_iterate(on, rng, at):
    problem = Problem(on, rng, Variable(), 1.0, kind=Interrupted, condition=30.0, at=at)
    seen = [problem.start]
    trace = problem.minimize(tol=0.0, watch=lambda *given: seen.append(given[1]))
    assert trace.status is Status.INTERRUPTED
    assert 0 < len(seen) <= at
    on.assert_close(trace.W, on.host(seen[-1]), ulps=0)
    best = min(problem.objective(W) for W in seen)
    assert problem.objective(trace.W) <= best * (1 + 100 * on.eps)


def test_interruption_at_the_very_end_keeps_the_result(on, rng):
    problem = Problem(on, rng, Variable(), 1.0, kind=Interrupted, condition=30.0)
    whole = problem.minimize()
    problem.smooth.at = len(problem.smooth.calls)
    problem.smooth.calls.clear()
    try:
        trace = problem.minimize()
    except KeyboardInterrupt:
        pytest.fail("an interruption lost the result")
    on.assert_close(trace.W, on.host(whole.W), ulps=0)


def test_the_watcher_ends_the_minimisation(on, rng):
    problem = Problem(on, rng, Variable(), 1.0, condition=30.0)

    def watch(k, W, evaluation, history):
        assert evaluation.W is W
        assert len(history) == k + 1
        return Status.EARLY_STOPPED if k == 2 else None

    trace = problem.minimize(tol=0.0, watch=watch)
    assert trace.status is Status.EARLY_STOPPED
    assert len(trace.history) == 3


@dataclass
class Bounded(Quadratic):
    """Not finite away from its start."""

    centre: np.ndarray | None = None
    radius: float = math.inf
    lower: float = math.nan
    upper: float = math.nan

    def evaluate(self, W, near, reject_above):
        evaluation = super().evaluate(W, near, reject_above)
        self.centre = self.on.host(W) if self.centre is None else self.centre
        if np.linalg.norm(self.on.host(W) - self.centre) > self.radius:
            evaluation.lower, evaluation.upper = self.lower, self.upper
        return evaluation


@pytest.mark.parametrize(
    ("lower", "upper"), [(math.nan, math.nan), (0.0, math.nan), (-math.inf, math.inf)]
)
def test_trials_that_are_not_finite_are_rejected(on, rng, lower, upper):
    problem = Problem(on, rng, Variable(), 0.5, kind=Bounded, radius=1.0, lower=lower, upper=upper)
    trace = problem.minimize(step_size=1e4, max_iter=20, tol=0.0)
    W = on.host(trace.W)
    assert np.all(np.isfinite(W))
    assert np.linalg.norm(W - problem.smooth.centre) <= 1.0
    assert problem.objective(trace.W) < problem.objective(problem.start)


@dataclass
class NotFinite(Quadratic):
    """Of one value everywhere."""

    bad: float = math.nan

    def value(self, _):
        return self.bad


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_start_that_is_not_finite_raises(on, rng, bad):
    problem = Problem(on, rng, Variable(), 1.0, kind=NotFinite, bad=bad)
    with pytest.raises(FloatingPointError, match="not finite at the start"):
        problem.minimize()


@dataclass
class Decided(Quadratic):
    """Stops as soon as a trial is known to be rejected."""

    early: int = 0

    def evaluate(self, W, near, reject_above):
        evaluation = super().evaluate(W, near, reject_above)
        if evaluation.lower > reject_above:
            self.early += 1
            evaluation.lower = math.nextafter(reject_above, math.inf)
            evaluation.upper = math.inf
        return evaluation


def test_trials_decided_early_change_no_iterate(on_double, rng):
    state = rng.bit_generator.state
    traces = []
    for kind in (Quadratic, Decided):
        rng.bit_generator.state = state
        problem = Problem(on_double, rng, Variable(), 1.0, kind=kind, condition=30.0)
        traces.append(problem.minimize(step_size=10.0, max_iter=15))
    assert problem.smooth.early > 0
    assert traces[0].history.objective == traces[1].history.objective


def test_a_step_into_zero_is_shortened_while_that_gains(on, rng):
    """At the first step the prox gives zero, where this smooth function is much larger."""
    problem = Problem(on, rng, Variable(), 0.0)
    target = problem.smooth.target
    tried = []

    def prox(W, step):
        tried.append(step)
        return W * 0.0 if step > 0.25 else W

    solver = ProximalGradient(step_size=1.0, max_iter=1)
    start = on.put(target + 1.0)
    trace = solver.minimize(problem.smooth, prox, problem.cost, start)
    assert trace.status is Status.MAX_ITER
    assert tried[0] > 0.25 >= tried[-1]
    assert problem.objective(trace.W) < problem.objective(start)
