"""Predictions that end where nothing is known: not far beyond the targets of the fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from gpukfl._array import Array, array_namespace
from gpukfl.estimators._data import Data
from gpukfl.estimators._declared import FLOAT, Declared, Numbers


class BoundedPredictions:
    """An estimator whose functions may be wild outside the data, as polynomials are."""

    bounds_: Array
    _attributes: ClassVar[dict[str, Declared]] = {"bounds_": Numbers(FLOAT, (2, "n_targets"))}

    def _keep_bounds(self, problem: Data, back: Callable[[Array], Array]) -> None:
        """Set the least and the largest value that is predicted of each target."""
        bound = problem.bound * problem.y_scale
        ends = [back(problem.y_mean - bound), back(problem.y_mean + bound)]
        self.bounds_ = array_namespace(ends[0]).stack(ends)
