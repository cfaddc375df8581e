"""The evidence of classes is scikit-learn's, and its gradients are those of its values."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from gpukfl.core._results import Status
from gpukfl.kernels import Gaussian, Matern32, Matern52
from gpukfl.methods import LogisticCriterion, fit_by_least_squares, prior_means
from gpukfl.methods._logistic_evidence import log_sigmoid

RATIO = 0.3
weighted = pytest.mark.parametrize("weighted", [False, True])


class Problem:
    """Host data of one or two columns of classes, and the criterion of the same on a place."""

    def __init__(self, on, rng, kernel=None, *, weighted=False, t=1, n=30):
        self.on, self.kernel = on, kernel or Gaussian()
        self.X = on.rounded(rng.standard_normal((n, 3)))
        odds = 2.0 * self.X[:, :1] + rng.standard_normal((n, t))
        self.Y = (odds > 0.4 * np.arange(t)).astype(float)
        self.w = on.rounded(rng.uniform(0.5, 2.0, (n, 1))) if weighted else None
        self.metric = on.rounded(np.array([0.6, 0.3, 0.2]))

    def criterion(self):
        weights = None if self.w is None else self.on.put(self.w)
        return LogisticCriterion(
            self.kernel, self.on.put(self.X), self.on.put(self.Y), weights=weights
        )

    def value(self, metric, ratio):
        return self.criterion()(self.on.put(metric, "float64"), ratio).value


@pytest.mark.parametrize(
    ("kernel", "oracle"), [(Gaussian(), RBF), (Matern52(), lambda scale: Matern(scale, nu=2.5))]
)
def test_the_evidence_and_its_slopes_are_those_of_scikit_learn(on, rng, kernel, oracle):
    problem = Problem(on, rng, kernel)
    criterion = problem.criterion()
    criterion._means = [0.0]  # scikit-learn's prior mean
    theirs = ConstantKernel(1.0 / RATIO) * oracle(1.0 / problem.metric)
    model = GaussianProcessClassifier(theirs, optimizer=None).fit(problem.X, problem.Y[:, 0])
    value, slopes = model.log_marginal_likelihood(model.kernel_.theta, eval_gradient=True)
    found = criterion(on.put(problem.metric, "float64"), RATIO)
    assert found.value == pytest.approx(value, abs=1e-6)
    assert -found.log_ratio == pytest.approx(slopes[0], abs=1e-5)
    np.testing.assert_allclose(-np.asarray(found.metric) * problem.metric, slopes[1:], atol=1e-5)


@weighted
@pytest.mark.parametrize("kernel", [Gaussian(), Matern32(), Matern52() + 0.5 * Matern32(0.4)])
def test_slopes_are_differences_of_values(on, rng, kernel, weighted):
    problem = Problem(on, rng, kernel, weighted=weighted, t=2)
    found, step = problem.criterion()(on.put(problem.metric, "float64"), RATIO), 1e-5
    for k, unit in enumerate(np.eye(3)):
        ends = [problem.value(problem.metric + h * unit, RATIO) for h in (step, -step)]
        assert np.asarray(found.metric)[k] == pytest.approx(
            (ends[0] - ends[1]) / (2 * step), abs=1e-5
        )
    ends = [problem.value(problem.metric, RATIO * math.exp(h)) for h in (step, -step)]
    assert found.log_ratio == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-5)


@weighted
def test_the_mode_is_where_the_posterior_is_highest(on, rng, weighted):
    problem = Problem(on, rng, weighted=weighted)
    U = problem.X * problem.metric
    K = np.asarray(problem.kernel(U, U)) / RATIO
    w = np.ones(len(U)) if problem.w is None else problem.w[:, 0]
    y, mean = problem.Y[:, 0], prior_means(on.put(problem.Y), on.put(w))[0]

    def loss(a):
        f = mean + K @ a
        slope = w * (expit(f) - y)
        return 0.5 * a @ K @ a - w @ log_expit((2 * y - 1) * f), K @ (a + slope)

    lowest = minimize(loss, np.zeros(len(U)), jac=True, method="BFGS", options={"gtol": 1e-9})
    fit = problem.criterion().fit(on.put(problem.metric, "float64"), RATIO)
    found = K * RATIO @ on.host(fit.dual_coef)[:, 0]
    np.testing.assert_allclose(found, K @ lowest.x, atol=1e-6)
    assert fit.offsets[0] == pytest.approx(mean)


def test_a_class_without_a_sample_says_nothing(on, rng):
    problem = Problem(on, rng)
    more = Problem(on, np.random.default_rng(0), t=1)
    more.X, more.Y = problem.X, np.concatenate([problem.Y, np.zeros_like(problem.Y)], axis=1)
    metric = on.put(problem.metric, "float64")
    one, two = (each.criterion()(metric, RATIO) for each in (problem, more))
    assert two.value == pytest.approx(one.value, rel=1e-12)
    fit = more.criterion().fit(metric, RATIO)
    assert not on.host(fit.dual_coef)[:, 1].any()
    assert fit.offsets[1] < -3.0


def test_weights_are_counts_of_samples(on, rng):
    problem = Problem(on, rng)
    twice = Problem(on, rng)
    twice.X, twice.Y = problem.X, problem.Y
    twice.w = np.full((len(problem.X), 1), 2.0)
    repeated = Problem(on, rng)
    repeated.X, repeated.Y = np.tile(problem.X, (2, 1)), np.tile(problem.Y, (2, 1))
    a, b = (
        one.criterion().fit(on.put(problem.metric, "float64"), RATIO) for one in (twice, repeated)
    )
    assert a.evidence == pytest.approx(b.evidence, abs=1e-6)
    both = on.host(b.dual_coef)[:, 0].reshape(2, -1).sum(axis=0)
    np.testing.assert_allclose(on.host(a.dual_coef)[:, 0], both, atol=1e-6)


def test_reweighted_least_squares_find_the_same_mode(on, rng):
    problem = Problem(on, rng, weighted=True)
    U = problem.X * problem.metric
    K = np.asarray(problem.kernel(U, U)) / RATIO
    y, w = (on.put(values[:, 0], "float64") for values in (problem.Y, problem.w))
    mean = float(prior_means(on.put(problem.Y, "float64"), w)[0])

    def solve(z, W):
        alpha = np.linalg.solve(K + np.diag(1.0 / on.host(W)[:, 0]), on.host(z))
        return on.put(alpha[:, 0], "float64"), on.put(K @ alpha[:, 0], "float64")

    coef, status = fit_by_least_squares(solve, y, w, mean)
    assert status is Status.CONVERGED
    fit = problem.criterion().fit(on.put(problem.metric, "float64"), RATIO)
    np.testing.assert_allclose(on.host(coef), RATIO * on.host(fit.dual_coef)[:, 0], atol=1e-5)


def test_log_sigmoid_does_not_overflow(on):
    f = on.put(np.array([-800.0, -1.0, 0.0, 1.0, 800.0]))
    np.testing.assert_allclose(on.host(log_sigmoid(f)), log_expit(on.host(f)), rtol=1e-6)
