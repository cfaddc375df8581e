"""RegFeaL estimators: what they learn, weights and symmetries, far rows, odd data."""

import pickle

import numpy as np
import pandas as pd
import pytest
from brief import regfeal
from near_copies import near_copies
from regfeal_cases import (
    DIRECTIONS,
    NEW,
    THREE,
    TWO,
    VARIABLES,
    Y2,
    Y_NEW,
    Y_VARIABLES,
    D,
    N,
    X,
    Y,
    classifier,
    formula,
    regressor,
    target,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge

from gpukfl import RegFeaLRegressor, feature_score, load

R = 0.33
both = pytest.mark.parametrize("make", [regressor, classifier])


def targets(make):
    return THREE if make is classifier else Y


def predicted(model, samples):
    return getattr(model, "decision_function" if hasattr(model, "classes_") else "predict")(samples)


# ---------------------------------------------------------------------- what is learned


def test_it_learns_directions_and_predicts_from_them():
    model = regressor(retrain="kernel_ridge").fit(X, Y)
    assert model.score(NEW, Y_NEW) > 0.98
    assert feature_score(DIRECTIONS, model.R_[:, :2]) > 0.99
    assert model.n_features_estimated_ == model.n_effective_features_ == 2
    assert feature_score(DIRECTIONS, model.components_.T) > 0.99
    assert (model.n_iter_, model.status_) == (4, "CONVERGED")
    assert len({trial["prediction"] for trial in model.tuning_}) == len(model.tuning_) > 3
    assert (model.degree_decay_, model.strength_, model.ridge_) == (0.4, 0.01, 1e-8)


def test_it_selects_variables():
    model = regressor(selection="variables").fit(X, Y_VARIABLES)
    np.testing.assert_array_equal(model.R_, np.eye(D))
    assert sorted(np.argsort(-model.importances_)[:2]) == VARIABLES
    assert model.n_features_estimated_ == 2
    roots = np.sqrt(np.diag(model.feature_matrix_))
    np.testing.assert_allclose(model.feature_importances_, roots / roots.sum(), atol=1e-3)
    assert model.feature_importances_[VARIABLES].sum() > 0.99
    assert set(np.flatnonzero(np.abs(model.components_).max(axis=0) > 1e-9)) == set(VARIABLES)
    assert model.score(NEW, target(NEW, np.eye(D)[:, VARIABLES])) > 0.98


def test_directions_of_classes_are_learned():
    model = classifier().fit(X, THREE)
    assert abs(model.R_[:, 0] @ DIRECTIONS[:, 0]) > 0.97
    assert model.score(X, THREE) > 0.9
    assert sorted(model.classes_) == ["high", "low", "mid"]


def test_two_targets_share_directions():
    model = regressor().fit(X, Y2)
    assert feature_score(DIRECTIONS, model.R_[:, :2]) > 0.99
    np.testing.assert_allclose(model.predict(NEW)[:, 0], Y_NEW, atol=0.5)


def test_attributes_are_as_described():
    model = regressor(retrain="kernel_ridge", random_state=1).fit(X, Y)
    e = model
    np.testing.assert_allclose(e.R_.T @ e.R_, np.eye(D), atol=1e-12)
    assert e.eta_.shape == e.importances_.shape == (D,)
    assert np.sum(e.eta_ ** (R / (2 - R))) == pytest.approx(1.0)
    np.testing.assert_allclose(e.importances_, e.eta_ ** (R / (2 - R)))
    assert e.importances_.sum() == pytest.approx(1.0)
    assert np.all(np.diff(e.importances_) <= 1e-12)  # most important first
    assert e.eta_path_.shape == (e.n_iter_ + 1, D)
    np.testing.assert_array_equal(e.eta_path_[-1], e.eta_)
    assert len(set(e.eta_path_[0])) == 1
    assert e.n_features_estimated_ == np.sum(e.importances_ >= 1 / D)
    M = e.feature_matrix_
    np.testing.assert_allclose(M, M.T, atol=1e-12)
    assert np.linalg.eigvalsh(M).min() > -1e-10
    # η follows from its eigenvalues, and its eigenvectors are the columns of R
    np.testing.assert_allclose(M @ e.R_, e.R_ * np.diag(e.R_.T @ M @ e.R_), atol=1e-9)
    assert e.multi_indices_.shape == (e.coef_.shape[0], D)
    assert e.multi_indices_.sum(axis=1).min() >= 1
    assert len(np.unique(e.multi_indices_, axis=0)) == len(e.multi_indices_)
    assert e.coef_.shape == (len(e.multi_indices_), 1)
    assert e.intercept_.shape == (1,)
    roots = np.sqrt(np.diag(M))
    np.testing.assert_allclose(e.feature_importances_, roots / roots.sum(), atol=1e-4)
    assert e.centers_.shape[1] == len(e.retrain_components_)
    assert e.retrained_ is None
    lengths = {len(getattr(e.history_, n)) for n in ("objective", "step", "seconds")}
    assert lengths == {e.n_iter_}
    assert e.history_.step[-1] == len(e.multi_indices_)
    np.testing.assert_allclose(e.scaling_.mean, X.mean(axis=0))
    np.testing.assert_allclose(e.scaling_.scale, X.std(axis=0))


@pytest.mark.parametrize("y", [Y, Y2], ids=["one target", "two targets"])
@pytest.mark.parametrize("over_c", [False, True])
def test_the_feature_matrix_is_that_of_the_gradients(y, over_c):
    model = regressor(retrain=None, over_c=over_c, n_iter=2).fit(X, y)
    samples = np.random.default_rng(0).standard_normal((20_000, D))

    def fitted(Z):
        return model.predict(Z * model.scaling_.scale + model.scaling_.mean).reshape(len(Z), -1)

    h = 1e-4
    slopes = [(fitted(samples + h * e) - fitted(samples - h * e)) / (2 * h) for e in np.eye(D)]
    M = np.einsum("snt,unt->su", slopes, slopes) / len(samples)
    np.testing.assert_allclose(model.feature_matrix_, M, atol=0.15 * np.abs(M).max())


@pytest.mark.parametrize("options", [{}, {"selection": "variables"}, {"clip": 1.5}], ids=str)
@pytest.mark.parametrize("y", [Y, Y2], ids=["one target", "two targets"])
def test_without_retraining_predictions_are_those_of_the_features(y, options):
    model = regressor(retrain=None, **options).fit(X, y)
    assert (model.kernel_, model.centers_, model.dual_coef_, model.retrained_) == (None,) * 4
    ours = model.predict(NEW).reshape(len(NEW), -1)
    np.testing.assert_allclose(ours, formula(model, NEW), atol=1e-9)
    turned = options.get("selection") != "variables"
    assert np.allclose(model.coef_rotation_, model.R_, atol=1e-6) != turned  # updated afterwards


def test_the_rotation_of_the_coefficients_is_saved_and_pickled(tmp_path):
    model = regressor(retrain=None).fit(X, Y)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model").estimator
    for other in (loaded, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.coef_rotation_, model.coef_rotation_)
    with pytest.raises(NotFittedError):
        _ = RegFeaLRegressor().coef_rotation_


def test_transform_gives_coordinates_with_names():
    model = regressor().fit(pd.DataFrame(X), Y)
    k = model.n_effective_features_
    Z = (NEW - model.scaling_.mean) / model.scaling_.scale
    np.testing.assert_allclose(
        model.transform(pd.DataFrame(NEW)), Z @ model.components_.T, atol=1e-12
    )
    assert list(model.get_feature_names_out()) == [f"regfealregressor{j}" for j in range(k)]
    frame = model.set_output(transform="pandas").transform(pd.DataFrame(NEW))
    assert list(frame.columns) == list(model.get_feature_names_out())


@pytest.mark.parametrize("largest", [1, 3, 40])
def test_degrees_end_where_asked(largest):
    model = regressor(max_degree=largest, retrain=None).fit(X, Y)
    assert model.multi_indices_.sum(axis=1).max() <= largest
    assert np.all(np.isfinite(model.predict(NEW)))
    if largest == 3:
        assert model.score(NEW, Y_NEW) > 0.98


def test_no_decay_is_a_linear_model():
    model = regressor(degree_decay=0.0, retrain=None, strength=1e-6).fit(X, Y)
    expected = Ridge(alpha=1e-6).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-3)


def test_a_smaller_exponent_has_fewer_directions():
    spread = [
        regressor(sparsity_exponent=r, retrain=None).fit(X, Y).importances_[2:].sum()
        for r in (0.9, 0.33)
    ]
    assert spread[0] < 0.2  # shares are u^(r/2): small r counts rather than weighs
    for r in (0.05, 1.0, 1.95):
        assert regressor(sparsity_exponent=r).fit(X, Y).eta_.shape == (D,)


# ---------------------------------------------------------------------- weights and symmetries


@pytest.mark.each
@both
@pytest.mark.parametrize(
    "options",
    [{}, {"n_random_features": 40}, {"selection": "variables"}, {"max_degree": 3}],
    ids=str,
)
def test_weights_are_repeated_rows_where_nothing_is_drawn(make, options):
    options = {"retrain": None, "strength": 0.1, **options}
    y = targets(make)
    counts = np.random.default_rng(1).integers(0, 3, N)
    rows = counts > 0
    weighted = make(**options).fit(X, y, sample_weight=counts)
    repeated = make(**options).fit(near_copies(X, counts), np.repeat(y, counts))
    left_out = make(**options).fit(X[rows], y[rows], sample_weight=counts[rows])
    for other, tolerance in ((repeated, 1e-5), (left_out, 1e-12)):
        np.testing.assert_allclose(weighted.importances_, other.importances_, atol=tolerance)
        np.testing.assert_allclose(predicted(weighted, NEW), predicted(other, NEW), atol=tolerance)


def test_weights_reach_the_retraining():
    options = {"degree_decay": 0.3, "strength": 0.1, "n_iter": 2, "retrain": "kernel_ridge"}
    heavy = X[:, 4] > 0
    y = np.where(heavy, Y, 9.0)
    model = regressor(**options).fit(X, y, sample_weight=np.where(heavy, 1.0, 1e-8))
    assert model.score(X[heavy], Y[heavy]) > 0.95


def test_weights_are_chosen_with():
    weights = np.where(np.arange(N) < 100, 1.0, 0.0)
    options = {"n_random_features": 40, "strength": "auto", "n_iter": 1}
    model = regressor(**options).fit(X, Y, sample_weight=weights)
    expected = regressor(**options).fit(X[:100], Y[:100], sample_weight=np.ones(100))
    for one, other in zip(model.tuning_, expected.tuning_, strict=True):
        assert {**one, "seconds": None} == {**other, "seconds": None}


def test_units_change_nothing():
    plain = regressor(n_iter=2, retrain=None).fit(X, Y)
    scaled = regressor(n_iter=2, retrain=None).fit(X * [1.0, 1e3, 1e-3, 50, 1] + 7, 1e3 * Y - 40)
    inside = NEW * [1.0, 1e3, 1e-3, 50, 1] + 7
    np.testing.assert_allclose(scaled.predict(inside), 1e3 * plain.predict(NEW) - 40, atol=1e-2)
    np.testing.assert_allclose(scaled.importances_, plain.importances_, atol=1e-6)


def test_targets_need_not_be_scaled():
    plain = regressor(retrain=None, n_iter=1).fit(X, Y / Y.std())
    scaled = regressor(retrain=None, n_iter=1).fit(X, Y)
    np.testing.assert_allclose(Y.std() * plain.predict(NEW), scaled.predict(NEW), atol=1e-8)


def test_features_need_not_be_standardised():
    placed = (X - X.mean(axis=0)) / X.std(axis=0)
    model = regressor(scaling=None).fit(placed, Y)
    assert model.scaling_ is None
    expected = regressor().fit(X, Y)
    np.testing.assert_allclose(model.predict(placed), expected.predict(X), atol=1e-3)


@both
def test_the_same_state_gives_the_same_model(make):
    y = targets(make)
    one, two = (make(random_state=np.random.RandomState(7)).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(predicted(one, NEW), predicted(two, NEW))
    other = make(random_state=8).fit(X, y)
    assert np.any(predicted(other, NEW) != predicted(one, NEW))


# ---------------------------------------------------------------------- far rows

FAR = X.copy()
FAR[3, 2] = 12.0


def test_far_rows_are_clipped_or_warned_of():
    regressor(clip=6.0).fit(FAR, Y)  # without a warning
    regressor().fit(FAR, Y)
    with pytest.warns(UserWarning, match=r"is 9\.\d* standard deviations .*: clip=6 bounds"):
        regressor(clip=None, scaling="standard").fit(FAR, Y)
    with pytest.warns(
        UserWarning, match=r"is 12 standard deviations .*: scaling='standard' scales"
    ):
        regressor(scaling=None).fit(FAR, Y)


def test_six_standard_deviations_are_the_default_clip():
    default, given, none = (
        regressor(scaling="standard", **clip) for clip in ({}, {"clip": 6.0}, {"clip": None})
    )
    np.testing.assert_array_equal(default.fit(FAR, Y).predict(FAR), given.fit(FAR, Y).predict(FAR))
    # Where nothing lies beyond, it changes nothing
    np.testing.assert_array_equal(default.fit(X, Y).predict(NEW), none.fit(X, Y).predict(NEW))


@pytest.mark.parametrize("retrain", [None, "kernel_ridge"])
def test_predictions_far_outside_are_finite_and_moderate(retrain):
    new = NEW.copy()
    new[0] = 1e6
    new[1] = np.finfo(float).max
    model = regressor(retrain=retrain).fit(X, Y)
    assert np.abs(model.predict(new)).max() < 1e4
    np.testing.assert_array_equal(model.predict(new)[2:], model.predict(NEW)[2:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"clip": None}, {"degree_decay": "auto"}], ids=str)
def test_features_that_are_not_of_unit_variance_around_zero_are_refused(dtype, options):
    for wrong in (X + 1e6, 1e6 * X):
        with pytest.raises(ValueError, match=r"expected features around 0 .*scaling='standard'"):
            regressor(scaling=None, **options).fit(wrong.astype(dtype), Y)


def test_clipped_rows_have_moderate_predictions():
    model = regressor(clip=3.0, retrain=None, scaling="standard").fit(FAR, Y)
    new = NEW.copy()
    new[0] = 12.0
    assert np.all(np.isfinite(model.predict(new)))
    turned = ((new - model.scaling_.mean) / model.scaling_.scale) @ model.coef_rotation_
    assert np.abs(turned).max() > 12.0
    expected, (lowest, highest) = formula(model, new)[:, 0], model.bounds_[:, 0]
    np.testing.assert_allclose(model.predict(new), np.clip(expected, lowest, highest), atol=1e-8)
    assert not lowest <= expected[0] <= highest


def test_polynomials_end_at_twice_the_largest_deviation():
    two = np.stack([Y, 100.0 - 7.0 * Y], axis=1)
    model = regressor(retrain=None, clip=None).fit(X, two)
    reach = 2.0 * np.abs(two - two.mean(axis=0)).max(axis=0)
    np.testing.assert_allclose(
        model.bounds_, [two.mean(axis=0) - reach, two.mean(axis=0) + reach], rtol=1e-9
    )
    predicted = model.predict(20.0 * NEW)
    assert np.all((predicted >= model.bounds_[0]) & (predicted <= model.bounds_[1]))
    assert np.abs(formula(model, 20.0 * NEW)).max() > 10.0 * np.abs(model.bounds_).max()


@pytest.mark.filterwarnings("ignore:a feature is .* standard deviations:UserWarning")
@pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")
def test_features_that_overflow_are_named():
    far = np.where(np.arange(N)[:, None] < 40, 1e4 * X, X).astype("float32")
    model = regressor(scaling=None, max_degree=20, clip=None)
    with pytest.raises(FloatingPointError, match=r"overflow .*float32.*use clip=6"):
        model.fit(far, Y)
    assert not hasattr(model, "coef_")
    model.set_params(clip=6.0, **regfeal(max_degree=3)).fit(far, Y)


# ---------------------------------------------------------------------- odd data

ODD = {
    "two samples": X[:2],
    "two samples of one feature": X[:2, :1],
    "19 samples": X[:19],
    "20 samples": X[:20],
    "one feature": X[:, :1],
    "more features than samples": np.random.default_rng(0).standard_normal((25, 40)),
    "duplicated columns": X[:40, [0, 0, 1, 1]],
    "duplicated samples": np.repeat(X[:10], 4, axis=0),
    "a constant column": np.column_stack([X[:40], np.full(40, 3.0)]),
    "equal rows": np.full((40, 2), 3.0),
    "zeros": np.zeros((40, 2)),
    "ones and zeros": (X[:40] > 0).astype(float),
}


@pytest.mark.few
@pytest.mark.each
@pytest.mark.filterwarnings("ignore:a degree decay:UserWarning")
@pytest.mark.parametrize("selection", ["features", "variables"])
@pytest.mark.parametrize("options", [{}, {"retrain": "kernel_ridge"}, {"max_degree": 2}], ids=str)
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_are_fitted(kind, options, selection):
    samples = ODD[kind]
    y = Y[: len(samples)]
    options = {"n_random_features": 50, "strength": 0.1, "degree_decay": 0.2, **options}
    model = regressor(selection=selection, **options).fit(samples, y)
    assert np.all(np.isfinite(model.predict(1.2 * samples)))
    assert model.eta_path_.shape == (5, samples.shape[1])
    np.testing.assert_allclose(model.R_.T @ model.R_, np.eye(samples.shape[1]), atol=1e-10)
    if not np.ptp(samples, axis=0).any():
        np.testing.assert_allclose(model.predict(samples), y.mean(), atol=1e-9)


@pytest.mark.few
@pytest.mark.parametrize("kind", ["two samples", "19 samples", "20 samples", "zeros"])
def test_odd_data_are_tuned(kind):
    samples = ODD[kind]
    y = Y[: len(samples)]
    model = RegFeaLRegressor(30, **regfeal(n_iter=1, random_state=0)).fit(samples, y)
    assert np.all(np.isfinite(model.predict(samples)))
    assert bool(model.tuning_) == (len(samples) >= 20)


def test_a_constant_column_has_no_weight():
    samples = np.column_stack([X, np.full(N, 5.1)])
    model = regressor().fit(samples, Y)
    assert model.feature_importances_[D] < 0.25 / D
    assert np.abs(model.components_[:, D]).max() < 0.05
    assert model.score(samples, Y) > 0.98


@pytest.mark.filterwarnings("ignore:a degree decay:UserWarning")
@pytest.mark.parametrize("random_features", [1, 2, N])
def test_any_number_of_features_is_fitted(random_features):
    model = regressor(random_features, degree_decay=0.8).fit(X, Y)
    assert len(model.multi_indices_) <= random_features
    assert np.all(np.isfinite(model.predict(NEW)))


def test_as_many_rows_as_tuples_are_fitted():
    model = regressor(400, retrain=None).fit(X, Y)
    m = int(model.history_.step[0])
    rows = np.arange(m) % N
    exact = regressor(400, retrain=None, n_iter=1).fit(X[rows] + 1e-3 * rows[:, None], Y[rows])
    assert np.all(np.isfinite(exact.predict(NEW)))


@pytest.mark.parametrize("value", [0.0, 4.5, -1e9])
@pytest.mark.parametrize("retrain", [None, "kernel_ridge", Ridge()], ids=str)
def test_a_constant_target_is_predicted_and_learns_nothing(value, retrain):
    with pytest.warns(UserWarning, match="constant and learns no features") as said:
        model = RegFeaLRegressor(40, retrain=retrain, random_state=0).fit(X, np.full(N, value))
    assert len(said) == 1
    np.testing.assert_allclose(model.predict(NEW), value, rtol=1e-12)
    np.testing.assert_allclose(model.importances_, 1 / D)
    assert (model.tuning_, model.kernel_, model.retrained_) == ([], None, None)


def test_one_class_is_predicted():
    with pytest.warns(UserWarning, match="y is constant"):
        model = classifier().fit(X, ["only"] * N)
    assert set(model.predict(NEW)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(NEW), np.ones((50, 1)))


def test_two_hundred_features_are_fitted_by_default():
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((40, 200))
    model = RegFeaLRegressor(40, **regfeal(n_iter=1, random_state=0)).fit(samples, samples[:, 0])
    assert np.all(np.isfinite(model.predict(samples)))
    assert all(np.isfinite(trial["score"]) for trial in model.tuning_)


# ---------------------------------------------------------------------- labels


@pytest.mark.parametrize(
    "labels",
    [TWO, TWO.astype(object), TWO == "yes", np.where(TWO == "yes", 7, -2), THREE],
    ids=["text", "objects", "bools", "ints", "three"],
)
def test_labels_of_any_kind(labels):
    model = classifier(n_iter=2).fit(X, labels)
    assert model.score(X, labels) > 0.9
    proba = model.predict_proba(NEW)
    assert proba.shape == (50, len(model.classes_))
    assert np.all((proba >= 0) & (proba <= 1))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[proba.argmax(axis=1)], model.predict(NEW))
    shape = (50,) if len(model.classes_) == 2 else (50, 3)
    assert model.decision_function(NEW).shape == shape
