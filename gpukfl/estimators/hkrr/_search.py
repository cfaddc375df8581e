"""Choice of the number of components and the ridge of HKRR by hold-out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpukfl._array import Array
from gpukfl._results import Status
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._search import Search, Trial, climbed, untried
from gpukfl.estimators.hkrr._problem import (
    RIDGES,
    TUNE_CENTERS,
    TUNE_SHARE,
    HyperKernelProblem,
    Solved,
)
from gpukfl.methods import resized_map

FEWEST = 20  # rows with which anything is held out
_START_COMPONENTS = 20  # the paper's choice for larger data
_MOST_COMPONENTS = 64
_TUNE_ROWS = 20_000  # rows that dimension and ridge are chosen on, at most
_MANY_ROWS = 5_000  # rows with which few steps show where a setting leads
_TUNE_STEPS = 20
_GAIN = 5e-3  # share of the unexplained variance that is worth another setting


@dataclass(frozen=True)
class Setting:
    """A point of the grid; `learned` is whether the map is optimised at all."""

    components: int
    ridge: float
    learned: bool = True


@dataclass(frozen=True, eq=False)
class Learned:
    """What a fold gives: the map, and a model of it."""

    B: Array  # (k, d)
    lengthscale: float
    model: Solved | None = None


Trials = Sequence[Trial[Setting, Learned]]


@dataclass(frozen=True, eq=False)
class Fold:
    """Samples to learn a map of, and samples held out."""

    problem: HyperKernelProblem
    held_out: HeldOut

    def learn(self, setting: Setting, start: Learned | None, run: Run, /) -> Learned:
        """Learn the map, in few steps where rows are many."""
        problem, steps = self.problem, self.problem.settings.max_iter
        assert start is not None
        name = f"tune {setting.components} components, ridge {setting.ridge:.0e}"
        if problem.n >= _MANY_ROWS:
            steps = min(_TUNE_STEPS, steps)
        fit, model = problem.learn(
            resized_map(start.B, setting.components, rng=problem.rng),
            start.lengthscale,
            setting.ridge,
            n_centers=TUNE_CENTERS,
            max_iter=steps if setting.learned else 0,
            max_time=run.left(TUNE_SHARE),
            watch=lambda k, _, history: run.tell(name, k, history),
        )
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return Learned(fit.B, fit.lengthscale, model)

    def predict(self, learned: Learned, /) -> Array:
        """Predict the held-out samples."""
        assert learned.model is not None
        return self.problem.predict(learned.model, self.held_out.X)


@dataclass(frozen=True, eq=False)
class Tuner:
    """Goes from the best start to neighbours on the grid while that gains.

    Each fit begins from the best so far. The start itself, without learning, is the first setting
    tried: on small noisy data learning a map may gain nothing.
    """

    settings: Any
    d: int
    first: Setting
    start: list[Learned]  # of the folds

    def best(self, trials: Trials, /) -> tuple[Setting, list[Learned]]:
        """Give the setting to go on from, and the maps of the folds."""
        if not trials:
            return self.first, self.start
        trial = climbed(trials, lambda score: _GAIN * (1.0 - score))
        return trial.setting, trial.learned

    def propose(self, trials: Trials, /) -> Setting | None:
        """Give the next neighbour of the best."""
        return untried(self._neighbours(self.best(trials)[0]), trials) if trials else self.first

    def starts(self, setting: Setting, trials: Trials, /) -> list[Learned]:  # noqa: ARG002
        """Begin every fold from its best map."""
        return self.best(trials)[1]

    def _neighbours(self, at: Setting) -> list[Setting]:
        around = [Setting(at.components, at.ridge)]
        if self.settings.ridge == "auto":
            k = RIDGES.index(at.ridge)
            around += [Setting(at.components, r) for r in RIDGES[max(k - 1, 0) : k + 2]]
        if self.settings.n_components == "auto":
            sizes = components_grid(self.d)
            k = sizes.index(at.components)
            around += [Setting(size, at.ridge) for size in sizes[max(k - 1, 0) : k + 2]]
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
        self.trials: list[Trial[Setting, Learned]] = []

    def choose(self) -> None:
        """Try settings; an interruption keeps the best so far."""
        share = self.settings.validation_fraction
        splits = self.samples.splits(self.run.rng, at_most=_TUNE_ROWS, share=share)
        problems = [(self.make(inside), outside) for inside, outside in splits]
        folds = [Fold(problem, HeldOut.of(problem, outside)) for problem, outside in problems]
        ridge, start = self._first(folds[0])
        first = Setting(start.B.shape[0], ridge, learned=False)
        d = self.samples.X.shape[1]
        self.tuner = Tuner(self.settings, d, first, [start] * len(folds))
        if self.settings.n_components == "auto" or self.settings.ridge == "auto":
            Search(folds, self.tuner, self.run, TUNE_SHARE, self.trials).go()

    def best(self) -> tuple[Setting, Learned]:
        """Give the best so far, and what to start from: the first fold's map."""
        assert self.tuner is not None
        setting, maps = self.tuner.best(self.trials)
        return setting, maps[0]

    def report(self) -> list[dict[str, Any]]:
        """Say what was tried."""
        best = self.best()[0] if self.trials else None
        return [
            {
                "n_components": trial.setting.components,
                "ridge": trial.setting.ridge,
                "learned": trial.setting.learned,
                "score": trial.score,
                "chosen": trial.setting == best,
            }
            for trial in self.trials
        ]

    def _first(self, fold: Fold) -> tuple[float, Learned]:
        """Ridge of the best start, and this, by the first fold's hold-out."""
        problem, held_out = fold.problem, fold.held_out
        k = self.settings.n_components
        k = min(problem.d, _START_COMPONENTS) if k == "auto" else min(int(k), problem.d)
        (sample, weights), Z = problem.sample(problem.rng), problem.centers(TUNE_CENTERS)
        found: list[tuple[float, float, Learned]] = []
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
        return min(found, key=lambda entry: entry[0])[1:]


def components_grid(d: int) -> list[int]:
    """Numbers of components to choose among: powers of two, the paper's 20, and d."""
    sizes = {2**k for k in range(7)} | {min(d, _START_COMPONENTS), min(d, _MOST_COMPONENTS)}
    return sorted(size for size in sizes if size <= min(d, _MOST_COMPONENTS))
