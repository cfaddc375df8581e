"""HKRR's objective is the paper's, its gradients are those of its values, and fits lower it."""

import numpy as np
import oracles
import pytest
from registry import KERNEL_CASES, Counting

import gpukfl
from gpukfl.core._results import Status
from gpukfl.kernels import Gaussian, Matern52
from gpukfl.methods import (
    HyperKernelObjective,
    average_gradient_outer_product,
    choose_jitter,
    fit_hkrr,
    resized_map,
)
from gpukfl.methods._hkrr import _Ball
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import LBFGS, AlternatingGradient, VariableProjection

kernels = pytest.mark.parametrize("case", KERNEL_CASES, ids=str)
weighted = pytest.mark.parametrize("weighted", [False, True])
OPTIMIZERS = [LBFGS(max_iter=15), VariableProjection(max_iter=15), AlternatingGradient(max_iter=15)]
optimizers = pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=lambda o: type(o).__name__)
learning = pytest.mark.parametrize("learn", [False, True])
RIDGE = 1e-2


class Problem:
    """Host float64 data with the dense objective, and the same on a place."""

    def __init__(self, on, rng, formula=None, kernel=None, *, weighted=False, t=2, n=23, q=6):
        self.on, d = on, 4
        self.formula = formula or (lambda U, V: oracles.gaussian(U, V, 1.0))
        self.X = on.rounded(rng.standard_normal((n, d)))
        self.Z = self.X[:q]  # samples, as in use
        self.Y = on.rounded(np.sin(self.X[:, :1] + self.X[:, 1:2]) + rng.standard_normal((n, t)))
        self.D = on.rounded(rng.uniform(0.5, 2.0, (n, 1)) if weighted else np.ones((n, 1)))
        self.B = on.rounded(0.5 * rng.standard_normal((2, d)))
        self.alpha = rng.standard_normal((q, t))
        self.objective = HyperKernelObjective(
            kernel or Gaussian(),
            Rows(on.put(self.X), on.reference),
            on.put(self.Z),
            on.put(self.Y),
            ridge=RIDGE,
            weights=on.put(self.D) if weighted else None,
        )

    @classmethod
    def of(cls, on, rng, case, **settings):
        return cls(on, rng, case.formula, case.kernel, **settings)

    def matrices(self, B):
        U, V = self.X @ B.T, self.Z @ B.T
        core = self.formula(V, V)
        share = choose_jitter(self.objective.operator(self.map_arrays()[0]), RIDGE)
        return self.formula(U, V), core + share * np.trace(core) / len(core) * np.eye(len(core))

    def value(self, B, alpha):
        K, core = self.matrices(B)
        misfit = np.sum(self.D * (K @ alpha - self.Y) ** 2) / np.sum(self.D)
        return misfit + RIDGE * np.sum(alpha * (core @ alpha))

    def reduced(self, B):
        """Minimum over α, by least squares on the stacked system."""
        K, core = self.matrices(B)
        squares, Q = np.linalg.eigh(core)
        root = np.sqrt(RIDGE * np.maximum(squares, 0.0))[:, None] * Q.T
        share = np.sqrt(self.D / np.sum(self.D))
        left = np.concatenate([share * K, root])
        right = np.concatenate([share * self.Y, np.zeros((len(core), self.Y.shape[1]))])
        return self.value(B, np.linalg.lstsq(left, right, rcond=1e-14)[0])

    def map_arrays(self):
        return self.on.put(self.B), self.on.put(self.alpha, "float64")


def relative(actual, expected):
    return np.max(np.abs(actual - expected)) / np.max(np.abs(expected))


@pytest.mark.few
@pytest.mark.each
@kernels
@pytest.mark.parametrize(("weighted", "t"), [(False, 1), (True, 3)])
def test_value_and_gradients_are_those_of_the_formula(on, rng, case, weighted, t):
    problem = Problem.of(on, rng, case, weighted=weighted, t=t)
    B, alpha = problem.map_arrays()
    slack = 2000 * on.eps
    expected = problem.value(problem.B, problem.alpha)
    assert problem.objective.value(B, alpha) == pytest.approx(expected, rel=slack)
    slopes = oracles.slopes(lambda V: problem.value(V, problem.alpha), problem.B, 1e-6)
    gradient = problem.objective.gradient_B(B, alpha)
    on.assert_close(gradient, slopes, ulps=(slack + 1e-6) / on.eps)
    K, core = problem.matrices(problem.B)
    pull = problem.D * (K @ problem.alpha - problem.Y) / np.sum(problem.D)
    slopes = 2 * K.T @ pull + 2 * RIDGE * core @ problem.alpha
    gradient = problem.objective.gradient_alpha(B, alpha)
    on.assert_lives_here(gradient, "float64")
    assert relative(on.host(gradient), slopes) <= slack


@pytest.mark.few
@pytest.mark.each
@kernels
@weighted
def test_reduced_is_the_minimum_over_alpha(on_double, rng, case, weighted):
    problem = Problem.of(on_double, rng, case, weighted=weighted)
    value, gradient = problem.objective.reduce(problem.map_arrays()[0])
    assert value == pytest.approx(problem.reduced(problem.B), rel=1e-7)
    # Polynomials of degree 2 in two variables have rank 6: the core is nearly singular
    slopes = oracles.slopes(problem.reduced, problem.B, 1e-5)
    on_double.assert_close(gradient, slopes, ulps=1e-6 / on_double.eps)


def test_reduced_in_either_precision(on, rng):
    problem = Problem(on, rng)
    B, _ = problem.map_arrays()
    value, gradient = problem.objective.reduce(B)
    assert value == pytest.approx(problem.reduced(problem.B), rel=1e4 * on.eps)
    slopes = oracles.slopes(problem.reduced, problem.B, 1e-5)
    assert relative(on.host(gradient), slopes) <= 5e4 * on.eps + 1e-6
    alpha = problem.objective.minimize_alpha(B)
    on.assert_lives_here(alpha, "float64")
    assert problem.objective.value(B, alpha) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(("ridge", "slack"), [(1e-2, 0.01), (1e-4, 0.05)])
def test_gradients_in_single_precision_are_those_of_double(rng, ridge, slack):
    """The coefficients of a smooth kernel are large, and so is what rounding makes of them."""
    X = rng.standard_normal((160, 4))
    Y = np.sin(2.0 * X[:, :1]) + X[:, 1:2] * X[:, 2:3]
    B = 0.3 * rng.standard_normal((2, 4))

    def slopes(dtype):
        rows = X.astype(dtype)
        objective = HyperKernelObjective(
            Gaussian(), Rows(rows, rows[:0, 0]), rows, Y.astype(dtype), ridge=ridge
        )
        return objective.reduce(B.astype(dtype))[1]

    assert relative(slopes(np.float32), slopes(np.float64)) <= slack


@pytest.mark.parametrize("budget", [1, 3000])
def test_blocks_change_rounding_only(on, rng, budget):
    problem = Problem(on, rng, weighted=True)
    B, alpha = problem.map_arrays()
    with gpukfl.memory_budget(budget):
        value = problem.objective.value(B, alpha)
        gradient = problem.objective.gradient_B(B, alpha)
    assert value == pytest.approx(problem.value(problem.B, problem.alpha), rel=2000 * on.eps)
    slopes = oracles.slopes(lambda V: problem.value(V, problem.alpha), problem.B, 1e-6)
    on.assert_close(gradient, slopes, ulps=2000 + 1e-6 / on.eps)


def test_weights_count_relative_to_their_sum(on_double, rng):
    problem = Problem(on_double, rng, weighted=True)
    B, alpha = problem.map_arrays()
    more = HyperKernelObjective(
        Gaussian(),
        problem.objective.rows,
        problem.objective.Z,
        problem.objective.Y,
        ridge=RIDGE,
        weights=on_double.put(7.0 * problem.D),
    )
    assert more.value(B, alpha) == pytest.approx(problem.objective.value(B, alpha), rel=1e-13)


def test_values_at_one_map_are_computed_once(on, rng, monkeypatch):
    monkeypatch.setenv("GPUKFL_NUM_THREADS", "1")
    kernel = Counting(Gaussian())
    problem = Problem(on, rng, kernel=kernel)
    B, _ = problem.map_arrays()
    problem.objective.reduce(B)
    assert kernel.seen.count(23) == 1
    problem.objective.reduce(on.put(2 * problem.B))
    assert kernel.seen.count(23) == 2


@pytest.mark.pairs
@pytest.mark.parametrize("shape", [(2, 4), (4, 4), (3, 1), (1, 30)])
@pytest.mark.parametrize("size", [0.1, 3.0])
def test_projection_clips_singular_values(on, rng, shape, size):
    objective = Problem(on, rng).objective
    B = on.rounded(size * rng.standard_normal(shape))
    U, s, Vt = np.linalg.svd(B, full_matrices=False)
    nearest = (U * np.minimum(s, 1.0)) @ Vt
    once = objective.project(on.put(B))
    on.assert_close(once, nearest, ulps=100)
    on.assert_close(objective.project(once), nearest, ulps=100)


@pytest.mark.parametrize("size", [0.5, 2.0, 10.0])
def test_gradient_through_the_ball_is_that_of_the_shortened_map(on_double, rng, size):
    on, problem = on_double, Problem(on_double, rng)
    C = size * problem.B / np.linalg.norm(problem.B, 2)

    def shortened(V):
        return V * min(1.0, 1.7 / np.linalg.norm(V, 2))

    ball = _Ball(problem.objective, 1.7)
    on.assert_close(ball.inside(on.put(C)), shortened(C), ulps=10)
    value, gradient = ball.reduce(on.put(C))
    assert value == pytest.approx(problem.reduced(shortened(C)), rel=1e-8)
    slopes = oracles.slopes(lambda V: problem.reduced(shortened(V)), C, 1e-5)
    on.assert_close(gradient, slopes, ulps=1e-6 / on.eps)


@pytest.mark.pairs
@optimizers
@learning
def test_fits_lower_the_objective_inside_the_bound(on, rng, optimizer, learn):
    problem = Problem(on, rng, n=60, q=10)
    objective, start = problem.objective, problem.objective.project(on.put(problem.B))
    first, _ = objective.reduce(start / 2.0)
    found = fit_hkrr(
        objective, start, lengthscale=2.0, learn_lengthscale=learn, optimizer=optimizer
    )
    on.assert_lives_here(found.B)
    assert found.B.shape == start.shape
    assert found.value < first
    norm = np.linalg.norm(on.host(found.B), 2)
    assert norm <= 1 + 100 * on.eps
    if learn and isinstance(optimizer, LBFGS):
        assert norm == pytest.approx(1.0, abs=100 * on.eps)
        assert found.lengthscale != 2.0
    else:
        assert found.lengthscale == 2.0
    # What is given is what was found
    C = on.host(found.B).astype(np.float64) / found.lengthscale
    assert found.value >= problem.reduced(C) - 1e3 * on.eps
    if not isinstance(optimizer, AlternatingGradient):
        # Up to the jitter, which float32 needs
        slack = 1e-2 if on.dtype_name == "float32" else 1e-6
        assert found.value == pytest.approx(problem.reduced(C), rel=slack)
    values = [first * (1 + 1e4 * on.eps), *found.history.objective]
    if not isinstance(optimizer, LBFGS):
        values = found.history.objective
    assert np.all(np.diff(values) <= 0)
    assert isinstance(found.status, Status)


def test_the_bound_holds_for_starts_outside(on, rng):
    problem = Problem(on, rng, n=60, q=10)
    B = on.put(10 * problem.B)
    for optimizer in OPTIMIZERS:
        found = fit_hkrr(
            problem.objective, B, lengthscale=1.0, learn_lengthscale=False, optimizer=optimizer
        )
        assert np.linalg.norm(on.host(found.B), 2) <= 1 + 100 * on.eps


@optimizers
def test_the_watcher_sees_maps_and_ends_the_fit(on, rng, optimizer):
    problem, seen = Problem(on, rng, n=60, q=10), []

    def watch(k, C, history):
        on.assert_lives_here(C)
        seen.append((k, C.shape, len(history)))
        return Status.EARLY_STOPPED if k == 1 else None

    found = fit_hkrr(
        problem.objective, on.put(problem.B), lengthscale=2.0, optimizer=optimizer, watch=watch
    )
    assert found.status is Status.EARLY_STOPPED
    assert seen == [(0, (2, 4), 1), (1, (2, 4), 2)]


@pytest.mark.pairs
def test_noise_of_near_copies_asks_for_no_lengthscale_shorter_than_is_allowed(on, rng):
    X = np.repeat(rng.standard_normal((20, 2)), 2, axis=0)
    X[1::2] += 0.01
    X, Y = on.put(on.rounded(X)), on.put(rng.standard_normal((40, 1)))
    objective = HyperKernelObjective(Gaussian(), Rows(X, on.reference), X, Y, ridge=1e-2)
    start = on.put([[1.0, 0.0], [0.0, 1.0]])
    learned = {
        least: fit_hkrr(objective, start, lengthscale=1.0, shortest=least, optimizer=LBFGS())
        for least in (0.0, 0.05)
    }
    assert learned[0.0].lengthscale < 0.03
    bounded = learned[0.05]
    assert bounded.lengthscale == pytest.approx(0.05, rel=0.05)
    assert bounded.lengthscale >= 0.05 * (1 - 100 * on.eps)
    assert np.linalg.norm(on.host(bounded.B), 2) == pytest.approx(1.0, abs=100 * on.eps)
    # What is given is the objective where it ended
    C = bounded.B / bounded.lengthscale
    assert bounded.value == pytest.approx(objective.reduce(C)[0], rel=1e4 * on.eps)


def test_the_direction_behind_the_data_is_found(on, rng):
    X = rng.standard_normal((200, 5))
    truth = np.array([1.0, -1.0, 0.0, 0.5, 0.0]) / 1.5
    Y = np.sin(2 * X @ truth)[:, None] + 0.05 * rng.standard_normal((200, 1))
    X, Y = on.put(X), on.put(Y)
    objective = HyperKernelObjective(Matern52(), Rows(X, on.reference), X[:25, :], Y, ridge=1e-3)
    start = on.put([[0.5, -0.2, 0.3, 0.3, 0.2]])
    found = fit_hkrr(objective, start, lengthscale=1.0, optimizer=LBFGS(max_iter=60))
    row = on.host(found.B)[0]
    assert abs(row @ truth) >= 0.98 * np.linalg.norm(row)


@pytest.mark.few
@pytest.mark.each
@kernels
@pytest.mark.parametrize(("mapped", "t"), [(False, 1), (True, 3)])
def test_gradient_directions_are_those_of_the_fit(on_double, rng, case, mapped, t):
    on, n = on_double, 9
    X, Z = rng.standard_normal((n, 3)), rng.standard_normal((5, 3))
    alpha, B = rng.standard_normal((5, t)), rng.standard_normal((2, 3))
    M = B if mapped else np.eye(3)
    expected = np.zeros((3, 3))
    for c in range(t):
        slopes = oracles.slopes(
            lambda V, c=c: np.sum(case.formula(V @ M.T, Z @ M.T) @ alpha[:, c]), X, 1e-6
        )
        expected += slopes.T @ slopes / n
    placed = on.put(B) if mapped else None
    operator = KernelOperator(case.kernel, Rows(on.put(X), on.reference), on.put(Z), placed)
    G = average_gradient_outer_product(operator, on.put(alpha))
    on.assert_close(G, expected, ulps=1e-6 / on.eps)


def test_gradient_directions_keep_place(on, rng):
    X = on.put(rng.standard_normal((9, 3)))
    alpha = on.put(rng.standard_normal((4, 2)), "float64")
    operator = KernelOperator(Gaussian(), Rows(X, on.reference), X[:4, :])
    on.assert_lives_here(average_gradient_outer_product(operator, alpha), "float64")


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_resized_maps_keep_what_leads(on, rng, k):
    B = on.rounded(rng.standard_normal((3, 6)))
    s = np.linalg.svd(B, compute_uv=False)
    resized = resized_map(on.put(B), k, rng=np.random.RandomState(0))
    on.assert_lives_here(resized)
    assert resized.shape == (k, 6)
    host = on.host(resized).astype(np.float64)
    values, Q = np.linalg.eigh(B.T @ B)
    kept = Q[:, -min(k, 3) :]
    expected = (kept * values[-min(k, 3) :]) @ kept.T
    old = host[: min(k, 3)]
    assert relative(old.T @ old, expected) <= 200 * on.eps
    new = np.linalg.norm(host[3:], axis=1)
    assert np.all((new > 0) & (new < 0.1 * s[0]))


def test_resized_maps_are_alike_everywhere(on_double, rng):
    B = rng.standard_normal((2, 6))
    expected = resized_map(B, 4, rng=np.random.RandomState(3))
    actual = resized_map(on_double.put(B), 4, rng=np.random.RandomState(3))
    on_double.assert_close(actual, expected, ulps=0)
