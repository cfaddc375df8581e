"""Kernel ridge regression as scikit-learn estimators, also with the Brownian kernel."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpukfl.core._annotations import Choice, Count
from gpukfl.core._array import Array, epsilon, sample_norm, to_host
from gpukfl.core._checks import check_choice, check_number
from gpukfl.core._places import Backend
from gpukfl.core._results import Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._base import OF_EVERY_FIT, ArrayRegressor, status_text
from gpukfl.estimators._classifier import CLASS_WEIGHT, OF_CLASSIFIERS, OneHotClassifier
from gpukfl.estimators._data import (
    BoundedPredictions,
    Data,
    prediction_bounds,
    rescale_dual_coefficients,
)
from gpukfl.estimators._fitted import Tried, held
from gpukfl.estimators._learner import Learner, SearchResult
from gpukfl.estimators._reweighting import LOSS
from gpukfl.estimators._validation import check_finite_result
from gpukfl.estimators.kernel_ridge._fit import (
    BrownianFit,
    BrownianSettings,
    KernelRidgeProblem,
    KernelRidgeSetting,
    KernelRidgeSettings,
)
from gpukfl.estimators.scaling import SCALING, SCALING_ATTRIBUTE
from gpukfl.inspection import Description, Names, Panel, Ridges
from gpukfl.kernels import Brownian, Kernel, Linear, make_kernel
from gpukfl.methods import (
    SELECTIONS,
    SOLVERS,
    KernelRidge,
    KernelRidgeFit,
    RidgePath,
)
from gpukfl.predictor import KernelSum
from gpukfl.solvers import ConjugateGradient
from gpukfl.tables._monotone import MONOTONE

# ----------------------------------------------------------------------------- description


def describe(e: Any, names: Names, /) -> Description:
    """Describe a fitted estimator whose arrays are NumPy's."""
    kernel, count = type(e.kernel_).__name__, e.centers_.shape[0]
    panels: tuple[Panel, ...] = ()
    if e.ridge_path_ is not None:
        path = e.ridge_path_
        panels = (Ridges(tuple(path.ridges), tuple(path.scores), e.ridge_),)
    return Description(
        **e._common_fields(names),
        text=f"{kernel} kernel, {count} centres, solver {e.solver_}, ridge {e.ridge_:.3g}",
        n_samples=e._n_samples,
        place=e.place_,
        n_steps=e.n_iter_,
        ended=status_text(e.status_),
        facts={
            "kernel": kernel,
            "lengthscale": f"{e.lengthscale_:.4g}",
            "ridge": f"{e.ridge_:.4g}",
            "solver": e.solver_,
            "centres": count,
            "jitter": f"{e.jitter_:.1e}",
        },
        panels=panels,
    )


def describe_brownian(e: Any, names: Names, /) -> Description:
    """Describe a fitted `BrownianKernelRidge`."""
    count = e.X_fit_.shape[0]
    return Description(
        **e._common_fields(names),
        text=f"Brownian kernel, {count} rows, ridge {e.ridge_:.3g}",
        n_samples=count,
        facts={
            "ridge": f"{e.ridge_:.4g}",
            "residual of the solve": f"{e.solve_residual_:.1e}",
        },
    )


# ------------------------------------------------------------------------------------ base

_CHOSEN = ("auto", "median")  # lengthscales learned from the rows
_KEPT_FROM = 500  # samples from which the ridge is used by fits to similar rows
_ROUNDING = 0.02  # change of predictions by rounding, in deviations of y, without a warning


class KernelRidgeBase(BoundedPredictions, Learner):
    """The base of regressor and classifier: parameters, fitted attributes and predictions."""

    lengthscale_: float
    ridge_: float
    ridge_path_: RidgePath | None
    solver_: Annotated[str, Choice(SOLVERS)]
    n_iter_: Annotated[int, Count()]
    solve_residual_: float
    jitter_: float
    condition_: float | None
    tuning_: list[Tried]
    _values = (RidgePath, KernelRidgeSetting)
    centers_: Array = held("values.centers")
    dual_coef_: Array = held("values.coef")
    kernel_: Kernel = held("values.kernel")
    _describe = describe
    _unit_free = True  # the lengthscale is scaled with the features
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
        kernel = make_kernel(self.kernel)
        check_number("ridge", self.ridge, low=0, also=("auto",))
        check_number("lengthscale", self.lengthscale, low=0, low_allowed=False, also=_CHOSEN)
        check_choice("solver", self.solver, SOLVERS)
        check_number("n_centers", self.n_centers, kind=numbers.Integral, low=1, also=("auto",))
        check_choice("center_selection", self.center_selection, SELECTIONS)
        check_number("max_iter", self.max_iter, kind=numbers.Integral, low=1)
        check_number("tol", self.tol, low=0, low_allowed=False)
        method = KernelRidge(
            kernel,
            None if self.ridge == "auto" else float(self.ridge),
            self.solver,
            None if self.n_centers == "auto" else int(self.n_centers),
            self.center_selection,
            ConjugateGradient(self.tol, max_iter=self.max_iter),
        )
        lengthscale = (
            self.lengthscale if isinstance(self.lengthscale, str) else float(self.lengthscale)
        )
        return KernelRidgeSettings(self.kernel, lengthscale, method, self.scaling)

    def _keep(
        self,
        problem: KernelRidgeProblem,
        fit: KernelRidgeFit,
        choice: SearchResult[KernelRidgeSetting, Any],
        back: Callable[[Array], Array],
    ) -> KernelSum:
        intercept = back(problem.y_mean)
        coef = rescale_dual_coefficients(fit.alpha, problem, intercept)
        check_finite_result(back(coef), intercept)
        known = choice.setting.lengthscale
        self.lengthscale_ = problem.lengthscale if known is None else known
        self.ridge_, self.ridge_path_ = fit.ridge, fit.path
        self.solver_, self.status_ = fit.solver, fit.status.name
        self.n_iter_, self.solve_residual_ = fit.n_iter, fit.residual
        self.jitter_, self.condition_ = fit.jitter, fit.condition
        self._warn(problem, fit)
        return KernelSum(
            intercept=intercept,
            scaling=problem.scaling,
            kernel=fit.kernel,
            centers=back(fit.Z),
            coef=coef,
            bounds=prediction_bounds(problem, back),
        )

    def _warm_setting(
        self,
        choice: SearchResult[KernelRidgeSetting, Any],
        fitted: KernelRidgeFit,
        *,
        alike: bool = False,
    ) -> KernelRidgeSetting:
        # A lengthscale of a coarse grid reveals no single row; a ridge of few rows may
        found = replace(choice.setting, lengthscale=self.lengthscale_)
        kept = alike or self._n_samples >= _KEPT_FROM
        return replace(found, ridge=fitted.ridge) if kept else found

    def _warn(self, problem: KernelRidgeProblem, fit: KernelRidgeFit) -> None:
        n = problem.rows.shape[0]
        # A linear kernel needs no more centres than columns
        is_linear = isinstance(fit.kernel, Linear)
        if not isinstance(self.n_centers, str) and self.n_centers > n and not is_linear:
            warn(
                f"n_centers={self.n_centers} is more than the {n} rows: all rows are used as "
                "centres"
            )
        warn_bad_solution(fit, problem)
        if fit.path is not None and not fit.path.brackets:
            _warn_at_edge(fit.ridge, fit.path.ridges)


def warn_bad_solution(fit: KernelRidgeFit, data: Data, /) -> None:
    """Warn if the kernel matrix is singular, or the solver has not converged.

    A linear kernel's matrix is singular with more rows than columns, without harm.
    """
    if fit.raised and not isinstance(fit.kernel, Linear):
        msg = (
            f"the kernel matrix is singular in this precision: {fit.jitter:.1e} of its mean "
            "diagonal was added to its diagonal"
        )
        warn(msg, ConvergenceWarning)
    if fit.status is not Status.CONVERGED:
        msg = f"relative residual {fit.residual:.1e}: {fit.status.value}"
        warn(msg, ConvergenceWarning)
    if fit.solver == "falkon" and fit.ridge < epsilon(data.reference):
        what = "kernel values are too inexact in this precision"
    elif (moved := epsilon(fit.alpha) * _largest_ratio(fit.alpha, data.Y)) > _ROUNDING:
        what = f"rounding changes predictions by about {moved:.0%} of the deviation of y"
    else:
        return
    msg = f"at a ridge of {fit.ridge:.1e}, {what}: pass a larger ridge, or float64 data"
    warn(msg, UserWarning)


def _largest_ratio(alpha: Array, Y: Array) -> float:
    """Return the largest norm of coefficients (q, t) relative to their targets (n, t)."""
    size, of = to_host(sample_norm(alpha)), to_host(sample_norm(Y)) / math.sqrt(Y.shape[0])
    return float(np.max(size[of > 0] / of[of > 0], initial=0.0))


def _warn_at_edge(ridge: float, tried: list[float]) -> None:
    if min(tried) < ridge < max(tried):
        return
    msg = f"the best ridge, {ridge:.1e}, is at the edge of those tried: " + (
        "the lengthscale may be too long" if ridge <= min(tried) else "pass a number as ridge"
    )
    warn(msg)


# ------------------------------------------------------------------------------ estimators

_PARAMETERS = (
    """
    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        The kernel: a value such as ``Gaussian() + 0.1 * Linear()``, or a name. Names are
        "brownian", "gaussian", "gaussian_mixture", "inverse_manhattan", "inverse_multiquadric",
        "laplace", "linear", "manhattan_laplace", "manhattan_mixture", "matern32", "matern52",
        "polynomial", "power_exponential" and "rational_quadratic".
    ridge : float or "auto", default="auto"
        Strength λ of the regularisation, at least 0. The number of rows multiplies it. "auto" is
        the best of a grid, by leave-one-out errors of at most 2000 rows. With centres, it is the
        best by generalised cross-validation with at most 1000 of them.
    lengthscale : float, "auto" or "median", default="auto"
        Number that divides distances. "median" is the median distance of at most 1000 rows. "auto"
        multiplies it by the power of two, from 1/4 to 8, with the best leave-one-out error. Both
        are 1 if `kernel` is not a name.
    solver : {"auto", "direct", "cg", "falkon"}, default="auto"
        "direct" factors the kernel matrix, or the normal equations of the centres. "cg" uses all
        rows without storing the matrix. "falkon" solves iteratively for the centres. "auto" uses
        all rows up to 20 000, and centres beyond.
    n_centers : int or "auto", default="auto"
        Number of centres: rows that represent all others (Nyström). "auto" is 4√n, between 1000 and
        4000, where not all rows are used. For "cg", they precondition.
    center_selection : {"uniform", "leverage", "pivoted"}, default="uniform"
        How centres are drawn: uniformly, by approximate ridge leverage scores, or by a randomly
        pivoted Cholesky factorisation.
    max_iter : int, default=100
        Largest number of iterations of "cg" and "falkon".
    tol : float, default=1e-6
        Relative residual at which these stop.
    random_state : int, RandomState or None, default=None
        Seed of the centres, which are drawn on the host.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute; a `Backend` also sets the precision. "auto" follows X, and moves large
        NumPy data to a usable GPU. Systems are solved in float64. "falkon" computes kernel values
        in the precision of the data.
"""
    + SCALING
)

_ATTRIBUTES = (
    """
    Attributes
    ----------
    centers_ : array of shape (n_centers, n_features)
        Centres after scaling.
    dual_coef_ : array of shape (n_centers, n_targets)
        Coefficients α of the centres.
    intercept_ : array of shape (n_targets,)
        Mean of the targets.
    bounds_ : array of shape (2, n_targets)
        Smallest and largest prediction: the mean of a target, minus and plus twice its largest
        deviation. They limit predictions just outside the data, where the ridge is small.
"""
    + SCALING_ATTRIBUTE
    + """    kernel_, lengthscale_, ridge_, solver_ : Kernel, float, float, str
        The values that the fit used.
    ridge_path_ : RidgePath or None
        Ridges of the grid, with their scores.
    tuning_ : list
        Empty, because lengthscale and ridge are chosen in closed form.
    status_, n_iter_, solve_residual_ : str, int, float
        How the solver ended, its iterations and its relative residual. A factorisation is one
        iteration; with centres its residual is 0. "STALLED" means that rounding left a residual
        above `tol`, or above a thousandth for a factorisation.
    jitter_ : float
        Number that was added to the diagonal of the factored kernel matrix, relative to its mean.
    condition_ : float or None
        Lower bound on the condition number of the kernel matrix of the centres, if it was factored.
"""
)

_NOTES = """
    Notes
    -----
    With n rows, d columns and q centres, "direct" takes O(n² d + n³) time and O(n²) memory, or
    O(n q²) time with centres. An iteration takes O(n² d) time for "cg", and O(n q d) for "falkon".
    X may be a NumPy memory map. Only a block of its rows is in memory, unless all are centres.
"""


class KernelRidgeRegressor(ArrayRegressor, KernelRidgeBase):
    __doc__ = f"""Fit a kernel ridge regression, to all rows or with some of them as centres.
    {_PARAMETERS}{LOSS}{MONOTONE}{_ATTRIBUTES}{OF_EVERY_FIT}{_NOTES}
    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import KernelRidgeRegressor
    >>> X = np.linspace(-1, 1, 100)[:, None]
    >>> y = np.sin(5 * X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(100)
    >>> bool(KernelRidgeRegressor(random_state=0).fit(X, y).score(X, y) > 0.95)
    True
    """


class KernelRidgeClassifier(OneHotClassifier, KernelRidgeBase):
    __doc__ = f"""Fit a kernel ridge classification, by least squares on an indicator of each class.
    {_PARAMETERS}{MONOTONE}{CLASS_WEIGHT}{_ATTRIBUTES}{OF_EVERY_FIT}{OF_CLASSIFIERS}{_NOTES}
    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gpukfl import KernelRidgeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(KernelRidgeClassifier().fit(X, y).score(X, y) > 0.95)
    True
    """


# -------------------------------------------------------------------------------- brownian


class BrownianKernelRidge(ArrayRegressor, Learner):
    __doc__ = (
        r"""Kernel ridge regression with the kernel :math:`(\|x\| + \|x'\| - \|x - x'\|)/2`.

    The peer of BKerNN that learns no features. The intercept is not penalised.

    Parameters
    ----------
    ridge : float or "auto", default="auto"
        λ, positive; "auto" is the paper's max‖x‖/n.
    random_state : int, RandomState or None, default=None
        Draws the preconditioner's sketch.
    backend : {"auto", "numpy", "cupy", "torch"} or Backend, default="auto"
        Where to compute, as a `Backend` also in which precision.
"""
        + SCALING
        + """
    Attributes
    ----------
    X_fit_ : array of shape (n_centers, n_features)
        Centres after scaling: all rows of positive weight, or some of them if rows are in parts.
"""
        + SCALING_ATTRIBUTE
        + """    dual_coef_ : array of shape (n_centers, n_targets)
        α.
    intercept_ : array of shape (n_targets,)
        c.
    ridge_ : float
        λ used.
    status_, n_iter_, solve_residual_ : str, int, float
        How the solver ended, after how many iterations, and its relative residual.
    tuning_ : list
        Empty: the ridge has a closed form, and no settings are tried.
"""
        + OF_EVERY_FIT
        + """
    Notes
    -----
    O(n² d) time for each iteration of preconditioned conjugate gradients and a block of rows in
    memory; a dense factor up to 600 samples. Where rows lie in parts 1000 of them are centres, and
    it is O(n) with normal equations of these.

    References
    ----------
    .. [1] Follain and Bach, arXiv:2407.17280, Section 5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import BrownianKernelRidge
    >>> X = np.linspace(0, 1, 50)[:, None]
    >>> bool(BrownianKernelRidge(ridge=1e-4).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.99)
    True
    """
    )

    X_fit_: Array = held("values.centers")
    dual_coef_: Array = held("values.coef")
    _describe = describe_brownian
    _unit_free = True  # the ridge is scaled with the features

    def __init__(
        self,
        ridge: float | str = "auto",
        *,
        random_state: Any = None,
        backend: str | Backend = "auto",
        scaling: str | None = "auto",
    ) -> None:
        self.ridge = ridge
        self.random_state = random_state
        self.backend = backend
        self.scaling = scaling

    def _method(self) -> BrownianSettings:
        check_number("ridge", self.ridge, low=0, low_allowed=False, also=("auto",))
        ridge = None if self.ridge == "auto" else float(self.ridge)
        return BrownianSettings(ridge, self.scaling)

    def _keep(
        self,
        problem: Data,
        fit: BrownianFit,
        choice: SearchResult[Any, Any],  # noqa: ARG002
        back: Callable[[Array], Array],
    ) -> KernelSum:
        alpha = back(problem.to_target_units(fit.alpha))
        intercept = back(problem.to_target_units(fit.intercept, mean=True))
        check_finite_result(alpha, intercept)
        self.ridge_, self.solve_residual_ = fit.ridge, fit.residual
        self.status_, self.n_iter_ = fit.status.name, fit.n_iter
        if fit.status is not Status.CONVERGED:
            msg = f"relative residual {self.solve_residual_:.1e}: {fit.status.value}"
            warn(msg, ConvergenceWarning)
        return KernelSum(
            intercept=intercept,
            scaling=problem.scaling,
            kernel=Brownian(),
            centers=back(fit.Z),
            coef=alpha,
            in_double=False,
        )
