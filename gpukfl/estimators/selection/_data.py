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

_DENSE_UP_TO = 3_000  # samples with which the exact form is the quicker one
_CENTERS = 256
_CHECKED_ROWS = 4_000  # on which the error of a gradient through centres is estimated
_CENTERS_SHARE = 0.25  # of the memory that may be used, for the factors of the kernel
_REFINE_ROWS = 1_000  # samples on which the weights of the last fit are learned
_FIT_ROWS = 500  # samples on which they, and its kernel, are chosen
_RIDGE_SHARES = (1.0, 0.1, 0.01)
_REFINE_SHARE = 0.75  # of max_time after which they are not learned any further
_CHOICE_WORKS = 4  # judgements for each kernel it is chosen among, and as much for the last fit
_LAST_WORKS = 5  # normal equations of the last fit, and passes of leave-one-out
_MOST_CENTERS = 2_000  # of the last fit where there is no time for all
_CENTERS_IN_PARTS = 1_000  # of it where rows lie in parts: what travels goes with their square
_HASTY_ROWS, _HASTY_CENTERS = 5_000, 500  # of one that is to end at once
_HASTY_FIT_ROWS = 250  # samples on which its kernel is chosen
_TIMED_ROWS = 2_000  # samples on which works are timed
_RUN_WORKS = 40  # values and gradients of a selection, and of its thresholds
_REPEATS = 5  # of the permutations behind the thresholds that decide what is selected
_CHEAP = 5e7  # differences of pairs of samples up to which a gradient takes moments
_STRETCHES = (0.5, 1.0, 2.0, 4.0)
# Share of the leave-one-out error below which a gain says nothing: the samples cannot tell so small
# a difference, and rounding to float32 makes one of half the size
_ALIKE = 0.02
_MEAN_ALONE = 1e6  # a ridge with which nothing but the mean is left
_LEAST = 1e-100  # mean of a typical pair's differences

Some = tuple[Array, Array, Array | None]  # samples, targets and weights
Candidate = tuple[np.ndarray, Kernel]  # weights (p,), and a kernel of the variables they stretch


def make_selection_kernel(kernel: str | Kernel, /) -> Radial | Manhattan:
    """Return a kernel that can weigh variables, by its name or as given.

    It is a function of a sum over the variables, with a slope at 0; else there is a TypeError.
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
        self._made_of = samples, place, run
        self.anchor = self._anchor()

    def part(self, rows: np.ndarray, /) -> SelectionProblem:
        """Return the problem of some samples, scaled again."""
        samples, place, run = self._made_of
        return SelectionProblem(self.settings, samples.take(rows), place, run)

    @cached_property
    def X(self) -> Array:  # noqa: N802
        """All samples in one place."""
        return self.rows.whole()

    @property
    def everything(self) -> np.ndarray:
        """All variables at τ (p,)."""
        return np.full(self.p, self.anchor)

    def _anchor(self) -> float:
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
        if typical.mean() < _LEAST:  # the weights that undo it would overflow
            msg = (
                "X underflows: expected features of two rows to differ by at least "
                f"{_LEAST:.0e} on average, in units of the kernel, got {typical.mean():.1e}; use "
                "scaling='standard'"
            )
            raise ValueError(msg)
        return 1.0 / float(typical.mean())

    def objective(self, ridge: float, X: Array | None = None, /) -> SelectionObjective:
        """Return J in the form chosen by n_centers, perhaps of other columns X (n, q)."""
        wanted, n = self.settings.n_centers, self.n
        given = self.kernel, self.X if X is None else X, self.Y, ridge, self.weights
        if wanted == "all" or (wanted == "auto" and n <= _DENSE_UP_TO):
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

        0 of an objective that sees all pairs of samples.
        """
        if not isinstance(objective, FactoredSelection):
            return 0.0
        with preserve_rng_state(self.rng):
            X, Y, D = self._some(_CHECKED_ROWS)
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

        Algorithm 1' may begin from the weights `start` of a larger γ. Thresholds of permutations
        are drawn with so many `repeats`.
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
        """Return on how many samples a selection takes some seconds."""
        if max_time is None or self.n <= _TIMED_ROWS:
            return self.n
        with preserve_rng_state(self.rng):
            X, Y, D = self._some(_TIMED_ROWS)
            given = self.kernel, X, Y, ridge, D
            few = FactoredSelection(*given, n_centers=self._n_centers(X.shape[0]), rng=self.rng)
        begun = time.perf_counter()
        few.gradient(few.evaluate(np.full(self.p, self.anchor / self.p)))
        took = max(time.perf_counter() - begun, 1e-9)
        return min(self.n, int(_TIMED_ROWS * max_time / (_RUN_WORKS * took)))

    @property
    def repeats(self) -> int:
        """The number of repeated permutations, if they are cheap."""
        return _REPEATS if self.n * self.n * self.p <= _CHEAP else 1

    @property
    def algorithm(self) -> FeatureSelection:
        """The selection algorithms with the settings."""
        settings = self.settings
        # Variables may be of any scale, and weights then are of another; too short a step gains
        # nothing but rounding
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

        Weights, kernel and lengthscale are those of the lowest leave-one-out error on some of
        the samples: the λ that selects well smooths more than the one that predicts well. A hasty
        fit has all weights at τ, few centres and not too many samples. None where nothing was
        selected.
        """
        if not selection.support.any():
            return None
        some, few = self._some(_REFINE_ROWS), self._some(_FIT_ROWS)
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
            weights, *(few if count == _FIT_ROWS else self._some(count))
        )
        n_centers = _HASTY_CENTERS if hasty else self._affordable_centers(beta, kernel, run)
        rows, Y, D = self._everyone, self.Y, self.weights
        if n_centers <= _HASTY_CENTERS < self.n:
            X, Y, D = self._some(_HASTY_ROWS)
            rows, n_centers = Rows(X, self.reference), _HASTY_CENTERS
        method = KernelRidge(kernel, n_centers=None if n_centers >= rows.shape[0] else n_centers)
        fit = method.fit(self._stretched_rows(rows, beta), Y, D, self.rng)
        return Predictor(beta, fit, self._importances(fit, beta, *few))

    def explained_by_all(self) -> float:
        """Return the leave-one-out R² of all variables at τ on some samples.

        What acts together with others alone has no derivative at β = 0, and is not selected.
        """
        X, Y, D = self._some(_FIT_ROWS)
        best = self._best_kernel([np.full(self.p, self.anchor)], X, Y, D)
        scores = self._system(best, X, Y, D).leave_one_out([*RIDGES, _MEAN_ALONE]).scores
        return 1.0 - min(scores) / scores[-1]

    def predict(self, last: Predictor | None, X: Array, /) -> Array:
        """Predict at `X` (m, p) in the scale of `Y`: (m, t)."""
        if last is None:
            return array_namespace(X).zeros((X.shape[0], self.Y.shape[1]), **like(X))
        found = last.fit.predict(Rows(self._weigh_columns(X, last.beta), self.reference))
        return truncate(found, self.bound)

    def glance(self, support: np.ndarray, held_out: HeldOut, /) -> np.ndarray:
        """Return losses (m,) of other samples by a quick fit with some variables at τ."""
        beta = np.where(support, self.anchor, 0.0)
        X, Y, D = self._some(_FIT_ROWS)
        Z, w = self._weigh_columns(X, beta), None if D is None else to_host(D)[:, 0]
        kernel = Gaussian(median_distance(Z, norm="euclidean", weights=w))
        fit = KernelRidge(kernel).fit(Rows(Z, self.reference), Y, D, self.rng)
        return held_out.losses(
            fit.predict(Rows(self._weigh_columns(held_out.X, beta), self.reference))
        )

    def _affordable_choice(self, weights: Sequence[np.ndarray], run: Run) -> int:
        """Return on how many samples there is time to choose the kernel."""

        def judge(q: int) -> None:
            self._system((weights[0], self.kernel), *self._some(q)).leave_one_out(RIDGES)

        times = _CHOICE_WORKS * len(weights) * len(_STRETCHES)
        return run.affordable(_FIT_ROWS, judge, times=times, few=_HASTY_FIT_ROWS)

    def _affordable_centers(self, beta: np.ndarray, kernel: Kernel, run: Run) -> int:
        """Return how many centres the final fit has time for; n without a limit.

        Of rows in parts a fixed number at most.
        """
        X, Y, D = self._some(_HASTY_ROWS)
        rows = Rows(self._weigh_columns(X, beta), self.reference)

        def form(q: int) -> None:
            centers = rows.gather(np.sort(self.rng.choice(X.shape[0], q, replace=False)))
            operator = KernelOperator(kernel, rows, centers, keep=True)
            NystromSystem.from_rows(operator, Y, D)

        count = run.affordable(self.n, form, times=_LAST_WORKS * self.n / X.shape[0])
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

    def _some(self, count: int) -> Some:
        """Draw samples, targets and weights of at most `count` samples."""
        index = draw_rows(self.n, self.rng, count)
        rows, Y, weights = self._everyone.take_with(index, self.Y, self.weights)
        return rows.whole(), Y, weights

    @property
    def _everyone(self) -> Rows:
        """All samples, already scaled if they are in one place."""
        return self.rows if self.rows.partitioning is not None else Rows(self.X, self.reference)

    def _weigh_columns(self, X: Array, beta: np.ndarray) -> Array:
        return _stretch(X, beta, self.kernel.power)

    def _stretched_rows(self, rows: Rows, beta: np.ndarray) -> Rows:
        """Return rows of the weighted variables, times the roots of their weights."""
        power = self.kernel.power
        Z = map_rows(
            rows.source,
            lambda start, stop: _stretch(rows.block(start, stop), beta, power),
            columns=(int(np.count_nonzero(beta)),),
            dtype=self.reference.dtype,
        )
        return Rows(Z, self.reference)

    def _best_kernel(
        self, weights: Sequence[np.ndarray], X: Array, Y: Array, D: Array | None
    ) -> Candidate:
        """Return weights, kernel and lengthscale with the lowest leave-one-out error.

        Where others are hardly better the first are taken: all weights at τ, the kernel itself.
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
            alike=_ALIKE,
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


def _stretch(X: Array, beta: np.ndarray, power: int) -> Array:
    """Return the variables with weight, times the roots of their weights."""
    xp = array_namespace(X)
    used = np.flatnonzero(beta)
    Z = xp.take(X, xp.asarray(used, **index_like(X)), axis=1)
    return Z * asarray_like(beta[used] ** (1.0 / power), X)
