"""Rows that RegFeaL is fitted to, and others that judge the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from gpukfl._array import array_namespace, double_like
from gpukfl._rows import Rows
from gpukfl.estimators._data import Data
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._regfeal_retraining import kernel_ridge, project
from gpukfl.estimators._samples import Samples
from gpukfl.methods import FirstTurn, RegFeaL, RegFeaLFit

_CENTERS = 300  # of kernel ridge regressions that only compare numbers of directions


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit, and rows held out."""

    problem: Data
    weights: np.ndarray | None  # of the rows to fit (n,)
    held_out: HeldOut

    @classmethod
    def of(cls, problem: Data, inside: Samples, outside: Samples) -> Self:
        """Judge the problem of some samples by others."""
        return cls(problem, inside.weights, HeldOut.of(problem, outside))

    @property
    def rows(self) -> Rows:
        """Rows held out."""
        return Rows(self.held_out.X, self.problem.reference)

    def fit(self, method: RegFeaL, first: FirstTurn) -> RegFeaLFit:
        """Fit the rows, with draws that are the same for every method."""
        problem, rng = self.problem, np.random.RandomState(0)
        return method.run(problem.rows, problem.Y, problem.weights, rng, first=first)

    def retrained_error(self, directions: np.ndarray) -> float:
        """Error of kernel ridge regression on the coordinates along `directions` (k, d)."""
        reference = self.problem.reference
        xp = array_namespace(reference)
        placed = xp.asarray(directions, **double_like(reference))
        Z, Z_held_out = project(self.problem.rows, placed), project(self.rows, placed)
        Y = xp.astype(self.problem.Y, xp.float64)
        model = kernel_ridge(Z, Y, self.weights, centers=_CENTERS)
        return self.held_out.error(model.predict(Z_held_out))
