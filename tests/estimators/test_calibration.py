"""Probabilities: calibrated on held-out rows, never certain, of weighted classes."""

import numpy as np
import pytest
import toy_method
from brief import bkernn, hkrr
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from toy_method import solve

import gpukfl
from gpukfl.estimators._calibration import Calibration

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge:UserWarning"),
]

RNG = np.random.default_rng(0)
CLASSIFIERS = {
    "kernel ridge": gpukfl.KernelRidgeClassifier(random_state=0),
    "bkernn": gpukfl.BKerNNClassifier(**bkernn(n_particles=20, max_iter=5, random_state=0)),
    "hkrr": gpukfl.HKRRClassifier(
        random_state=0, **hkrr(n_components=2, ridge=1e-3, n_starts=1, max_iter=2)
    ),
    "selection": gpukfl.KernelFeatureSelectorClassifier(ridge=1e-3, sparsity=0.05, random_state=0),
    "weighting": gpukfl.RKHSWeightingClassifier(100, instantiation="stumps", random_state=0),
    "regfeal": gpukfl.RegFeaLClassifier(300, strength=0.1, degrees=0.1, random_state=0),
}
SIGNAL = RNG.standard_normal((100, 2))
LABELS = np.where(SIGNAL[:, 0] + 0.5 * RNG.standard_normal(100) > 1.0, "rare", "usual")


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return X[:200], y[:200], X[398:], y[398:]


@pytest.mark.few
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_log_loss_is_at_most_that_of_logistic_regression(name, cancer):
    X, y, X_test, y_test = cancer
    model = CLASSIFIERS[name].fit(X, y)
    peer = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    P = model.predict_proba(X_test)
    assert log_loss(y_test, P) <= 1.5 * log_loss(y_test, peer.predict_proba(X_test))
    assert P.min() > 0.0
    assert P.max() < 1.0
    np.testing.assert_allclose(np.log(P), model.predict_log_proba(X_test), atol=1e-9)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X_test))


@pytest.mark.few
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_balanced_classes_are_weights(name):
    model = CLASSIFIERS[name]
    counts = {label: np.mean(label == LABELS) for label in ("rare", "usual")}
    weights = np.array([1.0 / counts[label] for label in LABELS])
    balanced = changed(model, class_weight="balanced").fit(SIGNAL, LABELS)
    weighted = changed(model).fit(SIGNAL, LABELS, sample_weight=weights)
    np.testing.assert_allclose(
        balanced.predict_proba(SIGNAL), weighted.predict_proba(SIGNAL), atol=1e-7
    )
    plain = changed(model).fit(SIGNAL, LABELS)
    assert np.mean(balanced.predict(SIGNAL) == "rare") > np.mean(plain.predict(SIGNAL) == "rare")


def changed(model, **options):
    return type(model)(**{**model.get_params(), **options})


def test_weights_of_classes_multiply_those_of_samples():
    X, y = load_iris(return_X_y=True)
    weights = RNG.uniform(0.5, 2.0, len(y))
    both = gpukfl.KernelRidgeClassifier(class_weight={0: 1.0, 1: 3.0, 2: 1.0}, random_state=0)
    once = gpukfl.KernelRidgeClassifier(random_state=0)
    both.fit(X, y, sample_weight=weights)
    once.fit(X, y, sample_weight=weights * np.where(y == 1, 3.0, 1.0))
    np.testing.assert_allclose(both.predict_proba(X), once.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("wrong", ["even", {"none of them": 2.0}, 3.0])
def test_class_weights_that_are_none_are_refused(wrong):
    with pytest.raises(ValueError, match="class_weight"):
        gpukfl.KernelRidgeClassifier(class_weight=wrong).fit(SIGNAL, LABELS)


def test_calibration_has_the_highest_likelihood(rng):
    scores = rng.normal(0.4, 0.3, (400, 3))
    codes = np.array([rng.choice(3, p=np.exp(2 * s) / np.exp(2 * s).sum()) for s in scores])
    weights = rng.uniform(0.5, 2.0, 400)

    def loss(logs):
        power, offset = np.exp(logs)
        logs = Calibration(power, offset).log_proba(scores)
        return -np.sum(weights * logs[np.arange(400), codes])

    found = Calibration.fit(scores, codes, weights)
    best = min(minimize(loss, s, method="Nelder-Mead").fun for s in ((0.0, -2.0), (2.0, 1.0)))
    assert loss(np.log([found.power, found.offset])) <= best * (1.0 + 2e-3)


def test_after_rows_without_a_mistake_the_next_may_be_wrong():
    codes = np.arange(50) % 2
    found = Calibration.fit(np.eye(2)[codes], codes, np.ones(50))
    P = np.exp(found.log_proba(np.eye(2)))
    assert P.max() == pytest.approx(51 / 52, abs=2e-3)


def test_trials_that_overflow_do_not_calibrate(monkeypatch):
    fits = []

    def overflowing(problem, ridge):
        fits.append(problem.rows.shape[0])
        if len(fits) % 2 == 0 and fits[-1] < len(SIGNAL):  # every second fold
            raise FloatingPointError
        return solve(problem, ridge)

    monkeypatch.setattr(toy_method, "solve", overflowing)
    model = toy_method.RidgeClassifier(random_state=0).fit(SIGNAL, LABELS)
    assert {trial["score"] for trial in model.tuning_} == {-np.inf}
    np.testing.assert_allclose(model.predict_proba(SIGNAL).sum(axis=1), 1.0, atol=1e-12)


def test_probabilities_of_two_rows():
    model = gpukfl.KernelRidgeClassifier(ridge=0.1).fit([[0.0], [1.0]], ["a", "b"])
    np.testing.assert_allclose(model.predict_proba([[0.0], [1.0]]).sum(axis=1), 1.0, atol=1e-12)
