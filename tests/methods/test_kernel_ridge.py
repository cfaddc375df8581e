"""Exact kernel ridge regression is scikit-learn's, by factors and by iterations."""

import numpy as np
import oracles
import pytest
from sklearn.kernel_ridge import KernelRidge

from gpukfl.core._results import Status
from gpukfl.kernels import Gaussian
from gpukfl.methods import (
    DenseSystem,
    NystromSystem,
    nystrom_preconditioner,
    solve_by_conjugate_gradients,
)
from gpukfl.operators import KernelMatrix, KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient

weighted = pytest.mark.parametrize("weighted", [False, True])


class Data:
    """Host float64 data, its kernel matrix, and copies on a place."""

    def __init__(self, on, rng, *, n=60, t=2, weighted=False):
        self.X = on.rounded(rng.uniform(-2, 2, (n, 2)))
        self.Y = on.rounded(
            np.sin(2 * self.X[:, :1]) + self.X[:, 1:] + 0.1 * rng.standard_normal((n, t))
        )
        self.D = on.rounded(rng.uniform(0.2, 3.0, (n, 1)) if weighted else np.ones((n, 1)))
        self.K = oracles.gaussian(self.X, self.X, 1.0)
        self.on, self.weights = on, on.put(self.D) if weighted else None

    @property
    def total(self):
        return float(np.sum(self.D))

    def system(self):
        return DenseSystem.from_kernel(self.on.put(self.K), self.on.put(self.Y), self.weights)

    def by_sklearn(self, ridge):
        model = KernelRidge(alpha=self.total * ridge, kernel="precomputed")
        return model.fit(self.K, self.Y, sample_weight=self.D[:, 0]).dual_coef_


@weighted
def test_the_variation_of_inner_products_is_the_variance_of_the_features(on, rng, weighted):
    data = Data(on, rng, weighted=weighted)
    system = DenseSystem.from_kernel(on.put(data.X @ data.X.T), on.put(data.Y), data.weights)
    expected = np.trace(np.cov(data.X.T, aweights=data.D[:, 0], bias=True))
    assert system.variation() == pytest.approx(expected, rel=200 * on.eps)


@pytest.mark.pairs
@weighted
@pytest.mark.parametrize("ridge", [1e-1, 1e-3])
@pytest.mark.parametrize("t", [1, 3])
def test_solution_is_scikit_learns(on, rng, weighted, ridge, t):
    data = Data(on, rng, weighted=weighted, t=t)
    alpha, jitter, residuals = data.system().solve(ridge)
    on.assert_close(alpha, data.by_sklearn(ridge), ulps=200 / ridge)
    assert jitter == 0.0
    assert residuals.shape == (t,)
    assert residuals.max() <= 100 * on.eps / ridge


@weighted
def test_weights_count_as_copies(on_double, rng, weighted):
    """A weight of 2 is the sample twice, and a weight of 0 nearly none."""
    on, data = on_double, Data(on_double, rng, n=20)
    weights = on.put(np.where(np.arange(20) < 7, 2.0, 1.0)[:, None])
    K, Y = on.put(data.K), on.put(data.Y)
    alpha, _, _ = DenseSystem.from_kernel(K, Y, weights).solve(0.01)
    twice = np.concatenate([np.arange(20), np.arange(7)])
    K2, Y2 = on.put(data.K[np.ix_(twice, twice)]), on.put(data.Y[twice])
    copies, _, _ = DenseSystem.from_kernel(K2, Y2, None).solve(0.01)
    predicted = data.K[:, twice] @ on.host(copies)
    on.assert_close(K @ alpha, predicted, ulps=1e5)


def test_a_singular_matrix_gets_jitter_and_still_predicts(on, rng):
    data = Data(on, rng, n=20, t=1)
    twice = np.tile(np.arange(20), 2)
    data.X, data.Y, data.D = data.X[twice], data.Y[twice], np.ones((40, 1))
    data.K = oracles.gaussian(data.X, data.X, 1.0)
    alpha, jitter, _ = data.system().solve(1e-300)
    assert 0.0 < jitter <= 1e-2
    assert np.all(np.isfinite(on.host(alpha)))
    predicted = data.K @ on.host(alpha)
    assert np.mean((predicted - data.Y) ** 2) <= 0.05 * np.var(data.Y)


@pytest.mark.parametrize("wrong", [np.nan, -1.0])
def test_what_no_small_jitter_helps_is_an_error(on, rng, wrong):
    data = Data(on, rng, n=10)
    data.K = wrong * data.K
    with pytest.raises(np.linalg.LinAlgError):
        data.system().solve(1e-3)


@weighted
def test_left_out_errors_are_those_of_refitting(on, rng, weighted):
    data = Data(on, rng, n=25, weighted=weighted)
    ridges = [1e-3, 1e-1, 1e-2]
    path = data.system().leave_one_out(ridges)
    assert path.ridges == ridges
    for ridge, score in zip(ridges, path.scores, strict=True):
        shift = data.total * ridge
        expected = oracles.left_out_errors((data.K, data.K), data.Y, data.D, shift)
        assert score == pytest.approx(expected, rel=300 * on.eps / ridge)


@weighted
def test_conjugate_gradients_find_the_solution_and_the_preconditioner_helps(on, rng, weighted):
    data = Data(on, rng, n=150, weighted=weighted)
    ridge = 1e-4 if on.dtype_name == "float64" else 1e-3
    rtol = 1e-10 if on.dtype_name == "float64" else 1e-4
    X, Y = on.put(data.X), on.put(data.Y)
    solver = ConjugateGradient(rtol=rtol, check_every=1, max_iter=2000)
    operator = KernelOperator(Gaussian(), Rows(X, on.reference), X[:40, :])
    system = NystromSystem.from_rows(operator, Y, data.weights)
    matrix, found = KernelMatrix(Gaussian(), X), {}
    for name, preconditioner in (
        ("none", lambda r: r),
        ("nystrom", nystrom_preconditioner(system, data.weights, ridge)),
    ):
        alpha, solution = solve_by_conjugate_gradients(
            matrix, Y, data.weights, ridge=ridge, preconditioner=preconditioner, solver=solver
        )
        found[name] = solution.n_iter
        assert solution.status is Status.CONVERGED
        predicted = on.host(matrix @ alpha).astype(np.float64)
        expected = data.K @ data.by_sklearn(ridge)
        assert np.max(np.abs(predicted - expected)) <= 100 * rtol * np.max(np.abs(expected))
    assert found["nystrom"] <= 0.5 * found["none"]


def test_conjugate_gradients_say_when_iterations_ran_out(on, rng):
    data = Data(on, rng)
    _, solution = solve_by_conjugate_gradients(
        KernelMatrix(Gaussian(), on.put(data.X)),
        on.put(data.Y),
        None,
        ridge=1e-4,
        preconditioner=lambda r: r,
        solver=ConjugateGradient(rtol=1e-6, max_iter=3),
    )
    assert solution.status is Status.MAX_ITER
    assert solution.n_iter == 3


@weighted
def test_preconditioner_of_all_centres_is_the_inverse(on_double, rng, weighted):
    on, data = on_double, Data(on_double, rng, n=40, weighted=weighted)
    X = on.put(data.X)
    operator = KernelOperator(Gaussian(), Rows(X, on.reference), X)
    system = NystromSystem.from_rows(operator, on.put(data.Y), data.weights)
    inverse = nystrom_preconditioner(system, data.weights, 0.01)
    s, shift = np.sqrt(data.D), data.total * 0.01
    V = rng.standard_normal((40, 2))
    expected = shift * np.linalg.solve(s * data.K * s.T + shift * np.eye(40), V)
    on.assert_close(inverse(on.put(V)), expected, ulps=1e-5 / on.eps)
