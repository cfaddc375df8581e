"""Every check of scikit-learn's own suite but those for a device that is not there."""

import warnings

import pytest
from brief import bkernn, hkrr, regfeal
from sklearn.utils.estimator_checks import estimator_checks_generator

from gpukfl import (
    AutoClassifier,
    AutoRegressor,
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
from gpukfl.core._places import cupy_is_usable, torch_cuda_is_usable
from gpukfl.instantiations import Stumps

# Fixed, so that every library finds as many components: with "auto", rounding may decide
HKRR = {"ridge": 1e-3, "n_starts": 1, "max_iter": 5, "random_state": 0}
# With thresholds by permutations the checks' noise selects nothing, and then `transform` raises by
# design
SELECTION = {"sparsity": 0.0, "random_state": 0}
# Fixed, so that no folds are drawn among the rows
REGFEAL = regfeal(
    **{"degree_decay": 0.1, "strength": 0.1, "n_iter": 2, "retrain": None, "random_state": 0}
)
ESTIMATORS = [
    BKerNNRegressor(**bkernn(n_particles=20, max_iter=5, random_state=0)),
    BKerNNClassifier(**bkernn(n_particles=20, max_iter=5, random_state=0)),
    BrownianKernelRidge(random_state=0),
    KernelRidgeRegressor(random_state=0),
    KernelRidgeClassifier(random_state=0),
    HKRRRegressor(1, **hkrr(**HKRR)),
    HKRRClassifier(2, **hkrr(**{**HKRR, "max_iter": 30})),
    KernelFeatureSelector(ridge=1e-2, **SELECTION),
    KernelFeatureSelectorClassifier(ridge=1e-2, **SELECTION),
    RKHSWeightingRegressor(30, instantiation="gaussian_sign", random_state=0),
    RKHSWeightingClassifier(30, instantiation=Stumps(), random_state=0),
    RegFeaLRegressor(30, **REGFEAL),
    RegFeaLClassifier(30, **REGFEAL),
    AutoRegressor(members=["laplace"], n_folds=2),
    AutoClassifier(members=["linear"], n_folds=2),
    RegFeaLRegressor(30, **{**REGFEAL, "retrain": "kernel_ridge"}),
]
SLOW = (  # whose regressors are checked quickly, and the variant of one
    *("BKerNNClassifier", "HKRRClassifier", "KernelFeatureSelectorClassifier"),
    *("RegFeaLClassifier", "RKHSWeightingClassifier"),
)
QUICK = ("BKerNNRegressor", "BrownianKernelRidge", "KernelRidgeRegressor", "KernelRidgeClassifier")
DEAR = (  # checks with many fits, which are slow of others than the quick
    *("check_array_api_input", "check_array_api_same_namespace", "check_regressors_train"),
    *("check_transformer_general", "check_transformer_data_not_an_array"),
    *("check_estimators_dtypes", "check_transformer_preserve_dtypes", "check_dtype_object"),
    *("check_regressor_data_not_an_array", "check_pipeline_consistency"),
)
EQUIVALENCE = "check_sample_weight_equivalence_on_dense_data"
HELD_OUT = (
    "held-out samples, which choose a ridge at the edge of the grid or calibrate probabilities, "
    "are drawn among the rows, in their order; test_copies.py tests the equivalence in one order"
)
EXPECTED_FAILURES = {
    name: {EQUIVALENCE: HELD_OUT}
    for name in (
        *("AutoRegressor", "AutoClassifier"),
        "HKRRClassifier",
        "KernelFeatureSelector",
        "KernelRidgeClassifier",
        "RKHSWeightingClassifier",
    )
}
PAIRS = ("X_ns_and_device", "other_ns_and_device")


def places_of(check):
    """Libraries and devices that a check runs on."""
    keywords = getattr(check, "keywords", {}) or {}
    places = [(keywords.get("array_namespace"), keywords.get("device_name"))]
    return places + [tuple(keywords[name])[:2] for name in PAIRS if name in keywords]


def is_there(library, device):
    """Whether this machine has the device; CPUs count as there for every library."""
    if library == "cupy":
        return cupy_is_usable()
    if library == "torch" and device == "cuda":
        with warnings.catch_warnings():  # of torch, where the driver is a stand-in
            warnings.simplefilter("ignore")
            return torch_cuda_is_usable()
    return device not in ("mps", "xpu")


def cases():
    """Give every check to every estimator; of those that are not quick, each third is."""
    for e, estimator in enumerate(ESTIMATORS):
        for c, (model, check) in enumerate(estimator_checks_generator(estimator)):
            if not all(is_there(*place) for place in places_of(check)):
                continue
            marks = [pytest.mark.torch for library, _ in places_of(check) if library == "torch"]
            kind, name = type(estimator).__name__, getattr(check, "func", check).__name__
            left_out = kind not in QUICK and (name in DEAR or (e + c) % 3 > 0)
            if kind in SLOW or estimator is ESTIMATORS[-1] or left_out:
                marks.append(pytest.mark.slow)
            if kind.startswith("Auto"):
                marks.append(pytest.mark.filterwarnings("ignore"))
            if kind in SLOW and name.startswith("check_array_api"):
                marks.append(pytest.mark.weekly)
            expected = EXPECTED_FAILURES.get(kind, {})
            if getattr(estimator, "retrain", None) == "kernel_ridge":
                expected = {EQUIVALENCE: HELD_OUT}
            known = expected.get(name)
            marks += [pytest.mark.xfail(reason=known, raises=AssertionError)] if known else []
            yield pytest.param(model, check, marks=marks, id=f"{kind}-{name}")


# A check may fit a constant y or one without noise, and few steps rarely converge: all warn by
# design
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:y is constant:UserWarning")
@pytest.mark.filterwarnings("ignore:the best ridge:UserWarning")
@pytest.mark.parametrize(("estimator", "check"), list(cases()))
def test_scikit_learn(estimator, check):
    check(estimator)
