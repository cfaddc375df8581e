"""A quick fit of every method and way of fitting, on data made once."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from brief import bkernn, hkrr, regfeal
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LinearRegression

import gpukfl
from gpukfl.estimators.selection import Path, Permutations, Stability

RNG = np.random.default_rng(5)
X = RNG.uniform(-1.0, 1.0, (150, 3))
Y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.standard_normal(150)
LABELS = np.where(np.median(Y) < Y, "high", "low")
THREE = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))
NEW = RNG.uniform(-1.0, 1.0, (20, 3))


@dataclass(frozen=True)
class Case:
    """A way to fit: by an estimator, or by `gpukfl.fit` with the options of one."""

    estimator: Any
    y: np.ndarray
    method: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    quick: bool = False  # within some milliseconds

    def new(self) -> Any:
        """Make what is to be fitted."""
        return None if self.estimator is None else clone(self.estimator)

    def fit(self, estimator: Any) -> Any:
        """Fit it."""
        if self.method is None:
            return estimator.fit(X, self.y)
        options = {"progress": False, **dict(self.options)}
        rows = slice(_TUNED_ROWS)
        return gpukfl.fit(X[rows], self.y[rows], method=self.method, **options).estimator

    @staticmethod
    def predict(model: Any) -> np.ndarray:
        """Predict numbers."""
        return model.predict_proba(NEW) if is_classifier(model) else model.predict(NEW)


_TUNED_ROWS = 50  # which are fitted many times

_SIGNS = {"instantiation": "gaussian_sign", "n_parameters": 20, "random_state": 0}
_WEIGHTINGS = {
    "least_squares": _SIGNS,
    "lasso": _SIGNS,
    "optimal_step": _SIGNS,
    "sfgd": _SIGNS,
}
_BKERNN = bkernn(n_particles=8, max_iter=20, random_state=0)
_HKRR = {"n_starts": 1, "n_components": 2, "n_centers": 30, "random_state": 0, "max_iter": 2}
_SELECTION = {"sparsity": Permutations(3), "ridge": 0.01, "random_state": 0}
_REGFEAL = regfeal(
    **{
        "n_random_features": 50,
        "n_iter": 2,
        "max_degree": 3,
        "strength": 0.1,
        "random_state": 0,
    }
)
_TUNED = {
    "bkernn": bkernn(n_particles=4, max_iter=2),
    "hkrr": hkrr(max_iter=1, n_starts=1, n_components=2, n_centers=20),
    "selection": {"sparsity": Permutations(3)},
    "rkhs_weighting": {"n_parameters": 20},
    "regfeal": regfeal(**{"n_random_features": 20, "n_iter": 1, "max_degree": 3}),
}

CASES = {
    **{
        f"weighting, {learner}": Case(gpukfl.RKHSWeightingRegressor(learner=learner, **options), Y)
        for learner, options in _WEIGHTINGS.items()
    },
    **{
        f"weighting, {learner}, classes": Case(
            gpukfl.RKHSWeightingClassifier(learner=learner, **options), THREE
        )
        for learner, options in _WEIGHTINGS.items()
    },
    "weighting, pruned": Case(gpukfl.RKHSWeightingRegressor(prune="risk", **_SIGNS), Y),
    "weighting, lasso, two targets": Case(
        gpukfl.RKHSWeightingRegressor(learner="lasso", **_SIGNS), np.stack([Y, Y**2], axis=1)
    ),
    "bkernn": Case(gpukfl.BKerNNRegressor(**_BKERNN), Y),
    "bkernn, early stopping": Case(gpukfl.BKerNNRegressor(early_stopping=True, **_BKERNN), Y),
    "bkernn, classes": Case(gpukfl.BKerNNClassifier(**_BKERNN), THREE),
    "hkrr": Case(gpukfl.HKRRRegressor(**hkrr(**_HKRR)), Y),
    "hkrr, varpro": Case(gpukfl.HKRRRegressor(**hkrr(optimizer="varpro", ridge=1e-3, **_HKRR)), Y),
    "hkrr, classes": Case(gpukfl.HKRRClassifier(**hkrr(ridge=1e-3, **_HKRR)), THREE),
    "selection": Case(gpukfl.KernelFeatureSelector(**_SELECTION), Y),
    "selection, stability": Case(
        gpukfl.KernelFeatureSelector(error_control=Stability(4, 5.0), **_SELECTION), Y
    ),
    "selection, path": Case(
        gpukfl.KernelFeatureSelector(hierarchical=False, **{**_SELECTION, "sparsity": Path(3)}),
        Y,
    ),
    "selection, classes": Case(gpukfl.KernelFeatureSelectorClassifier(**_SELECTION), THREE),
    "regfeal": Case(gpukfl.RegFeaLRegressor(retrain="kernel_ridge", **_REGFEAL), Y),
    "regfeal, not retrained": Case(gpukfl.RegFeaLRegressor(retrain=None, **_REGFEAL), Y),
    "regfeal, other regressor": Case(
        gpukfl.RegFeaLRegressor(retrain=LinearRegression(), **_REGFEAL), Y
    ),
    "regfeal, classes": Case(gpukfl.RegFeaLClassifier(**_REGFEAL), THREE),
    "kernel ridge, direct": Case(
        gpukfl.KernelRidgeRegressor(solver="direct", random_state=0), Y, quick=True
    ),
    "kernel ridge, cg": Case(
        gpukfl.KernelRidgeRegressor(solver="cg", random_state=0), Y, quick=True
    ),
    "kernel ridge, centres": Case(
        gpukfl.KernelRidgeRegressor(n_centers=40, random_state=0), Y, quick=True
    ),
    "kernel ridge, falkon": Case(
        gpukfl.KernelRidgeRegressor(solver="falkon", n_centers=40, random_state=0), Y, quick=True
    ),
    "kernel ridge, classes": Case(gpukfl.KernelRidgeClassifier(random_state=0), THREE, quick=True),
    "brownian kernel ridge": Case(gpukfl.BrownianKernelRidge(random_state=0), Y, quick=True),
    **{
        f"fit, {method}": Case(None, Y, method, tuple(options.items()))
        for method, options in _TUNED.items()
    },
    **{
        f"fit, {method}, classes": Case(None, LABELS, method, tuple(options.items()))
        for method, options in _TUNED.items()
    },
}
