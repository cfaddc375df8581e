"""Rows that RegFeaL is fitted to, and others that judge the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gpukfl._array import Array, array_namespace, double_like
from gpukfl._results import Status
from gpukfl._rows import Rows
from gpukfl.estimators._data import Data
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators.regfeal._retraining import kernel_ridge, project
from gpukfl.methods import DegreeLaw, FirstTurn, RegFeaL, RegFeaLFit

SHARE = 0.5  # of max_time after which the search has ended
_CENTERS = 600  # of kernel ridge regressions that only compare directions
_PATH_CENTERS = 300  # on which their ridge is chosen, where there are more rows


Point = tuple[DegreeLaw, float]  # law of the degrees and μ


@dataclass(eq=False)
class Learned:
    """What a fold gives."""

    fit: RegFeaLFit
    first: FirstTurn | None  # of fits that differ in μ only; None where it was let go: it is large


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit, and rows held out."""

    problem: Data
    weights: np.ndarray | None  # of the rows to fit (n,)
    held_out: HeldOut
    method: Callable[[DegreeLaw, float], RegFeaL]

    @classmethod
    def of(
        cls,
        problem: Data,
        inside: Samples,
        outside: Samples,
        method: Callable[[DegreeLaw, float], RegFeaL],
    ) -> Self:
        """Judge the problem of some samples by others."""
        return cls(problem, inside.weights, HeldOut.of(problem, outside), method)

    @property
    def rows(self) -> Rows:
        """Rows held out."""
        return Rows(self.held_out.X, self.problem.reference)

    def learn(self, point: Point, start: Learned | None, run: Run, /) -> Learned:
        """Fit the rows, with draws that are the same for every point."""
        first = (start and start.first) or FirstTurn()
        problem, rng = self.problem, np.random.RandomState(0)
        method = replace(self.method(*point), max_time=run.left(SHARE))
        fit = method.run(problem.rows, problem.Y, problem.weights, rng, first=first)
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        name = f"tune {point[0].described}, strength {point[1]:g}"
        run.tell(name, len(fit.history) - 1, fit.history)
        return Learned(fit, first)

    def predict(self, learned: Learned, /) -> Array:
        """Predict the rows held out, by Hermite features."""
        return learned.fit.predict(self.rows)

    def retrained_losses(self, directions: np.ndarray) -> np.ndarray:
        """Squared errors (m,) of kernel ridge regression on coordinates along `directions`."""
        reference = self.problem.reference
        xp = array_namespace(reference)
        placed = xp.asarray(directions, **double_like(reference))
        Z, Z_held_out = project(self.problem.rows, placed), project(self.rows, placed)
        Y = xp.astype(self.problem.Y, xp.float64)
        fit = kernel_ridge(Z, Y, self.weights, centers=_CENTERS, few=_PATH_CENTERS)
        return self.held_out.losses(fit.predict(Rows(Z_held_out, Z[:0, 0])))
