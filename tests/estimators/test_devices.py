"""Estimators work on the device of the data, whichever device is the current one."""

import contextlib

import numpy as np
import pytest

import gpukfl
from gpukfl.core import _array

CALLS = {
    "fit": ("BKerNNRegressor", "HKRRClassifier", "KernelRidgeRegressor"),
    "predict": ("BKerNNRegressor", "HKRRClassifier", "KernelRidgeClassifier"),
    "decision_function": ("KernelRidgeClassifier", "RKHSWeightingClassifier"),
    "predict_proba": ("KernelRidgeClassifier",),
    "predict_log_proba": ("KernelRidgeClassifier",),
    "transform": ("BKerNNRegressor", "KernelFeatureSelectorClassifier"),
    "bound": ("RKHSWeightingRegressor", "RKHSWeightingClassifier"),
}


class Elsewhere(np.ndarray):
    """Data on a device that is not the current one."""

    def __array_finalize__(self, source):
        self.entered = getattr(source, "entered", None)

    @property
    def device(self):
        return self.device_context()

    @contextlib.contextmanager
    def device_context(self):
        self.entered.append("in")
        yield
        self.entered.append("out")


@pytest.fixture
def elsewhere(monkeypatch):
    """Put data on another device, and tell when it was entered and left."""

    def put(X):
        there = X.view(Elsewhere)
        there.entered = []
        return there

    monkeypatch.setattr(_array, "is_cupy", lambda x: isinstance(x, Elsewhere))
    return put


@pytest.mark.few
@pytest.mark.parametrize(
    ("method", "name"), [(method, name) for method, names in CALLS.items() for name in names]
)
def test_the_device_of_the_data_is_entered_and_left(elsewhere, monkeypatch, method, name):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 3))
    y = X[:, 0] + 0.1 * rng.standard_normal(30)
    y = y if name.endswith("Regressor") else (y > 0).astype(np.int64)
    model = getattr(gpukfl, name)(random_state=0)
    if "ridge" in model.get_params():  # nothing to tune
        model.set_params(ridge=0.01)
    there = elsewhere(X)
    inside = []
    if method == "fit":

        def learn(self, *_):
            inside.append(list(there.entered))
            return self

        monkeypatch.setattr(type(model), "_learn", learn)
        model.fit(there, y)
        assert inside == [["in"]]
    else:
        with np.errstate(all="ignore"):
            model.fit(X, y)
        getattr(model, method)(there, *([y] if method == "bound" else []))
    depth = np.cumsum([{"in": 1, "out": -1}[step] for step in there.entered])
    assert depth[0] == 1
    assert depth[-1] == 0
    assert min(depth[:-1]) > 0  # left at the end and not before
