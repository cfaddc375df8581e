"""Every method predicts as well from float32 data as from float64."""

import warnings

import numpy as np
import pytest
from brief import hkrr, regfeal
from sklearn.exceptions import ConvergenceWarning

import gpukfl
from gpukfl._registry import METHODS

N, NEW = 150, 1000
SMALL = {
    "auto": {"effort": "quick"},
    "bkernn": {"n_particles": 20, "ridge": "auto"},
    "hkrr": hkrr(n_centers=50, max_iter=20),
    "selection": {},
    "rkhs_weighting": {"n_parameters": 200},
    "regfeal": regfeal(**{"n_random_features": 100, "n_iter": 2}),
}


def smooth(rng):
    """Few relevant variables of five, far from 0 and of different size."""
    X = rng.standard_normal((N + NEW, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + np.abs(X[:, 2]) + 0.1 * rng.standard_normal(len(X))
    return 5.0 + X * [1.0, 30.0, 1.0, 0.1, 1.0], 100.0 + y


def one_hot(rng):
    """Categories of which some are rare, and a variable beside them."""
    codes = [np.minimum(rng.geometric(0.4, N + NEW) - 1, k - 1) for k in (3, 5, 7)]
    X = np.concatenate([np.eye(k)[c] for k, c in zip((3, 5, 7), codes, strict=True)], axis=1)
    Z = rng.standard_normal((len(X), 1))
    y = np.sin(codes[0] + 2 * codes[1]) + np.cos(3 * codes[2]) + Z[:, 0] * (codes[0] == 1)
    return np.concatenate([X, Z], axis=1), y + 0.2 * rng.standard_normal(len(X))


def classes(rng):
    """Three, by a smooth function."""
    X, y = smooth(rng)
    return X, np.digitize(y, [99.3, 100.7])


@pytest.mark.each
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("draw", [smooth, one_hot, classes])
@pytest.mark.parametrize("method", list(METHODS))
def test_float32_costs_no_accuracy(method, draw):
    X, y = draw(np.random.default_rng(3))
    scores = []
    for dtype in (np.float64, np.float32):
        targets = y if draw is classes else y.astype(dtype)
        model = gpukfl.fit(
            X[:N].astype(dtype), targets[:N], method=method, random_state=0, **SMALL[method]
        )
        scores.append(model.score(X[N:].astype(dtype), targets[N:]))
    assert scores[0] > 0.2
    assert scores[1] > scores[0] - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("heavy", [False, True])
def test_hkrr_starts_from_one_ridge_in_both_precisions(heavy):
    """Smaller ridges than float32 kernels can tell apart do not spoil the score of larger ones."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 5))
    y = np.sin(X[:, 0]) + np.cos(X[:, 1])
    if heavy:
        X = np.exp(2.0 * X)
        y = np.log1p(X[:, 0]) + np.sqrt(X[:, 1])
    y = y + 1e-3 * rng.standard_normal(len(X))
    first = []
    for dtype in (np.float64, np.float32):
        model = gpukfl.HKRRRegressor(**hkrr(n_starts=1, max_iter=1, random_state=1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)  # the ridge is at the edge
            model.fit(X.astype(dtype), y.astype(dtype))
        first.append(model.tuning_[0])
    assert first[0]["ridge"] == first[1]["ridge"]
    assert first[1]["score"] == pytest.approx(first[0]["score"], abs=1e-3)
