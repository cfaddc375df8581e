"""The evidence of sums of kernels is scikit-learn's, and what is learned of the terms is said."""

import numpy as np
import oracles
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

from gpukfl.kernels import KernelTerms, Linear, Matern32, Matern52
from gpukfl.methods import BoundCriterion, ExactCriterion, MetricPrior, fit_metric
from gpukfl.methods._evidence import _Descent
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import LBFGS

SUM = Matern52() + 0.3 * Matern32(0.4) + 0.1 * Linear(2.0)
SHARES = np.array([0.5, 0.3, 0.2])
RATIO = 0.07
criteria = pytest.mark.parametrize("name", ["evidence", "loo", "bound"])
MAPS = {"diagonal": (3,), "low_rank": (2, 3), "diagonals": (3, 1, 3), "own columns": (3, 1, 3)}
maps = pytest.mark.parametrize("structure", list(MAPS))


def drawn(on, rng, n=24, t=2, d=3):
    X = on.rounded(rng.standard_normal((n, d)))
    Y = on.rounded(np.sin(2.0 * X[:, :t]) + 0.3 * rng.standard_normal((n, t)))
    return X, Y, on.rounded(rng.uniform(0.5, 2.0, (n, 1)))


def make_criterion(on, name, kernel, X, Y, weights):
    X, Y, weights = on.put(X), on.put(Y), on.put(weights)
    if name == "bound":
        rows = Rows(X, on.reference)
        return BoundCriterion(kernel, rows, X[:9, :], Y, weights=weights)
    return ExactCriterion(kernel, X, Y, criterion=name, weights=weights)


@pytest.mark.each
@criteria
@maps
def test_gradients_in_map_terms_and_noise_are_those_of_the_values(on_double, rng, name, structure):
    on, shape = on_double, MAPS[structure]
    terms = KernelTerms.from_kernel(SUM)
    apart = len(shape) == 3
    stretches = (1.0, 1.0, 1.0) if apart else (1.0, 1.3, 0.8)
    known = KernelTerms(terms.kernels, tuple(SHARES), stretches)
    C = rng.uniform(0.3, 0.9, shape)
    own = structure == "own columns"
    criterion = make_criterion(on, name, SUM, *drawn(on, rng, d=9 if own else 3))
    prior = MetricPrior(np.reshape([2.0, 1.0, 3.0], (3, 1, 1)) if own else 2.0)
    descent = _Descent(criterion, prior, on.put(C), RATIO, True, known)
    x = descent.start + 0.1 * rng.standard_normal(len(descent.start))
    assert len(x) == C.size + (2 if apart else 4) + 1
    slopes = oracles.slopes(lambda v: descent.function(v)[0], x, 1e-5)
    found = descent.function(x)[1]
    assert np.max(np.abs(found - slopes)) <= 1e-6 * np.max(np.abs(slopes))


@criteria
def test_a_multiple_of_kernel_and_noise_changes_nothing(on_double, rng, name):
    """The amplitudes are the best ones, so that the slopes in all factors add up to 0."""
    criterion = make_criterion(on_double, name, SUM, *drawn(on_double, rng))
    found = criterion(on_double.put(np.full(3, 0.6)), RATIO)
    assert found.log_factors.shape == (3,)
    assert found.log_factors.sum() + found.log_ratio == pytest.approx(0.0, abs=1e-7)
    other = criterion.with_kernel(3.0 * SUM)(on_double.put(np.full(3, 0.6)), 3.0 * RATIO)
    assert other.value == pytest.approx(found.value, rel=1e-10)
    assert criterion.kernel == SUM


@criteria
def test_terms_of_the_same_columns_twice_are_those_of_the_columns(on_double, rng, name):
    on, C = on_double, rng.uniform(0.3, 0.9, (3, 1, 3))
    X, *others = drawn(on, rng)
    kernel = KernelTerms.from_kernel(SUM).side_by_side(3)
    once = make_criterion(on, name, kernel, X, *others)(on.put(C), RATIO)
    twice = make_criterion(on, name, kernel, np.tile(X, 3), *others)(on.put(C), RATIO)
    assert twice.value == pytest.approx(once.value, rel=1e-12)
    np.testing.assert_allclose(twice.metric, once.metric, rtol=1e-9)
    np.testing.assert_allclose(twice.log_factors, once.log_factors, rtol=1e-9)


def test_value_and_gradient_are_those_of_scikit_learn(rng):
    X, lengths = rng.standard_normal((40, 3)), np.array([[0.7, 1.5, 4.0], [0.3, 2.0, 1.0]])
    y = np.sin(2.0 * X[:, :1]) + 0.1 * rng.standard_normal((40, 1))
    terms = KernelTerms((Matern52(), Matern32()), (0.7, 0.3), (1.0, 1.0))
    criterion = ExactCriterion(terms.side_by_side(3), X, y)
    C = 1.0 / lengths[:, None, :]
    found = criterion(C, RATIO)
    (square,) = criterion.posterior(C, RATIO).squares
    parts = [
        ConstantKernel(square * w) * Matern(ell, nu=nu)
        for w, ell, nu in zip((0.7, 0.3), lengths, (2.5, 1.5), strict=True)
    ]
    theirs = parts[0] + parts[1] + WhiteKernel(RATIO * square)
    gp = GaussianProcessRegressor(theirs, alpha=0.0, optimizer=None).fit(X, y[:, 0])
    value, slopes = gp.log_marginal_likelihood(theirs.theta, eval_gradient=True)
    assert found.value == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(found.log_factors, slopes[[0, 4]], rtol=1e-6)
    np.testing.assert_allclose(
        (-found.metric / lengths[:, None, :]).ravel(), slopes[[1, 2, 3, 5, 6, 7]], rtol=1e-6
    )
    assert found.log_ratio == pytest.approx(slopes[8], rel=1e-6)


@pytest.mark.parametrize("apart", [False, True])
def test_a_sum_learns_two_scales(on_double, rng, apart):
    on = on_double
    X = rng.uniform(-2.0, 2.0, (120, 2))
    rough = X[:, 1:] if apart else X
    truth = oracles.matern52(X, X, 3.0) + 0.5 * oracles.matern32(rough, rough, 0.3)
    y = np.linalg.cholesky(truth + 1e-3 * np.eye(120)) @ rng.standard_normal((120, 1))
    kernel = Matern52() + 0.3 * Matern32(0.3)
    args = on.put(X), on.put(y - y.mean())
    options = {"prior": MetricPrior(2.0), "optimizer": LBFGS(max_iter=60)}
    C = on.put(np.full((2, 1, 2) if apart else 2, 0.5))
    terms = KernelTerms.from_kernel(kernel)
    found = fit_metric(ExactCriterion(kernel, *args), [(C, 0.1)], terms=terms, **options)
    on.assert_lives_here(found.C, "float64")
    assert tuple(found.C.shape) == tuple(C.shape)
    assert sum(found.terms.shares) == pytest.approx(1.0)
    one = on.put(np.full(2, 0.5))
    for alone in (Matern52(), Matern32()):
        single = fit_metric(ExactCriterion(alone, *args), [(one, 0.1)], **options)
        assert single.terms is None
        assert single.kernel(alone) is alone
        assert found.value > single.value + 2.0
    kept = fit_metric(ExactCriterion(kernel, *args), [(one, 0.1)], **options)
    assert found.value > kept.value + 1.0
    learned = ExactCriterion(found.kernel(kernel), *args)(found.C, found.ratio)
    assert learned.value > found.value  # which has the prior
    if apart:
        lengths = 1.0 / on.host(found.C)[:, 0, :]
        assert found.terms.stretches == (1.0, 1.0)
        assert lengths[1, 0] > 3.0 * lengths[1, 1]
    else:
        assert found.terms.stretches[1] < 1.0


def test_of_few_samples_terms_stay_where_the_kernel_says(rng):
    X, y = rng.standard_normal((2, 3)), np.array([[0.5], [-0.5]])
    terms = KernelTerms.from_kernel(SUM)
    options = {"prior": MetricPrior(2.0), "optimizer": LBFGS(max_iter=60)}
    found = fit_metric(ExactCriterion(SUM, X, y), [(np.full(3, 0.5), 0.1)], terms=terms, **options)
    away = np.log(np.divide(found.terms.shares, terms.shares))
    assert np.max(np.abs(away - away[0])) < 1.5
    assert np.max(np.abs(np.log(found.terms.stretches))) < 0.5
    wide = MetricPrior(2.0, stretch_spread=1e-3, share_spread=1e-3)
    options |= {"prior": wide}
    held = fit_metric(ExactCriterion(SUM, X, y), [(np.full(3, 0.5), 0.1)], terms=terms, **options)
    np.testing.assert_allclose(held.terms.shares, terms.shares, rtol=1e-4)


def test_a_fit_goes_on_from_known_terms(rng):
    X, Y = rng.standard_normal((60, 3)), rng.standard_normal((60, 1))
    Y = np.sin(3.0 * X[:, :1]) + 0.1 * Y
    criterion, terms = ExactCriterion(SUM, X, Y), KernelTerms.from_kernel(SUM)
    options = {"prior": MetricPrior(2.0)}
    first = fit_metric(
        criterion, [(np.full(3, 0.5), 0.1)], terms=terms, optimizer=LBFGS(max_iter=20), **options
    )
    again = fit_metric(
        criterion,
        [(first.C, first.ratio)],
        terms=first.terms,
        optimizer=LBFGS(max_iter=0),
        **options,
    )
    assert again.value == pytest.approx(first.value, rel=1e-9)
    np.testing.assert_allclose(again.terms.shares, first.terms.shares)
