"""RKHS weighting estimators: what they learn, probabilities, bounds, importances."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import linear_model
from sklearn.metrics import log_loss
from weighting_cases import (
    GAUSSIAN,
    LABELS,
    LABELS_NEW,
    LEARNERS,
    NEW,
    SINKS,
    STUMPS,
    THREE,
    Y2,
    Y_NEW,
    Cosines,
    D,
    N,
    T,
    X,
    Y,
    classifier,
    formula,
    regressor,
    truth,
)

from gpukfl.estimators.weighting._fit import instantiation_text
from gpukfl.instantiations import GaussianSign, Stumps
from gpukfl.methods import LOSSES, cross_validate, generalization_gap
from gpukfl.operators import FeatureOperator

learners = pytest.mark.parametrize("learner", LEARNERS)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
pytestmark = quiet


# ---------------------------------------------------------------------- what is learned


@learners
@pytest.mark.parametrize("instantiation", [STUMPS, GAUSSIAN], ids=["stumps", "signs"])
def test_functions_are_learned(learner, instantiation):
    model = regressor(learner=learner, instantiation=instantiation, n_parameters=100).fit(X, Y)
    least = {"least_squares": 0.85, "lasso": 0.85, "optimal_step": 0.6, "sfgd": -0.05}[learner]
    assert model.score(NEW, Y_NEW) > least * (0.6 if instantiation is GAUSSIAN else 1.0)
    assert model.status_ in ("CONVERGED", "STALLED")
    lengths = {len(getattr(model.history_, n)) for n in ("objective", "step", "seconds")}
    assert lengths == {model.n_iter_}


@pytest.mark.few
@learners
@pytest.mark.parametrize("y", [LABELS, THREE], ids=["two", "three"])
def test_classes_are_learned(learner, y):
    model = classifier(learner=learner, n_parameters=80).fit(X, y)
    assert set(model.predict(NEW)) <= set(y)
    least = {"least_squares": 0.85, "lasso": 0.85, "optimal_step": 0.65, "sfgd": 0.45}[learner]
    assert model.score(X, y) > least + 0.1 * (y is LABELS) - 0.05
    assert model.coef_.shape == (model.n_parameters_, 1 if y is LABELS else 3)


@pytest.mark.few
@pytest.mark.parametrize("learner", ["optimal_step", "sfgd"])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_learned(learner, loss):
    model = classifier(learner=learner, loss=loss, n_parameters=80).fit(X, LABELS)
    assert model.score(NEW, LABELS_NEW) > 0.75


@pytest.mark.parametrize("ridge", ["auto", 1e-4])
@pytest.mark.parametrize("instantiation", ["auto", "gaussian_sign", "stumps"])
def test_instantiations_are_chosen(instantiation, ridge):
    model = regressor(instantiation=instantiation, ridge=ridge).fit(X, Y)
    kinds = {"auto": (GaussianSign, Stumps), "gaussian_sign": GaussianSign, "stumps": Stumps}
    assert isinstance(model.instantiation_, kinds[instantiation])
    tried = {trial["instantiation"] for trial in model.tuning_}
    assert len(tried) == (8 if instantiation == "auto" else 4)
    assert instantiation_text(model.instantiation_) in tried
    assert sum(trial["chosen"] for trial in model.tuning_) == 1
    assert model.score(NEW, Y_NEW) > 0.5
    if ridge != "auto":
        assert model.ridge_ == pytest.approx(1e-4)


@learners
def test_the_ridge_is_chosen(learner):
    model = regressor(learner=learner, ridge="auto").fit(X, Y)
    (chosen,) = (trial for trial in model.tuning_ if trial["chosen"])
    assert chosen["score"] == max(trial["score"] for trial in model.tuning_)
    assert model.ridge_ == pytest.approx(chosen["ridge"], rel=1e-12)
    assert len({trial["ridge"] for trial in model.tuning_}) == len(model.tuning_) > 4


@learners
def test_a_given_ridge_is_taken(learner):
    model = regressor(learner=learner, ridge=0.0123).fit(X, Y)
    assert model.ridge_ == pytest.approx(0.0123, rel=1e-12)
    assert model.tuning_ == []


@pytest.mark.pairs
@learners
@pytest.mark.parametrize("instantiation", [STUMPS, GAUSSIAN, SINKS], ids=["stumps", "signs", "rks"])
@pytest.mark.parametrize("bias", [True, False])
def test_predictions_are_the_formula(learner, instantiation, bias):
    model = regressor(learner=learner, instantiation=instantiation, bias=bias).fit(X, Y2)
    scale = np.abs(model.coef_).sum()
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW), atol=1e-12 * scale)
    W, A = model.parameters_, model.coef_
    G = model.instantiation_.kernel(W, W)
    norms = np.sqrt(np.sum(A * (G @ A), axis=0)) * math.exp(-model.log_scale_)
    np.testing.assert_allclose(model.rkhs_norm_, norms, rtol=1e-6)
    np.testing.assert_allclose(model.log_rkhs_norm_, np.log(norms), atol=1e-6)
    if instantiation is not SINKS:
        reach = model.theta_ * model.rkhs_norm_
        assert np.all(np.abs(model.predict(NEW) - model.intercept_) <= reach * (1 + 1e-9))


def test_least_squares_solve_the_normal_equations():
    model = regressor(ridge=1e-2, scaling=None).fit(X, Y2)
    W = model.parameters_
    inside = np.column_stack([np.ones(N), X])
    features = STUMPS.features(W, D + 1)
    Phi = features.shapes(inside) * np.exp(features.log_constants)
    G = STUMPS.kernel(W, W)
    G = G + model.jitter_ * np.eye(len(W))
    Z = (Y2 - Y2.mean(axis=0)) / Y2.std(axis=0)
    A = np.linalg.solve(Phi.T @ Phi + N * 1e-2 * G, Phi.T @ Z)
    fitted = Y2.mean(axis=0) + Y2.std(axis=0) * (Phi @ A)
    np.testing.assert_allclose(model.predict(X), fitted, atol=1e-7)
    assert 0 < model.jitter_ < 1e-6


@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_random_kitchen_sinks_are_ridge_regression_on_their_features(alpha):
    options = {"instantiation": SINKS, "ridge": alpha / N, "scaling": None, "bias": False}
    model = regressor(**options).fit(X, Y)
    W = SINKS.draw(T, D, np.random.RandomState(0))
    assert all(np.any(np.all(w == W, axis=1)) for w in model.parameters_)

    def features(X):
        return np.sign(X[:, W[:, 0].astype(int)] - W[:, 1])

    z = (Y - Y.mean()) / Y.std()
    twin = linear_model.Ridge(alpha, fit_intercept=False).fit(features(X), z)
    expected = Y.mean() + Y.std() * twin.predict(features(NEW))
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-6)
    with pytest.raises(ValueError, match="no bound"):
        model.bound(X, Y)


def test_the_lasso_leaves_parameters_out():
    model = regressor(learner="lasso", ridge=1e-2).fit(X, Y)
    assert 0 < model.n_parameters_ < T / 2
    assert model.coef_.shape == (model.n_parameters_, 1)
    assert model.parameters_.shape == (model.n_parameters_, 2)
    assert np.all(np.any(model.coef_ != 0, axis=1))
    assert model.gap_ < 1e-5
    nothing = regressor(learner="lasso", ridge=1e3).fit(X, Y)
    assert nothing.n_parameters_ == 0
    np.testing.assert_allclose(nothing.predict(NEW), Y.mean(), rtol=1e-12)
    assert np.all(nothing.feature_importances_ == 0)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_a_pruned_model_predicts_as_all_its_coefficients(monkeypatch, make):
    from gpukfl.estimators.weighting import _estimator as base

    kept = []
    keep = base.WeightingBase._keep_gradients

    def noting(self, problem, operator, A, there):
        kept.append((operator, A))
        return keep(self, problem, operator, A, there)

    monkeypatch.setattr(base.WeightingBase, "_keep_gradients", noting)
    y = THREE if make is classifier else Y2
    model = make(prune="risk", prune_tolerance=0.05).fit(X, y)
    operator, A = kept[0]
    assert model.n_parameters_ == np.count_nonzero(np.any(A != 0, axis=1)) < T
    whole = FeatureOperator(
        model.instantiation_, model.predictor_.values.rows(NEW), operator.W, operator.log_scale
    )
    scale = Y2.std(axis=0) if make is regressor else 1.0
    expected = model.intercept_ + (whole @ A) * scale
    predicted = model.predict(NEW) if make is regressor else model.decision_function(NEW)
    np.testing.assert_allclose(predicted, expected, atol=1e-10)


def test_a_users_instantiation_is_estimated_and_its_error_reported():
    options = {"instantiation": Cosines(), "ridge": 1e-3, "prune": "risk"}
    model = regressor(**options).fit(X, Y)
    assert 0 < model.expectation_error_ < 0.5
    assert model.score(X, Y) > 0.1  # cosines are even
    assert model.theta_ == 1.0  # of κ
    assert math.isfinite(model.bound(X, Y))
    assert regressor().fit(X, Y).expectation_error_ == 0.0
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW)[:, 0], atol=1e-9)


# ---------------------------------------------------------------------- probabilities


@learners
@pytest.mark.parametrize("y", [LABELS, THREE], ids=["two", "three"])
def test_probabilities_sum_to_one_and_agree_with_the_labels(learner, y):
    model = classifier(learner=learner).fit(X, y)
    proba = model.predict_proba(NEW)
    assert proba.shape == (60, len(set(y)))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert np.all(proba >= 0)
    np.testing.assert_array_equal(model.predict(NEW), model.classes_[proba.argmax(axis=1)])
    scores = model.decision_function(NEW)
    if y is LABELS:
        np.testing.assert_array_equal(model.predict(NEW), model.classes_[(scores > 0).astype(int)])
        scores = np.stack([-scores, scores], axis=1)
    power, offset = model.calibration_.power, model.calibration_.offset
    shares = np.clip(0.5 + 0.5 * scores + offset, 0.01 * offset, None) ** power
    expected = shares / shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(proba, expected, atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("learner", ["least_squares", "optimal_step"])
def test_probabilities_are_calibrated(learner, classes):
    rng = np.random.default_rng(0)
    points = rng.standard_normal((2600, D))
    noisy = truth(points) + 0.7 * rng.standard_normal(2600)
    y = np.searchsorted([0.0] if classes == 2 else [-0.7, 0.7], noisy)
    model = classifier(learner=learner, n_parameters=60).fit(points[:600], y[:600])
    proba, held = model.predict_proba(points[600:]), y[600:]
    scores = model.decision_function(points[600:])
    if classes == 2:
        clipped = np.clip(0.5 + 0.5 * scores, 1e-3, 1 - 1e-3)
        raw = np.stack([1 - clipped, clipped], axis=1)
    else:
        raw = np.clip(0.5 + 0.5 * scores, 1e-3, 1.0)
        raw = raw / raw.sum(axis=1, keepdims=True)
    one_hot = np.eye(classes)[held]
    brier, clipped = (np.mean(np.sum((p - one_hot) ** 2, axis=1)) for p in (proba, raw))
    assert log_loss(held, proba) < log_loss(held, raw)
    assert brier < clipped + 0.01
    if classes == 2:  # of those said to be at p, about a share p
        share = proba[:, 1]
        for low in (0.1, 0.3, 0.5, 0.7):
            inside = (share >= low) & (share < low + 0.2)
            assert abs(np.mean(held[inside]) - np.mean(share[inside])) < 0.12
    assert model.validation_["error"] == pytest.approx(
        1 - model.score(points[600:], held), abs=0.06
    )
    assert model.validation_["risk"] >= model.validation_["error"]


# ---------------------------------------------------------------------- bounds


@pytest.mark.parametrize("instantiation", [STUMPS, GAUSSIAN], ids=["stumps", "signs"])
@pytest.mark.parametrize(("learner", "loss"), [("least_squares", "squared"), ("sfgd", "logistic")])
def test_the_bound_is_theorem_10(instantiation, learner, loss):
    options = {"learner": learner, "loss": loss, "instantiation": instantiation, "ridge": 0.1}
    model = classifier(**options).fit(X, LABELS)
    f = model.decision_function(NEW)
    signs = np.where(LABELS_NEW == "yes", 1.0, -1.0)
    values = {
        "squared": lambda z: (1.0 - z) ** 2,
        "logistic": lambda z: np.logaddexp(0.0, -z) / math.log(2.0),
    }[loss]
    reach = model.theta_ * 7.0
    if loss == "squared":
        slope, most = 2.0 * (reach + 1.0), (reach + 1.0) ** 2
    else:
        slope = 1.0 / (1.0 + math.exp(-reach)) / math.log(2.0)
        most = np.logaddexp(0.0, reach) / math.log(2.0)
    m = len(NEW)
    gap = 2.0 * slope * reach / math.sqrt(m) + most * math.sqrt(math.log(1 / 0.01) / (2 * m))
    expected = np.mean(values(signs * f)) + gap
    assert model.rkhs_norm_[0] < 7.0
    assert model.bound(NEW, LABELS_NEW, 0.01, radius=7.0) == pytest.approx(expected, rel=1e-9)


def test_the_bound_of_a_regression_is_theorem_10():
    model = regressor(ridge=0.1).fit(X, Y)
    errors = Y - model.predict(X)
    largest = np.max(np.abs(Y - model.intercept_))
    reach = model.theta_ * model.rkhs_norm_[0]
    gap = generalization_gap(reach, reach + largest, 0.5 * (reach + largest) ** 2, N, 0.05)
    expected = np.mean(errors**2) + 2.0 * gap
    assert model.bound(X, Y, radius="norm") == pytest.approx(expected, rel=1e-9)
    scaled = regressor(ridge=0.1).fit(X, 100.0 * Y - 7.0)
    assert scaled.bound(X, 100.0 * Y - 7.0) == pytest.approx(1e4 * model.bound(X, Y), rel=0.9)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_bounds_grow_with_what_they_promise(make):
    y = LABELS if make is classifier else Y
    model = make(ridge=0.1).fit(X, y)
    norm = float(model.rkhs_norm_[0])
    by_norm, doubled = (model.bound(X, y, radius=r) for r in ("norm", "doubling"))
    assert doubled >= by_norm
    assert model.bound(X, y, radius=norm * (1 + 1e-9)) == pytest.approx(by_norm, rel=1e-6)
    assert model.bound(X, y, radius=2 * norm) > by_norm
    assert model.bound(X, y, 0.001) > model.bound(X, y, 0.5)
    with pytest.raises(ValueError, match="expected a radius of at least the norm"):
        model.bound(X, y, radius=0.9 * norm)


def test_bounds_cover_the_test_error():
    rng = np.random.default_rng(7)
    points = rng.standard_normal((3000, D))
    y = np.where(truth(points) + 0.5 * rng.standard_normal(3000) > 0, 1, 0)
    for learner in LEARNERS:
        # Widths and standardisation are fixed beforehand
        options = {"instantiation": Stumps(1.0, 1.0), "scaling": None, "learner": learner}
        model = classifier(**options, ridge=0.1).fit(points[:1000], y[:1000])
        error = 1 - model.score(points[1000:], y[1000:])
        assert error <= model.bound(points[:1000], y[:1000])
        risk = np.mean((1 - np.where(y == 1, 1, -1) * model.decision_function(points)) ** 2)
        assert risk <= model.bound(points[:1000], y[:1000])


def test_bounds_of_odd_models():
    constant = regressor(learner="lasso", ridge=1e3).fit(X, Y)
    assert constant.n_parameters_ == 0
    for radius in ("norm", "doubling", 1.0):
        assert math.isfinite(constant.bound(X, Y, radius=radius))
    wide = np.random.default_rng(0).standard_normal((30, 784))
    signs = GaussianSign(1.0, 1.0)
    model = classifier(instantiation=signs, ridge="auto", n_parameters=20).fit(wide, wide[:, 0] > 0)
    assert model.bound(wide, wide[:, 0] > 0) > 0
    assert np.all(np.isfinite(model.log_rkhs_norm_))


# ---------------------------------------------------------------------- importances


@learners
@pytest.mark.parametrize("instantiation", [STUMPS, GAUSSIAN], ids=["stumps", "signs"])
def test_importances_find_the_variables(learner, instantiation):
    options = {"learner": learner, "instantiation": instantiation, "n_parameters": 150}
    importances = regressor(**options).fit(X, Y).feature_importances_
    assert importances.sum() == pytest.approx(1.0)
    least = 0.7 if instantiation is STUMPS else 0.5
    assert importances[:2].sum() > least - 0.1 * (learner == "sfgd")
    assert set(np.argsort(importances)[-2:]) == {0, 1}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("instantiation", [STUMPS, GAUSSIAN], ids=["stumps", "signs"])
def test_the_feature_matrix_is_that_of_finite_differences(instantiation, bias):
    model = regressor(instantiation=instantiation, bias=bias, ridge=1e-2).fit(X, Y2)
    step = 1e-5
    gradients = []
    for k in range(D):
        shift = step * model.scaling_.scale[k] * np.eye(D)[k]  # of a standardised feature
        gradients.append((model.predict(X + shift) - model.predict(X - shift)) / (2 * step))
    g = np.stack(gradients, axis=1)
    expected = np.einsum("nkt,nlt->kl", g, g) / N
    scale = np.abs(expected).max()
    np.testing.assert_allclose(model.feature_matrix_, expected, atol=1e-5 * scale)
    roots = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(model.feature_importances_, roots / roots.sum(), atol=1e-5)


def test_directions_are_orthonormal_and_named():
    model = regressor(instantiation=GAUSSIAN).fit(X, Y)
    k = model.n_effective_features_
    components = model.components_
    assert components.shape == (k, D)
    np.testing.assert_allclose(components @ components.T, np.eye(k), atol=1e-12)
    inside = (NEW - model.scaling_.mean) / model.scaling_.scale
    np.testing.assert_allclose(model.transform(NEW), inside @ components.T, atol=1e-12)
    names = [f"rkhsweightingregressor{j}" for j in range(k)]
    assert list(model.get_feature_names_out()) == names
    frame = model.set_output(transform="pandas").transform(pd.DataFrame(NEW))
    assert list(frame.columns) == names


@pytest.mark.parametrize("scaling", [None, "standard"])
@pytest.mark.parametrize("make", [regressor, classifier])
def test_profiles_are_predictions(make, scaling):
    model = make(scaling=scaling, instantiation=GAUSSIAN)
    model.fit(X, THREE if make is classifier else Y2)
    steps, values = model.profiles(points=7)
    k = min(5, model.n_effective_features_)
    assert steps.shape == (k, 7)
    assert values.shape[:2] == (k, 7)
    mean, scale = (model.scaling_.mean, model.scaling_.scale) if scaling else (0.0, 1.0)
    middle = ((X - mean) / scale).mean(axis=0)
    for direction, along, expected in zip(model.components_, steps, values, strict=True):
        points = (middle + along[:, None] * direction) * scale + mean
        predicted = model.predict(points) if make is regressor else model.decision_function(points)
        np.testing.assert_allclose(predicted, expected, atol=1e-9)


# ---------------------------------------------------------------------- after other rows


@pytest.mark.parametrize("learner", ["least_squares", "lasso"])
def test_the_ridge_is_looked_for_around_that_of_about_the_same_rows(monkeypatch, learner):
    def fitted(rows, known):
        model = regressor(learner=learner, ridge="auto")
        return model, model.fit_like(X[rows], Y[rows], None, known)

    tried = []

    def counted(sums, solve, ridges):
        tried.append(len(ridges))
        return cross_validate(sums, solve, ridges)

    first, known = fitted(slice(None, -10), None)
    monkeypatch.setattr("gpukfl.methods._weighting.cross_validate", counted)
    monkeypatch.setattr("gpukfl.estimators.weighting._data.cross_validate", counted)
    model, _ = fitted(slice(10, None), known)
    anew, _ = fitted(slice(10, None), replace(known, setting=replace(known.setting, ridge=None)))
    assert model.ridge_ == pytest.approx(anew.ridge_)
    np.testing.assert_allclose(model.predict(NEW), anew.predict(NEW), rtol=1e-9)
    assert abs(np.log10(model.ridge_ / first.ridge_)) < 1.5
    near, every = tried[:-1], tried[-1]
    assert (sum(near) < every) == (learner == "least_squares")
