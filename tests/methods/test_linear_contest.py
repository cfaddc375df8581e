"""A Lasso on variables and their copies: an outside solver, and nothing tells which is which."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso
from sklearn.preprocessing import StandardScaler

from gpukfl.knockoffs import GaussianKnockoffs, combine_weights, contest
from gpukfl.methods import _selection_contest as linear
from gpukfl.methods import linear_weights

N, P, COPIES = 150, 40, 3
RNG = np.random.default_rng(3)
X = RNG.standard_normal((N, P)) + 0.7 * RNG.standard_normal((N, 1))
X = np.concatenate([X, GaussianKnockoffs().of(X, COPIES).draw(np.random.RandomState(0))], axis=1)
Y = X[:, [4]] - X[:, [9]] + 0.5 * X[:, [20]] + RNG.standard_normal((N, 1))
SHARES = np.full((N, 1), 1.0 / N)


def test_a_lasso_of_another_library_agrees():
    columns = linear.StandardColumns.standardize(X, SHARES)
    y = Y[:, 0] - Y.mean()
    coef, left = linear.fit_lasso(columns, y, 0.08, np.zeros(X.shape[1]), y)
    Z = StandardScaler().fit_transform(X)
    other = Lasso(0.08, tol=1e-10, max_iter=100_000).fit(Z, y)
    np.testing.assert_allclose(coef, other.coef_, atol=1e-3)
    np.testing.assert_allclose(left, y - Z @ coef, atol=1e-9)


def test_the_penalty_goes_with_the_residuals():
    weights = linear_weights(X, Y, SHARES, P)
    assert weights.shape == (COPIES + 1, P)
    np.testing.assert_allclose(linear_weights(X, 7.0 * Y + 2.0, SHARES, P), 7.0 * weights)
    units = RNG.uniform(0.1, 10.0, X.shape[1])
    np.testing.assert_allclose(linear_weights(X * units - 5.0, Y, SHARES, P), weights, atol=1e-6)
    noise = linear_weights(X, RNG.standard_normal((N, 1)), SHARES, P)
    assert np.count_nonzero(noise) <= 3 * 0.02 * X.shape[1]


@pytest.mark.parametrize("copy", [1, 3])
def test_changing_places_changes_only_signs(copy):
    order = np.arange(X.shape[1]).reshape(-1, P)
    changed = np.array([0, 4, 20, 33])
    order[[0, copy], changed[:, None]] = order[[copy, 0], changed[:, None]]
    before = linear_weights(X, Y, SHARES, P)
    after = linear_weights(X[:, order.ravel()], Y, SHARES, P)
    np.testing.assert_allclose(after.ravel(), before.ravel()[order.ravel()], atol=1e-4)
    other = RNG.random((COPIES + 1, P))
    moved = combine_weights(other.ravel()[order.ravel()].reshape(-1, P), after)
    same = combine_weights(other, before).ravel()[order.ravel()]
    np.testing.assert_allclose(moved.ravel(), same, atol=1e-4)


def test_linear_effects_outweigh_their_copies():
    W = contest(linear_weights(X, Y, SHARES, P))
    assert W[[4, 9, 20]].min() > np.abs(np.delete(W, [4, 9, 20])).max()


def test_targets_and_weights_count():
    both = linear_weights(X, np.concatenate([Y, X[:, [30]]], axis=1), SHARES, P)
    assert contest(both)[30] > 0.5
    some = np.arange(N) % 2 == 0
    shares = np.where(some, 1.0, 0.0)[:, None] / some.sum()
    alone = linear_weights(X[some], Y[some], np.full((some.sum(), 1), 1.0 / some.sum()), P)
    np.testing.assert_allclose(linear_weights(X, Y, shares, P), alone, atol=1e-6)


def test_constant_columns_and_targets_have_no_weight():
    odd = X.copy()
    odd[:, [2, 2 + P, 2 + 2 * P, 2 + 3 * P]] = 4.0
    assert not linear_weights(odd, Y, SHARES, P)[:, 2].any()
    assert not linear_weights(X, np.ones((N, 1)), SHARES, P).any()


def test_it_is_the_same_everywhere(on):
    columns, y = on.rounded(X), on.rounded(Y)
    expected = linear_weights(columns, y, SHARES, P)
    actual = linear_weights(on.put(columns), on.put(y), on.put(SHARES), P)
    np.testing.assert_allclose(actual, expected, atol=1e-3 if on.eps > 1e-10 else 1e-7)
