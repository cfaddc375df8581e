"""BKerNN estimators on every place, with knots, from disk, and as copies."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from bkernn_cases import LABELS, NEW, Y2, D, M, N, X, Y, classifier, kernel, regressor, spread
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpukfl
from gpukfl import BrownianKernelRidge
from gpukfl.operators import BinnedBrownianKernel
from gpukfl.partitioned._rows import Rows

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# ---------------------------------------------------------------------- every place


@pytest.mark.each
@pytest.mark.parametrize("y", [Y, Y2], ids=["one target", "two targets"])
def test_results_live_where_the_data_live(on, y):
    model = regressor().fit(on.put(X), on.put(y))
    t = 1 if y.ndim == 1 else 2
    predicted = model.predict(on.put(NEW))
    assert tuple(predicted.shape) == (40, *y.shape[1:])
    learned = {
        (40, *y.shape[1:]): predicted,
        (40, model.n_effective_features_): model.transform(on.put(NEW)),
        (D, M): model.W_,
        (N, t): model.dual_coef_,
        (t,): model.intercept_,
        (D,): model.feature_importances_,
        (D, D): model.feature_matrix_,
        (model.n_effective_features_, D): model.components_,
    }
    for shape, array in learned.items():
        on.assert_lives_here(array)
        assert tuple(array.shape) == shape
    assert isinstance(model.score(on.put(X), on.put(y)), float)


def test_every_place_finds_the_same_function(on):
    expected = regressor(max_iter=3).fit(on.rounded(X), on.rounded(Y)).predict(on.rounded(NEW))
    model = regressor(max_iter=3).fit(on.put(X), on.put(Y))
    tolerance = {"float32": 5e-3, "float64": 1e-7}[on.dtype_name] * spread(Y)
    np.testing.assert_allclose(on.host(model.predict(on.put(NEW))), expected, atol=tolerance)


def test_ridge_without_features_lives_where_the_data_live(on):
    model = BrownianKernelRidge().fit(on.put(X), on.put(Y2))
    expected = BrownianKernelRidge().fit(on.rounded(X), on.rounded(Y2)).predict(on.rounded(NEW))
    predicted = model.predict(on.put(NEW))
    on.assert_lives_here(predicted)
    tolerance = {"float32": 1e-3, "float64": 1e-9}[on.dtype_name]
    np.testing.assert_allclose(on.host(predicted), expected, atol=tolerance)


def test_inputs_are_left_unchanged(on):
    data, targets = on.put(X), on.put(Y)
    model = regressor(scaling="standard", early_stopping=True).fit(data, targets)
    model.predict(data)
    model.transform(data)
    np.testing.assert_array_equal(on.host(data), on.rounded(X))
    np.testing.assert_array_equal(on.host(targets), on.rounded(Y))


@pytest.mark.each
@pytest.mark.parametrize("k", LABELS)
def test_classes_on_every_place(on, k):
    labels = LABELS[k]
    model = classifier().fit(on.put(X), labels)
    proba, predicted = model.predict_proba(on.put(NEW)), model.predict(on.put(NEW))
    on.assert_lives_here(proba)
    proba = on.host(proba).astype(np.float64)
    assert proba.shape == (40, k)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=8 * on.eps)
    assert proba.min() >= 0
    if labels.dtype.kind == "i":
        assert type(predicted) is type(on.put(X))
        predicted = on.host(predicted)
    np.testing.assert_array_equal(predicted, model.classes_[np.argmax(proba, axis=1)])
    assert tuple(model.decision_function(on.put(NEW)).shape) == ((40,) if k == 2 else (40, k))
    assert model.score(on.put(X), labels) > 0.85


def test_labels_may_live_with_the_data(on_double):
    model = classifier().fit(on_double.put(X), on_double.put(LABELS[3]))
    assert list(model.classes_) == [0, 10, 20]
    predicted = model.predict(on_double.put(NEW))
    on_double.assert_lives_here(predicted)


@pytest.mark.parametrize(
    "labels",
    [X[:, 0] > 0, np.where(X[:, 0] > 0, 3, -7), LABELS[2].astype(object), LABELS[2].astype("U9")],
    ids=["bool", "int", "object", "text"],
)
def test_labels_of_any_kind_come_back(labels):
    model = classifier().fit(X, labels)
    assert set(model.predict(NEW)) == set(labels)
    assert model.predict(NEW).dtype == np.asarray(labels).dtype
    assert list(model.classes_) == sorted(set(labels))


def test_two_classes_are_one_regression():
    labels = X[:, 0] > 0
    model = classifier().fit(X, labels)
    fitted = regressor().fit(X, labels.astype(float))
    np.testing.assert_allclose(model.decision_function(NEW), fitted.predict(NEW) - 0.5, atol=1e-9)


def test_one_class_is_always_predicted():
    with pytest.warns(UserWarning, match="y is constant"):
        model = classifier().fit(X, ["only"] * N)
    assert set(model.predict(NEW)) == {"only"}
    np.testing.assert_array_equal(model.predict_proba(NEW), np.ones((40, 1)))


@pytest.mark.parametrize("make", [regressor, BrownianKernelRidge])
@pytest.mark.parametrize(("data", "asked"), [("float64", "float32"), ("float32", "float64")])
def test_dtype_sets_the_precision_inside_and_the_data_outside(make, data, asked):
    model = make(backend=gpukfl.Backend(dtype=asked)).fit(X.astype(data), Y)
    assert model.dual_coef_.dtype == asked
    assert model.predict(NEW.astype(data)).dtype == data


@pytest.mark.usefixtures("torch")
def test_another_backend_gives_back_the_library_of_the_data():
    model = regressor(backend="torch").fit(X, Y)
    assert model.place_.startswith("torch")
    assert type(model.predict(NEW)) is np.ndarray
    expected = regressor(backend="numpy").fit(X, Y).predict(NEW)
    np.testing.assert_allclose(model.predict(NEW), expected, atol=1e-6)


# ---------------------------------------------------------------------- knots


def test_knots_are_close_to_exact_and_the_error_is_reported():
    exact = regressor(max_iter=0).fit(X, Y)
    binned = regressor(max_iter=0, knots=64).fit(X, Y)
    assert (exact.n_knots_, binned.n_knots_) == (None, 64)
    assert exact.knots_error_ == 0.0
    np.testing.assert_allclose(binned.predict(NEW), exact.predict(NEW), atol=0.05 * spread(Y))
    W, alpha = binned.W_, binned.dual_coef_
    true = kernel(X, X, W) @ alpha
    used = BinnedBrownianKernel.build(Rows(X, X[:0, 0]), W, n_knots=64) @ alpha
    gap = used - true
    expected = np.linalg.norm(gap - gap.mean()) / np.linalg.norm(true - true.mean())
    assert binned.knots_error_ == pytest.approx(expected, rel=1e-3)
    assert 0 < binned.knots_error_ < 1e-2


def test_more_knots_are_closer_to_exact():
    errors = [regressor(knots=q).fit(X, Y).knots_error_ for q in (8, 64, 512)]
    assert errors[0] > 4 * errors[1] > 16 * errors[2] > 0  # at least of first order


def test_knots_on_every_place(on):
    expected = regressor(knots=32, max_iter=3).fit(on.rounded(X), on.rounded(Y))
    model = regressor(knots=32, max_iter=3).fit(on.put(X), on.put(Y))
    tolerance = {"float32": 1e-2, "float64": 1e-6}[on.dtype_name] * spread(Y)
    np.testing.assert_allclose(
        on.host(model.predict(on.put(NEW))), expected.predict(on.rounded(NEW)), atol=tolerance
    )
    assert model.knots_error_ == pytest.approx(expected.knots_error_, rel=0.2)


def test_auto_bins_when_memory_is_short_and_says_so(capfd):
    with gpukfl.memory_budget(2**14):
        model = regressor(max_iter=1, verbose=1).fit(X, Y)
    assert model.n_knots_ == 4096
    assert "knots='auto' chose 4096 knots" in capfd.readouterr().err
    assert regressor(max_iter=1).fit(X, Y).n_knots_ is None


@pytest.fixture
def on_disk(tmp_path):
    """A float32 memory map of the samples."""
    path = tmp_path / "X.dat"
    X.astype("float32").tofile(path)
    return np.memmap(path, dtype="float32", mode="r", shape=X.shape)


@pytest.mark.parametrize(
    "options", [{"knots": 64}, {"knots": None}, {"knots": 16, "scaling": "standard"}]
)
def test_a_memory_map_is_its_array(on_disk, options):
    expected = regressor(**options).fit(np.array(on_disk), Y)
    model = regressor(**options).fit(on_disk, Y)
    assert model.W_.dtype == np.float32
    np.testing.assert_array_equal(model.predict(on_disk), expected.predict(np.array(on_disk)))
    np.testing.assert_array_equal(model.transform(on_disk), expected.transform(np.array(on_disk)))


def test_a_memory_map_in_small_blocks(on_disk):
    expected = regressor(knots=64, max_iter=3).fit(np.array(on_disk), Y).predict(on_disk)
    with gpukfl.memory_budget(2**11):
        blocked = regressor(knots=64, max_iter=3).fit(on_disk, Y).predict(on_disk)
    np.testing.assert_allclose(blocked, expected, atol=1e-3)


def test_early_stopping_holds_out_the_last_rows_of_a_memory_map(on_disk):
    model = regressor(knots=64, early_stopping=True).fit(on_disk, Y)
    last = slice(N - 6, N)
    best = max(model.history_.validation_score)
    assert model.score(on_disk[last], Y[last]) == pytest.approx(best, rel=1e-3)


def test_a_memory_map_is_checked_to_its_end(tmp_path):
    path = tmp_path / "X.dat"
    np.vstack([X[:-1], np.full((1, D), np.nan)]).tofile(path)
    samples = np.memmap(path, dtype="float64", mode="r", shape=X.shape)
    with pytest.raises(ValueError, match="X contains NaN"):
        regressor(knots=64).fit(samples, Y)


@pytest.mark.each
@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-3])
def test_thinning_keeps_its_tolerance(on_double, tolerance):
    many = np.random.default_rng(0).uniform(-1, 1, (200, D))
    y = 100 * np.sin(3 * many[:, 0])
    options = {"max_iter": 1, "n_particles": 5}
    exact = regressor(knot_tolerance=0, **options).fit(on_double.put(many), on_double.put(y))
    thin = regressor(knot_tolerance=tolerance, **options).fit(on_double.put(many), on_double.put(y))
    here = on_double.put(np.vstack([many, 2 * many]))
    error = np.abs(on_double.host(exact.predict(here)) - on_double.host(thin.predict(here)))
    assert error.max() <= tolerance * spread(y) * (1 + 1e-9)
    assert thin.shape_functions_.knots.shape[1] < exact.shape_functions_.knots.shape[1]


# ---------------------------------------------------------------------- copies and files


@pytest.mark.each
@pytest.mark.parametrize("make", [regressor, classifier, BrownianKernelRidge])
def test_a_pickle_is_a_numpy_model_with_the_same_predictions(on, make):
    y = LABELS[3] if make is classifier else on.put(Y)
    model = make().fit(on.put(X), y)
    expected = on.host(model.predict(on.put(NEW)))
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.to_host()):
        predicted = twin.predict(NEW.astype(on.dtype_name))
        assert type(predicted) is np.ndarray
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=100 * on.eps)
    on.host(model.predict(on.put(NEW)))  # the original still works where it was fitted


@pytest.mark.parametrize("make", [regressor, classifier, BrownianKernelRidge])
def test_a_pickle_names_no_other_library(make, torch):
    y = LABELS[3] if make is classifier else Y
    data = pickle.dumps(make().fit(torch.asarray(X), y))
    assert b"torch" not in data.replace(b"torch cpu", b"")  # `place_` tells where it was computed


def test_a_clone_has_the_parameters_only():
    model = regressor(penalty="variable", knots=32).fit(X, Y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "W_")


def test_parameters_are_left_as_given():
    given = regressor(ridge="auto", n_particles="auto", step_size="auto").get_params()
    assert regressor(**given).fit(X, Y).get_params() == given


def test_it_can_be_searched_and_piped():
    pipe = make_pipeline(StandardScaler(), regressor(max_iter=2))
    search = GridSearchCV(pipe, {"bkernnregressor__ridge": [1e-3, 1e3]}, cv=2).fit(X, Y)
    assert search.best_params_ == {"bkernnregressor__ridge": 1e-3}
    piped = make_pipeline(regressor(), BrownianKernelRidge()).fit(X, Y)  # on learned features
    first = regressor().fit(X, Y)
    second = BrownianKernelRidge().fit(first.transform(X), Y)
    np.testing.assert_array_equal(piped.predict(NEW), second.predict(first.transform(NEW)))


def test_learned_features_come_as_a_frame():
    model = regressor().set_output(transform="pandas").fit(X, Y)
    frame = model.transform(pd.DataFrame(NEW, index=range(100, 140)))
    assert list(frame.columns) == list(model.get_feature_names_out())
    assert list(frame.index) == list(range(100, 140))
    np.testing.assert_allclose(frame.to_numpy(), NEW @ model.components_.T, atol=1e-12)


@pytest.mark.parametrize("ridge", [1e-2, 1e6], ids=["learned", "W = 0"])
def test_names_and_features_are_as_many_as_directions(ridge):
    model = regressor(ridge=ridge).fit(X, Y)
    k = model.n_effective_features_
    assert model.components_.shape == (k, D)
    assert model.transform(NEW).shape == (40, k)
    assert len(model.get_feature_names_out()) == k
