"""The ridge system: certified bounds, the dense solution, weights as repetitions."""

from dataclasses import replace

import numpy as np
import oracles
import pytest
from registry import KERNELS, Problem

import gpukfl
from gpukfl.core._results import Status
from gpukfl.methods import RidgeSystem, _ridge, paper_ridge
from gpukfl.operators import CenteredKernel
from gpukfl.partitioned._rows import Rows

RIDGE = 0.01
BROWNIAN, BINNED, EUCLIDEAN, *_ = KERNELS
weights = pytest.mark.parametrize("weighted", [False, True])


@pytest.fixture(params=["direct", "iterative"])
def path(request, monkeypatch):
    """Both ways to solve."""
    if request.param == "iterative":
        monkeypatch.setattr(_ridge, "DIRECT_UP_TO", 0)
    return request.param


class Ridge:
    """A system on a place, and its dense float64 twin on the host."""

    def __init__(self, on, rng, *, weighted=False, n=60, case=BROWNIAN, ridge=RIDGE):
        self.on, self.n, self.ridge = on, n, ridge
        self.problem = Problem.draw(on, rng, n=n)
        self.Y = on.rounded(np.tanh(self.problem.X[:, :2]) + 3.0 + rng.standard_normal((n, 2)))
        self.s = self.problem.s if weighted else np.ones((n, 1))
        roots = on.put(self.s) if weighted else None
        self.system = RidgeSystem(on.put(self.Y), ridge, roots)
        self.kernel = case.build(on, self.problem)
        self.K = case.dense(self.problem)
        self.N = np.sum(self.s**2)
        self.target = oracles.centered(self.s * self.Y, self.s)
        inside = oracles.centered(oracles.centered(self.s * self.K * self.s.T, self.s).T, self.s)
        self.A = inside + self.N * ridge * np.eye(n)
        self.beta = np.linalg.solve(self.A, self.target)
        self.G = 0.5 * ridge * np.sum(self.target * self.beta)

    def rounding(self, beta, residual):
        """Rounding error of the bounds."""
        terms = np.abs(self.on.host(beta)) * (np.abs(self.target) + np.abs(self.on.host(residual)))
        return self.on.eps * (100 * self.ridge * np.sum(terms) + 1e-4)

    def residual(self, beta):
        """What is left of the target, computed on the place."""
        product = CenteredKernel(self.kernel, self.system.root_weights) @ beta
        return self.system.target - (product + self.system.shift * beta)


@weights
def test_target_is_centred_and_weight_is_the_sum(on, rng, weighted):
    ridge = Ridge(on, rng, weighted=weighted)
    on.assert_close(ridge.system.target, ridge.target, ulps=20)
    assert ridge.system.weight == pytest.approx(ridge.N, rel=10 * on.eps)


@weights
def test_bounds_are_certified(on, rng, weighted):
    ridge = Ridge(on, rng, weighted=weighted)
    for size in (0.0, 1e-3, 0.1, 1.0):
        beta = on.put(ridge.beta + size * rng.standard_normal(ridge.beta.shape))
        residual = ridge.residual(beta)
        lower, upper = ridge.system.bounds(beta, residual)
        slack = ridge.rounding(beta, residual)
        assert lower - slack <= ridge.G <= upper + slack
        if size == 0.0:
            assert upper - lower <= 1e4 * on.eps * ridge.G


@weights
def test_bounds_are_attained(on, rng, weighted):
    ridge = Ridge(on, rng, weighted=weighted)
    # Along the roots of the weights the kernel vanishes, and only the shift is left
    beta = on.put(ridge.beta + 0.1 * ridge.s)
    residual = ridge.residual(beta)
    lower, upper = ridge.system.bounds(beta, residual)
    slack = ridge.rounding(beta, residual)
    assert abs(upper - ridge.G) <= slack
    assert lower < ridge.G - 100 * slack


@pytest.mark.pairs
@weights
@pytest.mark.parametrize("case", [BROWNIAN, EUCLIDEAN], ids=str)
def test_solution_is_the_dense_one(on, rng, path, weighted, case):
    ridge = Ridge(on, rng, weighted=weighted, case=case)
    solution = ridge.system.solve(ridge.kernel, rtol=ridge.system.tight())
    assert solution.status is Status.CONVERGED
    # Conjugate gradients leave a residual; in either case the condition number multiplies it
    ulps = 1000 + (np.linalg.cond(ridge.A) * ridge.system.tight() / on.eps)
    on.assert_close(solution.x, ridge.beta, ulps=ulps)
    on.assert_close(
        solution.residual, on.host(ridge.residual(solution.x)), ulps=1000, scale=ridge.n
    )
    assert ridge.system.relative_residual(solution.residual) <= 100 * ridge.system.tight()


@pytest.mark.pairs
@weights
def test_predictions_solve_the_bordered_system(on, rng, path, weighted):
    ridge = Ridge(on, rng, weighted=weighted)
    n = ridge.n
    bordered = np.ones((n + 1, n + 1))
    bordered[:n, :n] = ridge.K + np.diag(ridge.N * RIDGE / ridge.s[:, 0] ** 2)
    bordered[n, n] = 0.0
    dense = np.linalg.solve(bordered, np.concatenate([ridge.Y, np.zeros((1, 2))]))
    solution = ridge.system.solve(ridge.kernel, rtol=ridge.system.tight())
    alpha = ridge.system.coefficients(solution.x)
    fitted = on.xp.astype(ridge.kernel @ alpha, alpha.dtype)
    intercept = ridge.system.intercept(fitted)
    on.assert_lives_here(intercept)
    ulps = 1000 + 10 * np.linalg.cond(ridge.A) * ridge.system.tight() / on.eps
    on.assert_close(alpha, dense[:n], ulps=ulps)
    expected = ridge.K @ dense[:n] + dense[n]
    on.assert_close(fitted + intercept, expected, ulps=ulps)
    assert np.max(np.abs(np.sum(on.host(alpha), axis=0))) <= 100 * on.eps * np.sum(np.abs(dense))


def test_weights_are_repetitions(on, rng, path):
    n = 40
    p = Problem.draw(on, rng, n=n)
    Y = on.rounded(rng.standard_normal((n, 2)))
    times = rng.integers(1, 4, n)
    again = np.repeat(np.arange(n), times)
    once = RidgeSystem(on.put(Y), RIDGE, on.put(np.sqrt(times)[:, None]))
    repeated = RidgeSystem(on.put(Y[again]), RIDGE)
    alphas, predictions = [], []
    for system, index in ((once, np.arange(n)), (repeated, again)):
        kernel = BROWNIAN.build(on, p.taken(index))
        solution = system.solve(kernel, rtol=system.tight())
        alpha = system.coefficients(solution.x)
        fitted = on.xp.astype(kernel @ alpha, alpha.dtype)
        summed = np.zeros((n, 2))
        np.add.at(summed, index, on.host(alpha))
        alphas.append(summed)
        values = on.host(fitted + system.intercept(fitted))
        predictions.append(values[np.unique(index, return_index=True)[1]])
    slack = 1e4 * once.tight()
    for first, second in (alphas, predictions):
        assert np.max(np.abs(first - second)) <= slack * np.max(np.abs(second))


def test_a_constant_target_is_the_intercept(on, rng, path):
    ridge = Ridge(on, rng)
    system = RidgeSystem(on.put(np.full((60, 1), 2.5)), RIDGE)
    solution = system.solve(ridge.kernel, rtol=1e-4)
    on.assert_close(solution.x, np.zeros((60, 1)), ulps=0)
    on.assert_close(system.intercept(solution.x), [2.5], ulps=2)
    assert system.relative_residual(solution.residual) == 0.0


def test_a_kernel_that_is_not_finite_is_a_breakdown(on, rng, path):
    ridge = Ridge(on, rng, case=EUCLIDEAN)
    X = ridge.problem.X.copy()
    X[3, 0] = np.nan
    broken = EUCLIDEAN.build(on, Problem(X, ridge.problem.W, ridge.s))
    assert ridge.system.solve(broken, rtol=1e-4).status is Status.BREAKDOWN


def test_the_residual_is_the_true_one_also_where_the_condition_is_bad(on, rng, monkeypatch):
    monkeypatch.setattr(_ridge, "DIRECT_UP_TO", 0)
    ridge = Ridge(on, rng, n=300, ridge=1e-6)
    solution = ridge.system.solve(ridge.kernel, rtol=ridge.system.tight())
    # The matrix of the projections as this precision rounds them
    A = np.empty((len(ridge.problem.W.T), ridge.n))
    sorted_rows = ridge.kernel.sorted
    np.put_along_axis(A, on.host(sorted_rows.order), on.host(sorted_rows.values), axis=1)
    K = oracles.centered(oracles.centered(-0.5 * np.mean(np.abs(oracles.gaps(A)), axis=0)).T)
    beta = on.host(solution.x).astype(np.float64)
    missing = ridge.target - K @ beta - ridge.N * ridge.ridge * beta
    excess = np.linalg.norm(missing) - 2 * np.linalg.norm(on.host(solution.residual))
    assert excess <= 100 * on.eps * np.linalg.norm(ridge.target)


def test_a_long_solve_makes_a_sketch_that_shortens_the_next(on, rng, monkeypatch):
    monkeypatch.setattr(_ridge, "DIRECT_UP_TO", 0)
    ridge = Ridge(on, rng, n=300, case=EUCLIDEAN, ridge=1e-5)
    monkeypatch.setattr(_ridge, "_LONG", 30)
    ridge.system.rank = 18
    first = ridge.system.solve(ridge.kernel, rtol=1e-4)
    second = ridge.system.solve(ridge.kernel, rtol=1e-4)
    assert first.status is second.status is Status.CONVERGED
    assert second.n_iter < 0.8 * first.n_iter
    warm = ridge.system.solve(ridge.kernel, rtol=2e-4, start=second.x)
    assert warm.n_iter == 0


def test_the_kernels_own_inverse_is_used_and_made_once(on, rng, monkeypatch):
    monkeypatch.setattr(_ridge, "DIRECT_UP_TO", 0)
    ridge = Ridge(on, rng, n=1000, ridge=1e-4)
    made = []
    build = type(ridge.kernel).approximate_inverse

    def counted(self, root_weights, shift):
        made.append(build(self, root_weights, shift))
        return made[-1]

    monkeypatch.setattr(type(ridge.kernel), "approximate_inverse", counted)
    helped = ridge.system.solve(ridge.kernel, rtol=1e-4)
    ridge.system.solve(ridge.kernel, rtol=1e-3)
    assert [inverse is not None for inverse in made] == [True]
    monkeypatch.setattr(type(ridge.kernel), "approximate_inverse", lambda *_: None)
    plain = RidgeSystem(ridge.system.Y, 1e-4).solve(ridge.kernel, rtol=1e-4)
    assert helped.n_iter < plain.n_iter / 2


def test_the_caller_decides_when_it_is_enough(on, rng, monkeypatch):
    monkeypatch.setattr(_ridge, "DIRECT_UP_TO", 0)
    ridge = Ridge(on, rng)
    limit = 0.5 * ridge.G
    solution = ridge.system.solve(
        ridge.kernel,
        rtol=on.eps,
        measure=ridge.system.operands,
        enough=lambda products: ridge.system.lower(products) > limit,
    )
    assert solution.status is Status.DECIDED
    assert limit < ridge.system.bounds(solution.x, solution.residual)[0] <= ridge.G * (1 + 1e-4)


@pytest.mark.parametrize("budget", [None, 2000])
def test_papers_ridge_is_the_largest_norm_over_n(on, rng, budget):
    X = on.rounded(rng.standard_normal((50, 3)))
    X[17] *= 10
    with gpukfl.memory_budget(budget):
        ridge = paper_ridge(Rows(on.put(X), on.reference), 40.0)
    expected = np.max(np.linalg.norm(X, axis=1)) / 40.0
    assert ridge == pytest.approx(expected, rel=4 * on.eps)


def test_loose_solves_keep_a_preconditioner_until_it_has_worn_out(on, rng, monkeypatch):
    monkeypatch.setattr(_ridge, "DIRECT_UP_TO", 0)
    ridge = Ridge(on, rng, n=1000, ridge=1e-4)
    made = []
    build = type(ridge.kernel).approximate_inverse

    def counted(self, root_weights, shift):
        made.append(build(self, root_weights, shift))
        return made[-1]

    monkeypatch.setattr(type(ridge.kernel), "approximate_inverse", counted)
    other = replace(ridge.kernel)
    first = ridge.system.solve(ridge.kernel, rtol=1e-3)
    near = first.x * 0.5
    ridge.system.solve(other, rtol=1e-3, start=near)
    assert len(made) == 1
    monkeypatch.setattr(_ridge, "_WORN", 0)
    ridge.system.solve(other, rtol=1e-3, start=near)  # the last with that of the first kernel
    ridge.system.solve(other, rtol=1e-3, start=near)
    assert len(made) == 2
    ridge.system.solve(ridge.kernel, rtol=1e-3)  # from nothing
    assert len(made) == 3
