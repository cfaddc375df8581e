"""Data and small models for the tests of the RKHS weightings."""

import numpy as np
from brief import weighting

from gpukfl import RKHSWeightingClassifier, RKHSWeightingRegressor
from gpukfl.instantiations import GaussianSign, Instantiation, RandomKitchenSinks, Stumps

N, D, T = 100, 4, 40
RNG = np.random.default_rng(31)
X = RNG.standard_normal((N, D))
NEW = RNG.standard_normal((60, D))


def truth(X):
    """Of the first two variables."""
    return np.sin(2 * X[:, 0]) + X[:, 1]


Y, Y_NEW = truth(X), truth(NEW)
Y2 = np.stack([Y, 30.0 - 5.0 * X[:, 1]], axis=1)
LABELS, LABELS_NEW = (np.where(y > 0, "yes", "no") for y in (Y, Y_NEW))
SIGNS = np.where(LABELS == "yes", 1.0, -1.0)
THREE = np.array(["low", "mid", "high"])[np.searchsorted([-0.7, 0.7], Y)]
LEARNERS = ["least_squares", "lasso", "optimal_step", "sfgd"]
# Ridges that suit the learners, so that nothing is chosen
RIDGES = {"least_squares": 1e-4, "lasso": 1e-4, "optimal_step": 1e-4, "sfgd": 0.1}
STUMPS, GAUSSIAN = Stumps(1.0, 0.5), GaussianSign(constant=0.5)
SINKS = RandomKitchenSinks(Stumps(1.0, 0.5))


class Cosines(Instantiation):
    """A user's instantiation without a closed form."""

    kappa = 1.0

    def draw(self, count, n_features, rng):
        return rng.standard_normal((count, n_features))

    def kernel(self, U, W):
        return np.exp(-0.5 * np.sum((U[:, None, :] - W[None, :, :]) ** 2, axis=2) / 4.0)

    def base(self, W, X):
        return np.cos(X @ W.T) if isinstance(X, np.ndarray) else (X @ W.T).cos()


def settings(options):
    learner = options.get("learner", "least_squares")
    few = {
        "n_parameters": T,
        "instantiation": STUMPS,
        "ridge": RIDGES.get(learner, 1e-4),
        "random_state": 0,
    }
    return weighting(**few | options)


def regressor(**options):
    """With nothing to choose by folds."""
    return RKHSWeightingRegressor(**settings(options))


def classifier(**options):
    return RKHSWeightingClassifier(**settings(options))


def formula(model, X):
    """Values of the fitted functions from the attributes, by the instantiation in float64."""
    X = np.asarray(X, dtype=np.float64)
    if model.scaling_ is not None:
        X = (X - model.scaling_.mean) / model.scaling_.scale
    if model.bias:
        X = np.column_stack([np.ones(len(X)), X])
    W = np.asarray(model.parameters_, dtype=np.float64)
    features = model.instantiation_.features(W, X.shape[1])
    Phi = features.shapes(X) * np.exp(features.log_constants - model.log_scale_)
    return np.asarray(model.intercept_) + Phi @ np.asarray(model.coef_, dtype=np.float64)
