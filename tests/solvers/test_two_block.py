"""Both descents on two blocks fall at every step, and say how they ended.

Most tests are on the toy function of Huang et al., Appendix D.2,
``f(x, y) = (x - y²)² + cos(pi y) + (1 - y)² + 1``, with x for α and y for B.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq

from gpukfl.core._results import Status
from gpukfl.solvers import AlternatingGradient, ArmijoSearch, VariableProjection

solvers = pytest.mark.parametrize("kind", [VariableProjection, AlternatingGradient])
STARTS = [(-1.5, -1.5), (-1.5, -0.1), (0.3, 1.7), (2.0, 0.0)]
starts = pytest.mark.parametrize("start", STARTS, ids=str)


class Toy:
    """The paper's function; `bound` limits y, `wrong` turns the gradients round."""

    def __init__(self, on, *, bound=math.inf, wrong=False):
        self.on, self.bound, self.sign = on, bound, -1.0 if wrong else 1.0
        self.points = []  # where it was evaluated

    def host(self, *arrays):
        return [float(self.on.host(a)[0, 0]) for a in arrays]

    def put(self, value):
        return self.on.put([[value]])

    def value(self, B, alpha):
        y, x = self.host(B, alpha)
        self.points.append((y, x))
        return (x - y * y) ** 2 + math.cos(math.pi * y) + (1 - y) ** 2 + 1

    def gradient_B(self, B, alpha):  # noqa: N802
        y, x = self.host(B, alpha)
        slope = -4 * y * (x - y * y) - math.pi * math.sin(math.pi * y) - 2 * (1 - y)
        return self.put(self.sign * slope)

    def gradient_alpha(self, B, alpha):
        y, x = self.host(B, alpha)
        return self.put(self.sign * 2 * (x - y * y))

    def minimize_alpha(self, B):
        return self.put(self.host(B)[0] ** 2)

    def project(self, B):
        return self.on.xp.clip(B, min=-self.bound, max=self.bound)


def stationary():
    """Values of y where the reduced function is flat."""

    def slope(y):
        return -math.pi * math.sin(math.pi * y) - 2 * (1 - y)

    grid = np.linspace(-4, 4, 2001)
    return [brentq(slope, a, b) for a, b in itertools.pairwise(grid) if slope(a) * slope(b) <= 0]


def run(on, kind, start=STARTS[0], *, toy=None, watch=None, **settings):
    toy = toy or Toy(on)
    x, y = start
    extra = {"watch": watch} if watch else {}
    return toy, kind(**settings).minimize(toy, toy.put(y), toy.put(x), **extra)


def assert_consistent(on, toy, found):
    """The point has the value that is reported, and the history is complete."""
    for block in (found.B, found.alpha):
        on.assert_lives_here(block)
    assert toy.value(found.B, found.alpha) == found.value
    history = found.history
    assert len(history.objective) == len(history.step) == len(history.residual)
    assert len(history.seconds) == len(history)
    if len(history):
        assert found.value == history.objective[-1]


@pytest.mark.pairs
@solvers
@starts
def test_values_fall_until_a_stationary_point(on, kind, start):
    toy, found = run(on, kind, start, tol=on.eps)
    assert found.status in (Status.CONVERGED, Status.STALLED)  # stalled: to the last digit
    assert_consistent(on, toy, found)
    first = toy.value(toy.put(start[1]), toy.put(start[0]))
    assert np.all(np.diff([first, *found.history.objective]) <= 0)
    y, x = toy.host(found.B, found.alpha)
    slack = 30 * on.eps**0.5
    assert min(abs(y - root) for root in stationary()) <= slack
    assert abs(x - y * y) <= slack * 10


@solvers
def test_the_global_minimum_is_found_from_nearby(on, kind):
    _, found = run(on, kind, (0.8, 1.2), tol=on.eps)
    on.assert_close(found.B, [[1.0]], ulps=10 * on.eps**-0.5)
    on.assert_close(found.alpha, [[1.0]], ulps=30 * on.eps**-0.5)
    assert found.value <= 100 * on.eps


def test_the_best_alpha_is_where_variable_projection_starts_and_ends(on):
    toy = Toy(on)
    found = VariableProjection(max_iter=4).minimize(toy, toy.put(-1.5))
    on.assert_close(found.alpha, on.host(toy.minimize_alpha(found.B)), ulps=0)
    assert toy.points[0] == (-1.5, 2.25)


@pytest.mark.pairs
@solvers
@pytest.mark.parametrize("delta", [0.8, 1.0])
def test_every_accepted_step_satisfies_armijo(on_double, kind, delta, monkeypatch):
    taken = []
    search = ArmijoSearch(dilatation=delta, decay=0.1, largest=0.5)
    plain = ArmijoSearch.step

    def step(self, x, value, gradient, last, evaluate, project=lambda x: x):
        out = plain(self, x, value, gradient, last, evaluate, project)
        taken.append((x, value, gradient, last, out))
        return out

    monkeypatch.setattr(ArmijoSearch, "step", step)
    run(on_double, kind, search=search, step_size=3.0)
    accepted = [entry for entry in taken if entry[-1] is not None]
    assert len(accepted) > 5
    for x, value, gradient, last, (new, new_value, size) in accepted:
        square = float(gradient[0, 0]) ** 2
        assert new_value - value < -0.1 * size * square
        assert float(new[0, 0]) == pytest.approx(float(x[0, 0] - size * gradient[0, 0]), abs=1e-14)
        # Algorithms 3 and 4: min(s / (rho delta), s_max), times rho until it holds
        tries = math.log(size / min(last / (0.5 * delta), 0.5)) / math.log(0.5)
        assert tries == pytest.approx(round(tries), abs=1e-9)
        assert round(tries) >= 1


def test_larger_steps_than_the_accepted_one_fail(on_double):
    on = on_double
    search, function = ArmijoSearch(decay=0.3), lambda x: float(x[0, 0]) ** 4
    x = on.put([[1.0]])
    _, value, size = search.step(x, 1.0, on.put([[4.0]]), 100.0, function)
    assert value - 1.0 < -0.3 * size * 16
    assert (1 - 4 * 2 * size) ** 4 - 1.0 >= -0.3 * 2 * size * 16


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_steps_to_what_is_not_finite_are_refused(on, wrong):
    x, slope = on.put([[1.0]]), on.put([[1.0]])
    function = lambda x: wrong if float(x[0, 0]) < 0.6 else float(x[0, 0])  # noqa: E731
    new, _, _ = ArmijoSearch().step(x, 1.0, slope, 1.0, function)
    assert 0.6 <= float(new[0, 0]) < 1.0
    assert ArmijoSearch().step(x, 1.0, slope, 1.0, lambda _: wrong) is None


def test_steps_are_at_most_the_largest(on):
    x, slope = on.put([[1.0]]), on.put([[1.0]])
    _, _, size = ArmijoSearch(largest=0.01).step(x, 1.0, slope, 5.0, lambda x: float(x[0, 0]))
    assert size == 0.005


@solvers
def test_the_constraint_holds_and_its_edge_is_reached(on, kind):
    toy = Toy(on, bound=0.5)
    inside = []
    _, found = run(
        on,
        kind,
        (0.1, 0.2),
        toy=toy,
        watch=lambda _k, B, _history: inside.append(toy.host(B)[0]),
    )
    assert np.all(np.abs(inside) <= 0.5)
    # f falls with y up to 1, once alpha follows
    on.assert_close(found.B, [[0.5]], ulps=0)
    on.assert_close(found.alpha, [[0.25]], ulps=100 * on.eps**-0.5)
    # Only steps that project onto the constraint were evaluated
    assert np.all(np.abs([y for y, _ in toy.points]) <= 0.5)


def test_matrices_are_projected_as_they_are_stepped(on, rng):
    """Nearest point of a ball to a target: one projected step lands on it."""
    target = on.rounded(rng.standard_normal((3, 4)))

    class Nearest:
        def value(self, B, _alpha):
            return float(np.sum((on.host(B).astype(np.float64) - target) ** 2))

        def gradient_B(self, B, _alpha):  # noqa: N802
            return on.put(2 * (on.host(B) - target))

        def minimize_alpha(self, _B):
            return on.put(np.zeros((1, 1)))

        def project(self, B):
            host = on.host(B)
            return on.put(host / max(1.0, np.linalg.norm(host)))

    found = VariableProjection(tol=on.eps).minimize(Nearest(), on.put(np.zeros((3, 4))))
    on.assert_close(found.B, target / np.linalg.norm(target), ulps=30 * on.eps**-0.5)


@solvers
def test_convergence_needs_two_flat_iterations(on, kind):
    _, found = run(on, kind, tol=1e-3)
    assert found.status is Status.CONVERGED
    falls = -np.diff(found.history.objective) / np.abs(found.history.objective[:-1])
    assert np.all(falls[-2:] <= 1e-3)
    flat = falls[:-1] <= 1e-3
    assert not np.any(flat[1:] & flat[:-1])


@solvers
def test_iterations_run_out(on, kind):
    toy, found = run(on, kind, max_iter=2)
    assert found.status is Status.MAX_ITER
    assert len(found.history) == 2
    assert_consistent(on, toy, found)


@solvers
def test_no_iterations_give_the_start_back(on, kind):
    toy, found = run(on, kind, max_iter=0)
    assert found.status is Status.MAX_ITER
    assert toy.host(found.B, found.alpha) == [-1.5, -1.5]
    assert_consistent(on, toy, found)


@solvers
def test_time_runs_out(on, kind):
    _, found = run(on, kind, max_time=0.0)
    assert found.status is Status.TIME_LIMIT
    assert len(found.history) == 1


@solvers
def test_the_watcher_ends_the_descent(on, kind):
    seen = []

    def watch(k, B, history):
        on.assert_lives_here(B)
        assert len(history) == k + 1
        seen.append(k)
        return Status.EARLY_STOPPED if k == 2 else None

    _, found = run(on, kind, watch=watch)
    assert found.status is Status.EARLY_STOPPED
    assert seen == [0, 1, 2]


@pytest.mark.pairs
@solvers
@pytest.mark.parametrize("where", ["value", "gradient_B", "watch"])
def test_interruptions_keep_the_last_point(on, kind, where):
    toy, calls = Toy(on), []

    def interrupted(*arguments):
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return plain(*arguments) if where != "watch" else None

    plain = getattr(toy, where, None)
    watch = interrupted if where == "watch" else None
    if where != "watch":
        setattr(toy, where, interrupted)
    _, found = run(on, kind, toy=toy, watch=watch)
    assert found.status is Status.INTERRUPTED
    assert_consistent(on, Toy(on), found)


@solvers
def test_wrong_gradients_stall_at_the_start_with_no_worse_alpha(on, kind):
    toy, found = run(on, kind, toy=Toy(on, wrong=True))
    assert found.status is Status.STALLED
    assert toy.host(found.B, found.alpha) == [-1.5, 2.25 if kind is VariableProjection else -1.5]
    assert_consistent(on, toy, found)


@solvers
def test_flat_starts_have_converged(on, kind):
    _, found = run(on, kind, (1.0, 1.0))
    # sin(pi) is not 0 in floating point: the last digit may still move
    assert found.status in (Status.CONVERGED, Status.STALLED)
    on.assert_close(found.B, [[1.0]], ulps=10)

    toy = Toy(on)
    toy.value = lambda *_: 1.0
    toy.gradient_B = toy.gradient_alpha = lambda *_: toy.put(0.0)
    assert run(on, kind, toy=toy)[1].status is Status.CONVERGED


@pytest.mark.pairs
@solvers
@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_a_start_that_is_not_finite_is_an_error(on, kind, wrong):
    toy = Toy(on)
    toy.value = lambda *_: wrong
    with pytest.raises(FloatingPointError, match="not finite at the start"):
        run(on, kind, toy=toy)


def test_alternating_steps_go_on_in_one_block_while_the_other_is_flat(on):
    toy = Toy(on)
    toy.gradient_B = lambda *_: toy.put(0.0)
    _, found = run(on, AlternatingGradient, (2.0, 0.5), toy=toy, tol=on.eps)
    on.assert_close(found.B, [[0.5]], ulps=0)
    on.assert_close(found.alpha, [[0.25]], ulps=30 * on.eps**-0.5)


@pytest.mark.parametrize("inner", [1, 3])
def test_alternating_takes_its_inner_steps(on, inner):
    toy, slopes = Toy(on), []
    plain = toy.gradient_alpha
    toy.gradient_alpha = lambda B, alpha: slopes.append(1) or plain(B, alpha)
    run(on, AlternatingGradient, toy=toy, max_iter=4, inner_steps=inner)
    assert len(slopes) == 4 * inner


@solvers
def test_a_fixed_first_step_is_taken(on, kind):
    _, found = run(on, kind, max_iter=1, step_size=1e-4)
    assert found.history.step == [pytest.approx(1e-4 / 0.8)]
