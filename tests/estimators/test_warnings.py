"""Warnings point at the line of the caller, whoever calls on its behalf."""

import warnings

import joblib
import numpy as np
import pytest
from bad_input_cases import (
    LABELS,
    N,
    X,
    Y,
    classifier,
    hkrr,
    hkrr_classifier,
    kernel_ridge,
    regfeal,
    regfeal_classifier,
    regressor,
    selector,
    weighting,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gpukfl
from gpukfl import BKerNNRegressor, KernelRidgeRegressor
from gpukfl._registry import METHODS
from gpukfl.core import _warnings

REGRESSORS = [regressor, hkrr, kernel_ridge, selector, weighting, regfeal]
CONSTANT = np.full(N, 2.5)
IMPATIENT = {"max_time": 1e-9}


def files_of(call):
    """Names of the files that the warnings of ``call()`` point at."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert caught, "expected a warning"
    return {warning.filename for warning in caught}


@pytest.mark.parametrize("method", METHODS)
def test_warnings_of_the_front_door_point_here(method):
    def call():
        gpukfl.fit(X, CONSTANT, method=method, progress=False)

    assert files_of(call) == {__file__}


@pytest.mark.parametrize("method", ["bkernn", "hkrr", "regfeal"])
@pytest.mark.parametrize("y", [Y, LABELS], ids=["regression", "classification"])
def test_warnings_of_too_little_time_point_here(method, y):
    def call():
        gpukfl.fit(X, y, method=method, progress=False, **IMPATIENT)

    assert files_of(call) == {__file__}


@pytest.mark.parametrize("make", REGRESSORS)
def test_warnings_of_an_estimator_point_here(make):
    assert files_of(lambda: make().fit(X, CONSTANT)) == {__file__}


def test_warnings_of_many_centres_point_here():
    assert files_of(lambda: hkrr(n_centers=N + 1).fit(X, Y)) == {__file__}
    assert files_of(lambda: KernelRidgeRegressor(n_centers=N + 1).fit(X, Y)) == {__file__}


MANY = {"n_iter": 200}  # iterations, each of which may be within the clock's resolution


@pytest.mark.parametrize(
    ("make", "options"), [(classifier, {}), (hkrr_classifier, {}), (regfeal_classifier, MANY)]
)
def test_warnings_of_a_classifier_point_here(make, options):
    assert files_of(lambda: make(**options, **IMPATIENT).fit(X, LABELS)) == {__file__}


@pytest.mark.parametrize("make", REGRESSORS)
def test_warnings_under_cross_validation_point_here(make):
    assert files_of(lambda: cross_val_score(make(), X, CONSTANT, cv=2)) == {__file__}


def test_warnings_under_scikit_learn_s_other_callers_point_here():
    model = make_pipeline(StandardScaler(), regressor())
    assert files_of(lambda: model.fit(X, CONSTANT)) == {__file__}
    search = GridSearchCV(regressor(), {"ridge": [0.1, 1.0]}, cv=2)
    assert files_of(lambda: search.fit(X, CONSTANT)) == {__file__}


def test_warnings_of_a_subclass_point_at_its_call():
    class Mine(BKerNNRegressor):
        def fit(self, X, y, sample_weight=None):
            return super().fit(X, y, sample_weight)

    with pytest.warns(UserWarning, match="y is constant") as caught:
        Mine(n_particles=4).fit(X, CONSTANT)
    assert {warning.filename for warning in caught} == {__file__}


def test_warnings_in_worker_threads_are_not_lost():
    with joblib.parallel_config("threading", n_jobs=2):
        files = files_of(lambda: cross_val_score(regressor(), X, CONSTANT, cv=2))
    package = _warnings.__file__.rpartition("/")[0]
    assert not any(file.startswith(package) for file in files)


def test_a_warning_without_any_caller_is_given(monkeypatch):
    monkeypatch.setattr(_warnings, "_package_name", lambda _: _warnings._PACKAGE)
    with pytest.warns(RuntimeWarning, match="alone") as caught:
        _warnings.warn("alone", RuntimeWarning)
    assert len(caught) == 1
