"""Docstrings say what a fit leaves."""

import re

import numpy as np
import pytest
from brief import bkernn, hkrr, regfeal

import gpukfl

KINDS = [
    (gpukfl.KernelRidgeRegressor, {}),
    (gpukfl.KernelRidgeClassifier, {}),
    (gpukfl.BrownianKernelRidge, {}),
    (gpukfl.BKerNNRegressor, bkernn(n_particles=8, max_iter=5)),
    (gpukfl.BKerNNClassifier, bkernn(n_particles=8, max_iter=5)),
    (gpukfl.HKRRRegressor, hkrr(n_components=1, n_centers=20, max_iter=2)),
    (gpukfl.HKRRClassifier, hkrr(n_components=1, n_centers=20, max_iter=2)),
    (gpukfl.RegFeaLRegressor, regfeal(n_random_features=50, degree_decay=0.3, strength=0.1)),
    (gpukfl.RegFeaLClassifier, regfeal(n_random_features=50, degree_decay=0.3, strength=0.1)),
    (gpukfl.RKHSWeightingRegressor, {"n_parameters": 20}),
    (gpukfl.RKHSWeightingClassifier, {"n_parameters": 20}),
    (gpukfl.KernelFeatureSelector, {}),
    (gpukfl.KernelFeatureSelectorClassifier, {}),
]
OF_SKLEARN = {"n_features_in_", "feature_names_in_"}
SOMETIMES = {"n_reweightings_"}  # which a fit by the squared loss does not leave


def public(names):
    return {name for name in names if name.endswith("_") and not name.startswith("_")}


@pytest.mark.few
@pytest.mark.filterwarnings("ignore")  # of fits that end early
@pytest.mark.parametrize(
    ("kind", "options"), KINDS, ids=lambda value: getattr(value, "__name__", "")
)
def test_what_a_fit_leaves_is_documented(kind, options, rng):
    X = rng.uniform(-1.0, 1.0, (60, 3))
    y = X[:, 0] if kind.__name__.endswith(("Regressor", "Ridge", "Selector")) else X[:, 0] > 0
    left = public(vars(kind(**options).fit(X, y)))
    left |= public(name for name in dir(kind) if isinstance(getattr(kind, name), property))
    attributes = kind.__doc__.split("Attributes\n")[1]
    documented = {
        name
        for line in re.findall(r"^    (\w+_(?:, \w+_)*) :", attributes, re.MULTILINE)
        for name in line.split(", ")
    }
    assert sorted(left - documented - OF_SKLEARN) == []
    assert np.all([hasattr(kind, name) or name in left for name in documented - SOMETIMES])
