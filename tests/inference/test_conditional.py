"""Conditional importance against dense formulas and another library, and its p-values."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
from sklearn.preprocessing import StandardScaler

import gpukfl
from gpukfl.inference import Imputer, conditional_importance, correlated_groups
from gpukfl.inference._conditional import DrawnLevels, Permuted

LINEAR = Imputer(regressor=LinearRegression(), classifier=LogisticRegression())


def correlated(n, d, rng, share=0.8):
    gaps = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    return rng.standard_normal((n, d)) @ np.linalg.cholesky(share**gaps).T


def sample(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = correlated(n, d, rng, 0.5)
    return X, X[:, 0] + X[:, 2] ** 2 + 0.3 * rng.standard_normal(n)


class Plus(RegressorMixin, BaseEstimator):
    """A model that was not fitted to anything."""

    def __init__(self, function):
        self.function = function

    def fit(self, X, y):
        pytest.fail("a fitted model was fitted again")

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return self.function(np.asarray(X))


def importance(model, X, y, **options):
    options = {"imputer": LINEAR, "groups": "columns", "n_permutations": 199} | options
    return conditional_importance(model, X, y, **options)


# ---------------------------------------------------------------------- what it is


def test_importance_is_the_mean_rise_of_the_loss():
    X, y = sample(40)
    model = Plus(lambda Z: Z[:, 0] + np.sin(Z[:, 1] * Z[:, 2]))
    found = importance(model, X, y, n_copies=40)
    for j in range(4):
        others = np.delete(X, j, axis=1)
        mean = LinearRegression().fit(others, X[:, j]).predict(others)
        rises = []
        for i in range(40):
            for k in range(40):
                if i != k:
                    row = X[i].copy()
                    row[j] = mean[i] + X[k, j] - mean[k]
                    losses = [(y[i] - model.predict(one[None])[0]) ** 2 for one in (row, X[i])]
                    rises.append(losses[0] - losses[1])
        np.testing.assert_allclose(found.importances[j], np.mean(rises) / np.var(y), atol=1e-12)


def test_importance_is_that_of_another_library():
    hidimstat = pytest.importorskip("hidimstat")
    X, y = sample(200)
    model = gpukfl.KernelRidgeRegressor(random_state=0).fit(X[:100], y[:100])
    theirs = hidimstat.CFI(
        model,
        imputation_model_continuous=LinearRegression(),
        feature_types="continuous",
        n_permutations=200,
        random_state=0,
    ).fit_importance(X[100:], y[100:])
    ours = importance(model, X[100:], y[100:], n_copies=100)
    scale = np.var(y[100:])
    np.testing.assert_allclose(ours.importances * scale, theirs, atol=0.03 * theirs.max())


def test_one_part_of_the_rows_stands_for_all():
    X, y = sample(400)
    model = gpukfl.KernelRidgeRegressor(random_state=0).fit(X[:100], y[:100])
    whole = importance(model, X[100:], y[100:], n_copies=300)
    part = importance(model, X[100:], y[100:], n_copies=20)
    few = importance(model, X[100:], y[100:], max_rows=100)
    assert (few.n_rows, few.n_held_out) == (100, 300)
    np.testing.assert_allclose(part.importances, whole.importances, atol=0.1)
    np.testing.assert_allclose(few.importances, whole.importances, atol=0.3)


def test_permuted_rows_keep_what_they_have():
    rng = np.random.default_rng(0)
    values, means = rng.standard_normal((12, 2)), rng.standard_normal((12, 2))
    blocks, scales = rng.permutation(12).reshape(3, 4), rng.uniform(0.5, 2.0, (12, 2))
    found = Permuted.from_residuals(values, means, scales, blocks)
    np.testing.assert_array_equal(found.values[np.arange(12), found.own], values[found.rows])
    first, other = blocks[0, :2]
    residual = scales[first] * (values[other] - means[other]) / scales[other]
    np.testing.assert_allclose(found.values[0, 1], means[first] + residual)
    table = rng.standard_normal((12, 4))
    sums = found.sums(table, 4000, np.random.RandomState(0))
    # The mean over permutations is that over all residuals of the block
    assert abs(sums.mean() - table.mean(axis=1).sum()) < 5 * sums.std() / np.sqrt(4000)
    np.testing.assert_allclose(found.middle(table[:, :, None])[:, 0], table.mean(axis=1))


def test_drawn_levels_have_their_probabilities():
    rng = np.random.default_rng(0)
    levels = np.array([0, 1, 2, 1, 0])
    values = np.array([5.0, 7.0, 9.0])[levels][:, None]
    shares = rng.dirichlet(np.ones(3), 5)
    found = DrawnLevels.from_probabilities(values, levels, shares, np.arange(5))
    np.testing.assert_array_equal(found.values[np.arange(5), found.own], values)
    table = rng.standard_normal((5, 3))
    sums = found.sums(table, 4000, np.random.RandomState(0))
    expected = found.expectation(table).sum()
    assert abs(sums.mean() - expected) < 5 * sums.std() / np.sqrt(4000)


# ---------------------------------------------------------------------- p-values


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.8])
def test_p_values_are_uniform_where_nothing_matters(share):
    found = []
    for seed in range(80):
        rng = np.random.default_rng(seed)
        X = correlated(120, 3, rng, share)
        y = X[:, 0] + rng.standard_normal(120)
        model = Ridge(5.0).fit(X[:60], y[:60])
        one = importance(model, X[60:], y[60:], groups=[[1]], random_state=seed)
        found.append(one.p_values[0])
    assert kstest(found, "uniform").pvalue >= 0.01


@pytest.mark.slow
def test_a_model_that_misses_the_others_has_uniform_p_values():
    """Without what others say of the errors nearly all p-values would be large, or all small."""
    found = []
    for seed in range(25):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((120, 2))
        X[:, 1] += np.sin(2 * X[:, 0])
        y = 3 * np.sin(2 * X[:, 0]) + 0.5 * rng.standard_normal(120)
        model = Plus(lambda Z: 0.3 * Z[:, 1])
        one = conditional_importance(
            model, X, y, groups=[[1]], n_permutations=199, random_state=seed
        )
        found.append(one.p_values[0])
    assert kstest(found, "uniform").pvalue >= 0.01


def test_what_matters_is_found_and_nothing_else():
    X, y = sample(400, seed=1)
    model = gpukfl.KernelRidgeRegressor(random_state=0).fit(X[:200], y[:200])
    found = conditional_importance(model, X[200:], y[200:])
    assert found.selected_at(0.05) == ["x0", "x2"] == found.selected_at(0.05, "by")
    assert found.p_values[[0, 2]].max() == 1 / 2000


def test_what_a_model_does_not_use_is_not_found():
    X, y = sample()
    X = np.c_[X, np.ones(len(X))]
    found = importance(Plus(lambda Z: Z[:, 0]), X, y)
    np.testing.assert_allclose(found.importances[1:], 0.0, atol=1e-15)
    np.testing.assert_array_equal(found.p_values[1:], 1.0)


def test_levels_are_not_moved_between():
    """A model that fails at values that are none would say that they matter."""
    rng = np.random.default_rng(0)
    X, y = sample(200)
    X[:, 1] = (X[:, 0] + rng.standard_normal(200) > 0) * 2.0

    def function(Z):
        assert np.isin(Z[:, 1], [0.0, 2.0]).all()
        return Z[:, 0] + Z[:, 2] ** 2

    found = conditional_importance(Plus(function), X, y, n_permutations=199)
    assert found.p_values[1] == 1.0
    assert found.explained[1] > 0


def test_levels_that_matter_are_found():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5))
    X[:, 2:] = np.eye(3)[rng.integers(3, size=300)]
    y = X[:, 0] + X[:, 2] - X[:, 4] + 0.3 * rng.standard_normal(300)
    model = LinearRegression().fit(X[:150], y[:150])
    groups = {"first": 0, "second": 1, "level": [2, 3, 4]}
    found = conditional_importance(model, X[150:], y[150:], groups=groups, n_permutations=199)
    assert found.selected_at(0.05) == ["first", "level"]
    assert 0.2 < found.importances[2] < 2.0


# ---------------------------------------------------------------------- groups


def test_correlated_columns_are_redrawn_together():
    X, y = sample(200)
    X[:, 3] = X[:, 0] ** 3
    model = Plus(lambda Z: 0.5 * Z[:, 0] + 0.5 * np.cbrt(Z[:, 3]) + Z[:, 2] ** 2)
    found = conditional_importance(model, X, y, n_permutations=199)
    assert found.groups == ("x0 + x3", "x1", "x2")
    assert found.features[0] == ("x0", "x3")
    assert "together: x0, x3" in found.summary()
    assert found.selected_at(0.1) == ["x0 + x3", "x2"]


def test_groups_are_monotone():
    X, _ = sample(50)
    X = np.c_[X, -(X[:, 1] ** 3), np.full(50, 2.0), np.full(50, np.nan)]
    groups = correlated_groups(X)
    assert groups == [[0], [1, 4], [2], [3], [5], [6]]
    assert len(correlated_groups(X, threshold=1e-3)) < len(groups)
    assert correlated_groups(X, sources=[0, 1, 2, 3, 4, 5, 0])[0] == [0, 6]


@pytest.mark.parametrize(
    ("groups", "error", "words"),
    [
        ("all", ValueError, "expected groups"),
        (3, TypeError, "expected groups"),
        ([["x0", "x9"]], ValueError, "name of a feature"),
        ([[0], [0, 1]], ValueError, "x0 twice"),
        ([], ValueError, "empty"),
        ({"none": []}, ValueError, "empty"),
        ([[4]], ValueError, "below 4"),
    ],
)
def test_groups_that_are_none(groups, error, words):
    X, y = sample()
    with pytest.raises(error, match=words):
        importance(Plus(lambda Z: Z[:, 0]), X, y, groups=groups)


# ---------------------------------------------------------------------- models and data


@pytest.mark.parametrize("model", [LogisticRegression(), RidgeClassifier()])
def test_classes(model):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = np.array(["no", "yes"])[(X[:, 0] + 0.3 * rng.standard_normal(400) > 0).astype(int)]
    model.fit(X[:200], y[:200])
    found = importance(model, X[200:], y[200:])
    assert found.selected_at(0.05) == ["x0"]
    assert found.unit == "explained log loss"
    with pytest.raises(ValueError, match="labels of the fit"):
        importance(model, X, np.where(y == "no", "maybe", y))


def test_several_targets_are_judged_together():
    X, y = sample(300)
    Y = np.c_[y, X[:, 1] * 100.0]
    model = gpukfl.KernelRidgeRegressor(random_state=0).fit(X[:150], Y[:150])
    found = importance(model, X[150:], Y[150:])
    assert found.selected_at(0.05) == ["x0", "x1", "x2"]


def test_places(on):
    X, y = sample(160)
    X, y = on.rounded(X), on.rounded(y)
    model = gpukfl.KernelRidgeRegressor(random_state=0).fit(on.put(X[:80]), on.put(y[:80]))
    found = importance(model, on.put(X[80:]), on.put(y[80:]))
    host = gpukfl.KernelRidgeRegressor(random_state=0).fit(X[:80], y[:80])
    expected = importance(host, X[80:], y[80:])
    tolerance = 1e-6 if on.dtype_name == "float64" else 2e-2
    np.testing.assert_allclose(found.importances, expected.importances, atol=tolerance)


def test_frames_keep_their_names():
    pl = pytest.importorskip("polars")
    X, y = sample()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = gpukfl.fit(frame[:60], y[:60], method="bkernn", n_particles=4, ridge=0.01)
    found = importance(model, frame[60:], y[60:], groups=["a", ["b", "d"]])
    assert found.groups == ("a", "b + d")
    same = importance(model, frame[60:].assign(y=y[60:]), "y", groups=["a", ["b", "d"]])
    also = importance(model, pl.DataFrame(frame[60:]), y[60:], groups=["a", ["b", "d"]])
    for other in (same, also):
        np.testing.assert_array_equal(found.importances, other.importances)


def table(n=240):
    rng = np.random.default_rng(0)
    word = np.array(["low", "middle", "high"])[rng.integers(3, size=n)]
    x = rng.standard_normal(n)
    y = x + 2.0 * (word == "high") + 0.2 * rng.standard_normal(n)
    x[::10] = np.nan
    frame = pd.DataFrame({"word": word, "x": x, "noise": rng.standard_normal(n)})
    return frame, np.where(np.isnan(x), 0.0, y)


@pytest.mark.parametrize("method", ["selection", "auto"])
def test_columns_of_a_table_are_features(method):
    frame, y = table()
    options = {"effort": "quick", "members": ["linear", "matern52"]}
    model = gpukfl.fit(frame[:160], y[:160], method=method, **(options if method == "auto" else {}))
    found = conditional_importance(model, frame[160:], y[160:], n_permutations=199)
    assert set(found.groups) == {"word", "x", "noise"}
    p = dict(zip(found.groups, found.p_values, strict=True))
    assert p["word"] == p["x"] == 1 / 200
    assert p["noise"] > 0.02


def test_categories_of_many_levels_are_redrawn_as_their_levels():
    rng = np.random.default_rng(0)
    code = rng.integers(40, size=400)
    x = code + rng.choice([-1.0, 1.0, 9.0], 400)  # errors lead beyond the levels
    frame = pd.DataFrame({"x": x, "town": [f"t{k}" for k in code], "z": rng.standard_normal(400)})
    y = np.sin(code) + frame["z"].to_numpy()
    model = gpukfl.fit(frame[:200], y[:200], members=["linear"], n_folds=2, progress=False)
    found = conditional_importance(model, frame[200:], y[200:], groups="columns")
    assert np.isfinite(found.importances).all()
    assert found.importances[found.groups.index("town")] > 0.0


def portfolio(**options):
    X, y = sample(200)
    options = {"n_folds": 4, "random_state": 0, **options}
    return gpukfl.AutoRegressor(["linear", "matern52"], **options).fit(X, y)


def test_rows_that_folds_held_out():
    model = portfolio()
    found = conditional_importance(model, n_permutations=199)
    assert (found.n_folds, found.n_rows) == (4, 200)
    assert found.selected_at(0.1) == ["x0", "x2"]
    assert found.p_values.min() == 2 / 200  # twice the median of the folds'
    some = conditional_importance(model, n_permutations=199, max_rows=80)
    assert some.n_rows == 80
    assert "in 4 folds" in some.summary()


@pytest.mark.parametrize("n_folds", [1, 4])
def test_models_of_all_rows_have_seen_those_that_folds_held_out(n_folds):
    model = portfolio(refit=True, n_folds=n_folds)
    with pytest.raises(ValueError, match="refitted"):
        conditional_importance(model)
    X, y = sample(200)
    assert len(conditional_importance(model, X, y, n_permutations=19).p_values) == X.shape[1]


def test_models_without_held_out_rows():
    X, y = sample()
    model = LinearRegression().fit(X, y)
    with pytest.raises(ValueError, match="has no models of folds"):
        conditional_importance(model)
    with pytest.raises(ValueError, match="X and y, or neither"):
        conditional_importance(model, X)


def test_weights_of_zero_leave_rows_out():
    X, y = sample()
    model = LinearRegression().fit(X, y)
    weights = np.ones(120)
    weights[::3] = 0.0
    kept = weights > 0
    found = importance(model, X, y, sample_weight=weights)
    expected = importance(model, X[kept], y[kept])
    np.testing.assert_array_equal(found.importances, expected.importances)
    heavy = importance(model, X, y, sample_weight=np.where(kept, 7.0, 0.0))
    np.testing.assert_allclose(heavy.importances, expected.importances)


def test_repeats_and_leaves_data_alone():
    X, y = sample()
    X.flags.writeable = y.flags.writeable = False
    model = LinearRegression().fit(X, y)
    first, again = importance(model, X, y), importance(model, X, y)
    np.testing.assert_array_equal(first.p_values, again.p_values)
    np.testing.assert_array_equal(first.importances, again.importances)
    assert (importance(model, X, y, random_state=1).p_values != first.p_values).any()


@pytest.mark.parametrize(
    ("model", "change", "error", "words"),
    [
        (StandardScaler(), {}, TypeError, "fitted regressor or classifier"),
        (LinearRegression(), {}, ValueError, "not fitted"),
        (None, {"y": np.zeros(3)}, ValueError, "target for each of 120 rows, got 3"),
        (None, {"y": np.zeros(120)}, ValueError, "different targets in the held-out"),
        (None, {"X": np.zeros(120)}, ValueError, "shape"),
        (
            None,
            {"X": np.zeros((3, 4)), "y": np.arange(3.0)},
            ValueError,
            "at least 4 held-out rows",
        ),
        (None, {"n_permutations": 0}, ValueError, "n_permutations"),
        (None, {"n_copies": 1}, ValueError, "n_copies"),
        (None, {"max_rows": 1.5}, TypeError, "max_rows"),
        (None, {"imputer": LinearRegression()}, TypeError, "Imputer"),
        (None, {"sample_weight": -np.ones(120)}, ValueError, "at least 0"),
    ],
)
def test_bad_input(model, change, error, words):
    X, y = sample()
    model = LinearRegression().fit(X, y) if model is None else model
    data = {"X": X, "y": y} | change
    with pytest.raises(error, match=words):
        importance(model, data.pop("X"), data.pop("y"), **data)


def test_bad_imputers():
    with pytest.raises(TypeError, match="predict_proba"):
        Imputer(classifier=LinearRegression())
    with pytest.raises(ValueError, match="max_levels"):
        Imputer(max_levels=0)


# ---------------------------------------------------------------------- what it says


def test_levels_that_cannot_be_reached():
    X, y = sample()
    found = importance(LinearRegression().fit(X, y), X, y, n_permutations=9)
    with pytest.raises(ValueError, match=r"at least 0\.4.*n_permutations=80"):
        found.selected_at(0.05)
    assert found.smallest_level("by") > found.smallest_level("bh") == 0.4
    with pytest.raises(ValueError, match="method"):
        found.adjusted("bonferroni")


def test_frame_summary_and_picture():
    import matplotlib.pyplot as plt

    X, y = sample()
    X[:, 3] = X[:, 0] - X[:, 1]
    found = importance(LinearRegression().fit(X[:, :], y), X, y)
    frame = found.frame()
    assert frame["importance"].is_monotonic_decreasing
    assert (frame["adjusted"] >= frame["p_value"]).all()
    assert (frame["adjusted_by"] >= frame["adjusted"]).all()
    text = found.summary()
    assert "not testable: x0, x1, x3" in text
    assert "x2" in text
    _, ax = plt.subplots()
    assert found.plot(ax) is ax
    assert len(ax.get_yticklabels()) == 4
    bars = np.array([bar[:, 0] for bar in ax.collections[0].get_segments()])
    np.testing.assert_allclose(np.ptp(bars, axis=1), 2.0 * frame["standard_error"][::-1])
    assert "± one standard error" in ax.get_xlabel()
    assert "4 of 4 columns or groups of columns were tested" in found.in_words()
    less = replace(found, unfinished=("a", "b"))
    assert "4 of 6 columns or groups of columns were tested" in less.in_words()
    with pytest.raises(ValueError, match="ax or figsize"):
        found.plot(ax, figsize=(1, 1))
    plt.close("all")
