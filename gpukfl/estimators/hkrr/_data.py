"""A data set of HKRR: starting maps, and the solves of one map."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    is_on_gpu,
    to_double,
    to_host,
)
from gpukfl.core._memory import available_memory
from gpukfl.core._places import Place
from gpukfl.core._random import draw_indices, remaining_indices
from gpukfl.core._results import History, Status
from gpukfl.estimators._data import Data, HeldOut, draw_weighted_rows, truncate
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators.hkrr._settings import (
    HKRRSettings,
    TunedRefit,
)
from gpukfl.kernels import Kernel, median_distance
from gpukfl.linalg import CholeskyFactor
from gpukfl.methods import (
    AllRowsSolution,
    AverageGradientOuterProduct,
    DenseSystem,
    HKRRFit,
    HyperKernelObjective,
    NystromFactor,
    NystromSystem,
    RidgePath,
    best_path,
    centers_preconditioner,
    choose_centers,
    fit_hkrr,
    folds,
    leave_one_out_path,
    principal_gradients,
    resized_map,
    right_singular_vectors,
    solve_by_early_stopping,
    solve_by_factor,
    solve_by_products,
    total_weight,
)
from gpukfl.operators import KernelOperator, apply_map
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import ConjugateGradient

# --------------------------------------------------------------------------------- problem

RIDGES = np.geomspace(1e-9, 1.0, 10).tolist()  # one in each decade; the last fit uses the fine ones
FINE_RIDGES = np.geomspace(1e-9, 10.0, 31).tolist()
_STRETCHES = (0.5, 0.7, 1.0, 1.4)  # lengthscales of the last fit, in units of the learned one
_LEAST_ROOT = 0.03  # least length of a starting map's direction, relative to the first
_AXIS_STEP = 1e-3  # relative range of the lengths of a start's axes
_DISTANCE_CENTERS = 500  # centres whose median distance bounds lengthscales
# Most lengthscales within that distance: limited by float32's rounding, also in float64
_MOST_LENGTHSCALES = 0.1 / math.sqrt(np.finfo(np.float32).eps)
TUNE_CENTERS = 200
_GRADIENT_ROWS = 1000  # rows at which gradients are computed
_MANY_COLUMNS = 1000  # with more, rows times targets are limited to it, for a cubic cost
# Centres of the last fit: all of 6000 rows take n³/3 operations, as many as 3000 centres do. On
# four data sets errors fell by up to 4 %
ALL_CENTERS, REFIT_CENTERS = 6_000, 2_000
# Most rows that are all centres by default. Some 30 products are needed. One takes 0.2 s on a core
# for 20 000 rows in float32, and 1 s on an H100 for 200 000 rows (26 s for a million)
_ALL_ROWS, _ALL_ROWS_OF_GPU = 20_000, 200_000
# Most rows whose system is solved; for more, iterations stop early, by the held-out error
_SOLVED_ROWS, _SOLVED_ROWS_OF_GPU = 20_000, 100_000
_HELD_OUT, _HELD_OUT_SHARE = 2_000, 0.05  # rows held out for that
_PAIR_BYTES = 32  # for each pair of rows, so that a float32 kernel fits in a host's memory
# For each pair of rows, with a factor in float32. A GPU forms block columns one at a time, so that
# 100 000 rows fit into half of 80 GB
_FACTOR_BYTES, _FACTOR_BYTES_OF_GPU = 8, 3
# Residual of the solver, as a share of the fit's own: errors on new rows changed by 2e-4 of
# themselves (13 760 rows)
_RESIDUAL_SHARE = 0.02
_FEW_PRODUCTS = ConjugateGradient(1e-3, max_iter=12, check_every=1)  # in float64, with a factor
_ALL_ROWS_FACTOR = 4.0  # time of a last fit with all rows, relative to one with some centres
_MOST_LOG_ODDS = 50.0  # bound of a class's function, beside the prior log odds
PATH_CENTERS, _STRETCH_CENTERS = 1_000, 400  # centres for the choice of last ridge and lengthscale
# Rows for that choice. The best ridge on 100 000 of 400 000 rows is within 0.05 % of that on all
_STRETCH_ROWS, _PATH_ROWS = 50_000, 100_000


@dataclass(frozen=True)
class Jitter:
    """The jitter of the centres' kernel, in units of its mean diagonal."""

    size: float
    raised: bool  # whether it is more than precision and ridge would need

    @classmethod
    def from_factor(cls, factor: NystromFactor | None, /) -> Self:
        """Return the jitter of a factor."""
        assert factor is not None
        return cls(factor.jitter, factor.raised)


@dataclass(frozen=True, eq=False)
class SolvedModel:
    """A model: a map, centres and dual coefficients."""

    B: Array  # (k, d), or (d,) of a diagonal map
    lengthscale: float
    Z: Array  # (q, d)
    alpha: Array  # (q, t), float64
    ridge: float
    jitter: Jitter
    tuned: TunedRefit | None = None  # how ridge and lengthscale of the last fit were tuned
    kernel: Kernel | None = None  # a learned one, at lengthscale 1; else the problem's
    offsets: Array | None = None  # (t,), added beside the mean of the targets
    solution: AllRowsSolution | None = None  # of a last fit with all rows

    def with_all_rows(self, found: AllRows, /) -> Self:
        """Return the model whose centres are all rows, without a jitter."""
        jitter = Jitter(0.0, raised=False)
        alpha, solution = found.solution.alpha, found.solution
        return replace(self, Z=found.Z, alpha=alpha, jitter=jitter, solution=solution)


@dataclass(frozen=True, eq=False)
class AllRows:
    """The last fit with all rows as centres."""

    Z: Array  # (n, d), in the precision of the problem
    solution: AllRowsSolution
    squares: Array  # (t,), squared amplitudes of the functions in units of the shift

    @classmethod
    def from_solution(cls, Z: Array, Y: Array, solution: AllRowsSolution, /) -> Self:
        """Return the fit to targets Y (n, t)."""
        squares = array_namespace(Y).sum(Y * solution.alpha, axis=0) / Y.shape[0]
        return cls(Z, solution, squares)


@dataclass(frozen=True, eq=False)
class GPPosterior:
    """The posterior of a Gaussian process besides its mean, on the scale of the problem."""

    evidence: float  # log marginal likelihood, in nats
    ratio: float  # variance of the noise over that of the function
    squares: Array  # (t,), variances of the functions
    factors: tuple[Array, Array | None]  # (q, q) each, for `variances`


class HyperKernelProblem(Data):
    """A data set of HKRR."""

    settings: HKRRSettings

    def __init__(self, settings: HKRRSettings, samples: Samples, place: Place, run: Run, /) -> None:
        d = samples.X.shape[1]
        if (settings.n_components or 0) > d:
            got = settings.n_components
            msg = f"expected at most {d} components, as X has {d} features, got {got}"
            raise ValueError(msg)
        super().__init__(settings, samples, place, run, raw_targets=settings.is_logistic)
        self.kernel = settings.kernel
        self.weight = total_weight(self.Y, self.weights)
        xp = array_namespace(self.Y)
        self.varies = xp.max(self.Y, axis=0) > xp.min(self.Y, axis=0)  # (t,)
        self.Y = self.Y * xp.astype(self.varies, self.Y.dtype)  # exactly 0 for constant targets
        self.n_varying = int(xp.sum(xp.astype(self.varies, xp.int64)))
        # (t,), M in the paper
        self.bound = xp.max(abs(self.Y), axis=0)
        if settings.is_logistic:
            self.bound = xp.full_like(self.bound, _MOST_LOG_ODDS)
        self._typical: float | None = None  # median distance of centres

    # ------------------------------------------------------------------ pieces

    def centers(self, n_centers: int, B: Array | None = None) -> Array:
        """Return centres chosen among the rows."""
        return self.rows.gather(self.center_index(n_centers, B))

    def center_index(self, n_centers: int, B: Array | None = None) -> np.ndarray:
        """Return the ascending indices of rows chosen as centres."""
        return choose_centers(
            self.settings.centers.selection,
            self.kernel,
            self.rows,
            min(n_centers, self.n),
            ridge=1e-6,
            rng=self.rng,
            B=B,
        )

    def objective(self, Z: Array, ridge: float) -> HyperKernelObjective:
        """Return the objective with centres `Z`."""
        return HyperKernelObjective(
            self.kernel, self.kept_rows, Z, self.Y, ridge=ridge, weights=self.weights
        )

    @property
    def n_scalings(self) -> int:
        """The number of scalings of each feature: one, or one for each term of the kernel."""
        return 1 if self.scaling is None else len(self.scaling.parts)

    def part(self, at_most: int) -> HyperKernelProblem:
        """Return a random sample of the rows of positive weight, or all, in one place."""
        index = draw_weighted_rows(self.weights, self.n, at_most, self.rng)
        if self.rows.partitioning is None and len(index) == self.n:
            return self
        some = self.take(index)
        some.weight = total_weight(some.Y, some.weights)
        return some

    def with_kernel(self, kernel: Kernel) -> HyperKernelProblem:
        """Return the problem with another kernel."""
        other = copy(self)
        other.kernel = kernel
        return other

    def model_kernel(self, model: SolvedModel) -> Kernel:
        """Return the kernel of a model, at lengthscale 1."""
        return self.kernel if model.kernel is None else model.kernel

    def operator(self, model: SolvedModel, X: Rows, B: Array, Z: Array) -> KernelOperator:
        """Return the kernel operator of a model's mapped points, in the precision of its arrays."""
        return KernelOperator(self.model_kernel(model), X, Z, B / model.lengthscale, keep=True)

    def system(self, kernel: Kernel, Z: Array, B: Array | None = None) -> NystromSystem:
        """Return the normal equations in float64, which small ridges need."""
        xp = array_namespace(self.reference)
        centers = xp.astype(Z, xp.float64)
        rows = replace(self.rows, reference=centers[:0, 0])
        wide = None if B is None else xp.astype(B, xp.float64)
        return NystromSystem.from_rows(
            KernelOperator(kernel, rows, centers, wide, keep=True), *self._wide_targets()
        )

    def _wide_targets(self) -> tuple[Array, Array | None]:
        return to_double(self.Y), None if self.weights is None else to_double(self.weights)

    def predict(self, model: SolvedModel, X: Array) -> Array:
        """Predict at placed rows, clipped to the range of the targets (Section 4.3)."""
        operator = self.operator(model, Rows(X, self.reference), model.B, model.Z)
        xp = array_namespace(X)
        fitted = operator @ xp.astype(model.alpha, X.dtype)
        fitted = truncate(fitted, self.bound)
        if model.offsets is None:
            return fitted
        return fitted + xp.astype(model.offsets, fitted.dtype)

    def gradients(self, model: SolvedModel) -> np.ndarray:
        """Return a root (r, d) of the average gradient outer product, longest rows first.

        They show the directions in which the function varies. The map itself overrates features
        along which the function is smooth, or that few rows determine.
        """
        count = min(_GRADIENT_ROWS, self._gradient_rows())
        index = draw_weighted_rows(self.root_weights, self.n, count, self.rng)
        rows, s = self.rows.take_with(index, self.root_weights)
        X, B = to_double(rows.whole()), to_double(model.B)
        operator = self.operator(model, Rows(X, X[:0, 0]), B, to_double(model.Z))
        weights = None if s is None else to_double(s) ** 2
        found = principal_gradients(operator, to_double(model.alpha), weights)
        squares, directions = map(to_host, found)
        return np.sqrt(squares)[:, None] * directions

    def _gradient_rows(self) -> int:
        """Return the number of rows at which gradients are computed; all if features are few."""
        return self.n if self.d <= _MANY_COLUMNS else max(_MANY_COLUMNS // self.Y.shape[1], 1)

    # ------------------------------------------------------------------ starting maps

    def starts(self, k: int) -> list[Array]:
        """Return starting maps (k, d): random ones, principal axes, and average gradients."""
        sample, weights = self.sample()
        known = self.settings.start
        if known is not None and known.shape[1] == self.d:
            return [resized_map(asarray_like(to_host(known), self.reference), k, rng=self.rng)]
        draws = [self.rng.standard_normal((k, self.d)) for _ in range(self.settings.n_starts)]
        host = [draw / np.linalg.norm(draw, 2) for draw in draws]
        maps = [asarray_like(B, self.reference) for B in host]
        gradients = self._average_gradients(sample, weights, k)
        return [*maps, self.axes(sample, k, gradients), gradients]

    def axes(self, sample: Array, k: int, along: Array | None = None) -> Array:
        """Return all features, or the leading principal axes of a sample: (k, d).

        For a rotation-invariant kernel, all features are in the basis of a map `along` (k, d), with
        leading directions slightly longer. Otherwise the columns' order and rounding would decide
        which directions a smaller map keeps.
        """
        if k < self.d:
            some = sample if self.d <= _MANY_COLUMNS else _take_evenly(sample, _MANY_COLUMNS)
            return asarray_like(_principal_axes(to_host(some), k), self.reference)
        if along is None or self.kernel.norm != "euclidean":
            return asarray_like(np.eye(k), self.reference)
        basis = np.linalg.svd(to_host(along).astype(np.float64))[2]
        lengths = 1.0 - _AXIS_STEP * np.arange(k) / k
        return asarray_like(lengths[:, None] * basis, self.reference)

    def _average_gradients(self, sample: Array, weights: np.ndarray | None, k: int) -> Array:
        """Return the square root of the average gradient outer product of a fit without a map."""
        Z = self.centers(TUNE_CENTERS)
        typical = median_distance(sample, norm=self.kernel.norm, weights=weights)
        kernel = self.kernel.stretched(typical)
        system = self.system(kernel, Z)
        alpha, _ = system.solve(system.path(RIDGES).best)
        at = _take_evenly(sample, self._gradient_rows())
        operator = KernelOperator(kernel, Rows(at, self.reference), Z)
        values, rows = map(to_host, principal_gradients(operator, alpha))
        if not values[0] > 0:
            return asarray_like(np.eye(k, self.d), self.reference)
        # Directions without a gradient stay with a small length, as the objective may need them
        roots = np.full(k, _LEAST_ROOT)
        strong = np.maximum((values[:k] / values[0]) ** 0.25, _LEAST_ROOT)
        roots[: len(strong)] = strong
        return asarray_like(roots[:, None] * _complete_basis(rows, k), self.reference)

    def lengthscale(self, B: Array, sample: Array, weights: np.ndarray | None) -> float:
        """Return the initial lengthscale: a known one, or the rows' median distance."""
        known = self.settings.lengthscale or self.settings.start_lengthscale
        if known is not None:
            return known
        return median_distance(apply_map(sample, B), norm=self.kernel.norm, weights=weights)

    # ------------------------------------------------------------------ fits

    def learn(
        self,
        B: Array,
        lengthscale: float,
        ridge: float,
        *,
        n_centers: int,
        max_iter: int,
        max_time: float | None = None,
        watch: Callable[[int, Array, History], Status | None] = lambda *_: None,
    ) -> tuple[HKRRFit, SolvedModel]:
        """Optimise the map."""
        optimizer = self.settings.optimizer
        assert not isinstance(optimizer, AverageGradientOuterProduct)  # it has no objective
        limits = [limit for limit in (optimizer.max_time, max_time) if limit is not None]
        Z = self.centers(n_centers, B / lengthscale)
        objective, free = self.objective(Z, ridge), self.settings.lengthscale is None
        fit = fit_hkrr(
            objective,
            B,
            lengthscale=lengthscale,
            learn_lengthscale=free,
            shortest=self._shortest(Z) if free else 0.0,
            optimizer=replace(optimizer, max_iter=max_iter, max_time=min(limits, default=None)),
            watch=watch,
        )
        alpha = objective.minimize_alpha(fit.B / fit.lengthscale)
        jitter = Jitter.from_factor(objective.factor)
        return fit, SolvedModel(fit.B, fit.lengthscale, Z, alpha, ridge, jitter)

    def _shortest(self, Z: Array) -> float:
        """Return the shortest lengthscale at which rounding of distances does not matter."""
        if self._typical is None:  # computed once, as it waits for a GPU
            some = Z[: min(Z.shape[0], _DISTANCE_CENTERS), :]
            self._typical = median_distance(some, norm=self.kernel.norm)
        return self._typical / _MOST_LENGTHSCALES

    def solve_all_rows(self, model: SolvedModel) -> SolvedModel:
        """Solve with all rows of this problem at the map and the centres of a model."""
        objective = self.objective(model.Z, model.ridge)
        alpha = objective.minimize_alpha(model.B / model.lengthscale)
        return replace(model, alpha=alpha, jitter=Jitter.from_factor(objective.factor))

    def refit(
        self,
        model: SolvedModel,
        n_centers: int,
        tuned: TunedRefit | None,
        left: Callable[[], float | None] = lambda: None,
    ) -> SolvedModel:
        """Solve with more centres at the learned map, and tune ridge and lengthscale again.

        They are `tuned` on held-out rows (Appendix D.1), or else here by leaving out rows, with
        fewer centres, although the map was learned on these rows.
        """
        parts = self._parts_left_out()
        if tuned is None:
            few, judging = self._draw_part(_STRETCH_ROWS, parts)
            at_most = min(n_centers, _STRETCH_CENTERS)
            stretch, _ = few._tune(model, self.stretches, at_most, judging)
            few, judging = self._draw_part(_PATH_ROWS, parts)
            _, path = few._tune(model, (stretch,), min(n_centers, PATH_CENTERS), judging)
            tuned = TunedRefit(stretch, path, self.n)
        # The largest of about the same error, for points outside the data
        ridge, lengthscale = tuned.path.largest_good(), tuned.stretch * model.lengthscale
        found = SolvedModel(model.B, lengthscale, model.Z, model.alpha, ridge, model.jitter, tuned)
        if n_centers >= self.n and self.rows.partitioning is None:
            return self._solve_with_all(found, left)
        # With fewer centres than usual for lack of time, there is no time for all rows
        if self.takes_all_rows and n_centers >= min(self.n_refit_centers(), REFIT_CENTERS):
            return self._solve_with_some_then_all(found, n_centers, left)
        return self._solve_with_some(found, self.center_index(n_centers, model.B))[0]

    def _solve_with_some(
        self, model: SolvedModel, index: np.ndarray
    ) -> tuple[SolvedModel, NystromSystem]:
        """Solve with some rows as centres; also return the sums over all rows."""
        Z = self.rows.gather(index)
        system = self.system(self.kernel, Z, to_double(model.B) / model.lengthscale)
        alpha, factor = system.solve(model.ridge)
        return replace(model, Z=Z, alpha=alpha, jitter=Jitter.from_factor(factor)), system

    def _solve_with_all(self, model: SolvedModel, left: Callable[[], float | None]) -> SolvedModel:
        """Solve with all rows as centres: few with a float64 factor, many from some centres."""
        if self.n > ALL_CENTERS:
            found = self._solve_with_some_then_all(model, REFIT_CENTERS, left)
            if found.solution is not None or self.n > self.n_dense_rows:
                return found
        Y, weights = self._wide_targets()
        X = array_namespace(Y).astype(self.rows.whole(), Y.dtype)
        B = to_double(model.B) / model.lengthscale
        operator = KernelOperator(self.kernel, Rows(X, X[:0, 0]), X, B)
        alpha, size, _ = DenseSystem.from_kernel(operator.dense(), Y, weights).solve(model.ridge)
        jitter = Jitter(size, size > 0)
        return replace(model, Z=self.rows.whole(), alpha=alpha, jitter=jitter)

    def _solve_with_some_then_all(
        self, model: SolvedModel, n_centers: int, left: Callable[[], float | None]
    ) -> SolvedModel:
        """Solve with some rows as centres, and then with all rows if possible."""
        begun, index = time.perf_counter(), self.center_index(n_centers, model.B)
        some, system = self._solve_with_some(model, index)
        if is_late(left(), time.perf_counter() - begun):
            return some
        B = to_double(model.B) / model.lengthscale
        with contextlib.suppress(np.linalg.LinAlgError):  # caused by rounding
            factors, shift = system.factors(model.ridge), self.weight * model.ridge
            found = self.solve_from_centers(index, B, factors, shift, left())
            if found is not None:
                return some.with_all_rows(found)
        return some

    def _draw_part(
        self, at_most: int, parts: Sequence[np.ndarray]
    ) -> tuple[HyperKernelProblem, Sequence[np.ndarray]]:
        """Return a sample of rows with folds to leave out, or the problem itself with `parts`."""
        few = self if self.n <= at_most else self.part(at_most)
        return few, parts if few is self else few._parts_left_out()

    def _parts_left_out(self) -> Sequence[np.ndarray]:
        """Return folds of rows that respect relations."""
        return self.blocks_left_out() or folds(self.n, self.rng)

    def _system_at_stretch(self, model: SolvedModel, stretch: float, Z: Array) -> NystromSystem:
        """Set up the normal equations at a multiple of a model's lengthscale."""
        return self.system(self.kernel, Z, to_double(model.B) / (stretch * model.lengthscale))

    def _tune(
        self,
        model: SolvedModel,
        stretches: Sequence[float],
        n_centers: int,
        parts: Sequence[np.ndarray],
    ) -> tuple[float, RidgePath]:
        """Return the best lengthscale at a model's map, and its ridge path, by held-out rows."""
        Z, (Y, weights) = self.centers(n_centers, model.B), self._wide_targets()

        def left_out(stretch: float) -> RidgePath:
            return leave_one_out_path(
                self._system_at_stretch(model, stretch, Z), Y, weights, FINE_RIDGES
            )

        def held_out(stretch: float) -> RidgePath:
            return self._system_at_stretch(model, stretch, Z).held_out(
                Y, weights, parts, FINE_RIDGES
            )

        return best_path(stretches, left_out if self.relations is None else held_out, held_out)

    @property
    def stretches(self) -> tuple[float, ...]:
        """Lengthscales of the last fit, in units of the learned one."""
        return _STRETCHES if self.settings.lengthscale is None else (1.0,)

    def errors_outside(self, model: SolvedModel, stretch: float, held_out: HeldOut) -> list[float]:
        """Return held-out errors along the ridges, at a model's map with more centres."""
        xp = array_namespace(self.reference)
        B = xp.astype(model.B, xp.float64) / (stretch * model.lengthscale)
        system = self.system(self.kernel, self.centers(_STRETCH_CENTERS, B), B)
        X = xp.astype(held_out.X, xp.float64)
        operator = replace(system.operator, rows=Rows(X, X[:0, 0]), _kept={})
        return system.errors_outside(operator, held_out.Y, held_out.weights, FINE_RIDGES)

    def n_refit_centers(self) -> int:
        """Return the number of centres of the final fit, bounded by memory and time."""
        wanted = self.settings.centers.refit
        if wanted == "all":
            return self.n
        if wanted is not None and wanted != "auto":
            return min(int(wanted), self.n)
        fitting = self.n_dense_rows
        if self.n <= min(ALL_CENTERS, fitting):
            return self.n
        return min(REFIT_CENTERS, fitting)

    @property
    def n_dense_rows(self) -> int:
        """The number of rows whose kernel matrix and factor in float64 fit in memory."""
        return max(int(math.sqrt(available_memory(self.reference) / 64)), 100)

    @property
    def takes_all_rows(self) -> bool:
        """Whether the last fit goes on from some centres to all rows, by settings and memory."""
        wanted, gpu = self.settings.centers.refit, is_on_gpu(self.reference)
        if wanted != "auto" or self.rows.partitioning is not None:
            return wanted == "all" and self.rows.partitioning is None
        if self.n > (_ALL_ROWS_OF_GPU if gpu else _ALL_ROWS):
            return False
        return gpu or _PAIR_BYTES * self.n**2 <= available_memory(self.reference)

    def solve_from_centers(
        self,
        index: np.ndarray,
        B: Array,
        factors: tuple[CholeskyFactor, CholeskyFactor],
        shift: float,
        left: float | None = None,
    ) -> AllRows | None:
        """Solve with all rows as centres, in an order that begins with the centres at `index`.

        Parameters
        ----------
        index : host array of int, shape (q,)
            The centres, whose kernel preconditions that of all rows.
        B : array
            The map at which the kernel has its lengthscale.
        factors : tuple of CholeskyFactor
            `NystromSystem.factors` of the centres.
        shift : float
            Shift of the weighted kernel matrix's diagonal.
        left : float, optional
            Seconds, used for very many rows.

        Returns
        -------
        AllRows or None
            None if the system cannot be solved. With very many rows also if the held-out error is
            not lower than with the centres, unless the settings ask for all rows.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C ends it before it is better than with the centres.
        """
        others = remaining_indices(index, self.n)
        gpu = is_on_gpu(self.reference)
        if self.n <= (_SOLVED_ROWS_OF_GPU if gpu else _SOLVED_ROWS):
            found = self._solve_ordered(
                np.concatenate([index, others]), len(index), B, factors, shift
            )
            if found is not None:
                return found
        count = max(min(_HELD_OUT, int(_HELD_OUT_SHARE * self.n)), 1)
        if count >= len(others):
            return None
        held = np.sort(draw_indices(self.rng, len(others), count))
        order = np.concatenate([index, np.delete(others, held), others[held]])
        Z, X, Y, weights, operator = self._order_rows(order, len(index), B)
        solution = solve_by_early_stopping(
            self.kernel,
            X,
            Y,
            weights,
            shift=shift,
            centers=operator,
            factors=factors,
            n_held=count,
            max_time=left,
        )
        asked = self.settings.centers.refit != "auto" and solution.n_iter > 0
        if asked or solution.beats_centers:
            return AllRows.from_solution(Z, Y, solution)
        if solution.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return None

    def _order_rows(
        self, order: np.ndarray, q: int, B: Array
    ) -> tuple[Array, Array, Array, Array | None, KernelOperator]:
        """Return ordered rows, mapped rows, targets, weights, and the kernel with the first q."""
        rows, Y, weights = self.rows.take_with(order, *self._wide_targets())
        Z = rows.whole()
        X = apply_map(to_double(Z), to_double(B))
        operator = KernelOperator(self.kernel, Rows(X, X[:0, 0]), X[:q, :], keep=True)
        return Z, X, Y, weights, operator

    def _solve_ordered(
        self,
        order: np.ndarray,
        q: int,
        B: Array,
        factors: tuple[CholeskyFactor, CholeskyFactor],
        shift: float,
    ) -> AllRows | None:
        """Solve by iterations, or by a factor if these do not converge; None if neither works."""
        Z, X, Y, weights, operator = self._order_rows(order, q, B)
        precondition = centers_preconditioner(operator, *factors, weights, shift=shift)
        given = self.kernel, X, Y, weights
        found = solve_by_products(
            *given, shift=shift, precondition=precondition, share=_RESIDUAL_SHARE
        )
        if found.status is not Status.CONVERGED:
            bytes_each = _FACTOR_BYTES_OF_GPU if is_on_gpu(X) else _FACTOR_BYTES
            if bytes_each * self.n**2 > available_memory(X):
                return None
            found = solve_by_factor(*given, shift=shift, solver=_FEW_PRODUCTS)
        if found.status is not Status.CONVERGED:
            return None
        return AllRows.from_solution(Z, Y, found)


def _take_evenly(sample: Array, at_most: int) -> Array:
    """Return at most so many evenly spaced rows."""
    return sample[:: -(-sample.shape[0] // at_most), :]


def _principal_axes(sample: np.ndarray, k: int) -> np.ndarray:
    centred = sample.astype(np.float64) - sample.mean(axis=0)
    n, d = centred.shape
    if n < d:
        return _complete_basis(to_host(right_singular_vectors(centred)[1]), k)
    return _complete_basis(np.linalg.svd(centred, full_matrices=False)[2], k)


def _complete_basis(rows: np.ndarray, k: int) -> np.ndarray:
    """Return k orthonormal rows: the first of the given ones, or all of these and others."""
    if k <= len(rows):
        return rows[:k]
    basis = np.linalg.qr(np.concatenate([rows, np.eye(k, rows.shape[1])]).T)[0].T
    return np.concatenate([rows, basis[len(rows) : k]])


def is_late(left: float | None, took: float, /) -> bool:
    """Whether there is no time for all rows, after a solve with centres `took` some seconds."""
    return left is not None and left < _ALL_ROWS_FACTOR * took
