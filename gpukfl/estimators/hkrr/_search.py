"""Choice of the number of components and the ridge of HKRR by hold-out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpukfl._array import Array
from gpukfl._results import Status
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._search import Search, Trial, climbed, is_behind, untried
from gpukfl.estimators.hkrr._problem import (
    FINE_RIDGES,
    RIDGES,
    TUNE_CENTERS,
    TUNE_SHARE,
    HyperKernelProblem,
    Solved,
)
from gpukfl.methods import RidgePath, resized_map

FEWEST = 20  # rows with which anything is held out
_START_COMPONENTS = 20  # the paper's choice for larger data
_MOST_COMPONENTS = 64
_TUNE_ROWS = 10_000  # rows that dimension and ridge are chosen on, at most
_FIRST_STEPS = 10  # of the map, before it is judged by rows held out; then twice as many
_ENOUGH = 1.05  # times the lowest error, with which the learned lengthscale is kept
_GAIN = 5e-3  # share of the unexplained variance that is worth another setting


@dataclass(frozen=True)
class Setting:
    """A point of the grid; without steps the map is that of the start."""

    components: int
    ridge: float
    steps: int = 0


@dataclass(frozen=True, eq=False)
class Learned:
    """What a fold gives: the map, and a model of it."""

    B: Array  # (k, d)
    lengthscale: float
    model: Solved | None = None
    start: Learned | None = None  # what it went on from


Trials = Sequence[Trial[Setting, Learned]]


@dataclass(frozen=True, eq=False)
class Fold:
    """Samples to learn a map of, and samples held out."""

    problem: HyperKernelProblem
    held_out: HeldOut

    def learn(self, setting: Setting, start: Learned | None, run: Run, /) -> Learned:
        """Go some steps on from the start."""
        problem = self.problem
        assert start is not None
        name = f"tune {setting.components} components, ridge {setting.ridge:.0e}"
        B = resized_map(start.B, setting.components, rng=problem.rng)
        fit, model = problem.learn(
            B,
            start.lengthscale,
            setting.ridge,
            n_centers=TUNE_CENTERS,
            max_iter=setting.steps,
            max_time=run.left(TUNE_SHARE),
            watch=lambda k, _, history: run.tell(name, k, history),
        )
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return Learned(fit.B, fit.lengthscale, model, Learned(B, start.lengthscale))

    def predict(self, learned: Learned, /) -> Array:
        """Predict the held-out samples."""
        assert learned.model is not None
        return self.problem.predict(learned.model, self.held_out.X)

    def errors_outside(self, learned: Learned, stretch: float) -> list[float]:
        """Errors on the held-out samples along the ridges of the last fit."""
        assert learned.model is not None
        return self.problem.errors_outside(learned.model, stretch, self.held_out)


@dataclass(frozen=True, eq=False)
class Tuner:
    """Goes from the best start to neighbours on the grid while that gains.

    Each fit begins from the best so far, so that the same setting with more steps goes on from
    there: rows held out say when to stop. The start itself, without learning, is the first setting
    tried: on small noisy data learning a map may gain nothing, or no more than chance does.
    """

    settings: Any
    d: int
    first: Setting
    start: list[Learned]  # of the folds

    def best(self, trials: Trials, /) -> tuple[Setting, list[Learned]]:
        """Give the setting to go on from, and the maps of the folds."""
        if not trials:
            return self.first, self.start
        trial, start = climbed(trials, lambda score: _GAIN * (1.0 - score)), trials[0]
        if start.learned and not is_behind(start.losses, trial.losses):
            trial = start
        return trial.setting, trial.learned

    def propose(self, trials: Trials, /) -> Setting | None:
        """Give the next neighbour of the best."""
        return untried(self._neighbours(self.best(trials)[0]), trials) if trials else self.first

    def starts(self, setting: Setting, trials: Trials, /) -> list[Learned]:  # noqa: ARG002
        """Begin every fold from its best map."""
        return self.best(trials)[1]

    def _neighbours(self, at: Setting) -> list[Setting]:
        most = self.settings.max_iter
        steps = min(at.steps or _FIRST_STEPS, most)
        around = [replace(at, steps=min(2 * at.steps or steps, most))]
        if self.settings.ridge == "auto":
            k = RIDGES.index(at.ridge)
            near = RIDGES[max(k - 1, 0) : k + 2]
            around += [Setting(at.components, r, steps) for r in reversed(near)]
        if self.settings.n_components == "auto":
            sizes = components_grid(self.d)
            k = sizes.index(at.components)
            around += [Setting(size, at.ridge, steps) for size in sizes[max(k - 1, 0) : k + 2]]
        return around


@dataclass
class HKRRSearch:
    """Joint choice of the number of components and the ridge by hold-out (Section 4.3)."""

    make: Callable[[Samples], HyperKernelProblem]  # problem of some samples
    samples: Samples
    settings: Any
    run: Run

    def __post_init__(self) -> None:
        self.tuner: Tuner | None = None  # until there is something to start from
        self.folds: list[Fold] = []
        self.trials: list[Trial[Setting, Learned]] = []

    def choose(self) -> None:
        """Try settings; an interruption keeps the best so far."""
        share = self.settings.validation_fraction
        splits = self.samples.splits(self.run.rng, at_most=_TUNE_ROWS, share=share)
        problems = [(self.make(inside), outside) for inside, outside in splits]
        self.folds = [Fold(one, HeldOut.of(one, outside)) for one, outside in problems]
        tuner = self._tuner()
        if self.settings.n_components == "auto" or self.settings.ridge == "auto":
            Search(self.folds, tuner, self.run, TUNE_SHARE, self.trials, racing=True).go()

    def _tuner(self) -> Tuner:
        """Begin from the best start, also where an interruption leaves the others untried."""
        found: list[tuple[float, float, Learned]] = []
        try:
            self._try_starts(self.folds[0], found)
        finally:
            if found:
                _, ridge, start = min(found, key=lambda entry: entry[0])
                first = Setting(start.B.shape[0], ridge)
                d, n_folds = self.samples.X.shape[1], len(self.folds)
                self.tuner = Tuner(self.settings, d, first, [start] * n_folds)
        assert self.tuner is not None
        return self.tuner

    def best(self) -> tuple[Setting, Learned]:
        """Give the best so far, and what to start from: the first fold's map."""
        assert self.tuner is not None
        setting, maps = self.tuner.best(self.trials)
        return setting, maps[0]

    def last_ridges(self) -> tuple[float, RidgePath] | None:
        """Stretch of the lengthscale and ridges of the last fit, by the folds' rows held out.

        None where the folds have learned no maps: rows that are left out one by one are then as
        good, and more.
        """
        if self.tuner is None or not self.best()[0].steps:
            return None
        maps, paths = self.tuner.best(self.trials)[1], {}
        for stretch in self.folds[0].problem.stretches:
            errors = np.zeros(len(FINE_RIDGES))
            for fold, learned in zip(self.folds, maps, strict=True):
                errors = errors + fold.errors_outside(learned, stretch)
            paths[stretch] = RidgePath(FINE_RIDGES, errors.tolist())
        enough = _ENOUGH * min(path.lowest for path in paths.values())
        good = [stretch for stretch, path in paths.items() if path.lowest <= enough]
        stretch = min(good, key=lambda stretch: abs(math.log(stretch)))
        return stretch, paths[stretch]

    def report(self) -> list[dict[str, Any]]:
        """Say what was tried."""
        best = self.best()[0] if self.trials else None
        return [
            {
                "n_components": trial.setting.components,
                "ridge": trial.setting.ridge,
                "learned": trial.setting.steps > 0,
                "score": trial.score,
                "chosen": trial.setting == best,
            }
            for trial in self.trials
        ]

    def _try_starts(self, fold: Fold, found: list[tuple[float, float, Learned]]) -> None:
        """Add the error of every start on the first fold's rows held out, its ridge, and itself."""
        problem, held_out = fold.problem, fold.held_out
        k = start_components(self.settings, problem.d)
        (sample, weights), Z = problem.sample(problem.rng), problem.centers(TUNE_CENTERS)
        for B in problem.starts(k):
            ell = problem.lengthscale(B, sample, weights)
            system = problem.system(problem.kernel, Z, B / ell)
            ridge = self.settings.ridge
            if ridge == "auto":
                ridge = system.path(RIDGES).largest_good()
            alpha, factor = system.solve(float(ridge))
            model = Solved(B, ell, Z, alpha, ridge, factor)
            error = held_out.error(problem.predict(model, held_out.X))
            found.append((error, float(ridge), Learned(B, ell)))
            if self.run.is_over(TUNE_SHARE):
                break


def start_components(settings: Any, d: int) -> int:
    """Rows of the maps to start from."""
    k = settings.n_components
    return min(d, _START_COMPONENTS if k == "auto" else int(k))


def components_grid(d: int) -> list[int]:
    """Numbers of components to choose among: powers of two, the paper's 20, and d."""
    sizes = {2**k for k in range(7)} | {min(d, _START_COMPONENTS), min(d, _MOST_COMPONENTS)}
    return sorted(size for size in sizes if size <= min(d, _MOST_COMPONENTS))
