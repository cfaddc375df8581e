"""HKRR by the evidence of log odds: probabilities, places, weights, files and many rows."""

import numpy as np
import pytest
from sklearn.metrics import log_loss

import gpukfl
from gpukfl import HKRRClassifier, HKRRRegressor, runtime
from gpukfl.estimators.hkrr import _fit
from gpukfl.kernels import Matern32, Matern52

RNG = np.random.default_rng(0)
X = RNG.standard_normal((160, 4))
ODDS = 3.0 * np.sin(2.0 * X[:, 0]) + 1.5 * X[:, 1]
LABELS = np.where(RNG.random(160) < 1.0 / (1.0 + np.exp(-ODDS)), "yes", "no")
MANY = np.digitize(ODDS + 0.3 * RNG.standard_normal(160), [-1.0, 1.0])
NEW = RNG.standard_normal((400, 4))
TRUE = 1.0 / (1.0 + np.exp(-(3.0 * np.sin(2.0 * NEW[:, 0]) + 1.5 * NEW[:, 1])))


def classifier(**options):
    return HKRRClassifier(**{"criterion": "logistic", "random_state": 0, **options})


def test_probabilities_are_close_to_the_true_ones():
    model = classifier(kernel="matern52").fit(X, LABELS)
    found = model.predict_proba(NEW)[:, 1]
    assert model.score(X, LABELS) > 0.8
    constant = -np.mean(TRUE * np.log(TRUE.mean()) + (1 - TRUE) * np.log(1 - TRUE.mean()))
    loss = -np.mean(TRUE * np.log(found) + (1 - TRUE) * np.log(1 - found))
    best = -np.mean(TRUE * np.log(TRUE) + (1 - TRUE) * np.log(1 - TRUE))
    assert loss - best < 0.35 * (constant - best)
    assert model.feature_importances_[:2].min() > model.feature_importances_[2:].max()


@pytest.mark.parametrize("options", [{}, {"structure": "low_rank"}, {"n_components": 2}])
def test_all_structures_tell_classes(options):
    model = classifier(**options).fit(X, MANY)
    proba = model.predict_proba(NEW)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert model.score(X, MANY) > 0.75
    assert log_loss(MANY, model.predict_proba(X)) < 0.6
    assert np.isfinite(model.evidence_)
    assert "evidence" in model.describe().text


def test_a_sum_of_kernels_is_learned():
    model = classifier(kernel=Matern52() + 0.3 * Matern32(0.4)).fit(X, LABELS)
    assert model.score(X, LABELS) > 0.8


def test_names_and_order_of_classes_change_nothing():
    other = np.where(LABELS == "yes", "a", "b")
    one, two = classifier().fit(X, LABELS), classifier().fit(X, other)
    np.testing.assert_allclose(
        one.predict_proba(NEW)[:, 1], two.predict_proba(NEW)[:, 0], atol=1e-6
    )


def test_equal_weights_and_rows_given_twice_change_nothing():
    one = classifier().fit(X, LABELS)
    weighted = classifier().fit(X, LABELS, np.full(len(X), 3.0))
    twice = classifier().fit(np.tile(X, (2, 1)), np.tile(LABELS, 2))
    for other in (weighted, twice):
        np.testing.assert_allclose(one.predict_proba(NEW), other.predict_proba(NEW), atol=1e-6)


@pytest.mark.few
def test_places_agree(on):
    here = classifier().fit(on.put(X), MANY)
    host = classifier().fit(on.rounded(X), MANY)
    found = on.host(here.predict_proba(on.put(NEW)))
    np.testing.assert_allclose(found, host.predict_proba(on.rounded(NEW)), atol=2e-3)


def test_a_file_and_the_runtime_predict_the_same(tmp_path):
    model = gpukfl.fit(X, LABELS, method="hkrr", criterion="logistic", progress=False)
    model.save(tmp_path / "model.gpukfl")
    for read in (gpukfl.load, runtime.load):
        found = read(tmp_path / "model.gpukfl").predict_proba(NEW)
        np.testing.assert_allclose(found, model.predict_proba(NEW), atol=1e-9)


def test_many_rows_are_fitted_through_centres(monkeypatch):
    exact = classifier(scaling=None).fit(X, LABELS)
    monkeypatch.setattr(_fit, "EXACT_ROWS", 100)
    some = classifier(scaling=None).fit(X, LABELS)
    assert len(some.centers_) == len(X)
    np.testing.assert_allclose(some.predict_proba(NEW), exact.predict_proba(NEW), atol=1e-3)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_rows_are_enough(n):
    y = np.arange(n) % 2
    proba = classifier().fit(X[:n], y).predict_proba(NEW)
    assert np.isfinite(proba).all()


def test_separable_classes_have_finite_log_odds():
    y = X[:, 0] > 0
    model = classifier().fit(X, y)
    assert model.score(NEW, NEW[:, 0] > 0) > 0.95
    assert np.isfinite(model.predict_log_proba(100.0 * NEW)).all()


def test_a_regressor_has_no_log_odds():
    with pytest.raises(ValueError, match="expected criterion to be one of"):
        HKRRRegressor(criterion="logistic").fit(X, ODDS)
