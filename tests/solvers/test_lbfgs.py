"""L-BFGS finds minimisers, keeps the lowest point, and says how it ended."""

import numpy as np
import pytest
from scipy.optimize import rosen, rosen_der

from gpukfl.core._results import Status
from gpukfl.solvers import LBFGS

DECADES = np.geomspace(1.0, 0.01, 3)[:, None]


def quadratic(on, target, seen=None):
    """``1 + ½ sum h (X - T)²`` with curvatures over two decades."""

    def function(X):
        gap = on.host(X).astype(np.float64) - target
        if seen is not None:
            seen.append(X)
        return 1.0 + 0.5 * float(np.sum(DECADES * gap**2)), on.put(DECADES * gap)

    return function


def rosenbrock(on):
    def function(x):
        host = on.host(x).astype(np.float64)
        return float(rosen(host)), on.put(rosen_der(host))

    return function


@pytest.fixture
def start(on, rng):
    return on.put(rng.standard_normal((3, 4)))


def assert_consistent(on, found, function, start):
    """The point has the value that is reported, and the history is complete."""
    on.assert_lives_here(found.x)
    assert found.x.shape == start.shape
    assert function(found.x)[0] == found.value
    history = found.history
    assert len(history.objective) == len(history.step) == len(history.residual)
    assert len(history.seconds) == len(history)
    assert np.all(np.diff([function(start)[0], *history.objective, found.value]) <= 0)
    assert np.all(np.diff(history.seconds) >= 0)


def test_rosenbrock_is_minimised(on):
    start = on.put([-1.2, 1.0, -0.5, 0.8])
    found = LBFGS(max_iter=200, tol=0.0).minimize(rosenbrock(on), start)
    assert found.status in (Status.CONVERGED, Status.STALLED)
    on.assert_close(found.x, np.ones(4), ulps=100)
    assert_consistent(on, found, rosenbrock(on), start)


def test_quadratic_is_minimised(on, rng, start):
    target = on.rounded(rng.standard_normal((3, 4)))
    function = quadratic(on, target)
    found = LBFGS(tol=on.eps).minimize(function, start)
    assert found.status is Status.CONVERGED
    on.assert_close(found.x, target, ulps=10 * on.eps**-0.5)
    assert_consistent(on, found, function, start)
    assert found.history.step[0] > 0


def test_tolerance_is_relative(on, rng, start):
    function = quadratic(on, on.rounded(rng.standard_normal((3, 4))))
    found = LBFGS(tol=0.01).minimize(function, start)
    assert found.status is Status.CONVERGED
    falls = -np.diff(found.history.objective) / found.history.objective[:-1]
    assert falls[-1] <= 0.01 < np.min(falls[:-1], initial=1.0)


def test_start_at_the_minimum_has_converged(on, rng):
    target = on.rounded(rng.standard_normal((3, 4)))
    found = LBFGS().minimize(quadratic(on, target), on.put(target))
    assert found.status is Status.CONVERGED
    assert found.value == 1.0
    on.assert_close(found.x, target, ulps=0)


def test_iterations_run_out(on):
    start = on.put([-1.2, 1.0])
    found = LBFGS(max_iter=3).minimize(rosenbrock(on), start)
    assert found.status is Status.MAX_ITER
    assert len(found.history) == 3
    assert_consistent(on, found, rosenbrock(on), start)


def test_no_iterations_give_the_start_back(on):
    start = on.put([-1.2, 1.0])
    found = LBFGS(max_iter=0).minimize(rosenbrock(on), start)
    assert found.status is Status.MAX_ITER
    assert len(found.history) == 0
    on.assert_close(found.x, on.host(start), ulps=0)
    assert found.value == rosenbrock(on)(start)[0]


def test_time_runs_out(on):
    found = LBFGS(max_time=0.0).minimize(rosenbrock(on), on.put([-1.2, 1.0]))
    assert found.status is Status.TIME_LIMIT
    assert len(found.history) == 1


def test_the_watcher_ends_the_descent(on):
    seen = []

    def watch(k, x, history):
        on.assert_lives_here(x)
        assert rosenbrock(on)(x)[0] == history.objective[-1]
        assert len(history) == k + 1
        seen.append(k)
        return Status.EARLY_STOPPED if k == 4 else None

    found = LBFGS().minimize(rosenbrock(on), on.put([-1.2, 1.0]), watch=watch)
    assert found.status is Status.EARLY_STOPPED
    assert seen == [0, 1, 2, 3, 4]
    assert len(found.history) == 5


@pytest.mark.parametrize("where", ["function", "watch"])
def test_interruptions_keep_the_lowest_point(on, where):
    values = []

    def function(x):
        if where == "function" and len(values) == 8:
            raise KeyboardInterrupt
        values.append(rosenbrock(on)(x)[0])
        return rosenbrock(on)(x)

    def watch(k, x, history):
        if where == "watch" and k == 3:
            raise KeyboardInterrupt

    start = on.put([-1.2, 1.0])
    found = LBFGS().minimize(function, start, watch=watch)
    assert found.status is Status.INTERRUPTED
    assert found.value == min(values) < values[0]
    assert_consistent(on, found, rosenbrock(on), start)


def test_a_wrong_gradient_stalls_where_it_began(on, rng, start):
    right = quadratic(on, on.rounded(rng.standard_normal((3, 4))))
    found = LBFGS().minimize(lambda X: (right(X)[0], -right(X)[1]), start)
    assert found.status is Status.STALLED
    assert found.value == right(start)[0]
    on.assert_close(found.x, on.host(start), ulps=0)


@pytest.mark.pairs
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
@pytest.mark.parametrize("part", ["value", "gradient"])
def test_a_start_that_is_not_finite_is_an_error(on, start, wrong, part):
    def function(X):
        value, slope = (wrong, 0.0) if part == "value" else (1.0, wrong)
        return value, on.put(np.full((3, 4), slope))

    with pytest.raises(FloatingPointError, match="not finite at the start"):
        LBFGS().minimize(function, start)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_steps_into_what_is_not_finite_turn_back(on, wrong):
    """``-log(1 - x²) + 5 (x - 0.95)²`` on (-1, 1): long first steps leave the interval."""

    def function(x):
        u = float(on.host(x)[0])
        if abs(u) >= 1:
            return wrong, on.put([wrong])
        value = -np.log1p(-u * u) + 5 * (u - 0.95) ** 2
        return value, on.put([2 * u / (1 - u * u) + 10 * (u - 0.95)])

    grid = np.linspace(-0.999, 0.999, 20001)
    lowest = np.min(-np.log1p(-grid * grid) + 5 * (grid - 0.95) ** 2)
    found = LBFGS(tol=1e-7).minimize(function, on.put([-0.99]))
    assert found.value <= lowest + 1e-4
    assert found.status in (Status.CONVERGED, Status.STALLED)


def test_the_lowest_point_is_kept_even_where_the_search_went_on(on):
    """A value far below the others, met once, with a gradient that leads away."""
    calls = []

    def function(x):
        calls.append(x)
        value, slope = rosenbrock(on)(x)
        return (-5.0 if len(calls) == 6 else value), slope

    found = LBFGS(max_iter=20).minimize(function, on.put([-1.2, 1.0]))
    assert found.value == -5.0
    on.assert_close(found.x, on.host(calls[5]), ulps=0)


def test_start_is_left_alone(on):
    start = on.put([-1.2, 1.0])
    LBFGS().minimize(rosenbrock(on), start)
    on.assert_close(start, on.rounded([-1.2, 1.0]), ulps=0)
