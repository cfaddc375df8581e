"""Kernel ridge regression in whole: which solver and which ridge, and the solution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpukfl._array import Array, array_namespace, double_reference, in_double
from gpukfl._memory import available_memory
from gpukfl._results import Solution, Status
from gpukfl._rows import Rows
from gpukfl.kernels import Kernel
from gpukfl.methods._centers import choose_centers
from gpukfl.methods._kernel_ridge import (
    DenseSystem,
    nystrom_preconditioner,
    solve_by_conjugate_gradients,
)
from gpukfl.methods._left_out import folds, left_out_path
from gpukfl.methods._nystrom import NystromFactor, NystromSystem, falkon
from gpukfl.methods._ridge_path import RidgePath, best_path
from gpukfl.operators import KernelMatrix, KernelOperator
from gpukfl.solvers import ConjugateGradient

SOLVERS = ("auto", "direct", "cg", "falkon")
RIDGES = [float(ridge) for ridge in np.geomspace(1e-9, 1e2, 34)]  # three to a decade

_CONJUGATE_GRADIENT = ConjugateGradient(1e-6, max_iter=100)
_DENSE_UP_TO = 5_000  # samples up to which "auto" forms the kernel matrix
_EXACT_UP_TO = 20_000  # samples up to which "auto" takes all of them as centres
_PATH_DENSE = 2_000  # samples up to which the ridge is chosen on the whole kernel matrix
_PATH_CENTERS = 1_000  # centres on which it is chosen otherwise
_GRAM_UP_TO = 2_000  # centres up to which their normal equations are formed
_SOLVED = 1e-3  # share of the targets up to which what a factor leaves of them is rounding


@dataclass(frozen=True)
class KernelRidge:
    """Kernel ridge regression of centred targets.

    Attributes
    ----------
    kernel : Kernel
        At its lengthscale.
    ridge : float, optional
        λ, at least 0; None is chosen by leave-one-out or held-out samples.
    solver : {"auto", "direct", "cg", "falkon"}
        "auto" is direct while the matrix is small, and FALKON for many centres.
    n_centers : int, optional
        Nyström centres; None is all samples where the solver can, else some.
    center_selection : str
        See `choose_centers`.
    conjugate_gradient : ConjugateGradient
        Tolerance and iterations of "cg" and "falkon".
    cautious : bool
        Of the ridges that n errors can hardly tell apart take the largest: the smallest are as
        good among the samples and wild outside.
    """

    kernel: Kernel
    ridge: float | None = None
    solver: str = "auto"
    n_centers: int | None = None
    center_selection: str = "uniform"
    conjugate_gradient: ConjugateGradient = _CONJUGATE_GRADIENT
    cautious: bool = False

    def fit(
        self, rows: Rows, Y: Array, weights: Array | None, rng: np.random.RandomState, /
    ) -> KernelRidgeFit:
        """Choose and solve.

        Factors, exact solves and normal equations are float64 whatever the rows are: ridges far
        below the precision of float32 are often the best. FALKON takes the rows as they are.

        Parameters
        ----------
        rows : Rows
            Samples (n, d).
        Y : array, shape (n, t)
            Targets of mean 0.
        weights : array, shape (n, 1), optional
            Sample weights.
        rng : RandomState
            Draws centres and folds, on the host.
        """
        return _Problem(self, rows, Y, weights, rng).solve()


@dataclass(frozen=True, eq=False)
class KernelRidgeFit:
    """Dual coefficients, and how they were found."""

    kernel: Kernel
    Z: Array  # centres (q, d)
    alpha: Array  # (q, t), float64
    solver: str
    ridge: float = 0.0
    path: RidgePath | None = None  # on which the ridge was chosen
    status: Status = Status.CONVERGED
    n_iter: int = 1
    residual: float = 0.0
    jitter: float = 0.0
    raised: bool = False
    condition: float | None = None

    def predict(self, rows: Rows, /) -> Array:
        """Fitted functions at rows (n, t)."""
        xp = array_namespace(self.alpha)
        Z = xp.astype(self.Z, rows.reference.dtype, copy=False)
        return KernelOperator(self.kernel, rows, Z) @ xp.astype(self.alpha, Z.dtype, copy=False)


class _Problem:
    """One fit, whose parts are made once."""

    def __init__(
        self,
        method: KernelRidge,
        rows: Rows,
        Y: Array,
        weights: Array | None,
        rng: np.random.RandomState,
    ) -> None:
        self.method, self.given_rows, self.rng = method, rows, rng
        self.rows = replace(rows, reference=double_reference(rows.reference))
        self.Y = in_double(Y)
        self.weights = None if weights is None else in_double(weights)
        self.n, self._together = rows.shape[0], rows.partitioning is None
        self.solver, self.n_centers = self._plan()
        self._systems: dict[int, NystromSystem] = {}
        self.path: RidgePath | None = None
        self.ridge = self._choose_ridge()

    def _plan(self) -> tuple[str, int]:
        """Solver and number of centres; n centres mean the exact problem where rows lie together.

        Rows that lie in parts never meet all others.
        """
        solver, wanted, n = self.method.solver, self.method.n_centers, self.n
        if solver == "cg" and not self._together:
            msg = (
                "expected solver 'auto', 'direct' or 'falkon' for rows that lie in parts, got "
                "'cg', which takes all pairs of rows"
            )
            raise ValueError(msg)
        if wanted is None:
            fits = 32 * n * n <= available_memory(self.rows.reference)
            exact = n <= _EXACT_UP_TO if solver == "auto" else solver in ("direct", "cg")
            exact = exact and self._together
            centers = n if exact else min(n, 4_000, max(1_000, int(4 * math.sqrt(n))))
            if solver == "auto" and exact:
                return ("direct" if n <= _DENSE_UP_TO and fits else "cg"), n
        else:
            centers = min(wanted, n)
        if solver == "auto":
            solver = "direct" if centers <= _GRAM_UP_TO else "falkon"
        return solver, centers

    def _choose_ridge(self) -> float:
        wanted = self.method.ridge
        if wanted is not None:
            # Below this the precision cannot tell a ridge from rounding
            return max(wanted, 0.0 if self._is_dense else 1e-14)
        if self.n <= _PATH_DENSE and (self.solver == "cg" or self._takes_all):
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
        tolerance = self.n**-0.5
        if self.method.cautious:
            return self.path.largest_good(tolerance)
        return self.path.best_inside(tolerance)

    @property
    def _is_dense(self) -> bool:
        return self.solver == "direct" and self._takes_all

    @property
    def _takes_all(self) -> bool:
        return self._together and self.n_centers == self.n

    def _operator(self, n_centers: int, rows: Rows) -> KernelOperator:
        ridge = 1e-6 if self.method.ridge is None else self.method.ridge
        index = choose_centers(
            self.method.center_selection,
            self.method.kernel,
            rows,
            n_centers,
            ridge=max(ridge, 1e-9),
            rng=self.rng,
        )
        return KernelOperator(self.method.kernel, rows, rows.at(index), keep=self._together)

    def _system(self, n_centers: int) -> NystromSystem:
        """Form the normal equations, once: the ridge is chosen on those that are solved."""
        if n_centers not in self._systems:
            operator = self._operator(n_centers, self.rows)
            self._systems[n_centers] = NystromSystem.of(operator, self.Y, self.weights)
        return self._systems[n_centers]

    @cached_property
    def _dense(self) -> DenseSystem:
        kernel = KernelMatrix(self.method.kernel, self.rows.whole())
        system = DenseSystem.of(kernel.dense(kernel.X), self.Y, self.weights)
        return system.near_spectrum() if self.method.ridge is None else system

    def solve(self) -> KernelRidgeFit:
        """Solve by the solver that was chosen."""
        if self._is_dense:
            found = self._solve_densely()
        elif self.solver == "cg":
            found = self._solve_by_cg()
        elif self.solver == "direct":
            system = self._system(self.n_centers)
            found = self._reported(system.operator.Z, *system.solve(self.ridge))
        else:
            found = self._solve_by_falkon()
        return replace(found, ridge=self.ridge, path=self.path)

    def _solve_densely(self) -> KernelRidgeFit:
        alpha, jitter, residuals = self._dense.solve(self.ridge)
        residual = float(array_namespace(residuals).max(residuals))
        fit = KernelRidgeFit(self.method.kernel, self.given_rows.whole(), alpha, self.solver)
        status = Status.CONVERGED if residual <= _SOLVED else Status.STALLED
        return replace(fit, status=status, residual=residual, jitter=jitter, raised=jitter > 0)

    def _solve_by_cg(self) -> KernelRidgeFit:
        wanted = _PATH_CENTERS if self.method.n_centers is None else self.n_centers
        system = self._system(min(self.n, wanted))
        alpha, solution = solve_by_conjugate_gradients(
            KernelMatrix(self.method.kernel, self.rows.whole()),
            self.Y,
            self.weights,
            ridge=self.ridge,
            preconditioner=nystrom_preconditioner(system, self.weights, self.ridge),
            solver=self.method.conjugate_gradient,
        )
        fit = KernelRidgeFit(self.method.kernel, self.given_rows.whole(), alpha, self.solver)
        return _ended(fit, solution)

    def _solve_by_falkon(self) -> KernelRidgeFit:
        operator = self._operator(self.n_centers, self.given_rows).kept_in_parts()
        xp, dtype = array_namespace(self.Y), self.given_rows.reference.dtype
        alpha, factor, solution = falkon(
            operator,
            xp.astype(self.Y, dtype),
            None if self.weights is None else xp.astype(self.weights, dtype),
            ridge=self.ridge,
            solver=self.method.conjugate_gradient,
        )
        return _ended(self._reported(operator.Z, alpha, factor), solution)

    def _reported(self, Z: Array, alpha: Array, factor: NystromFactor) -> KernelRidgeFit:
        fit = KernelRidgeFit(self.method.kernel, Z, alpha, self.solver)
        return replace(fit, jitter=factor.jitter, raised=factor.raised, condition=factor.condition)


def _ended(fit: KernelRidgeFit, solution: Solution) -> KernelRidgeFit:
    return replace(
        fit,
        status=solution.status,
        n_iter=solution.n_iter,
        residual=solution.relative_residual,
    )
