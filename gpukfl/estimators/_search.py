"""The search for a setting, the same for every method: folds, trials and scores."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from gpukfl.core._array import Array, to_host
from gpukfl.estimators._data import Data, HeldOut
from gpukfl.estimators._run import Run
from gpukfl.tables._clusters import deviation_of_sum, group_sums, join_groups

Problem = TypeVar("Problem", bound=Data)
Setting = TypeVar("Setting")  # a frozen value
Learned = TypeVar("Learned")  # the result of a fit, to predict with and to start another from
Setting_contra = TypeVar("Setting_contra", contravariant=True)


@dataclass(eq=False)
class Fold(Generic[Problem]):
    """Training rows, and held-out rows that score the fits."""

    problem: Problem
    held_out: HeldOut
    reached: Any = None  # a start for other fits, also after an interruption


class FoldMethod(Protocol[Problem, Setting_contra, Learned]):
    """Fits a setting to a fold, and predicts the rows held out."""

    def fit_fold(
        self, fold: Fold[Problem], setting: Setting_contra, start: Learned | None, run: Run, /
    ) -> Learned:
        """Fit, starting from another setting's result; raise KeyboardInterrupt if interrupted."""

    def predict_fold(self, fold: Fold[Problem], learned: Learned, /) -> Array:
        """Predict the held-out rows: (m, t)."""


@dataclass(eq=False)
class Trial(Generic[Setting, Learned]):
    """A setting with its results on every fold."""

    setting: Setting
    score: float = -math.inf  # explained share of the held-out variance of all folds
    learned: list[Learned] = field(default_factory=list)  # one for each fold
    # Weighted squared errors of the held-out rows (m,)
    losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    # Predictions for each fold's held-out rows (m_k, t), on the scale of the problem
    predicted: list[np.ndarray] = field(default_factory=list)
    standard_error: float = math.inf  # sampling error of the score
    seconds: float = 0.0
    groups: np.ndarray | None = None  # (m,), of the held-out rows, if known


class Tuner(ABC, Generic[Setting, Learned]):
    """A strategy that proposes settings and chooses one; the search fits and scores."""

    @abstractmethod
    def propose(self, trials: Sequence[Trial[Setting, Learned]], /) -> Setting | None:
        """Return the next setting to try, or None to stop."""

    def starts(
        self,
        setting: Setting,  # noqa: ARG002
        trials: Sequence[Trial[Setting, Learned]],  # noqa: ARG002
        /,
    ) -> Sequence[Learned | None]:
        """Return the start of each fold's fit; empty if all fits start from scratch."""
        return ()

    def choose(self, trials: Sequence[Trial[Setting, Learned]], /) -> Trial[Setting, Learned]:
        """Return the best of some trials: the first of the highest score."""
        return max(trials, key=lambda trial: trial.score)

    @abstractmethod
    def describe_trial(self, trial: Trial[Setting, Learned], /) -> dict[str, Any]:
        """Return a trial's setting by names, as plain values."""


@dataclass
class Search(Generic[Setting, Learned]):
    """A loop that tries a tuner's proposals until it stops or the time is spent.

    Trials stay after an interruption.
    """

    method: FoldMethod[Any, Setting, Learned]
    folds: Sequence[Fold[Any]]
    tuner: Tuner[Setting, Learned]
    run: Run
    share: float  # of max_time
    trials: list[Trial[Setting, Learned]] = field(default_factory=list)
    enough: Callable[[Sequence[Trial[Setting, Learned]]], bool] = bool  # whether time may end it
    is_cut_short: bool = False  # whether the time ended it
    racing: bool = False  # whether a setting is dropped once it is clearly worse than the best

    def go(self) -> None:
        """Try at least one setting, or as many as the tuner proposes."""
        while (setting := self.tuner.propose(self.trials)) is not None:
            if self.enough(self.trials) and self.run.is_over(self.share):
                self.is_cut_short = True
                return
            self.evaluate(setting)

    def evaluate(self, setting: Setting, /) -> Trial[Setting, Learned]:
        """Fit and score every fold; the score is the worst one if numbers overflow.

        With `racing`, no more folds are fitted once the best setting is clearly better on the same
        folds. The score is then the best score minus that difference.
        """
        begun = time.perf_counter()
        trial: Trial[Setting, Learned] = Trial(setting)
        starts = self.tuner.starts(setting, self.trials) or [None] * len(self.folds)
        losses: list[np.ndarray] = []
        try:
            for fold, start in zip(self.folds, starts, strict=True):
                learned = self.method.fit_fold(fold, setting, start, self.run)
                trial.learned.append(learned)
                predicted = to_host(self.method.predict_fold(fold, learned))
                trial.predicted.append(predicted)
                losses.append(fold.held_out.losses(predicted))
                trial.losses = np.concatenate(losses)
                known = self.folds[: len(losses)]
                trial.groups = join_groups([one.held_out.groups for one in known])
                if len(losses) < len(self.folds) and self._is_behind(trial):
                    break
            trial.score = self._score(trial, len(losses))
            spread = held_out_spread(self.folds[: len(losses)])
            trial.standard_error = standard_error(trial.losses, spread, trial.groups)
        except FloatingPointError:
            trial.learned.clear()
        trial.seconds = time.perf_counter() - begun
        self.trials.append(trial)
        return trial

    def _is_behind(self, trial: Trial[Setting, Learned]) -> bool:
        if not (self.racing and self.trials):
            return False
        best = self.tuner.choose(self.trials)  # perhaps not the highest score
        return bool(best.learned) and is_clearly_worse(
            trial.losses, best.losses[: len(trial.losses)], trial.groups
        )

    def _score(self, trial: Trial[Setting, Learned], n_folds: int) -> float:
        error, folds = float(trial.losses.sum()), self.folds[:n_folds]
        spread = held_out_spread(folds)
        if n_folds == len(self.folds):
            return explained_share(error, spread)
        trial.learned.clear()
        best = self.tuner.choose(self.trials)
        seen = float(best.losses[: len(trial.losses)].sum())
        return best.score + explained_share(error, spread) - explained_share(seen, spread)


def is_clearly_worse(
    losses: np.ndarray, best: np.ndarray, groups: np.ndarray | None = None, /
) -> bool:
    """Whether losses exceed the best losses of the same rows by more than one standard error.

    Rows are independent, or groups (m,) of rows.
    """
    more = losses - best if groups is None else group_sums(losses - best, groups)
    return not float(more.sum()) <= float(np.linalg.norm(more))  # its standard error


def held_out_spread(folds: Sequence[Fold[Any]], /) -> float:
    """Return the summed errors of predicting the mean of each fold's held-out rows."""
    return sum(fold.held_out.spread for fold in folds)


def explained_share(error: float, spread: float, /) -> float:
    """Return R²: the explained share of the spread, the error of a constant prediction."""
    score = 1.0 - error / spread if spread > 0 else -error
    return score if math.isfinite(score) else -math.inf


def standard_error(losses: np.ndarray, spread: float, groups: np.ndarray | None = None, /) -> float:
    """Return the standard error of R²: that of the mean loss, of independent rows or groups."""
    deviation = deviation_of_sum(losses, groups)
    return deviation / spread if spread > 0 else deviation


def hill_climb(
    trials: Sequence[Trial[Setting, Learned]],
    gain: Callable[[float], float],
    /,
    *,
    first: int = 1,
) -> Trial[Setting, Learned]:
    """Climb from the best of the first trials to better neighbours; return the last.

    `gain` returns the least improvement of a score.
    """
    best = max(trials[:first], key=lambda trial: trial.score)
    for trial in trials[first:]:
        if trial.score > best.score + gain(best.score):
            best = trial
    return best


def first_untried_setting(
    settings: Iterable[Setting], trials: Sequence[Trial[Setting, Learned]], /
) -> Setting | None:
    """Return the first setting that was not tried."""
    tried = [trial.setting for trial in trials]
    return next((setting for setting in settings if setting not in tried), None)
