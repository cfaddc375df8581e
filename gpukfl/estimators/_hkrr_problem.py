"""One data set of HKRR: starting maps, the choice of dimension and ridge, and the last fit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, ShuffleSplit

from gpukfl._array import Array, array_namespace, beside, double_like, to_host
from gpukfl._memory import available_memory
from gpukfl._places import Place
from gpukfl._results import History, Status
from gpukfl._rows import Rows
from gpukfl.estimators._data import Data, take
from gpukfl.kernels import make_kernel, median_distance
from gpukfl.methods import (
    HKRRFit,
    HyperKernelObjective,
    NystromFactor,
    NystromSystem,
    RidgePath,
    choose_centers,
    fit_hkrr,
    gradient_directions,
    resized_map,
    rows_at,
)
from gpukfl.operators import KernelOperator
from gpukfl.solvers import LBFGS, AlternatingGradient, VariableProjection

OPTIMIZERS = {"lbfgs": LBFGS, "varpro": VariableProjection, "agd": AlternatingGradient}

_RIDGES = np.geomspace(1e-9, 1.0, 10).tolist()  # one to a decade: the last fit is tuned more finely
_FINE_RIDGES = np.geomspace(1e-9, 10.0, 31).tolist()
_STRETCHES = (0.5, 0.7, 1.0, 1.4)  # lengthscales of the last fit, in units of the learned one
_START_COMPONENTS = 20  # the paper's choice for larger data
_MOST_COMPONENTS = 64
_TUNE_ROWS = 20_000  # rows that dimension and ridge are chosen on, at most
_TUNE_CENTERS = 200
_TUNE_STEPS = 20
_FOLDS_BELOW = 1_000  # rows below which one hold-out set is too small to choose by
_FOLDS = 5
FEWEST = 20  # rows with which anything is held out
_GAIN = 5e-3  # share of the unexplained variance that is worth another dimension or ridge
CENTERS, _REFIT_CENTERS = 500, 2_000
_PATH_CENTERS = 1_000  # on which the last ridge and lengthscale are chosen
TUNE_SHARE, FIT_SHARE = 0.4, 0.8  # of max_time spent by then


@dataclass(frozen=True)
class Setting:
    """A point of the grid."""

    components: int
    ridge: float


@dataclass(frozen=True, eq=False)
class Solved:
    """A model: dual coefficients of centres seen through a map."""

    B: Array  # (k, d)
    lengthscale: float
    Z: Array  # (q, d)
    alpha: Array  # (q, t), float64
    ridge: float
    factor: NystromFactor
    path: RidgePath | None = None  # on which the ridge of the last fit was chosen


class HyperKernelProblem(Data):
    """One data set of HKRR."""

    def __init__(
        self,
        settings: Any,
        X: Array,
        Y: Array,
        weights: np.ndarray | None,
        place: Place,
        rng: np.random.RandomState,
        *,
        scale_each: bool,
    ) -> None:
        super().__init__(settings, X, Y, weights, place, scale_each=scale_each)
        self.rng, self.kernel = rng, make_kernel(settings.kernel)
        s = self.root_weights
        self.weights = None if s is None else s * s
        self.n, self.d = self.rows.shape
        xp = array_namespace(self.reference)
        largest = float(xp.max(xp.abs(self.Y)))
        self.bound = largest  # M of the truncated predictions

    # ------------------------------------------------------------------ pieces

    def centers(self, n_centers: int, B: Array | None = None) -> Array:
        """Choose centres among the rows."""
        index = choose_centers(
            self.settings.center_selection,
            self.kernel,
            self.rows,
            min(n_centers, self.n),
            ridge=1e-6,
            rng=self.rng,
            B=B,
        )
        return rows_at(self.rows, index)

    def objective(self, Z: Array, ridge: float) -> HyperKernelObjective:
        """Objective with centres `Z`."""
        return HyperKernelObjective(
            self.kernel, self.rows, Z, self.Y, ridge=ridge, weights=self.weights
        )

    def operator(self, X: Rows, B: Array, lengthscale: float, Z: Array) -> KernelOperator:
        """Kernel of the mapped points."""
        return KernelOperator(self.kernel, X, Z, B / lengthscale, keep=True)

    def predict(self, model: Solved, X: Array) -> Array:
        """Predict at placed rows, truncated to the range of the targets (Section 4.3)."""
        operator = self.operator(Rows(X, self.reference), model.B, model.lengthscale, model.Z)
        xp = array_namespace(X)
        fitted = operator @ xp.astype(model.alpha, X.dtype)
        return xp.clip(fitted, min=-self.bound, max=self.bound)

    # ------------------------------------------------------------------ starting maps

    def starts(self, k: int) -> list[Array]:
        """Give maps (k, d) to start from: random ones, principal axes, and average gradients."""
        sample, weights = self.sample(self.rng)
        known = getattr(self.settings, "B_", None) if self.settings.warm_start else None
        if known is not None and known.shape[1] == self.d:
            return [resized_map(beside(to_host(known), self.reference), k, rng=self.rng)]
        draws = [self.rng.standard_normal((k, self.d)) for _ in range(self.settings.n_starts)]
        host = [draw / np.linalg.norm(draw, 2) for draw in draws]
        host.append(np.eye(self.d)[:k] if k == self.d else _principal_axes(to_host(sample), k))
        maps = [beside(B, self.reference) for B in host]
        return [*maps, self._average_gradients(sample, weights, k)]

    def _average_gradients(self, sample: Array, weights: np.ndarray | None, k: int) -> Array:
        """Square root of the average gradient outer product of a fit without a map."""
        Z = self.centers(_TUNE_CENTERS)
        typical = median_distance(sample, norm=self.kernel.norm, weights=weights)
        kernel = self.kernel.stretched(typical)
        operator = KernelOperator(kernel, self.rows, Z, keep=True)
        system = NystromSystem.of(operator, self.Y, self.weights)
        alpha, _ = system.solve(system.path(_RIDGES).best)
        M = gradient_directions(kernel, sample, Z, alpha)
        values, vectors = np.linalg.eigh(to_host(M).astype(np.float64))
        values, vectors = np.clip(values[::-1][:k], 0.0, None), vectors[:, ::-1][:, :k]
        if not values[0] > 0:
            return beside(np.eye(self.d)[:k], self.reference)
        # Directions without a gradient stay in, weakly: the objective may want them
        roots = np.maximum((values / values[0]) ** 0.25, 0.03)
        return beside(roots[:, None] * vectors.T, self.reference)

    def lengthscale(self, B: Array, sample: Array, weights: np.ndarray | None) -> float:
        """Median distance of the mapped rows."""
        if self.settings.lengthscale != "auto":
            return float(self.settings.lengthscale)
        return median_distance(sample @ B.T, norm=self.kernel.norm, weights=weights)

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
    ) -> tuple[HKRRFit, Solved]:
        """Optimise the map."""
        settings = self.settings
        Z = self.centers(n_centers, B / lengthscale)
        objective = self.objective(Z, ridge)
        solver = OPTIMIZERS[settings.optimizer](
            max_iter=max_iter, tol=settings.tol, max_time=max_time
        )
        fit = fit_hkrr(
            objective,
            B,
            lengthscale=lengthscale,
            learn_lengthscale=settings.learn_lengthscale,
            optimizer=solver,
            watch=watch,
        )
        alpha = objective.minimize_alpha(fit.B / fit.lengthscale)
        assert objective.factor is not None
        return fit, Solved(fit.B, fit.lengthscale, Z, alpha, ridge, objective.factor)

    def refit(self, model: Solved, n_centers: int) -> Solved:
        """Solve with more centres at the learned map, ridge and lengthscale tuned anew.

        By generalised cross-validation on fewer centres (Appendix D.1 holds out).
        """
        wide = _wide(self.rows, self.reference)
        xp = array_namespace(self.reference)
        Y, weights = xp.astype(self.Y, xp.float64), None
        if self.weights is not None:
            weights = xp.astype(self.weights, xp.float64)
        B = xp.astype(model.B, xp.float64)

        def system(stretch: float, Z: Array) -> NystromSystem:
            operator = self.operator(wide, B, stretch * model.lengthscale, Z)
            return NystromSystem.of(operator, Y, weights)

        Z = xp.astype(self.centers(min(n_centers, _PATH_CENTERS), model.B), xp.float64)
        stretches = _STRETCHES if self.settings.learn_lengthscale else (1.0,)
        paths = []
        for stretch in stretches:
            at = system(stretch, Z)
            few = self.n <= 20 * Z.shape[0]
            path = at.leave_one_out(Y, weights, _FINE_RIDGES) if few else at.path(_FINE_RIDGES)
            paths.append((min(path.scores), stretch, path))
        _, stretch, path = min(paths, key=lambda entry: entry[:2])
        Z = self.centers(n_centers, model.B)
        alpha, factor = system(stretch, xp.astype(Z, xp.float64)).solve(path.best)
        return Solved(model.B, stretch * model.lengthscale, Z, alpha, path.best, factor, path)

    def n_refit_centers(self) -> int:
        """Centres of the last fit: what is asked for, or what memory and patience allow."""
        wanted = self.settings.refit_centers
        if wanted == "all":
            return self.n
        if wanted != "auto":
            return min(int(wanted), self.n)
        fitting = int(math.sqrt(available_memory(self.reference) / 64))
        return min(self.n, _REFIT_CENTERS, max(fitting, 100))


def _wide(rows: Rows, reference: Array) -> Rows:
    xp = array_namespace(reference)
    return Rows(rows.source, xp.empty((0,), **double_like(reference)), rows.shift, rows.scale)


def _principal_axes(sample: np.ndarray, k: int) -> np.ndarray:
    centred = sample.astype(np.float64) - sample.mean(axis=0)
    return np.linalg.svd(centred, full_matrices=True)[2][:k]


@dataclass
class Search:
    """Joint choice of the number of components and the ridge by hold-out (Section 4.3).

    Goes from a first guess to neighbours on the grid, each fit warm-started by the best so far.
    """

    make: Callable[[np.ndarray], HyperKernelProblem]  # problem of some rows
    X: Array
    Y: Array
    weights: np.ndarray | None
    rng: np.random.RandomState
    settings: Any
    seconds: float | None = None
    report: Callable[[str, int, History], None] = lambda *_: None
    trials: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begun = time.perf_counter()
        self.best: Setting | None = None
        self.maps: list[tuple[Array, float]] = []  # of each fold, at the best setting

    def run(self) -> tuple[Setting, Array, float]:
        """Choose: the setting, and a map and a lengthscale to start from."""
        folds = list(self._folds())
        self.problems = [self.make(inside) for inside, _ in folds]
        self.held_out = [
            _HeldOut.of(problem, self.X, self.Y, self.weights, outside)
            for problem, (_, outside) in zip(self.problems, folds, strict=True)
        ]
        self.best = best = self._first()
        if self._fixed:
            return best, *self.maps[0]
        score, self.maps = self._evaluate(best, self.maps)
        while not self._late():
            for setting in self._neighbours(best):
                if self._late() or any(t["setting"] == setting for t in self.trials):
                    continue
                new, maps = self._evaluate(setting, self.maps)
                if new > score + _GAIN * (1.0 - score):
                    best, score, self.maps = setting, new, maps
                    self.best = best
                    break
            else:
                break
        for trial in self.trials:
            trial["chosen"] = trial["setting"] == best
        return best, *self.maps[0]

    @property
    def _fixed(self) -> bool:
        return self.settings.n_components != "auto" and self.settings.ridge != "auto"

    def _late(self) -> bool:
        return self.seconds is not None and time.perf_counter() - self.begun > self.seconds

    def _folds(self) -> Any:
        n = self.X.shape[0]
        rows = np.arange(n)
        if n > _TUNE_ROWS:
            rows = np.sort(self.rng.choice(n, _TUNE_ROWS, replace=False))
        splitter = (
            KFold(_FOLDS, shuffle=True, random_state=self.rng)
            if len(rows) < _FOLDS_BELOW
            else ShuffleSplit(1, test_size=self.settings.validation_fraction, random_state=self.rng)
        )
        for inside, outside in splitter.split(rows):
            yield rows[np.sort(inside)], rows[np.sort(outside)]

    def _first(self) -> Setting:
        """Best start and its ridge, by the first fold's hold-out."""
        problem, held_out = self.problems[0], self.held_out[0]
        k = self.settings.n_components
        k = min(problem.d, _START_COMPONENTS) if k == "auto" else min(int(k), problem.d)
        (sample, weights), Z = problem.sample(problem.rng), problem.centers(_TUNE_CENTERS)
        found = []
        for number, B in enumerate(problem.starts(k)):
            ell = problem.lengthscale(B, sample, weights)
            operator = problem.operator(problem.rows, B, ell, Z)
            system = NystromSystem.of(operator, problem.Y, problem.weights)
            ridge = self.settings.ridge
            if ridge == "auto":
                ridge = system.path(_RIDGES).largest_good
            alpha, factor = system.solve(float(ridge))
            model = Solved(B, ell, Z, alpha, ridge, factor)
            error, around = held_out.errors(problem, model)
            found.append((around - error, -number, ridge, B, ell))
            if self._late():
                break
        _, _, ridge, B, ell = max(found, key=lambda entry: entry[:2])
        self.maps = [(B, ell)] * len(self.problems)
        return Setting(k, float(ridge))

    def _neighbours(self, at: Setting) -> list[Setting]:
        around = []
        if self.settings.ridge == "auto":
            k = _RIDGES.index(at.ridge)
            around += [Setting(at.components, r) for r in _RIDGES[max(k - 1, 0) : k + 2]]
        if self.settings.n_components == "auto":
            sizes = components_grid(self.problems[0].d)
            k = sizes.index(at.components)
            around += [Setting(size, at.ridge) for size in sizes[max(k - 1, 0) : k + 2]]
        return [setting for setting in around if setting != at]

    def _evaluate(
        self, setting: Setting, maps: list[tuple[Array, float]]
    ) -> tuple[float, list[tuple[Array, float]]]:
        errors = spread = 0.0
        learned = []
        for problem, held_out, (B, ell) in zip(self.problems, self.held_out, maps, strict=True):
            start = resized_map(B, setting.components, rng=problem.rng)
            name = f"tune {setting.components} components, ridge {setting.ridge:.0e}"
            fit, model = problem.learn(
                start,
                ell,
                setting.ridge,
                n_centers=_TUNE_CENTERS,
                max_iter=_TUNE_STEPS,
                watch=lambda k, _, history, name=name: self.report(name, k, history),  # type: ignore[misc]
            )
            if fit.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            learned.append((fit.B, fit.lengthscale))
            error, around = held_out.errors(problem, model)
            errors, spread = errors + error, spread + around
        score = 1.0 - errors / spread if spread > 0 else -errors
        self.trials.append({"setting": setting, "score": score, "chosen": False})
        return score, learned


def components_grid(d: int) -> list[int]:
    """Numbers of components to choose among: powers of two, the paper's 20, and d."""
    sizes = {2**k for k in range(7)} | {min(d, _START_COMPONENTS), min(d, _MOST_COMPONENTS)}
    return sorted(size for size in sizes if size <= min(d, _MOST_COMPONENTS))


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Held-out samples on a problem's scale."""

    X: Array
    Y: Array  # float64
    weights: Array  # (n, 1), float64

    @classmethod
    def of(
        cls,
        problem: HyperKernelProblem,
        X: Array,
        Y: Array,
        weights: np.ndarray | None,
        index: np.ndarray,
    ) -> _HeldOut:
        placed, targets = problem.scaled(take(X, index), take(Y, index))
        w = np.ones(len(index)) if weights is None else weights[index]
        return cls(placed, targets, beside(w[:, None], targets))

    def errors(self, problem: HyperKernelProblem, model: Solved) -> tuple[float, float]:
        """Squared error of truncated predictions, and that of the mean."""
        xp = array_namespace(self.Y)
        left = self.Y - xp.astype(problem.predict(model, self.X), xp.float64)
        around = self.Y - xp.sum(self.weights * self.Y, axis=0) / xp.sum(self.weights)
        return float(xp.sum(self.weights * left**2)), float(xp.sum(self.weights * around**2))
