"""BKerNN as scikit-learn estimators."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._annotations import Choice, Count, Floats
from gpukfl.core._array import Array, to_host
from gpukfl.core._checks import check_bool, check_choice, check_kind, check_number
from gpukfl.core._places import Backend
from gpukfl.core._results import Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor, coordinate_text
from gpukfl.estimators._classifier import CLASS_WEIGHT, OF_CLASSIFIERS, OneHotClassifier
from gpukfl.estimators._features import LinearFeatures
from gpukfl.estimators._fitted import Tried, held
from gpukfl.estimators._learner import SearchResult, SteppedLearner
from gpukfl.estimators._reweighting import LOSS
from gpukfl.estimators._validation import check_finite_result
from gpukfl.estimators.bkernn._fit import BKerNN, BKerNNProblem, penalty_name
from gpukfl.estimators.bkernn._settings import BKerNNSetting, Knots
from gpukfl.estimators.scaling import SCALING, SCALING_ATTRIBUTE
from gpukfl.inspection import (
    Curves,
    Description,
    Directions,
    Importances,
    Names,
    Objective,
    direction_name,
)
from gpukfl.methods import BKerNNFit, ShapeFunctions
from gpukfl.penalties import PENALTIES, Penalty
from gpukfl.predictor import ShapeSum
from gpukfl.solvers import ProximalGradient
from gpukfl.tables._monotone import MONOTONE

# ------------------------------------------------------------------------------ attributes


class BKerNNTried(Tried):
    """A setting that was tried."""

    penalty: str
    ridge: float
    multiple: float


# ----------------------------------------------------------------------------- description

_DIRECTIONS = 5  # curves in one picture
_POINTS = 200


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    exact = "exact"
    if e.n_knots_ is not None:
        exact = f"binned on {e.n_knots_} knots, relative error {e.knots_error_:.1e}"
    features, importances, count = names.features, e.feature_importances_, e.W_.shape[1]
    return Description(
        **e._fit_fields(names, along="ridge", beside=("penalty",)),
        text=f"{count} particles, penalty {e.penalty_}, ridge {e.ridge_:.3g}",
        products=exact,
        facts={
            "particles": count,
            "penalty": e.penalty_,
            "ridge": f"{e.ridge_:.4g}",
            "residual of the last solve": f"{e.solve_residual_:.1e}",
        },
        note=(
            "A direction's loadings are the weights of the columns in it. Its function is what "
            "its particles add to the prediction along it."
        ),
        panels=(
            Importances(features, importances, "row norms of W"),
            Directions(features, e.components_, importances),
            _direction_curves(e, names),
            Objective(tuple(e.history_.objective), tuple(e.history_.validation_score)),
        ),
    )


def _direction_curves(e: Any, names: Names) -> Curves:
    r"""Sum the particles' contributions to the prediction along each learned direction.

    Particle j belongs to the direction u_r with the largest ``|u_r' w_j|``. The function is

    .. math:: t \mapsto \frac1m \sum_{j \in r} g_j(t\, w_j^\top u_r),

    over the range that the data have along the particle that is most parallel to u_r. A direction
    that leads in no particle has none.
    """
    components = e.components_.astype(np.float64)
    along = components @ e.W_.astype(np.float64)  # (k, m)
    norms = np.linalg.norm(e.W_.astype(np.float64), axis=0)
    leading = np.argmax(np.abs(along), axis=0) if len(components) else np.zeros(0)
    found: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    missing = []
    for rank in range(min(len(components), _DIRECTIONS)):
        own = np.flatnonzero((leading == rank) & (norms > 0))
        label = direction_name(names.features, components, rank)
        if len(own):
            found[label] = _sum_along(e.shape_functions_, along[rank], norms, own)
        else:
            missing.append(str(rank + 1))
    which = f"direction{'' if len(missing) == 1 else 's'} {' and '.join(missing)}"
    return Curves(
        tuple(found),
        tuple(steps for steps, _ in found.values()),
        tuple(values for _, values in found.values()),
        names.outputs,
        one_unit=names.one_unit,
        title="Functions along the learned directions",
        xlabel=coordinate_text(e),
        remark=f"no particle leads along {which}" if missing else "",
    )


def _sum_along(
    shapes: Any, along: np.ndarray, norms: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinates (points,), and the sum of some particles' functions there (points, t)."""
    straight = own[np.argmax(np.abs(along[own]) / norms[own])]
    ends = shapes.knots[straight, [0, -1]].astype(np.float64) / along[straight]
    steps = np.linspace(ends.min(), ends.max(), _POINTS)
    total = np.zeros((_POINTS, shapes.values.shape[2]))
    for j in own:
        knots, at = shapes.knots[j].astype(np.float64), steps * along[j]
        for k in range(total.shape[1]):
            total[:, k] += np.interp(at, knots, shapes.values[j, :, k].astype(np.float64))
    return steps, total / len(shapes)


# ------------------------------------------------------------------------------------ base

_FIRST_PENALTY = "concave_feature"
_OPTIMIZER = ProximalGradient("auto", 200, 3e-4)
_EARLY = 0.1  # share of the samples that early stopping holds out by default
_QUIET = (Status.CONVERGED, Status.EARLY_STOPPED)


class BKerNNBase(LinearFeatures, SteppedLearner):
    """The base of regressor and classifier: parameters, fitted attributes and predictions."""

    penalty_: Annotated[str, Choice(tuple(PENALTIES))]
    dual_coef_: Annotated[Array, Floats("n_samples", "n_targets")] | None
    ridge_: float
    n_knots_: Annotated[int, Count()] | None
    knots_error_: float
    solve_residual_: float
    tuning_: list[BKerNNTried]
    _for_inference = ("dual_coef_",)
    W_: Array = held("values.W")
    _describe = describe
    _values = (ProximalGradient, Knots, BKerNNSetting, *PENALTIES.values())
    _renamed: ClassVar[dict[str, str]] = {
        "concavity": "pass penalty=ConcaveFeature(concavity)",
        "max_iter": "pass optimizer=ProximalGradient(max_iter=...)",
        "tol": "pass optimizer=ProximalGradient(tol=...)",
        "step_size": "pass optimizer=ProximalGradient(step_size=...)",
        "knot_tolerance": "pass knots=Knots(tolerance=...)",
        "validation_fraction": "pass early_stopping=0.1, a share of the samples",
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
        check_bool("warm_start", self.warm_start)
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
        """Return the penalties to choose among."""
        if isinstance(self.penalty, Penalty):
            return [self.penalty]
        check_choice("penalty", self.penalty, (*PENALTIES, "tune"))
        if self.penalty != "tune":
            return [PENALTIES[self.penalty]()]
        return [kind() for kind in PENALTIES.values()]

    def _keep(
        self,
        problem: BKerNNProblem,
        fit: BKerNNFit,
        choice: SearchResult[BKerNNSetting, Any],
        back: Callable[[Array], Array],
    ) -> ShapeSum:
        shapes = problem.shapes(fit)
        intercept = back(problem.to_target_units(fit.intercept, mean=True))
        values = back(problem.to_target_units(shapes.values))
        dual_coef = None
        if problem.rows.partitioning is None:  # else they are partitioned
            dual_coef = back(problem.to_target_units(fit.alpha))
        check_finite_result(intercept, values, *([] if dual_coef is None else [dual_coef]))
        W, self.dual_coef_ = back(fit.W), dual_coef
        self._keep_directions(to_host(fit.W), W)
        self.penalty_, self.ridge_ = (
            penalty_name(choice.setting.penalty),
            problem.ridge(choice.setting),
        )
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
        return ShapeSum(
            intercept=intercept,
            scaling=problem.scaling,
            W=W,
            knots=back(shapes.knots),
            values=values,
        )

    @property
    def shape_functions_(self) -> ShapeFunctions:
        """The functions g_j."""
        check_is_fitted(self)
        values = self.predictor_.values
        assert isinstance(values, ShapeSum)
        return ShapeFunctions(values.knots, values.values)

    @shape_functions_.setter
    def shape_functions_(self, shapes: ShapeFunctions) -> None:
        values: Any = self.predictor_.values
        self.predictor_ = replace(
            self.predictor_, values=replace(values, knots=shapes.knots, values=shapes.values)
        )

    @property
    def feature_matrix_(self) -> Array:
        """The matrix WWᵀ/m (n_features, n_features), computed on access."""
        return self.W_ @ self.W_.T / self.W_.shape[1]


_PARAMETERS = (
    """
    Parameters
    ----------
    n_particles : int or "auto", default="auto"
        Number of particles m, at least 1; "auto" is twice the number of features, between 50 and
        200.
    penalty : str or Penalty, default="concave_feature"
        "basic" (few particles), "variable" and "concave_variable" (few variables), "feature" and
        "concave_feature" (few directions), or a value such as ``ConcaveFeature(concavity=2.0)``
        of `gpukfl.penalties`. "tune" chooses by the hold-out score. For one feature, or rows on a
        line, concave penalties do not bound the solution: they are replaced by "variable" and
        "feature".
    ridge : float, "auto" or "tune", default="auto"
        Regularisation λ, positive, in units of the kernel (those of X). "auto" is the paper's
        max‖x‖/n for real data, with n the effective number of rows, (Σw)²/Σw². "tune" starts
        there, and searches powers of 3 by the hold-out score.
    penalty_strength : float, default=1.0
        Weight of the penalty relative to `ridge`; 1 in the paper. Targets are scaled to unit
        variance first. Predictions are in the units of y.
    optimizer : ProximalGradient, optional
        Steps, tolerance and step size; by default ``ProximalGradient("auto", max_iter=200,
        tol=3e-4)``. A number as step size starts the paper's line search, Algorithm 1.
    early_stopping : bool or float, default=False
        Share of the rows that is held out (True: a tenth). The fit stops if their R² has not risen
        for 5 steps, and keeps the best step. The rows are random, or the last ones of a memory map.
    knots : int, "auto", None or Knots, default="auto"
        None computes exactly. An integer q bins projections on q knots a particle, which needs
        no sort and reads a memory map by blocks. "auto" is exact up to 200 million projections, if
        memory allows, else 4096. ``Knots(number, tolerance)`` also sets how exactly shape functions
        are stored.
    warm_start : bool, default=False
        Start from the particles of the last fit, if they have the same shape and are not zero.
    max_time : float or None, default=None
        Time limit in seconds for the whole fit; the best iterate is kept.
    random_state : int, RandomState or None, default=None
        Seed of the first particles, which are drawn on the host for every backend.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Array library to compute with; "auto" uses that of X, and moves large NumPy data to a usable
        GPU. A `Backend` also sets the precision. Sums over rows are float64, except that matrix
        products sum blocks of 65 536 rows in the data's precision.
"""
    + SCALING
    + """        Particles, directions and importances are those of scaled features.
    verbose : int, default=0
        1 prints a line per step.
"""
)

_ATTRIBUTES = (
    """
    Attributes
    ----------
    W_ : array of shape (n_features, n_particles)
        Particles.
    penalty_, ridge_ : str, float
        As used.
    tuning_ : list of dict
        Penalties and ridges tried: scores on held-out samples with their standard errors, seconds,
        and which was chosen.
"""
    + SCALING_ATTRIBUTE
    + """    dual_coef_ : array of shape (n_samples, n_targets)
        α at the final particles. Setting it changes no prediction: `shape_functions_` predict.
    intercept_ : array of shape (n_targets,)
        Constant beside the shape functions, each of which is 0 at its smallest knot. The paper's c
        goes with functions that are 0 where Wᵀx = 0: it is
        ``intercept_ + shape_functions_.mean(zeros)``, with zeros of shape (n_particles, 1).
    feature_matrix_ : array of shape (n_features, n_features)
        WWᵀ/m: which directions matter.
    feature_importances_ : array of shape (n_features,)
        Norms of the rows of W, summing to 1.
    n_effective_features_ : int
        Directions whose singular value is at least a fifth of the largest; 0 where W = 0.
    components_ : array of shape (n_effective_features_, n_features)
        Orthonormal learned directions.
    shape_functions_ : ShapeFunctions
        The functions g_j.
    history_ : History
        Objective, step, residual and seconds of every iteration. From 300 000 samples on, unless
        with early stopping, the first half of the iterations sees a tenth of them at most.
    n_iter_, status_ : int, str
        Steps taken, and how the fit ended.
    ridge_ : float
        λ used.
    n_knots_ : int or None
        Knots a particle, None where computed exactly.
    knots_error_ : float
        Estimated relative error of the binned product, 0 where exact.
    solve_residual_ : float
        Relative residual of the final linear solve.
"""
)

_REFERENCES = """
    Notes
    -----
    A step costs a sort of the n m projections and about ten products of O(n m); memory is about
    48 bytes for each projection.

    References
    ----------
    .. [1] Follain and Bach, "Enhanced Feature Learning via Regularisation: Integrating Neural
       Networks and Kernel Methods", arXiv:2407.17280.
"""


class BKerNNRegressor(ArrayRegressor, BKerNNBase):
    __doc__ = f"""Brownian kernel neural network for regression, exact and near-linear.

    Learns a few directions of the data and a smooth function along each:
    f(x) = c + (1/m) Σ_j g_j(w_jᵀx).
    {_PARAMETERS}{LOSS}{MONOTONE}{_ATTRIBUTES}{OF_EVERY_FIT}{_REFERENCES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import BKerNNRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 5))
    >>> model = BKerNNRegressor(random_state=0).fit(X, np.abs(X[:, 0] + X[:, 1]))
    >>> bool(model.score(X, np.abs(X[:, 0] + X[:, 1])) > 0.95)
    True
    """


class BKerNNClassifier(OneHotClassifier, BKerNNBase):
    __doc__ = f"""Brownian kernel neural network for classification.

    Least squares on one-hot classes with shared particles: the functions estimate the classes'
    probabilities. Any number of classes, any labels.
    {_PARAMETERS}{MONOTONE}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}{OF_CLASSIFIERS}{_REFERENCES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import BKerNNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(BKerNNClassifier(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """
