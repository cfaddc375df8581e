"""BKerNN as a method: its settings, and the choice of penalty and ridge by held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gpukfl._array import Array
from gpukfl._places import Place
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._learner import Choice
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Search, Trial
from gpukfl.estimators.bkernn._problem import FACTOR, Problem, Setting, Settings
from gpukfl.methods import BKerNNFit
from gpukfl.penalties import (
    PENALTIES,
    ConcaveFeature,
    ConcaveVariable,
    Feature,
    Penalty,
    Variable,
)

SHARE = 0.5  # of max_time after which the search has ended
_FIT_SHARE = 0.9  # after which the steps have ended
_CONVEX: dict[type, type[Penalty]] = {ConcaveFeature: Feature, ConcaveVariable: Variable}
_REACH = 5  # neighbours to each side of the paper's ridge
_ROWS = 10_000  # that settings are chosen on, at most
_FOLDS_BELOW = 2_000  # rows below which one hold-out set is too small to choose by
_LOOSE = 3.0  # times `tol`, where trials end, and a fit of more rows that goes on from them
_LOOSE_FROM = 200  # rows of a fold: fewer cost no time, and each one's score says much
_JUDGES = 600  # held-out rows that are enough: no more folds than these take


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
    reached: Array | None = None  # particles of the last fit, however it ended

    def learn(self, setting: Setting, start: Learned | None, run: Run, /) -> Learned:
        """Fit, with draws that are the same for every setting."""
        problem = self.problem
        fit = problem.fit(
            setting,
            run.again(),
            run,
            start=None if start is None else start.W,
            times_tol=_LOOSE if problem.rows.shape[0] >= _LOOSE_FROM else 1.0,
            share=SHARE,
            stage=f"tune {name_of(setting.penalty)} x{FACTOR**setting.power:.3g}",
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

    penalties: Sequence[Penalty]
    ridge: float | None  # a number that was given
    climbs: bool  # or the formula's alone
    folds: Sequence[Fold]

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
        return [None] * len(self.folds)

    def choose(self, trials: Trials, /) -> Trial[Setting, Learned]:
        """Give the first of the best score."""
        return max(trials, key=lambda trial: trial.score)

    def described(self, trial: Trial[Setting, Learned], /) -> dict[str, Any]:
        """Name penalty and ridge, that also as a multiple of the formula's."""
        setting = trial.setting
        return {
            "penalty": name_of(setting.penalty),
            "ridge": self.folds[-1].problem.ridge(setting),
            "multiple": FACTOR**setting.power,
        }


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


class BKerNN(Settings):
    """BKerNN with its settings."""

    splits: ClassVar[Splits] = Splits(_ROWS, _FOLDS_BELOW, fewest=5, judges=_JUDGES)

    def work(self, n: int, d: int, /) -> int:
        """Projections."""
        return n * (self.n_particles or 2 * d)

    def problem(self, samples: Samples, place: Place, run: Run, /) -> Problem:
        """Place samples, and hold out what early stopping watches."""
        return Problem(self, samples, place, run)

    def given(self, problem: Problem, /) -> Setting:
        """Give the only penalty or the usual one, at the ridge that is given or the formula's."""
        penalty = self.penalties[0] if len(self.penalties) == 1 else ConcaveFeature()
        return Setting(_bounding([penalty], problem)[0], self.ridge)

    def fold(self, problem: Problem, held_out: HeldOut, /) -> Fold:
        """Join rows to fit and rows that judge."""
        return Fold(problem, held_out)

    def search(
        self,
        folds: Callable[[], Sequence[Fold]],
        problem: Problem,
        run: Run,
        /,
    ) -> Search[Setting, Learned] | None:
        """Search where there are several penalties, or a ridge to choose."""
        if not self.climbs and len(self.penalties) == 1:
            return None
        found, penalties = folds(), _bounding(self.penalties, problem)
        return Search(found, Tuner(penalties, self.ridge, self.climbs, found), run, SHARE)

    def learn(self, problem: Problem, choice: Choice[Setting, Learned], run: Run, /) -> BKerNNFit:
        """Fit all rows; without a step after an interruption."""
        _warn_at_edge(choice.setting.power)
        goes_on = choice.trial is not None and problem.rows.shape[0] > _ROWS
        fit = problem.fit(
            choice.setting,
            run.rng,
            run,
            start=self._start(choice),
            share=_FIT_SHARE,
            max_iter=0 if choice.stopped else None,
            times_tol=_LOOSE if goes_on else 1.0,
        )
        return replace(fit, status=Status.INTERRUPTED) if choice.stopped else fit

    def _start(self, choice: Choice[Setting, Learned]) -> Array | None:
        """Particles to go on from: those of the best trial, or that were reached before any."""
        if choice.trial is not None and choice.trial.learned:
            return choice.trial.learned[-1].W
        reached = [fold.reached for fold in choice.folds if isinstance(fold, Fold)]
        reached = [W for W in reached if W is not None]
        return reached[-1] if reached else self.start


def _bounding(penalties: Sequence[Penalty], problem: Problem) -> list[Penalty]:
    """Give penalties, convex where samples are on a line, each once.

    There the others grow as the logarithm of the only direction's length, with which the objective
    falls without end: what is fitted would be the noise.
    """
    if not (any(type(one) in _CONVEX for one in penalties) and problem.is_on_a_line):
        return list(penalties)
    convex = (_CONVEX[type(one)]() if type(one) in _CONVEX else one for one in penalties)
    return list(dict.fromkeys(convex))


def name_of(penalty: Penalty, /) -> str:
    """Name by which estimators take a penalty."""
    names = (name for name, kind in PENALTIES.items() if kind is type(penalty))
    return next(names, type(penalty).__name__)  # a penalty of the user's own has no other name


def _warn_at_edge(power: int) -> None:
    if abs(power) == _REACH:
        msg = (
            f"the best ridge is at the edge of those tried, {FACTOR**power:.3g} times the "
            "paper's: give a ridge of your own to go further"
        )
        warn(msg)
