"""Small models and data for the tests of bad input."""

import brief
import numpy as np
from brief import selection
from brief import weighting as briefly

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
from gpukfl.instantiations import Stumps

N, D = 30, 3
X = np.random.default_rng(0).uniform(-1, 1, (N, D))
Y = np.abs(X[:, 0]) + 0.1
LABELS = np.where(X[:, 0] > 0, "yes", "no")


def regressor(**options):
    few = {"n_particles": 8, "max_iter": 3, "scaling": None, "random_state": 0}
    return BKerNNRegressor(**brief.bkernn(**{**few, **options}))


def without_loss(regressor):
    """Parameters of a regressor that a classifier has too."""
    given = regressor.get_params(deep=False)
    del given["loss"]
    return given


def classifier(**options):
    return BKerNNClassifier(**{**without_loss(regressor()), **brief.bkernn(**options)})


def kernel_ridge(**options):
    return KernelRidgeRegressor(**brief.placed({"ridge": 1e-3, "scaling": None, **options}))


def brownian_ridge(**options):
    return BrownianKernelRidge(**brief.placed({"scaling": None, **options}))


def hkrr(**options):
    few = {"n_components": 1, "ridge": 1e-3, "n_starts": 0, "max_iter": 2, "refit_centers": None}
    few |= {"scaling": None, "random_state": 0}
    return HKRRRegressor(**brief.hkrr(**{**few, **options}))


def kernel_classifier(**options):
    return KernelRidgeClassifier(**brief.placed({**without_loss(kernel_ridge()), **options}))


def hkrr_classifier(**options):
    return HKRRClassifier(**without_loss(hkrr(**options)))


def selector(**options):
    few = {"sparsity": 0.01, "scaling": None, "random_state": 0}
    return KernelFeatureSelector(**selection(**{**few, **options}))


def selector_classifier(**options):
    return KernelFeatureSelectorClassifier(**{**without_loss(selector()), **selection(**options)})


def weighting(**options):
    few = {"n_parameters": 10, "instantiation": Stumps(), "ridge": 1e-2, "scaling": None}
    return RKHSWeightingRegressor(**briefly(**{**few, "random_state": 0, **options}))


def weighting_classifier(**options):
    return RKHSWeightingClassifier(**{**weighting().get_params(), **briefly(**options)})


def regfeal(**options):
    few = {"n_random_features": 10, "degree_decay": 0.3, "strength": 0.1, "n_iter": 2}
    few |= {"retrain": None, "scaling": None, "random_state": 0}
    return RegFeaLRegressor(**brief.regfeal(**{**few, **options}))


def regfeal_classifier(**options):
    return RegFeaLClassifier(**without_loss(regfeal(**options)))


MAKERS = [regressor, brownian_ridge, kernel_ridge, hkrr, selector, weighting, regfeal]
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
