"""Data and small models for the tests of the RegFeaL estimators."""

import math

import numpy as np
from brief import regfeal

from gpukfl import RegFeaLClassifier, RegFeaLRegressor

N, D = 200, 5
RNG = np.random.default_rng(31)
X = RNG.standard_normal((N, D))
NEW = RNG.standard_normal((50, D))
DIRECTIONS = np.linalg.qr(RNG.standard_normal((D, 2)))[0]

FEW = {"degree_decay": 0.4, "strength": 0.01, "n_iter": 4, "retrain": None, "random_state": 0}


def target(samples, directions=DIRECTIONS):
    z = samples @ directions
    return z[:, 0] ** 3 / 3 - z[:, 0] * z[:, 1] + 0.5 * z[:, 1] ** 2


Y, Y_NEW = target(X), target(NEW)
Y2 = np.stack([Y, 5.0 - 3.0 * (X @ DIRECTIONS)[:, 0]], axis=1)
VARIABLES = [1, 3]
Y_VARIABLES = target(X, np.eye(D)[:, VARIABLES])
TWO = np.where(X[:, 1] + X[:, 2] > 0, "yes", "no")
THREE = np.array(["low", "mid", "high"])[np.searchsorted([-0.6, 0.6], (X @ DIRECTIONS)[:, 0])]


def regressor(n_random_features=300, **options):
    """With nothing to choose by hold-out, and predictions by the Hermite features."""
    return RegFeaLRegressor(n_random_features, **regfeal(**{**FEW, **options}))


def classifier(n_random_features=300, **options):
    few = {**FEW, "degree_decay": 0.2, "strength": 0.1}
    return RegFeaLClassifier(n_random_features, **regfeal(**{**few, **options}))


def hermite(k, x):
    values = [np.ones_like(x), x]
    for j in range(1, k):
        values.append((x * values[j] - math.sqrt(j) * values[j - 1]) / math.sqrt(j + 1))
    return values[k]


def formula(model, new):
    """Predictions of the Hermite features, from the fitted attributes."""
    clip = 6.0 if model.clip == "auto" else model.clip or np.inf
    Z = np.clip((new - model.scaling_.mean) / model.scaling_.scale, -clip, clip)
    Z = Z @ model.coef_rotation_
    columns = [
        np.prod([hermite(k, Z[:, a]) for a, k in enumerate(alpha)], axis=0)
        for alpha in model.multi_indices_
    ]
    return model.intercept_ + np.stack(columns, axis=1) @ model.coef_
