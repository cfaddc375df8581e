"""A sixth method, ridge regression: all that a new one has to say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from gpukfl.core._annotations import Floats
from gpukfl.core._array import Array, array_namespace, like, to_host
from gpukfl.core._checks import check_number
from gpukfl.core._results import History, Status
from gpukfl.estimators._base import ArrayRegressor
from gpukfl.estimators._classifier import OneHotClassifier
from gpukfl.estimators._data import Data
from gpukfl.estimators._features import LinearFeatures
from gpukfl.estimators._fitted import Tried, held
from gpukfl.estimators._learner import SteppedLearner
from gpukfl.estimators._samples import Splits
from gpukfl.estimators._search import Search, Tuner, first_untried_setting
from gpukfl.inspection import Description, Importances
from gpukfl.predictor import Function

RIDGES = (1e-3, 1e-2, 1e-1, 1.0)


def solve(problem: Data, ridge: float) -> Array:
    """Coefficients (d, t) of the least squares with the ridge."""
    xp, X, Y = array_namespace(problem.Y), problem.rows.whole(), problem.Y
    w = xp.ones_like(Y[:, :1]) if problem.weights is None else problem.weights
    K = X.T @ (w * X) + ridge * X.shape[0] * xp.eye(X.shape[1], **like(X))
    return xp.linalg.solve(K, X.T @ (w * Y))


@dataclass(frozen=True)
class Grid(Tuner):
    ridges: tuple[float, ...]

    def propose(self, trials, /):
        return first_untried_setting(self.ridges, trials)

    def describe_trial(self, trial, /):
        return {"ridge": trial.setting}


@dataclass(frozen=True)
class RidgeSettings:
    ridge: float | None
    scaling: str | None
    splits: ClassVar[Splits] = Splits()

    def work(self, n, d, /):
        return n * d

    def problem(self, samples, place, run, /):
        return Data(self, samples, place, run)

    def default_setting(self, problem, /):
        return RIDGES[1] if self.ridge is None else self.ridge

    def fit_fold(self, fold, ridge, start, run, /):
        return solve(fold.problem, ridge)

    def predict_fold(self, fold, W, /):
        return fold.held_out.X @ W

    def search(self, folds, problem, run, /):
        if self.ridge is not None:
            return None
        return Search(self, folds(), Grid(RIDGES), run, 0.5)

    def learn(self, problem, choice, run, /):
        W, history = solve(problem, choice.setting), History([0.0], [1.0], [0.0], [0.0])
        run.tell("fit", 0, history)
        return W, history, Status.INTERRUPTED if choice.stopped else Status.CONVERGED


@dataclass(frozen=True, eq=False, kw_only=True)
class Line(Function):
    coef: Annotated[Array, Floats("d", "t")]

    @property
    def width(self):
        return self.coef.shape[0]

    def evaluate(self, X, /):
        return self.intercept + X @ self.coef


class RidgeTried(Tried):
    ridge: float


class RidgeBase(LinearFeatures, SteppedLearner):
    coef_: Array = held("values.coef")
    ridge_: float
    tuning_: list[RidgeTried]
    _values = (Line,)

    def __init__(
        self,
        ridge: float | str = "auto",
        *,
        max_time: float | None = None,
        random_state: Any = None,
        backend: Any = "auto",
        scaling: str | None = "standard",
    ) -> None:
        self.ridge = ridge
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.scaling = scaling

    def _method(self):
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        return RidgeSettings(None if self.ridge == "auto" else float(self.ridge), self.scaling)

    def _keep(self, problem, fitted, choice, back):
        W, history, status = fitted
        coef, self.ridge_ = back(W * problem.y_scale[None, :]), choice.setting
        self._keep_directions(to_host(W), coef)
        self._keep_steps(history, status, (Status.CONVERGED,))
        return Line(intercept=back(problem.y_mean), scaling=problem.rows.scaling, coef=coef)

    def _describe(self, names, /):
        features, importances = names.features, self.feature_importances_
        return Description(
            **self._fit_fields(names, along="ridge", beside=()),
            text=f"ridge {self.ridge_:.3g}",
            panels=(Importances(features, importances, "coefficients"),),
        )


class RidgeRegressor(ArrayRegressor, RidgeBase):
    """Ridge regression."""


class RidgeClassifier(OneHotClassifier, RidgeBase):
    """Ridge regression on one-hot classes."""
