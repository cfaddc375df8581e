"""Choice of γ and λ of kernel feature selection by hold-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace, to_host
from gpukfl._results import History, Status
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._selection_problem import SelectionProblem
from gpukfl.methods import DenseSelection, Selection, largest_sparsity

FEWEST = 20  # rows with which anything is held out
RIDGES = (0.1, 0.01, 0.001, 0.0001)
DEFAULT_RIDGE = 0.01  # the paper's

_ROWS = 1_250  # rows that settings are chosen on, at most: the exact form is quick there
_SHARE = 0.5  # of max_time after which the choice has ended
_LOWEST = 1e-3  # smallest γ of a path, relative to the largest


@dataclass(frozen=True)
class Setting:
    """A pair of λ and γ; γ is "auto" where permutations give it."""

    ridge: float
    sparsity: float | str


@dataclass
class Trial:
    """What a setting selected on the rows that were not held out, and how well that predicts."""

    setting: Setting
    selected: float  # variables, mean over the folds
    found: Selection  # of the first fold
    loss: np.ndarray  # squared errors of the held-out rows of all folds, their shares included
    score: float  # R²
    chosen: bool = False


@dataclass
class Search:
    """Tries every λ, and for each the thresholds of permutations or a path over γ.

    The setting with the fewest variables is taken whose held-out loss is within one standard
    error of the lowest.
    """

    make: Callable[[Samples], SelectionProblem]  # problem of some samples
    samples: Samples
    settings: Any
    run: Run
    trials: list[Trial] = field(default_factory=list)

    def choose(self) -> Setting:
        """Choose; with the time over, among what was tried."""
        share = self.settings.validation_fraction
        splits = self.samples.splits(self.run.rng, at_most=_ROWS, share=share)
        folds = [self._fold(inside, outside) for inside, outside in splits]
        ridges = RIDGES if self.settings.ridge == "auto" else (float(self.settings.ridge),)
        for ridge in ridges:
            if self.trials and self._late():
                break
            lowest = min((trial.loss.sum() for trial in self.trials), default=np.inf)
            self._try(folds, ridge)
            if min(t.loss.sum() for t in self.trials if t.setting.ridge == ridge) > lowest:
                break  # smaller ones fit noise
        chosen = self._best()
        chosen.chosen = True
        return chosen.setting

    def _late(self) -> bool:
        return self.run.is_over(_SHARE)

    def _fold(self, inside: Samples, outside: Samples) -> tuple[SelectionProblem, _HeldOut]:
        problem = self.make(inside)
        X, Y = problem.scaled(outside)
        weights = np.ones(len(outside)) if outside.weights is None else outside.weights
        return problem, _HeldOut(X, to_host(Y), weights / weights.sum())

    def _try(self, folds: list[tuple[SelectionProblem, _HeldOut]], ridge: float) -> None:
        """Select with λ = `ridge` for every γ, on every fold."""
        objectives = [
            DenseSelection(fold.kernel, fold.X, fold.Y, ridge, fold.weights) for fold, _ in folds
        ]
        sparsities: list[float | str] = [self.settings.sparsity]
        if self.settings.sparsity == "tune":
            count = self.settings.n_sparsities
            top = max(largest_sparsity(objective) for objective in objectives)
            sparsities = [float(g) for g in top * np.geomspace(1.0, _LOWEST, count)]
        starts: list[np.ndarray | None] = [None] * len(folds)
        known: list[dict[bytes, np.ndarray]] = [{} for _ in folds]
        for k, sparsity in enumerate(sparsities):
            if k and self.trials[-1].selected and self._late():
                break  # not before the path leaves β = 0
            watch = self._watch(f"λ = {ridge:g}, {k + 1} of {len(sparsities)}")
            losses, selections = [], []
            for j, (problem, held_out) in enumerate(folds):
                selection = problem.run(objectives[j], sparsity, start=starts[j], watch=watch)
                if selection.status is Status.INTERRUPTED:
                    raise KeyboardInterrupt
                starts[j] = selection.beta  # the next γ is smaller
                key = selection.support.tobytes()
                if key not in known[j]:  # a set of variables is judged once
                    beta = problem.refined(objectives[j], selection)
                    known[j][key] = held_out.losses(objectives[j], beta)
                losses.append(known[j][key] / len(folds))
                selections.append(selection)
            loss = np.concatenate(losses)
            spread = sum(held_out.spread for _, held_out in folds) / len(folds)
            self.trials.append(
                Trial(
                    Setting(ridge, sparsity),
                    float(np.mean([found.support.sum() for found in selections])),
                    selections[0],
                    loss,
                    1.0 - float(loss.sum()) / spread if spread > 0 else 0.0,
                )
            )

    def _watch(self, stage: str) -> Callable[[int, History], None]:
        return lambda k, history: self.run.tell(stage, k, history)

    def _best(self) -> Trial:
        lowest = min(self.trials, key=lambda trial: trial.loss.sum())

        def close(trial: Trial) -> bool:
            excess = trial.loss - lowest.loss
            return excess.sum() <= len(excess) ** 0.5 * excess.std()

        good = [trial for trial in self.trials if close(trial)]
        fewest = min(trial.selected for trial in good)
        sparse = [trial for trial in good if trial.selected == fewest]
        return min(sparse, key=lambda trial: trial.loss.sum())


@dataclass(frozen=True, eq=False)
class _HeldOut:
    """Rows that were not selected on."""

    X: Array  # (m, p)
    Y: np.ndarray  # (m, t)
    shares: np.ndarray  # (m,), summing to 1

    @property
    def spread(self) -> float:
        """Loss of the mean."""
        middle = self.shares @ self.Y
        return float(self.shares @ np.sum((self.Y - middle) ** 2, axis=1))

    def losses(self, objective: DenseSelection, beta: np.ndarray, /) -> np.ndarray:
        """Losses of the rows under the f of J(β)."""
        xp = array_namespace(self.X)
        u = objective.distances(objective.scaled(self.X, beta), objective.scaled(objective.X, beta))
        values = xp.astype(objective.kernel.profile(u), xp.float64) @ objective.at(beta).alpha
        return self.shares * np.sum((self.Y - to_host(values)) ** 2, axis=1)
