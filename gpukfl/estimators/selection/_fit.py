"""Kernel feature selection as a method: γ and λ by hold-out, and error control."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from gpukfl.core._array import Array, array_namespace, lies_in_parts, to_host
from gpukfl.core._memory import available_memory
from gpukfl.core._places import Place
from gpukfl.core._random import draw_indices
from gpukfl.core._results import Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._learner import SearchResult
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Fold, Search, Trial, Tuner, is_clearly_worse
from gpukfl.estimators.selection._data import Predictor, SelectionProblem
from gpukfl.estimators.selection._settings import (
    DEFAULT_RIDGE,
    Knockoffs,
    Path,
    SelectionSettings,
    Stability,
)
from gpukfl.knockoffs import (
    Copies,
    combine_weights,
    contest,
    e_values,
    select_by_e_values,
    smallest_level,
)
from gpukfl.methods import (
    DenseSelection,
    FactoredSelection,
    Selection,
    SelectionObjective,
    competing_fits,
    largest_sparsity,
)

RIDGES = (0.1, 0.01, 0.001, 0.0001)

_LEAST_ROWS = 1_000  # with time for fewer, the search's selection is kept
_ROWS = 1_250  # most rows for the search, where the exact form is quick
_SHARE = 0.5  # of max_time, at which the search ends
_MOST_ERROR = 0.25  # relative error of the gradient above which few centres are warned of
_LOWEST = 1e-3  # smallest γ of a path, relative to the largest
_STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)
_MOST_SELECTION_ROWS = 100_000  # for the selection, unless a number of centres is given
_MOST_MOVED_ROWS = 10_000  # the same for partitioned rows, which are moved to one place
SELECT_SHARE = 0.7  # of max_time, at which the selection ends
QUIET = (Status.CONVERGED, Status.STALLED)  # statuses without a warning


@dataclass(frozen=True)
class SelectionSetting:
    """A pair of λ and γ; γ "auto" comes from permutations."""

    ridge: float
    sparsity: float | str
    number: int = 1  # place on the path of this λ


@dataclass(frozen=True, eq=False)
class Discoveries:
    """The discoveries of knockoffs among the variables."""

    e_values: np.ndarray  # (p,), means over the draws
    level: float  # α
    draws: int  # completed
    copies: int  # κ
    shrinkage: float  # of the correlations that copies were drawn with
    n_samples: int  # rows that were used
    status: Status | None = None  # why the draws ended early


@dataclass(frozen=True, eq=False)
class SelectionResult:
    """The result of a fit: selection, final model, error control and path."""

    selection: Selection
    last: Predictor | None
    frequencies: np.ndarray | None = None  # (p,)
    threshold: float | None = None
    path: dict[str, np.ndarray] | None = None
    discoveries: Discoveries | None = None
    missed: float | None = None  # R² of all variables together, if none was selected


# ---------------------------------------------------------------------------------- search


@dataclass(frozen=True, eq=False)
class SelectionFoldFit:
    """The result of a fold: variables, and held-out predictions."""

    selection: Selection
    predicted: Array


Trials = Sequence[Trial[SelectionSetting, SelectionFoldFit]]


@dataclass(eq=False)
class FoldObjective:
    """J(β) of a fold at one λ, and the predictions of its f for held-out rows."""

    ridge: float
    objective: DenseSelection
    predicted: dict[bytes, Array] = field(default_factory=dict)  # by selected variables


def fold_objective(fold: Fold[SelectionProblem], ridge: float, /) -> FoldObjective:
    """Return J of a fold at λ; the fold keeps the last one."""
    known, problem = fold.reached, fold.problem
    if known is None or known.ridge != ridge:
        given = problem.kernel, problem.X, problem.Y, ridge, problem.weights
        fold.reached = known = FoldObjective(ridge, DenseSelection(*given))
    return known


@dataclass(frozen=True)
class ObjectiveFits:
    """Fits to few rows for the search; held-out rows are predicted by the f of J(β)."""

    count: int  # settings with one λ

    def fit_fold(
        self,
        fold: Fold[SelectionProblem],
        setting: SelectionSetting,
        start: SelectionFoldFit | None,
        run: Run,
        /,
    ) -> SelectionFoldFit:
        """Select variables, and refit their weights."""
        judged, problem = fold_objective(fold, setting.ridge), fold.problem
        stage = f"λ = {setting.ridge:g}, {setting.number} of {self.count}"
        selection = problem.run(
            judged.objective,
            setting.sparsity,
            start=None if start is None else start.selection.beta,
            max_time=run.remaining_seconds(_SHARE),
            watch=lambda k, history: run.tell(stage, k, history),
        )
        if selection.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        key, objective = selection.support.tobytes(), judged.objective
        if key not in judged.predicted:  # each set of variables once
            given, left = (
                (objective, selection.support, selection.beta),
                run.remaining_seconds(_SHARE),
            )
            beta = problem.refine_weights(*given, max_time=left)
            judged.predicted[key] = _predict_objective(objective, beta, fold.held_out.X)
        return SelectionFoldFit(selection, judged.predicted[key])

    def predict_fold(self, fold: Fold[SelectionProblem], learned: SelectionFoldFit, /) -> Array:  # noqa: ARG002
        """Return the predictions of the held-out rows."""
        return learned.predicted


@dataclass(frozen=True, eq=False)
class SelectionTuner(Tuner[SelectionSetting, SelectionFoldFit]):
    """A tuner over λ, with thresholds by permutations or a path over γ."""

    ridges: Sequence[float]
    sparsities: Callable[[float], Sequence[float | str]]  # at λ, descending

    def propose(self, trials: Trials, /) -> SelectionSetting | None:
        """Return the next γ of a λ; smaller λ are skipped once they are worse."""
        lowest = np.inf
        for ridge in self.ridges:
            mine = [trial for trial in trials if trial.setting.ridge == ridge]
            sparsities = self.sparsities(ridge)
            if len(mine) < len(sparsities):
                return SelectionSetting(ridge, sparsities[len(mine)], len(mine) + 1)
            error = min(_total_loss(trial) for trial in mine)
            if error > lowest:
                return None
            lowest = min(lowest, error)
        return None

    def starts(
        self, setting: SelectionSetting, trials: Trials, /
    ) -> Sequence[SelectionFoldFit | None]:
        """Return the weights at the previous, larger γ."""
        same = trials and trials[-1].setting.ridge == setting.ridge
        return trials[-1].learned if same else ()

    def choose(self, trials: Trials, /) -> Trial[SelectionSetting, SelectionFoldFit]:
        """Return the trial with fewest variables within one standard error of the lowest loss.

        After an interrupted search, it is the trial of the lowest loss.
        """
        lowest = min(trials, key=_total_loss)
        if self.propose(trials) is not None:
            return lowest

        def close(trial: Trial[SelectionSetting, SelectionFoldFit]) -> bool:
            excess = trial.losses - lowest.losses
            return bool(excess.sum() <= len(excess) ** 0.5 * excess.std())

        good = [trial for trial in trials if trial.learned and close(trial)] or [lowest]
        fewest = min(mean_selection_size(trial) for trial in good)
        return min(
            (trial for trial in good if mean_selection_size(trial) == fewest), key=_total_loss
        )

    def describe_trial(self, trial: Trial[SelectionSetting, SelectionFoldFit], /) -> dict[str, Any]:
        """Return λ, γ and the number of selected variables by names."""
        setting = trial.setting
        return {
            "ridge": setting.ridge,
            "sparsity": setting.sparsity,
            "n_selected": mean_selection_size(trial),
        }


# ---------------------------------------------------------------------------------- method


class KernelSelection(SelectionSettings):
    """Kernel feature selection with its settings."""

    splits: ClassVar[Splits] = Splits(at_most=_ROWS)

    def work(self, n: int, d: int, /) -> int:
        """Return the number of differences of variables."""
        return n * d

    def problem(self, samples: Samples, place: Place, run: Run, /) -> SelectionProblem:
        """Place samples, and measure τ; raise ValueError if knockoffs are not possible."""
        check_knockoffs(self, samples.X)
        return SelectionProblem(self, samples, place, run)

    def default_setting(self, problem: SelectionProblem, /) -> SelectionSetting:  # noqa: ARG002
        """Return the given γ, or that of permutations, and the given λ or the paper's."""
        sparsity = self.sparsity if isinstance(self.sparsity, float) else "auto"
        return SelectionSetting(self.ridge or DEFAULT_RIDGE, sparsity)

    def fit_fold(
        self,
        fold: Fold[SelectionProblem],
        setting: SelectionSetting,
        start: SelectionFoldFit | None,  # noqa: ARG002
        run: Run,
        /,
    ) -> SelectionFoldFit:
        """Select variables, and fit kernel ridge regression on them, as for all rows."""
        problem, left = fold.problem, run.remaining_seconds()
        objective = problem.objective(setting.ridge)
        selection = problem.run(objective, setting.sparsity, max_time=left)
        if selection.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        hasty = run.is_over(SELECT_SHARE)
        last = problem.fit_predictor(selection, setting.ridge, run, hasty=hasty)
        return SelectionFoldFit(selection, problem.predict(last, fold.held_out.X))

    def predict_fold(self, fold: Fold[SelectionProblem], learned: SelectionFoldFit, /) -> Array:  # noqa: ARG002
        """Return the predictions of the held-out rows."""
        return learned.predicted

    def search(
        self,
        folds: Callable[[], Sequence[Fold[SelectionProblem]]],
        problem: SelectionProblem,
        run: Run,
        /,
    ) -> Search[SelectionSetting, SelectionFoldFit] | None:
        """Return a search if λ, or γ along a path, are to be chosen."""
        path = self.sparsity if isinstance(self.sparsity, Path) else None
        if self.ridge is not None and path is None:
            return None
        count = 1 if path is None else path.number
        found, given = folds(), self.default_setting(problem).sparsity

        @functools.cache
        def sparsities(ridge: float) -> Sequence[float | str]:
            if path is None:
                return [given]
            top = max(largest_sparsity(fold_objective(fold, ridge).objective) for fold in found)
            return [float(g) for g in top * np.geomspace(1.0, _LOWEST, count)]

        tuner = SelectionTuner(RIDGES if self.ridge is None else (self.ridge,), sparsities)
        enough = bool if path is None else _has_left_zero
        return Search(ObjectiveFits(count), found, tuner, run, _SHARE, enough=enough)

    def learn(
        self,
        problem: SelectionProblem,
        choice: SearchResult[SelectionSetting, SelectionFoldFit],
        run: Run,
        /,
    ) -> SelectionResult:
        """Select on all samples and fit, with less effort if time is short."""
        ridge = choice.setting.ridge
        if choice.stopped:
            selection = self._fallback_selection(problem, choice, Status.INTERRUPTED)
        elif problem.constant:
            selection = Selection(np.zeros(problem.p), Status.CONVERGED)
        else:
            selection = self._select(problem, choice, run)
        found = control_errors(problem, choice.setting, selection, run)
        try:
            hasty = found.selection.status is Status.INTERRUPTED or run.is_over(SELECT_SHARE)
            last = problem.fit_predictor(found.selection, ridge, run, hasty=hasty)
            if last is None and not (problem.constant or hasty):
                found = replace(found, missed=problem.explained_by_all())
        except KeyboardInterrupt:  # one quick fit, which a second Ctrl-C ends
            found = replace(found, selection=replace(found.selection, status=Status.INTERRUPTED))
            last = problem.fit_predictor(found.selection, ridge, run, hasty=True)
        return replace(found, last=last, path=self._path(choice))

    def _select(
        self,
        problem: SelectionProblem,
        choice: SearchResult[SelectionSetting, SelectionFoldFit],
        run: Run,
    ) -> Selection:
        """Select on all samples, or on as many as there is time for.

        If it is stopped, `_fallback_selection` chooses the result.
        """
        ridge = choice.setting.ridge
        try:
            left, some = run.remaining_seconds(SELECT_SHARE), problem
            if choice.trials and run.is_over(SELECT_SHARE):
                return self._fallback_selection(problem, choice, Status.TIME_LIMIT)
            wanted = (
                problem.n
                if self.n_centers != "auto" and problem.rows.partitioning is None
                else min(problem.n, max_selection_rows(problem))
            )
            count = min(problem.affordable_rows(ridge, left), wanted)
            if count < min(problem.n, _LEAST_ROWS):  # the search has seen as many
                return self._fallback_selection(problem, choice, Status.TIME_LIMIT)
            if count < problem.n:
                some = problem.part(np.sort(draw_indices(run.rng, problem.n, count)))
            elif problem.rows.partitioning is not None:
                some = problem.part(np.arange(count))
            objective = some.objective(ridge)
            found = some.run(
                objective,
                choice.setting.sparsity,
                max_time=left,
                watch=lambda k, history: run.tell("selection", k, history),
                repeats=some.repeats,
            )
        except KeyboardInterrupt:
            return self._fallback_selection(problem, choice, Status.INTERRUPTED)
        if found.status in _STOPPED:
            return self._fallback_selection(problem, choice, found.status, found)
        if not run.is_over(SELECT_SHARE):
            _warn_few_centers(some, objective, found)
        if count < wanted and found.status in QUIET:
            return replace(found, status=Status.TIME_LIMIT)
        return found

    def _fallback_selection(
        self,
        problem: SelectionProblem,
        choice: SearchResult[SelectionSetting, SelectionFoldFit],
        status: Status,
        reached: Selection | None = None,
    ) -> Selection:
        """Return the selection of an interrupted run, of the search, or all variables.

        It is the first of these that no later one clearly beats, in quick fits to a fold.
        """
        trial = min(choice.trials, key=_total_loss, default=None)
        searched = trial.learned[0].selection if trial is not None and trial.learned else None
        options = [one for one in (reached, searched) if one is not None and one.support.any()]
        options.append(Selection(problem.everything, status))
        if len(options) > 1 and choice.folds:
            fold: Fold[SelectionProblem] = choice.folds[0]
            losses = [fold.problem.quick_losses(one.support, fold.held_out) for one in options]
            groups = fold.held_out.groups
            while any(is_clearly_worse(losses[0], other, groups) for other in losses[1:]):
                options, losses = options[1:], losses[1:]
        return replace(options[0], status=status)

    def _path(
        self, choice: SearchResult[SelectionSetting, SelectionFoldFit], /
    ) -> dict[str, np.ndarray] | None:
        """Return the path of the first fold at the chosen λ, if there was one."""
        ridge = choice.setting.ridge
        mine = [one for one in choice.trials if one.setting.ridge == ridge and one.learned]
        if not isinstance(self.sparsity, Path) or not mine:
            return None
        return {
            "sparsity": np.asarray([trial.setting.sparsity for trial in mine]),
            "beta": np.asarray([trial.learned[0].selection.beta for trial in mine]),
            "score": np.asarray([trial.score for trial in mine]),
        }


def max_selection_rows(problem: SelectionProblem, /) -> int:
    """Return the maximal number of rows for the selection."""
    return _MOST_SELECTION_ROWS if problem.rows.partitioning is None else _MOST_MOVED_ROWS


def _warn_few_centers(
    problem: SelectionProblem, objective: SelectionObjective, found: Selection
) -> None:
    """Warn if the kernel approximation by centres is too coarse for the gradient."""
    error = problem.gradient_error(objective, found.beta)
    if error > _MOST_ERROR:
        assert isinstance(objective, FactoredSelection)
        warn(
            f"variables were selected with {objective.n_centers} centres, and the gradient is off "
            f"by about {error:.0%} at the ridge {objective.ridge:.3g}. For a more exact one, use "
            f"n_centers={4 * objective.n_centers} or a larger ridge"
        )


def mean_selection_size(trial: Trial[SelectionSetting, SelectionFoldFit], /) -> float:
    """Return the mean number of variables over the folds; 0 for a failed trial."""
    counts = [learned.selection.support.sum() for learned in trial.learned]
    return float(np.mean(counts)) if counts else 0.0


def _total_loss(trial: Trial[SelectionSetting, SelectionFoldFit]) -> float:
    """Return the sum of the held-out losses; infinite for a failed trial."""
    return float(trial.losses.sum()) if trial.learned else np.inf


def _has_left_zero(trials: Trials) -> bool:
    """Whether the path has left β = 0."""
    return bool(trials) and mean_selection_size(trials[-1]) > 0


def _predict_objective(objective: DenseSelection, beta: np.ndarray, X: Array) -> Array:
    """Return the values at `X` (m, p) of the f of J(β)."""
    xp = array_namespace(X)
    u = objective.distances(objective.stretch(X, beta), objective.stretch(objective.X, beta))
    return xp.astype(objective.kernel.profile(u), xp.float64) @ objective.evaluate(beta).alpha


# --------------------------------------------------------------------------------- control


def check_knockoffs(settings: SelectionSettings, X: Array, /) -> None:
    """Raise ValueError if knockoffs of X (n, p) cannot be drawn, or cannot find anything."""
    control, p = settings.error_control, X.shape[1]
    if not isinstance(control, Knockoffs):
        return
    if lies_in_parts(X):
        msg = (
            f"expected data in memory for knockoffs, got {X.shape[0]} partitioned rows: fit to "
            "a sample in memory, or use error_control=Stability(...)"
        )
        raise ValueError(msg)
    level, copies = control.level, control.n_copies
    smallest = smallest_level(p, copies)
    if level < smallest * (1.0 - 1e-9):
        msg = (
            f"expected a level of at least {smallest:.3g} for {p} variables with {copies} copies "
            f"each, got {level:g}: nothing can be found at lower levels. To allow them, use more "
            "copies"
        )
        raise ValueError(msg)


def control_errors(
    problem: SelectionProblem, setting: SelectionSetting, selection: Selection, run: Run, /
) -> SelectionResult:
    """Apply the error control of the settings to a selection."""
    control = problem.settings.error_control
    if isinstance(control, Knockoffs):
        return _select_by_knockoffs(problem, selection, control, run)
    if control is None or problem.constant:
        return SelectionResult(selection, None)
    if selection.status not in QUIET:
        return _keep_without_bound(selection)
    return _select_by_stability(problem, setting, selection, control, run)


def _select_by_knockoffs(
    problem: SelectionProblem,
    selection: Selection,
    control: Knockoffs,
    run: Run,
) -> SelectionResult:
    """Keep the variables that beat their copies."""
    found = None
    if problem.constant or selection.status in QUIET:
        # A λ chosen on these data could favour variables over their copies
        ridge = problem.settings.ridge or DEFAULT_RIDGE
        found = run_knockoffs(problem, ridge, control, run, SELECT_SHARE)
    if found is None:
        msg = (
            "the fit ended before knockoffs were compared: the share of false variables among "
            "those selected has no bound"
        )
        warn(msg, UserWarning)
        return SelectionResult(
            selection
            if selection.status not in QUIET
            else replace(selection, status=Status.INTERRUPTED),
            None,
        )
    kept = _keep_variables(selection, select_by_e_values(found.e_values, control.level))
    kept = kept if found.status is None else replace(kept, status=found.status)
    return SelectionResult(kept, None, discoveries=found)


def _keep_variables(selection: Selection, kept: np.ndarray) -> Selection:
    """Set the weights of the kept variables; those without one get the mean weight."""
    weights = selection.beta[selection.support]
    typical = float(weights.mean()) if len(weights) else 1.0
    beta = np.where(selection.support, selection.beta, typical)
    return replace(selection, beta=np.where(kept, beta, 0.0))


def _select_by_stability(
    problem: SelectionProblem,
    setting: SelectionSetting,
    selection: Selection,
    control: Stability,
    run: Run,
) -> SelectionResult:
    """Keep the variables that are selected on enough halves of the samples."""
    n, index = problem.n, None
    if problem.rows.partitioning is not None and n > max_selection_rows(problem):
        n = max_selection_rows(problem)
        index = np.sort(draw_indices(run.again(), problem.n, n))

    def select(rows: np.ndarray) -> np.ndarray:
        half = problem.part(rows if index is None else index[rows])
        found = half.run(half.objective(setting.ridge), setting.sparsity)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return found.support

    try:
        shares, mean, whole = selection_frequencies(
            select,
            n,
            control.n_halves,
            run.again(),
            lambda: run.is_over(SELECT_SHARE),
        )
    except KeyboardInterrupt:
        return _keep_without_bound(replace(selection, status=Status.INTERRUPTED))
    threshold = _check_threshold(mean, problem.p, control.max_false)
    kept = _keep_variables(selection, shares >= threshold)
    status = selection.status if whole else Status.TIME_LIMIT
    return SelectionResult(replace(kept, status=status), None, shares, threshold)


def _keep_without_bound(selection: Selection) -> SelectionResult:
    """Keep the selection, and warn that the number of false variables is not bounded."""
    msg = (
        "the fit ended before halves of the samples were compared: the number of false variables "
        "among those selected has no bound"
    )
    warn(msg, UserWarning)
    return SelectionResult(selection, None)


def _check_threshold(mean: float, p: int, most: float) -> float:
    """Return the threshold of stability selection, at most 1, with a warning."""
    threshold = stability_threshold(mean, p, most)
    if threshold <= 1.0:
        return threshold
    msg = (
        f"max_false={most:g} cannot be guaranteed: {mean:.1f} of {p} variables are selected on "
        f"half of the rows, which bounds false ones by {mean**2 / p:.2g}. Variables selected on "
        "every half are kept"
    )
    warn(msg, UserWarning)
    return 1.0


# ------------------------------------------------------------------------------- stability


def selection_frequencies(
    select: Callable[[np.ndarray], np.ndarray],
    n: int,
    n_subsamples: int,
    rng: np.random.RandomState,
    late: Callable[[], bool] = lambda: False,
    /,
) -> tuple[np.ndarray, float, bool]:
    """Return selection frequencies on complementary halves of the samples.

    `late` is called after every pair, and ends the loop if it returns True. Return the share of
    halves on which each variable was selected (p,), the mean number q of selected variables on a
    half, and whether all halves were completed.

    References
    ----------
    .. [1] Meinshausen and Bühlmann, "Stability selection", JRSS B, 2010.
    .. [2] Shah and Samworth, "Variable selection with error control", JRSS B, 2013, for the pairs.
    """
    found = []
    order = np.arange(n)
    for k in range(n_subsamples):
        if k % 2 == 0:
            order = rng.permutation(n)
        half = order[: n // 2] if k % 2 == 0 else order[n // 2 : 2 * (n // 2)]
        found.append(select(np.sort(half)))
        if k % 2 and late():
            break
    counts = np.asarray(found, dtype=np.float64)
    return counts.mean(axis=0), float(counts.sum(axis=1).mean()), len(found) == n_subsamples


def stability_threshold(mean_selected: float, p: int, max_false: float, /) -> float:
    r"""Return the frequency π above which at most `max_false` false variables are expected.

    From the bound :math:`E[V] \le q^2 / ((2\pi - 1) p)` (Meinshausen and Bühlmann, Theorem 1), and
    above one half. A value above 1 means that `max_false` cannot be guaranteed.
    """
    return max(0.5 * (1.0 + mean_selected**2 / (p * max_false)), math.nextafter(0.5, 1.0))


# ------------------------------------------------------------------------------- knockoffs

_MOST_ROWS = 3_000  # unless a number of centres is given, as for the exact form
_MEMORY_SHARE = 0.5  # of the available memory
_BYTES_EACH = 48  # for each element of variables and copies, with sorted and drawn values
_ROUNDS = 20
_MOST_NAMED = 5  # pairs of equal columns in a warning


def run_knockoffs(
    problem: SelectionProblem,
    ridge: float,
    control: Knockoffs,
    run: Run,
    share: float,
    /,
) -> Discoveries | None:
    """Compare variables with knockoff copies; return None if no draw was completed.

    Draws end at a share of the time, after the first, or by an interruption.
    """
    level, copies = control.level, control.n_copies
    found: list[np.ndarray] = []
    none = Discoveries(np.zeros(problem.p), level, 0, copies, 0.0, problem.n)
    if problem.constant:
        return none
    # A separate generator: the user may have drawn the data from the same seed
    rng = np.random.RandomState(run.rng.randint(0, 2**32, size=8, dtype=np.uint32))
    status, sampled = None, none
    try:
        some = _limit_to_memory(problem, copies, rng)
        sampler = control.sampler_object.of(some.X, copies)
        _warn_weak_knockoffs(sampler, some)
        sampled = replace(none, n_samples=some.n, shrinkage=float(sampler.correlation.shrinkage))
        for k in range(control.draws):
            if found and run.is_over(share):
                status = Status.TIME_LIMIT
                break
            run.note(f"knockoffs: draw {k + 1} of {control.draws}")
            W = _run_contest(some, sampler, ridge, rng)
            target = level if control.draws == 1 else 0.5 * level
            found.append(e_values(W, level=target, copies=copies))
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if not found:
        return None
    return replace(sampled, e_values=np.mean(found, axis=0), draws=len(found), status=status)


def _limit_to_memory(
    problem: SelectionProblem, copies: int, rng: np.random.RandomState
) -> SelectionProblem:
    """Return as many rows as fit in memory with all copies."""
    fitting = int(
        _MEMORY_SHARE * available_memory(problem.X) // (_BYTES_EACH * (copies + 1) * problem.p)
    )
    if problem.settings.n_centers == "auto":
        fitting = min(fitting, _MOST_ROWS)
    count = max(fitting, 2)
    if count >= problem.n:
        return problem
    return problem.part(np.sort(rng.choice(problem.n, count, replace=False)))


def _run_contest(
    problem: SelectionProblem, sampler: Copies, ridge: float, rng: np.random.RandomState
) -> np.ndarray:
    """Return the statistics W of one draw of copies."""
    copies = sampler.draw(rng)
    columns = array_namespace(copies).concat([problem.X, copies], axis=1)
    rounds = _ROUNDS if problem.settings.hierarchical else 1
    objective = problem.objective(ridge, columns)
    fits, status = competing_fits(
        replace(problem.algorithm, max_rounds=rounds), objective, problem.p, rng=rng
    )
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    # Among equal columns a fit may prefer the first, which is the variable
    untold = _has_equal_copy(problem.X, copies)
    untold[[column for pair in sampler.correlation.equal for column in pair]] = True
    return np.where(untold, 0.0, contest(combine_weights(*fits)))


def _has_equal_copy(X: Array, copies: Array) -> np.ndarray:
    """Return which variables (p,) are equal to one of their copies (n, κ p)."""
    xp, p = array_namespace(X), X.shape[1]
    each = [copies[:, k : k + p] for k in range(0, copies.shape[1], p)]
    return np.any([to_host(xp.all(one == X, axis=0)) for one in each], axis=0)


def _warn_weak_knockoffs(sampler: Copies, problem: SelectionProblem) -> None:
    """Warn of data on which knockoffs have little power."""
    correlation, n, p = sampler.correlation, problem.n, problem.p
    if problem.relations is not None:
        msg = (
            "knockoffs need independent rows, not groups or times: the share of false variables "
            "may exceed the level. Fit to one row of each group, or use "
            "error_control=Stability(...)"
        )
        warn(msg, UserWarning)
    if n < p:
        msg = (
            f"{n} rows are few to estimate the correlations of {p} columns. They are shrunk by "
            f"{correlation.shrinkage:.0%} for knockoffs, and the bound on false variables is "
            "approximate"
        )
        warn(msg, UserWarning)
    if correlation.equal:
        pairs = ", ".join(f"{j} like {i}" for i, j in correlation.equal[:_MOST_NAMED])
        more = ", ..." if len(correlation.equal) > _MOST_NAMED else ""
        msg = (
            f"columns differ only in their units ({pairs}{more}): knockoffs cannot tell which "
            "matters, and select neither"
        )
        warn(msg, UserWarning)
