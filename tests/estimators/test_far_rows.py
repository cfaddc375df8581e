"""Rows so far from the data that a result overflows are reported, or have a finite prediction."""

import itertools
import re

import numpy as np
import pytest
from brief import bkernn, hkrr, regfeal
from sklearn.base import clone, is_classifier

from gpukfl import (
    BKerNNClassifier,
    BKerNNRegressor,
    BrownianKernelRidge,
    HKRRClassifier,
    HKRRRegressor,
    KernelFeatureSelector,
    KernelFeatureSelectorClassifier,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    RegFeaLClassifier,
    RegFeaLRegressor,
    RKHSWeightingClassifier,
    RKHSWeightingRegressor,
)
from gpukfl.estimators.selection import Permutations
from gpukfl.kernels import Gaussian

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:the best ridge:UserWarning"),
    pytest.mark.filterwarnings("ignore:at a ridge of:UserWarning"),
]

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (60, 3))
Y = np.stack([np.sin(3 * X[:, 0]), X[:, 1]], axis=1)
LABELS = np.searchsorted([-0.4, 0.4], X[:, 0])
BKERNN = bkernn(n_particles=6, max_iter=3, ridge=0.01)
HKRR = hkrr(n_components=2, n_starts=1, max_iter=3, ridge=1e-3)
SELECTION = {"sparsity": Permutations(3), "ridge": 1e-2}
REGFEAL = regfeal(**{"n_random_features": 40, "n_iter": 2, "degree_decay": 0.3, "strength": 0.1})
AS_THEY_ARE = {"retrain": None, "clip": None, "scaling": None}  # polynomials of any row
MODELS = {
    "BKerNN": BKerNNRegressor(**BKERNN, random_state=0),
    "BKerNN classes": BKerNNClassifier(**BKERNN, random_state=0),
    "HKRR": HKRRRegressor(**HKRR, random_state=0),
    "HKRR linear": HKRRRegressor(**HKRR, kernel="linear", random_state=0),
    "HKRR classes": HKRRClassifier(**HKRR, random_state=0),
    "selection": KernelFeatureSelector(**SELECTION, random_state=0),
    "selection classes": KernelFeatureSelectorClassifier(**SELECTION, random_state=0),
    "stumps": RKHSWeightingRegressor(30, instantiation="stumps", random_state=0),
    "signs": RKHSWeightingClassifier(30, instantiation="gaussian_sign", random_state=0),
    "RegFeaL": RegFeaLRegressor(**REGFEAL, random_state=0),
    "Hermite": RegFeaLRegressor(**REGFEAL, **AS_THEY_ARE, random_state=0),
    "Hermite classes": RegFeaLClassifier(**REGFEAL, **AS_THEY_ARE, random_state=0),
    "kernel ridge": KernelRidgeRegressor("polynomial", scaling=None),
    "kernel ridge classes": KernelRidgeClassifier(),
    "Brownian": BrownianKernelRidge(),
}
FAR = {"float32": 1e30, "float64": 1e300}
HERMITE = {"Hermite", "Hermite classes"}
# Polynomials; the kernel ridge predicts in float64, which holds (1e30)^3
OVERFLOWS = {"float32": HERMITE, "float64": {*HERMITE, "kernel ridge"}}
WORDS = r"overflows (torch\.)?{} and is not finite at 1 of 2 rows: expected rows closer"


every_model = pytest.mark.parametrize("name", MODELS)
precisions = pytest.mark.parametrize("dtype", FAR)


@pytest.mark.few
@precisions
@every_model
def test_far_rows_are_refused_or_have_finite_results(name, dtype):
    assert_is_refused_or_finite(name, dtype, lambda a, dtype: np.asarray(a, dtype=dtype))


@pytest.mark.parametrize(("name", "dtype"), list(zip(MODELS, itertools.cycle(FAR))))
def test_far_rows_on_torch_are_refused_or_have_finite_results(torch, name, dtype):
    def put(a, dtype):
        return torch.asarray(np.asarray(a, dtype=dtype))

    assert_is_refused_or_finite(name, dtype, put)


def assert_is_refused_or_finite(name, dtype, put):
    model = clone(MODELS[name])
    y = LABELS if is_classifier(model) else Y
    model.fit(put(X, dtype), put(y, "int64" if is_classifier(model) else dtype))
    rows = put([[FAR[dtype], -FAR[dtype], 0.5 * FAR[dtype]], [0.1, 0.2, 0.3]], dtype)
    methods = ["predict", "predict_proba", "decision_function", "transform"]
    for method in [method for method in methods if hasattr(model, method)]:
        try:
            result = getattr(model, method)(rows)
        except ValueError as error:
            assert re.search(WORDS.format(dtype), str(error))  # noqa: PT017
        else:
            assert np.isfinite(np.asarray(result)).all(), method
            assert name not in OVERFLOWS[dtype] or method == "transform"


@pytest.mark.parametrize("kind", [KernelFeatureSelector, KernelRidgeRegressor])
def test_predictions_end_at_twice_the_largest_deviation(kind):
    """With a small ridge functions may be wild between the data and infinity, where they are 0."""
    two = np.column_stack([Y, 100.0 - 7.0 * Y])
    model = kind(ridge=1e-3, random_state=0).fit(X, two)
    reach = 2.0 * np.abs(two - two.mean(axis=0)).max(axis=0)
    ends = [two.mean(axis=0) - reach, two.mean(axis=0) + reach]
    np.testing.assert_allclose(model.bounds_, ends, rtol=1e-9)
    moderate = model.predict(X)
    model.dual_coef_ = 1e3 * model.dual_coef_
    wild = model.intercept_ + 1e3 * (moderate - model.intercept_)
    np.testing.assert_allclose(model.predict(X), np.clip(wild, *ends), rtol=1e-6)
    assert np.any(np.abs(wild - two.mean(axis=0)) > reach)


@pytest.mark.parametrize("options", [{"solver": "cg"}, {"solver": "falkon", "n_centers": 40}])
def test_rows_too_far_for_the_others_to_be_told_apart_are_named(rng, options):
    X = rng.standard_normal((40, 3))
    X[0] = 1e12
    message = r"kernel matrix of 40 .* not positive definite.* far from all others.* drop such"
    model = KernelRidgeRegressor(Gaussian(), ridge=1e-3, scaling=None, **options)
    with pytest.raises(np.linalg.LinAlgError, match=message) as caught:
        model.fit(X, rng.standard_normal(40))
    assert isinstance(caught.value.__cause__, np.linalg.LinAlgError)
