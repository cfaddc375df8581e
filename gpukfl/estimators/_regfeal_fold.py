"""Rows that RegFeaL is fitted to, and others that judge the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gpukfl._array import Array, array_namespace, double_like, to_host
from gpukfl._rows import Rows
from gpukfl.estimators._data import Data, take
from gpukfl.estimators._regfeal_retraining import kernel_ridge, project
from gpukfl.methods import FirstTurn, RegFeaL, RegFeaLFit

_CENTERS = 300  # of kernel ridge regressions that only compare numbers of directions


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit, and rows held out."""

    problem: Data
    weights: np.ndarray | None  # of the rows to fit (n,)
    rows: Rows  # held out (n', d)
    Y: np.ndarray  # held out, scaled like those of the problem (n', t)
    held_out_weights: np.ndarray  # (n', 1)

    @classmethod
    def of(cls, search: Any, inside: np.ndarray, outside: np.ndarray) -> Self:
        """Split the search's data by host indices."""
        problem = search.make(inside)
        X, Y = problem.scaled(take(search.X, outside), take(search.Y, outside))
        weights, w = None, np.ones((len(outside), 1))
        if search.weights is not None:
            weights, w = search.weights[inside], search.weights[outside][:, None]
        return cls(problem, weights, Rows(X, problem.reference), to_host(Y), w)

    def fit(self, method: RegFeaL, first: FirstTurn) -> RegFeaLFit:
        """Fit the rows, with draws that are the same for every method."""
        problem, rng = self.problem, np.random.RandomState(0)
        return method.run(problem.rows, problem.Y, problem.weights, rng, first=first)

    def error(self, predicted: Array) -> float:
        """Sum of squared errors on the rows held out."""
        return float(np.sum(self.held_out_weights * (self.Y - to_host(predicted)) ** 2))

    @property
    def spread(self) -> float:
        """That of the mean of the rows held out."""
        w = self.held_out_weights
        mean = np.sum(w * self.Y, axis=0) / w.sum()
        return float(np.sum(w * (self.Y - mean) ** 2))

    def retrained_error(self, directions: np.ndarray) -> float:
        """Error of kernel ridge regression on the coordinates along `directions` (k, d)."""
        reference = self.problem.reference
        xp = array_namespace(reference)
        placed = xp.asarray(directions, **double_like(reference))
        Z, Z_held_out = project(self.problem.rows, placed), project(self.rows, placed)
        Y = xp.astype(self.problem.Y, xp.float64)
        model = kernel_ridge(Z, Y, self.weights, centers=_CENTERS)
        return self.error(model.predict(Z_held_out))
