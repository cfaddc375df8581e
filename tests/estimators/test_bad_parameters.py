"""Bad parameters are named, with what was expected and what came."""

import importlib.util
import re

import numpy as np
import pytest
from bad_input_cases import (
    LABELS,
    MAKERS,
    N,
    X,
    Y,
    changed,
    hkrr,
    hkrr_classifier,
    kernel_ridge,
    regfeal,
    regfeal_classifier,
    regressor,
    selector,
    weighting,
    weighting_classifier,
)
from sklearn.exceptions import NotFittedError

from gpukfl import (
    BrownianKernelRidge,
    HKRRRegressor,
    KernelRidgeClassifier,
    KernelRidgeRegressor,
    RegFeaLRegressor,
)
from gpukfl.core._places import cupy_is_usable
from gpukfl.estimators.hkrr import Centers
from gpukfl.estimators.selection import Knockoffs, Path, Permutations, Stability, Weights
from gpukfl.estimators.weighting import Descent, Pruning
from gpukfl.instantiations import GaussianSign, Instantiation, RandomKitchenSinks, Stumps
from gpukfl.kernels import KERNELS, Brownian, Gaussian, Laplace, Linear
from gpukfl.knockoffs import GaussianKnockoffs, RankKnockoffs
from gpukfl.methods import DegreeLaw, Reweighting
from gpukfl.penalties import PENALTIES
from gpukfl.solvers import LBFGS, ProximalGradient

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# ---------------------------------------------------------------------- the parameters

BAD_NUMBERS = [
    ("ridge", -1.0, ValueError, "expected ridge to be a number greater than 0.*got -1.0"),
    ("ridge", 0.0, ValueError, "greater than 0, or 'auto' or 'tune', got 0.0"),
    ("ridge", float("nan"), ValueError, "greater than 0, or 'auto' or 'tune', got nan"),
    ("ridge", float("inf"), ValueError, "ridge to be a finite number .*, got inf"),
    ("ridge", "1", TypeError, "got '1'"),
    ("ridge", True, TypeError, "got True"),
    ("ridge", None, TypeError, "got None"),
    ("n_particles", 0, ValueError, "an integer of at least 1, or 'auto', got 0"),
    ("n_particles", 2.5, TypeError, "an integer of at least 1, or 'auto', got 2.5"),
    ("n_particles", True, TypeError, "got True"),
    ("n_particles", float("inf"), TypeError, "an integer of at least 1, or 'auto', got inf"),
    ("n_particles", "many", TypeError, "or 'auto', got 'many'"),
    ("penalty_strength", -0.1, ValueError, "of at least 0, got -0.1"),
    ("max_iter", -1, ValueError, "an integer of at least 0, got -1"),
    ("max_iter", 1.5, TypeError, "an integer .*got 1.5"),
    ("tol", float("nan"), ValueError, "of at least 0, got nan"),
    ("tol", "small", TypeError, "expected tol to be a number .*got 'small'"),
    ("step_size", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("early_stopping", 0.95, ValueError, "at most 0.9, or True or False, got 0.95"),
    ("max_time", 0, ValueError, "greater than 0, or None, got 0"),
    ("max_time", "1 s", TypeError, "or None, got '1 s'"),
    ("knots", 1, ValueError, "at least 2 and at most .*, got 1"),
    ("knots", "few", TypeError, "or 'auto' or None, got 'few'"),
    ("knots", False, TypeError, "got False"),
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
    ("max_time", float("nan"), ValueError, "greater than 0, or None, got nan"),
]
KERNEL_RIDGE_NUMBERS = [
    ("ridge", -1e-9, ValueError, "of at least 0, or 'auto', got -1e-09"),
    ("ridge", float("nan"), ValueError, "got nan"),
    ("ridge", None, TypeError, "got None"),
    ("lengthscale", -1.0, ValueError, "greater than 0, or 'auto' or 'median', got -1.0"),
    ("lengthscale", "mean", TypeError, "or 'auto' or 'median', got 'mean'"),
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
    ("anchor", -1.0, ValueError, "greater than 0, or 'auto', got -1.0"),
    ("anchor", None, TypeError, "got None"),
    ("n_centers", 0, ValueError, "at least 1, or 'auto' or 'all', got 0"),
    ("n_centers", "half", TypeError, "or 'auto' or 'all', got 'half'"),
    ("n_centers", True, TypeError, "got True"),
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
    ("max_time", 0, ValueError, "greater than 0, or None, got 0"),
    ("max_time", float("nan"), ValueError, "greater than 0, or None, got nan"),
]
REGFEAL_NUMBERS = [
    ("n_random_features", 0, ValueError, "an integer of at least 1, got 0"),
    ("n_random_features", 2.5, TypeError, "an integer .* got 2.5"),
    ("n_random_features", "auto", TypeError, "got 'auto'"),
    ("degrees", -0.1, ValueError, "of at least 0, or 'auto', got -0.1"),
    ("degrees", float("nan"), ValueError, "got nan"),
    ("degrees", None, TypeError, "or 'auto', got None"),
    ("degrees", "low", TypeError, "or 'auto', got 'low'"),
    ("strength", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("strength", -1.0, ValueError, "greater than 0, or 'auto', got -1.0"),
    ("strength", float("nan"), ValueError, "got nan"),
    ("strength", "tune", TypeError, "or 'auto', got 'tune'"),
    ("ridge", 0.0, ValueError, "greater than 0, or 'auto', got 0.0"),
    ("ridge", float("inf"), ValueError, "ridge to be a finite number .*, got inf"),
    ("clip", 0.0, ValueError, "greater than 0, or 'auto' or None, got 0.0"),
    ("clip", "none", TypeError, "or None, got 'none'"),
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
        (kernel_ridge, "kernel", "rbf"),
        (hkrr, "optimizer", "adam"),
        (hkrr, "backend", "jax"),
        (hkrr, "kernel", "rbf"),
        (selector, "backend", "jax"),
        (selector, "kernel", "manhattan_laplace"),
        (regfeal, "selection", "directions"),
        (regfeal, "backend", "jax"),
        (weighting, "backend", "jax"),
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


@pytest.mark.parametrize(
    ("name", "value", "error", "match"),
    [
        ("fit", 0, ValueError, "n_centers to be .* at least 1, or 'auto', got 0"),
        ("fit", "all", TypeError, "n_centers to be .* or 'auto', got 'all'"),
        ("refit", 0, ValueError, "refit to be .* at least 1, or 'auto' or 'all' or None, got 0"),
        ("refit", True, TypeError, "refit to be .* got True"),
        ("selection", "kmeans", ValueError, "selection to be one of .* got 'kmeans'"),
    ],
)
def test_bad_centers_are_named(name, value, error, match):
    with pytest.raises(error, match=f"expected {match}"):
        Centers(**{name: value})
    if name == "fit":
        with pytest.raises(error, match=f"expected {match}"):
            HKRRRegressor(n_centers=value).fit(X, Y)


@pytest.mark.parametrize("value", [3, LBFGS, ProximalGradient()], ids=str)
def test_what_is_no_optimizer_of_hkrr_is_named(value):
    match = "expected optimizer to be LBFGS or VariableProjection or .* or AverageGrad.* or str"
    with pytest.raises(TypeError, match=match):
        hkrr(optimizer=value).fit(X, Y)


@pytest.mark.parametrize(
    ("value", "error", "match"),
    [
        (lambda: Reweighting(exponent=0.0), ValueError, "exponent .* greater than 0 .*got 0.0"),
        (lambda: Reweighting(exponent=-0.33), ValueError, "greater than 0 .*got -0.33"),
        (lambda: Reweighting(exponent=2.0), ValueError, "an exponent between 0 and 2, got 2.0"),
        (lambda: Reweighting(exponent=2.5), ValueError, "at most 2, got 2.5"),
        (lambda: Reweighting(exponent=float("nan")), ValueError, "got nan"),
        (lambda: Reweighting(exponent="auto"), TypeError, "got 'auto'"),
        (lambda: Reweighting(n_iter=0), ValueError, "n_iter .* at least 1, got 0"),
        (lambda: Reweighting(n_iter=1.5), TypeError, "an integer .* got 1.5"),
        (lambda: Reweighting(over_c="no"), TypeError, "over_c to be True or False, got 'no'"),
        (DegreeLaw, ValueError, "a decay or a largest degree, got None and None"),
        (lambda: DegreeLaw(0.3, 3), ValueError, "a decay or a largest degree, got 0.3 and 3"),
        (lambda: DegreeLaw(1.0), ValueError, "a decay of at least 0 and below 1, got 1.0"),
        (lambda: DegreeLaw(-0.1), ValueError, "decay .* at least 0, or None, got -0.1"),
        (lambda: DegreeLaw(largest=0), ValueError, "largest .* at least 1 .* got 0"),
        (lambda: DegreeLaw(largest=3.0), TypeError, "an integer .* got 3.0"),
    ],
)
def test_bad_fields_of_regfeal_are_named(value, error, match):
    with pytest.raises(error, match=f"expected .*{match}"):
        value()


def test_what_is_no_reweighting_is_named():
    with pytest.raises(TypeError, match="expected optimizer to be Reweighting or None, got 5"):
        RegFeaLRegressor(optimizer=5).fit(X, Y)


@pytest.mark.parametrize("make", [regfeal, regfeal_classifier])
@pytest.mark.parametrize(
    ("name", "value", "match"),
    [
        ("degrees", 1.0, "degrees of at least 0 and below 1, or a DegreeLaw, got 1.0"),
        ("degrees", 7, "degrees of at least 0 and below 1, or a DegreeLaw, got 7"),
        ("degrees", DegreeLaw(largest=41), "largest to be .* at most 40, or None, got 41"),
        ("sparsity_exponent", 1e-4, "an exponent of at least .* 3 features.*got 0.0001"),
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


@pytest.mark.pairs
@pytest.mark.parametrize("kind", [GaussianSign, Stumps])
@pytest.mark.parametrize("name", ["sigma", "gamma"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_widths_that_are_not_positive_are_named(kind, name, value):
    message = f"expected {name} to be a (finite )?number greater than 0, got {value}"
    with pytest.raises(ValueError, match=message):
        weighting(instantiation=kind(**{name: value})).fit(X, Y)


@pytest.mark.parametrize("learner", ["least_squares", "lasso"])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_loss_that_a_least_squares_fit_has_not_is_named(learner, loss):
    match = f"expected loss='squared' with learner='{learner}', got '{loss}': .*'optimal_step'"
    with pytest.raises(ValueError, match=match):
        weighting_classifier(learner=learner, loss=loss).fit(X, LABELS)


@pytest.mark.parametrize("learner", ["optimal_step", "sfgd"])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_loss_of_labels_is_refused_for_a_regression(learner, loss):
    with pytest.raises(ValueError, match=f"expected loss to be one of squared, .* got '{loss}'"):
        weighting(learner=learner, loss=loss).fit(X, Y)


def test_a_share_of_wrong_labels_is_refused_for_a_regression():
    with pytest.raises(ValueError, match=r"expected prune to be .* for a regression, got 'error'"):
        weighting(prune="error").fit(X, Y)


@pytest.mark.parametrize(
    ("kind", "options", "error", "match"),
    [
        (Pruning, {"rule": "risk", "tolerance": 0}, ValueError, "tolerance .* than 0, got 0"),
        (Pruning, {"rule": "risk", "tolerance": np.inf}, ValueError, "tolerance .* got inf"),
        (Pruning, {"rule": "all"}, ValueError, "rule to be one of 'norm', .*got 'all'"),
        (Descent, {"radius": 0.0}, ValueError, "radius .* greater than 0, got 0.0"),
        (Descent, {"radius": None}, TypeError, "radius .* got None"),
        (Descent, {"batch_size": 0}, ValueError, "batch_size .* integer of at least 1, got 0"),
        (Descent, {"batch_size": 1.5}, TypeError, "batch_size .* an integer .* got 1.5"),
        (Permutations, {"number": 0}, ValueError, "number .* integer of at least 1, got 0"),
        (Permutations, {"number": 1.5}, TypeError, "number .* an integer .* got 1.5"),
        (Path, {"number": 1}, ValueError, "number .* an integer of at least 2, got 1"),
        (Stability, {"n_subsamples": 0}, ValueError, "n_subsamples .* of at least 1, got 0"),
        (Stability, {"n_subsamples": 4, "max_false": 0}, ValueError, "max_false .* got 0"),
        (Knockoffs, {"draws": 0}, ValueError, "draws .* integer of at least 1, got 0"),
        (Knockoffs, {"copies": 0}, ValueError, "copies .* at least 1, or 'auto', got 0"),
        (Knockoffs, {"copies": 2.5}, TypeError, "copies .* an integer .* got 2.5"),
        (Knockoffs, {"sampler": "sdp"}, ValueError, "sampler .* 'ranks', 'gaussian', got 'sdp'"),
        (GaussianKnockoffs, {"spread": "sdp"}, ValueError, "spread .* 'mvr', .* got 'sdp'"),
        (RankKnockoffs, {"gaussian": 1}, TypeError, "gaussian to be GaussianKnockoffs, got 1"),
        (Weights, {"radius": np.nan}, ValueError, "radius .* greater than 0, got nan"),
        (Weights, {"radius": "auto"}, TypeError, "radius .* greater than 0, got 'auto'"),
        (Weights, {"anchor": -1.0}, ValueError, "anchor .* or 'auto', got -1.0"),
        (Descent, {"optimal_step": "no"}, TypeError, "optimal_step .* True or False, got 'no'"),
    ],
)
def test_bad_values_are_named(kind, options, error, match):
    with pytest.raises(error, match=f"expected {match}"):
        kind(**options)


@pytest.mark.parametrize("name", ["error_control", "optimizer"])
def test_what_is_no_value_of_a_selection_is_named(name):
    kind = {
        "error_control": "Stability or Knockoffs or str or None",
        "optimizer": "ProjectedGradient or None",
    }[name]
    with pytest.raises(TypeError, match=f"expected {name} to be {kind}, got 3"):
        selector(**{name: 3}).fit(X, Y)


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
        r"expected only labels \['no', 'yes'\] for a bound, got \['maybe'\]",
    ),
    (weighting_classifier, LABELS, {"radius": -1.0}, ValueError, "expected radius"),
]


@pytest.mark.parametrize(("make", "y", "options", "error", "match"), BAD_BOUNDS)
def test_what_a_bound_cannot_be_given_for_is_named(make, y, options, error, match):
    model = make().fit(X, LABELS if make is weighting_classifier else Y)
    with pytest.raises(error, match=match):
        model.bound(X, y, **options)


@pytest.mark.filterwarnings("ignore:y is constant:UserWarning")
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
    with pytest.raises(ValueError, match="at most 3 components, as X has 3 features, got 4"):
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
    *((regressor, n) for n in ("early_stopping", "warm_start")),
    (selector, "hierarchical"),
    (weighting, "bias"),
]


@pytest.mark.parametrize(("make", "name"), SWITCHES)
def test_switches_take_no_text(make, name):
    with pytest.raises(TypeError, match=f"expected {name} to be .*got 'no'"):
        make(**{name: "no"}).fit(X, Y)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("value", ["minmax", True, 3.0])
def test_unknown_scalings_are_named_with_the_known(make, value):
    with pytest.raises(ValueError, match=r"expected scaling to be one of 'auto'.*None, got"):
        make(scaling=value).fit(X, Y)


@pytest.mark.skipif(cupy_is_usable(), reason="there is a GPU")
@pytest.mark.parametrize("make", MAKERS)
def test_cupy_without_a_gpu_says_what_works(make):
    installed = importlib.util.find_spec("cupy") is not None
    missing = "nvidia-smi" if installed else "pip install 'gpukfl"
    with pytest.raises(RuntimeError, match=f"{missing}.*backend='numpy' works"):
        make(backend="cupy").fit(X, Y)


def test_early_stopping_needs_samples_to_fit():
    with pytest.raises(ValueError, match=r"at least 2 rows to fit after .*, got 2 rows"):
        regressor(early_stopping=True).fit(X[:2], Y[:2])
