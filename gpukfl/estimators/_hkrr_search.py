"""Choice of the number of components and the ridge of HKRR by hold-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from gpukfl._array import Array
from gpukfl._results import Status
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._hkrr_problem import (
    RIDGES,
    TUNE_CENTERS,
    TUNE_SHARE,
    HyperKernelProblem,
    Solved,
)
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
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


@dataclass
class Search:
    """Joint choice of the number of components and the ridge by hold-out (Section 4.3).

    Goes from the best start to neighbours on the grid, each fit warm-started by the best so far.
    The start itself, without learning, is the first setting tried: on small noisy data learning a
    map may gain nothing.
    """

    make: Callable[[Samples], HyperKernelProblem]  # problem of some samples
    samples: Samples
    settings: Any
    run: Run
    trials: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.best: Setting | None = None
        self.maps: list[tuple[Array, float]] = []  # of each fold, at the best setting

    def choose(self) -> tuple[Setting, Array, float]:
        """Choose: the setting, and a map and a lengthscale to start from."""
        share = self.settings.validation_fraction
        folds = self.samples.splits(self.run.rng, at_most=_TUNE_ROWS, share=share)
        self.problems = [self.make(inside) for inside, _ in folds]
        self.held_out = [
            HeldOut.of(problem, outside)
            for problem, (_, outside) in zip(self.problems, folds, strict=True)
        ]
        self.best = self._first()
        if self._fixed:
            return self.best, *self.maps[0]
        try:
            self._climb(self.best)
        finally:  # an interruption keeps the best so far
            for trial in self.trials:
                trial["chosen"] = trial["setting"] == self.best
        if any(trial["setting"].learned for trial in self.trials):
            return self.best, *self.maps[0]
        # There was no time to see whether learning gains
        return replace(self.best, learned=True), *self.maps[0]

    def _climb(self, best: Setting) -> None:
        """Go to neighbours while that gains."""
        score, self.maps = self._evaluate(best, self.maps)
        while not self._late():
            for setting in self._neighbours(best):
                if self._late() or any(t["setting"] == setting for t in self.trials):
                    continue
                new, maps = self._evaluate(setting, self.maps)
                if new > score + _GAIN * (1.0 - score):
                    best, score, self.maps = setting, new, maps
                    self.best = best
                    break
            else:
                break

    @property
    def _fixed(self) -> bool:
        return self.settings.n_components != "auto" and self.settings.ridge != "auto"

    def _late(self) -> bool:
        return self.run.is_over(TUNE_SHARE)

    def _first(self) -> Setting:
        """Best start and its ridge, by the first fold's hold-out."""
        problem, held_out = self.problems[0], self.held_out[0]
        k = self.settings.n_components
        k = min(problem.d, _START_COMPONENTS) if k == "auto" else min(int(k), problem.d)
        (sample, weights), Z = problem.sample(problem.rng), problem.centers(TUNE_CENTERS)
        found = []
        for number, B in enumerate(problem.starts(k)):
            ell = problem.lengthscale(B, sample, weights)
            system = problem.system(problem.kernel, Z, B / ell)
            ridge = self.settings.ridge
            if ridge == "auto":
                ridge = system.path(RIDGES).largest_good()
            alpha, factor = system.solve(float(ridge))
            model = Solved(B, ell, Z, alpha, ridge, factor)
            predicted = problem.predict(model, held_out.X)
            error, around = held_out.error(predicted), held_out.spread
            found.append((around - error, -number, ridge, B, ell))
            if self._late():
                break
        _, _, ridge, B, ell = max(found, key=lambda entry: entry[:2])
        self.maps = [(B, ell)] * len(self.problems)
        return Setting(k, float(ridge), learned=self._fixed)

    def _neighbours(self, at: Setting) -> list[Setting]:
        around = [Setting(at.components, at.ridge)]
        if self.settings.ridge == "auto":
            k = RIDGES.index(at.ridge)
            around += [Setting(at.components, r) for r in RIDGES[max(k - 1, 0) : k + 2]]
        if self.settings.n_components == "auto":
            sizes = components_grid(self.problems[0].d)
            k = sizes.index(at.components)
            around += [Setting(size, at.ridge) for size in sizes[max(k - 1, 0) : k + 2]]
        return [setting for setting in around if setting != at]

    def _evaluate(
        self, setting: Setting, maps: list[tuple[Array, float]]
    ) -> tuple[float, list[tuple[Array, float]]]:
        errors = spread = 0.0
        learned = []
        for problem, held_out, (B, ell) in zip(self.problems, self.held_out, maps, strict=True):
            start = resized_map(B, setting.components, rng=problem.rng)
            name = f"tune {setting.components} components, ridge {setting.ridge:.0e}"
            steps = self.settings.max_iter
            if problem.n >= _MANY_ROWS:
                steps = min(_TUNE_STEPS, steps)
            fit, model = problem.learn(
                start,
                ell,
                setting.ridge,
                n_centers=TUNE_CENTERS,
                max_iter=steps if setting.learned else 0,
                watch=lambda k, _, history, name=name: self.run.tell(name, k, history),  # type: ignore[misc]
            )
            if fit.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            learned.append((fit.B, fit.lengthscale))
            predicted = problem.predict(model, held_out.X)
            error, around = held_out.error(predicted), held_out.spread
            errors, spread = errors + error, spread + around
        score = 1.0 - errors / spread if spread > 0 else -errors
        self.trials.append({"setting": setting, "score": score, "chosen": False})
        return score, learned


def components_grid(d: int) -> list[int]:
    """Numbers of components to choose among: powers of two, the paper's 20, and d."""
    sizes = {2**k for k in range(7)} | {min(d, _START_COMPONENTS), min(d, _MOST_COMPONENTS)}
    return sorted(size for size in sizes if size <= min(d, _MOST_COMPONENTS))
