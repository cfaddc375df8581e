"""What the kernel ridge estimators share: parameters, what is kept of a fit, and predictions."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpukfl._array import (
    Array,
    epsilon,
    sample_norm,
    to_host,
)
from gpukfl._checks import check_choice, check_number
from gpukfl._places import Backend
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._bounds import BoundedPredictions
from gpukfl.estimators._data import Data, dual_coefficients
from gpukfl.estimators._declared import (
    DOUBLE,
    FLOAT,
    SCORE,
    Declared,
    Items,
    Number,
    Numbers,
    Record,
    Text,
    Whole,
)
from gpukfl.estimators._learner import Choice, Learner
from gpukfl.estimators._validation import check_finite_result
from gpukfl.estimators.kernel_ridge._description import describe
from gpukfl.estimators.kernel_ridge._method import (
    KernelRidgeProblem,
    KernelRidgeSettings,
    Setting,
)
from gpukfl.inspection import Description, Names
from gpukfl.kernels import Kernel, make_kernel
from gpukfl.methods import SELECTIONS, SOLVERS, KernelRidgeFit, RidgePath
from gpukfl.solvers import ConjugateGradient

_CHOSEN = ("auto", "median")  # lengthscales that the samples say
ATTRIBUTES: dict[str, Declared] = {
    "centers_": Numbers(FLOAT, ("n_centers", "n_features")),
    "dual_coef_": Numbers(DOUBLE, ("n_centers", "n_targets")),
    "intercept_": Numbers(FLOAT, ("n_targets",)),
    "kernel_": Record(Kernel),
    "lengthscale_": Number(),
    "ridge_": Number(),
    "ridge_path_": Record(
        RidgePath, {"ridges": Items(SCORE), "scores": Items(SCORE)}, optional=True
    ),
    "solver_": Text(SOLVERS),
    "n_iter_": Whole(),
    "solve_residual_": Number(any_value=True),
    "jitter_": Number(any_value=True),
    "condition_": Number(any_value=True, optional=True),
}
_KEPT_FROM = 500  # samples from which a ridge serves other fits to about the same ones
_ROUNDING = 0.02  # of a standard deviation of y, by which predictions are moved without a word


class KernelRidgeBase(BoundedPredictions, Learner):
    """The common part: parameters, what is kept of a fit, and predictions."""

    _attributes = ATTRIBUTES
    _values = (RidgePath,)
    _predicts = "KernelRidge"
    _unit_free = True  # the lengthscale takes it up
    _finds_nothing = "has nothing to fit"

    def __init__(
        self,
        kernel: str | Kernel = "gaussian",
        *,
        ridge: float | str = "auto",
        lengthscale: float | str = "auto",
        solver: str = "auto",
        n_centers: int | str = "auto",
        center_selection: str = "uniform",
        max_iter: int = 100,
        tol: float = 1e-6,
        random_state: Any = None,
        backend: str | Backend = "auto",
        scaling: str | None = "auto",
    ) -> None:
        self.kernel = kernel
        self.ridge = ridge
        self.lengthscale = lengthscale
        self.solver = solver
        self.n_centers = n_centers
        self.center_selection = center_selection
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.backend = backend
        self.scaling = scaling

    def _method(self) -> KernelRidgeSettings:
        make_kernel(self.kernel)
        check_number("ridge", self.ridge, low=0, also=("auto",))
        check_number("lengthscale", self.lengthscale, low=0, low_allowed=False, also=_CHOSEN)
        check_choice("solver", self.solver, SOLVERS)
        check_number("n_centers", self.n_centers, kind=numbers.Integral, low=1, also=("auto",))
        check_choice("center_selection", self.center_selection, SELECTIONS)
        check_number("max_iter", self.max_iter, kind=numbers.Integral, low=1)
        check_number("tol", self.tol, low=0, low_allowed=False)
        return KernelRidgeSettings(
            self.kernel,
            None if self.ridge == "auto" else float(self.ridge),
            self.lengthscale if isinstance(self.lengthscale, str) else float(self.lengthscale),
            self.solver,
            None if self.n_centers == "auto" else int(self.n_centers),
            self.center_selection,
            ConjugateGradient(self.tol, max_iter=self.max_iter),
            self.scaling,
        )

    def _keep(
        self,
        problem: KernelRidgeProblem,
        fit: KernelRidgeFit,
        choice: Choice[Setting, Any],
        back: Callable[[Array], Array],
    ) -> None:
        self.intercept_ = intercept = back(problem.y_mean)
        self.dual_coef_ = dual_coefficients(fit.alpha, problem, intercept)
        check_finite_result(back(self.dual_coef_), intercept)
        self.centers_ = back(fit.Z)
        self._keep_bounds(problem, back)
        known = choice.setting.lengthscale
        self.kernel_ = fit.kernel
        self.lengthscale_ = problem.lengthscale if known is None else known
        self.ridge_, self.ridge_path_ = fit.ridge, fit.path
        self.solver_, self.status_ = fit.solver, fit.status.name
        self.n_iter_, self.solve_residual_ = fit.n_iter, fit.residual
        self.jitter_, self.condition_ = fit.jitter, fit.condition
        self._warn(problem, fit)

    def _settled(self, choice: Choice[Setting, Any], fitted: KernelRidgeFit) -> Setting:
        # One number of a coarse grid tells nothing of single samples, as a ridge of few may
        found = replace(choice.setting, lengthscale=self.lengthscale_)
        return replace(found, ridge=fitted.ridge) if self._n_samples >= _KEPT_FROM else found

    def _warn(self, problem: KernelRidgeProblem, fit: KernelRidgeFit) -> None:
        n = problem.rows.shape[0]
        if not isinstance(self.n_centers, str) and self.n_centers > n:
            warn(
                f"n_centers={self.n_centers} is more than the {n} samples: all of them are centres"
            )
        warn_of_solution(fit, problem)
        if fit.path is not None and not fit.path.brackets:
            _warn_at_edge(fit.ridge, fit.path.ridges)

    # ------------------------------------------------------------------ description

    def _describe(self, names: Names, /) -> Description:
        return describe(self, names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def warn_of_solution(fit: KernelRidgeFit, data: Data, /) -> None:
    """Say what is wrong with a solution."""
    if fit.raised:
        msg = (
            f"the kernel matrix is singular in this precision: {fit.jitter:.1e} of its mean "
            "diagonal was added to its diagonal"
        )
        warn(msg, ConvergenceWarning)
    if fit.status is not Status.CONVERGED:
        msg = f"relative residual {fit.residual:.1e}: {fit.status.value}"
        warn(msg, ConvergenceWarning)
    if fit.solver == "falkon" and fit.ridge < epsilon(data.reference):
        what = "kernel values in this precision do not resolve it"
    elif (moved := epsilon(fit.alpha) * _largest_ratio(fit.alpha, data.Y)) > _ROUNDING:
        what = f"rounded coefficients move predictions by some {moved:.0%} of y's deviation"
    else:
        return
    msg = f"at a ridge of {fit.ridge:.1e} {what}: give a larger one, or float64 data"
    warn(msg, UserWarning)


def _largest_ratio(alpha: Array, Y: Array) -> float:
    """Largest norm of coefficients (q, t), in root mean squares of their targets (n, t)."""
    size, of = to_host(sample_norm(alpha)), to_host(sample_norm(Y)) / math.sqrt(Y.shape[0])
    return float(np.max(size[of > 0] / of[of > 0], initial=0.0))


def _warn_at_edge(ridge: float, tried: list[float]) -> None:
    if min(tried) < ridge < max(tried):
        return
    msg = f"the best ridge, {ridge:.1e}, is at the edge of those tried: " + (
        "the lengthscale may be too long" if ridge <= min(tried) else "give one of your own"
    )
    warn(msg)
