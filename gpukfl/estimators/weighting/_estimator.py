"""RKHS weightings as scikit-learn estimators."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, TypedDict, cast

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._annotations import Count, Doubles, Floats
from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_like,
    take_rows,
    to_host,
)
from gpukfl.core._checks import check_bool, check_choice, check_number
from gpukfl.core._places import Backend
from gpukfl.core._random import draw_indices
from gpukfl.core._results import Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor, unit_text
from gpukfl.estimators._classifier import CLASS_WEIGHT, OF_CLASSIFIERS, OneHotClassifier
from gpukfl.estimators._dask import run_on_data_device
from gpukfl.estimators._data import make_mover
from gpukfl.estimators._features import DirectionProfiles, profile_curves
from gpukfl.estimators._fitted import Tried, held
from gpukfl.estimators._learner import SearchResult, SteppedLearner
from gpukfl.estimators._validation import (
    check_finite_result,
    validate_labels,
    validate_samples,
    validate_targets,
)
from gpukfl.estimators.scaling import SCALING_ATTRIBUTE, STANDARD_SCALING
from gpukfl.estimators.weighting._data import (
    WeightingFit,
    WeightingProblem,
    feature_principal_gradients,
)
from gpukfl.estimators.weighting._fit import (
    CHOICES,
    QUIET,
    PrunedWeighting,
    RKHSWeighting,
    WeightingSetting,
    instantiation_candidates,
    instantiation_text,
)
from gpukfl.estimators.weighting._settings import LEARNERS, Descent, Pruning
from gpukfl.inspection import (
    Bound,
    Curves,
    Description,
    Directions,
    Importances,
    Names,
    Objective,
    Panel,
    Sparsity,
    StumpCurves,
    Tuning,
)
from gpukfl.instantiations import Instantiation, Stumps
from gpukfl.losses import Loss
from gpukfl.methods import LOSSES, PRUNING_RULES, doubling, generalization_gap
from gpukfl.operators import FeatureOperator
from gpukfl.predictor import FeatureSum
from gpukfl.tables._monotone import MONOTONE

# ------------------------------------------------------------------------------ attributes


class WeightingTried(Tried):
    """A setting that was tried."""

    instantiation: str
    n_parameters: Annotated[int, Count()]
    n_samples: Annotated[int, Count()]
    ridge: float


class PruningStep(TypedDict):
    """A step of Algorithm 5."""

    n_parameters: Annotated[int, Count()]
    degradation: float
    penalty: float


class Validation(TypedDict):
    """Risks of a classification on held-out folds and on training rows."""

    risk: float
    error: float
    training_risk: float
    n_samples: Annotated[int, Count()]
    unit: float


# ----------------------------------------------------------------------------- description

_FEATURES = 6  # curves of stumps in one picture
_REACH = 3.0  # range of these curves in standard deviations
_DELTA = 0.05


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    instantiation, learner = instantiation_text(e.instantiation_), _learner_name(e.learner)
    facts = {
        "instantiation": instantiation,
        "learner": learner,
        "parameters": f"{e.n_parameters_} of {e.n_parameters}",
        "ridge λ": f"{e.ridge_:.3g}",
        "RKHS norm": ", ".join(f"{norm:.4g}" for norm in e.rkhs_norm_[:5]),
        "θ": f"{e.theta_:.3g}" if _has_theta(e) else "none",
    }
    if e.expectation_error_:
        facts["error of expectations"] = f"{e.expectation_error_:.1e}"
    beside = ("instantiation", "n_parameters", "n_samples")
    about = e._fit_fields(names, along="ridge", beside=beside)
    return Description(
        **about,
        text=(
            f"{instantiation}, {e.n_parameters_} of {e.n_parameters} "
            f"parameters, {learner}, λ = {e.ridge_:.3g}"
        ),
        products="by blocks",
        facts=facts,
        note=f"A direction's loadings are the weights of the columns in it. {_caption(e)}",
        panels=_panels(e, names, about["tuning"]),
    )


def _caption(e: Any) -> str:
    if isinstance(e.instantiation_, Stumps):
        return "Stumps of a feature add up to a curve: what they do to the prediction along it."
    return (
        "A profile is the prediction along one direction in which the model varies, through the "
        "middle of the data."
    )


def _panels(e: Any, names: Names, tuning: Tuning) -> tuple[Panel, ...]:
    features, importances = names.features, e.feature_importances_
    by_stumps = isinstance(e.instantiation_, Stumps)
    panels: list[Panel] = [
        Importances(features, importances, "root mean squares of the derivatives"),
        Directions(features, e.components_, importances),
        _stump_panel(e, names) if by_stumps else profile_curves(e, names),
        _sparsity_panel(e),
        tuning,
    ]
    if is_classifier(e) and e.validation_ is not None and e.coef_.shape[1] == 1 and _has_theta(e):
        panels.append(_bound_panel(e))
    return (*panels, Objective(tuple(e.history_.objective)))


def _learner_name(learner: str | Descent) -> str:
    """Return the name of a learner in words."""
    if isinstance(learner, Descent):
        learner = "optimal_step" if learner.optimal_step else "sfgd"
    return learner.replace("_", " ")


def _sparsity_panel(e: Any) -> Sparsity:
    prune = Pruning(e.prune) if isinstance(e.prune, str) else e.prune
    steps = () if e.pruning_ is None else e.pruning_
    pruned = tuple((step["n_parameters"], step["degradation"]) for step in steps)
    rule, tolerance = ("None", 0.0) if prune is None else (prune.rule, prune.tolerance)
    return Sparsity(np.abs(e.coef_).sum(axis=1), e.n_parameters, pruned, tolerance, rule)


def _stump_panel(e: Any, names: Names) -> Curves:
    """Return the sum of the stumps of each leading feature as curves."""
    first = int(e.bias)
    n_columns = e.n_features_in_ + first
    steps = np.linspace(-_REACH, _REACH, 301)
    labels, values, thresholds = [], [], []
    for feature in np.argsort(-e.feature_importances_, kind="stable")[:_FEATURES]:
        own = e.parameters_[:, 0] == feature + first
        if not own.any():
            continue
        X = np.zeros((len(steps), n_columns), dtype=e.coef_.dtype)
        X[:, feature + first] = steps
        features = e.instantiation_.features(e.parameters_[own], n_columns)
        factors = np.exp(features.log_constants - e.log_scale_)
        values.append(features.shapes(X) @ (factors[:, None] * e.coef_[own]))
        labels.append(names.features[feature])
        thresholds.append(e.parameters_[own, 1])
    return StumpCurves(
        tuple(labels),
        (steps,) * len(labels),
        tuple(values),
        names.outputs,
        one_unit=names.one_unit,
        title="Decision stumps, summed (ticks: thresholds)",
        xlabel="feature" + unit_text(e),
        thresholds=tuple(thresholds),
    )


def _bound_panel(e: Any) -> Bound:
    known = e.validation_
    bounds = {}
    for radius, name in (("norm", "bound, B = norm"), ("doubling", "bound, any B")):
        gap = e._gap(known["n_samples"], _DELTA, radius, 1.0)
        bounds[f"{name}, δ = {_DELTA}"] = known["training_risk"] + known["unit"] * gap
    return Bound(
        {"share of wrong labels, held out": known["error"], "risk, held out": known["risk"]},
        {"risk, training": known["training_risk"]},
        bounds,
    )


def _has_theta(e: Any) -> bool:
    try:
        e.instantiation_.log_theta(e.n_features_in_ + e.bias)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------------------------ base

_LARGEST_LOG = 300.0  # larger bounds are vacuous


class WeightingBase(DirectionProfiles, SteppedLearner):
    """The base of regressor and classifier: parameters, fitted attributes and predictions."""

    parameters_: Array = held("values.parameters")
    coef_: Array = held("values.coef")
    instantiation_: Instantiation = held("values.instantiation")
    log_scale_: float = held("values.log_scale")
    _describe = describe
    _gradients: Annotated[Array, Floats("n_gradients", "n_features")]
    log_rkhs_norm_: Annotated[Array, Doubles("n_targets")]
    rkhs_norm_: Annotated[Array, Doubles("n_targets")]
    ridge_: float
    jitter_: float
    gap_: float
    expectation_error_: float
    pruning_: list[PruningStep] | None
    tuning_: list[WeightingTried]
    _values = (Descent, Pruning, WeightingSetting)
    _renamed: ClassVar[dict[str, str]] = {
        "radius": "pass learner=Descent(radius=...)",
        "batch_size": "pass learner=Descent(batch_size=...)",
        "prune_tolerance": "pass prune=Pruning(rule, tolerance)",
    }

    def __init__(
        self,
        n_parameters: int = 1000,
        *,
        learner: str | Descent = "least_squares",
        instantiation: str | Instantiation = "auto",
        loss: str | Loss = "squared",
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
        check_bool("bias", self.bias)
        learner = self._learner()
        if is_classifier(self):
            check_choice("loss", self.loss, tuple(LOSSES))
        if self._own_loss != "squared" and not isinstance(learner, Descent):
            msg = (
                f"expected loss='squared' with learner={learner!r}, got {self.loss!r}: other "
                "losses need learner='optimal_step' or 'sfgd'"
            )
            raise ValueError(msg)
        return RKHSWeighting(
            n_parameters=int(self.n_parameters),
            learner=learner,
            candidates=instantiation_candidates(self.instantiation),
            loss=LOSSES[self._own_loss],
            ridge=None if isinstance(self.ridge, str) else float(self.ridge),
            prune=self._pruning(),
            bias=bool(self.bias),
            # "robust" was worse on average, on 18 data sets with heavy tails
            scaling="standard" if self.scaling == "auto" else self.scaling,
        )

    @property
    def _own_loss(self) -> str:
        """The algorithms' loss; a regression reweights least squares for other losses."""
        return str(self.loss) if is_classifier(self) else "squared"

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
            msg = (
                "expected prune to be None, 'norm', 'bound' or 'risk' for a regression, got 'error'"
            )
            raise ValueError(msg)
        return found

    def _keep(
        self,
        problem: WeightingProblem,
        fitted: PrunedWeighting,
        choice: SearchResult[WeightingSetting, WeightingFit],
        back: Callable[[Array], Array],
    ) -> FeatureSum:
        learned, A, operator = fitted.learned, fitted.A, fitted.learned.operator
        there = back(operator.W)
        exact = make_mover(there, "float64")
        was_double = operator.W.dtype == double_like(operator.W)["dtype"]
        W = exact(operator.W) if was_double else there
        kept = np.flatnonzero(np.any(to_host(A) != 0, axis=1))
        # Large coefficients cancel in predictions, so they stay float64
        coef = exact(problem.to_target_units(A))
        intercept = exact(problem.y_mean)
        check_finite_result(coef, intercept)
        self._keep_norms(problem, fitted, exact)
        self.ridge_ = math.exp(min(learned.log_ridge, 700.0))
        self.jitter_, self.gap_ = learned.jitter, learned.gap
        sample = problem.rows.gather(draw_indices(problem.rng, problem.n, min(problem.n, 200)))
        self.expectation_error_ = operator.features.standard_error(sample)
        self.pruning_ = cast("list[PruningStep] | None", fitted.pruning)
        self._n_samples = learned.n_seen or problem.n
        self._keep_steps(learned.history, learned.status, tuple(Status))
        self._keep_validation(problem, fitted, choice)
        self._keep_gradients(problem, operator, A, there)
        self._warn(problem, learned)
        return FeatureSum(
            intercept=intercept,
            scaling=problem.scaling,
            leading_ones=bool(self.bias),
            instantiation=operator.instantiation,
            parameters=take_rows(W, kept),
            log_scale=operator.log_scale,
            coef=take_rows(coef, kept),
            n_columns=self.n_features_in_ + bool(self.bias),
        )

    def _keep_norms(
        self, problem: WeightingProblem, fitted: PrunedWeighting, exact: Callable[[Array], Array]
    ) -> None:
        """Set the norm of each target's weighting and its logarithm."""
        A, operator, xp = fitted.A, fitted.learned.operator, array_namespace(fitted.A)
        largest = xp.max(xp.abs(A), axis=0)  # so that squares do not underflow
        unit = xp.where(largest > 0, largest, xp.ones_like(largest))
        squares = to_host(xp.sum(A / unit * (operator.core @ (A / unit)), axis=0))
        unit = to_host(unit) * to_host(problem.y_scale)
        there = exact(problem.y_mean)
        with np.errstate(divide="ignore", over="ignore"):
            roots = 0.5 * np.log(np.clip(squares, 0.0, None))
            logs = roots + np.log(unit) - operator.log_scale
            self.log_rkhs_norm_ = asarray_like(logs, there)
            self.rkhs_norm_ = asarray_like(np.exp(logs), there)

    def _keep_validation(
        self,
        problem: WeightingProblem,
        fitted: PrunedWeighting,
        choice: SearchResult[WeightingSetting, WeightingFit],
    ) -> None:
        """Set the held-out risks of a classification."""

    def _keep_gradients(
        self, problem: WeightingProblem, operator: FeatureOperator, A: Array, there: Array
    ) -> None:
        """Set the average gradient outer product and its directions, on the place of `there`."""
        root, unit, reach = feature_principal_gradients(problem, operator, A)
        with np.errstate(over="ignore"):
            self._gradients = asarray_like(root * unit, there)
        self._keep_directions(root.T, there)
        self._keep_range(reach)

    @property
    def feature_matrix_(self) -> Array:
        """The average gradient outer product (n_features, n_features), computed on access."""
        return self._gradients.T @ self._gradients

    def _warn(self, problem: WeightingProblem, learned: WeightingFit) -> None:
        if learned.status not in QUIET:
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
    def n_parameters_(self) -> int:
        """Parameters kept."""
        check_is_fitted(self)
        return int(self.parameters_.shape[0])

    @property
    def theta_(self) -> float:
        """θ of the instantiation at the data's dimension, eq. (26): exact, or a bound."""
        check_is_fitted(self)
        return math.exp(self.instantiation_.log_theta(self.n_features_in_ + self.bias))

    def _gap(self, n: int, delta: float, radius: str | float, largest_y: float) -> float:
        """Return the gap of Theorem 10 for one target, in units of the loss."""
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
        loss = LOSSES[self._own_loss]
        rho, most = loss.lipschitz(capacity, largest_y), loss.largest(capacity, largest_y)
        return generalization_gap(capacity, rho, most, n, delta)


_PARAMETERS = (
    """
    Parameters
    ----------
    n_parameters : int, default=1000
        Number T of parameters w drawn from p; each gives one feature.
    learner : {"least_squares", "lasso", "optimal_step", "sfgd"} or Descent, \
            default="least_squares"
        Algorithm 3, 4, 2 or 1. The first two are least squares with the RKHS norm, or with the sum
        of absolute coefficients, which makes many of them 0. The others are stochastic functional
        gradient descent with optimal steps, or with steps 1/λt, projection and averaging. For
        these, a `Descent` of `gpukfl.estimators.weighting` also sets the batch size, by default 50
        rows, and B, the largest RKHS norm of "sfgd", by default 1000.
    instantiation : {"auto", "gaussian_sign", "stumps"} or Instantiation, default="auto"
        The weighted predictors: signs of linear functions, decision stumps, or a value such as
        ``Stumps(gamma=0.5)``. The widths of a name, and the name for "auto", are chosen by 5 folds
        of at most 20 000 rows with 300 parameters. Up to 20 000 rows, such a fit is kept if more
        parameters do not predict better.
    loss : {"squared", "logistic", "hinge"}, default="squared"
        For classes; the last two need "optimal_step" or "sfgd". For a regression "squared",
        "absolute", "quantile:0.9", "huber", "poisson", "gamma", "tweedie:1.5" or a value of
        `gpukfl.losses`. Losses other than "squared" take about ten fits instead of one.
    ridge : float or "auto", default="auto"
        Regularisation λ, positive. "auto" is chosen by 5 folds. If an instantiation was searched by
        least squares, the search begins at its best λ.
    prune : {None, "norm", "bound", "risk", "error"} or Pruning, default=None
        Prune by Algorithm 5, as long as the model gets less than 0.01 worse by this rule. The rules
        are the bound (63) on the change of the risk, that of Theorem 8 (64), the change of the
        training risk (65), and that of the share of wrong labels (66). For another tolerance ε, use
        ``Pruning(rule, tolerance)`` of `gpukfl.estimators.weighting`. Risks use a loss that is at
        least the 0-1 loss, or squared errors in units of the targets' variance.
    bias : bool, default=True
        Whether to add a column of ones before the features.
    max_time : float or None, default=None
        Time limit in seconds. If it ends a pass over the rows, the fit uses the rows so far.
    random_state : int, RandomState or None, default=None
        Seed of the parameters, folds and batches, which are drawn on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Array library to compute with; "auto" uses that of X, and moves large NumPy data to a usable
        GPU. A `Backend` also sets the precision of the features. Sums over rows and linear systems
        are float64.
"""
    + STANDARD_SCALING
    + """        The widths of the instantiations rely on it.
    verbose : int, default=0
        1 prints a line per step.
"""
)

_ATTRIBUTES = (
    """
    Attributes
    ----------
    parameters_ : array of shape (n_parameters_, number of a parameter's entries)
        The parameters with a coefficient.
    coef_ : array of shape (n_parameters_, n_targets)
        Their coefficients a times ``exp(log_scale_)``: in high dimension features vanish and
        coefficients explode. In float64: large ones cancel in predictions.
    intercept_ : array of shape (n_targets,)
        Mean of the targets of a regression, in float64.
    log_scale_ : float
        Logarithm of the unit of the features.
    n_parameters_ : int
        Parameters kept.
    rkhs_norm_, log_rkhs_norm_ : array of shape (n_targets,)
        Norm of the weighting α of each target, and its logarithm.
    theta_ : float
        θ of eq. (26): predictions differ from the intercept by at most θ times the norm.
    instantiation_ : Instantiation
        As chosen, with its widths.
    ridge_ : float
        λ as used.
    feature_matrix_ : array of shape (n_features, n_features)
        Average outer product of the gradients of the fitted functions, along directions in which
        rows differ: 0 for a column that does not vary, and nothing from one to another way of
        saying the same, as columns that sum to 1 have. Of more than 1000 columns only those that
        do not vary are left out.
    feature_importances_ : array of shape (n_features,)
        Root mean squares of the partial derivatives, of `feature_matrix_`, summing to 1; all are 0
        where no column varies.
    components_, n_effective_features_ : array of shape (n_effective_features_, n_features), int
        Orthonormal directions in which the fitted functions vary, and their number.
"""
    + SCALING_ATTRIBUTE
    + """    tuning_ : list of dict
        Settings tried: "instantiation", "n_parameters" and "n_samples" of the fit, "ridge",
        "score" on the same held-out rows for all and its "standard_error", "seconds", shared among
        the ridges of a fit, and whether it was "chosen": the best of those fitted to all samples.
    pruning_ : list of dict or None
        Parameters kept and how much worse, for each step of Algorithm 5.
    expectation_error_ : float
        Relative standard error of the features; 0 where they are exact.
    jitter_, gap_ : float
        What was added to the diagonal of the normal equations, relative to its mean
        ("least_squares"), and the relative duality gap ("lasso").
    history_, n_iter_, status_ : History, int, str
        Objective (53) or (55), or risk of the batches of some steps; entries; how the fit ended.
"""
)

_NOTES = """
    Notes
    -----
    "least_squares" and "lasso" take one pass over the rows, O(n T (d + T)) in blocks, and O(T³)
    for each ridge and fold after it. The other two see `batch_size` rows a step. Rows may be a
    NumPy memory map.

    References
    ----------
    .. [1] Dubé and Marchand, "RKHS Weightings of Functions", hal-04236058.
"""


_VALIDATION = """    validation_ : dict or None
        "risk" (at least the 0-1 loss) and "error" (share of wrong labels) on held-out folds;
        "training_risk" and the "n_samples" it is of; "unit", what makes the loss that risk.
"""


class RKHSWeightingRegressor(ArrayRegressor, WeightingBase):
    __doc__ = f"""RKHS weighting of base predictors for regression.

    f(x) = E_w[α(w) φ(w, x)] over a density p of parameters w, with α in an RKHS: a sum of T
    expectations known in closed form.
    {_PARAMETERS}{MONOTONE}{_ATTRIBUTES}{OF_EVERY_FIT}{_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import RKHSWeightingRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (300, 3))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    >>> model = RKHSWeightingRegressor(200, instantiation="stumps", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    @run_on_data_device
    def bound(
        self, X: Any, y: Any, delta: float = 0.05, *, radius: str | float = "doubling"
    ) -> float:
        """Bound the mean squared error on new data, from that on `X`: Theorem 10.

        No target may be farther from the mean than those of `X`, and the standardisation and the
        instantiation must not depend on the data; where they do, the bound is approximate.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Independent samples, those of the fit or others.
        y : array of shape (n_samples,)
            Targets.
        delta : float
            δ: the bound may fail with this probability.
        radius : {"doubling", "norm"} or float
            B. "doubling" covers every norm at once, "norm" takes that of the model, as the paper
            does although it depends on the data; a number must have been fixed before.

        Returns
        -------
        float
            The bound, in squared units of y.

        Raises
        ------
        ValueError
            If there are several targets, or the norm is above the radius.
        """
        check_is_fitted(self)
        if not self._one_target:
            msg = f"expected a model of one target for a bound, got {self.log_rkhs_norm_.shape[0]}"
            raise ValueError(msg)
        samples = validate_samples(self, X, reset=False, method="bound")
        truth = to_host(validate_targets(y, samples)).astype(np.float64)
        errors = truth - to_host(self.predict(X)).astype(np.float64)
        largest_y = float(np.max(np.abs(truth - float(to_host(self.intercept_)[0]))))
        risk = 0.5 * float(np.mean(errors**2))
        return 2.0 * (risk + self._gap(len(truth), delta, radius, largest_y))


class RKHSWeightingClassifier(OneHotClassifier, WeightingBase):
    __doc__ = f"""RKHS weighting of base predictors for classification.

    f(x) = E_w[α(w) φ(w, x)] over a density p of parameters w, with α in an RKHS: a sum of T
    expectations known in closed form. Two classes are -1 and 1; of more each is held against the
    others, with the same parameters.
    {_PARAMETERS}{MONOTONE}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}{OF_CLASSIFIERS}{_VALIDATION}{_NOTES}
    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from gpukfl import RKHSWeightingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RKHSWeightingClassifier(200, instantiation="stumps", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    _has_signs = True
    validation_: Validation | None

    def _keep_validation(
        self,
        problem: WeightingProblem,
        fitted: PrunedWeighting,
        choice: SearchResult[WeightingSetting, WeightingFit],
    ) -> None:
        """Set the held-out risks."""
        self.validation_ = None
        if choice.trial is None or not choice.trial.predicted:
            return
        F = np.concatenate(choice.trial.predicted)
        Y, w = (
            np.concatenate([to_host(getattr(fold.held_out, name)) for fold in choice.folds])
            for name in ("Y", "weights")
        )
        wrong = F.argmax(axis=1) != Y.argmax(axis=1) if F.shape[1] > 1 else F[:, 0] * Y[:, 0] <= 0
        w = w[:, 0] / w.sum()
        risks = np.sum(to_host(problem.loss.value(F, Y)), axis=1)
        training, seen = problem.training_risk(fitted.learned, fitted.A)
        unit = problem.loss.unit
        self.validation_ = {
            "risk": float(unit * (w @ risks)),
            "error": float(w @ wrong),
            "training_risk": unit * training,
            "n_samples": seen,
            "unit": unit,
        }

    @run_on_data_device
    def decision_function(self, X: Any) -> Array:
        """Return the scores, whose largest is predicted.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes f(x), positive for the second.
        """
        return super().decision_function(X)

    @run_on_data_device
    def bound(
        self, X: Any, y: Any, delta: float = 0.05, *, radius: str | float = "doubling"
    ) -> float:
        """Bound the share of wrong labels on new data, from the risk on `X`: Theorem 10, eq. (71).

        The risk is that of a loss which is at least the 0-1 loss: for "squared" the mean of
        (1 - y f(x))², as in eq. (73). The bound also holds for that risk. The standardisation and
        the instantiation must not depend on the data; where they do, it is approximate.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Independent samples, those of the fit or others.
        y : array of shape (n_samples,)
            Labels.
        delta : float
            δ: the bound may fail with this probability.
        radius : {"doubling", "norm"} or float
            B. "doubling" covers every norm at once, "norm" takes that of the model, as the paper
            does although it depends on the data; a number must have been fixed before.

        Returns
        -------
        float
            The bound; above 1 it says nothing about the share of wrong labels.

        Raises
        ------
        ValueError
            If there are not two classes, a label is another, or the norm is above the radius.
        """
        check_is_fitted(self)
        if len(self.classes_) != 2:
            msg = f"expected a model of two classes for a bound, got {len(self.classes_)}"
            raise ValueError(msg)
        labels = validate_labels(y, validate_samples(self, X, reset=False, method="bound"))
        other = np.setdiff1d(labels, self.classes_)
        if len(other):
            known, others = self.classes_.tolist(), other[:5].tolist()
            msg = f"expected only labels {known} for a bound, got {others}"
            raise ValueError(msg)
        loss = LOSSES[self._own_loss]
        signs = np.where(labels == self.classes_[1], 1.0, -1.0)
        f = to_host(self.decision_function(X)).astype(np.float64)
        risk = float(np.mean(to_host(loss.value(f, signs))))
        return loss.unit * (risk + self._gap(len(signs), delta, radius, 1.0))
