"""What the RKHS weightings share: parameters, the fit, and what was learned."""

from __future__ import annotations

import math
import numbers
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    beside,
    double_like,
    library_of,
    like,
    to_host,
)
from gpukfl._places import resolve_place
from gpukfl._results import Status
from gpukfl._rows import Rows
from gpukfl._warnings import warn
from gpukfl.estimators._base import HostPickled
from gpukfl.estimators._data import dtype_for, mover
from gpukfl.estimators._features import DirectionProfiles
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, take
from gpukfl.estimators._validation import (
    check_choice,
    check_finite_result,
    check_number,
    check_place,
    check_switch,
    validate_samples,
)
from gpukfl.estimators.weighting._description import describe
from gpukfl.estimators.weighting._problem import LEARNERS, ON_SUMS, Learned, WeightingProblem
from gpukfl.estimators.weighting._pruning import degradation_of
from gpukfl.estimators.weighting._search import (
    CHOICES,
    InstantiationSearch,
)
from gpukfl.inspection import Description, Names
from gpukfl.instantiations import Instantiation
from gpukfl.methods import (
    LOSSES,
    PRUNING_RULES,
    doubling,
    generalization_gap,
    last_accepted,
    pruning_candidates,
)
from gpukfl.operators import FeatureOperator

_QUIET = (Status.CONVERGED, Status.STALLED)  # no further progress is where a fit may well end
_FIT_SHARE = 0.6  # of max_time after which the pass has ended
_GRADIENTS = 500  # rows at which gradients show what matters
_DIFFERENCES = 50  # rows, where these are differences of features in every column
_LARGEST_LOG = 300.0  # beyond this a bound says nothing anyway


class WeightingBase(DirectionProfiles, HostPickled):
    """The common part: parameters, the fit, and everything but what a target means."""

    normalize_y = True  # of a regression

    def __init__(
        self,
        n_parameters: int = 1000,
        *,
        learner: str = "least_squares",
        instantiation: str | Instantiation = "auto",
        loss: str = "squared",
        ridge: float | str = "auto",
        prune: str | None = None,
        prune_tolerance: float = 0.01,
        radius: float = 1000.0,
        batch_size: int = 50,
        bias: bool = True,
        max_time: float | None = None,
        random_state: Any = None,
        backend: str = "auto",
        dtype: str = "auto",
        standardize: bool = True,
        verbose: int = 0,
    ) -> None:
        self.n_parameters = n_parameters
        self.learner = learner
        self.instantiation = instantiation
        self.loss = loss
        self.ridge = ridge
        self.prune = prune
        self.prune_tolerance = prune_tolerance
        self.radius = radius
        self.batch_size = batch_size
        self.bias = bias
        self.max_time = max_time
        self.random_state = random_state
        self.backend = backend
        self.dtype = dtype
        self.standardize = standardize
        self.verbose = verbose

    def _check_parameters(self) -> None:
        whole = numbers.Integral
        check_number("n_parameters", self.n_parameters, kind=whole, low=1)
        check_choice("learner", self.learner, LEARNERS)
        if not isinstance(self.instantiation, Instantiation):
            check_choice("instantiation", self.instantiation, CHOICES)
        check_choice("loss", self.loss, tuple(LOSSES))
        if self.loss != "squared" and self.learner in ON_SUMS:
            msg = (
                f"expected loss='squared' with learner={self.learner!r}, which is a least squares "
                f"fit, got {self.loss!r}: the others need learner='optimal_step' or 'sfgd'"
            )
            raise ValueError(msg)
        if LOSSES[self.loss].for_labels and not is_classifier(self):
            msg = f"expected loss='squared' for a regression, got {self.loss!r}"
            raise ValueError(msg)
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        check_choice("prune", self.prune, (None, *PRUNING_RULES))
        if self.prune == "error" and not is_classifier(self):
            msg = "expected another rule than prune='error' for a regression: 'risk' is like it"
            raise ValueError(msg)
        check_number("prune_tolerance", self.prune_tolerance, low=0, low_allowed=False)
        check_number("radius", self.radius, low=0, low_allowed=False)
        check_number("batch_size", self.batch_size, kind=whole, low=1)
        check_number("max_time", self.max_time, low=0, low_allowed=False, also=(None,))
        check_place(self)
        for switch in ("bias", "standardize"):
            check_switch(switch, getattr(self, switch))

    # ------------------------------------------------------------------ fit

    def _fit(self, samples: Samples, run: Run) -> None:
        """Fit every target and set every attribute; nothing is set on an error."""
        X, n = samples.X, len(samples)
        place = resolve_place(self.backend, X, dtype=dtype_for(self, X), work=n * self.n_parameters)

        problem = WeightingProblem(self, samples, place, run.rng)
        search = InstantiationSearch(problem, self, run)
        learned, tuning = self._learn(problem, search, run)
        self.pruning_: list[dict[str, Any]] | None = None
        chosen = None
        if self.prune is not None:
            try:
                chosen = self._pruned(problem, learned)
            except KeyboardInterrupt:  # the whole model is there
                learned = replace(learned, status=Status.INTERRUPTED)
        self._keep(problem, learned, chosen, X)
        self.tuning_ = tuning
        self._keep_gradients(problem, learned.operator, learned.A if chosen is None else chosen)
        self._warn(problem, learned)

    def _learn(
        self, problem: WeightingProblem, search: InstantiationSearch, run: Run
    ) -> tuple[Learned, list[dict[str, Any]]]:
        """Give the best fit, and what was compared with it."""
        try:
            instantiation = search.choose()
        except KeyboardInterrupt:
            if not search.trials:  # interrupted before anything was learned
                raise
            best = search.best[1]
            return replace(best, status=Status.INTERRUPTED), search.report(best, best)
        if search.is_whole:
            best = search.best[1]
            return best, search.report(best, best)
        last = problem.learn(
            problem.operator(instantiation, search.parameters(instantiation)),
            late=lambda: run.is_over(_FIT_SHARE),
            left=lambda: run.left(_FIT_SHARE),
            tell=run.tell,
            validate=bool(search.trials),
            near=search.best[1] if search.trials else None,
        )
        learned = search.better(last)
        return learned, search.report(learned, last)

    def _pruned(self, problem: WeightingProblem, learned: Learned) -> Array:
        """Algorithm 5: coefficients of the last pruned model that the rule accepts."""
        found = pruning_candidates(to_host(learned.operator.core), to_host(learned.A))
        degradations = degradation_of(problem, learned, found, str(self.prune))
        self.pruning_ = [
            {"n_parameters": one.n_kept, "degradation": worse, "penalty": one.penalty}
            for one, worse in zip(found, degradations, strict=True)
        ]
        chosen = last_accepted(found, lambda k, _: degradations[k] < self.prune_tolerance)
        return learned.A if chosen is None else beside(chosen.B, learned.A)

    def _keep(
        self, problem: WeightingProblem, learned: Learned, pruned: Array | None, X: Array
    ) -> None:
        xp = array_namespace(problem.reference)
        back, exact = mover(X, dtype_for(self, X)), mover(X, "float64")
        A, operator = learned.A if pruned is None else pruned, learned.operator
        kept = np.flatnonzero(np.any(to_host(A) != 0, axis=1))
        with np.errstate(over="ignore"):
            # Large coefficients cancel in predictions: they are rounded only after that
            coef = exact(xp.astype(A, xp.float64) * problem.y_scale[None, :])
        intercept = exact(problem.y_mean)
        check_finite_result(coef, intercept)
        self.coef_, self.intercept_ = take(coef, kept), intercept
        self.parameters_ = take(back(operator.W), kept)
        self.instantiation_, self.log_scale_ = operator.instantiation, operator.log_scale
        there = array_namespace(X).empty((0,), **double_like(X))
        self._keep_scaling(problem.rows, X)
        self.n_parameters_ = len(kept)
        largest = xp.max(xp.abs(A), axis=0)  # squares of small coefficients would be 0
        unit = xp.where(largest > 0, largest, xp.ones_like(largest))
        squares = to_host(xp.sum(A / unit * (operator.core @ (A / unit)), axis=0))
        unit = to_host(unit) * to_host(problem.y_scale)
        with np.errstate(divide="ignore", over="ignore"):
            roots = 0.5 * np.log(np.clip(squares, 0.0, None))
            logs = roots + np.log(unit) - operator.log_scale
            self.log_rkhs_norm_ = beside(logs, there)
            self.rkhs_norm_ = beside(np.exp(logs), there)
        self.ridge_ = math.exp(min(learned.log_ridge, 700.0))
        self.jitter_, self.gap_ = learned.jitter, learned.gap
        sample = problem.rows.at(problem.rng.choice(problem.n, min(problem.n, 200), replace=False))
        self.expectation_error_ = operator.features.standard_error(sample)
        self.history_, self.n_iter_ = learned.history, len(learned.history)
        self.status_ = learned.status.name
        self.place_ = f"{library_of(problem.reference)} {problem.reference.device}"
        self._library = library_of(X)
        self._n_samples = learned.n_seen or problem.n
        self._keep_validation(problem, learned, A)

    def _keep_validation(self, problem: WeightingProblem, learned: Learned, A: Array) -> None:
        """Set what only some targets have."""

    def _keep_gradients(
        self, problem: WeightingProblem, operator: FeatureOperator, A: Array
    ) -> None:
        """Set the average outer product of gradients, and the directions that it shows."""
        at_most = _GRADIENTS if operator.features.differentiable else _DIFFERENCES
        rows = np.arange(problem.n)
        if problem.root_weights is not None:
            rows = np.flatnonzero(to_host(problem.root_weights)[:, 0])
        if len(rows) > at_most:
            rows = np.sort(problem.rng.choice(rows, at_most, replace=False))
        X = problem.rows.at(rows)
        xp = array_namespace(X)
        w = np.ones(len(rows))
        if problem.root_weights is not None:
            w = to_host(problem.root_weights)[rows, 0].astype(np.float64) ** 2
        first = 1 if self.bias else 0
        M = np.zeros((problem.d - first, problem.d - first))
        reach = to_host(X)[:, first:].astype(np.float64)
        scales = to_host(problem.y_scale)
        unit = float(scales.max())  # whose square may be beyond numbers
        for j in range(A.shape[1]):
            b = xp.astype(A[:, j], X.dtype) * operator.factors
            P = xp.ones((len(rows), 1), **like(X)) * b[None, :]
            g = to_host(operator.features.pullback(X, P)).astype(np.float64)[:, first:]
            M += float(scales[j] / unit) ** 2 * (g * w[:, None]).T @ g / w.sum()
        values, vectors = np.linalg.eigh(M)
        roots = np.sqrt(np.clip(values[::-1], 0.0, None))
        with np.errstate(over="ignore"):
            self.feature_matrix_ = beside(M * unit * unit, self.parameters_)
        self._keep_directions(vectors[:, ::-1] * roots)
        self._keep_range(reach)

    def _warn(self, problem: WeightingProblem, learned: Learned) -> None:
        status = Status[self.status_]
        if problem.constant and not problem.labels:
            msg = "y is constant: the model predicts that constant"
            warn(msg, UserWarning)
        if status not in _QUIET:
            seen = learned.n_seen or problem.n
            part = "" if seen == problem.n else f" (fitted on the first {seen} of {problem.n} rows)"
            msg = f"{type(self).__name__}: {status.value}{part}"
            warn(msg, ConvergenceWarning)
        if learned.raised:
            msg = (
                "the normal equations are singular in this precision: "
                f"{learned.jitter:.1e} of its mean diagonal was added to its diagonal"
            )
            warn(msg, ConvergenceWarning)

    # ------------------------------------------------------------------ prediction

    def _operator(self, X: Array) -> FeatureOperator:
        xp = array_namespace(self.parameters_)
        reference = xp.empty((0,), **like(self.parameters_))
        rows = Rows(X, reference, self.mean_, self.scale_, self.limits_, leading_ones=self.bias)
        return FeatureOperator(self.instantiation_, rows, self.parameters_, self.log_scale_)

    def _predict(self, X: Any, method: str) -> Array:
        """Fitted functions at `X`: (n, t)."""
        check_is_fitted(self)
        return self._evaluate(validate_samples(self, X, reset=False, method=method))

    def _evaluate(self, X: Array) -> Array:
        xp = array_namespace(self.coef_)
        if not self.n_parameters_:
            flat = xp.zeros((X.shape[0], self.intercept_.shape[0]), **like(self.coef_))
            return xp.astype(self.intercept_ + flat, X.dtype)
        return xp.astype(self.intercept_ + self._operator(X) @ self.coef_, X.dtype)

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
