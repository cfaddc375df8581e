"""Fitted functions in closed form: their values, and what players add, beside all subsets."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import gpukfl
from gpukfl import KernelFeatureSelector, KernelRidgeRegressor
from gpukfl._accel.trust import use_numpy_only
from gpukfl.inference._explain import RowFunction
from gpukfl.kernels import Gaussian, ManhattanLaplace, PowerExponential
from gpukfl.methods import ShapleyGames, subset_contributions
from gpukfl.predictor._closed_forms import TreeForm, find_closed_form
from gpukfl.predictor._forest import read_forest

RNG = np.random.default_rng(0)
N, D = 200, 6
X = RNG.standard_normal((N, D))
Y = np.stack([np.sin(X[:, 0]) * X[:, 1] + X[:, 2], X[:, 3] * X[:, 4]], axis=1)
PLAYERS = np.array([0, 1, 2, 1, 3, 4])
KERNELS = [
    "gaussian",
    ManhattanLaplace(lengthscale=3.0),
    PowerExponential(lengthscale=3.0, order=1.5, exponent=1.5),
    0.5 * Gaussian(2.0) + 2.0 * ManhattanLaplace(lengthscale=4.0),
]


def check_form(form, rows, others):
    found = form.contributions(rows, others, PLAYERS, 5)
    games = ShapleyGames(form, rows, others, form(rows), form(others), PLAYERS)
    np.testing.assert_allclose(found, subset_contributions(games), atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_product_kernels(kernel):
    model = KernelRidgeRegressor(kernel, ridge=0.01, random_state=0).fit(X, Y)
    form, has_limits = find_closed_form(model._fitted_predictor())
    assert has_limits
    np.testing.assert_allclose(form(X[:9]), model.predict(X[:9]), atol=1e-9)
    check_form(form, X[:3], X[5:9])


def test_the_columns_of_a_selection():
    model = KernelFeatureSelector(sparsity=0.05, ridge=0.01, random_state=0).fit(X, Y[:, :1])
    form, _ = find_closed_form(model._fitted_predictor())
    check_form(form, X[:3], X[5:9])


@pytest.mark.parametrize("kernel", ["matern52", "laplace", PowerExponential(order=1.5)], ids=str)
def test_other_kernels_have_none(kernel):
    model = KernelRidgeRegressor(kernel, ridge=0.01, random_state=0).fit(X, Y)
    assert find_closed_form(model._fitted_predictor()) is None


@pytest.mark.parametrize("categories", [None, [1, 3]])
def test_trees(categories):
    """Also with missing values and categories, compiled and not."""
    rows = X.copy()
    rows[RNG.random(rows.shape) < 0.1] = np.nan
    rows[:, [1, 3]] = RNG.integers(0, 9, (N, 2))
    y = Y[:, 0] + (rows[:, 1] % 2) * (rows[:, 3] % 3)
    model = HistGradientBoostingRegressor(
        max_iter=30, categorical_features=categories, random_state=0
    ).fit(rows, y)
    form = TreeForm(read_forest(model))
    np.testing.assert_allclose(form(rows)[:, 0], model.predict(rows), atol=1e-12)
    check_form(form, rows[:3], rows[5:9])
    with use_numpy_only():
        check_form(form, rows[:3], rows[5:9])


def test_trees_are_those_of_shap():
    shap = pytest.importorskip("shap")
    model = HistGradientBoostingRegressor(max_iter=20, random_state=0).fit(X, Y[:, 0])
    told = shap.TreeExplainer(model, X[50:70], feature_perturbation="interventional")
    found = TreeForm(read_forest(model)).contributions(X[:5], X[50:70], np.arange(D), D)
    np.testing.assert_allclose(found.mean(axis=1)[..., 0], told.shap_values(X[:5]), atol=1e-6)


@pytest.mark.parametrize("members", [["linear", "trees"], ["trees", "manhattan_laplace"]])
def test_blends_are_exact(members):
    """Of seven columns, with missing values: all subsets of players."""
    rows = np.column_stack([X, RNG.integers(0, 3, N)])
    rows[::9, 2] = np.nan
    y = Y[:, 0] + 0.3 * rows[:, 6]
    model = gpukfl.fit(rows, y, members=members, effort="quick", random_state=0)
    assert model.leaderboard()["weight"].gt(0).sum() > 1
    found = model.explain(rows[:2], background=rows[50:60], n_background=10)
    function = RowFunction(model, "auto")
    codes, at = function.rows(rows[:2]), function.rows(rows[50:60])

    def evaluate(some):
        return function(some)[:, :1]

    games = ShapleyGames(evaluate, codes, at, evaluate(codes), evaluate(at), function.sources)
    expected = subset_contributions(games).mean(axis=1)[..., 0]
    np.testing.assert_allclose(found.contributions, expected, atol=1e-9)
    assert np.all(found.standard_error < 1e-12)


def test_limits_of_predictions_are_within_the_errors():
    """Of rows at which predictions are clipped."""
    y = np.clip(9.0 * Y[:, 0], -3.0, 3.0)
    model = KernelRidgeRegressor("gaussian", ridge=1e-9, lengthscale=2.0, random_state=0).fit(X, y)
    form, _ = find_closed_form(model._fitted_predictor())
    far = 1.5 * X
    clipped = np.abs(form(far)[:, 0] - model.predict(far)) > 0.1
    far, others = far[clipped][:4], X[50:82]
    assert len(far)
    found = model.explain(far, background=others, n_walks=320)
    whole = found.baseline + found.contributions.sum(axis=1)
    np.testing.assert_allclose(whole, model.predict(far), rtol=1e-12)

    def f(rows):
        return model.predict(rows)[:, None]

    games = ShapleyGames(f, far, others, f(far), f(others), np.arange(D))
    gaps = found.contributions - subset_contributions(games).mean(axis=1)[..., 0]
    assert found.standard_error.max() > 0.0
    assert np.mean(np.abs(gaps) < 3.0 * found.standard_error + 1e-9) > 0.9
