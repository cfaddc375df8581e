"""Bad input is named, with what was expected and what came, and leaves a fitted model as it was."""

import importlib.util
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

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
from gpukfl._places import cupy_is_usable
from gpukfl.instantiations import GaussianSign, Instantiation, RandomKitchenSinks, Stumps
from gpukfl.kernels import KERNELS, Brownian, Gaussian, Laplace, Linear
from gpukfl.penalties import PENALTIES

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
beside_the_error = pytest.mark.filterwarnings("ignore:(overflow|invalid value):RuntimeWarning")

N, D = 30, 3
X = np.random.default_rng(0).uniform(-1, 1, (N, D))
Y = np.abs(X[:, 0]) + 0.1
LABELS = np.where(X[:, 0] > 0, "yes", "no")


def regressor(**options):
    return BKerNNRegressor(**{"n_particles": 8, "max_iter": 3, "random_state": 0, **options})


def classifier(**options):
    return BKerNNClassifier(**{"n_particles": 8, "max_iter": 3, "random_state": 0, **options})


def kernel_ridge(**options):
    return KernelRidgeRegressor(**{"ridge": 1e-3, **options})


def hkrr(**options):
    few = {"n_components": 1, "ridge": 1e-3, "n_starts": 0, "max_iter": 2, "refit_centers": None}
    return HKRRRegressor(**{**few, "random_state": 0, **options})


def kernel_classifier(**options):
    return KernelRidgeClassifier(**{"ridge": 1e-3, **options})


def hkrr_classifier(**options):
    return HKRRClassifier(**{**hkrr().get_params(), **options})


def selector(**options):
    few = {"sparsity": 0.01, "standardize": False, "random_state": 0}
    return KernelFeatureSelector(**{**few, **options})


def selector_classifier(**options):
    return KernelFeatureSelectorClassifier(**{**selector().get_params(), **options})


def weighting(**options):
    few = {"n_parameters": 10, "instantiation": Stumps(), "ridge": 1e-2, "standardize": False}
    return RKHSWeightingRegressor(**{**few, "random_state": 0, **options})


def weighting_classifier(**options):
    return RKHSWeightingClassifier(**{**weighting().get_params(), **options})


def regfeal(**options):
    few = {"n_random_features": 10, "degree_decay": 0.3, "strength": 0.1, "n_iter": 2}
    return RegFeaLRegressor(
        **{**few, "retrain": None, "standardize": False, "random_state": 0, **options}
    )


def regfeal_classifier(**options):
    return RegFeaLClassifier(**{**regfeal().get_params(), **options})


MAKERS = [regressor, BrownianKernelRidge, kernel_ridge, hkrr, selector, weighting, regfeal]
CLASSIFIERS = [
    classifier,
    kernel_classifier,
    hkrr_classifier,
    selector_classifier,
    weighting_classifier,
    regfeal_classifier,
]


def changed(a, value, at=(0,)):
    a = np.array(a)
    a[at] = value
    return a


# ---------------------------------------------------------------------- the data

BAD_X = [
    (changed(X, np.nan, (3, 1)), ValueError, "X contains NaN"),
    (changed(X, np.inf, (3, 1)), ValueError, "X contains inf"),
    (X[:, 0], ValueError, "Expected 2D array, got 1D array"),
    (np.ones((N, D, 1)), ValueError, "dim 3"),
    (X[:0], ValueError, "0 sample"),
    (X[:1], ValueError, "1 sample.*minimum of 2"),
    (X[:, :0], ValueError, r"0 feature\(s\).*minimum of 1"),
    (X + 1j, ValueError, "Complex data not supported"),
    (np.full((N, D), "red"), ValueError, "could not convert string to float.*red"),
    (
        changed(X.astype(object), "red", (0, 0)),
        ValueError,
        "could not convert string to float.*red",
    ),
    (changed(X.astype(object), None, (0, 0)), ValueError, "X contains NaN"),
    (sparse.csr_array(X), TypeError, "expected a dense array or frame, got csr_array"),
    (None, ValueError, "got scalar array"),
]


@pytest.mark.parametrize("make", [*MAKERS, *CLASSIFIERS])
@pytest.mark.parametrize(("bad", "error", "match"), BAD_X)
def test_bad_samples_are_named(make, bad, error, match):
    n = bad.shape[0] if hasattr(bad, "shape") else N
    y = (LABELS if make in CLASSIFIERS else Y)[:n]
    with pytest.raises(error, match=re.compile(match, re.DOTALL)):
        make().fit(bad, y)


BAD_DEVICE_X = [
    (changed(X, np.nan, (3, 1)), "X contains NaN or infinity: expected finite"),
    (changed(X, -np.inf, (3, 1)), "X contains NaN or infinity: expected finite"),
    (X[:, 0], r"Expected 2D array, got 1D array of shape \(30,\)"),
    (X[:0], "0 sample.*minimum of 2"),
    (X[:1], "1 sample.*minimum of 2"),
    (X[:, :0], r"0 feature\(s\).*minimum of 1"),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("bad", "match"), BAD_DEVICE_X)
def test_bad_samples_are_named_everywhere(on_double, make, bad, match):
    if on_double.package == "numpy":
        pytest.skip("scikit-learn's own messages, tested above")
    with pytest.raises(ValueError, match=match):
        make().fit(on_double.put(bad), on_double.put(Y[: bad.shape[0]]))


BAD_Y = [
    (changed(Y, np.nan), "y contains NaN"),
    (changed(Y, np.inf), "y contains inf"),
    (Y[:-1], r"inconsistent numbers of samples: \[30, 29\]"),
    (np.ones((N, 1, 1)), "dim 3|shape"),
    (Y + 1j, "Complex data not supported"),
    (LABELS, "could not convert string to float"),
    (None, "expected .* got None"),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("bad", "match"), BAD_Y)
def test_bad_targets_are_named(make, bad, match):
    with pytest.raises(ValueError, match=match):
        make().fit(X, bad)


@pytest.mark.parametrize("make", [regressor, kernel_ridge, hkrr, selector, weighting, regfeal])
@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (changed(Y, np.nan), "y contains NaN or infinity: expected finite"),
        (Y[:-1], r"inconsistent numbers of samples: \[30, 29\]"),
        (np.ones((N, 1, 1)), r"expected y of shape \(n,\) or \(n, t\), got \(30, 1, 1\)"),
    ],
)
def test_bad_targets_are_named_everywhere(on_double, make, bad, match):
    if on_double.package == "numpy":
        pytest.skip("scikit-learn's own messages, tested above")
    with pytest.raises(ValueError, match=match):
        make().fit(on_double.put(X), on_double.put(bad))


@pytest.mark.parametrize("make", CLASSIFIERS)
@pytest.mark.parametrize(
    ("bad", "match"),
    [
        (Y, "Unknown label type: continuous"),
        (LABELS[:-1], r"inconsistent numbers of samples: \[30, 29\]"),
        (np.stack([LABELS, LABELS], axis=1), "1d array"),
        (changed(Y, np.nan), "NaN"),
        (None, "expected labels, got None"),
    ],
)
def test_bad_labels_are_named(make, bad, match):
    with pytest.raises(ValueError, match=match):
        make().fit(X, bad)


@pytest.mark.parametrize("make", CLASSIFIERS)
@pytest.mark.parametrize("missing", [None, np.nan])
def test_missing_labels_are_named(make, missing):
    labels = LABELS.astype(object)
    labels[3] = missing
    with pytest.raises(ValueError, match=r"NaN|None|missing"):
        make().fit(X, labels)


BAD_WEIGHTS = [
    (changed(np.ones(N), -1.0), "expected sample weights of at least 0, got -1.0"),
    (np.zeros(N), "expected at least two positive sample weights"),
    (changed(np.zeros(N), 1.0), "expected at least two positive sample weights"),
    (changed(np.ones(N), np.nan), "sample_weight contains NaN"),
    (changed(np.ones(N), np.inf), "sample_weight contains inf"),
    (np.ones(N - 1), r"inconsistent numbers of samples: \[29, 30\]"),
    (np.ones((N, 1)), r"expected \(30,\), got \(30, 1\)"),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("bad", "match"), BAD_WEIGHTS)
def test_bad_weights_are_named(make, bad, match):
    with pytest.raises(ValueError, match=match):
        make().fit(X, Y, sample_weight=bad)


@beside_the_error
@pytest.mark.parametrize("make", MAKERS)
def test_samples_that_overflow_float32_are_reported(make):
    with pytest.raises(ValueError, match=r"X overflows .*float32: expected .*; standardise"):
        make().fit(np.asarray(1e30 * X, dtype=np.float32), Y)


@beside_the_error
@pytest.mark.parametrize("make", MAKERS)
def test_samples_that_overflow_when_cast_are_reported(make):
    with pytest.raises(ValueError, match=r"X overflows .*float32"):
        make(dtype="float32").fit(1e39 * X, Y)


@pytest.mark.parametrize(
    "kind",
    [
        BKerNNRegressor,
        HKRRRegressor,
        KernelFeatureSelector,
        RKHSWeightingRegressor,
        RegFeaLRegressor,
    ],
)
def test_samples_that_overflow_when_standardised_are_reported(kind):
    with pytest.raises(ValueError, match="X overflows float64 when it is standardised"):
        kind(standardize=True).fit(1e200 * X, Y)


@beside_the_error
@pytest.mark.parametrize("make", MAKERS)
def test_samples_that_overflow_float64_are_reported(make):
    with pytest.raises((ValueError, FloatingPointError), match="overflow"):
        make().fit(1e200 * X, Y)


@beside_the_error
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(("scale", "dtype"), [(1e39, "float32"), (1e200, "float64")])
def test_targets_that_overflow_are_predicted_or_reported(make, scale, dtype):
    try:
        model = make(dtype=dtype).fit(X, scale * Y)
    except (ValueError, FloatingPointError) as error:
        assert "overflow" in str(error)  # noqa: PT017
    else:
        assert np.all(np.isfinite(model.predict(X)))


# ---------------------------------------------------------------------- the parameters

BAD_NUMBERS = [
    ("ridge", -1.0, ValueError, "expected ridge to be a number greater than 0.*got -1.0"),
    ("ridge", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("ridge", float("nan"), ValueError, "greater than 0, or 'auto', got nan"),
    ("ridge", float("inf"), ValueError, "got inf"),
    ("ridge", "1", TypeError, "got '1'"),
    ("ridge", True, TypeError, "got True"),
    ("ridge", None, TypeError, "got None"),
    ("n_particles", 0, ValueError, "an integer of at least 1, or 'auto', got 0"),
    ("n_particles", 2.5, TypeError, "an integer of at least 1, or 'auto', got 2.5"),
    ("n_particles", True, TypeError, "got True"),
    ("n_particles", "many", TypeError, "or 'auto', got 'many'"),
    ("concavity", 0, ValueError, "expected concavity .*greater than 0, got 0"),
    ("penalty_strength", -0.1, ValueError, "of at least 0, got -0.1"),
    ("max_iter", -1, ValueError, "an integer of at least 0, got -1"),
    ("max_iter", 1.5, TypeError, "an integer .*got 1.5"),
    ("tol", float("nan"), ValueError, "of at least 0, got nan"),
    ("tol", "small", TypeError, "expected tol to be a number .*got 'small'"),
    ("step_size", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("validation_fraction", 0.95, ValueError, "at most 0.9, got 0.95"),
    ("max_time", 0, ValueError, "greater than 0, or None, got 0"),
    ("max_time", "1 s", TypeError, "or None, got '1 s'"),
    ("knots", 1, ValueError, "at least 2 and at most .*, got 1"),
    ("knots", "few", TypeError, "or 'auto' or None, got 'few'"),
    ("knots", False, TypeError, "got False"),
    ("knot_tolerance", -1e-3, ValueError, "at least 0, or 'auto', got -0.001"),
]


@pytest.mark.parametrize(("name", "value", "error", "match"), BAD_NUMBERS)
def test_bad_numbers_are_named(name, value, error, match):
    with pytest.raises(error, match=match) as caught:
        regressor(**{name: value}).fit(X, Y)
    assert f"expected {name} to be" in str(caught.value)


HKRR_NUMBERS = [
    ("n_components", 0, ValueError, "an integer of at least 1, or 'auto', got 0"),
    ("n_components", 1.0, TypeError, "an integer .* got 1.0"),
    ("n_components", "all", TypeError, "or 'auto', got 'all'"),
    ("ridge", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("ridge", "tune", TypeError, "or 'auto', got 'tune'"),
    ("lengthscale", 0, ValueError, "greater than 0, or 'auto', got 0"),
    ("lengthscale", None, TypeError, "got None"),
    ("n_centers", 0, ValueError, "at least 1, or 'auto', got 0"),
    ("n_centers", "all", TypeError, "or 'auto', got 'all'"),
    ("refit_centers", 0, ValueError, "at least 1, or 'auto' or 'all' or None, got 0"),
    ("refit_centers", True, TypeError, "got True"),
    ("n_starts", -1, ValueError, "an integer of at least 0, got -1"),
    ("max_iter", 2.5, TypeError, "an integer .*got 2.5"),
    ("tol", -1e-3, ValueError, "of at least 0, got -0.001"),
    ("validation_fraction", 0, ValueError, "greater than 0 and at most 0.9, got 0"),
    ("max_time", float("nan"), ValueError, "greater than 0, or None, got nan"),
]
KERNEL_RIDGE_NUMBERS = [
    ("ridge", -1e-9, ValueError, "of at least 0, or 'auto', got -1e-09"),
    ("ridge", float("nan"), ValueError, "got nan"),
    ("ridge", None, TypeError, "got None"),
    ("lengthscale", -1.0, ValueError, "greater than 0, or 'auto', got -1.0"),
    ("lengthscale", "median", TypeError, "or 'auto', got 'median'"),
    ("n_centers", 0, ValueError, "at least 1, or 'auto', got 0"),
    ("n_centers", None, TypeError, "got None"),
    ("max_iter", 0, ValueError, "an integer of at least 1, got 0"),
    ("tol", 0, ValueError, "greater than 0, got 0"),
]
SELECTION_NUMBERS = [
    ("ridge", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("ridge", float("nan"), ValueError, "got nan"),
    ("ridge", "tune", TypeError, "or 'auto', got 'tune'"),
    ("sparsity", -1e-9, ValueError, "at least 0, or 'auto' or 'tune', got -1e-09"),
    ("sparsity", float("inf"), ValueError, "got inf"),
    ("sparsity", "path", TypeError, "or 'auto' or 'tune', got 'path'"),
    ("sparsity", None, TypeError, "got None"),
    ("radius", 0, ValueError, "greater than 0, got 0"),
    ("radius", float("nan"), ValueError, "greater than 0, got nan"),
    ("radius", "auto", TypeError, "greater than 0, got 'auto'"),
    ("anchor", -1.0, ValueError, "greater than 0, or 'auto', got -1.0"),
    ("anchor", None, TypeError, "got None"),
    ("n_permutations", 0, ValueError, "an integer of at least 1, got 0"),
    ("n_permutations", 1.5, TypeError, "an integer .* got 1.5"),
    ("n_sparsities", 1, ValueError, "an integer of at least 2, got 1"),
    ("n_centers", 0, ValueError, "at least 1, or 'auto' or 'all', got 0"),
    ("n_centers", "half", TypeError, "or 'auto' or 'all', got 'half'"),
    ("n_centers", True, TypeError, "got True"),
    ("n_subsamples", -2, ValueError, "an integer of at least 0, got -2"),
    ("max_false", 0, ValueError, "greater than 0, got 0"),
    ("max_iter", 0, ValueError, "an integer of at least 1, got 0"),
    ("tol", -1e-3, ValueError, "of at least 0, got -0.001"),
    ("validation_fraction", 1.0, ValueError, "at most 0.9, got 1.0"),
    ("max_time", 0, ValueError, "greater than 0, or None, got 0"),
]
WEIGHTING_NUMBERS = [
    ("n_parameters", 0, ValueError, "an integer of at least 1, got 0"),
    ("n_parameters", -3, ValueError, "an integer of at least 1, got -3"),
    ("n_parameters", 10.0, TypeError, "an integer .* got 10.0"),
    ("n_parameters", "auto", TypeError, "got 'auto'"),
    ("ridge", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("ridge", -1e-9, ValueError, "greater than 0, or 'auto', got -1e-09"),
    ("ridge", float("nan"), ValueError, "got nan"),
    ("ridge", "tune", TypeError, "or 'auto', got 'tune'"),
    ("prune_tolerance", 0, ValueError, "greater than 0, got 0"),
    ("prune_tolerance", float("inf"), ValueError, "got inf"),
    ("radius", 0.0, ValueError, "greater than 0, got 0.0"),
    ("radius", None, TypeError, "got None"),
    ("batch_size", 0, ValueError, "an integer of at least 1, got 0"),
    ("batch_size", 1.5, TypeError, "an integer .* got 1.5"),
    ("max_time", 0, ValueError, "greater than 0, or None, got 0"),
    ("max_time", float("nan"), ValueError, "greater than 0, or None, got nan"),
]
REGFEAL_NUMBERS = [
    ("n_random_features", 0, ValueError, "an integer of at least 1, got 0"),
    ("n_random_features", 2.5, TypeError, "an integer .* got 2.5"),
    ("n_random_features", "auto", TypeError, "got 'auto'"),
    ("degree_decay", -0.1, ValueError, "of at least 0, or 'auto', got -0.1"),
    ("degree_decay", float("nan"), ValueError, "got nan"),
    ("degree_decay", None, TypeError, "or 'auto', got None"),
    ("max_degree", 0, ValueError, "at least 1 and at most 40, or None, got 0"),
    ("max_degree", 41, ValueError, "at least 1 and at most 40, or None, got 41"),
    ("max_degree", 3.0, TypeError, "an integer .* got 3.0"),
    ("strength", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("strength", -1.0, ValueError, "greater than 0, or 'auto', got -1.0"),
    ("strength", float("nan"), ValueError, "got nan"),
    ("strength", "tune", TypeError, "or 'auto', got 'tune'"),
    ("ridge", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("ridge", float("inf"), ValueError, "got inf"),
    ("sparsity_exponent", 0.0, ValueError, "greater than 0 .*got 0.0"),
    ("sparsity_exponent", -0.33, ValueError, "greater than 0 .*got -0.33"),
    ("sparsity_exponent", 2.5, ValueError, "at most 2, got 2.5"),
    ("sparsity_exponent", float("nan"), ValueError, "got nan"),
    ("sparsity_exponent", "auto", TypeError, "got 'auto'"),
    ("n_iter", 0, ValueError, "an integer of at least 1, got 0"),
    ("n_iter", 1.5, TypeError, "an integer .* got 1.5"),
    ("clip", 0.0, ValueError, "greater than 0, or None, got 0.0"),
    ("clip", "auto", TypeError, "or None, got 'auto'"),
    ("validation_fraction", 0, ValueError, "greater than 0 and at most 0.9, got 0"),
    ("max_time", 0, ValueError, "greater than 0, or None, got 0"),
]
MORE_NUMBERS = [(hkrr, *case) for case in HKRR_NUMBERS]
MORE_NUMBERS += [(regfeal, *case) for case in REGFEAL_NUMBERS]
MORE_NUMBERS += [(weighting, *case) for case in WEIGHTING_NUMBERS]
MORE_NUMBERS += [(selector, *case) for case in SELECTION_NUMBERS]
MORE_NUMBERS += [(kernel_ridge, *case) for case in KERNEL_RIDGE_NUMBERS]


@pytest.mark.parametrize(("make", "name", "value", "error", "match"), MORE_NUMBERS)
def test_bad_numbers_of_other_estimators_are_named(make, name, value, error, match):
    model = make(**{name: value})
    before = set(vars(model))
    with pytest.raises(error, match=match) as caught:
        model.fit(X, Y)
    assert f"expected {name} to be" in str(caught.value)
    assert set(vars(model)) == before


@pytest.mark.parametrize(
    ("make", "name", "value"),
    [
        (kernel_ridge, "solver", "lu"),
        (kernel_ridge, "center_selection", "kmeans"),
        (kernel_ridge, "backend", "jax"),
        (kernel_ridge, "dtype", "float16"),
        (kernel_ridge, "kernel", "rbf"),
        (hkrr, "optimizer", "adam"),
        (hkrr, "center_selection", "kmeans"),
        (hkrr, "backend", "jax"),
        (hkrr, "dtype", "float16"),
        (hkrr, "kernel", "rbf"),
        (selector, "backend", "jax"),
        (selector, "dtype", "float16"),
        (selector, "kernel", "manhattan_laplace"),
        (regfeal, "selection", "directions"),
        (regfeal, "backend", "jax"),
        (regfeal, "dtype", "float16"),
        (weighting, "backend", "jax"),
        (weighting, "dtype", "float16"),
        (weighting, "learner", "boosting"),
        (weighting, "instantiation", "trees"),
        (weighting, "loss", "exponential"),
        (weighting, "prune", "all"),
    ],
)
def test_unknown_choices_of_other_estimators_are_named(make, name, value):
    with pytest.raises(ValueError, match=f"expected {name} to be one of .*got '{value}'") as caught:
        make(**{name: value}).fit(X, Y)
    if name == "kernel":
        names = ("laplace", "gaussian", "inverse") if make is selector else KERNELS
        assert all(known in str(caught.value) for known in names)


@pytest.mark.parametrize("make", [regfeal, regfeal_classifier])
@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("degree_decay", 1.0, "a degree_decay of at least 0 and below 1, got 1.0"),
        ("degree_decay", 7, "a degree_decay of at least 0 and below 1, got 7"),
        ("sparsity_exponent", 2.0, "a sparsity_exponent between 0 and 2, got 2.0"),
        ("sparsity_exponent", 1e-4, "a sparsity_exponent of at least .* 3 features.*got 0.0001"),
    ],
)
def test_numbers_at_the_open_ends_are_named(make, name, value, match):
    with pytest.raises(ValueError, match=f"expected {match}"):
        make(**{name: value}).fit(X, LABELS if make is regfeal_classifier else Y)


@pytest.mark.parametrize("make", [regfeal, regfeal_classifier])
@pytest.mark.parametrize(
    "value", ["mars", True, 3, np.dot, KernelRidgeRegressor, KernelRidgeClassifier(), [1]], ids=str
)
def test_what_is_no_regressor_to_retrain_is_named(make, value):
    match = "expected retrain to be 'kernel_ridge', None or a regressor, got"
    with pytest.raises(ValueError, match=match):
        make(retrain=value).fit(X, LABELS if make is regfeal_classifier else Y)


@pytest.mark.parametrize("value", [None, 3, Stumps])
def test_what_is_no_instantiation_is_named(value):
    with pytest.raises(ValueError, match="expected instantiation to be one of 'auto', 'gaussian_"):
        weighting(instantiation=value).fit(X, Y)


@pytest.mark.parametrize("kind", [GaussianSign, Stumps])
@pytest.mark.parametrize("name", ["sigma", "gamma"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_widths_that_are_not_positive_are_named(kind, name, value):
    with pytest.raises(ValueError, match=f"expected a positive {name}, got {value}"):
        weighting(instantiation=kind(**{name: value})).fit(X, Y)


@pytest.mark.parametrize("learner", ["least_squares", "lasso"])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_loss_that_a_least_squares_fit_has_not_is_named(learner, loss):
    match = f"expected loss='squared' with learner='{learner}', .* got '{loss}': .*'optimal_step'"
    with pytest.raises(ValueError, match=match):
        weighting_classifier(learner=learner, loss=loss).fit(X, LABELS)


@pytest.mark.parametrize("learner", ["optimal_step", "sfgd"])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_loss_of_labels_is_refused_for_a_regression(learner, loss):
    with pytest.raises(ValueError, match=f"expected loss='squared' for a regression, got '{loss}'"):
        weighting(learner=learner, loss=loss).fit(X, Y)


def test_a_share_of_wrong_labels_is_refused_for_a_regression():
    with pytest.raises(ValueError, match="prune='error' for a regression: 'risk' is like it"):
        weighting(prune="error").fit(X, Y)


class Mistaken(Instantiation):
    """A user's instantiation, one of whose methods gives one row or column too few."""

    kappa = 1.0

    def __init__(self, wrong):
        self.wrong = wrong

    def draw(self, count, n_features, rng):
        return rng.standard_normal((count, n_features))

    def kernel(self, U, W):
        K = Gaussian()(U, W)
        return K[:-1] if self.wrong == "kernel" and len(U) > 10 else K

    def base(self, W, X):
        values = np.sign(X @ W.T)
        return values[:, :-1] if self.wrong == "base" else values


class MistakenInClosedForm(Mistaken):
    def expected(self, W, X):
        return (X @ W.T)[:, 0]


@pytest.mark.parametrize(
    ("instantiation", "match"),
    [
        (Mistaken("kernel"), r"expected Mistaken.kernel to give shape \(4096, 10\), got \(4095, "),
        (Mistaken("base"), r"expected Mistaken.base to give shape \(\d+, 4096\), got \(\d+, 4095"),
        (MistakenInClosedForm(""), r"MistakenInClosedForm.expected to give .* 10\), got \(\d+,\)"),
    ],
)
def test_a_users_instantiation_of_the_wrong_shape_is_named(instantiation, match):
    model = weighting().fit(X, Y)
    before = model.predict(X)
    with pytest.raises(ValueError, match=match):
        model.set_params(instantiation=instantiation).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), before)


BAD_BOUNDS = [
    (weighting, Y, {"delta": 0.0}, ValueError, "expected delta"),
    (weighting, Y, {"delta": 1.0}, ValueError, "expected delta"),
    (weighting, Y, {"delta": "0.05"}, TypeError, "expected delta"),
    (weighting, Y, {"radius": 0.0}, ValueError, "expected radius .*greater than 0"),
    (weighting, Y, {"radius": "half"}, TypeError, "or 'doubling' or 'norm', got 'half'"),
    (weighting, Y, {"radius": 1e-9}, ValueError, "a radius of at least the norm .*, got 1e-09"),
    (weighting, Y[:-1], {}, ValueError, "inconsistent numbers of samples"),
    (weighting_classifier, LABELS[:-1], {}, ValueError, "inconsistent numbers of samples"),
    (
        weighting_classifier,
        changed(LABELS.astype("<U5"), "maybe"),
        {},
        ValueError,
        r"expected labels \['no', 'yes'\] for a bound, got \['maybe'\] too",
    ),
    (weighting_classifier, LABELS, {"radius": -1.0}, ValueError, "expected radius"),
]


@pytest.mark.parametrize(("make", "y", "options", "error", "match"), BAD_BOUNDS)
def test_what_a_bound_cannot_be_given_for_is_named(make, y, options, error, match):
    model = make().fit(X, LABELS if make is weighting_classifier else Y)
    with pytest.raises(error, match=match):
        model.bound(X, y, **options)


@pytest.mark.parametrize("labels", [np.arange(N) % 3, np.zeros(N)], ids=["three", "one"])
def test_a_bound_of_other_than_two_classes_is_refused(labels):
    model = weighting_classifier().fit(X, labels)
    count = len(np.unique(labels))
    with pytest.raises(ValueError, match=f"a model of two classes for a bound, got {count}"):
        model.bound(X, labels)


def test_a_bound_of_several_targets_is_refused():
    model = weighting().fit(X, np.stack([Y, 2 * Y], axis=1))
    with pytest.raises(ValueError, match="a model of one target for a bound, got 2"):
        model.bound(X, Y)


def test_a_bound_without_a_kernel_is_refused():
    model = weighting(instantiation=RandomKitchenSinks()).fit(X, Y)
    with pytest.raises(ValueError, match="random kitchen sinks have no bound"):
        model.bound(X, Y)


@pytest.mark.parametrize("make", [weighting, weighting_classifier])
def test_a_bound_needs_a_fit(make):
    with pytest.raises(NotFittedError):
        make().bound(X, Y)


@pytest.mark.parametrize("make", [kernel_ridge, hkrr])
@pytest.mark.parametrize("value", [None, 3, np.dot])
def test_what_is_no_kernel_is_named(make, value):
    with pytest.raises(TypeError, match="expected a kernel or the name of one, got"):
        make(kernel=value).fit(X, Y)


@pytest.mark.parametrize(
    "value",
    [Laplace(), Linear(), Brownian(), Gaussian() + Gaussian(), 2.0 * Gaussian(), Gaussian, None, 3],
    ids=str,
)
def test_kernels_that_weigh_no_variables_are_named(value):
    given = re.escape(f"got {value!r}")
    match = f"one of laplace, gaussian, inverse, or a kernel of the l1 or .* slope at 0, {given}"
    with pytest.raises(TypeError, match=match):
        selector(kernel=value).fit(X, Y)


@pytest.mark.parametrize("make", [hkrr, hkrr_classifier])
def test_more_components_than_features_are_refused(make):
    with pytest.raises(ValueError, match="at most as many components as the 3 features, got 4"):
        make(n_components=4).fit(X, LABELS if make is hkrr_classifier else Y)


@pytest.mark.parametrize("value", [-1.0, 0, float("nan"), "1", True])
def test_bad_ridges_are_named_without_features_to_learn(value):
    with pytest.raises((ValueError, TypeError), match=f"expected ridge .* got {value!r}"):
        BrownianKernelRidge(ridge=value).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "value", "choices"),
    [
        ("penalty", "lasso", tuple(PENALTIES)),
        ("backend", "jax", ("auto", "numpy", "cupy", "torch")),
        ("dtype", "float16", ("auto", "float32", "float64")),
    ],
)
def test_unknown_choices_are_named_with_the_known(name, value, choices):
    with pytest.raises(ValueError, match=f"expected {name} to be one of .*got '{value}'") as caught:
        regressor(**{name: value}).fit(X, Y)
    assert all(repr(choice) in str(caught.value) for choice in choices)


SWITCHES = [
    *((regressor, n) for n in ("early_stopping", "warm_start", "normalize_y", "standardize")),
    *((hkrr, n) for n in ("learn_lengthscale", "warm_start", "normalize_y", "standardize")),
    *((kernel_ridge, n) for n in ("normalize_y", "standardize")),
    *((selector, n) for n in ("hierarchical", "normalize_y", "standardize")),
    *((weighting, n) for n in ("bias", "standardize")),
    *((regfeal, n) for n in ("over_c", "normalize_y", "standardize")),
]


@pytest.mark.parametrize(("make", "name"), SWITCHES)
def test_switches_take_no_text(make, name):
    with pytest.raises(TypeError, match=f"expected {name} to be .*got 'no'"):
        make(**{name: "no"}).fit(X, Y)


@pytest.mark.skipif(cupy_is_usable(), reason="there is a GPU")
@pytest.mark.parametrize("make", MAKERS)
def test_cupy_without_a_gpu_says_what_works(make):
    installed = importlib.util.find_spec("cupy") is not None
    missing = "nvidia-smi" if installed else "pip install 'gpukfl"
    with pytest.raises(RuntimeError, match=f"{missing}.*backend='numpy' works"):
        make(backend="cupy").fit(X, Y)


def test_early_stopping_needs_samples_to_fit():
    with pytest.raises(ValueError, match="at least 2 samples to fit, got 2 samples"):
        regressor(early_stopping=True).fit(X[:2], Y[:2])


# ---------------------------------------------------------------------- a constant target


@pytest.mark.parametrize("make", [regressor, kernel_ridge, hkrr, selector, weighting, regfeal])
@pytest.mark.parametrize("value", [0.0, 7.3, -1e12])
def test_a_constant_target_is_predicted_with_a_warning(make, value):
    with pytest.warns(UserWarning, match="y is constant: the model predicts that constant"):
        model = make().fit(X, np.full(N, value))
    np.testing.assert_allclose(model.predict(2 * X), value, rtol=1e-15)
    assert not np.any(getattr(model, "W_", 0.0))


def test_a_constant_target_needs_no_features_to_learn():
    model = BrownianKernelRidge().fit(X, np.full(N, 7.3))
    np.testing.assert_allclose(model.predict(2 * X), 7.3, rtol=1e-15)


# ---------------------------------------------------------------------- prediction


@pytest.mark.parametrize(
    ("make", "y"), [(m, Y) for m in MAKERS] + [(m, LABELS) for m in CLASSIFIERS]
)
def test_not_fitted(make, y):
    with pytest.raises(NotFittedError):
        make().predict(X)


@pytest.mark.parametrize("make", MAKERS)
def test_another_number_of_features_is_refused(on_double, make):
    model = make().fit(on_double.put(X), on_double.put(Y))
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3 features"):
        model.predict(on_double.put(X[:, :2]))


@pytest.mark.parametrize("make", MAKERS)
def test_another_library_is_refused(on_double, make):
    if on_double.package == "numpy":
        pytest.skip("the library of the reference")
    fitted_here = make().fit(on_double.put(X), on_double.put(Y))
    with pytest.raises(ValueError, match=f"expected {on_double.package}, got numpy"):
        fitted_here.predict(X)
    with pytest.raises(ValueError, match=f"expected numpy, got {on_double.package}"):
        make().fit(X, Y).predict(on_double.put(X))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("kind", [list, pd.DataFrame])
def test_host_data_is_refused_by_a_model_of_another_library(make, kind):
    torch = pytest.importorskip("torch")
    model = make().fit(torch.asarray(X), torch.asarray(Y))
    with pytest.raises(ValueError, match="expected torch, got numpy"):
        model.predict(kind(X))


@pytest.mark.parametrize("make", [regressor, kernel_ridge, hkrr, selector, weighting, regfeal])
def test_other_column_names_are_refused(make):
    model = make().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(pd.DataFrame(X, columns=["a", "b", "z"]))


# ---------------------------------------------------------------------- a failed fit

FAILURES = {
    "samples": lambda model: model.fit(changed(X[:, :2], np.nan, (0, 0)), Y),
    "targets": lambda model: model.fit(X[:, :2], Y[:-1]),
    "missing targets": lambda model: model.fit(X[:, :2], changed(Y, np.nan)),
    "weights": lambda model: model.fit(X[:, :2], Y, sample_weight=-np.ones(N)),
    "parameter": lambda model: model.set_params(ridge=-1.0).fit(X[:, :2], Y),
    "overflow": lambda model: model.fit(1e200 * X[:, :2], Y),
}


@beside_the_error
@pytest.mark.parametrize("how", FAILURES)
@pytest.mark.parametrize("make", MAKERS)
def test_a_failed_fit_leaves_the_model_as_it_was(make, how):
    model = make().fit(X, Y)
    before = model.predict(X)
    with pytest.raises((ValueError, FloatingPointError)):
        FAILURES[how](model)
    assert model.n_features_in_ == D
    np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("make", CLASSIFIERS)
def test_a_failed_fit_leaves_the_classes_as_they_were(make):
    model = make().fit(X, LABELS)
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, np.arange(N - 1) % 3)
    assert list(model.classes_) == ["no", "yes"]
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_a_failed_fit_leaves_the_column_names_as_they_were():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = regressor().fit(frame, Y)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(frame.rename(columns={"a": "z"}), changed(Y, np.nan))
    assert list(model.feature_names_in_) == ["a", "b", "c"]


def test_a_fit_without_column_names_forgets_the_old_ones(on_double):
    model = regressor().fit(pd.DataFrame(X, columns=["a", "b", "c"]), Y)
    model.fit(on_double.put(X), on_double.put(Y))
    assert not hasattr(model, "feature_names_in_")
