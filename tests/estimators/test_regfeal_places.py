"""RegFeaL estimators on every place, their copies and pictures."""

import functools
import pickle

import numpy as np
import pytest
from regfeal_cases import (
    NEW,
    THREE,
    Y2,
    Y_NEW,
    D,
    X,
    Y,
    classifier,
    regressor,
)
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpukfl
from gpukfl.estimators.regfeal._settings import FAR

both = pytest.mark.parametrize("make", [regressor, classifier])


def targets(make):
    return THREE if make is classifier else Y


def predicted(model, samples):
    return getattr(model, "predict_proba" if hasattr(model, "classes_") else "predict")(samples)


# ---------------------------------------------------------------------- every place


def few_steps(n_random_features, retrain):
    options = {"n_iter": 2, "strength": 0.1, "random_state": 1}
    return regressor(n_random_features, retrain=retrain, **options)


@functools.cache
def fitted_in_float64(dtype, n_random_features, retrain):
    """Of the data that a precision holds."""
    data = (given[:100].astype(dtype).astype(np.float64) for given in (X, Y2))
    return few_steps(n_random_features, retrain).fit(*data)


@pytest.mark.each
@pytest.mark.parametrize("retrain", [None, "kernel_ridge"])
@pytest.mark.parametrize("n_random_features", [60, 150])
def test_every_place_learns_the_same(on, retrain, n_random_features):
    model = few_steps(n_random_features, retrain).fit(on.put(X[:100]), on.put(Y2[:100]))
    expected = fitted_in_float64(on.dtype_name, n_random_features, retrain)
    k, m = model.n_effective_features_, model.multi_indices_.shape[0]
    fitted = {
        (50, 2): model.predict(on.put(NEW)),
        (50, k): model.transform(on.put(NEW)),
        (m, 2): model.coef_,
        (2,): model.intercept_,
        (D, D): model.R_,
        (k, D): model.components_,
        (D,): model.feature_importances_,
    }
    for shape, array in fitted.items():
        on.assert_lives_here(array)
        assert tuple(array.shape) == shape
    on.assert_lives_here(model.feature_matrix_)
    if retrain:
        on.assert_lives_here(model.centers_)
        on.assert_lives_here(model.dual_coef_, "float64")
    on.assert_lives_here(model.multi_indices_, "int64")
    for array in (model.eta_, model.importances_, model.eta_path_):
        on.assert_lives_here(array, "float64")
    tolerance = {"float32": 5e-2, "float64": 1e-5}[on.dtype_name]
    importances = on.host(model.importances_)
    np.testing.assert_allclose(importances, expected.importances_, atol=tolerance)
    gap = on.host(model.predict(on.put(NEW))) - expected.predict(on.rounded(NEW))
    assert np.sqrt(np.mean(gap**2)) < 10 * tolerance


def test_tuning_on_every_place(on):
    model = regressor(30, strength="auto", n_iter=1, retrain="kernel_ridge")
    model.fit(on.put(X[:40]), on.put(Y[:40]))
    assert sum(trial["chosen"] for trial in model.tuning_) == 1
    assert np.all(np.isfinite(on.host(model.predict(on.put(NEW)))))


def test_classes_on_every_place(on):
    model = classifier(retrain=None).fit(on.put(X), THREE)
    proba = model.predict_proba(on.put(NEW))
    on.assert_lives_here(proba)
    proba = on.host(proba).astype(np.float64)
    assert proba.shape == (50, 3)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=8 * on.eps)
    labels = model.predict(on.put(NEW))
    np.testing.assert_array_equal(labels, model.classes_[np.argmax(proba, axis=1)])
    assert model.score(on.put(X), THREE) > 0.9


def test_a_foreign_regressor_on_every_place(on):
    model = regressor(retrain=Ridge(1e-3), n_iter=1).fit(on.put(X), on.put(Y2))
    predicted = model.predict(on.put(NEW))
    on.assert_lives_here(predicted)
    assert tuple(predicted.shape) == (50, 2)


def test_inputs_are_left_unchanged(on):
    data, truth = on.put(X), on.put(Y)
    model = regressor(n_iter=2).fit(data, truth)
    model.predict(data)
    model.transform(data)
    np.testing.assert_array_equal(on.host(data), on.rounded(X))
    np.testing.assert_array_equal(on.host(truth), on.rounded(Y))


@pytest.mark.few
@pytest.mark.parametrize("retrain", [None, "kernel_ridge", Ridge()], ids=str)
@pytest.mark.parametrize(("data", "asked"), [("float64", "float32"), ("float32", "float64")])
def test_dtype_sets_the_precision_inside_and_the_data_outside(data, asked, retrain):
    model = regressor(dtype=asked, retrain=retrain).fit(X.astype(data), Y)
    assert model.coef_.dtype == model.R_.dtype == asked
    assert model.predict(NEW.astype(data)).dtype == model.transform(NEW.astype(data)).dtype == data
    if retrain in (None, "kernel_ridge"):
        assert model.score(NEW.astype(data), Y_NEW) > 0.98


@pytest.mark.usefixtures("torch")
def test_another_backend_gives_back_the_library_of_the_data():
    model = regressor(backend="torch", n_iter=2).fit(X, Y)
    assert model.place_.startswith("torch")
    assert type(model.predict(NEW)) is type(model.R_) is np.ndarray
    expected = regressor(n_iter=2).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-3)


@pytest.mark.parametrize("retrain", [None, "kernel_ridge", Ridge()], ids=str)
def test_a_memory_map_is_its_array(tmp_path, retrain):
    X.astype("float32").tofile(tmp_path / "X.dat")
    on_disk = np.memmap(tmp_path / "X.dat", dtype="float32", mode="r", shape=X.shape)
    model, expected = (
        regressor(retrain=retrain).fit(data, Y) for data in (on_disk, np.array(on_disk))
    )
    np.testing.assert_array_equal(model.predict(on_disk), expected.predict(np.array(on_disk)))
    np.testing.assert_array_equal(model.transform(on_disk), expected.transform(np.array(on_disk)))


@pytest.mark.parametrize("n_random_features", [40, 400])
def test_memory_changes_rounding_only(n_random_features):
    options = {"n_random_features": n_random_features, "n_iter": 2, "retrain": None}
    expected = regressor(**options).fit(X, Y)
    for budget in (1, 30_000):
        with gpukfl.memory_budget(budget):
            model = regressor(**options).fit(X, Y)
            np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW), atol=1e-6)


# ---------------------------------------------------------------------- copies


@pytest.mark.each
@both
@pytest.mark.parametrize("retrain", [None, "kernel_ridge", Ridge()], ids=str)
def test_a_pickle_is_a_numpy_model_with_the_same_predictions(on, make, retrain):
    y = THREE[:80] if make is classifier else on.put(Y[:80])
    model = make(100, retrain=retrain, n_iter=2).fit(on.put(X[:80]), y)
    expected = on.host(predicted(model, on.put(NEW)))
    for twin in (pickle.loads(pickle.dumps(model)), model.to_host()):
        here = predicted(twin, NEW.astype(on.dtype_name))
        assert type(here) is type(twin.transform(NEW.astype(on.dtype_name))) is np.ndarray
        size = 1.0 if twin.dual_coef_ is None else np.abs(twin.dual_coef_).max()
        scale = max(size, np.abs(twin.coef_).sum())
        np.testing.assert_allclose(here, expected, rtol=0, atol=100 * on.eps * scale)
        np.testing.assert_array_equal(twin.eta_, on.host(model.eta_))
        assert twin.tuning_ == model.tuning_


@both
def test_a_clone_is_unfitted_and_fits_alike(make):
    model = make().fit(X, targets(make))
    copy = clone(model)
    assert not hasattr(copy, "R_")
    np.testing.assert_array_equal(predicted(copy.fit(X, targets(make)), NEW), predicted(model, NEW))


def test_it_can_be_searched_in_a_pipeline():
    search = GridSearchCV(
        make_pipeline(StandardScaler(), regressor(200)),
        {"regfealregressor__strength": [0.01, 1.0]},
        cv=2,
    )
    assert search.fit(X, Y).score(NEW, Y_NEW) > 0.8


# ---------------------------------------------------------------------- pictures


@pytest.mark.few
@pytest.mark.parametrize("retrain", [None, "kernel_ridge", Ridge()], ids=str)
@pytest.mark.parametrize("scaling", [None, "standard"])
def test_profiles_are_predictions(scaling, retrain):
    model = regressor(scaling=scaling, retrain=retrain, n_iter=2).fit(X, Y2)
    steps, values = model.profiles(points=7)
    k = min(5, model.n_effective_features_)
    assert steps.shape == (k, 7)
    assert values.shape == (k, 7, 2)
    mean, scale = (model.scaling_.mean, model.scaling_.scale) if scaling else (0.0, 1.0)
    for direction, along, expected in zip(model.components_, steps, values, strict=True):
        points = (model._middle + along[:, None] * direction) * scale + mean
        np.testing.assert_allclose(model.predict(points), expected, atol=1e-6)
    assert len(model.profiles(count=1)[0]) == 1


def test_the_far_limit_is_that_of_the_advice():
    assert FAR == 6.0
