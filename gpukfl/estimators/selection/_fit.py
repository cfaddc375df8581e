"""Kernel feature selection as a method: its settings, and the choice of γ and λ by hold-out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from gpukfl.core._array import Array, array_namespace
from gpukfl.core._places import Place
from gpukfl.core._random import draw_indices
from gpukfl.core._results import Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._learner import SearchResult
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Fold, Search, Trial, Tuner, is_clearly_worse
from gpukfl.estimators.selection._control import (
    QUIET,
    SELECT_SHARE,
    SelectionFitted,
    SelectionSetting,
    check_knockoffs,
    control_errors,
    mark_interrupted,
    max_selection_rows,
)
from gpukfl.estimators.selection._data import SelectionProblem
from gpukfl.estimators.selection._settings import DEFAULT_RIDGE, Path, SelectionSettings
from gpukfl.methods import (
    DenseSelection,
    FactoredSelection,
    Selection,
    SelectionObjective,
    largest_sparsity,
)

RIDGES = (0.1, 0.01, 0.001, 0.0001)

_FEWEST_ROWS = 1_000  # that another selection is worth its time on
_ROWS = 1_250  # rows that settings are chosen on, at most: the exact form is quick there
_SHARE = 0.5  # of max_time after which the choice has ended
_MOST_ERROR = 0.25  # of the gradient, before a fit warns that centres are few
_LOWEST = 1e-3  # smallest γ of a path, relative to the largest
_STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)


@dataclass(frozen=True, eq=False)
class SelectionLearned:
    """What a fold gives: the variables, and predictions of its held-out rows by them."""

    selection: Selection
    predicted: Array


Trials = Sequence[Trial[SelectionSetting, SelectionLearned]]


@dataclass(eq=False)
class JudgedObjective:
    """J(β) of a fold at one λ, and what its f predicts of the rows held out."""

    ridge: float
    objective: DenseSelection
    predicted: dict[bytes, Array] = field(default_factory=dict)  # by the variables selected


def judged_objective(fold: Fold[SelectionProblem], ridge: float, /) -> JudgedObjective:
    """Return J of a fold at λ; the fold keeps the last one."""
    known, problem = fold.reached, fold.problem
    if known is None or known.ridge != ridge:
        given = problem.kernel, problem.X, problem.Y, ridge, problem.weights
        fold.reached = known = JudgedObjective(ridge, DenseSelection(*given))
    return known


@dataclass(frozen=True)
class ObjectiveFits:
    """Fits to few rows, on which many settings are tried and judged by the f of J(β)."""

    count: int  # settings with one λ

    def fit_fold(
        self,
        fold: Fold[SelectionProblem],
        setting: SelectionSetting,
        start: SelectionLearned | None,
        run: Run,
        /,
    ) -> SelectionLearned:
        """Select, and relearn the weights of what was selected."""
        judged, problem = judged_objective(fold, setting.ridge), fold.problem
        stage = f"λ = {setting.ridge:g}, {setting.number} of {self.count}"
        selection = problem.run(
            judged.objective,
            setting.sparsity,
            start=None if start is None else start.selection.beta,
            max_time=run.left(_SHARE),
            watch=lambda k, history: run.tell(stage, k, history),
        )
        if selection.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        key, objective = selection.support.tobytes(), judged.objective
        if key not in judged.predicted:  # a set of variables is judged once
            given, left = (objective, selection.support, selection.beta), run.left(_SHARE)
            beta = problem.refine_weights(*given, max_time=left)
            judged.predicted[key] = _predict_objective(objective, beta, fold.held_out.X)
        return SelectionLearned(selection, judged.predicted[key])

    def predict_fold(self, fold: Fold[SelectionProblem], learned: SelectionLearned, /) -> Array:  # noqa: ARG002
        """Return the predictions of the held-out rows."""
        return learned.predicted


@dataclass(frozen=True, eq=False)
class SelectionTuner(Tuner[SelectionSetting, SelectionLearned]):
    """Tries every λ, and for each the thresholds of permutations or a path over γ."""

    ridges: Sequence[float]
    sparsities: Callable[[float], Sequence[float | str]]  # at λ, descending

    def propose(self, trials: Trials, /) -> SelectionSetting | None:
        """Return the next γ of a λ; smaller λ that are worse than larger ones fit noise."""
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
    ) -> Sequence[SelectionLearned | None]:
        """Begin from the weights of the last γ, which was larger."""
        same = trials and trials[-1].setting.ridge == setting.ridge
        return trials[-1].learned if same else ()

    def choose(self, trials: Trials, /) -> Trial[SelectionSetting, SelectionLearned]:
        """Return fewest variables, of the trials within one standard error of the lowest loss.

        The lowest loss itself where there is more to try: the search has been stopped.
        """
        lowest = min(trials, key=_total_loss)
        if self.propose(trials) is not None:
            return lowest

        def close(trial: Trial[SelectionSetting, SelectionLearned]) -> bool:
            excess = trial.losses - lowest.losses
            return bool(excess.sum() <= len(excess) ** 0.5 * excess.std())

        good = [trial for trial in trials if trial.learned and close(trial)] or [lowest]
        fewest = min(mean_n_selected(trial) for trial in good)
        return min((trial for trial in good if mean_n_selected(trial) == fewest), key=_total_loss)

    def described(self, trial: Trial[SelectionSetting, SelectionLearned], /) -> dict[str, Any]:
        """Return λ, γ and how many variables these select."""
        setting = trial.setting
        return {
            "ridge": setting.ridge,
            "sparsity": setting.sparsity,
            "n_selected": mean_n_selected(trial),
        }


class KernelSelection(SelectionSettings):
    """Kernel feature selection with its settings."""

    splits: ClassVar[Splits] = Splits(at_most=_ROWS)

    def work(self, n: int, d: int, /) -> int:
        """Differences of variables."""
        return n * d

    def problem(self, samples: Samples, place: Place, run: Run, /) -> SelectionProblem:
        """Place samples, and measure τ.

        Raises
        ------
        ValueError
            If knockoffs can find nothing among so few variables, or rows lie in parts.
        """
        check_knockoffs(self, samples.X)
        return SelectionProblem(self, samples, place, run)

    def given(self, problem: SelectionProblem, /) -> SelectionSetting:  # noqa: ARG002
        """Return γ as it is, or of permutations, and λ or the paper's."""
        sparsity = self.sparsity if isinstance(self.sparsity, float) else "auto"
        return SelectionSetting(self.ridge or DEFAULT_RIDGE, sparsity)

    def fit_fold(
        self,
        fold: Fold[SelectionProblem],
        setting: SelectionSetting,
        start: SelectionLearned | None,  # noqa: ARG002
        run: Run,
        /,
    ) -> SelectionLearned:
        """Select, and fit kernel ridge regression on what was selected, as for all rows."""
        problem, left = fold.problem, run.left()
        objective = problem.objective(setting.ridge)
        selection = problem.run(objective, setting.sparsity, max_time=left)
        if selection.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        hasty = run.is_over(SELECT_SHARE)
        last = problem.fit_selected(selection, setting.ridge, run, hasty=hasty)
        return SelectionLearned(selection, problem.predict(last, fold.held_out.X))

    def predict_fold(self, fold: Fold[SelectionProblem], learned: SelectionLearned, /) -> Array:  # noqa: ARG002
        """Return the predictions of the held-out rows."""
        return learned.predicted

    def search(
        self,
        folds: Callable[[], Sequence[Fold[SelectionProblem]]],
        problem: SelectionProblem,
        run: Run,
        /,
    ) -> Search[SelectionSetting, SelectionLearned] | None:
        """Search where λ is to be chosen, or γ along a path."""
        path = self.sparsity if isinstance(self.sparsity, Path) else None
        if self.ridge is not None and path is None:
            return None
        count = 1 if path is None else path.number
        found, given = folds(), self.given(problem).sparsity

        @functools.cache
        def sparsities(ridge: float) -> Sequence[float | str]:
            if path is None:
                return [given]
            top = max(largest_sparsity(judged_objective(fold, ridge).objective) for fold in found)
            return [float(g) for g in top * np.geomspace(1.0, _LOWEST, count)]

        tuner = SelectionTuner(RIDGES if self.ridge is None else (self.ridge,), sparsities)
        enough = bool if path is None else _has_left_zero
        return Search(ObjectiveFits(count), found, tuner, run, _SHARE, enough=enough)

    def learn(
        self,
        problem: SelectionProblem,
        choice: SearchResult[SelectionSetting, SelectionLearned],
        run: Run,
        /,
    ) -> SelectionFitted:
        """Select on all samples and fit; hastily after an interruption, or where time is short."""
        ridge = choice.setting.ridge
        if choice.stopped:
            selection = self._fallback_selection(problem, choice, Status.INTERRUPTED)
        elif problem.constant:
            selection = Selection(np.zeros(problem.p), Status.CONVERGED)
        else:
            selection = self._selected(problem, choice, run)
        found = control_errors(problem, choice.setting, selection, run)
        try:
            hasty = found.selection.status is Status.INTERRUPTED or run.is_over(SELECT_SHARE)
            last = problem.fit_selected(found.selection, ridge, run, hasty=hasty)
            if last is None and not (problem.constant or hasty):
                found = replace(found, missed=problem.explained_by_all())
        except KeyboardInterrupt:  # the quickest fit, which another one ends
            found = replace(found, selection=mark_interrupted(found.selection))
            last = problem.fit_selected(found.selection, ridge, run, hasty=True)
        return replace(found, last=last, path=self._path(choice))

    def _selected(
        self,
        problem: SelectionProblem,
        choice: SearchResult[SelectionSetting, SelectionLearned],
        run: Run,
    ) -> Selection:
        """Select on all samples, or on as many as there is time for.

        What is stopped before it has found enough leaves what the search has selected.
        """
        ridge = choice.setting.ridge
        try:
            left, some = run.left(SELECT_SHARE), problem
            if choice.trials and run.is_over(SELECT_SHARE):
                return self._fallback_selection(problem, choice, Status.TIME_LIMIT)
            wanted = (
                problem.n
                if self._sees_all(problem)
                else min(problem.n, max_selection_rows(problem))
            )
            count = min(problem.affordable_rows(ridge, left), wanted)
            if count < min(problem.n, _FEWEST_ROWS):  # the search has seen as many
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
            _warn_of_centers(some, objective, found)
        if count < wanted and found.status in QUIET:
            return replace(found, status=Status.TIME_LIMIT)
        return found

    def _sees_all(self, problem: SelectionProblem) -> bool:
        """Whether variables are selected on all samples: their differences meet in one place."""
        return self.n_centers != "auto" and problem.rows.partitioning is None

    def _fallback_selection(
        self,
        problem: SelectionProblem,
        choice: SearchResult[SelectionSetting, SelectionLearned],
        status: Status,
        reached: Selection | None = None,
    ) -> Selection:
        """Return what was `reached` until it was stopped, or what the search has selected, or all.

        The first of these that no later one predicts clearly better than, in quick fits to a fold.
        """
        trial = min(choice.trials, key=_total_loss, default=None)
        searched = trial.learned[0].selection if trial is not None and trial.learned else None
        options = [one for one in (reached, searched) if one is not None and one.support.any()]
        options.append(Selection(problem.everything, status))
        if len(options) > 1 and choice.folds:
            fold: Fold[SelectionProblem] = choice.folds[0]
            losses = [fold.problem.glance(one.support, fold.held_out) for one in options]
            while any(is_clearly_worse(losses[0], other) for other in losses[1:]):
                options, losses = options[1:], losses[1:]
        return replace(options[0], status=status)

    def _path(
        self, choice: SearchResult[SelectionSetting, SelectionLearned], /
    ) -> dict[str, np.ndarray] | None:
        """Return what the path at the chosen λ selected on the first fold, if there was one."""
        ridge = choice.setting.ridge
        mine = [one for one in choice.trials if one.setting.ridge == ridge and one.learned]
        if not isinstance(self.sparsity, Path) or not mine:
            return None
        return {
            "sparsity": np.asarray([trial.setting.sparsity for trial in mine]),
            "beta": np.asarray([trial.learned[0].selection.beta for trial in mine]),
            "score": np.asarray([trial.score for trial in mine]),
        }


def _warn_of_centers(
    problem: SelectionProblem, objective: SelectionObjective, found: Selection
) -> None:
    """Warn where the kernel through centres is too coarse for the gradient of what was found."""
    error = problem.gradient_error(objective, found.beta)
    if error > _MOST_ERROR:
        assert isinstance(objective, FactoredSelection)
        warn(
            f"variables were selected through {objective.n_centers} centres, by which the gradient "
            f"is off by about {error:.0%} at the ridge {objective.ridge:.3g}: "
            f"n_centers={4 * objective.n_centers} or a larger ridge is more exact"
        )


def mean_n_selected(trial: Trial[SelectionSetting, SelectionLearned], /) -> float:
    """Count the variables, on average over the folds; 0 of a trial that failed."""
    counts = [learned.selection.support.sum() for learned in trial.learned]
    return float(np.mean(counts)) if counts else 0.0


def _total_loss(trial: Trial[SelectionSetting, SelectionLearned]) -> float:
    """Sum of the held-out losses; infinite of a trial that failed."""
    return float(trial.losses.sum()) if trial.learned else np.inf


def _has_left_zero(trials: Trials) -> bool:
    """Whether the path has left β = 0, before which it tells nothing."""
    return bool(trials) and mean_n_selected(trials[-1]) > 0


def _predict_objective(objective: DenseSelection, beta: np.ndarray, X: Array) -> Array:
    """Values at `X` (m, p) of the f of J(β)."""
    xp = array_namespace(X)
    u = objective.distances(objective.scaled(X, beta), objective.scaled(objective.X, beta))
    return xp.astype(objective.kernel.profile(u), xp.float64) @ objective.at(beta).alpha
