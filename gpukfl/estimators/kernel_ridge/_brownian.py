"""Kernel ridge regression with the multi-dimensional Brownian kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpukfl._array import Array, array_namespace, in_double
from gpukfl._checks import check_number
from gpukfl._draws import drawn
from gpukfl._places import Backend, Place
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._base import ArrayRegressor
from gpukfl.estimators._data import Data
from gpukfl.estimators._learner import Choice, Learner
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._validation import check_finite_result
from gpukfl.estimators.kernel_ridge._description import describe_brownian
from gpukfl.inspection import Description, Names
from gpukfl.kernels import Brownian
from gpukfl.methods import RidgeSystem, paper_ridge, solve_with_intercept
from gpukfl.operators import KernelMatrix, KernelOperator

_CENTERS = 1_000  # of rows that lie in parts


@dataclass(frozen=True, eq=False)
class BrownianFit:
    """Coefficients in the units of the problem, and how their solver ended."""

    Z: Array  # (q, d): all samples where these lie together
    alpha: Array  # (q, t)
    intercept: Array  # (t,)
    ridge: float
    status: Status
    n_iter: int
    residual: float


class BrownianProblem(Data):
    """One data set, and what draws a preconditioner's sketch or centres."""

    def __init__(
        self, settings: BrownianSettings, samples: Samples, place: Place, run: Run
    ) -> None:
        super().__init__(settings, samples, place)
        self.rng = run.rng


@dataclass(frozen=True)
class BrownianSettings:
    """The parameters of the estimator; a ridge that is None is the paper's."""

    ridge: float | None
    scaling: str | None
    splits: ClassVar[Splits] = Splits()

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Kernel elements of a product."""
        return n * n

    def problem(self, samples: Samples, place: Place, run: Run, /) -> BrownianProblem:
        """Place samples."""
        return BrownianProblem(self, samples, place, run)

    def given(self, problem: BrownianProblem, /) -> float:
        """Give the ridge."""
        n = problem.n_effective
        ridge = paper_ridge(problem.rows, n) if self.ridge is None else self.ridge
        return ridge or 1.0 / n  # where all rows are at the origin

    def search(self, *_: Any) -> None:
        """Search nothing: the ridge is given."""

    def learn(
        self, problem: BrownianProblem, choice: Choice[float, Any], run: Run, /
    ) -> BrownianFit:
        """Fit all rows by conjugate gradients; an interruption before has nothing to give.

        Rows that lie in parts never meet all others: they meet centres.
        """
        if choice.stopped:
            raise KeyboardInterrupt
        if problem.rows.partitioning is not None:
            return _fit_by_centers(problem, choice.setting)
        X = problem.rows.whole()
        system = RidgeSystem(problem.Y, choice.setting, problem.root_weights, rng=run.rng)
        kernel = KernelMatrix(Brownian(), X)
        solution = system.solve(kernel, rtol=system.tight())
        alpha = system.coefficients(solution.x)
        return BrownianFit(
            X,
            alpha,
            system.intercept(kernel @ alpha),
            system.ridge,
            solution.status,
            solution.n_iter,
            system.relative_residual(solution.residual),
        )


def _fit_by_centers(problem: BrownianProblem, ridge: float) -> BrownianFit:
    """Fit by normal equations of some rows as centres, in one pass."""
    rows = replace(problem.rows, reference=in_double(problem.reference))
    index = np.sort(drawn(problem.rng, rows.shape[0], min(rows.shape[0], _CENTERS)))
    operator = KernelOperator(Brownian(), rows, rows.at(index))
    weights = None if problem.weights is None else in_double(problem.weights)
    Y = in_double(problem.Y)
    alpha, intercept, factor = solve_with_intercept(operator, Y, weights, ridge=ridge)
    if factor.raised:
        warn(
            f"the kernel matrix is singular in this precision: {factor.jitter:.1e} was added to it"
        )
    return BrownianFit(operator.Z, alpha, intercept, ridge, Status.CONVERGED, 1, 0.0)


class BrownianKernelRidge(ArrayRegressor, Learner):
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
    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        How features are scaled first, each by itself: "standard" to zero mean and unit variance,
        where values far beyond all others have no part in this, see `scaling_`; "robust" by the
        median and the interquartile range, bounded smoothly by 3; "quantile" to normal scores of
        their ranks; None not at all. "auto" is "robust" where a feature of more than two values has
        an excess kurtosis above 20, and "standard" elsewhere.

    Attributes
    ----------
    X_fit_ : array of shape (n_centers, n_features)
        Centres, as the kernel sees them: all samples of positive weight, or some of those that lie
        in parts.
    scaling_ : ColumnScaling or None
        What features are scaled by: a function of rows, of host arrays. Of "standard" with `mean`
        and `scale`, which are subtracted and divided by, and `limits` (4, n_features): the lowest
        value that is taken as it is, the 1 % and the 99 % quantile, which take the place of values
        below and above, and the highest. Of "robust" with `median` and `factor`; of "quantile"
        with a table of `values` and their `scores`.
    dual_coef_ : array of shape (n_centers, n_targets)
        α.
    intercept_ : array of shape (n_targets,)
        c.
    ridge_ : float
        λ used.
    status_, n_iter_, solve_residual_ : str, int, float
        How the solver ended, after how many iterations, and its relative residual.
    tuning_ : list
        Empty: the ridge has a closed form, and no settings are tried.
    place_ : str
        Library and device that computed.
    tuning_seconds_ : float
        That the search for settings took: next to nothing.
    tuning_cut_short_ : bool
        False.
    warnings_ : list of str
        What the fit warned of, each once, at most 20.

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

    _predicts = "BrownianKernelRidge"
    _unit_free = True  # the ridge takes it up

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
        problem: BrownianProblem,
        fit: BrownianFit,
        choice: Choice[Any, Any],  # noqa: ARG002
        back: Callable[[Array], Array],
    ) -> None:
        xp = array_namespace(problem.reference)
        with np.errstate(over="ignore"):
            alpha = back(xp.astype(fit.alpha, xp.float64) * problem.y_scale[None, :])
            intercept = back(
                xp.astype(fit.intercept, xp.float64) * problem.y_scale + problem.y_mean
            )
        check_finite_result(alpha, intercept)
        self.X_fit_, self.dual_coef_, self.intercept_ = back(fit.Z), alpha, intercept
        self.ridge_, self.solve_residual_ = fit.ridge, fit.residual
        self.status_, self.n_iter_ = fit.status.name, fit.n_iter
        if fit.status is not Status.CONVERGED:
            msg = f"relative residual {self.solve_residual_:.1e}: {fit.status.value}"
            warn(msg, ConvergenceWarning)

    def _describe(self, names: Names, /) -> Description:
        return describe_brownian(self, names)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags
