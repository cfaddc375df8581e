"""Copies: their moments, their laws, and where they live."""

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.stats import ks_2samp

from gpukfl.knockoffs import GaussianKnockoffs, RankKnockoffs
from gpukfl.knockoffs._samplers import Correlation

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


def test_rare_values_are_as_rare_in_copies():
    rng = np.random.default_rng(2)
    X = np.asarray(rng.random((4000, P)) < [0.16, 0.05, 0.5, 0.03], dtype=np.float64)
    X[:, 3] *= rng.exponential(size=4000)
    copies = RankKnockoffs().of(X, 2).draw(np.random.RandomState(0))
    shares = np.mean(copies > 0, axis=0).reshape(2, P)
    np.testing.assert_allclose(shares, np.tile(np.mean(X > 0, axis=0), (2, 1)), rtol=0.2)
    np.testing.assert_array_equal(
        RankKnockoffs().of(4.0 * X, 2).draw(np.random.RandomState(0)), 4.0 * copies
    )


def test_rare_values_that_go_together_are_as_rare_in_copies():
    X = np.asarray(columns() > columns().mean(axis=0) + columns().std(axis=0), dtype=np.float64)
    copies = RankKnockoffs().of(X, COPIES).draw(np.random.RandomState(0))
    shares = copies.mean(axis=0).reshape(COPIES, P)
    np.testing.assert_allclose(shares, np.tile(X.mean(axis=0), (COPIES, 1)), rtol=0.2)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool])
def test_copies_of_integers_are_not_cut_to_integers(sampler, dtype):
    X = np.asarray(columns(2000) > 3.5, dtype=dtype)
    copies, expected = (
        sampler.of(data, 1).draw(np.random.RandomState(0)) for data in (X, X.astype(np.float64))
    )
    assert copies.dtype == np.float64
    np.testing.assert_array_equal(copies, expected)


def test_an_offset_makes_no_column_constant():
    X = columns(500)
    seconds = 1.7e9 + 1000.0 * X
    assert not Correlation.estimate(np.full((20_000, 1), 0.1)).deviation.any()
    copies = GaussianKnockoffs().of(seconds, 1).draw(np.random.RandomState(0))
    plain = GaussianKnockoffs().of(X, 1).draw(np.random.RandomState(0))
    np.testing.assert_allclose((copies - 1.7e9) / 1000.0, plain, rtol=1e-5)
    single = 1.0 + np.float32(1e-8) * X.astype(np.float32)  # the last digit
    assert len(np.unique(single)) > 1
    copies = GaussianKnockoffs().of(single, 1).draw(np.random.RandomState(0))
    np.testing.assert_array_equal(copies, np.broadcast_to(copies[0], copies.shape))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@pytest.mark.parametrize("odd", [np.nan, np.inf])
def test_numbers_must_be_finite(sampler, odd):
    X = columns(20)
    X[4, 2] = odd
    with pytest.raises(ValueError, match=f"expected finite numbers, got {odd} in row 4, column 2"):
        sampler.of(X, 1)


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
    assert 0.0 <= model.correlation.shrinkage <= 1.0
    assert np.isfinite(model.draw(np.random.RandomState(0))).all()


def test_correlations_are_shrunk_to_their_mean():
    """By the plain formula: variances of differences from the mean, among their squares.

    Of a difference as much as three standard errors of the correlation.
    """
    X = columns(40)
    found = Correlation.estimate(X)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    others = ~np.eye(P, dtype=bool)
    products = np.stack([np.outer(row, row)[others] for row in Z])
    means = products.mean(axis=1)
    differences = products - means[:, None]
    share = differences.var(axis=0).sum() / 40 / np.sum(differences.mean(axis=0) ** 2)
    assert 0.0 < share < 1.0
    assert found.shrinkage == pytest.approx(share)
    mean = means.mean()
    clear = mean * (1.0 - means.var() / 40 / mean**2)
    raw = np.corrcoef(X.T)
    noise = 3.0 * (1.0 - raw**2) / 40**0.5
    expected = raw + share * np.clip(clear - raw, -noise, noise)
    assert np.any(np.abs(clear - raw)[others] > noise[others])
    np.testing.assert_allclose(found.matrix[others], expected[others], rtol=1e-10)
    assert found.equal == []


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_a_clear_correlation_stays_among_columns_without_one(noise, sign):
    """A null column whose copies lack it would beat them in place of its twin."""
    X = np.random.default_rng(8).standard_normal((200, 30))
    X[:, 1] = sign * X[:, 0] + noise * X[:, 1]
    raw = np.corrcoef(X[:, :2].T)[0, 1]
    found = Correlation.estimate(X)
    assert found.shrinkage > 0.5
    assert abs(found.matrix[0, 1] - raw) < 3.0 * (1.0 - raw**2) / 200**0.5
    spread = GaussianKnockoffs().of(X, COPIES).core.spread
    assert spread[:2].max() < 3.0 * (1.0 - raw**2)
    assert spread[2:].min() > 0.3  # the others have room


@pytest.mark.parametrize("n", [60, 120])
def test_a_shared_factor_leaves_room_for_copies(n):
    rng = np.random.default_rng(4)
    X = rng.standard_normal((n, 60)) + rng.standard_normal((n, 1))
    assert np.linalg.eigvalsh(np.corrcoef(X.T))[0] < 0.05
    model = GaussianKnockoffs().of(X, COPIES)
    assert model.core.spread.mean() > 0.4  # as far as columns are from each other


def test_categories_leave_room_for_copies():
    """Columns of which one is 1 exclude each other: on average they are correlated below 0."""
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 10, (150, 4))
    X = np.concatenate([codes == k for k in range(1, 10)], axis=1).astype(np.float64)
    model = RankKnockoffs().of(X, 1)
    assert model.core.spread.mean() > 0.5
    copies = model.draw(np.random.RandomState(0))
    assert np.mean(copies.mean(axis=0)) == pytest.approx(0.1, abs=0.02)


def test_independent_columns_have_independent_copies():
    X = np.random.default_rng(6).standard_normal((100, 100))
    assert GaussianKnockoffs().of(X, COPIES).core.spread.mean() > 0.85


def test_equal_columns_are_named_and_leave_room():
    X = columns(300)
    X[:, 3] = 5.0 - 2.0 * X[:, 1]
    found = Correlation.estimate(X)
    assert found.equal == [(1, 3)]
    np.testing.assert_array_equal(found.matrix[3], [0.0, 0.0, 0.0, 1.0])
    np.testing.assert_allclose(found.matrix[:3, :3], np.corrcoef(X[:, :3].T), atol=0.02)


@pytest.mark.parametrize("sampler", [SAMPLERS[0], SAMPLERS[2]], ids=str)
def test_copies_live_where_the_columns_do(on, sampler):
    X = on.rounded(columns(80))
    expected = sampler.of(X, 2).draw(np.random.RandomState(3))
    actual = sampler.of(on.put(X), 2).draw(np.random.RandomState(3))
    on.assert_close(actual, expected, ulps=1e9 * (on.eps < 1e-10) + 1e3)
