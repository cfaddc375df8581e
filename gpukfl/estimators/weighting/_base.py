"""What the RKHS weightings share: parameters, the fit, and what was learned."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import Array, array_namespace, beside, take, to_host
from gpukfl._checks import check_choice, check_number, check_switch
from gpukfl._draws import drawn
from gpukfl._places import Backend
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._data import mover
from gpukfl.estimators._features import DirectionProfiles
from gpukfl.estimators._learner import Choice, SteppedLearner
from gpukfl.estimators._validation import check_finite_result
from gpukfl.estimators.weighting._attributes import ATTRIBUTES, RULES, TRIED
from gpukfl.estimators.weighting._description import describe
from gpukfl.estimators.weighting._gradients import principal_gradients
from gpukfl.estimators.weighting._problem import Learned, WeightingProblem
from gpukfl.estimators.weighting._search import (
    CHOICES,
    RKHSWeighting,
    Setting,
    Weighting,
    candidates,
)
from gpukfl.estimators.weighting._settings import LEARNERS, Descent, Pruning
from gpukfl.inspection import Description, Names
from gpukfl.instantiations import Instantiation
from gpukfl.methods import LOSSES, PRUNING_RULES, doubling, generalization_gap
from gpukfl.operators import FeatureOperator

_QUIET = (Status.CONVERGED, Status.STALLED)  # no further progress is where a fit may well end
_LARGEST_LOG = 300.0  # beyond this a bound says nothing anyway


class WeightingBase(DirectionProfiles, SteppedLearner):
    """The common part: parameters, what is kept of a fit, and predictions."""

    _tried = TRIED
    _predicts = "RKHSWeighting"
    _attributes = ATTRIBUTES
    _rules = RULES
    _values = (Descent, Pruning)
    _renamed: ClassVar[dict[str, str]] = {
        "radius": "give learner=Descent(radius=...)",
        "batch_size": "give learner=Descent(batch_size=...)",
        "prune_tolerance": "give prune=Pruning(rule, tolerance)",
    }

    def __init__(
        self,
        n_parameters: int = 1000,
        *,
        learner: str | Descent = "least_squares",
        instantiation: str | Instantiation = "auto",
        loss: str = "squared",
        ridge: float | str = "auto",
        prune: str | Pruning | None = None,
        bias: bool = True,
        max_time: float | None = None,
        random_state: Any = None,
        backend: str | Backend = "auto",
        scaling: str | None = "auto",
        verbose: int = 0,
    ) -> None:
        self.n_parameters = n_parameters
        self.learner = learner
        self.instantiation = instantiation
        self.loss = loss
        self.ridge = ridge
        self.prune = prune
        self.bias = bias
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.scaling = scaling
        self.verbose = verbose

    # ------------------------------------------------------------------ fitting

    def _method(self) -> RKHSWeighting:
        whole = numbers.Integral
        check_number("n_parameters", self.n_parameters, kind=whole, low=1)
        if not isinstance(self.instantiation, Instantiation):
            check_choice("instantiation", self.instantiation, CHOICES)
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_switch("bias", self.bias)
        learner = self._learner()
        check_choice("loss", self.loss, tuple(LOSSES))
        if self.loss != "squared" and not isinstance(learner, Descent):
            msg = (
                f"expected loss='squared' with learner={learner!r}, which is a least squares "
                f"fit, got {self.loss!r}: the others need learner='optimal_step' or 'sfgd'"
            )
            raise ValueError(msg)
        if LOSSES[self.loss].for_labels and not is_classifier(self):
            msg = f"expected loss='squared' for a regression, got {self.loss!r}"
            raise ValueError(msg)
        return RKHSWeighting(
            n_parameters=int(self.n_parameters),
            learner=learner,
            candidates=candidates(self.instantiation),
            loss=LOSSES[self.loss],
            ridge=None if isinstance(self.ridge, str) else float(self.ridge),
            prune=self._pruning(),
            bias=bool(self.bias),
            # By cross-validation on 18 sets with heavy tails: "robust" lost in the mean
            scaling="standard" if self.scaling == "auto" else self.scaling,
        )

    def _learner(self) -> str | Descent:
        if isinstance(self.learner, Descent):
            return self.learner
        check_choice("learner", self.learner, tuple(LEARNERS))
        return LEARNERS[self.learner]

    def _pruning(self) -> Pruning | None:
        if not isinstance(self.prune, Pruning):
            check_choice("prune", self.prune, (None, *PRUNING_RULES))
        found = Pruning(self.prune) if isinstance(self.prune, str) else self.prune
        if found is not None and found.rule == "error" and not is_classifier(self):
            msg = "expected another rule than prune='error' for a regression: 'risk' is like it"
            raise ValueError(msg)
        return found

    def _keep(
        self,
        problem: WeightingProblem,
        fitted: Weighting,
        choice: Choice[Setting, Learned],
        back: Callable[[Array], Array],
    ) -> None:
        xp = array_namespace(problem.reference)
        learned, A, operator = fitted.learned, fitted.A, fitted.learned.operator
        W = back(operator.W)
        exact = mover(W, "float64")
        kept = np.flatnonzero(np.any(to_host(A) != 0, axis=1))
        with np.errstate(over="ignore"):
            # Large coefficients cancel in predictions: they are rounded only after that
            coef = exact(xp.astype(A, xp.float64) * problem.y_scale[None, :])
        intercept = exact(problem.y_mean)
        check_finite_result(coef, intercept)
        self.coef_, self.intercept_ = take(coef, kept), intercept
        self.parameters_ = take(W, kept)
        self.instantiation_, self.log_scale_ = operator.instantiation, operator.log_scale
        self.n_parameters_ = len(kept)
        self._keep_norms(problem, fitted, exact)
        self.ridge_ = math.exp(min(learned.log_ridge, 700.0))
        self.jitter_, self.gap_ = learned.jitter, learned.gap
        sample = problem.rows.at(drawn(problem.rng, problem.n, min(problem.n, 200)))
        self.expectation_error_ = operator.features.standard_error(sample)
        self.pruning_ = fitted.pruning
        self._n_samples = learned.n_seen or problem.n
        self._keep_steps(learned.history, learned.status, tuple(Status))
        self._keep_validation(problem, fitted, choice)
        self._keep_gradients(problem, operator, A)
        self._warn(problem, learned)

    def _keep_norms(
        self, problem: WeightingProblem, fitted: Weighting, exact: Callable[[Array], Array]
    ) -> None:
        """Set the norm of each target's weighting, and its logarithm."""
        A, operator, xp = fitted.A, fitted.learned.operator, array_namespace(fitted.A)
        largest = xp.max(xp.abs(A), axis=0)  # squares of small coefficients would be 0
        unit = xp.where(largest > 0, largest, xp.ones_like(largest))
        squares = to_host(xp.sum(A / unit * (operator.core @ (A / unit)), axis=0))
        unit = to_host(unit) * to_host(problem.y_scale)
        there = exact(problem.y_mean)
        with np.errstate(divide="ignore", over="ignore"):
            roots = 0.5 * np.log(np.clip(squares, 0.0, None))
            logs = roots + np.log(unit) - operator.log_scale
            self.log_rkhs_norm_ = beside(logs, there)
            self.rkhs_norm_ = beside(np.exp(logs), there)

    def _keep_validation(
        self, problem: WeightingProblem, fitted: Weighting, choice: Choice[Setting, Learned]
    ) -> None:
        """Set what only some targets have."""

    def _keep_gradients(
        self, problem: WeightingProblem, operator: FeatureOperator, A: Array
    ) -> None:
        """Set the average outer product of gradients, and the directions that it shows."""
        root, unit, reach = principal_gradients(problem, operator, A)
        with np.errstate(over="ignore"):
            self._gradients = beside(root * unit, self.parameters_)
        self._keep_directions(root.T, self.parameters_)
        self._keep_range(reach)

    @property
    def feature_matrix_(self) -> Array:
        """Average outer product of gradients (n_features, n_features), when it is asked for."""
        return self._gradients.T @ self._gradients

    def _warn(self, problem: WeightingProblem, learned: Learned) -> None:
        if learned.status not in _QUIET:
            seen = self._n_samples
            part = "" if seen == problem.n else f" (fitted on {seen} of {problem.n} rows)"
            msg = f"{type(self).__name__}: {learned.status.value}{part}"
            warn(msg, ConvergenceWarning)
        if learned.raised:
            msg = (
                "the normal equations are singular in this precision: "
                f"{learned.jitter:.1e} of its mean diagonal was added to its diagonal"
            )
            warn(msg, ConvergenceWarning)

    # ------------------------------------------------------------------ prediction

    @property
    def theta_(self) -> float:
        """θ of the instantiation at the data's dimension, eq. (26): exact, or a bound."""
        check_is_fitted(self)
        return math.exp(self.instantiation_.log_theta(self.n_features_in_ + self.bias))

    def _gap(self, n: int, delta: float, radius: str | float, largest_y: float) -> float:
        """Gap of Theorem 10 for one target, in units of the loss."""
        check_is_fitted(self)
        check_number("delta", delta, low=0, low_allowed=False)
        log_norm = float(self.log_rkhs_norm_[0])
        if radius == "doubling":
            log_radius, delta = doubling(log_norm, delta)
        elif radius == "norm":
            log_radius = log_norm
        else:
            check_number("radius", radius, low=0, low_allowed=False, also=("doubling", "norm"))
            log_radius = math.log(float(radius))
            if log_norm > log_radius:
                norm = math.exp(min(log_norm, _LARGEST_LOG))
                msg = f"expected a radius of at least the norm {norm:.4g}, got {radius}"
                raise ValueError(msg)
        log_theta = self.instantiation_.log_theta(self.n_features_in_ + self.bias)
        capacity = math.exp(min(log_theta + log_radius, _LARGEST_LOG))
        loss = LOSSES[self.loss]
        rho, most = loss.lipschitz(capacity, largest_y), loss.largest(capacity, largest_y)
        return generalization_gap(capacity, rho, most, n, delta)

    # ------------------------------------------------------------------ description

    def _describe(self, names: Names, /) -> Description:
        return describe(self, names)
