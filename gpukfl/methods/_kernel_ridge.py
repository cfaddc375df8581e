"""Kernel ridge regression with all or some samples as centres, and its ridge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    clip,
    double_reference,
    epsilon,
    index_like,
    like,
    sample_norm,
    to_double,
    to_host,
)
from gpukfl.core._lazy import OldName
from gpukfl.core._memory import available_memory
from gpukfl.core._random import draw_indices, remaining_indices
from gpukfl.core._results import Solution, Status
from gpukfl.kernels import Kernel
from gpukfl.linalg import (
    add_to_diagonal,
    eigh,
    eigh_and_measure,
    mean_diagonal,
    move_small_to_host,
    restore_device,
    solve_and_measure,
)
from gpukfl.methods._centers import choose_centers
from gpukfl.methods._nystrom import NystromFactor, NystromSystem, falkon, indefinite_error
from gpukfl.methods._ridge_path import JUDGING, Fold, RidgePath, best_path, mix_targets
from gpukfl.operators import KernelMatrix, KernelOperator
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient, NystromPreconditioner

# ---------------------------------------------------------------------------- kernel ridge

# Kernel ridge regression with all samples as centres.
#
# With N the sum of the weights D,
#
# .. math:: \min_f \frac1N \sum_i D_i (f(x_i) - y_i)^2 + \lambda \|f\|^2, \qquad
#           f = \sum_i \alpha_i k(\cdot, x_i), \qquad
#           \alpha = D^{1/2} (D^{1/2} K D^{1/2} + N \lambda I)^{-1} D^{1/2} Y.


_RAISE, _LARGEST_JITTER = 100.0, 1e-2


@dataclass(frozen=True, eq=False)
class DenseSystem:
    """The system of all samples, with the kernel matrix in memory: O(n²) memory, O(n³) time."""

    K: Array  # (n, n), weighted on both sides
    Y: Array  # (n, t), weighted
    root_weights: Array | None  # (n, 1)
    weight: float  # N
    place: Array  # of no rows, where what is found goes

    @classmethod
    def from_kernel(cls, K: Array, Y: Array, weights: Array | None, /) -> DenseSystem:
        """Weigh `K` (n, n) and `Y` (n, t)."""
        xp, place = array_namespace(K), Y[:0, :]
        if weights is None:
            return cls(K, Y, None, float(K.shape[0]), place)
        s = xp.sqrt(weights)
        return cls(s * K * s.T, s * Y, s, float(xp.sum(weights, dtype=xp.float64)), place)

    def near_spectrum(self) -> DenseSystem:
        """Return the system on the place of the eigensolver: the host for few samples of a GPU.

        There errors of all ridges, and the solution, are made without a launch or a wait.
        """
        roots = () if self.root_weights is None else (self.root_weights,)
        K, Y, *rest = move_small_to_host(self.K, self.Y, *roots)
        return replace(self, K=K, Y=Y, root_weights=rest[0] if rest else None)

    def variation(self) -> float:
        """Variance of the samples in the kernel's feature space."""
        K, n = self.K, self.K.shape[0]
        xp, N = array_namespace(K), self.weight
        s = xp.ones((n, 1), **like(K)) if self.root_weights is None else self.root_weights
        return float(mean_diagonal(K) * (n / N) - xp.sum(s * (K @ s)) / N**2)

    def _dual_coefficients(self, beta: Array) -> Array:
        """Return the dual coefficients on their place."""
        alpha = beta if self.root_weights is None else self.root_weights * beta
        return restore_device(alpha, self.place)

    def solve(self, ridge: float, /) -> tuple[Array, float, Array]:
        """Solve by a Cholesky factor: a GPU is waited for once.

        Returns
        -------
        tuple
            α (n, t), the jitter that had to be added relative to the mean diagonal (0 where the
            matrix is positive definite as it is), and on the host relative residuals (t,).

        Raises
        ------
        numpy.linalg.LinAlgError
            If no small jitter makes the matrix positive definite.
        """
        xp, size = array_namespace(self.K), sample_norm(self.Y)
        size = xp.where(size > 0, size, xp.ones_like(size))

        def residuals(beta: Array, shift: Array | float) -> Array:
            return sample_norm(self.Y - self.K @ beta - shift * beta) / size

        beta, found, jitter = self._solve_with_jitter(ridge, residuals)
        return self._dual_coefficients(beta), jitter, found

    def solve_and_measure(
        self, ridge: float, measure: Callable[[Array], Array], /
    ) -> tuple[Array, Array]:
        """Return the α of `solve`, and the host vector ``measure(α)``: one wait."""
        beta, numbers, _ = self._solve_with_jitter(
            ridge, lambda beta, _: measure(self._dual_coefficients(beta))
        )
        return self._dual_coefficients(beta), numbers

    def _solve_with_jitter(
        self, ridge: float, measure: Callable[[Array, Array | float], Array]
    ) -> tuple[Array, Array, float]:
        """Return β, its measures, and the jitter."""
        jitter = 0.0
        shift: Array | float = self.weight * ridge
        while True:
            try:
                return *self._solve_shift(shift, measure), jitter
            except np.linalg.LinAlgError as error:
                if jitter > _LARGEST_JITTER:
                    raise indefinite_error(self.K.shape[0], jitter) from error
                jitter = max(jitter * _RAISE, self.K.shape[0] * epsilon(self.K))
                shift = self.weight * ridge + jitter * mean_diagonal(self.K)

    def _solve_shift(
        self, shift: Array | float, measure: Callable[[Array, Array | float], Array]
    ) -> tuple[Array, Array]:
        A = add_to_diagonal(self.K, shift)
        return solve_and_measure(A, self.Y, lambda beta: measure(beta, shift))

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        s, Q = eigh(self.K)
        return clip(s, low=0.0), Q

    def leave_one_out(self, ridges: Sequence[float], /) -> RidgePath:
        r"""Leave-one-out error over all ridges from one eigendecomposition.

        The residual without sample i is :math:`\alpha_i / [(K + N \lambda I)^{-1}]_{ii}`: a sample
        is left out with all of its weight. Of many targets, mixtures stand for them.
        """

        def errors(s: Array, Q: Array) -> Array:
            return self._errors_left_out(ridges, clip(s, low=0.0), Q)

        if "_spectrum" in self.__dict__:
            scores = to_host(self._errors_left_out(ridges, *self._spectrum))
        else:  # what is measured is read with whether there is a spectrum
            s, Q, scores = eigh_and_measure(self.K, errors)
            self.__dict__["_spectrum"] = clip(s, low=0.0), Q
        return RidgePath(list(ridges), [float(score) for score in scores])

    def _errors_left_out(self, ridges: Sequence[float], s: Array, Q: Array) -> Array:
        xp, Y = array_namespace(self.K), mix_targets(self.Y, JUDGING)
        shifts = self.weight * xp.asarray(list(ridges), **like(self.K))
        shrunk = 1.0 / (s[:, None] + shifts[None, :])  # (n, ridges)
        inverse, turned = (Q * Q) @ shrunk, Q.T @ Y
        total = xp.zeros_like(shifts)
        for c in range(Y.shape[1]):
            left = Q @ (shrunk * turned[:, c][:, None]) / inverse
            total = total + xp.sum(left * left, axis=0)
        return total / self.weight

    def left_out(self, ridge: float, /) -> Array:
        """Predict each sample by the others, (n, t): from the same eigendecomposition."""
        s, Q = self._spectrum
        shrunk = (1.0 / (s + self.weight * ridge))[:, None]
        predicted = self.Y - Q @ (shrunk * (Q.T @ self.Y)) / ((Q * Q) @ shrunk)
        if self.root_weights is not None:
            xp = array_namespace(self.K)
            nothing = self.root_weights == 0  # whose predictions nobody weighs
            ones = xp.ones_like(self.root_weights)
            predicted = predicted / xp.where(nothing, ones, self.root_weights)
        return restore_device(predicted, self.place)

    def held_out(self, folds: Sequence[Fold], ridges: Sequence[float], /) -> RidgePath:
        """Return the cross-validation errors over folds of host indices: O(n³) each."""
        totals, total = [0.0] * len(ridges), 0.0
        for fold in folds:
            *errors, weight = self._fold_errors(fold, ridges)
            totals = [a + b for a, b in zip(totals, errors, strict=True)]
            total += self.weight - weight
        return RidgePath(list(ridges), [error / total for error in totals])

    def _fold_errors(self, fold: Fold, ridges: Sequence[float]) -> list[float]:
        """Return the sum of squared errors on a fold for each ridge, and the training weight."""
        xp, inside = array_namespace(self.K), remaining_indices(fold, self.K.shape[0])
        known, unknown = (xp.asarray(index, **index_like(self.K)) for index in (inside, fold))
        K, Y = xp.take(self.K, known, axis=1), xp.take(self.Y, known, axis=0)
        across, target = xp.take(K, unknown, axis=0), xp.take(self.Y, unknown, axis=0)
        roots = xp.ones_like(self.Y[:, :1]) if self.root_weights is None else self.root_weights
        weight = sample_norm(xp.take(roots, known, axis=0)) ** 2

        def errors(s: Array, Q: Array) -> Array:
            s, turned, T, sums = clip(s, low=0.0), Q.T @ Y, across @ Q, []
            own = xp.astype(weight, s.dtype)
            for ridge in ridges:
                left = target - T @ (turned / (s + own * ridge)[:, None])
                sums.append(xp.sum(left * left, dtype=xp.float64))
            return xp.concat([xp.stack(sums), weight])

        return eigh_and_measure(xp.take(K, known, axis=0), errors)[2].tolist()

    of = OldName("from_kernel")
    coefficients_and = OldName("solve_and_measure")


def solve_by_conjugate_gradients(
    kernel: KernelMatrix,
    Y: Array,
    weights: Array | None,
    /,
    *,
    ridge: float,
    preconditioner: Callable[[Array], Array],
    solver: ConjugateGradient,
) -> tuple[Array, Solution]:
    """Solve for α (n, t) without storing the kernel matrix: O(n² d) for each iteration."""
    xp = array_namespace(Y)
    s = None if weights is None else xp.sqrt(weights)
    weight = float(Y.shape[0]) if weights is None else float(xp.sum(weights, dtype=xp.float64))

    def apply(V: Array) -> Array:
        product = kernel @ (V if s is None else s * V)
        return (product if s is None else s * product) + weight * ridge * V

    solution = solver.solve(apply, Y if s is None else s * Y, precondition=preconditioner)
    return (solution.x if s is None else s * solution.x), solution


def nystrom_preconditioner(
    system: NystromSystem, weights: Array | None, ridge: float, /
) -> NystromPreconditioner:
    """Approximate inverse of the weighted kernel matrix plus Nλ from its centres: O(n q²)."""
    operator = system.operator
    xp = array_namespace(operator.Z)
    factor = system.factor(ridge)
    inner, _ = system.whiten(factor)
    squares, V = eigh(inner)
    squares, V = xp.flip(squares), xp.flip(V, axis=1)
    floor = max(float(squares[0]), 1e-300) * squares.shape[0] * epsilon(operator.Z)
    back = factor.L.solve_upper(V) / xp.sqrt(clip(squares, low=floor))[None, :]
    U = operator @ xp.astype(back, operator.Z.dtype)
    if weights is not None:
        U = xp.sqrt(weights) * U
    eigenvalues = xp.astype(clip(squares, low=0.0), U.dtype)
    return NystromPreconditioner(U, eigenvalues, system.weight * ridge)


# -------------------------------------------------------------------------------- left out

# Folds of rows within a problem, and ridges by rows that are left out.


N_FOLDS = 5
FOLDS_BELOW = 1_000  # rows below which one held-out set is too small to choose by

_HELD_OUT = 20_000  # rows that are held out once, at most
_LEFT_OUT_UP_TO = 20  # rows to a centre up to which each is left out: GCV needs many


def folds(n: int, rng: np.random.RandomState, /) -> list[Fold]:
    """Draw host indices to hold out of n rows, ascending: in five folds where rows are few.

    Else a fifth of them once, or 20 000.
    """
    if n > N_FOLDS * _HELD_OUT:
        return [np.sort(draw_indices(rng, n, _HELD_OUT))]
    parts = [np.sort(part) for part in np.array_split(rng.permutation(n), min(N_FOLDS, n))]
    return parts if n < FOLDS_BELOW else parts[:1]


def leave_one_out_path(
    system: NystromSystem, Y: Array, weights: Array | None, ridges: Sequence[float], /
) -> RidgePath:
    """Return the errors along the ridges by leave-one-out, or by GCV for many rows."""
    n, q = system.operator.shape
    if n <= _LEFT_OUT_UP_TO * q:
        return system.leave_one_out(Y, weights, ridges)
    return system.path(ridges)


# ------------------------------------------------------------------------ kernel ridge fit

# Kernel ridge regression in whole: which solver and which ridge, and the solution.


SOLVERS = ("auto", "direct", "cg", "falkon")
RIDGES = [float(ridge) for ridge in np.geomspace(1e-9, 1e2, 34)]  # three to a decade

_CONJUGATE_GRADIENT = ConjugateGradient(1e-6, max_iter=100)
_DENSE_UP_TO = 5_000  # samples up to which "auto" forms the kernel matrix
_EXACT_UP_TO = 20_000  # samples up to which "auto" takes all of them as centres
_PATH_DENSE = 2_000  # samples up to which the ridge is chosen on the whole kernel matrix
_PATH_CENTERS = 1_000  # centres on which it is chosen otherwise
_GRAM_UP_TO = 2_000  # centres up to which their normal equations are formed
_SOLVED = 1e-3  # share of the targets up to which what a factor leaves of them is rounding

System = TypeVar("System", DenseSystem, NystromSystem)


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
    left_out : sequence of host arrays, optional
        Samples that are left out together where a ridge is chosen; None is each alone.
    """

    kernel: Kernel
    ridge: float | None = None
    solver: str = "auto"
    n_centers: int | None = None
    center_selection: str = "uniform"
    conjugate_gradient: ConjugateGradient = _CONJUGATE_GRADIENT
    cautious: bool = False
    left_out: Sequence[Fold] | None = None

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
    """Dual coefficients, and the record of their fit."""

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
    """One fit, whose parts are computed once."""

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
        self.Y = to_double(Y)
        self.weights = None if weights is None else to_double(weights)
        self.n, self._together = rows.shape[0], rows.partitioning is None
        self.solver, self.n_centers = self._plan()
        self._systems: dict[int, NystromSystem] = {}
        self.path: RidgePath | None = None
        self.ridge = self._choose_ridge()

    def _plan(self) -> tuple[str, int]:
        """Return solver and number of centres; n centres mean the exact problem.

        Rows that lie in parts never meet all others.
        """
        solver, wanted, n = self.method.solver, self.method.n_centers, self.n
        if solver == "cg" and not self._together:
            msg = (
                "expected solver 'auto', 'direct' or 'falkon' for partitioned data, got "
                "'cg', which needs all pairs of rows"
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
            self.path = self._make_path(
                self._dense,
                lambda system: system.leave_one_out(RIDGES),
                lambda system, held: system.held_out(held, RIDGES),
            )
        else:
            given = self.Y, self.weights
            self.path = self._make_path(
                self._system(min(self.n_centers, _PATH_CENTERS)),
                lambda system: leave_one_out_path(system, *given, RIDGES),
                lambda system, held: system.held_out(*given, held, RIDGES),
            )
        tolerance = self.n**-0.5
        if self.method.cautious:
            return self.path.largest_good(tolerance)
        return self.path.best_inside(tolerance)

    def _make_path(
        self,
        system: System,
        each_alone: Callable[[System], RidgePath],
        held_out: Callable[[System, Sequence[Fold]], RidgePath],
    ) -> RidgePath:
        """Return the errors along the ridges: of samples that are left out alone, or together."""
        parts = self.method.left_out
        if parts is not None:
            return held_out(system, parts)
        return best_path([system], each_alone, lambda one: held_out(one, folds(self.n, self.rng)))[
            1
        ]

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
        return KernelOperator(self.method.kernel, rows, rows.gather(index), keep=self._together)

    def _system(self, n_centers: int) -> NystromSystem:
        """Return the normal equations, computed once for the choice of ridge and the solve."""
        if n_centers not in self._systems:
            operator = self._operator(n_centers, self.rows)
            self._systems[n_centers] = NystromSystem.from_rows(operator, self.Y, self.weights)
        return self._systems[n_centers]

    @cached_property
    def _dense(self) -> DenseSystem:
        kernel = KernelMatrix(self.method.kernel, self.rows.whole())
        system = DenseSystem.from_kernel(kernel.dense(kernel.X), self.Y, self.weights)
        return system.near_spectrum() if self.method.ridge is None else system

    def solve(self) -> KernelRidgeFit:
        """Solve by the chosen solver."""
        if self._is_dense:
            found = self._solve_densely()
        elif self.solver == "cg":
            found = self._solve_by_cg()
        elif self.solver == "direct":
            system = self._system(self.n_centers)
            found = self._make_fit(system.operator.Z, *system.solve(self.ridge))
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
        return _set_solution(fit, solution)

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
        return _set_solution(self._make_fit(operator.Z, alpha, factor), solution)

    def _make_fit(self, Z: Array, alpha: Array, factor: NystromFactor) -> KernelRidgeFit:
        fit = KernelRidgeFit(self.method.kernel, Z, alpha, self.solver)
        return replace(fit, jitter=factor.jitter, raised=factor.raised, condition=factor.condition)


def _set_solution(fit: KernelRidgeFit, solution: Solution) -> KernelRidgeFit:
    return replace(
        fit,
        status=solution.status,
        n_iter=solution.n_iter,
        residual=solution.relative_residual,
    )
