"""Kernel feature selectors on every place, with weights, with odd data, and their pickles."""

import functools
import pickle

import numpy as np
import pandas as pd
import pytest
from near_copies import near_copies
from selection_cases import (
    NEW,
    THREE,
    TRUE,
    Y2,
    Y_NEW,
    N,
    P,
    X,
    Y,
    classifier,
    found,
    selector,
)

nothing_may_be_selected = pytest.mark.filterwarnings("ignore:no variable was selected:UserWarning")


# ---------------------------------------------------------------------- every place


@functools.cache
def fitted_in_float64(dtype, **options):
    """Of the data that a precision holds."""
    return selector(**options).fit(*(data.astype(dtype).astype(np.float64) for data in (X, Y2)))


@pytest.mark.each
@pytest.mark.parametrize("options", [{}, {"n_centers": 40, "kernel": "gaussian"}], ids=str)
def test_every_place_finds_the_same(on, options):
    model = selector(**options).fit(on.put(X), on.put(Y2))
    expected = fitted_in_float64(on.dtype_name, **options)
    k = len(found(model))
    fitted = {
        (30, 2): model.predict(on.put(NEW)),
        (30, k): model.transform(on.put(NEW)),
        (N, k): model.centers_,
        (2,): model.intercept_,
        (k, P): model.components_,
    }
    for shape, array in fitted.items():
        on.assert_lives_here(array)
        assert tuple(array.shape) == shape
    of_variables = (model.beta_, model.feature_importances_, model.scores_)
    for array in of_variables:
        on.assert_lives_here(array, "float64")
        assert tuple(array.shape) == (P,)
    on.assert_lives_here(model.dual_coef_, "float64")
    assert tuple(model.dual_coef_.shape) == (N, 2)
    on.assert_lives_here(model.levels_, "int64")
    np.testing.assert_array_equal(on.host(model.levels_), expected.levels_)
    tolerance = {"float32": 1e-2, "float64": 1e-6}[on.dtype_name]
    scale = expected.scores_.max()
    np.testing.assert_allclose(on.host(model.scores_), expected.scores_, atol=tolerance * scale)
    if on.dtype_name == "float32":  # kernels of the last fit may be as good to its precision
        np.testing.assert_array_equal(on.host(model.beta_) > 0, expected.beta_ > 0)
    else:
        np.testing.assert_allclose(on.host(model.beta_), expected.beta_, atol=tolerance)
    predicted = on.host(model.predict(on.put(NEW)))
    np.testing.assert_allclose(predicted, expected.predict(on.rounded(NEW)), atol=30 * tolerance)
    np.testing.assert_array_equal(
        on.host(model.transform(on.put(NEW))), on.rounded(NEW)[:, found(model)]
    )


def test_columns_are_put_back_everywhere(on):
    model = selector().fit(on.put(X), on.put(Y))
    back = model.inverse_transform(model.transform(on.put(NEW)))
    on.assert_lives_here(back)
    expected = np.where(model.get_support(), on.rounded(NEW), 0.0)
    np.testing.assert_array_equal(on.host(back), expected)
    with pytest.raises(ValueError, match=r"different shape|expected X of shape \(n, 2\)"):
        model.inverse_transform(on.put(NEW))


def test_columns_of_another_library_are_refused(on):
    if on.package == "numpy":
        pytest.skip("the library of the reference")
    model = selector(sparsity=0.3).fit(on.put(X), on.put(Y))
    for wrong in (NEW, NEW.tolist(), pd.DataFrame(NEW)):
        with pytest.raises(ValueError, match=f"expected {on.package}, got numpy"):
            model.transform(wrong)
    with pytest.raises(ValueError, match=r"X has 4 features, but .* is expecting 5 features"):
        model.transform(on.put(NEW[:, :4]))


def test_tuning_on_every_place(on):
    options = {"sparsity": "tune", "n_sparsities": 3, "hierarchical": False}
    model = selector(**options).fit(on.put(X), on.put(Y))
    assert model.path_["beta"].shape == (3, P)
    assert 1 in found(model)
    assert model.score(on.put(NEW), on.put(Y_NEW)) > 0.5


def test_classes_on_every_place(on):
    model = classifier().fit(on.put(X), THREE)
    assert found(model) == [2]
    proba = model.predict_proba(on.put(NEW))
    on.assert_lives_here(proba)
    proba = on.host(proba).astype(np.float64)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=8 * on.eps)
    predicted = model.predict(on.put(NEW))
    np.testing.assert_array_equal(predicted, model.classes_[np.argmax(proba, axis=1)])
    assert model.score(on.put(X), THREE) > 0.97


def test_nothing_is_selected_everywhere(on):
    with pytest.warns(UserWarning, match="no variable was selected"):
        model = selector(sparsity=1e9).fit(on.put(X), on.put(Y2))
    predicted = model.predict(on.put(NEW))
    on.assert_close(predicted, np.tile(on.rounded(Y2).mean(axis=0), (30, 1)))
    with pytest.raises(ValueError, match="at least one selected variable"):
        model.transform(on.put(NEW))


def test_inputs_are_left_unchanged(on):
    data, targets = on.put(X), on.put(Y)
    model = selector(n_subsamples=2).fit(data, targets)
    model.predict(data)
    model.inverse_transform(model.transform(data))
    np.testing.assert_array_equal(on.host(data), on.rounded(X))
    np.testing.assert_array_equal(on.host(targets), on.rounded(Y))


@pytest.mark.parametrize(("data", "asked"), [("float64", "float32"), ("float32", "float64")])
def test_dtype_sets_the_precision_inside_and_the_data_outside(data, asked):
    model = selector(dtype=asked).fit(X.astype(data), Y)
    assert (model.centers_.dtype, model.dual_coef_.dtype) == (asked, "float64")
    assert model.predict(NEW.astype(data)).dtype == model.transform(NEW.astype(data)).dtype == data
    assert found(model) == TRUE
    assert model.score(NEW.astype(data), Y_NEW) > 0.99


@pytest.mark.usefixtures("torch")
def test_another_backend_gives_back_the_library_of_the_data():
    model, expected = selector(backend="torch").fit(X, Y), selector().fit(X, Y)
    assert model.place_.startswith("torch")
    assert type(model.predict(NEW)) is type(model.beta_) is np.ndarray
    np.testing.assert_allclose(model.scores_, expected.scores_, atol=1e-8)
    np.testing.assert_allclose(model.beta_, expected.beta_, atol=1e-8)
    np.testing.assert_allclose(model.predict(NEW), expected.predict(NEW), atol=1e-6)


def test_a_memory_map_is_its_array(tmp_path):
    X.tofile(tmp_path / "X.dat")
    on_disk = np.memmap(tmp_path / "X.dat", dtype="float64", mode="r", shape=X.shape)
    weights = np.arange(N) % 3  # rows of no weight stay in
    model = selector(sparsity=0.3).fit(on_disk, Y, sample_weight=weights)
    expected = selector(sparsity=0.3).fit(X, Y, sample_weight=weights)
    assert found(model) == found(expected)
    np.testing.assert_allclose(model.predict(on_disk), expected.predict(X), atol=1e-6)
    np.testing.assert_array_equal(model.transform(on_disk), X[:, found(model)])


@pytest.mark.each
@pytest.mark.parametrize("make", [selector, classifier])
def test_a_pickle_is_a_numpy_model_with_the_same_predictions(on, make):
    options = {"sparsity": 0.3, "ridge": 0.02, "n_subsamples": 2, "max_false": 9.0}
    model = make(**options).fit(on.put(X), THREE if make is classifier else on.put(Y))
    method = "predict_proba" if make is classifier else "predict"
    expected = on.host(getattr(model, method)(on.put(NEW)))
    for twin in (pickle.loads(pickle.dumps(model)), model.to_host()):
        here = NEW.astype(on.dtype_name)
        predicted = getattr(twin, method)(here)
        assert type(predicted) is type(twin.transform(here)) is np.ndarray
        rounding = on.eps * np.abs(twin.dual_coef_).max()
        np.testing.assert_allclose(predicted, expected, rtol=0, atol=10 * rounding)
        np.testing.assert_array_equal(twin.get_support(), model.get_support())
        assert (twin.rounds_, twin.tuning_) == (model.rounds_, model.tuning_)


# ---------------------------------------------------------------------- weights and symmetries


@pytest.mark.each
@pytest.mark.parametrize("make", [selector, classifier])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"hierarchical": False},
        {"kernel": "gaussian"},
        {"scaling": None},
    ],
    ids=str,
)
def test_weights_are_repeated_rows_where_nothing_is_drawn(make, options):
    y = THREE if make is classifier else Y
    options = {"sparsity": 0.3, **options}
    counts = np.random.default_rng(1).integers(0, 3, N)
    weighted = make(**options).fit(X, y, sample_weight=counts)
    repeated = make(**options).fit(near_copies(X, counts), np.repeat(y, counts))
    merged = make(**options).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    left_out = make(**options).fit(X[counts > 0], y[counts > 0], sample_weight=counts[counts > 0])
    method = "predict_proba" if make is classifier else "predict"
    predicted = getattr(weighted, method)(NEW)
    for other in (repeated, merged, left_out):
        assert weighted.levels_.tolist() == other.levels_.tolist()
        np.testing.assert_allclose(weighted.scores_, other.scores_, atol=1e-9)
    # The last fit is chosen by leaving out samples: near-copies one by one
    for other in (merged, left_out):
        np.testing.assert_allclose(weighted.beta_, other.beta_, atol=1e-9)
        np.testing.assert_allclose(predicted, getattr(other, method)(NEW), atol=1e-9)


def test_weights_change_the_selection():
    heavy = X[:, 4] > 0
    y = np.where(heavy, Y, 3.0 * X[:, 0])
    model = selector(sparsity=0.5).fit(X, y, sample_weight=np.where(heavy, 1.0, 1e-8))
    assert set(found(model)) >= set(TRUE)
    assert 0 not in found(model)
    assert model.score(X[heavy], y[heavy]) > 0.99


def test_the_order_of_the_columns_changes_nothing():
    order = np.array([3, 0, 4, 1, 2])
    model, turned = selector().fit(X, Y2), selector().fit(X[:, order], Y2)
    np.testing.assert_array_equal(turned.levels_, model.levels_[order])
    np.testing.assert_allclose(turned.scores_, model.scores_[order], atol=1e-9)
    np.testing.assert_allclose(turned.beta_, model.beta_[order], atol=1e-9)
    np.testing.assert_allclose(turned.predict(NEW[:, order]), model.predict(NEW), atol=1e-6)


def test_units_of_variables_and_targets_change_nothing():
    plain = selector().fit(X, Y)
    scaled = selector().fit(X * [1.0, 1e3, 1e-3, 50.0, 1.0] + 7.0, 1e4 * Y - 40.0)
    assert scaled.levels_.tolist() == plain.levels_.tolist()
    np.testing.assert_allclose(scaled.scores_, plain.scores_, atol=1e-8)
    inside = NEW * [1.0, 1e3, 1e-3, 50.0, 1.0] + 7.0
    np.testing.assert_allclose(scaled.predict(inside), 1e4 * plain.predict(NEW) - 40.0, atol=0.1)


@pytest.mark.few
@pytest.mark.parametrize("scale", [1e8, 1e3, 1e-8])
@pytest.mark.parametrize("kernel", ["laplace", "gaussian"])
def test_the_scale_of_all_variables_is_taken_up_by_the_anchor(kernel, scale):
    options, power = {"kernel": kernel, "scaling": None}, 2 if kernel == "gaussian" else 1
    if kernel == "gaussian":  # away from all scores of both rounds: there rounding decides nothing
        options["sparsity"] = 6.2
    plain = selector(**options).fit(X, Y)
    if "sparsity" in options:
        options["sparsity"] *= scale**power
    scaled = selector(**options).fit(scale * X, Y)
    assert scaled.levels_.tolist() == plain.levels_.tolist() == [0, 1, 0, 2, 0]
    assert scaled.anchor_ * scale**power == pytest.approx(plain.anchor_, rel=1e-9)
    np.testing.assert_allclose(scaled.scores_ / scale**power, plain.scores_, atol=1e-7)
    np.testing.assert_allclose(scaled.predict(scale * NEW), plain.predict(NEW), atol=0.2)


# ---------------------------------------------------------------------- odd data


def test_a_constant_column_is_never_selected():
    for scaling in ("standard", None):
        for constant in (0.0, 5.1, -1e6):
            samples = np.column_stack([X, np.full(N, constant)])
            model = selector(sparsity=0.0, scaling=scaling).fit(samples, Y)
            assert set(TRUE) <= set(found(model)) <= set(range(P))
            assert model.beta_[P] == 0.0
            assert np.all(np.isfinite(model.predict(samples + 1.0)))


@pytest.mark.parametrize("hierarchical", [True, False])
def test_equal_columns_are_selected_together_with_equal_weights(hierarchical):
    samples = np.column_stack([X, X[:, 1], X[:, 0]])
    options = {"hierarchical": hierarchical, "sparsity": 0.3}
    model, again = (selector(**options).fit(samples, Y) for _ in range(2))
    assert found(model) == [1, 3, 5]
    assert model.levels_[1] == model.levels_[5]
    assert model.beta_[1] == pytest.approx(model.beta_[5], rel=1e-6)
    np.testing.assert_array_equal(model.beta_, again.beta_)


ODD = {
    "two samples": X[:2],
    "two samples of one variable": X[:2, :1],
    "three samples": X[:3],
    "19 samples": X[:19],
    "20 samples": X[:20],
    "one variable": X[:40, :1],
    "more variables than samples": np.random.default_rng(0).standard_normal((25, 40)),
    "repeated samples": np.repeat(X[:10], 4, axis=0),
    "equal rows": np.full((40, 2), 3.0),
    "zeros": np.zeros((40, 2)),
    "ones and zeros": (X[:40] > 0).astype(float),
    "a rare one": np.column_stack([X[:40, 1], np.arange(40) == 5]).astype(float),
}


@pytest.mark.each
@nothing_may_be_selected
@pytest.mark.filterwarnings("ignore:max_false=.*cannot be guaranteed:UserWarning")
@pytest.mark.parametrize(
    "options",
    [{}, {"sparsity": 0.0, "n_centers": 5}, {"sparsity": "tune", "n_subsamples": 2}],
    ids=str,
)
@pytest.mark.parametrize("kind", ODD)
def test_odd_data_are_fitted(kind, options):
    samples = ODD[kind]
    y = X[: len(samples), 1] + 0.1 * X[: len(samples), 0]
    model = selector(n_permutations=3, n_sparsities=3, **options).fit(samples, y)
    predicted = model.predict(1.2 * samples)
    assert np.all(np.isfinite(predicted))
    assert np.abs(predicted).max() < 50
    assert bool(model.tuning_) == (len(samples) >= 20 and "n_subsamples" in options)
    if not np.ptp(samples, axis=0).any():
        assert found(model) == []
        np.testing.assert_allclose(predicted, y.mean(), atol=1e-12)


def test_one_variable_is_selected():
    y = np.abs(X[:, 0])
    model = selector().fit(X[:, :1], y)
    assert (found(model), model.feature_importances_.tolist()) == ([0], [1.0])
    assert model.score(NEW[:, :1], np.abs(NEW[:, 0])) > 0.98


def test_more_variables_than_can_be_squared_take_little_memory():
    samples = np.random.default_rng(2).standard_normal((40, 20_000))
    model = selector(n_permutations=2).fit(samples, 3.0 * samples[:, 4711])
    assert 4711 in found(model)
    assert model.components_.shape == (len(found(model)), 20_000)


@pytest.mark.parametrize("make", [selector, classifier])
@pytest.mark.parametrize("sparsity", [1e9, "auto"])
def test_where_nothing_is_selected_the_mean_is_predicted(make, sparsity):
    y = np.random.default_rng(6).standard_normal(N)
    y = np.where(y > 0.3, "yes", "no") if make is classifier else y
    said = "the frequencies of the classes" if make is classifier else "the mean of y"
    with pytest.warns(UserWarning, match=f"no variable was selected: .* {said}"):
        model = make(sparsity=sparsity, n_permutations=12).fit(X, y)
    assert found(model) == []
    if make is classifier:
        share = np.mean(y == "yes")
        expected = np.tile([1 - share, share], (30, 1))
        np.testing.assert_allclose(model.predict_proba(NEW), expected, atol=0.02)  # of folds
        assert set(model.predict(NEW)) == {"no"}
    else:
        np.testing.assert_allclose(model.predict(NEW), y.mean(), rtol=1e-12)
    with pytest.raises(ValueError, match=r"at least one selected variable .* got none: lower"):
        model.transform(NEW)
    assert model.get_feature_names_out().shape == (0,)
    assert (model.dual_coef_, model.centers_, model.n_effective_features_) == (None, None, 0)
    assert model.components_.shape == (0, P)
    assert not model.beta_.any()
    assert not model.feature_importances_.any()
    assert model.profiles(points=4)[1].shape == (0, 4, 1)
    assert model.rounds_[0]["highest_left"] <= model.rounds_[0]["sparsity"]
    assert "0 of 5 variables" in model.describe().text


@pytest.mark.parametrize("make", [selector, classifier])
def test_a_constant_target_selects_nothing_and_says_so(make):
    y = np.full(N, 4.5) if make is selector else ["only"] * N
    with pytest.warns(UserWarning, match="predicts that constant and selects no variable") as said:
        model = make(sparsity="tune", ridge="auto", n_subsamples=4).fit(X, y)
    assert len(said) == 1
    assert set(model.predict(NEW)) == {y[0]}
    assert (model.n_iter_, model.status_, model.tuning_) == (0, "CONVERGED", [])
    assert (found(model), model.rounds_, model.path_) == ([], [], None)
