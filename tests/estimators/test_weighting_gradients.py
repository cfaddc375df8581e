"""Gradients of RKHS weightings count along what the data vary in, and nothing else."""

import numpy as np
import pytest

from gpukfl import RegFeaLRegressor, RKHSWeightingRegressor
from gpukfl.estimators.weighting import _data as _gradients
from gpukfl.instantiations import GaussianSign, Stumps

SIGNS = GaussianSign(constant=0.5)
SETTINGS = {"n_parameters": 60, "ridge": 1e-3, "random_state": 0}


def fitted(X, y, weights=None, **options):
    options = {"instantiation": SIGNS, **SETTINGS, **options}
    return RKHSWeightingRegressor(**options).fit(X, y, weights)


@pytest.fixture
def data(rng):
    X = rng.standard_normal((150, 3))
    return X, X[:, 0] ** 3 - X[:, 1]


@pytest.mark.parametrize("scaling", ["standard", "robust", "quantile", None])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_constant_column_has_no_importance(data, scaling, dtype):
    X, y = data
    X = np.insert(X, 1, 0.1, axis=1).astype(dtype)
    model = fitted(X, y.astype(dtype), scaling=scaling)
    importances = model.feature_importances_
    assert importances[1] == 0.0
    assert importances.sum() == pytest.approx(1.0)
    assert np.all(model.feature_matrix_[1] == 0.0)
    np.testing.assert_allclose(model.components_[:, 1], 0.0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scaling", ["standard", None])
def test_gradients_are_projected_on_the_span_of_the_data(data, rng, monkeypatch, dtype, scaling):
    X, y = data
    groups = np.eye(3)[rng.integers(0, 3, len(X))]
    X = np.column_stack([X, groups, X[:, 0], X[:, 1] - 2.0 * X[:, 2]])
    X = (X * [1e3, 1.0, 1.0, 1.0, 1.0, 1.0, 1e-3, 1.0]).astype(dtype)
    model = fitted(X, y, scaling=scaling)
    inside = X.astype(float)
    if scaling:
        inside = inside / model.scaling_.scale
    inside = inside - inside.mean(axis=0)
    unit = inside.std(axis=0)  # in which ranks are told from rounding
    _, sizes, rows = np.linalg.svd(inside / unit, full_matrices=False)
    assert np.sum(sizes > 1e-4) == 5
    Q, _ = np.linalg.qr((rows[:5] * unit).T)
    monkeypatch.setattr(_gradients, "_project_on_data", lambda _problem, G, _first: G)
    whole = fitted(X, y, scaling=scaling).feature_matrix_
    expected = Q @ Q.T @ whole @ Q @ Q.T
    scale = np.abs(expected).max()
    np.testing.assert_allclose(model.feature_matrix_, expected, atol=1e-3 * scale)
    assert np.abs(whole - expected).max() > 0.01 * scale


def test_where_the_data_span_everything_gradients_stay_as_they_are(data, monkeypatch):
    projected = fitted(*data).feature_matrix_
    monkeypatch.setattr(_gradients, "_project_on_data", lambda _problem, G, _first: G)
    np.testing.assert_array_equal(projected, fitted(*data).feature_matrix_)


def test_rows_without_weight_do_not_vary(data):
    X, y = data
    column, weights = np.zeros(len(X)), np.ones(len(X))
    column[:10], weights[:10] = np.arange(10), 0.0
    assert fitted(np.column_stack([X, column]), y, weights).feature_importances_[3] == 0.0


def test_of_many_columns_those_that_do_not_vary_are_left_out(data, monkeypatch):
    X, y = data
    X = np.column_stack([X, X[:, 0], np.ones(len(X))])
    monkeypatch.setattr(_gradients, "_SPAN_COLUMNS", 4)
    importances = fitted(X, y).feature_importances_
    assert importances[4] == 0.0
    assert importances[0] != pytest.approx(importances[3], rel=1e-3)


@pytest.mark.each
@pytest.mark.parametrize("instantiation", [SIGNS, Stumps()], ids=["signs", "stumps"])
@pytest.mark.parametrize("method", ["rkhs_weighting", "regfeal"])
def test_where_no_column_varies_nothing_is_important(rng, method, instantiation):
    X, y = np.ones((60, 2)), rng.standard_normal(60)
    if method == "regfeal":
        model = RegFeaLRegressor(100, random_state=0).fit(X, y)
    else:
        model = fitted(X, y, instantiation=instantiation)
    np.testing.assert_array_equal(model.feature_importances_, [0.0, 0.0])
    assert model.components_.shape == (0, 2)
    assert model.describe()  # of no direction at all
