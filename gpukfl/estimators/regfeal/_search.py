"""Choice of the degree decay, the strength and the directions of RegFeaL by held-out rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpukfl.estimators._data import Data
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._search import Search, Trial, climbed, explained, is_behind, untried
from gpukfl.estimators.regfeal._fold import SHARE, Fold, Learned, Point
from gpukfl.estimators.regfeal._retraining import HERMITE, LEAST, Coordinates
from gpukfl.methods import (
    DegreeLaw,
    RegFeaL,
    derivative_weights,
    eta_shares,
)

MEAN_DEGREES = (0.5, 1.0, 2.0, 4.0, 8.0)  # of the tuples that the decays of the grid give
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
START = (4.0, 0.1)  # mean degree and strength
SCOUTS = (START, (8.0, 0.01), (2.0, 0.01), (1.0, 1.0))  # from the best of which the search climbs
SQUARES, SQUARES_STRENGTH = DegreeLaw(largest=2), 0.01  # another scout, of many variables

_COVERED = 4  # random features for each tuple of degree up to 2 below which these are many
_FEWEST = 20  # rows with which anything is held out
_ROWS = 5_000  # that settings are chosen on
_FEATURES = 5_000  # with which they are, at most: with fewer, other settings are best
_ITERATIONS = 4
_GAIN = 1e-3  # share of the variance that is worth another step
_FINALISTS = 3  # points whose directions are retrained on
_NUMBERS = (1, 2, 3, 4, 6, 8, 12, 16)  # of leading directions to retrain on
_POWERS = (0.25, 0.5)  # of the squared derivatives, as weights of all directions
_WORTH = 0.01  # share of the error that is worth more directions

Trials = Sequence[Trial[Point, Learned]]


@dataclass(frozen=True, eq=False)
class Tuner:
    """Goes from neighbour to neighbour on the grid of laws and μ, from the best of some scouts."""

    scouts: list[Point]
    laws: list[DegreeLaw] | None  # to choose among
    strengths: Sequence[float] | None
    n_folds: int

    def propose(self, trials: Trials, /) -> Point | None:
        """Give the next scout, then the next neighbour of the best point."""
        _let_go(trials)
        scout = untried(self.scouts, trials)
        if scout is not None:
            return scout
        best = climbed(trials, lambda _: _GAIN, first=len(self.scouts))
        return untried(_neighbours(best.setting, self.laws, self.strengths), trials)

    def starts(self, point: Point, trials: Trials, /) -> Sequence[Learned | None]:
        """Give the first regressions of the best point, if its law is the same."""
        if trials:
            leader = in_order(trials)[0]
            if leader.setting[0] == point[0] and leader.learned:
                return leader.learned
        return [None] * self.n_folds


def in_order(trials: Trials, /) -> list[Trial[Point, Learned]]:
    """Points that were tried, best first."""
    return sorted(trials, key=lambda trial: -trial.score)


def _let_go(trials: Trials) -> None:
    """Forget what is large of points that fell behind."""
    for trial in in_order(trials)[1:]:
        for learned in trial.learned:
            learned.first = None
    for trial in in_order(trials)[_FINALISTS:]:
        trial.learned.clear()


@dataclass
class RegFeaLSearch:
    """Choice of the law and μ, and of what is retrained on: the directions of the best points."""

    make: Callable[[Samples], Data]  # problem of some samples
    data: Data
    samples: Samples
    settings: Any
    method: Callable[[DegreeLaw, float], RegFeaL]
    run: Run
    trials: list[Trial[Point, Learned]] = field(default_factory=list)
    # Of the points whose directions were looked at: the best way to retrain, and its score
    ways: dict[Point, tuple[float, Coordinates]] = field(default_factory=dict)

    def choose(self) -> Point:
        """Choose the law and μ; Ctrl-C leaves the best so far in `best`."""
        start = self.start
        if not self._is_open or self._has_nothing_to_hold_out:
            return start
        laws = [self._law(degree) for degree in MEAN_DEGREES] if self._opens_law else None
        strengths = STRENGTHS if self.settings.strength == "auto" else None
        scouts = [start]
        if laws and strengths:
            scouts = [(self._law(degree), strength) for degree, strength in SCOUTS]
        if laws and self._is_wide:
            laws.insert(0, SQUARES)
            scouts.append((SQUARES, SQUARES_STRENGTH if strengths else start[1]))
        self._search(Tuner(scouts, laws, strengths, len(self.folds))).go()
        if self.settings.retrain is not None:
            for trial in in_order(self.trials)[:_FINALISTS]:
                self._look_at_directions(trial)
        return self.best.setting

    def coordinates(self, point: Point) -> Coordinates | None:
        """Give what to retrain on; None where that was not looked at."""
        if not (self.trials or self._has_nothing_to_hold_out or self._late()):
            search = self._search(Tuner([point], None, None, len(self.folds)))
            self._look_at_directions(search.evaluate(point))
        return self.ways[point][1] if point in self.ways else None

    @functools.cached_property
    def folds(self) -> list[Fold]:
        """Rows to fit, and rows that are held out."""
        share = self.settings.validation_fraction
        splits = self.samples.splits(self.run.rng, at_most=_ROWS, share=share)
        return [Fold.of(self.make(one), one, other, self._method_at) for one, other in splits]

    @property
    def best(self) -> Trial[Point, Learned]:
        """Best point so far; the last word is that of what predicts in the end."""
        return max(self.trials, key=lambda trial: (self._retrained_score(trial), trial.score))

    def _retrained_score(self, trial: Trial[Point, Learned]) -> float:
        return self.ways.get(trial.setting, (-math.inf,))[0]

    def _search(self, tuner: Tuner) -> Search[Point, Learned]:
        return Search(self.folds, tuner, self.run, SHARE, self.trials)

    def _late(self) -> bool:
        return self.run.is_over(SHARE)

    @property
    def _opens_law(self) -> bool:
        return self.settings.degree_decay == "auto" and self.settings.max_degree is None

    @property
    def _is_wide(self) -> bool:
        """Whether random tuples hardly cover those of degree 2, which ρ^2 makes rare besides."""
        d = self.data.rows.shape[1]
        return self.settings.n_random_features < _COVERED * math.comb(d + 2, 2)

    @property
    def _is_open(self) -> bool:
        """Whether the law or μ is to be chosen."""
        return self._opens_law or self.settings.strength == "auto"

    @property
    def _has_nothing_to_hold_out(self) -> bool:
        return self.data.rows.shape[0] < _FEWEST or self.data.constant

    def report(self) -> list[dict[str, Any]]:
        """Say what was tried, where there was a choice, and how it predicts."""
        return [
            {
                "degree_decay": trial.setting[0].decay,
                "max_degree": trial.setting[0].largest,
                "strength": trial.setting[1],
                "score": float(self.ways.get(trial.setting, (trial.score,))[0]),
                "chosen": trial is self.best,
            }
            for trial in (self.trials if self._is_open else [])
        ]

    def _law(self, mean_degree: float) -> DegreeLaw:
        """Give the law of the ρ with which the kernel's terms have this degree, on average.

        There are as many of degree k as terms of (1 - ρ)^-d, so that k is negative binomial.
        """
        return DegreeLaw(mean_degree / (mean_degree + self.data.rows.shape[1]))

    @property
    def start(self) -> Point:
        """What is given, and the middle of the grid."""
        settings, law = self.settings, self._law(START[0])
        if settings.max_degree is not None:
            law = DegreeLaw(largest=settings.max_degree)
        elif settings.degree_decay != "auto":
            law = DegreeLaw(float(settings.degree_decay))
        return law, START[1] if settings.strength == "auto" else float(settings.strength)

    def _method_at(self, law: DegreeLaw, strength: float) -> RegFeaL:
        few = min(self.settings.n_random_features, _FEATURES)
        return self.method(law, strength).with_effort(few, min(self.settings.n_iter, _ITERATIONS))

    # ------------------------------------------------------------------ directions

    def _look_at_directions(self, trial: Trial[Point, Learned]) -> None:
        """Retrain on the directions of each fold, in several ways."""
        if not trial.learned or self._late():
            return
        method = self._method_at(*trial.setting)
        found = [method.directions(learned.fit) for learned in trial.learned]
        ways = _leading([eta for _, eta in found], method.exponent)
        if self.settings.retrain == "kernel_ridge":  # other regressors may not see weights
            ways += [Coordinates(power=power) for power in _POWERS]
        errors = dict.fromkeys(ways, np.zeros(0))
        for fold, (R, eta) in zip(self.folds, found, strict=True):
            for way in errors:
                losses = fold.retrained_losses(way.of(R, eta, method.exponent))
                errors[way] = np.concatenate([errors[way], losses])
            errors = _not_behind(errors)
        scores = {way: explained(float(losses.sum()), self.folds) for way, losses in errors.items()}
        if self.settings.retrain == "kernel_ridge":
            scores[HERMITE] = trial.score
        best = max(scores, key=lambda way: scores[way])
        enough = scores[best] - _WORTH * (1.0 - scores[best])
        few = [way for way in scores if way.number and scores[way] >= enough]
        chosen = min(few, key=lambda way: way.number or 0, default=best)
        self.ways[trial.setting] = scores[best], chosen


def _not_behind(errors: dict[Coordinates, np.ndarray]) -> dict[Coordinates, np.ndarray]:
    """Ways that the best is not clearly better than, by the losses of the same rows."""
    best = (1.0 + _WORTH) * min(errors.values(), key=np.sum)
    return {way: losses for way, losses in errors.items() if not is_behind(losses, best)}


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


def _neighbours(at: Point, laws: Any, strengths: Any) -> list[Point]:
    """Points one step away on the grid."""
    points = []
    if strengths:
        k = strengths.index(at[1])
        points += [(at[0], strengths[j]) for j in (k - 1, k + 1) if 0 <= j < len(strengths)]
    if laws:
        k = laws.index(at[0])
        points += [(laws[j], at[1]) for j in (k - 1, k + 1) if 0 <= j < len(laws)]
    return points
