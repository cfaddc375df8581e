"""Signals of kernel feature selection, and the objective of some samples."""

import numpy as np
import pytest

from gpukfl.kernels import Gaussian, ManhattanLaplace
from gpukfl.methods import DenseSelection, FactoredSelection

KERNELS = [ManhattanLaplace(), Gaussian(0.5**0.5)]


def main_effects(rng, n=200, p=30):
    """Signal of the paper's Section 6.1, with less noise."""
    X = rng.standard_normal((n, p))
    return X, X[:, 0] + X[:, 1] ** 2 - 1 + 0.5 * rng.standard_normal(n)


def hierarchy(rng, n=300, p=20):
    """Signal with an interaction below a main effect: Section 6.2, with less noise."""
    X = rng.standard_normal((n, p))
    return X, X[:, 0] + X[:, 0] * X[:, 1] + 0.3 * rng.standard_normal(n)


def objective_of(X, y, kernel=KERNELS[0], *, ridge=0.01, form=DenseSelection, on=None, m=60):
    y = (y - np.mean(y))[:, None]
    X, y = (X, y) if on is None else (on.put(X), on.put(y))
    extra = {}
    if form is FactoredSelection:
        extra = {"n_centers": m, "rng": np.random.RandomState(0)}
    return form(kernel, X, y, ridge, **extra)


def kept(run):
    """Give what `run` gives; an interruption that it lets out would end the whole session."""
    try:
        return run()
    except KeyboardInterrupt:
        return pytest.fail("an interruption got out")
