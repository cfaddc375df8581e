"""What the scripts on RegFeaL share: the published data, and scores of one fit."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import r2_score

from gpukfl import KernelRidgeRegressor, RegFeaLRegressor, feature_score
from gpukfl.core._array import to_host
from gpukfl.methods import RegFeaLFit, eta_shares
from gpukfl.partitioned._rows import Rows

REFERENCE = "regfeal.json"
TRUE, N_TEST, EXPONENT = 2, 5000, 0.33
MOST = 1000  # rows that are drawn in Experiments 1 and 2, of which the first n are used


@dataclass(frozen=True)
class Sample:
    """Rows to fit and to test on, and the true directions."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    P: np.ndarray

    def first(self, n: int) -> Sample:
        """Keep the first rows to fit."""
        return Sample(self.X[:n], self.y[:n], self.X_test, self.y_test, self.P)


def householder_rotation(d: int) -> np.ndarray:
    """Draw what `scipy.stats.ortho_group.rvs` drew up to SciPy 1.7, from the global generator."""
    H = np.eye(d)
    for k in range(d):
        x = np.random.normal(size=d - k)
        sign = np.sign(x[0]) if x[0] != 0 else 1.0
        squares = x @ x
        rest = squares - x[0] ** 2
        x[0] += sign * np.sqrt(squares)
        x /= np.sqrt((rest + x[0] ** 2) / 2.0)
        H[:, k:] = -sign * (H[:, k:] - np.outer(H[:, k:] @ x, x))
    return H


def sinus(Z: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * Z).sum(axis=1)


def polynomial(Z: np.ndarray) -> np.ndarray:
    return Z.sum(axis=1) - (Z**2).sum(axis=1) + 2.0 * Z[:, 0] * Z[:, 1] ** 3 - 4.0


TARGETS = {"sinus": sinus, "polynomial": polynomial}


def draw_sample(
    target: str, d: int, seed: int, *, n: int = MOST, rotated: bool = True, noise: float = 0.0
) -> Sample:
    """Draw the authors' samples, in their order: uniform X of unit variance."""
    np.random.seed(seed)
    X, X_test = (np.sqrt(3.0) * (2.0 * np.random.rand(k, d) - 1.0) for k in (n, N_TEST))
    P = (householder_rotation(d) if rotated else np.eye(d))[:, :TRUE]
    y, y_test = (
        TARGETS[target](Z @ P) + noise * np.random.normal(size=len(Z)) for Z in (X, X_test)
    )
    return Sample(X, y, X_test, y_test, P)


def ceiling(sample: Sample, noise: float) -> float:
    """R² of the true function on the noisy test targets, in expectation."""
    spread = np.sum((sample.y_test - sample.y_test.mean()) ** 2)
    return float(1.0 - len(sample.y_test) * noise**2 / spread)


def hermite_r2(model: RegFeaLRegressor, sample: Sample) -> float:
    """Test R² of the Hermite features themselves, without the regression on the directions."""
    alone = copy.copy(model)
    alone.predictor_ = dataclasses.replace(model.predictor_, values=model._features)
    return float(r2_score(sample.y_test, alone.predict(sample.X_test)))


def regression_on(directions: np.ndarray, sample: Sample) -> float:
    """Test R² of kernel ridge regression on the coordinates along some directions (d, k)."""
    model = KernelRidgeRegressor(scaling=None, random_state=0, backend="numpy")
    model.fit(sample.X @ directions, sample.y)
    return float(model.score(sample.X_test @ directions, sample.y_test))


def score_of(model: Any, P: np.ndarray) -> float:
    """Feature score of the directions, or variables, with the largest η."""
    return feature_score(P, np.asarray(model.R_) * model.importances_)


def dimension_score(found: int, d: int) -> float:
    return 1.0 - abs(found - TRUE) / (d - TRUE)


# ---------------------------------------------------------------------- of the method by itself


def r2_of(fit: RegFeaLFit, sample: Sample) -> float:
    """Test R² of the Hermite features, fitted to targets less their mean."""
    f = to_host(fit.predict(Rows(sample.X_test, fit.rows.reference)))[:, 0]
    return float(r2_score(sample.y_test, sample.y.mean() + f))


def features_of(fit: RegFeaLFit, P: np.ndarray) -> float:
    """Feature score of the directions with the largest η."""
    return feature_score(P, fit.R * eta_shares(fit.eta, EXPONENT))
