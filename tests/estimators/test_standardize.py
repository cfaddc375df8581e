"""Every estimator scales by default, so that the units of the features do not matter."""

import inspect

import numpy as np
import pytest
from brief import bkernn, hkrr, regfeal
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import is_classifier
from sklearn.datasets import load_wine
from sklearn.model_selection import StratifiedKFold

from gpukfl import KernelRidgeRegressor, RKHSWeightingRegressor, estimators

ESTIMATORS = [getattr(estimators, name) for name in estimators.__all__]
# Cheap settings, with little or nothing to choose by hold-out
FEW = {
    "BKerNNClassifier": bkernn(n_particles=20, max_iter=20, tol=1e-2),
    "HKRRClassifier": hkrr(ridge=1e-3, n_components=2, n_starts=1, max_iter=20),
    "KernelFeatureSelectorClassifier": {"sparsity": 0.01, "ridge": 1e-2},
    "RKHSWeightingClassifier": {"n_parameters": 200},
    "RegFeaLClassifier": regfeal(
        **{"n_random_features": 300, "degree_decay": 0.2, "strength": 0.1}
    ),
}


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_the_default_is_the_same_everywhere(kind):
    assert inspect.signature(kind).parameters["scaling"].default == "auto"


@pytest.mark.few
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the best ridge:UserWarning")
@pytest.mark.parametrize(
    "kind", [e for e in ESTIMATORS if is_classifier(e())], ids=lambda kind: kind.__name__
)
def test_classes_of_raw_wine_are_found(kind):
    """Its features have units from 0.1 to 300."""
    X, y = load_wine(return_X_y=True)
    model = kind(random_state=0, **FEW.get(kind.__name__, {}))
    inside, outside = next(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    assert model.fit(X[inside], y[inside]).score(X[outside], y[outside]) >= 0.95


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    powers=st.lists(st.integers(-990, 990), min_size=3, max_size=3),
    make=st.sampled_from([KernelRidgeRegressor, RKHSWeightingRegressor]),
)
def test_units_that_are_powers_of_two_change_no_prediction(powers, make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    units = np.ldexp(1.0, powers)
    options = {"ridge": 1e-2, "scaling": "standard", "random_state": 0}
    expected = make(**options).fit(X, X[:, 0]).predict(X)
    found = make(**options).fit(units * X, X[:, 0]).predict(units * X)
    np.testing.assert_array_equal(found, expected)
