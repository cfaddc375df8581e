"""Kernel feature selectors: what they find and give, every place, weights, odd data, copies."""

import warnings

import numpy as np
import pandas as pd
import pytest
from brief import without_seconds
from selection_cases import (
    NEW,
    THREE,
    TRUE,
    TWO,
    Y2,
    Y_NEW,
    N,
    P,
    X,
    Y,
    classifier,
    formula,
    found,
    selector,
    target,
)
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpukfl import KernelFeatureSelector
from gpukfl.estimators.selection import Permutations
from gpukfl.kernels import (
    Gaussian,
    GaussianMixture,
    InverseManhattan,
    ManhattanLaplace,
    ManhattanMixture,
    RationalQuadratic,
)

nothing_may_be_selected = pytest.mark.filterwarnings("ignore:no variable was selected:UserWarning")


# ---------------------------------------------------------------------- what is found


def check_rounds(model):
    """Levels, scores, thresholds and rounds tell one story."""
    levels, scores = model.levels_, model.scores_
    for k, one in enumerate(model.rounds_, start=1):
        entered = np.flatnonzero(levels == k)
        assert set(one) == {"level", "sparsity", "entered", "scores", "highest_left"}
        assert (one["level"], one["entered"]) == (k, entered.tolist())
        np.testing.assert_array_equal(one["scores"], scores[entered])
        assert all(score > one["sparsity"] for score in one["scores"])
    assert model.sparsity_ == model.rounds_[-1]["sparsity"]
    assert model.rounds_[-1]["highest_left"] == max(scores[levels == 0].max(initial=0.0), 0.0)
    np.testing.assert_array_equal(model.get_support(), levels > 0)


@pytest.mark.parametrize("kernel", ["laplace", "inverse", "gaussian"])
def test_it_finds_a_variable_and_then_one_that_only_interacts(kernel):
    model = selector(kernel=kernel, n_permutations=19).fit(X, Y)
    assert found(model) == TRUE
    assert model.levels_.tolist() == [0, 1, 0, 2, 0]
    assert len(model.rounds_) == 3  # the last finds nothing more
    check_rounds(model)
    assert model.scores_[TRUE].min() > 10 * max(model.scores_[[0, 2, 4]].max(), 0.0)
    assert model.score(NEW, Y_NEW) > 0.98
    assert (model.status_, model.n_iter_) == ("CONVERGED", len(model.history_))
    assert np.all(np.diff(model.history_.seconds) >= 0)


def test_many_targets_share_a_selection():
    model = selector().fit(X, Y2)
    assert model.levels_.tolist() == [1, 1, 0, 2, 0]
    check_rounds(model)
    assert model.predict(NEW).shape == (30, 2)
    assert model.score(NEW, np.stack([2.0 * NEW[:, 0], 5.0 - 3.0 * Y_NEW], axis=1)) > 0.99
    assert selector().fit(X, Y[:, None]).predict(NEW).shape == (30, 1)


@pytest.mark.parametrize("labels", [THREE.astype(object), TWO == "near"], ids=str)
def test_classes_select_their_variable(labels):
    model = classifier(n_permutations=9).fit(X, labels)
    assert found(model) == [2]
    check_rounds(model)
    assert list(model.classes_) == sorted(set(labels))
    assert model.score(X, labels) > 0.97
    proba = model.predict_proba(NEW)
    assert proba.shape == (30, len(model.classes_))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-14)
    np.testing.assert_array_equal(model.predict(NEW), model.classes_[np.argmax(proba, axis=1)])


def test_a_gaussian_kernel_misses_what_has_no_linear_effect():
    assert found(classifier(n_permutations=9).fit(X, TWO)) == [2]
    with pytest.warns(UserWarning, match="no variable was selected"):
        assert found(classifier(n_permutations=9, kernel="gaussian").fit(X, TWO)) == []


def test_one_round_without_hierarchy():
    model = selector(hierarchical=False).fit(X, Y)
    assert (found(model), len(model.rounds_)) == ([1], 1)
    check_rounds(model)
    wider = selector(hierarchical=False, sparsity=0.3).fit(X, Y)
    assert found(wider) == TRUE
    np.testing.assert_allclose(wider.scores_, model.scores_, rtol=1e-12)


@nothing_may_be_selected
def test_a_larger_sparsity_selects_fewer():
    highest = selector(sparsity=0.0).fit(X, Y2).scores_.max()
    sizes = []
    for share in (0.0, 0.01, 0.7, 1.01):
        model = selector(sparsity=share * highest, hierarchical=False).fit(X, Y2)
        assert model.sparsity_ == model.rounds_[0]["sparsity"] == share * highest
        sizes.append(len(found(model)))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] >= 3
    assert sizes[-1] == 0


def test_the_threshold_is_what_permutations_reach():
    few, many = (selector(n_permutations=k).fit(X, Y) for k in (1, 12))
    assert few.rounds_[0]["sparsity"] < many.rounds_[0]["sparsity"]  # the same first draw
    assert found(many) == TRUE


@pytest.mark.parametrize(
    "kernel",
    [
        ManhattanLaplace(2.0),
        ManhattanMixture(),
        InverseManhattan(exponent=2.0),
        GaussianMixture(),
        RationalQuadratic(),
        Gaussian(1.5),
    ],
    ids=str,
)
def test_kernel_values_select(kernel):
    model = selector(kernel=kernel).fit(X, Y)
    assert found(model) == TRUE
    assert type(model.kernel_) in (type(kernel), Gaussian)
    assert model.score(NEW, Y_NEW) > 0.99


def test_names_are_kernel_values():
    for name, kernel in [("laplace", ManhattanLaplace()), ("inverse", InverseManhattan())]:
        named, valued = selector(kernel=name).fit(X, Y), selector(kernel=kernel).fit(X, Y)
        np.testing.assert_array_equal(named.predict(NEW), valued.predict(NEW))
    gaussian = selector(kernel=Gaussian(0.5**0.5)).fit(X, Y)  # exp(-|x|^2)
    np.testing.assert_array_equal(gaussian.scores_, selector(kernel="gaussian").fit(X, Y).scores_)


def test_a_lengthscale_is_taken_up_by_the_anchor():
    one, four = (selector(kernel=ManhattanLaplace(scale)).fit(X, Y) for scale in (1.0, 4.0))
    assert four.anchor_ == pytest.approx(4.0 * one.anchor_, rel=1e-12)
    np.testing.assert_allclose(4.0 * four.scores_, one.scores_, atol=1e-9)


@pytest.mark.parametrize("given", [0.25, 2])
def test_a_given_anchor_is_the_weight_of_what_was_found(given):
    model = selector(anchor=given, sparsity=0.3).fit(X, Y)
    assert model.anchor_ == given
    assert set(TRUE) <= set(found(model))
    assert model.levels_[1] == 1


@pytest.mark.parametrize("unit", [1e-200, 1e-310])
def test_features_that_vanish_are_scaled_or_named(unit):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    given = {"sparsity": 0.01, "ridge": 1e-2, "random_state": 0}
    expected = KernelFeatureSelector(**given).fit(X, X[:, 0])
    found = KernelFeatureSelector(**given).fit(unit * X, X[:, 0])
    np.testing.assert_array_equal(found.get_support(), expected.get_support())
    words = r"X underflows.*: expected .*; (scaling='standard' scales|standardise)"
    with pytest.raises(ValueError, match=words):
        KernelFeatureSelector(**given, scaling=None).fit(unit * X, X[:, 0])


def test_the_radius_bounds_the_weights_of_the_selection():
    model = selector(radius=0.02, hierarchical=False, sparsity=0.3).fit(X, Y)
    wide = selector(hierarchical=False, sparsity=0.3).fit(X, Y)
    assert found(model) == [1]  # all of the weight goes to the steepest
    assert model.history_.objective[-1] > wide.history_.objective[-1]


@pytest.mark.few
@pytest.mark.parametrize("count", [30, N, 5 * N, "all"])
def test_centers_find_the_same(count):
    model = selector(n_centers=count).fit(X, Y)
    expected = selector(n_centers="auto").fit(X, Y)
    assert found(model) == found(expected) == TRUE
    assert model.levels_.tolist() == expected.levels_.tolist()
    # At beta = 0 the factored gradient is exact
    assert model.scores_[1] == pytest.approx(expected.scores_[1], rel=1e-9)
    assert model.score(NEW, Y_NEW) > 0.98


# ---------------------------------------------------------------------- what is given


@pytest.mark.pairs
@pytest.mark.parametrize("kernel", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "options",
    [{}, {"scaling": None}, {"sparsity": 1e9}],
    ids=str,
)
@nothing_may_be_selected
def test_predictions_are_the_dense_formula(options, kernel):
    model = selector(kernel=kernel, **options).fit(X, Y2)
    np.testing.assert_allclose(model.predict(NEW), formula(model, NEW), atol=1e-9)


@pytest.mark.parametrize("make", [selector, classifier])
def test_importances_are_shares_among_the_selected(make):
    y = THREE if make is classifier else 5.0 * X[:, 0] + Y
    model = make(sparsity=0.3).fit(X, y, sample_weight=1.0 + (X[:, 2] > 0))
    weights, importances = model.beta_, model.feature_importances_
    assert np.all((weights > 0) <= model.get_support())
    assert np.all(importances[weights == 0] == 0)
    assert importances.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.argmax(importances) == (2 if make is classifier else 0)
    order = np.argsort(-importances, kind="stable")[: np.count_nonzero(weights)]
    np.testing.assert_array_equal(model.components_, np.eye(P)[order])
    assert model.n_effective_features_ == len(found(model))


def test_weights_of_samples_count_in_the_importances():
    upper = X[:, 4] > 0
    y = np.where(upper, X[:, 0], X[:, 3])
    shares = {}
    options = {"sparsity": 0.0, "hierarchical": False}
    for name, weights in [("upper", (1.0, 0.05)), ("lower", (0.05, 1.0))]:
        model = selector(**options).fit(X, y, sample_weight=np.where(upper, *weights))
        assert found(model) == [0, 3, 4]
        shares[name] = model.feature_importances_
    assert shares["upper"][0] > 5 * shares["upper"][3]
    assert shares["lower"][3] > 5 * shares["lower"][0]


def test_the_weights_are_those_that_predict_best():
    y = np.sin(4 * X[:, 0]) + 0.5 * X[:, 1]
    model = selector(sparsity=0.2).fit(X, y)
    assert found(model) == [0, 1]
    assert model.beta_[0] > 3 * model.beta_[1]  # it varies more quickly
    assert model.score(NEW, np.sin(4 * NEW[:, 0]) + 0.5 * NEW[:, 1]) > 0.95


def test_the_selected_columns_are_given_as_they_are():
    model = selector().fit(X, Y)
    np.testing.assert_array_equal(model.get_support(), [False, True, False, True, False])
    np.testing.assert_array_equal(model.transform(NEW), NEW[:, TRUE])
    np.testing.assert_array_equal(selector().fit_transform(X, Y), X[:, TRUE])
    assert list(model.get_feature_names_out()) == ["x1", "x3"]
    assert list(model.get_feature_names_out(list("abcde"))) == ["b", "d"]
    back = model.inverse_transform(model.transform(NEW))
    np.testing.assert_array_equal(back, np.where(model.get_support(), NEW, 0.0))
    with pytest.raises(ValueError, match="different shape"):
        model.inverse_transform(NEW)


def test_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=list("abcde"), index=np.arange(N) + 7)
    model = selector().fit(frame, Y)
    assert list(model.get_feature_names_out()) == ["b", "d"]
    np.testing.assert_array_equal(model.transform(frame), X[:, TRUE])
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame.rename(columns={"a": "z"}))
    kept = model.set_output(transform="pandas").transform(frame)
    pd.testing.assert_frame_equal(kept, frame[["b", "d"]])
    arrays = selector().set_output(transform="pandas").fit(X, Y).transform(NEW)
    assert list(arrays.columns) == ["x1", "x3"]
    np.testing.assert_allclose(model.predict(frame), selector().fit(X, Y).predict(X), atol=1e-9)


def test_it_selects_for_another_model_in_a_pipeline():
    first = make_pipeline(StandardScaler(), selector(), LinearRegression()).fit(X, Y)
    expected = LinearRegression().fit(X[:, TRUE], Y)
    np.testing.assert_allclose(first.predict(NEW), expected.predict(NEW[:, TRUE]), atol=1e-12)
    last = make_pipeline(StandardScaler(), selector()).fit(X, Y)
    assert last.score(NEW, Y_NEW) > 0.98
    frame = pd.DataFrame(X, columns=list("abcde"))
    named = make_pipeline(selector(), LinearRegression()).set_output(transform="pandas")
    assert list(named.fit(frame, Y)[-1].feature_names_in_) == ["b", "d"]


def test_it_can_be_searched():
    grid = {"sparsity": [0.3, 1e9]}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="no variable was selected")
        search = GridSearchCV(selector(), grid, cv=2).fit(X, Y)
    assert search.best_params_ == {"sparsity": 0.3}


def test_profiles_are_predictions():
    for options in ({}, {"scaling": None}, {"kernel": "gaussian"}):
        model = selector(**options).fit(X, Y2)
        steps, values = model.profiles(points=7)
        assert steps.shape == (3, 7)
        assert values.shape == (3, 7, 2)
        by = model.scaling_
        mean, scale = (0.0, 1.0) if by is None else (by.mean, by.scale)
        used = np.flatnonzero(model.beta_)
        stretch = model.beta_[used] ** (0.5 if "kernel" in options else 1.0)
        some = np.linspace(0, len(model.centers_) - 1, 30).astype(int)
        rows = np.zeros((30, P))  # the centres are stretched by the weights
        rows[:, used] = model.centers_[some] / stretch
        for direction, along, expected in zip(model.components_, steps, values, strict=True):
            for step, mean_prediction in zip(along, expected, strict=True):
                points = np.where(direction > 0, step, rows) * scale + mean
                found = model.predict(points).mean(axis=0)
                np.testing.assert_allclose(found, mean_prediction, atol=1e-6)
        assert len(model.profiles(count=1)[0]) == 1


# ---------------------------------------------------------------------- copies


def test_a_random_state_repeats_the_fit():
    options = {
        "sparsity": "tune",
        "n_sparsities": 3,
        "n_subsamples": 2,
        "n_centers": 40,
        "max_false": 5.0,
    }
    first, second = (selector(**options).fit(X, Y) for _ in range(2))
    np.testing.assert_array_equal(first.predict(NEW), second.predict(NEW))
    np.testing.assert_array_equal(first.selection_frequencies_, second.selection_frequencies_)
    assert without_seconds(first.tuning_) == without_seconds(second.tuning_)
    assert first.rounds_ == second.rounds_
    thresholds = [selector(random_state=k).fit(X, Y).rounds_[0]["sparsity"] for k in (0, 0, 1)]
    assert thresholds[0] == thresholds[1] != thresholds[2]
    object_ = selector(random_state=np.random.RandomState(0)).fit(X, Y)
    assert object_.rounds_[0]["sparsity"] == thresholds[0]


def test_a_clone_has_the_parameters_only():
    model = selector(kernel=ManhattanMixture(), anchor=0.5).fit(X, Y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "beta_")
    assert twin.set_params(n_centers=3, kernel="inverse").n_centers == 3


def test_parameters_are_left_as_given():
    given = KernelFeatureSelector(sparsity=Permutations(3)).get_params()
    assert KernelFeatureSelector(**given).fit(X, Y).get_params() == given


def test_no_warning_where_all_is_well():
    noise = 0.3 * np.random.default_rng(0).standard_normal(N)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = selector(n_subsamples=4, max_false=3.0).fit(X, target(X) + noise)
    assert found(model) == TRUE
    assert model.status_ in ("CONVERGED", "STALLED")
