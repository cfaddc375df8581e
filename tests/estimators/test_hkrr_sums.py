"""HKRR by evidence of sums of kernels: what is learned of the terms, and what a model then is."""

import pickle

import numpy as np
import pytest
from hkrr_cases import LABELS, NEW, Y2, D, N, X, Y
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

import gpukfl
from gpukfl import HKRRClassifier, HKRRRegressor
from gpukfl.estimators.hkrr import Centers
from gpukfl.kernels import ColumnBlock, KernelTerms, Linear, Matern32, Matern52, sum_terms

SUM = Matern52() + 0.2 * Matern32(0.3)
THREE = SUM + 0.1 * Linear()
NOISY = Y + 0.1 * np.random.default_rng(5).standard_normal(N)
criteria = pytest.mark.parametrize("criterion", ["evidence", "loo"])
structures = pytest.mark.parametrize("structure", ["diagonal", "diagonals", "low_rank"])


def regressor(structure="diagonal", criterion="evidence", kernel=SUM, **options):
    options = {"random_state": 0, "scaling": None, **options}
    return HKRRRegressor(criterion=criterion, kernel=kernel, structure=structure, **options)


def theirs(model, *arguments):
    """Give scikit-learn's process at the model's hyperparameters."""
    square, parts = model.amplitude_[0] ** 2, []
    for one in sum_terms(model.kernel_):
        inner, B = one.kernel, np.asarray(model.map_)
        if isinstance(inner, ColumnBlock):
            B, inner = np.diag(B[inner.start : inner.stop]), inner.kernel
        nu = 2.5 if isinstance(inner, Matern52) else 1.5
        parts.append(ConstantKernel(square * one.factor) * Matern(inner.lengthscale / B, nu=nu))
    kernel = parts[0] + parts[1] + WhiteKernel(model.noise_[0] ** 2)
    return GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(*arguments)


@pytest.mark.parametrize("structure", ["diagonal", "diagonals"])
def test_a_fit_is_scikit_learns_process(structure):
    model = regressor(structure).fit(X, NOISY)
    gp = theirs(model, X, NOISY - model.intercept_)
    assert model.evidence_ == pytest.approx(gp.log_marginal_likelihood_value_, rel=1e-6)
    mean, std = gp.predict(NEW, return_std=True)
    found = model.predict(NEW, return_std=True)
    inside = np.abs(mean) < model.bound_[0]
    np.testing.assert_allclose(found[0][inside], (model.intercept_ + mean)[inside], atol=1e-6)
    np.testing.assert_allclose(found[1][inside], std[inside], rtol=1e-5)


@criteria
@structures
def test_terms_are_learned(criterion, structure):
    model = regressor(structure, criterion).fit(X, NOISY)
    terms = KernelTerms.from_kernel(model.kernel_)
    assert sum(one.factor for one in sum_terms(model.kernel_)) == pytest.approx(1.0)
    assert terms.shares != pytest.approx(KernelTerms.from_kernel(SUM).shares, rel=1e-3)
    width = 2 * D if structure == "diagonals" else model.map_.shape[0]
    assert model.map_.shape == ((D,) if structure == "diagonal" else (width, D))
    assert model.score(NEW, np.sin(3 * NEW @ [0.8, -0.6, 0, 0, 0])) > 0.9
    assert model.components_.shape[1] == model.feature_importances_.shape[0] == D
    assert model.feature_importances_[:2].sum() > 0.8


def test_hold_out_keeps_a_kernel_as_it_is():
    model = HKRRRegressor(1, kernel=SUM, ridge=1e-3, scaling=None, random_state=0).fit(X, NOISY)
    assert KernelTerms.from_kernel(model.kernel_).shares == KernelTerms.from_kernel(SUM).shares


@structures
def test_evidence_of_a_sum_is_higher_than_of_its_terms(structure):
    rough = NOISY + 0.5 * np.sign(X[:, 2])
    found = regressor(structure, kernel=SUM).fit(X, rough).evidence_
    options = {"structure": "low_rank" if structure == "low_rank" else "diagonal"}
    for alone in (Matern52(), Matern32()):
        assert found > regressor(kernel=alone, **options).fit(X, rough).evidence_ - 1.0


@structures
@pytest.mark.parametrize("n_centers", ["auto", 25])
def test_several_targets_weights_and_centres(structure, n_centers):
    options = {"n_centers": n_centers, "kernel": THREE}
    weights = np.where(np.arange(N) < 60, 2.0, 1.0)
    weighted = regressor(structure, **options).fit(X, Y2, sample_weight=weights)
    mean, std = weighted.predict(NEW, return_std=True)
    assert mean.shape == std.shape == (len(NEW), 2)
    assert (std > 0).all()
    assert len(sum_terms(weighted.kernel_)) == 3
    if n_centers == "auto":
        copied = regressor(structure, **options).fit(
            np.vstack([X, X[:60]]), np.vstack([Y2, Y2[:60]])
        )
        assert copied.evidence_ == pytest.approx(weighted.evidence_, rel=1e-6)


@structures
def test_few_centres_of_the_last_fit(structure):
    model = regressor(structure, n_centers=Centers(refit=30), kernel=THREE).fit(X, NOISY)
    whole = regressor(structure, kernel=THREE).fit(X, NOISY)
    assert model.score(X, NOISY) > whole.score(X, NOISY) - 0.1


@structures
def test_small_data(structure, rng):
    """Where samples say little, the prior keeps all numbers finite, and predictions sane."""
    for n in (2, 3, 6, 12):
        rows, y = rng.standard_normal((n, 4)), rng.standard_normal(n)
        model = regressor(structure, kernel=THREE).fit(rows, y)
        assert np.isfinite(model.predict(3.0 * rows)).all()
        assert np.isfinite(model.evidence_)
    with pytest.warns(UserWarning, match="y is constant"):
        constant = regressor(structure, kernel=THREE).fit(X, np.ones(N))
    np.testing.assert_allclose(constant.predict(NEW), 1.0)


@structures
def test_classes(structure):
    model = HKRRClassifier(
        criterion="evidence", kernel=SUM, structure=structure, random_state=0
    ).fit(X, LABELS)
    assert model.score(X, LABELS) > 0.9
    np.testing.assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0)


@structures
def test_files_and_pickles_predict_alike(structure, tmp_path):
    model = gpukfl.fit(
        X, NOISY, method="hkrr", criterion="evidence", kernel=THREE, structure=structure
    )
    path = tmp_path / "model.gpukfl"
    model.save(path)
    expected = model.predict(NEW)
    np.testing.assert_array_equal(gpukfl.load(path).predict(NEW), expected)
    np.testing.assert_allclose(gpukfl.runtime.load(path).predict(NEW), expected, rtol=1e-9)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(NEW), expected)
    assert " Matern52 + " in model.estimator.describe().facts["kernel"]


def test_each_term_has_a_metric_only_of_sums():
    with pytest.raises(ValueError, match="expected kernel to be a sum"):
        regressor("diagonals", kernel="matern32").fit(X, Y)
    with pytest.raises(ValueError, match="'diagonals', which needs criterion='evidence' or 'loo'"):
        regressor("diagonals", "hold_out").fit(X, Y)


@structures
def test_a_fit_to_similar_rows_goes_on_from_the_terms_that_are_known(structure):
    first, second = regressor(structure), regressor(structure)
    precedent = first.fit_like(X[:100], NOISY[:100], None, None)
    second.fit_like(X[20:], NOISY[20:], None, precedent)
    alone = regressor(structure).fit(X[20:], NOISY[20:])
    assert second.evidence_ == pytest.approx(alone.evidence_, abs=5.0)
    assert len(second.history_.objective) <= len(alone.history_.objective) + 8
