"""Small instantiations, their data, and their features by the formulas of Table 1."""

import math

import numpy as np
import pytest
from scipy.special import erf

from gpukfl.instantiations import GaussianSign, RandomKitchenSinks, Stumps

DRAWS = 20_000
DEVIATIONS = 4.0  # standard errors: about one comparison in 16,000 would fail by chance
# Narrow kernels only where draws come close to a parameter
CASES = [
    *[(GaussianSign(s, g), n) for s, g in [(1.0, 1.0), (0.3, 1.0), (2.0, 0.5)] for n in (1, 2)],
    *[(GaussianSign(s, g), 5) for s, g in [(1.0, 2.0), (3.0, 4.0), (0.1, 0.3)]],
    *[(GaussianSign(1.0, constant=c), n) for c in (0.1, 0.9) for n in (5, 30, 100)],
    (GaussianSign(2.0, constant=0.3, constant_of="feature"), 30),
    *[(Stumps(s, g), n) for s, g in [(1.0, 1.0), (0.1, 1.0), (2.0, 0.2)] for n in (1, 2, 5)],
    *[(Stumps(), n) for n in (30, 100)],
]
cases = pytest.mark.parametrize(("instantiation", "n"), CASES, ids=str)
SMALL = [
    (GaussianSign(1.5, 2.0), 3),
    (GaussianSign(constant=0.2), 12),
    (Stumps(0.7, 0.4), 3),
    (RandomKitchenSinks(GaussianSign()), 4),
    (RandomKitchenSinks(), 4),
]
small = pytest.mark.parametrize(("instantiation", "n"), SMALL, ids=str)
EXACT = [case for case in SMALL if not isinstance(case[0], RandomKitchenSinks)]
exact = pytest.mark.parametrize(("instantiation", "n"), EXACT, ids=str)


def samples(rng, count, n):
    """Samples with a row of zeros, one that is far away, and one that is close to zero."""
    X = rng.standard_normal((count, n))
    X[0] = 0.0
    X[1] *= 1e6
    X[2] *= 1e-6
    return X


def drawn(instantiation, n, count=6, seed=1):
    return instantiation.draw(count, n, np.random.RandomState(seed))


def features_of(instantiation, W, X):
    """Expected features (n, T): the shapes times their constants."""
    features = instantiation.features(W, X.shape[1])
    return features.shapes(X) * np.exp(features.log_constants)


def mean_and_error(values):
    """Average over axis 0, and its standard error."""
    return values.mean(axis=0), values.std(axis=0) / math.sqrt(len(values))


def formula(instantiation, W, X):
    """Logarithms of the constants, and shapes, as Table 1 writes them."""
    n = X.shape[1]
    s2, g2 = instantiation.sigma**2, instantiation.resolved(n).gamma ** 2
    zeta = (1 / s2 + 1 / g2) ** -0.5
    moved = W / (1 + g2 / s2)
    if isinstance(instantiation, GaussianSign):
        norms = np.linalg.norm(X, axis=1, keepdims=True)
        products = X @ moved.T / np.where(norms > 0, norms, 1.0)
        logs = -n / 2 * np.log(1 + s2 / g2) - np.sum(W**2, axis=1) / (2 * s2 + 2 * g2)
        return logs, erf(products / (math.sqrt(2) * zeta))
    logs = np.log(zeta / np.sqrt(s2) / n) - W[:, 1] ** 2 / (2 * s2 + 2 * g2)
    columns = X[:, W[:, 0].astype(int)]
    return logs, erf((columns - moved[:, 1]) / (math.sqrt(2) * zeta))
