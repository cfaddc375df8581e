"""Fits differ by rounding where their data do, and rows count as their weights say."""

import numpy as np
import pytest

from gpukfl import (
    BKerNNRegressor,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelRidgeRegressor,
    RegFeaLRegressor,
    RKHSWeightingRegressor,
)

MODELS = {
    "hkrr": HKRRRegressor(random_state=0),
    "hkrr by gradients": HKRRRegressor(optimizer="agop", random_state=0),
    "hkrr by the evidence": HKRRRegressor(criterion="evidence", random_state=0),
    "regfeal": RegFeaLRegressor(300, random_state=0),
    "selection": KernelFeatureSelector(random_state=0),
    "kernel ridge": KernelRidgeRegressor(random_state=0),
    "bkernn": BKerNNRegressor(random_state=0),
    "weighting": RKHSWeightingRegressor(100, random_state=0),
}
# Standard deviations of the predictions. Features of weightings are all but linearly dependent, and
# ridges are chosen among very small ones: least squares by sums then multiply rounding by 1e12
ALIKE = {"weighting": 1e-2}
DRAWN_BY_COLUMN = ("regfeal", "bkernn", "weighting")
COLUMNS = np.array([3, 0, 4, 1, 2])


def drawn(n):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 5))
    y = np.sin(X[:, 0] + X[:, 1]) + 0.5 * X[:, 2] ** 2 + 0.3 * rng.standard_normal(n)
    return X, y, rng.standard_normal((200, 5))


def fitted(name, X, y, new, weights=None):
    given = {} if weights is None else {"sample_weight": weights}
    return np.asarray(MODELS[name].fit(X, y, **given).predict(new))


def assert_alike(found, expected, bound):
    assert np.abs(found - expected).max() <= bound * expected.std()


@pytest.mark.parametrize("n", [100, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", MODELS)
def test_rounding_of_the_data_stays_rounding(name, n):
    X, y, new = drawn(n)
    times = 1.0 + 1e-13
    found = fitted(name, times * X, y, times * new)
    assert_alike(found, fitted(name, X, y, new), ALIKE.get(name, 1e-6))


@pytest.mark.parametrize("name", MODELS)
def test_torch_fits_what_numpy_fits(name, torch):
    X, y, new = drawn(200)
    found = fitted(name, *map(torch.asarray, (X, y, new)))
    assert_alike(found, fitted(name, X, y, new), ALIKE.get(name, 1e-6))


@pytest.mark.parametrize("name", [name for name in MODELS if name not in DRAWN_BY_COLUMN])
def test_columns_may_stand_in_any_order(name):
    X, y, new = drawn(200)
    found = fitted(name, X[:, COLUMNS], y, new[:, COLUMNS])
    assert_alike(found, fitted(name, X, y, new), 1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_row_that_comes_twice_has_the_weight_2(name):
    X, y, new = drawn(120)
    times = np.random.default_rng(0).integers(1, 3, len(X))
    expected = fitted(name, X, y, new, times.astype(float))
    found = fitted(name, np.repeat(X, times, axis=0), np.repeat(y, times), new)
    assert_alike(found, expected, ALIKE.get(name, 1e-6))
    assert_alike(fitted(name, X, y, new, 3.0 * times), expected, ALIKE.get(name, 1e-6))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "bkernn"])
def test_single_precision_is_near_double(name):
    X, y, new = drawn(200)
    found = fitted(name, *(x.astype(np.float32) for x in (X, y, new)))
    assert_alike(found, fitted(name, X, y, new), 1e-2)


@pytest.mark.parametrize("name", ["bkernn", "weighting"])
@pytest.mark.parametrize("n", [120, 300])
def test_few_rows_of_single_precision_are_fitted_in_double(name, n):
    """Steps of BKerNN part by rounding, and ridges are chosen among nearly dependent features."""
    given = [x.astype(np.float32) for x in drawn(n)]
    found = fitted(name, *given)
    assert_alike(found, fitted(name, *(x.astype(np.float64) for x in given)), 1e-5)
