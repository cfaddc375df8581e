"""Copies: their moments, their laws, and where they live."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.stats import ks_2samp

from gpukfl.knockoffs import GaussianKnockoffs, RankKnockoffs
from gpukfl.knockoffs._correlation import Correlation

SAMPLERS = [GaussianKnockoffs(), GaussianKnockoffs("equicorrelated"), RankKnockoffs()]
P, COPIES = 4, 3
SIGMA = toeplitz(0.6 ** np.arange(P))


def columns(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, P)) @ np.linalg.cholesky(SIGMA).T * [1.0, 2.0, 0.5, 1.0] + 3.0


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_columns_could_change_places_with_their_copies(sampler):
    X = columns()
    model = sampler.of(X, COPIES)
    whole = np.concatenate([X, model.draw(np.random.RandomState(5))], axis=1)
    assert whole.shape == (len(X), (COPIES + 1) * P)
    np.testing.assert_allclose(whole.mean(axis=0), np.tile(X.mean(axis=0), COPIES + 1), atol=0.12)
    np.testing.assert_allclose(whole.std(axis=0), np.tile(X.std(axis=0), COPIES + 1), rtol=0.06)
    spread = model.core.spread
    expected = np.kron(np.ones((COPIES + 1, COPIES + 1)), SIGMA - np.diag(spread))
    expected += np.kron(np.eye(COPIES + 1), np.diag(spread))
    np.testing.assert_allclose(np.corrcoef(whole.T), expected, atol=0.06)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_draws_differ_and_are_repeated_by_the_seed(sampler):
    X = columns(60)
    model = sampler.of(X, 2)
    first, second, again = (model.draw(np.random.RandomState(seed)) for seed in (0, 1, 0))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first - second).max() > 0.1
    np.testing.assert_array_equal(X, columns(60))


def test_copies_by_ranks_have_the_law_of_the_column():
    Z = (columns() - 3.0) / [1.0, 2.0, 0.5, 1.0]
    X = np.stack([np.exp(Z[:, 0]), Z[:, 1] ** 3, Z[:, 2], Z[:, 3]], axis=1)
    copies = RankKnockoffs().of(X, 1).draw(np.random.RandomState(1))
    for j in range(P):
        assert ks_2samp(X[:, j], copies[:, j]).pvalue > 0.01
        assert X[:, j].min() <= copies[:, j].min() <= copies[:, j].max() <= X[:, j].max()
    plain = GaussianKnockoffs().of(X, 1).draw(np.random.RandomState(1))
    assert ks_2samp(X[:, 0], plain[:, 0]).pvalue < 1e-6
    np.testing.assert_allclose(RankKnockoffs().of(X, 1).core.spread,
                               RankKnockoffs().of(Z, 1).core.spread, rtol=1e-9)  # fmt: skip


def test_a_column_of_two_values_has_copies_of_these():
    X = columns(500)
    X[:, 1] = X[:, 1] > 3.0
    copies = RankKnockoffs().of(X, 2).draw(np.random.RandomState(0))
    for k in (1, 1 + P):
        assert np.isin(copies[:, k], [0.0, 1.0]).mean() > 0.99
        assert copies[:, k].mean() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_a_constant_column_is_its_own_copy(sampler):
    X = columns(50)
    X[:, 2] = 7.0
    copies = sampler.of(X, 2).draw(np.random.RandomState(0))
    np.testing.assert_array_equal(copies[:, [2, 2 + P]], 7.0)
    assert np.isfinite(copies).all()


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@pytest.mark.parametrize("n", [2, 3, 5])
def test_fewer_rows_than_columns_shrink(sampler, n):
    model = sampler.of(columns(n), 2)
    assert 0.0 < model.correlation.shrinkage <= 1.0
    assert np.isfinite(model.draw(np.random.RandomState(0))).all()


def test_correlations_are_shrunk_as_scikit_learn_does():
    from sklearn.covariance import ledoit_wolf

    X = columns(40)
    found = Correlation.of(X)
    units = (X - X.mean(axis=0)) / X.std(axis=0)
    expected, share = ledoit_wolf(units, assume_centered=True)
    np.testing.assert_allclose(found.matrix, expected, rtol=1e-10)
    assert found.shrinkage == pytest.approx(share)
    assert found.equal == []


def test_equal_columns_are_named_and_leave_room():
    X = columns(300)
    X[:, 3] = 5.0 - 2.0 * X[:, 1]
    found = Correlation.of(X)
    assert found.equal == [(1, 3)]
    assert np.linalg.eigvalsh(found.matrix)[0] >= 0.9e-3


@pytest.mark.parametrize("sampler", [SAMPLERS[0], SAMPLERS[2]], ids=str)
def test_copies_live_where_the_columns_do(on, sampler):
    X = on.rounded(columns(80))
    expected = sampler.of(X, 2).draw(np.random.RandomState(3))
    actual = sampler.of(on.put(X), 2).draw(np.random.RandomState(3))
    on.assert_close(actual, expected, ulps=1e9 * (on.eps < 1e-10) + 1e3)
