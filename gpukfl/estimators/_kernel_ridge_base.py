"""What the kernel ridge estimators share: parameters, the choice of solver, and the fit."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    double_like,
    epsilon,
    library_of,
    like,
    sample_norm,
    to_host,
)
from gpukfl._memory import available_memory
from gpukfl._places import resolve_place
from gpukfl._results import Solution, Status
from gpukfl._rows import Rows
from gpukfl._warnings import warn
from gpukfl.estimators._base import HostPickled
from gpukfl.estimators._data import Data, dtype_for, mover
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._splits import folds, left_out_path
from gpukfl.estimators._validation import (
    check_choice,
    check_finite_result,
    check_number,
    check_place,
    check_switch,
    validate_samples,
)
from gpukfl.kernels import Kernel, make_kernel, median_distance
from gpukfl.methods import (
    SELECTIONS,
    DenseSystem,
    NystromFactor,
    NystromSystem,
    RidgePath,
    best_path,
    choose_centers,
    falkon,
    nystrom_preconditioner,
    rows_at,
    solve_by_conjugate_gradients,
)
from gpukfl.operators import KernelMatrix, KernelOperator
from gpukfl.solvers import ConjugateGradient

SOLVERS = ("auto", "direct", "cg", "falkon")
RIDGES = np.geomspace(1e-9, 1e2, 34).tolist()  # three to a decade

_DENSE_UP_TO = 5_000  # samples up to which "auto" forms the kernel matrix
_EXACT_UP_TO = 20_000  # samples up to which "auto" takes all of them as centres
_PATH_DENSE = 2_000  # samples up to which the ridge is chosen on the whole kernel matrix
_PATH_CENTERS = 1_000  # centres on which it is chosen otherwise
_ROUNDING = 0.02  # of a standard deviation of y, by which predictions are moved without a word
_GRAM_UP_TO = 2_000  # centres up to which their normal equations are formed


@dataclass(frozen=True, eq=False)
class _Solved:
    """Dual coefficients, and how they were found."""

    Z: Array
    alpha: Array
    solver: str
    status: Status = Status.CONVERGED
    n_iter: int = 1
    residual: float = 0.0
    jitter: float = 0.0
    raised: bool = False
    condition: float | None = None


class KernelRidgeBase(HostPickled):
    """The common part: parameters, the choice of solver, the fit, and predictions."""

    _unit_free = True  # the lengthscale takes it up

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
        backend: str = "auto",
        dtype: str = "auto",
        normalize_y: bool = True,
        standardize: bool = True,
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
        self.dtype = dtype
        self.normalize_y = normalize_y
        self.standardize = standardize

    def _check_parameters(self) -> None:
        make_kernel(self.kernel)
        check_number("ridge", self.ridge, low=0, also=("auto",))
        check_number("lengthscale", self.lengthscale, low=0, low_allowed=False, also=("auto",))
        check_choice("solver", self.solver, SOLVERS)
        check_number("n_centers", self.n_centers, kind=numbers.Integral, low=1, also=("auto",))
        check_choice("center_selection", self.center_selection, SELECTIONS)
        check_number("max_iter", self.max_iter, kind=numbers.Integral, low=1)
        check_number("tol", self.tol, low=0, low_allowed=False)
        check_place(self)
        for switch in ("normalize_y", "standardize"):
            check_switch(switch, getattr(self, switch))

    def _fit(self, samples: Samples, run: Run) -> None:
        """Fit every target and set every attribute; nothing is set on an error."""
        X, n = samples.X, len(samples)
        work = n * min(n, 1000)
        place = resolve_place(self.backend, X, dtype=dtype_for(self, X), work=work)
        data = Data(self, samples, place)
        problem = _Problem(self, data, run.rng)
        solved = problem.solve()
        self._keep(problem, solved, X)

    def _best_of(self, path: RidgePath, _: int) -> float:
        """Ridge to solve with, of those that were scored on some number of samples."""
        return path.best

    def _keep(self, problem: _Problem, solved: _Solved, X: Array) -> None:
        data = problem.data
        xp = array_namespace(data.reference)
        back = mover(X, dtype_for(self, X))
        with np.errstate(over="ignore"):
            dual_coef = back(xp.astype(solved.alpha, xp.float64) * data.y_scale[None, :])
        intercept = back(data.y_mean)
        check_finite_result(dual_coef, intercept)
        self.dual_coef_, self.intercept_ = dual_coef, intercept
        self.centers_ = back(solved.Z)
        self._keep_scaling(data.rows, X)
        self.kernel_, self.lengthscale_ = problem.kernel, problem.lengthscale
        self.ridge_, self.ridge_path_ = problem.ridge, problem.path
        self.solver_, self.status_ = solved.solver, solved.status.name
        self.n_iter_, self.solve_residual_ = solved.n_iter, solved.residual
        self.jitter_, self.condition_ = solved.jitter, solved.condition
        self.place_ = f"{library_of(data.reference)} {data.reference.device}"
        self._library = library_of(X)
        self._warn(problem, solved)

    def _warn(self, problem: _Problem, solved: _Solved) -> None:
        if solved.raised:
            msg = (
                f"the kernel matrix is singular in this precision: {solved.jitter:.1e} of its mean "
                "diagonal was added to its diagonal"
            )
            warn(msg, ConvergenceWarning)
        if solved.status is not Status.CONVERGED:
            msg = f"relative residual {solved.residual:.1e}: {solved.status.value}"
            warn(msg, ConvergenceWarning)
        self._warn_of_rounding(problem, solved)
        if problem.path is not None and not problem.path.brackets:
            self._warn_at_edge(problem.path, problem.ridge)

    def _warn_of_rounding(self, problem: _Problem, solved: _Solved) -> None:
        eps = epsilon(self.dual_coef_)
        if solved.solver == "falkon" and problem.ridge < epsilon(problem.data.reference):
            what = "kernel values in this precision do not resolve it"
        elif (moved := eps * _largest_ratio(solved.alpha, problem.Y)) > _ROUNDING:
            what = f"rounded coefficients move predictions by some {moved:.0%} of y's deviation"
        else:
            return
        msg = f"at a ridge of {problem.ridge:.1e} {what}: give a larger one, or float64 data"
        warn(msg, UserWarning)

    def _warn_at_edge(self, path: RidgePath, ridge: float) -> None:
        lowest = ridge <= min(path.ridges)
        msg = f"the best ridge, {ridge:.1e}, is at the edge of those tried: " + (
            "the lengthscale may be too long" if lowest else "give one of your own"
        )
        warn(msg, UserWarning)

    def _predict(self, X: Any, method: str) -> Array:
        """Fitted functions at `X`: (n, t)."""
        check_is_fitted(self)
        X = validate_samples(self, X, reset=False, method=method)
        xp = array_namespace(self.centers_)
        reference = xp.empty((0,), **like(self.centers_))
        rows = Rows(X, reference, self.mean_, self.scale_, self.limits_)
        operator = KernelOperator(self.kernel_, rows, self.centers_)
        return xp.astype(self.intercept_ + operator @ self.dual_coef_, X.dtype)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


class _Problem:
    """One fit: kernel, ridge and solver as chosen, and the solution."""

    def __init__(self, settings: Any, data: Data, rng: np.random.RandomState) -> None:
        self.settings, self.data, self.rng = settings, data, rng
        kernel = make_kernel(settings.kernel)
        self.lengthscale = self._lengthscale(kernel)
        self.kernel = kernel.stretched(self.lengthscale)
        # Factors, exact solves and normal equations are float64 whatever the data are: ridges far
        # below the precision of float32 are often the best
        xp = array_namespace(data.reference)
        self.rows = replace(data.rows, reference=xp.empty((0,), **double_like(data.reference)))
        self.Y = xp.astype(data.Y, xp.float64)
        s = data.root_weights
        self.weights = None if s is None else xp.astype(s, xp.float64) ** 2
        self.n = data.rows.shape[0]
        self.solver, self.n_centers = self._plan()
        self._systems: dict[int, NystromSystem] = {}
        self.path: RidgePath | None = None
        self.ridge = self._choose_ridge()

    def _lengthscale(self, kernel: Kernel) -> float:
        if self.settings.lengthscale != "auto":
            return float(self.settings.lengthscale)
        # A kernel given as a value has the lengthscale that its maker gave it
        if isinstance(self.settings.kernel, Kernel):
            return 1.0
        X, weights = self.data.sample(self.rng)
        return median_distance(X, norm=kernel.norm, weights=weights)

    def _plan(self) -> tuple[str, int]:
        """Solver and number of centres; n centres mean the exact problem."""
        solver, wanted, n = self.settings.solver, self.settings.n_centers, self.n
        if wanted == "auto":
            fits = 32 * n * n <= available_memory(self.data.reference)
            exact = n <= _EXACT_UP_TO if solver == "auto" else solver in ("direct", "cg")
            centers = n if exact else min(n, 4_000, max(1_000, int(4 * math.sqrt(n))))
            if solver == "auto" and exact:
                return ("direct" if n <= _DENSE_UP_TO and fits else "cg"), n
        else:
            centers = min(int(wanted), n)
            if wanted > n:
                warn(
                    f"n_centers={wanted} is more than the {n} samples: all of them are centres",
                    UserWarning,
                )
        if solver == "auto":
            solver = "direct" if centers <= _GRAM_UP_TO else "falkon"
        return solver, centers

    def _choose_ridge(self) -> float:
        wanted = self.settings.ridge
        if wanted != "auto":
            # Below this the precision cannot tell a ridge from rounding
            return max(float(wanted), 0.0 if self._is_dense else 1e-14)
        if self.data.constant:
            return 1.0
        takes_all = self.solver == "cg" or self.n_centers == self.n
        if self.n <= _PATH_DENSE and takes_all:
            _, self.path = best_path(
                [self._dense],
                lambda system: system.leave_one_out(RIDGES),
                lambda system: system.held_out(folds(self.n, self.rng), RIDGES),
            )
        else:
            given = self.Y, self.weights
            _, self.path = best_path(
                [self._system(min(self.n_centers, _PATH_CENTERS))],
                lambda system: left_out_path(system, *given, RIDGES),
                lambda system: system.held_out(*given, folds(self.n, self.rng), RIDGES),
            )
        return self.settings._best_of(self.path, self.n)

    @property
    def _is_dense(self) -> bool:
        return self.solver == "direct" and self.n_centers == self.n

    def _operator(self, n_centers: int, rows: Rows) -> KernelOperator:
        ridge = self.settings.ridge if self.settings.ridge != "auto" else 1e-6
        index = choose_centers(
            self.settings.center_selection,
            self.kernel,
            rows,
            n_centers,
            ridge=max(float(ridge), 1e-9),
            rng=self.rng,
        )
        return KernelOperator(self.kernel, rows, rows_at(rows, index), keep=True)

    def _system(self, n_centers: int) -> NystromSystem:
        """Form the normal equations, once: the ridge is chosen on those that are solved."""
        if n_centers not in self._systems:
            operator = self._operator(n_centers, self.rows)
            self._systems[n_centers] = NystromSystem.of(operator, self.Y, self.weights)
        return self._systems[n_centers]

    @cached_property
    def _dense(self) -> DenseSystem:
        kernel = KernelMatrix(self.kernel, self.rows.whole())
        return DenseSystem.of(kernel.dense(kernel.X), self.Y, self.weights)

    def solve(self) -> _Solved:
        """Solve by the solver that was chosen."""
        if self.data.constant:
            warn(
                "y is constant: the model predicts that constant",
                UserWarning,
            )
        if self._is_dense:
            return self._solve_densely()
        if self.solver == "cg":
            return self._solve_by_cg()
        if self.solver == "direct":
            system = self._system(self.n_centers)
            alpha, factor = system.solve(self.ridge)
            return self._reported(system.operator.Z, alpha, factor, "direct")
        operator = self._operator(self.n_centers, self.data.rows)
        root = self.data.root_weights
        alpha, factor, solution = falkon(
            operator,
            self.data.Y,
            None if root is None else root * root,
            ridge=self.ridge,
            solver=ConjugateGradient(self.settings.tol, max_iter=self.settings.max_iter),
        )
        found = self._reported(operator.Z, alpha, factor, "falkon")
        return replace(found, **_ending(solution))

    def _solve_densely(self) -> _Solved:
        alpha, jitter, residuals = self._dense.solve(self.ridge)
        residual = float(array_namespace(residuals).max(residuals))
        X = self.data.rows.whole()
        return _Solved(X, alpha, "direct", residual=residual, jitter=jitter, raised=jitter > 0)

    def _solve_by_cg(self) -> _Solved:
        wanted = _PATH_CENTERS if self.settings.n_centers == "auto" else self.n_centers
        system = self._system(min(self.n, wanted))
        alpha, solution = solve_by_conjugate_gradients(
            KernelMatrix(self.kernel, self.rows.whole()),
            self.Y,
            self.weights,
            ridge=self.ridge,
            preconditioner=nystrom_preconditioner(system, self.weights, self.ridge),
            solver=ConjugateGradient(self.settings.tol, max_iter=self.settings.max_iter),
        )
        return _Solved(self.data.rows.whole(), alpha, "cg", **_ending(solution))

    @staticmethod
    def _reported(Z: Array, alpha: Array, factor: NystromFactor, solver: str) -> _Solved:
        return _Solved(
            Z, alpha, solver, jitter=factor.jitter, raised=factor.raised, condition=factor.condition
        )


def _largest_ratio(alpha: Array, Y: Array) -> float:
    """Largest norm of coefficients (q, t), in root mean squares of their targets (n, t)."""
    size, of = to_host(sample_norm(alpha)), to_host(sample_norm(Y)) / math.sqrt(Y.shape[0])
    return float(np.max(size[of > 0] / of[of > 0], initial=0.0))


def _ending(solution: Solution) -> dict[str, Any]:
    return {
        "status": solution.status,
        "n_iter": solution.n_iter,
        "residual": solution.relative_residual,
    }
