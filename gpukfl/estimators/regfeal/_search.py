"""RegFeaL as a method: its settings, what is chosen by held-out rows, and the last fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpukfl._places import Place
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._learner import Choice
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Search, Trial, climbed, is_behind, untried
from gpukfl.estimators.regfeal._fold import SHARE, Fold, Learned
from gpukfl.estimators.regfeal._problem import Problem, Setting, Settings
from gpukfl.estimators.regfeal._retraining import (
    LEAST,
    Coordinates,
    Retrained,
    leading_columns,
    retrained,
)
from gpukfl.inspection import effective_rank
from gpukfl.methods import (
    DegreeLaw,
    RegFeaL,
    RegFeaLFit,
    derivative_weights,
    eta_shares,
)

MEAN_DEGREES = (0.5, 1.0, 2.0, 4.0, 8.0)  # of the tuples that the decays of the grid give
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
START = (4.0, 0.1)  # mean degree and strength
SCOUTS = (START, (8.0, 0.01), (2.0, 0.01), (1.0, 1.0))  # from the best of which the search climbs
SQUARES, SQUARES_STRENGTH = DegreeLaw(largest=2), 0.01  # another scout, of many variables

_COVERED = 4  # random features for each tuple of degree up to 2 below which these are many
_ROWS = 5_000  # that settings are chosen on
_GAIN = 1e-3  # share of the variance that is worth another step
_FINALISTS = 3  # points whose directions are retrained on
_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16)  # of leading directions to retrain on
_POWERS = (0.25, 0.5)  # of the squared derivatives, as weights of all directions
_WORTH = 0.01  # share of the error that is worth more directions
_MUCH = 1.5  # times the error of the best point so far, with which another one is left
_FIT_WORKS = 3  # iterations for which there should be time
_FIT_SHARE = 0.8  # of max_time after which the fit has ended
_QUICK_FEATURES, _QUICK_ITERATIONS = 300, 2  # after an interruption, with nothing to go on

OneTrial = Trial[Setting, Learned]
Trials = Sequence[OneTrial]


@dataclass(frozen=True, eq=False)
class Tuner:
    """Goes from neighbour to neighbour on the grid of laws and μ, from the best of some scouts.

    Then the directions of the best points are retrained on, in several ways.
    """

    scouts: list[Setting]
    laws: list[DegreeLaw] | None  # to choose among
    strengths: Sequence[float] | None
    retrain: Any
    n_folds: int

    def propose(self, trials: Trials, /) -> Setting | None:
        """Give the next scout, the next neighbour of the best point, or the next way."""
        points = _points(trials)
        _let_go(points)
        scout = untried(self.scouts, points)
        if scout is not None:
            return scout
        best = climbed(points, lambda _: _GAIN, first=len(self.scouts))
        near = untried(_neighbours(best.setting, self.laws, self.strengths), points)
        if near is not None or self.retrain is None:
            return near
        finalists = in_order(points)[:_FINALISTS]
        return untried((one for point in finalists for one in self._ways(point)), trials)

    def starts(self, setting: Setting, trials: Trials, /) -> Sequence[Learned | None]:
        """Give the fits to retrain, or the first regressions of the best point of the same law."""
        points = _points(trials)
        if setting.way is not None:
            base = replace(setting, way=None)
            return next(trial.learned for trial in points if trial.setting == base)
        if points:
            leader = in_order(points)[0]
            if leader.setting.law == setting.law and leader.learned:
                return leader.learned
        return [None] * self.n_folds

    def choose(self, trials: Trials, /) -> OneTrial:
        """Give the best, by what predicts in the end; of its ways the fewest directions.

        Of those that were not left on the way, and with which the error is about as small.
        """
        points = _points(trials)
        looked: list[tuple[float, OneTrial]] = []
        for point in points:
            ways = [t for t in trials if _is_way_of(t, point) and len(t.predicted) == self.n_folds]
            if ways:
                mine = [*ways, point] if self.retrain == "kernel_ridge" else ways
                best = max(mine, key=lambda trial: trial.score)
                enough = best.score - _WORTH * (1.0 - best.score)
                few = [t for t in ways if _number(t) and t.score >= enough]
                looked.append((best.score, min(few, key=_number, default=best)))
        if not looked:
            return max(points, key=lambda trial: trial.score)
        return max(looked, key=lambda pair: pair[0])[1]

    def described(self, trial: OneTrial, /) -> dict[str, Any]:
        """Name law, μ, and what predicts."""
        law, strength, way = trial.setting.law, trial.setting.strength, trial.setting.way
        return {
            "degree_decay": law.decay,
            "max_degree": law.largest,
            "strength": strength,
            "prediction": "Hermite features" if way is None else way.described,
        }

    def _ways(self, point: OneTrial) -> list[Setting]:
        """Ways to retrain on a point's directions."""
        if not point.learned:
            return []
        etas = [learned.directions[1] for learned in point.learned]
        ways = _leading(etas, point.learned[0].method.exponent)
        if self.retrain == "kernel_ridge":  # other regressors may not see weights
            # First, for they are seldom far from the best, so that what is worse is left early
            ways = [*(Coordinates(power=power) for power in _POWERS), *ways]
        return [replace(point.setting, way=way) for way in ways]


class RegFeaLSearch(Search[Setting, Learned]):
    """A search that leaves ways to retrain once another one is clearly better.

    And points once they are much worse than another; directions that are a little worse for
    Hermite features may be the best to retrain on.
    """

    def _is_behind(self, trial: OneTrial) -> bool:
        is_point = trial.setting.way is None
        whole = [one for one in self.trials if len(one.predicted) == len(self.folds)]
        rivals = [one for one in whole if (one.setting.way is None) == is_point]
        if not rivals:
            return False
        best = max(rivals, key=lambda one: one.score).losses[: len(trial.losses)]
        return is_behind(trial.losses, (_MUCH if is_point else 1.0 + _WORTH) * best)


def in_order(trials: Trials, /) -> list[OneTrial]:
    """Points that were tried, best first."""
    return sorted(trials, key=lambda trial: -trial.score)


def _points(trials: Trials) -> list[OneTrial]:
    return [trial for trial in trials if trial.setting.way is None]


def _is_way_of(trial: OneTrial, point: OneTrial) -> bool:
    return trial is not point and replace(trial.setting, way=None) == point.setting


def _number(trial: OneTrial) -> int:
    """Count the leading directions; 0 where all have weights."""
    return (trial.setting.way and trial.setting.way.number) or 0


def _let_go(points: Trials) -> None:
    """Forget what is large of points that fell behind."""
    for trial in in_order(points)[1:]:
        for learned in trial.learned:
            learned.first = None
    for trial in in_order(points)[_FINALISTS:]:
        trial.learned.clear()


def _leading(etas: list[np.ndarray], exponent: float) -> list[Coordinates]:
    """Numbers of directions to look at: up to twice as many as have a share of 1/d.

    Not those along which the function is all but constant, of which rounding chooses the basis.
    """
    most = 1
    for eta in etas:
        shares = eta_shares(eta, exponent)
        important, half = (int(np.sum(shares >= c / len(eta))) for c in (1.0, 0.5))
        seen = int(np.sum(derivative_weights(eta, exponent, 0.5) >= LEAST))
        most = max(most, min(max(2 * important, half), seen))
    return [Coordinates(k) for k in _NUMBERS if k <= most]


def _neighbours(at: Setting, laws: Any, strengths: Any) -> list[Setting]:
    """Points one step away on the grid."""
    points = []
    if strengths:
        k = strengths.index(at.strength)
        near = [strengths[j] for j in (k - 1, k + 1) if 0 <= j < len(strengths)]
        points += [Setting(at.law, strength) for strength in near]
    if laws:
        k = laws.index(at.law)
        near = [laws[j] for j in (k - 1, k + 1) if 0 <= j < len(laws)]
        points += [Setting(law, at.strength) for law in near]
    return points


def law_of(mean_degree: float, d: int, /) -> DegreeLaw:
    """Give the law of the ρ with which the kernel's terms have this degree, on average.

    There are as many of degree k as terms of (1 - ρ)^-d, so that k is negative binomial.
    """
    return DegreeLaw(mean_degree / (mean_degree + d))


@dataclass(frozen=True, eq=False)
class Fitted:
    """The last fit, and what was retrained on its directions."""

    method: RegFeaL
    fit: RegFeaLFit
    directions: tuple[np.ndarray, np.ndarray]  # R and η that the last regression asks for
    retrained: Retrained | None
    status: Status


class RegFeaLMethod(Settings):
    """RegFeaL with its settings."""

    splits: ClassVar[Splits] = Splits(at_most=_ROWS)

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Random features of all rows."""
        return n * self.n_random_features

    def problem(self, samples: Samples, place: Place, run: Run, /) -> Problem:  # noqa: ARG002
        """Place and scale samples."""
        return Problem(self, samples, place)

    def given(self, problem: Problem, /) -> Setting:
        """Give what is given, and the middle of the grid."""
        problem.check_scale()
        law = self.law or law_of(START[0], problem.rows.shape[1])
        return Setting(law, self.strength or START[1])

    def fold(self, problem: Problem, held_out: HeldOut, /) -> Fold:
        """Join rows to fit and rows that judge."""
        return Fold(problem, held_out)

    def search(
        self, folds: Callable[[], Sequence[Fold]], problem: Problem, run: Run, /
    ) -> Search[Setting, Learned] | None:
        """Search where law or μ is chosen, or something is retrained and there is time for it."""
        start = self.given(problem)
        if not self.is_open and (self.retrain is None or run.is_over(SHARE)):
            return None
        d = problem.rows.shape[1]
        laws = None if self.law else [law_of(degree, d) for degree in MEAN_DEGREES]
        strengths, scouts = None if self.strength else STRENGTHS, [start]
        if laws and strengths:
            scouts = [Setting(law_of(degree, d), strength) for degree, strength in SCOUTS]
        # Random tuples hardly cover those of degree 2, which ρ^2 makes rare besides
        if laws and self.n_random_features < _COVERED * math.comb(d + 2, 2):
            laws.insert(0, SQUARES)
            scouts.append(Setting(SQUARES, SQUARES_STRENGTH if strengths else start.strength))
        found = folds()
        tuner = Tuner(scouts, laws, strengths, self.retrain, len(found))
        return RegFeaLSearch(found, tuner, run, SHARE)

    def learn(self, problem: Problem, choice: Choice[Setting, Learned], run: Run, /) -> Fitted:
        """Fit all rows, and retrain; with few features, once interrupted before any trial."""
        problem.warn_of_scale()
        problem.warn_of_many_terms()
        method, stopped = self.at(choice.setting), choice.stopped
        if stopped and choice.trial is None:  # next to nothing is known
            method = quick(method)
        try:
            method, fit = run_in_time(method, problem, run)
        except KeyboardInterrupt:  # before the first iteration was done
            stopped = True
            method, fit = run_in_time(quick(method), problem, run)
        stopped = stopped or fit.status is Status.INTERRUPTED
        R, eta = method.directions(fit)
        again = None
        if self.retrain is not None and not (problem.constant or stopped):
            way = self._way(choice, R, eta)
            try:
                if way is not None:
                    at = way.of(R, eta, method.exponent)
                    again = retrained(self.retrain, problem, problem.given_weights, at, run)
            except KeyboardInterrupt:  # the Hermite features predict
                stopped = True
        status = Status.INTERRUPTED if stopped else fit.status
        return Fitted(method, fit, (R, eta), again, status)

    def _way(
        self, choice: Choice[Setting, Learned], R: np.ndarray, eta: np.ndarray
    ) -> Coordinates | None:
        """Give what to retrain on; the important directions, where none were looked at."""
        way, trial = choice.setting.way, choice.trial
        looked = choice.settled or (
            trial is not None and any(_is_way_of(one, trial) for one in choice.trials)
        )
        if way is not None or (looked and self.retrain == "kernel_ridge"):
            return way
        roots = derivative_weights(eta, self.reweighting.exponent, 0.5)
        return Coordinates(effective_rank(leading_columns(R * roots[None, :])))


def run_in_time(method: RegFeaL, problem: Problem, run: Run, /) -> tuple[RegFeaL, RegFeaLFit]:
    """Fit with as many random features as there is time for; give the method with these."""
    method = affordable(method, problem, run)
    method = replace(method, max_time=run.left(_FIT_SHARE))
    fit = method.run(
        problem.kept_rows,
        problem.Y,
        problem.weights,
        run.rng,
        watch=lambda k, fit: run.tell("fit", k, fit.history),
    )
    return method, fit


def quick(method: RegFeaL, /) -> RegFeaL:
    """Give the method with what takes a moment."""
    few = min(method.n_random_features, _QUICK_FEATURES)
    return method.with_effort(few, min(method.n_iter, _QUICK_ITERATIONS))


def affordable(method: RegFeaL, problem: Problem, run: Run, /) -> RegFeaL:
    """Give the method with as many random features as there is time for."""
    asked = method.n_random_features

    def iterate(count: int) -> None:
        few = method.with_effort(count, 1)
        fit = few.run(problem.kept_rows, problem.Y, problem.weights, np.random.RandomState(0))
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt

    count = run.affordable(asked, iterate, times=_FIT_WORKS)
    if count < asked:
        msg = f"max_time leaves time for {count} random features of {asked}"
        warn(msg, ConvergenceWarning)
    return method.with_effort(count, method.n_iter)
