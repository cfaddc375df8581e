"""RKHS weightings on every place, from memory maps, and their pickles."""

import pickle

import numpy as np
import pandas as pd
import pytest
from brief import without_seconds
from near_copies import near_copies
from weighting_cases import (
    GAUSSIAN,
    LABELS,
    LEARNERS,
    NEW,
    SINKS,
    STUMPS,
    THREE,
    Y2,
    Y_NEW,
    D,
    N,
    T,
    X,
    Y,
    classifier,
    formula,
    regressor,
)

import gpukfl

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
learners = pytest.mark.parametrize("learner", LEARNERS)
instantiations = pytest.mark.parametrize(
    "instantiation", [STUMPS, GAUSSIAN, SINKS], ids=["stumps", "signs", "rks"]
)


@pytest.mark.pairs
@learners
@instantiations
def test_every_place_finds_the_same(on, learner, instantiation):
    # Where ridges are small, float32 features determine coefficients only as far as predictions
    ridge = {"sfgd": 0.1}.get(learner, 1e-2)
    options = {"learner": learner, "instantiation": instantiation, "ridge": ridge}
    model = regressor(**options).fit(on.put(X), on.put(Y2))
    expected = regressor(**options).fit(on.rounded(X), on.rounded(Y2))
    kept, k = model.n_parameters_, model.n_effective_features_
    entries = D + 1 if instantiation is GAUSSIAN else 2
    fitted = {
        (60, 2): model.predict(on.put(NEW)),
        (60, k): model.transform(on.put(NEW)),
        (D, D): model.feature_matrix_,
        (D,): model.feature_importances_,
        (k, D): model.components_,
    }
    fitted = list(fitted.items())
    for shape, array in fitted:
        on.assert_lives_here(array)
        assert tuple(array.shape) == shape
    exact = {
        (kept, entries): (model.parameters_,),  # of so few rows
        (kept, 2): (model.coef_,),
        (2,): (model.intercept_, model.rkhs_norm_, model.log_rkhs_norm_),
    }
    for shape, array in ((shape, array) for shape, arrays in exact.items() for array in arrays):
        assert tuple(array.shape) == shape
        on.assert_lives_here(array, "float64")
    tolerance = {"float32": 2e-2, "float64": 1e-6}[on.dtype_name]
    predicted, scale = on.host(model.predict(on.put(NEW))), np.abs(Y2).max(axis=0)
    gap = (predicted - expected.predict(on.rounded(NEW))) / scale
    assert np.sqrt(np.mean(gap**2)) < tolerance
    importances = on.host(model.feature_importances_)
    np.testing.assert_allclose(importances, expected.feature_importances_, atol=5 * tolerance)
    norms = on.host(model.log_rkhs_norm_)
    np.testing.assert_allclose(norms, expected.log_rkhs_norm_, atol=5 * tolerance)
    assert model.score(on.put(X), on.put(Y2)) == pytest.approx(
        expected.score(X, Y2), abs=5 * tolerance
    )


@pytest.mark.each
@learners
def test_everything_is_chosen_on_every_place(on, learner):
    options = {"learner": learner, "ridge": "auto", "instantiation": "stumps", "n_parameters": 4}
    model = regressor(**options, prune="risk").fit(on.put(X), on.put(Y))
    assert sum(trial["chosen"] for trial in model.tuning_) == 1
    assert np.isfinite(model.bound(on.put(X), on.put(Y)))
    assert model.n_parameters_ <= 4


@pytest.mark.each
@learners
@pytest.mark.parametrize("y", [LABELS, THREE], ids=["two", "three"])
def test_classes_on_every_place(on, learner, y):
    model = classifier(learner=learner, n_parameters=20).fit(on.put(X), y)
    proba = model.predict_proba(on.put(NEW))
    on.assert_lives_here(proba)
    on.assert_lives_here(model.decision_function(on.put(NEW)))
    proba = on.host(proba).astype(np.float64)
    assert proba.shape == (60, len(set(y)))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=8 * on.eps)
    predicted = model.predict(on.put(NEW))
    np.testing.assert_array_equal(predicted, model.classes_[np.argmax(proba, axis=1)])
    if y is LABELS:
        expected = classifier(learner=learner, n_parameters=20).fit(on.rounded(X), y)
        tolerance = {"float32": 1e-1, "float64": 1e-5}[on.dtype_name]
        bounds = [expected.bound(on.rounded(X), y), model.bound(on.put(X), y)]
        assert bounds[0] == pytest.approx(bounds[1], rel=tolerance)


def test_numbers_that_are_labels_stay_in_their_library(on):
    y = on.put((X[:, 0] > 0).astype(float) + 3.0)
    model = classifier(n_parameters=20).fit(on.put(X), y)
    predicted = model.predict(on.put(NEW))
    assert set(on.host(predicted).tolist()) <= {3.0, 4.0}
    assert model.score(on.put(X), y) > 0.8


def test_inputs_are_left_unchanged(on):
    data, targets = on.put(X), on.put(Y)
    model = regressor(ridge="auto", prune="bound").fit(data, targets)
    model.predict(data)
    model.transform(data)
    model.bound(data, targets)
    np.testing.assert_array_equal(on.host(data), on.rounded(X))
    np.testing.assert_array_equal(on.host(targets), on.rounded(Y))


@pytest.mark.parametrize("instantiation", [STUMPS, GAUSSIAN], ids=["stumps", "signs"])
def test_weights_on_every_place(on, instantiation):
    counts = np.arange(N) % 3
    model = regressor(ridge=1e-2, instantiation=instantiation)
    weighted = model.fit(on.put(X), on.put(Y), sample_weight=on.put(counts))
    rows = np.repeat(np.arange(N), counts)
    repeated = regressor(ridge=1e-2, instantiation=instantiation)
    repeated.fit(near_copies(X, counts), Y[rows])
    tolerance = {"float32": 2e-2, "float64": 1e-6}[on.dtype_name]
    predicted = on.host(weighted.predict(on.put(NEW)))
    np.testing.assert_allclose(predicted, repeated.predict(NEW), atol=tolerance)


@pytest.mark.parametrize(("data", "asked"), [("float64", "float32"), ("float32", "float64")])
def test_dtype_sets_the_precision_inside_and_the_data_outside(data, asked):
    model = regressor(dtype=asked).fit(X.astype(data), Y)
    assert model.parameters_.dtype == asked
    assert model.coef_.dtype == model.intercept_.dtype == "float64"
    assert model.predict(NEW.astype(data)).dtype == model.transform(NEW.astype(data)).dtype == data
    assert model.score(NEW.astype(data), Y_NEW) > 0.7


@learners
@pytest.mark.usefixtures("torch")
def test_another_backend_gives_back_the_library_of_the_data(learner):
    model = regressor(backend="torch", learner=learner).fit(X, Y)
    assert model.place_.startswith("torch")
    assert type(model.predict(NEW)) is type(model.coef_) is np.ndarray
    expected = regressor(learner=learner).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-5)


@pytest.mark.each
@learners
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_memory_map_is_its_array(tmp_path, learner, dtype):
    X.astype(dtype).tofile(tmp_path / "X.dat")
    on_disk = np.memmap(tmp_path / "X.dat", dtype=dtype, mode="r", shape=X.shape)
    options = {"learner": learner, "ridge": "auto", "instantiation": "gaussian_sign"}
    with gpukfl.memory_budget(3000):  # in blocks of few rows
        model = regressor(**options, n_parameters=15).fit(on_disk, Y)
        expected = regressor(**options, n_parameters=15).fit(np.array(on_disk), Y)
        np.testing.assert_array_equal(model.predict(on_disk), expected.predict(np.array(on_disk)))
    assert without_seconds(model.tuning_) == without_seconds(expected.tuning_)
    np.testing.assert_array_equal(model.transform(on_disk), expected.transform(np.array(on_disk)))


@pytest.mark.few
@pytest.mark.parametrize("make", [regressor, classifier])
@learners
def test_rows_of_no_weight_in_a_memory_map_do_not_count(tmp_path, make, learner):
    X.tofile(tmp_path / "X.dat")
    on_disk = np.memmap(tmp_path / "X.dat", dtype="float64", mode="r", shape=X.shape)
    y = LABELS if make is classifier else Y
    two = 1.0 * (np.arange(N) < 2)
    for weights, seed in ((np.arange(N) % 3, 0), *((two, seed) for seed in range(8, 12))):
        model = make(learner=learner, ridge="auto", n_parameters=6, random_state=seed)
        model.fit(on_disk, y, sample_weight=weights)
        predicted = model.predict(NEW)
        assert predicted.shape == (60,)
        assert np.all(np.isfinite(model.coef_))
    if make is regressor and learner in ("least_squares", "lasso"):
        weights = np.arange(N) % 3
        model = make(learner=learner).fit(on_disk, y, sample_weight=weights)
        expected = make(learner=learner).fit(X, y, sample_weight=weights)
        np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW), atol=1e-6)


@pytest.mark.pairs
@pytest.mark.parametrize("instantiation", [STUMPS, GAUSSIAN, SINKS], ids=["stumps", "signs", "rks"])
@pytest.mark.parametrize("make", [regressor, classifier])
def test_a_pickle_is_a_numpy_model_with_the_same_predictions(on, make, instantiation):
    model = make(ridge=1e-2, instantiation=instantiation, prune="risk")
    model.fit(on.put(X), THREE if make is classifier else on.put(Y))
    method = "predict_proba" if make is classifier else "predict"
    expected = on.host(getattr(model, method)(on.put(NEW)))
    here = NEW.astype(on.dtype_name)
    for twin in (pickle.loads(pickle.dumps(model)), model.to_host()):
        predicted = getattr(twin, method)(here)
        assert type(predicted) is type(twin.transform(here)) is np.ndarray
        rounding = on.eps * np.abs(twin.coef_).sum()
        if instantiation is not SINKS:  # where rounding decides no sign
            np.testing.assert_allclose(predicted, expected, rtol=0, atol=10 * rounding)
        assert (twin.tuning_, twin.pruning_) == (model.tuning_, model.pruning_)


def test_a_model_of_another_library_predicts_for_its_own_only(on):
    model = regressor(n_parameters=8).fit(on.put(X), on.put(Y))
    np.testing.assert_allclose(
        on.host(model.predict(on.put(NEW))),
        formula(model.to_host(), on.rounded(NEW))[:, 0],
        atol=1e-2,
    )
    if on.package == "numpy":
        return
    for wrong in (NEW, NEW.tolist(), pd.DataFrame(NEW)):
        with pytest.raises(ValueError, match=f"expected {on.package}, got numpy"):
            model.predict(wrong)
        with pytest.raises(ValueError, match=f"expected {on.package}, got numpy"):
            model.bound(wrong, Y)


def test_profiles_and_sizes_on_every_place(on):
    model = regressor(instantiation=GAUSSIAN).fit(on.put(X), on.put(Y))
    steps, values = model.profiles(points=5)
    assert type(steps) is type(values) is np.ndarray
    assert values.shape == (len(steps), 5, 1)
    assert model.n_parameters_ == T
