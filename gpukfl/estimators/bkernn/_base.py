"""What the BKerNN estimators share: parameters, what is kept of a fit, and predictions."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpukfl._array import Array, array_namespace, to_host
from gpukfl._checks import check_choice, check_kind, check_number, check_switch
from gpukfl._places import Backend
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._features import LinearFeatures
from gpukfl.estimators._learner import Choice, SteppedLearner
from gpukfl.estimators._validation import check_finite_result
from gpukfl.estimators.bkernn._attributes import ATTRIBUTES, RULES, TRIED
from gpukfl.estimators.bkernn._description import describe
from gpukfl.estimators.bkernn._problem import Knots, Problem, Setting
from gpukfl.estimators.bkernn._search import BKerNN, name_of
from gpukfl.inspection import Description, Names
from gpukfl.methods import BKerNNFit, ShapeFunctions
from gpukfl.penalties import PENALTIES, Penalty
from gpukfl.solvers import ProximalGradient

_FIRST_PENALTY = "concave_feature"
_OPTIMIZER = ProximalGradient("auto", 200, 3e-4)
_EARLY = 0.1  # of the samples, held out by early stopping
_QUIET = (Status.CONVERGED, Status.EARLY_STOPPED)


class BKerNNBase(LinearFeatures, SteppedLearner):
    """The common part: parameters, what is kept of a fit, and predictions."""

    _tried = TRIED
    _predicts = "BKerNN"
    _attributes = ATTRIBUTES
    _rules = RULES
    _values = (ProximalGradient, Knots, *PENALTIES.values())
    _renamed: ClassVar[dict[str, str]] = {
        "concavity": "give penalty=ConcaveFeature(concavity)",
        "max_iter": "give optimizer=ProximalGradient(max_iter=...)",
        "tol": "give optimizer=ProximalGradient(tol=...)",
        "step_size": "give optimizer=ProximalGradient(step_size=...)",
        "knot_tolerance": "give knots=Knots(tolerance=...)",
        "validation_fraction": "give early_stopping=0.1, a share of the samples",
    }

    def __init__(
        self,
        n_particles: int | str = "auto",
        *,
        penalty: str | Penalty = _FIRST_PENALTY,
        ridge: float | str = "auto",
        penalty_strength: float = 1.0,
        optimizer: ProximalGradient | None = None,
        early_stopping: bool | float = False,
        knots: int | str | Knots | None = "auto",
        warm_start: bool = False,
        max_time: float | None = None,
        random_state: Any = None,
        backend: str | Backend = "auto",
        scaling: str | None = "auto",
        verbose: int = 0,
    ) -> None:
        self.n_particles = n_particles
        self.penalty = penalty
        self.ridge = ridge
        self.penalty_strength = penalty_strength
        self.optimizer = optimizer
        self.early_stopping = early_stopping
        self.knots = knots
        self.warm_start = warm_start
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.scaling = scaling
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def _method(self) -> BKerNN:
        whole = numbers.Integral
        check_number("n_particles", self.n_particles, kind=whole, low=1, also=("auto",))
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto", "tune"))
        check_number("penalty_strength", self.penalty_strength, low=0)
        check_kind("optimizer", self.optimizer, (ProximalGradient, type(None)))
        also = (True, False)
        check_number("early_stopping", self.early_stopping, low=0, high=0.9, also=also)
        check_switch("warm_start", self.warm_start)
        early = self.early_stopping
        return BKerNN(
            n_particles=None if self.n_particles == "auto" else int(self.n_particles),
            penalties=self._penalties(),
            ridge=None if isinstance(self.ridge, str) else float(self.ridge),
            climbs=self.ridge == "tune",
            penalty_strength=float(self.penalty_strength),
            optimizer=self.optimizer or _OPTIMIZER,
            held_out_share=_EARLY if early is True else float(early),
            knots=self.knots if isinstance(self.knots, Knots) else Knots(self.knots),
            start=getattr(self, "W_", None) if self.warm_start else None,
            scaling=self.scaling,
        )

    def _penalties(self) -> list[Penalty]:
        """Give those to choose among."""
        if isinstance(self.penalty, Penalty):
            return [self.penalty]
        check_choice("penalty", self.penalty, (*PENALTIES, "tune"))
        if self.penalty != "tune":
            return [PENALTIES[self.penalty]()]
        return [kind() for kind in PENALTIES.values()]

    def _keep(
        self,
        problem: Problem,
        fit: BKerNNFit,
        choice: Choice[Setting, Any],
        back: Callable[[Array], Array],
    ) -> None:
        xp = array_namespace(problem.reference)
        shapes = problem.shapes(fit)
        scale, mean = problem.y_scale, problem.y_mean
        with np.errstate(over="ignore"):
            intercept = back(xp.astype(fit.intercept, xp.float64) * scale + mean)
            values = back(shapes.values * scale[None, None, :])
            dual_coef = None
            if problem.rows.partitioning is None:  # else they stay with their rows
                dual_coef = back(xp.astype(fit.alpha, xp.float64) * scale[None, :])
        check_finite_result(intercept, values, *([] if dual_coef is None else [dual_coef]))
        self.W_ = back(fit.W)
        self.intercept_, self.dual_coef_ = intercept, dual_coef
        self.shape_functions_ = ShapeFunctions(back(shapes.knots), values)
        self._keep_directions(to_host(fit.W), self.W_)
        self.penalty_, self.ridge_ = name_of(choice.setting.penalty), problem.ridge(choice.setting)
        self.n_knots_ = problem.n_knots
        self.knots_error_ = problem.knots_error(fit)
        self.solve_residual_ = fit.solve_residual
        self._keep_steps(fit.history, fit.status, _QUIET)
        if fit.solve_status is not Status.CONVERGED:
            msg = (
                f"the final solve ended with a relative residual of {fit.solve_residual:.1e}: "
                f"{fit.solve_status.value}"
            )
            warn(msg, ConvergenceWarning)

    @property
    def feature_matrix_(self) -> Array:
        """WWᵀ/m (n_features, n_features), when it is asked for."""
        return self.W_ @ self.W_.T / self.W_.shape[1]

    # ------------------------------------------------------------------ description

    def _describe(self, names: Names, /) -> Description:
        return describe(self, names)
