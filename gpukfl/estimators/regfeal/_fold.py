"""Rows that RegFeaL is fitted to, and others that judge the fit."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np

from gpukfl._array import Array, array_namespace, double_like, in_double
from gpukfl._results import Status
from gpukfl._rows import Rows
from gpukfl.estimators._data import truncated
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._run import Run
from gpukfl.estimators.regfeal._problem import Problem, Setting
from gpukfl.estimators.regfeal._retraining import Retrained, kernel_ridge, project
from gpukfl.methods import FirstTurn, RegFeaL, RegFeaLFit

SHARE = 0.5  # of max_time after which the search has ended
_FEATURES = 5_000  # that settings are chosen with, at most: with fewer, other settings are best
_ITERATIONS = 4
_CENTERS = 600  # of kernel ridge regressions that only compare directions
_PATH_CENTERS = 300  # on which their ridge is chosen, where there are more rows


@dataclass(eq=False)
class Learned:
    """What a fold gives."""

    method: RegFeaL
    fit: RegFeaLFit
    first: FirstTurn | None  # of fits that differ in μ only; None where it was let go: it is large
    retrained: Retrained | None = None

    @functools.cached_property
    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Directions and η that the last regression asks for."""
        return self.method.directions(self.fit)


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit, and rows held out."""

    problem: Problem
    held_out: HeldOut

    @property
    def rows(self) -> Rows:
        """Rows held out."""
        return Rows(self.held_out.X, self.problem.reference)

    def learn(self, setting: Setting, start: Learned | None, run: Run, /) -> Learned:
        """Fit the rows, with draws that are the same for every setting; or retrain a fit."""
        if setting.way is None:
            return self._fitted(setting, start, run)
        base = start or self._fitted(setting, None, run)
        R, eta = base.directions
        directions = setting.way.of(R, eta, base.method.exponent)
        return replace(base, first=None, retrained=self._retrained(directions))

    def predict(self, learned: Learned, /) -> Array:
        """Predict the rows held out, by Hermite features or by what is retrained."""
        again = learned.retrained
        if again is None or again.fit is None:
            return truncated(learned.fit.predict(self.rows), self.problem.bound)
        return again.fit.predict(project(self.rows, self._placed(again.directions)))

    def _fitted(self, setting: Setting, start: Learned | None, run: Run) -> Learned:
        first = (start and start.first) or FirstTurn()
        problem, rng = self.problem, np.random.RandomState(0)
        method = problem.settings.at(setting)
        few = min(method.n_random_features, _FEATURES), min(method.n_iter, _ITERATIONS)
        method = replace(method.with_effort(*few), max_time=run.left(SHARE))
        fit = method.run(problem.kept_rows, problem.Y, problem.weights, rng, first=first)
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        name = f"tune {setting.law.described}, strength {setting.strength:g}"
        run.tell(name, len(fit.history) - 1, fit.history)
        return Learned(method, fit, first)

    def _retrained(self, directions: np.ndarray) -> Retrained:
        """Kernel ridge regression on coordinates along some directions."""
        problem, weights = self.problem, self.problem.given_weights
        rows, Y = project(problem.kept_rows, self._placed(directions)), in_double(problem.Y)
        fit = kernel_ridge(rows, Y, weights, centers=_CENTERS, few=_PATH_CENTERS)
        return Retrained(directions, fit)

    def _placed(self, directions: np.ndarray) -> Array:
        reference = self.problem.reference
        return array_namespace(reference).asarray(directions, **double_like(reference))
