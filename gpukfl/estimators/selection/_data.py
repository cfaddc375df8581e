"""A data set of kernel feature selection, with both algorithms and the final fit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_like,
    index_like,
    like,
    to_host,
)
from gpukfl.core._memory import available_memory
from gpukfl.core._places import Place
from gpukfl.core._random import preserve_rng_state
from gpukfl.core._results import History, Status
from gpukfl.estimators._data import Data, HeldOut, draw_rows, truncate
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators.selection._settings import SelectionSettings
from gpukfl.kernels import (
    Gaussian,
    InverseManhattan,
    Kernel,
    Manhattan,
    ManhattanLaplace,
    Radial,
    median_distance,
)
from gpukfl.linalg import difference_sums
from gpukfl.methods import (
    DenseSelection,
    DenseSystem,
    FactoredSelection,
    FeatureSelection,
    KernelRidge,
    KernelRidgeFit,
    NystromSystem,
    Point,
    Selection,
    SelectionObjective,
    best_path,
    folds,
    permutation_threshold,
)
from gpukfl.operators import KernelOperator
from gpukfl.partitioned._rows import Rows, map_rows

SELECTION_KERNELS: dict[str, Radial | Manhattan] = {
    "laplace": ManhattanLaplace(),
    "gaussian": Gaussian(0.5**0.5),
    "inverse": InverseManhattan(),
}
RIDGES = tuple(10.0**-k for k in range(1, 15))  # of the last fit

_MOST_DENSE = 3_000  # samples up to which the exact form is quicker
_CENTERS = 256
_CHECKED_ROWS = 4_000  # sample for the error of a gradient with centres
_CENTERS_SHARE = 0.25  # of the available memory, for the kernel's factors
_REFINE_ROWS = 1_000  # samples on which the last fit's weights are learned
_FIT_ROWS = 500  # samples on which its weights and kernel are chosen
_RIDGE_SHARES = (1.0, 0.1, 0.01)
_REFINE_SHARE = 0.75  # of max_time, at which learning these weights ends
_CHOICE_WORK = 4  # work for each candidate kernel, in evaluations
_LAST_WORK = 5  # work of the last fit, in normal equations
_MOST_CENTERS = 2_000  # of the last fit, without time for all rows
_CENTERS_IN_PARTS = 1_000  # the same for partitioned rows: traffic grows with the square
_HASTY_ROWS, _HASTY_CENTERS = 5_000, 500  # of a hasty fit
_HASTY_FIT_ROWS = 250  # samples on which its kernel is chosen
_TIMED_ROWS = 2_000  # samples on which work is timed
_RUN_WORK = 40  # work of a selection with its thresholds, in values and gradients
_REPEATS = 5  # of the permutations for thresholds
_FEW_DIFFERENCES = 5e7  # of pairs of samples, up to which a gradient is cheap
_STRETCHES = (0.5, 1.0, 2.0, 4.0)
# Leave-one-out errors within this share count as equal; float32 changes them by half of it
_EQUAL_ERROR = 0.02
_MEAN_RIDGE = 1e6  # leaves only the mean
_MIN_GAP = 1e-100  # mean difference of two samples

Drawn = tuple[Array, Array, Array | None]  # samples, targets and weights
Candidate = tuple[np.ndarray, Kernel]  # weights (p,), and a kernel of the weighted variables


def make_selection_kernel(kernel: str | Kernel, /) -> Radial | Manhattan:
    """Return a kernel by its name, or as given.

    Raises TypeError unless it is a function of a sum over the variables with a finite slope at 0.
    """
    if isinstance(kernel, str):
        if kernel not in SELECTION_KERNELS:
            msg = f"expected kernel to be one of {', '.join(SELECTION_KERNELS)}, got {kernel!r}"
            raise ValueError(msg)
        return SELECTION_KERNELS[kernel]
    if isinstance(kernel, Manhattan) or (isinstance(kernel, Radial) and kernel.smooth):
        return kernel
    msg = (
        f"expected kernel to be one of {', '.join(SELECTION_KERNELS)}, or a kernel of the l1 or "
        f"squared distance with a finite slope at 0, got {kernel!r}"
    )
    raise TypeError(msg)


@dataclass(frozen=True, eq=False)
class Predictor:
    """The final model: kernel ridge regression on the weighted variables."""

    beta: np.ndarray  # (p,)
    fit: KernelRidgeFit
    importances: np.ndarray  # (p,), summing to 1


class SelectionProblem(Data):
    """A data set of kernel feature selection; see the base class for its attributes."""

    settings: SelectionSettings

    def __init__(
        self, settings: SelectionSettings, samples: Samples, place: Place, run: Run
    ) -> None:
        super().__init__(settings, samples, place, run)
        self.kernel, self.p = settings.kernel, self.d
        self._inputs = samples, place, run
        self.anchor = self._typical_anchor()

    def part(self, rows: np.ndarray, /) -> SelectionProblem:
        """Return the problem of some samples, scaled again."""
        samples, place, run = self._inputs
        return SelectionProblem(self.settings, samples.take(rows), place, run)

    @cached_property
    def X(self) -> Array:  # noqa: N802
        """All samples in one place."""
        return self.rows.whole()

    @property
    def everything(self) -> np.ndarray:
        """All variables at τ (p,)."""
        return np.full(self.p, self.anchor)

    def _typical_anchor(self) -> float:
        r"""Return τ, at which a typical pair of samples differs by 1 in one variable."""
        given = self.settings.weights.anchor
        if not isinstance(given, str):
            return float(given)
        sample, weights = self.sample()
        w = np.ones(sample.shape[0]) if weights is None else weights
        xp, power = array_namespace(sample), self.kernel.power
        pairs = xp.asarray(np.outer(w, w) / w.sum() ** 2, **double_like(sample))
        typical = to_host(difference_sums(pairs, sample, power=power))
        typical = typical[typical > 0] * self.kernel.lengthscale ** -float(power)
        if not len(typical):
            return 1.0
        if typical.mean() < _MIN_GAP:  # its reciprocal would overflow
            msg = (
                "X underflows: expected features of two rows to differ by at least "
                f"{_MIN_GAP:.0e} on average, in units of the kernel, got {typical.mean():.1e}; use "
                "scaling='standard'"
            )
            raise ValueError(msg)
        return 1.0 / float(typical.mean())

    def objective(self, ridge: float, X: Array | None = None, /) -> SelectionObjective:
        """Return J in the form chosen by n_centers, perhaps of other columns X (n, q)."""
        wanted, n = self.settings.n_centers, self.n
        given = self.kernel, self.X if X is None else X, self.Y, ridge, self.weights
        if wanted == "all" or (wanted == "auto" and n <= _MOST_DENSE):
            return DenseSelection(*given)
        return FactoredSelection(*given, n_centers=self._n_centers(n), rng=self.rng)

    def _n_centers(self, n: int) -> int:
        """Return the number of centres of the factored form that fit in memory."""
        wanted = self.settings.n_centers
        centers = _CENTERS if isinstance(wanted, str) else int(wanted)
        fitting = int(_CENTERS_SHARE * available_memory(self.reference) // (32 * n))
        return max(1, min(centers, fitting))

    def gradient_error(self, objective: SelectionObjective, beta: np.ndarray, /) -> float:
        """Estimate the relative error of an objective's gradient at `beta`, on some samples.

        The error of an objective of all pairs of samples is 0.
        """
        if not isinstance(objective, FactoredSelection):
            return 0.0
        with preserve_rng_state(self.rng):
            X, Y, D = self._draw_samples(_CHECKED_ROWS)
            given = self.kernel, X, Y, objective.ridge, D
            coarse = FactoredSelection(*given, n_centers=objective.n_centers, rng=self.rng)
            coarse.focus(beta)
            return coarse.gradient_error(beta)

    def run(
        self,
        objective: SelectionObjective,
        sparsity: float | str,
        /,
        *,
        start: np.ndarray | None = None,
        max_time: float | None = None,
        watch: Callable[[int, History], None] = lambda *_: None,
        repeats: int = 1,
    ) -> Selection:
        """Run the algorithm of the settings with its threshold.

        Algorithm 1' may start from the weights `start` of a larger γ. Thresholds of permutations
        use `repeats` times as many.
        """

        def threshold(point: Point, columns: np.ndarray) -> float:
            if not isinstance(sparsity, str):
                return float(sparsity)
            return permutation_threshold(
                objective,
                point,
                columns,
                n_permutations=self.settings.n_permutations,
                repeats=repeats,
                rng=self.rng,
            )

        algorithm = replace(self.algorithm, max_time=max_time)
        if self.settings.hierarchical:
            return algorithm.select_in_rounds(objective, threshold, watch)
        nothing = np.zeros(self.p)
        gamma = threshold(objective.evaluate(nothing), np.arange(self.p))
        return algorithm.select(objective, gamma, start, watch=watch)

    def affordable_rows(self, ridge: float, max_time: float | None, /) -> int:
        """Return the number of samples on which a selection takes some seconds."""
        if max_time is None or self.n <= _TIMED_ROWS:
            return self.n
        with preserve_rng_state(self.rng):
            X, Y, D = self._draw_samples(_TIMED_ROWS)
            given = self.kernel, X, Y, ridge, D
            few = FactoredSelection(*given, n_centers=self._n_centers(X.shape[0]), rng=self.rng)
        begun = time.perf_counter()
        few.gradient(few.evaluate(np.full(self.p, self.anchor / self.p)))
        took = max(time.perf_counter() - begun, 1e-9)
        return min(self.n, int(_TIMED_ROWS * max_time / (_RUN_WORK * took)))

    @property
    def repeats(self) -> int:
        """The number of repeated permutations, if they are cheap."""
        return _REPEATS if self.n * self.n * self.p <= _FEW_DIFFERENCES else 1

    @property
    def algorithm(self) -> FeatureSelection:
        """The selection algorithms with the settings."""
        settings = self.settings
        # Weights have the scale of the anchor; much shorter steps would gain only rounding
        move = float(np.clip(settings.optimizer.first_move, 0.01 * self.anchor, self.anchor))
        solver = replace(settings.optimizer, first_move=move)
        return FeatureSelection(float(settings.weights.radius), self.anchor, solver)

    def refine_weights(
        self,
        objective: SelectionObjective,
        support: np.ndarray,
        start: np.ndarray,
        /,
        *,
        max_time: float | None = None,
    ) -> np.ndarray:
        """Return the weights (p,) of the selected variables, refitted without the penalty."""
        algorithm = replace(self.algorithm, max_time=max_time)
        found = algorithm.select(objective, 0.0, start, ~support)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return found.beta if found.beta.any() else start

    def fit_predictor(
        self, selection: Selection, ridge: float, run: Run, /, *, hasty: bool
    ) -> Predictor | None:
        """Fit kernel ridge regression to the selected variables.

        Weights, kernel and lengthscale minimise the leave-one-out error on some samples, as the λ
        of the selection smooths too much for predictions. A hasty fit has all weights at τ, and
        few centres and samples. None if nothing was selected.
        """
        if not selection.support.any():
            return None
        some, few = self._draw_samples(_REFINE_ROWS), self._draw_samples(_FIT_ROWS)
        weights, start = [np.where(selection.support, self.anchor, 0.0)], selection.beta
        for share in () if hasty else _RIDGE_SHARES:
            if run.is_over(_REFINE_SHARE):
                break
            objective = DenseSelection(self.kernel, *some[:2], share * ridge, some[2])
            left = run.remaining_seconds(_REFINE_SHARE)
            start = self.refine_weights(objective, selection.support, start, max_time=left)
            weights.append(start)
        count = _HASTY_FIT_ROWS if hasty else self._affordable_choice(weights, run)
        beta, kernel = self._best_kernel(
            weights, *(few if count == _FIT_ROWS else self._draw_samples(count))
        )
        n_centers = _HASTY_CENTERS if hasty else self._affordable_centers(beta, kernel, run)
        rows, Y, D = self._all_rows, self.Y, self.weights
        if n_centers <= _HASTY_CENTERS < self.n:
            X, Y, D = self._draw_samples(_HASTY_ROWS)
            rows, n_centers = Rows(X, self.reference), _HASTY_CENTERS
        method = KernelRidge(kernel, n_centers=None if n_centers >= rows.shape[0] else n_centers)
        fit = method.fit(self._stretched_rows(rows, beta), Y, D, self.rng)
        return Predictor(beta, fit, self._importances(fit, beta, *few))

    def explained_by_all(self) -> float:
        """Return the leave-one-out R² of all variables at τ on some samples.

        Variables that only act together have no derivative at β = 0, and are not selected.
        """
        X, Y, D = self._draw_samples(_FIT_ROWS)
        best = self._best_kernel([np.full(self.p, self.anchor)], X, Y, D)
        scores = self._system(best, X, Y, D).leave_one_out([*RIDGES, _MEAN_RIDGE]).scores
        return 1.0 - min(scores) / scores[-1]

    def predict(self, last: Predictor | None, X: Array, /) -> Array:
        """Predict at `X` (m, p) in the scale of `Y`: (m, t)."""
        if last is None:
            return array_namespace(X).zeros((X.shape[0], self.Y.shape[1]), **like(X))
        found = last.fit.predict(Rows(self._weigh_columns(X, last.beta), self.reference))
        return truncate(found, self.bound)

    def quick_losses(self, support: np.ndarray, held_out: HeldOut, /) -> np.ndarray:
        """Return held-out losses (m,) of a quick fit with some variables at τ."""
        beta = np.where(support, self.anchor, 0.0)
        X, Y, D = self._draw_samples(_FIT_ROWS)
        Z, w = self._weigh_columns(X, beta), None if D is None else to_host(D)[:, 0]
        kernel = Gaussian(median_distance(Z, norm="euclidean", weights=w))
        fit = KernelRidge(kernel).fit(Rows(Z, self.reference), Y, D, self.rng)
        return held_out.losses(
            fit.predict(Rows(self._weigh_columns(held_out.X, beta), self.reference))
        )

    def _affordable_choice(self, weights: Sequence[np.ndarray], run: Run) -> int:
        """Return the number of samples on which there is time to choose the kernel."""

        def judge(q: int) -> None:
            self._system((weights[0], self.kernel), *self._draw_samples(q)).leave_one_out(RIDGES)

        times = _CHOICE_WORK * len(weights) * len(_STRETCHES)
        return run.affordable(_FIT_ROWS, judge, times=times, few=_HASTY_FIT_ROWS)

    def _affordable_centers(self, beta: np.ndarray, kernel: Kernel, run: Run) -> int:
        """Return the number of centres the final fit has time for; n without a limit.

        Partitioned rows have at most a fixed number.
        """
        X, Y, D = self._draw_samples(_HASTY_ROWS)
        rows = Rows(self._weigh_columns(X, beta), self.reference)

        def form(q: int) -> None:
            centers = rows.gather(np.sort(self.rng.choice(X.shape[0], q, replace=False)))
            operator = KernelOperator(kernel, rows, centers, keep=True)
            NystromSystem.from_rows(operator, Y, D)

        count = run.affordable(self.n, form, times=_LAST_WORK * self.n / X.shape[0])
        if self.rows.partitioning is not None:
            return min(count, _CENTERS_IN_PARTS)
        return count if count == self.n else min(count, _MOST_CENTERS)

    def _importances(
        self, fit: KernelRidgeFit, beta: np.ndarray, X: Array, Y: Array, weights: Array | None
    ) -> np.ndarray:
        """Return the permutation importances (p,)."""
        xp = array_namespace(X)
        Z, w = self._weigh_columns(X, beta), 1.0 if weights is None else weights

        def error(Z: Array) -> float:
            predicted = xp.astype(fit.predict(Rows(Z, self.reference)), Y.dtype)
            return float(xp.sum(w * (predicted - Y) ** 2))

        base, rises = error(Z), np.zeros(self.p)
        order = xp.asarray(self.rng.permutation(X.shape[0]), **index_like(X))
        for position, variable in enumerate(np.flatnonzero(beta)):
            column = Z[:, position : position + 1]
            moved = [Z[:, :position], xp.take(column, order, axis=0), Z[:, position + 1 :]]
            rises[variable] = max(error(xp.concat(moved, axis=1)) - base, 0.0)
        return rises / rises.sum() if rises.sum() > 0 else beta / beta.sum()

    def _draw_samples(self, count: int) -> Drawn:
        """Draw samples, targets and weights of at most `count` samples."""
        index = draw_rows(self.n, self.rng, count)
        rows, Y, weights = self._all_rows.take_with(index, self.Y, self.weights)
        return rows.whole(), Y, weights

    @property
    def _all_rows(self) -> Rows:
        """All samples, already scaled if they are in one place."""
        return self.rows if self.rows.partitioning is not None else Rows(self.X, self.reference)

    def _weigh_columns(self, X: Array, beta: np.ndarray) -> Array:
        return _stretch_columns(X, beta, self.kernel.power)

    def _stretched_rows(self, rows: Rows, beta: np.ndarray) -> Rows:
        """Return rows of the weighted variables, times the roots of their weights."""
        power = self.kernel.power
        Z = map_rows(
            rows.source,
            lambda start, stop: _stretch_columns(rows.block(start, stop), beta, power),
            columns=(int(np.count_nonzero(beta)),),
            dtype=self.reference.dtype,
        )
        return Rows(Z, self.reference)

    def _best_kernel(
        self, weights: Sequence[np.ndarray], X: Array, Y: Array, D: Array | None
    ) -> Candidate:
        """Return weights, kernel and lengthscale with the lowest leave-one-out error.

        Earlier candidates, such as all weights at τ, win unless others are clearly better.
        """
        parts = folds(X.shape[0], self.rng)
        candidates = [(beta, kernel) for beta in weights for kernel in self._kernels(beta, X, D)]

        def system(candidate: Candidate) -> DenseSystem:
            return self._system(candidate, X, Y, D)

        best, _ = best_path(
            candidates,
            lambda candidate: system(candidate).leave_one_out(RIDGES),
            lambda candidate: system(candidate).held_out(parts[:1], RIDGES),
            lambda candidate: system(candidate).held_out(parts, RIDGES),
            alike=_EQUAL_ERROR,
        )
        return best

    def _system(self, candidate: Candidate, X: Array, Y: Array, D: Array | None) -> DenseSystem:
        """Return the normal equations of the weighted variables."""
        (beta, kernel), xp = candidate, array_namespace(X)
        Z = self._weigh_columns(X, beta)
        K = xp.astype(kernel(Z, Z), xp.float64)
        return DenseSystem.from_kernel(K, xp.astype(Y, xp.float64, copy=False), D).near_spectrum()

    def _kernels(self, beta: np.ndarray, X: Array, D: Array | None) -> list[Kernel]:
        """Return candidate kernels of the weighted variables."""
        w = None if D is None else to_host(D)[:, 0]
        width = median_distance(self._weigh_columns(X, beta), norm="euclidean", weights=w)
        both = self.kernel, Gaussian(width)
        return [kernel.stretched(factor) for kernel in both for factor in _STRETCHES]


def _stretch_columns(X: Array, beta: np.ndarray, power: int) -> Array:
    """Return the variables with weight, times the roots of their weights."""
    xp = array_namespace(X)
    used = np.flatnonzero(beta)
    Z = xp.take(X, xp.asarray(used, **index_like(X)), axis=1)
    return Z * asarray_like(beta[used] ** (1.0 / power), X)
