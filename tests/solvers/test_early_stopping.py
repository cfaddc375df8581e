"""An iteration ends where an error no longer falls, at its lowest, and keeps that on Ctrl-C."""

import math
import time

import numpy as np
import pytest

from gpukfl.core._results import Status
from gpukfl.solvers import ConjugateGradient, EarlyStopping

N = 40
SOLVER = ConjugateGradient(rtol=0.0, max_iter=60, check_every=1)


def noisy_problem(rng):
    """A square system whose right-hand side is noisy, so that early iterates are the best."""
    Q, _ = np.linalg.qr(rng.standard_normal((N, N)))
    A = (Q * np.geomspace(1.0, 1e-6, N)) @ Q.T
    truth = Q[:, :5] @ rng.standard_normal((5, 2))
    return A, A @ truth + 1e-3 * rng.standard_normal((N, 2)), truth


def errors_of_a_long_run(on, A, b, error):
    rule = EarlyStopping(error, patience=None)
    SOLVER.solve(lambda V: on.put(A) @ V, on.put(b), stop=rule)
    return rule.errors


@pytest.mark.parametrize("patience", [2, 4])
def test_the_error_at_the_end_is_near_the_lowest_of_a_long_run(on_double, rng, patience):
    on, (A, b, truth) = on_double, noisy_problem(rng)

    def error(x, _):
        return np.linalg.norm(on.host(x) - truth)

    rule = EarlyStopping(error, tol=1e-3, patience=patience)
    solution = SOLVER.solve(lambda V: on.put(A) @ V, on.put(b), stop=rule)
    assert solution.status is Status.EARLY_STOPPED
    assert len(rule.errors) == solution.n_iter + 1 < SOLVER.max_iter
    k, x, r = rule.best
    assert rule.errors[k] == min(rule.errors) == error(x, r)
    np.testing.assert_allclose(on.host(r), b - A @ on.host(x), atol=1e-9)
    assert min(rule.errors) <= 1.05 * min(errors_of_a_long_run(on, A, b, error))


def test_checks_that_are_read_together_end_at_the_same_step(rng):
    A, b, truth = noisy_problem(rng)
    ends = []
    for read_every in (1, 3):
        rule = EarlyStopping(lambda x, _: np.linalg.norm(x - truth), patience=2)
        solver = ConjugateGradient(0.0, max_iter=60, check_every=2, read_every=read_every)
        solution = solver.solve(lambda V: A @ V, b, stop=rule)
        ends.append((solution.n_iter, rule.best[0], rule.errors))
    assert ends[0] == ends[1]


def test_an_error_that_keeps_falling_never_ends_the_iteration():
    rule = EarlyStopping(lambda x, _: x, tol=0.1, patience=1)
    assert all(rule(k, 0.8**k, 0.0) is None for k in range(50))
    assert rule.best[0] == 49
    assert rule(50, 0.8**49 * 0.95, 0.0) is Status.EARLY_STOPPED  # lower, and no gain
    assert rule.best[0] == 50


def test_errors_that_are_no_numbers_say_nothing():
    rule = EarlyStopping(lambda x, _: x, patience=1)
    assert [rule(k, math.nan, 0.0) for k in range(3)] == [None] * 3
    assert rule.best[0] == 2
    assert rule(3, 1.0, 0.0) is None
    assert rule(4, math.nan, 0.0) is None
    assert rule.best[0] == 3
    assert rule(5, 2.0, 0.0) is Status.EARLY_STOPPED


def test_the_best_is_kept_when_the_time_is_over_and_on_interruption(rng):
    A, b, truth = noisy_problem(rng)
    rule = EarlyStopping(lambda x, _: np.linalg.norm(x - truth), deadline=time.perf_counter())
    solution = SOLVER.solve(lambda V: A @ V, b, stop=rule)
    assert (solution.status, solution.n_iter, rule.best[0]) == (Status.TIME_LIMIT, 0, 0)

    products = []

    def multiply(V):
        products.append(V)
        if len(products) == 4:
            raise KeyboardInterrupt
        return A @ V

    rule = EarlyStopping(lambda x, _: np.linalg.norm(x - truth))
    with pytest.raises(KeyboardInterrupt):
        SOLVER.solve(multiply, b, stop=rule)
    assert len(rule.errors) == 4
    assert rule.best[0] == np.argmin(rule.errors) > 0


def test_a_tolerance_that_is_reached_comes_first(rng):
    b = rng.standard_normal((N, 1))
    rule = EarlyStopping(lambda *_: 1.0, patience=1)
    solution = ConjugateGradient(check_every=1).solve(lambda V: V, b, stop=rule)
    assert (solution.status, solution.n_iter) == (Status.CONVERGED, 1)


@pytest.mark.parametrize(("name", "value"), [("tol", -1.0), ("tol", math.nan), ("patience", 0)])
def test_rules_that_cannot_be_are_errors(name, value):
    with pytest.raises(ValueError, match=f"expected {name} of at least"):
        EarlyStopping(lambda *_: 0.0, **{name: value})
