"""Choice of the penalty and the ridge of BKerNN by hold-out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpukfl._array import Array
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._search import Search, Trial
from gpukfl.estimators.bkernn._problem import FACTOR, Problem, Setting
from gpukfl.penalties import PENALTIES

FEWEST = 5  # rows with which anything is held out
SHARE = 0.5  # of max_time after which the search has ended
_REACH = 5  # neighbours to each side of the paper's ridge
ROWS = 10_000  # that settings are chosen on, at most
_FOLDS_BELOW = 2_000  # rows below which one hold-out set is too small to choose by
LOOSE = 3.0  # times `tol`, where trials end, and a fit of more rows that goes on from them
_JUDGES = 500  # held-out rows that are enough: no more folds than these take


@dataclass(frozen=True, eq=False)
class Learned:
    """What a fold gives: its particles, and predictions of its held-out rows."""

    W: Array
    predicted: Array


@dataclass(eq=False)
class Fold:
    """Rows to fit, and rows held out."""

    problem: Problem
    held_out: HeldOut
    watched: Samples | None  # by early stopping
    reached: Array | None = None  # particles of the last fit, however it ended

    def learn(self, setting: Setting, start: Learned | None, run: Run, /) -> Learned:
        """Fit, with draws that are the same for every setting."""
        problem = self.problem
        fit = problem.fit(
            setting,
            run.again(),
            run,
            start=None if start is None else start.W,
            held_out=self.watched,
            times_tol=LOOSE,
            share=SHARE,
            stage=f"tune {setting.penalty} x{FACTOR**setting.power:.3g}",
        )
        self.reached = fit.W
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return Learned(fit.W, problem.predict(fit, self.held_out.X))

    def predict(self, learned: Learned, /) -> Array:
        """Give the predictions, of which the kernel's sorted positions are not kept."""
        return learned.predicted


Trials = Sequence[Trial[Setting, Learned]]


@dataclass(frozen=True, eq=False)
class Tuner:
    """Goes, for every penalty, from the paper's ridge to where the score rises."""

    penalties: list[str]
    ridge: float | None  # a number that was given
    climbs: bool  # or the formula's alone
    n_folds: int

    def propose(self, trials: Trials, /) -> Setting | None:
        """Give the next ridge of a penalty."""
        for penalty in self.penalties:
            mine = [trial for trial in trials if trial.setting.penalty == penalty]
            power = next_power({trial.setting.power: trial.score for trial in mine})
            if power is not None and (power == 0 or self.climbs):
                return Setting(penalty, self.ridge, power)
        return None

    def starts(self, setting: Setting, trials: Trials, /) -> Sequence[Learned | None]:
        """Give the particles of the last fits, of the same penalty."""
        if trials and trials[-1].setting.penalty == setting.penalty and trials[-1].learned:
            return trials[-1].learned
        return [None] * self.n_folds


def next_power(scores: dict[int, float], /) -> int | None:
    """Say which ridge to try, by the scores at powers of the factor; None past the best."""
    for direction in (-1, 1):
        k = 0
        while abs(k) <= _REACH:
            if k not in scores:
                return k
            if k != 0 and scores[k] <= scores[k - direction]:
                break
            k += direction
        if max(scores, key=lambda power: scores[power]) < 0:
            break  # a smaller ridge is better, so larger ones are not
    return None


@dataclass
class BKerNNSearch:
    """Tries penalties and ridges; an interruption keeps the best so far."""

    make: Callable[[Samples], tuple[Problem, Samples | None]]  # and what early stopping watches
    samples: Samples
    settings: Any
    run: Run
    folds: list[Fold] = field(default_factory=list)
    trials: list[Trial[Setting, Learned]] = field(default_factory=list)

    def choose(self, first: Setting) -> None:
        """Go from the first setting."""
        splits = self.samples.splits(
            self.run.again(), at_most=ROWS, share=0.2, folds_below=_FOLDS_BELOW
        )
        enough = math.ceil(_JUDGES / len(splits[0][1]))
        for inside, outside in splits[:enough]:
            problem, watched = self.make(inside)
            self.folds.append(Fold(problem, HeldOut.of(problem, outside), watched))
        penalties = list(PENALTIES) if self.settings.penalty == "tune" else [first.penalty]
        tuner = Tuner(penalties, first.ridge, self.settings.ridge == "tune", len(self.folds))
        Search(self.folds, tuner, self.run, SHARE, self.trials).go()
        self._warn_at_edge()

    @property
    def best(self) -> Trial[Setting, Learned] | None:
        """The first trial with the best score."""
        return max(self.trials, key=lambda trial: trial.score, default=None)

    @property
    def start(self) -> Array | None:
        """Particles to go on from: of the best trial, or those that were reached before any."""
        if self.best is not None and self.best.learned:
            return self.best.learned[-1].W
        reached = [fold.reached for fold in self.folds if fold.reached is not None]
        return reached[-1] if reached else None

    def report(self) -> list[dict[str, Any]]:
        """Say what was tried."""
        return [
            {
                "penalty": trial.setting.penalty,
                "ridge": self.folds[-1].problem.ridge(trial.setting),
                "multiple": FACTOR**trial.setting.power,
                "score": trial.score,
                "chosen": trial is self.best,
            }
            for trial in self.trials
        ]

    def _warn_at_edge(self) -> None:
        assert self.best is not None
        power = self.best.setting.power
        if abs(power) == _REACH:
            msg = (
                f"the best ridge is at the edge of those tried, {FACTOR**power:.3g} times the "
                "paper's: give a ridge of your own to go further"
            )
            warn(msg, UserWarning)
