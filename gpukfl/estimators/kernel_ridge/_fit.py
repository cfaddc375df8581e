"""Kernel ridge regression as a method, also with the Brownian kernel: settings, and fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gpukfl.core._array import Array, to_double, to_host
from gpukfl.core._places import Place
from gpukfl.core._random import draw_indices
from gpukfl.core._results import Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._data import Data, draw_rows, truncate
from gpukfl.estimators._learner import SearchResult
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Fold
from gpukfl.kernels import Brownian, Kernel, make_kernel, median_distance
from gpukfl.methods import (
    RIDGES,
    KernelRidge,
    KernelRidgeFit,
    RidgeSystem,
    leave_one_out_lengthscale,
    paper_ridge,
    solve_with_intercept,
)
from gpukfl.operators import KernelMatrix, KernelOperator
from gpukfl.partitioned._rows import Rows


@dataclass(frozen=True)
class KernelRidgeSetting:
    """The known settings of a fit; None means to be chosen."""

    ridge: float | None
    lengthscale: float | None = None


class KernelRidgeProblem(Data):
    """A data set with its kernel and a random generator."""

    settings: KernelRidgeSettings

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel, before distances are divided by the lengthscale."""
        return make_kernel(self.settings.kernel)

    @cached_property
    def lengthscale(self) -> float:
        """The given lengthscale, or one measured on some rows."""
        settings, kernel, given = self.settings, self.kernel, self.settings.lengthscale
        if not isinstance(given, str):
            return given
        # A kernel object has its own lengthscale
        if isinstance(settings.kernel, Kernel):
            return 1.0
        index = draw_rows(self.n, self.rng)
        rows, Y, s = self.rows.take_with(index, self.Y, self.root_weights)
        X, D = rows.whole(), None if s is None else s**2
        weights = None if D is None else to_host(D)[:, 0].astype(np.float64)
        typical = median_distance(X, norm=kernel.norm, weights=weights)
        if given == "median" or self.constant or len(index) < settings.splits.fewest:
            return typical
        ridges = RIDGES if settings.method.ridge is None else [settings.method.ridge]
        parts = None if self.relations is None else self.take(index).blocks_left_out()
        return leave_one_out_lengthscale(
            kernel, X, Y, D, typical=typical, ridges=ridges, left_out=parts
        )


@dataclass(frozen=True)
class KernelRidgeSettings:
    """The parameters of the estimators; None means "auto"."""

    kernel: str | Kernel
    lengthscale: float | str
    method: KernelRidge  # its kernel is replaced
    scaling: str | None
    splits: ClassVar[Splits] = Splits()

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Return the number of kernel elements of a product."""
        return n * min(n, 1_000)

    def problem(self, samples: Samples, place: Place, run: Run, /) -> KernelRidgeProblem:
        """Place and scale samples."""
        return KernelRidgeProblem(self, samples, place, run)

    def default_setting(self, problem: KernelRidgeProblem, /) -> KernelRidgeSetting:
        """Return the given ridge."""
        ridge = self.method.ridge
        return KernelRidgeSetting(1.0 if ridge is None and problem.constant else ridge)

    def fit_fold(
        self, fold: Fold[KernelRidgeProblem], setting: KernelRidgeSetting, *_: Any
    ) -> KernelRidgeFit:
        """Fit, and choose the settings that are None."""
        return self.fit(fold.problem, setting)

    def predict_fold(self, fold: Fold[KernelRidgeProblem], fit: KernelRidgeFit, /) -> Array:
        """Predict the held-out rows."""
        problem = fold.problem
        return truncate(fit.predict(Rows(fold.held_out.X, problem.reference)), problem.bound)

    def search(self, *_: Any) -> None:
        """Return None: the ridge is chosen in closed form."""

    def learn(
        self,
        problem: KernelRidgeProblem,
        choice: SearchResult[KernelRidgeSetting, Any],
        run: Run,  # noqa: ARG002
        /,
    ) -> KernelRidgeFit:
        """Fit all rows."""
        if choice.stopped:
            raise KeyboardInterrupt
        return self.fit(problem, choice.setting)

    def fit(self, problem: KernelRidgeProblem, setting: KernelRidgeSetting, /) -> KernelRidgeFit:
        """Choose the solver and the open settings, and solve."""
        known = setting.lengthscale
        kernel = problem.kernel.stretched(problem.lengthscale if known is None else known)
        parts = problem.blocks_left_out() if setting.ridge is None else None
        method = replace(self.method, kernel=kernel, ridge=setting.ridge, left_out=parts)
        s = problem.root_weights
        weights = None if s is None else to_double(s) ** 2
        return method.fit(problem.rows, problem.Y, weights, problem.rng)


# -------------------------------------------------------------------------------- brownian

_CENTERS = 1_000  # for partitioned rows


@dataclass(frozen=True, eq=False)
class BrownianFit:
    """Coefficients in the units of the problem, and the solver's status."""

    Z: Array  # (q, d), all rows unless these are partitioned
    alpha: Array  # (q, t)
    intercept: Array  # (t,)
    ridge: float
    status: Status
    n_iter: int
    residual: float


@dataclass(frozen=True)
class BrownianSettings:
    """The parameters of the estimator; the ridge None means the paper's."""

    ridge: float | None
    scaling: str | None
    splits: ClassVar[Splits] = Splits()

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Return the number of kernel elements of a product."""
        return n * n

    def problem(self, samples: Samples, place: Place, run: Run, /) -> Data:
        """Place samples."""
        return Data(self, samples, place, run)

    def default_setting(self, problem: Data, /) -> float:
        """Return the given or the paper's ridge."""
        n = problem.n_effective
        ridge = paper_ridge(problem.rows, n) if self.ridge is None else self.ridge
        return ridge or 1.0 / n  # where all rows are at the origin

    def search(self, *_: Any) -> None:
        """Return None: there is no search."""

    def learn(self, problem: Data, choice: SearchResult[float, Any], run: Run, /) -> BrownianFit:
        """Fit all rows by conjugate gradients, or partitioned rows with centres."""
        if choice.stopped:
            raise KeyboardInterrupt
        if problem.rows.partitioning is not None:
            return _fit_centers(problem, choice.setting)
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


def _fit_centers(problem: Data, ridge: float) -> BrownianFit:
    """Fit with some rows as centres by normal equations, in one pass."""
    rows = replace(problem.rows, reference=to_double(problem.reference))
    index = np.sort(draw_indices(problem.rng, rows.shape[0], min(rows.shape[0], _CENTERS)))
    operator = KernelOperator(Brownian(), rows, rows.gather(index))
    weights = None if problem.weights is None else to_double(problem.weights)
    Y = to_double(problem.Y)
    alpha, intercept, factor = solve_with_intercept(operator, Y, weights, ridge=ridge)
    if factor.raised:
        warn(
            f"the kernel matrix is singular in this precision: {factor.jitter:.1e} was added to it"
        )
    return BrownianFit(operator.Z, alpha, intercept, ridge, Status.CONVERGED, 1, 0.0)
