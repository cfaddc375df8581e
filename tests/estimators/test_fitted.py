"""Fitted attributes that the predictor holds, and the record beside it."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

from gpukfl import HKRRRegressor, KernelRidgeClassifier, KernelRidgeRegressor, RegFeaLRegressor
from gpukfl.estimators._fitted import record_hints
from gpukfl.predictor import HermiteSum, KernelSum

X = np.random.default_rng(0).standard_normal((60, 3))
Y = np.sin(2 * X[:, 0]) + X[:, 1]


@pytest.fixture
def model():
    return KernelRidgeRegressor(random_state=0).fit(X, Y)


def test_attributes_are_parts_of_the_predictor(model):
    values = model.predictor_.values
    assert model.centers_ is values.centers
    assert model.dual_coef_ is values.coef
    assert model.scaling_ is values.scaling
    assert not {"centers_", "dual_coef_", "kernel_", "scaling_", "bounds_"} & {*vars(model)}


def test_setting_one_makes_another_predictor(model):
    before, predicted = model.predictor_, model.predict(X)
    model.intercept_ = model.intercept_ + 1.0
    model.bounds_ = model.bounds_ + 1.0
    assert model.predictor_ is not before
    np.testing.assert_allclose(model.predict(X), predicted + 1.0)
    model.predictor_ = before
    np.testing.assert_array_equal(model.predict(X), predicted)


def test_before_a_fit_there_are_none(model):
    for one in (KernelRidgeRegressor(), clone(model)):
        assert not hasattr(one, "centers_")
        with pytest.raises(AttributeError, match="'KernelRidgeRegressor' object has no attribute"):
            one.dual_coef_  # noqa: B018


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda e: e.to_host()])
def test_copies_are_of_their_own(model, copied):
    other, predicted = copied(model), model.predict(X)
    other.dual_coef_ = 2.0 * other.dual_coef_
    np.testing.assert_array_equal(model.predict(X), predicted)
    assert not np.array_equal(other.predict(X), predicted)


def test_arrays_are_in_a_pickle_once(model):
    size = len(pickle.dumps(model))
    assert X.nbytes < size < X.nbytes + model.dual_coef_.nbytes + 6_000


def test_labels_and_calibration_are_held():
    model = KernelRidgeClassifier(random_state=0).fit(X, np.where(Y > 0, "a", "b"))
    assert model.classes_ is model.predictor_.labels
    model.classes_ = np.array(["x", "y"])
    assert {*model.predict(X)} == {"x", "y"}


def test_a_retrained_fit_keeps_its_features_beside():
    options = {"degrees": 0.3, "strength": 0.1, "random_state": 0}
    retrained = RegFeaLRegressor(60, **options).fit(X, Y)
    plain = RegFeaLRegressor(60, retrain=None, **options).fit(X, Y)
    assert isinstance(plain.predictor_.values, HermiteSum)
    assert plain.coef_ is plain.predictor_.values.coef
    assert plain.centers_ is plain.dual_coef_ is plain.kernel_ is None
    if isinstance(retrained.predictor_.values, KernelSum):
        assert retrained.centers_ is retrained.predictor_.values.centers
        assert retrained.multi_indices_.shape[1] == 3
    before = plain.predict(X)
    plain.intercept_ = plain.intercept_ + 0.5
    plain.bounds_ = plain.bounds_ + 0.5
    np.testing.assert_allclose(plain.predict(X), before + 0.5)


def test_the_record_is_what_the_predictor_does_not_hold():
    hints = record_hints(HKRRRegressor)
    assert {"history_", "components_", "factor_", "n_features_in_", "_n_samples"} <= {*hints}
    held = {"map_", "centers_", "dual_coef_", "kernel_", "intercept_", "scaling_", "predictor_"}
    assert not held & {*hints}
