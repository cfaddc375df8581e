"""Choice of γ and λ of kernel feature selection by hold-out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace
from gpukfl._results import Status
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._search import Search, Trial
from gpukfl.estimators.selection._problem import SelectionProblem
from gpukfl.methods import DenseSelection, Selection, largest_sparsity

FEWEST = 20  # rows with which anything is held out
RIDGES = (0.1, 0.01, 0.001, 0.0001)
DEFAULT_RIDGE = 0.01  # the paper's

FEWEST_ROWS = 1_000  # that another selection is worth its time on
_ROWS = 1_250  # rows that settings are chosen on, at most: the exact form is quick there
_SHARE = 0.5  # of max_time after which the choice has ended
_LOWEST = 1e-3  # smallest γ of a path, relative to the largest


@dataclass(frozen=True)
class Setting:
    """A pair of λ and γ; γ is "auto" where permutations give it."""

    ridge: float
    sparsity: float | str
    number: int = 1  # on the path of this λ


@dataclass(frozen=True, eq=False)
class Learned:
    """What a fold gives: the variables, and predictions of its held-out rows by them."""

    selection: Selection
    predicted: Array


Trials = Sequence[Trial[Setting, Learned]]


@dataclass(eq=False)
class Fold:
    """Rows to select on, and rows held out."""

    problem: SelectionProblem
    held_out: HeldOut
    count: int  # settings with one λ
    _known: dict[bytes, Array] = field(default_factory=dict)  # by variables, at the λ of `_at`
    _at: tuple[float, DenseSelection] | None = None

    def objective(self, ridge: float, /) -> DenseSelection:
        """J at λ, of which the last is kept."""
        problem = self.problem
        if self._at is None or self._at[0] != ridge:
            given = problem.kernel, problem.X, problem.Y, ridge, problem.weights
            self._at = ridge, DenseSelection(*given)
            self._known.clear()
        return self._at[1]

    def learn(self, setting: Setting, start: Learned | None, run: Run, /) -> Learned:
        """Select, and relearn the weights of what was selected."""
        objective = self.objective(setting.ridge)
        stage = f"λ = {setting.ridge:g}, {setting.number} of {self.count}"
        selection = self.problem.run(
            objective,
            setting.sparsity,
            start=None if start is None else start.selection.beta,
            max_time=run.left(_SHARE),
            watch=lambda k, history: run.tell(stage, k, history),
        )
        if selection.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        key = selection.support.tobytes()
        if key not in self._known:  # a set of variables is judged once
            beta = self.problem.refined(objective, selection.support, selection.beta)
            self._known[key] = _predicted(objective, beta, self.held_out.X)
        return Learned(selection, self._known[key])

    def predict(self, learned: Learned, /) -> Array:
        """Predict the held-out rows, by the f of J(β)."""
        return learned.predicted


@dataclass(frozen=True, eq=False)
class Tuner:
    """Tries every λ, and for each the thresholds of permutations or a path over γ."""

    ridges: Sequence[float]
    sparsities: Callable[[float], Sequence[float | str]]  # at λ, descending
    n_folds: int

    def propose(self, trials: Trials, /) -> Setting | None:
        """Give the next γ of a λ; smaller λ that are worse than larger ones fit noise."""
        lowest = np.inf
        for ridge in self.ridges:
            mine = [trial for trial in trials if trial.setting.ridge == ridge]
            sparsities = self.sparsities(ridge)
            if len(mine) < len(sparsities):
                return Setting(ridge, sparsities[len(mine)], len(mine) + 1)
            error = min(trial.losses.sum() for trial in mine)
            if error > lowest:
                return None
            lowest = min(lowest, error)
        return None

    def starts(self, setting: Setting, trials: Trials, /) -> Sequence[Learned | None]:
        """Begin from the weights of the last γ, which was larger."""
        if trials and trials[-1].setting.ridge == setting.ridge:
            return trials[-1].learned
        return [None] * self.n_folds


@dataclass
class SelectionSearch:
    """Choice of λ and γ; an interruption keeps what was tried."""

    make: Callable[[Samples], SelectionProblem]  # problem of some samples
    samples: Samples
    settings: Any
    run: Run
    trials: list[Trial[Setting, Learned]] = field(default_factory=list)

    def choose(self) -> None:
        """Try settings; with the time over, the choice is among what was tried."""
        share, tuned = self.settings.validation_fraction, self.settings.sparsity == "tune"
        splits = self.samples.splits(self.run.rng, at_most=_ROWS, share=share)
        count = self.settings.n_sparsities if tuned else 1
        problems = [(self.make(inside), outside) for inside, outside in splits]
        folds = [Fold(problem, HeldOut.of(problem, other), count) for problem, other in problems]

        @functools.cache
        def sparsities(ridge: float) -> Sequence[float | str]:
            if not tuned:
                return [self.settings.sparsity]
            top = max(largest_sparsity(fold.objective(ridge)) for fold in folds)
            return [float(g) for g in top * np.geomspace(1.0, _LOWEST, count)]

        ridges = RIDGES if self.settings.ridge == "auto" else (float(self.settings.ridge),)
        tuner = Tuner(ridges, sparsities, len(folds))
        enough = _has_left_zero if tuned else bool
        Search(folds, tuner, self.run, _SHARE, self.trials, enough).go()

    @property
    def best(self) -> Trial[Setting, Learned]:
        """Fewest variables, of the trials within one standard error of the lowest loss."""
        lowest = min(self.trials, key=lambda trial: trial.losses.sum())

        def close(trial: Trial[Setting, Learned]) -> bool:
            excess = trial.losses - lowest.losses
            return excess.sum() <= len(excess) ** 0.5 * excess.std()

        good = [trial for trial in self.trials if close(trial)]
        fewest = min(n_selected(trial) for trial in good)
        sparse = [trial for trial in good if n_selected(trial) == fewest]
        return min(sparse, key=lambda trial: trial.losses.sum())

    @property
    def highest(self) -> Trial[Setting, Learned] | None:
        """The trial with the best score, if there is one."""
        return max(self.trials, key=lambda trial: trial.score, default=None)

    def selection(self, problem: SelectionProblem, status: Status, /) -> Selection:
        """Give what the best trial selected first, for want of anything better; else all at τ."""
        highest = self.highest
        if highest is None or not highest.learned[0].selection.support.any():
            return Selection(np.full(problem.p, problem.anchor), status)
        return replace(highest.learned[0].selection, status=status)

    def report(self, chosen: Trial[Setting, Learned] | None, /) -> list[dict[str, Any]]:
        """Say what was tried."""
        return [
            {
                "ridge": trial.setting.ridge,
                "sparsity": trial.setting.sparsity,
                "n_selected": n_selected(trial),
                "score": trial.score,
                "chosen": trial is chosen,
            }
            for trial in self.trials
        ]

    def path(self, ridge: float, /) -> dict[str, np.ndarray] | None:
        """Give what the path at the chosen λ selected on the first fold, if there was one."""
        mine = [trial for trial in self.trials if trial.setting.ridge == ridge]
        if self.settings.sparsity != "tune" or not mine:
            return None
        return {
            "sparsity": np.asarray([trial.setting.sparsity for trial in mine]),
            "beta": np.asarray([trial.learned[0].selection.beta for trial in mine]),
            "score": np.asarray([trial.score for trial in mine]),
        }


def n_selected(trial: Trial[Setting, Learned], /) -> float:
    """Count the variables, on average over the folds."""
    return float(np.mean([learned.selection.support.sum() for learned in trial.learned]))


def _has_left_zero(trials: Trials) -> bool:
    """Whether the path has left β = 0, before which it tells nothing."""
    return bool(trials) and n_selected(trials[-1]) > 0


def _predicted(objective: DenseSelection, beta: np.ndarray, X: Array) -> Array:
    """Values at `X` (m, p) of the f of J(β)."""
    xp = array_namespace(X)
    u = objective.distances(objective.scaled(X, beta), objective.scaled(objective.X, beta))
    return xp.astype(objective.kernel.profile(u), xp.float64) @ objective.at(beta).alpha
