"""Nyström ridge regression solves its normal equations, however singular its centres are."""

import math

import numpy as np
import oracles
import pytest

import gpukfl
from gpukfl.core._results import Status
from gpukfl.kernels import Gaussian
from gpukfl.methods import (
    DenseSystem,
    NystromFactor,
    NystromSystem,
    RidgePath,
    choose_jitter,
    falkon,
)
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient

weighted = pytest.mark.parametrize("weighted", [False, True])


class Data:
    """Host float64 data with its kernel matrices, and the operator on a place."""

    def __init__(self, on, rng, *, n=120, q=15, t=2, weighted=False, centers=None):
        self.on = on
        self.X = on.rounded(rng.uniform(-2, 2, (n, 2)))
        self.Y = on.rounded(
            np.sin(2 * self.X[:, :1]) + self.X[:, 1:] + 0.1 * rng.standard_normal((n, t))
        )
        self.Z = self.X[:q] if centers is None else self.X[centers]
        self.D = on.rounded(rng.uniform(0.2, 3.0, (n, 1)) if weighted else np.ones((n, 1)))
        self.weights = on.put(self.D) if weighted else None
        self.K = oracles.gaussian(self.X, self.Z, 1.0)
        self.core = oracles.gaussian(self.Z, self.Z, 1.0)
        self.operator = KernelOperator(
            Gaussian(), Rows(on.put(self.X), on.reference), on.put(self.Z)
        )
        self.placed = on.put(self.Y)

    @property
    def total(self):
        return float(np.sum(self.D))

    def system(self):
        return NystromSystem.from_rows(self.operator, self.placed, self.weights)

    def penalty(self, ridge):
        """Kernel among the centres, whose diagonal is 1, with the jitter."""
        return self.core + choose_jitter(self.operator, ridge) * np.eye(len(self.core))

    def matrices(self, ridge, smallest):
        left = self.K.T @ (self.D * self.K) + self.total * ridge * self.penalty(smallest)
        return left, self.K.T @ (self.D * self.Y)

    def predictions(self, ridge):
        left, right = self.matrices(ridge, ridge)
        return self.K @ np.linalg.lstsq(left, right, rcond=1e-13)[0]

    def predicted(self, alpha):
        return self.K @ self.on.host(alpha).astype(np.float64)

    def assert_predicts(self, alpha, expected, *, ulps=None):
        ulps = ulps or (1e4 if self.on.dtype_name == "float32" else 1e6)  # jitter is smaller
        error = np.max(np.abs(self.predicted(alpha) - expected)) / np.max(np.abs(expected))
        assert error <= ulps * self.on.eps, f"{error / self.on.eps:.3g} ulps"


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("ridge", [1e-1, 1e-2, 1e-3])
@pytest.mark.parametrize("t", [1, 3])
def test_solution_satisfies_the_normal_equations(on, rng, weighted, ridge, t):
    data = Data(on, rng, weighted=weighted, t=t)
    alpha, factor = data.system().solve(ridge)
    on.assert_lives_here(alpha, "float64")
    assert alpha.shape == (15, t)
    assert not factor.raised
    data.assert_predicts(alpha, data.predictions(ridge))


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("budget", [1, 5000])
def test_blocks_change_rounding_only(on, rng, weighted, budget):
    data = Data(on, rng, weighted=weighted)
    whole, _ = data.system().solve(1e-2)
    with gpukfl.memory_budget(budget):
        pieces, _ = data.system().solve(1e-2)
    data.assert_predicts(pieces, data.predicted(whole))


@weighted
def test_all_samples_as_centres_are_exact_kernel_ridge(on_double, rng, weighted):
    data = Data(on_double, rng, n=60, q=60, weighted=weighted)
    alpha, _ = data.system().solve(1e-2)
    weights = None if data.weights is None else data.D
    exact, _, _ = DenseSystem.from_kernel(data.core, data.Y, weights).solve(1e-2)
    data.assert_predicts(alpha, data.K @ exact, ulps=1e8)  # by the jitter


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("ridge", [1e-1, 1e-3, 1e-9])
def test_repeated_centres_predict_as_if_they_were_there_once(on, rng, weighted, ridge):
    once = Data(on, np.random.default_rng(0), weighted=weighted)
    thrice = Data(
        on, np.random.default_rng(0), weighted=weighted, centers=np.tile(np.arange(15), 3)
    )
    (few, _), (many, _) = once.system().solve(ridge), thrice.system().solve(ridge)
    jitter = choose_jitter(once.operator, ridge)  # of which a third is left on each
    thrice.assert_predicts(many, once.predicted(few), ulps=300 * jitter / on.eps + 1e6)


@pytest.mark.pairs
@pytest.mark.parametrize("lengthscale", [1.0, 10.0])
@pytest.mark.parametrize("ridge", [1e-6, 1e-9, 1e-16])
def test_tiny_ridges_fit_and_do_not_explode(on, rng, lengthscale, ridge):
    """Float32 knows small eigenvalues of the normal equations by their rounding only."""
    data = Data(on, rng, n=600, q=100)
    operator = KernelOperator(Gaussian(lengthscale), data.operator.rows, data.operator.Z)
    alpha, _ = NystromSystem.from_rows(operator, data.placed, None).solve(ridge)
    predicted = oracles.gaussian(data.X, data.Z, lengthscale) @ on.host(alpha)
    error = np.mean((predicted - data.Y) ** 2) / np.var(data.Y)
    assert error <= (0.5 if lengthscale == 10.0 else 0.05)


@weighted
def test_generalised_cross_validation_is_that_of_the_hat_matrix(on, rng, weighted):
    data, ridges = Data(on, rng, weighted=weighted), [1e-1, 1e-3, 1e-2]
    path = data.system().path(ridges)
    assert path.ridges == ridges
    for ridge, score in zip(ridges, path.scores, strict=True):
        left, right = data.matrices(ridge, min(ridges))
        hat = np.trace(np.linalg.solve(left, data.K.T @ (data.D * data.K)))
        misfit = np.sum(data.D * (data.Y - data.K @ np.linalg.solve(left, right)) ** 2)
        expected = misfit / data.total / (1 - hat / len(data.X)) ** 2
        assert score == pytest.approx(expected, rel=1e5 * on.eps)


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("budget", [None, 3000])
def test_left_out_errors_are_those_of_refitting(on, rng, weighted, budget):
    data, ridges = Data(on, rng, n=25, q=8, weighted=weighted), [1e-1, 1e-3, 1e-2]
    with gpukfl.memory_budget(budget):
        path = data.system().leave_one_out(data.placed, data.weights, ridges)
    assert path.ridges == ridges
    for ridge, score in zip(ridges, path.scores, strict=True):
        shift = data.total * ridge
        expected = oracles.left_out_errors(
            (data.K, data.penalty(min(ridges))), data.Y, data.D, shift
        )
        assert score == pytest.approx(expected, rel=1e5 * on.eps)


def test_best_ridge_is_that_of_the_lowest_score():
    path = RidgePath([1.0, 0.1, 0.01, 0.001], [3.0, 2.0, 2.0, math.nan])
    assert path.best == 0.1
    assert RidgePath([1.0, 0.1], [math.inf, math.inf]).best == 1.0
    nearly = RidgePath([1.0, 0.1, 0.01, 0.001], [3.0, 2.01, 2.0, 2.01])
    assert (nearly.largest_good(), nearly.largest_good(0.0)) == (0.1, 0.01)
    assert RidgePath([1.0, 0.1, 0.01], [3.0, 2.0, 2.5]).brackets
    assert not RidgePath([1.0, 0.1, 0.01], [3.0, 2.0, 1.5]).brackets
    assert not RidgePath([1.0, 0.1], [3.0, 2.0]).brackets


@weighted
def test_falkon_gives_the_same_predictions(on, rng, weighted):
    data, ridge = Data(on, rng, n=200, q=30, weighted=weighted), 1e-3
    rtol = 1e-10 if on.dtype_name == "float64" else 1e-4
    solver = ConjugateGradient(rtol=rtol, max_iter=100, check_every=1)
    alpha, factor, solution = falkon(
        data.operator, data.placed, data.weights, ridge=ridge, solver=solver
    )
    assert solution.status is Status.CONVERGED
    assert solution.n_iter <= 40
    assert not factor.raised
    on.assert_lives_here(alpha, "float64")
    expected, _ = data.system().solve(ridge)
    error = np.max(np.abs(data.predicted(alpha) - data.predicted(expected)))
    assert error <= 1000 * rtol


def test_falkon_says_when_iterations_ran_out(on, rng):
    data = Data(on, rng)
    solver = ConjugateGradient(rtol=1e-6, max_iter=1)
    alpha, _, solution = falkon(data.operator, data.placed, None, ridge=1e-4, solver=solver)
    assert solution.status is Status.MAX_ITER
    assert np.all(np.isfinite(on.host(alpha)))


def test_factor_is_that_of_the_core_with_its_jitter(on):
    core = np.array([[4.0, 1.0], [1.0, 2.0]])
    factor = NystromFactor.from_kernel(on.put(core, "float64"), jitter=1e-3)
    L = on.host(factor.L.L)
    np.testing.assert_allclose(L @ L.T, core + 3e-3 * np.eye(2), rtol=1e-14)


def test_jitter_is_raised_as_far_as_needed(on):
    core = on.put(np.diag([1.0, 1.0, -1e-9]), "float64")
    factor = NystromFactor.from_kernel(core, jitter=1e-12)
    assert factor.raised
    assert 1e-9 < factor.jitter <= 1e-6
    for wrong in (np.diag([1.0, -1.0]), np.full((2, 2), np.nan)):
        with pytest.raises(np.linalg.LinAlgError):
            NystromFactor.from_kernel(on.put(wrong, "float64"), jitter=1e-12)


def test_jitter_follows_precision_and_ridge(on, rng):
    operator = Data(on, rng).operator
    jitters = [choose_jitter(operator, ridge) for ridge in (1.0, 1e-4, 1e-8, 1e-300)]
    assert jitters == sorted(jitters)
    assert 1e-10 <= jitters[0] <= on.eps + 1e-10  # squares of roundings: far below the precision
    assert jitters[-1] <= 1e-2
