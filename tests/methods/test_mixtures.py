"""Mixtures of many targets stand for all of them."""

import numpy as np
import oracles
import pytest

from gpukfl.kernels import Gaussian
from gpukfl.methods import DenseSystem, NystromSystem, RidgeSystem, fit_bkernn, mix_targets
from gpukfl.operators import BrownianKernel, KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.penalties import Feature
from gpukfl.solvers import ProximalGradient


def test_few_targets_are_themselves(on, rng):
    Y = on.put(rng.standard_normal((5, 10)))
    assert mix_targets(Y) is Y


@pytest.mark.parametrize("t", [11, 60])
def test_weights_of_mixtures_are_orthogonal_and_as_long_on_average(on, t):
    omega = on.host(mix_targets(on.put(np.eye(t))))
    assert omega.shape == (t, 10)
    np.testing.assert_allclose(omega.T @ omega, t / 10 * np.eye(10), atol=100 * t * on.eps)


def test_mixing_is_linear_and_always_the_same(on_double, rng):
    Y = rng.standard_normal((7, 30))
    omega = on_double.host(mix_targets(on_double.put(np.eye(30))))
    on_double.assert_close(mix_targets(on_double.put(Y)), Y @ omega, ulps=1e3)


def test_sums_over_targets_are_about_theirs(rng):
    """The trace of a quadratic form, on average over targets that are rotated at random."""
    A = np.cov(rng.standard_normal((6, 40)))
    found = []
    for _ in range(200):
        Y = rng.standard_normal((6, 50))
        mixed = mix_targets(Y)
        found.append(np.trace(mixed.T @ A @ mixed) / np.trace(Y.T @ A @ Y))
    assert np.mean(found) == pytest.approx(1.0, abs=0.05)


def test_left_out_errors_of_many_targets_are_about_exact(rng):
    """Of both systems, where the centres are all samples; and they choose the same ridge."""
    X, ridges = rng.uniform(size=(100, 2)), [1e-6, 1e-3, 10.0]
    codes = 5 * (5 * X[:, 0]).astype(int) + (5 * X[:, 1]).astype(int)
    Y = np.eye(25)[codes] - np.eye(25)[codes].mean(axis=0)
    K, D = oracles.gaussian(X, X, 0.2), np.ones((100, 1))
    exact = [oracles.left_out_errors((K, K), Y, D, 100 * ridge) for ridge in ridges]
    rows = Rows(X, X[:0, 0])
    by_centers = NystromSystem.from_rows(KernelOperator(Gaussian(0.2), rows, X), Y, None)
    for path in (
        DenseSystem.from_kernel(K, Y, None).leave_one_out(ridges),
        by_centers.leave_one_out(Y, None, ridges),
    ):
        assert path.scores == pytest.approx(exact, rel=0.1)
        assert path.best == ridges[np.argmin(exact)]


def test_a_network_learned_by_mixtures_solves_for_all_targets(rng):
    X, Y = rng.standard_normal((60, 3)), rng.standard_normal((60, 12))
    W = rng.standard_normal((3, 4))
    system, mixed = RidgeSystem(Y, 0.02), RidgeSystem(mix_targets(Y), 0.02)

    def fit(W, steps, **more):
        optimizer = ProximalGradient(max_iter=steps)
        make = lambda V: BrownianKernel.build(X, V)  # noqa: E731
        return fit_bkernn(make, system, W, penalty=Feature(), optimizer=optimizer, **more)

    learned = fit(W, 5, learned_by=mixed)
    again = fit(learned.W, 0)
    assert not np.array_equal(learned.W, W)
    assert learned.alpha.shape == (60, 12)
    np.testing.assert_allclose(learned.alpha, again.alpha, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(learned.intercept, again.intercept, atol=1e-9)
