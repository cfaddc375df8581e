"""Data and small models for the tests of the kernel feature selectors."""

import numpy as np
from brief import selection

from gpukfl import KernelFeatureSelector, KernelFeatureSelectorClassifier

N, P = 90, 5
RNG = np.random.default_rng(31)
X = RNG.standard_normal((N, P))
NEW = RNG.standard_normal((30, P))
TRUE = [1, 3]  # the second has no effect of its own


def target(samples):
    return samples[:, 1] + samples[:, 1] * samples[:, 3]


# With noise: without any, rounding decides among weights that all predict exactly
Y, Y_NEW = target(X) + 0.1 * RNG.standard_normal(N), target(NEW)
Y2 = np.stack([2.0 * X[:, 0], 5.0 - 3.0 * Y], axis=1)  # of variables 0, 1 and 3
THREE = np.array(["low", "mid", "high"])[np.searchsorted([-0.6, 0.6], X[:, 2])]
TWO = np.where(np.abs(X[:, 2]) > 0.7, "far", "near")  # no linear effect


def selector(**options):
    """With thresholds of few permutations, which is quick and finds what is plain to see."""
    few = {"n_permutations": 5, "random_state": 0}
    return KernelFeatureSelector(**selection(**few | options))


def classifier(**options):
    few = {"n_permutations": 5, "random_state": 0}
    return KernelFeatureSelectorClassifier(**selection(**few | options))


def found(model):
    return model.get_support(indices=True).tolist()


def formula(model, new):
    """Predictions from the fitted attributes, by a dense host matrix."""
    used = np.flatnonzero(np.asarray(model.beta_))
    if model.dual_coef_ is None:
        return np.broadcast_to(model.intercept_, (len(new), len(model.intercept_)))
    by = model.scaling_
    mean, scale = (0.0, 1.0) if by is None else (by.mean, by.scale)
    power = 2 if model.kernel == "gaussian" else 1
    Z = ((new - mean) / scale)[:, used] * np.asarray(model.beta_)[used] ** (1.0 / power)
    return model.intercept_ + model.kernel_(Z, model.centers_) @ model.dual_coef_
