"""The smoother under the bands is the posterior mean that it says, and linear."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from gpukfl.inference._kernels import Smoother, best_kernel_share, reml_noise_ratio

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (60, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_normal(60)
NEW = RNG.uniform(-2.0, 2.0, (15, 2))
ONES = np.ones(60)


def kernel(A, B):
    return np.exp(-0.5 * ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))


def features(A):
    return np.column_stack([np.ones(len(A)), A])


@pytest.fixture(scope="module")
def smoother():
    return Smoother.fit(kernel(X, X), features(X), Y, ONES, share=1.0)


def test_it_is_scikit_learns_posterior_with_a_wide_prior_of_the_constant():
    one = Smoother.fit(kernel(X, X), np.ones((60, 1)), Y, ONES, share=1.0)
    prior = ConstantKernel(1e5, "fixed") + RBF(1.0, "fixed")
    oracle = GaussianProcessRegressor(prior, alpha=one.ratio, optimizer=None).fit(X, Y)
    found = one.map(kernel(NEW, X), np.ones((15, 1))) @ Y
    assert np.allclose(found, oracle.predict(NEW), atol=1e-4)


def test_the_ratio_is_that_of_the_highest_restricted_likelihood():
    K, H = kernel(X, X), features(X)

    def loss(ratio):
        """Patterson and Thompson's, from the dense formula, the variance maximised out."""
        V = K + ratio * np.eye(60)
        P = np.linalg.inv(V)
        middle = H.T @ P @ H
        left = Y - H @ np.linalg.solve(middle, H.T @ P @ Y)
        logs = np.linalg.slogdet(V)[1] + np.linalg.slogdet(middle)[1]
        return 57 * np.log(left @ P @ left) + logs

    found = reml_noise_ratio(K, H, Y)
    tried = found * np.exp(np.linspace(-3.0, 3.0, 61))
    assert loss(found) <= min(map(loss, tried)) + 1e-6


def test_the_share_of_another_kernel_is_what_the_data_ask_for():
    """Of a kernel of the first feature alone, where the second one matters, and where not."""
    first, other = kernel(X[:, :1], X[:, :1]), kernel(X[:, 1:], X[:, 1:])
    H, shares = np.ones((60, 1)), (0.0, 0.1, 1.0)
    assert best_kernel_share(first, other, H, Y, ONES, shares) == 0.0
    both = Y + np.cos(2.0 * X[:, 1])
    assert best_kernel_share(first, other, H, both, ONES, shares) == 1.0


def test_another_kernel_must_be_clearly_better():
    """Where there is noise alone, half of the samples would have a little of it."""
    H, shares = np.ones((60, 1)), (0.0, 0.1, 1.0)
    first, other = kernel(X[:, :1], X[:, :1]), kernel(X[:, 1:], X[:, 1:])
    draws = np.random.default_rng(0).standard_normal((20, 60))
    taken = [best_kernel_share(first, other, H, y, ONES, shares) > 0 for y in draws]
    assert np.mean(taken) <= 0.1


def test_what_is_not_penalised_is_reproduced(smoother):
    for k in range(3):
        h = features(X)[:, k]
        assert np.allclose(smoother.smooth(h), h, atol=1e-8)
        found = smoother.map(kernel(NEW, X), features(NEW)) @ h
        assert np.allclose(found, features(NEW)[:, k], atol=1e-8)


def test_fitted_values_are_the_map_at_the_rows(smoother):
    found = smoother.map(kernel(X, X), features(X))
    assert np.allclose(found @ Y, smoother.smooth(Y))
    corrected = smoother.correct_bias(found)
    assert np.allclose(corrected @ Y, smoother.smooth(Y) + smoother.smooth(Y - smoother.smooth(Y)))


def test_weights_enter_as_variances_of_the_noise():
    weights = RNG.uniform(0.5, 2.0, 60)
    one = Smoother.fit(kernel(X, X), features(X), Y, np.sqrt(weights), share=1.0)
    V = kernel(X, X) + one.ratio * np.diag(1.0 / weights)
    P, H = np.linalg.inv(V), features(X)
    beta = np.linalg.solve(H.T @ P @ H, H.T @ P @ Y)
    expected = features(NEW) @ beta + kernel(NEW, X) @ P @ (Y - H @ beta)
    assert np.allclose(one.map(kernel(NEW, X), features(NEW)) @ Y, expected)
    assert np.allclose(one.map(kernel(X, X), H) @ Y, one.smooth(Y))


def test_residuals_give_the_noise(smoother):
    squares, expected, spread = smoother.residual_sums(Y)
    R = np.eye(60) - smoother.hat
    assert squares == pytest.approx(np.sum((R @ Y) ** 2))
    noise = 0.7 * RNG.standard_normal((4000, 60)) @ R.T
    sums = np.sum(noise**2, axis=1) / 0.49
    assert sums.mean() == pytest.approx(expected, rel=0.05)
    assert sums.var() == pytest.approx(2.0 * spread, rel=0.15)


def test_the_ratio_has_no_unit(smoother):
    other = Smoother.fit(kernel(X, X), features(X), 1e3 * Y, ONES, share=1.0)
    assert other.ratio == pytest.approx(smoother.ratio, rel=1e-3)
    share = Smoother.fit(kernel(X, X), features(X), Y, ONES, share=0.1)
    assert share.ratio == pytest.approx(0.1 * smoother.ratio, rel=1e-6)


def test_columns_that_are_made_of_others_are_left_out():
    H = np.column_stack([features(X), X[:, 0] + 2.0 * X[:, 1], np.zeros(60)])
    one = Smoother.fit(kernel(X, X), H, Y, ONES, share=1.0)
    assert len(one.columns) == 3
    assert np.allclose(one.smooth(X[:, 0]), X[:, 0], atol=1e-7)


def test_a_kernel_that_sees_nothing_leaves_a_regression():
    one = Smoother.fit(np.zeros((60, 60)), features(X), Y, ONES, share=0.1)
    expected = features(X) @ np.linalg.lstsq(features(X), Y, rcond=None)[0]
    assert np.allclose(one.smooth(Y), expected)
