"""Data and small models for the tests of the BKerNN estimators."""

import numpy as np
from brief import bkernn

from gpukfl import BKerNNClassifier, BKerNNRegressor

N, D, M = 60, 3, 12
RNG = np.random.default_rng(7)
X = RNG.uniform(-1, 1, (N, D))
NEW = RNG.uniform(-2, 2, (40, D))  # some beyond the samples
Y = np.abs(X @ [1.0, 0.5, 0.0]) + 0.1 * X[:, 2]
Y2 = np.stack([Y, 5.0 - 3.0 * X[:, 1]], axis=1)
LABELS = {
    2: np.where(X[:, 0] > 0, "yes", "no"),
    3: np.searchsorted([-0.4, 0.4], X[:, 0]) * 10,
    4: np.where(X[:, 0] > 0, 2, 0) + (X[:, 1] > 0),
}

# On the samples as they are, which the formulas of the tests are for
FEW = {"n_particles": M, "max_iter": 5, "scaling": None, "random_state": 0}


def regressor(**options):
    return BKerNNRegressor(**bkernn(**{**FEW, **options}))


def classifier(**options):
    return BKerNNClassifier(**bkernn(**{**FEW, **options}))


def kernel(A, B, W):
    """Dense kernel between rows, up to what vanishes for coefficients that sum to zero."""
    gaps = np.abs((A @ W)[:, None, :] - (B @ W)[None, :, :])
    return -0.5 * gaps.mean(axis=2)


def spread(y):
    return np.std(y)
