"""Data and small models for the tests of the HKRR estimators."""

import numpy as np
import oracles
from brief import hkrr

from gpukfl import HKRRClassifier, HKRRRegressor

N, D = 120, 5
RNG = np.random.default_rng(23)
X = RNG.uniform(-1, 1, (N, D))
NEW = RNG.uniform(-1, 1, (40, D))
DIRECTION = np.array([[0.8], [-0.6], [0.0], [0.0], [0.0]])
Y = np.sin(3 * X @ DIRECTION)[:, 0]
Y_NEW = np.sin(3 * NEW @ DIRECTION)[:, 0]
Y2 = np.stack([Y, 5.0 - 3.0 * (X @ DIRECTION)[:, 0]], axis=1)
TWO = X[:, 0] * X[:, 1]  # of two directions
LABELS = np.array(["low", "mid", "high"])[np.searchsorted([-0.4, 0.4], (X @ DIRECTION)[:, 0])]
OPTIMIZERS = ["lbfgs", "varpro", "agd"]
FEW = {"n_components": 1, "ridge": 1e-5, "n_starts": 1, "max_iter": 20}
FEW |= {"scaling": None, "random_state": 0}


def regressor(**options):
    """With nothing to choose by hold-out, on the samples as they are."""
    return HKRRRegressor(**hkrr(**{**FEW, **options}))


def classifier(**options):
    return HKRRClassifier(**hkrr(**{**FEW, **options}))


def formula(model, new):
    """Predictions from the fitted attributes, by dense host matrices."""
    B = np.asarray(model.B_, dtype=np.float64)
    K = oracles.gaussian(new @ B.T, model.centers_ @ B.T, model.lengthscale_)
    return model.intercept_ + np.clip(K @ model.dual_coef_, -model.bound_, model.bound_)


def solved(model, X, Y, new, weights=None):
    """Predictions of the normal equations at the model's map, centres, lengthscale and ridge."""
    B, w = model.B_, np.ones(len(X)) if weights is None else weights
    mean = np.average(Y, axis=0, weights=w)
    A, V = X @ B.T, model.centers_ @ B.T
    K, core = (oracles.gaussian(U, V, model.lengthscale_) for U in (A, V))
    # By the features of the centres' kernel with the model's jitter, without which the solution
    # of singular centres is not determined: normal equations would lose all digits
    squares, Q = np.linalg.eigh(core + model.jitter_ * np.eye(len(core)))
    seen = squares > 1e-14 * squares[-1]  # the others, where there is no jitter, are rounding
    back = Q[:, seen] / np.sqrt(squares[seen])
    T = K @ back
    system = T.T @ (w[:, None] * T) + w.sum() * model.ridge_ * np.eye(seen.sum())
    alpha = back @ np.linalg.solve(system, T.T @ (w[:, None] * (Y - mean)))
    fitted = oracles.gaussian(new @ B.T, V, model.lengthscale_) @ alpha
    return mean + np.clip(fitted, -model.bound_, model.bound_)
