"""Samples that judge a fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from gpukfl._array import Array, beside, to_host
from gpukfl.estimators._data import Data
from gpukfl.estimators._samples import Samples


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Held-out samples on a problem's scale."""

    X: Array
    Y: Array  # float64
    weights: Array  # (n, 1), float64

    @classmethod
    def of(cls, problem: Data, samples: Samples, /) -> Self:
        """Place and scale samples like the problem's."""
        placed, targets = problem.scaled(samples)
        w = np.ones(len(samples)) if samples.weights is None else samples.weights
        return cls(placed, targets, beside(w[:, None], targets))

    def losses(self, predicted: Array, /) -> np.ndarray:
        """Weighted squared error of each row of predictions (n, t), on the host: (n,)."""
        Y, weights = self._on_host
        left = Y - to_host(predicted).astype(np.float64, copy=False)
        return np.sum(weights * left**2, axis=1)

    def error(self, predicted: Array, /) -> float:
        """Sum of weighted squared errors of predictions (n, t)."""
        return float(self.losses(predicted).sum())

    @cached_property
    def spread(self) -> float:
        """That of the mean."""
        Y, weights = self._on_host
        mean = np.sum(weights * Y, axis=0) / np.sum(weights)
        return float(np.sum(weights * (Y - mean) ** 2))

    @cached_property
    def _on_host(self) -> tuple[np.ndarray, np.ndarray]:
        """Targets (n, t) and weights (n, 1), which predictions are compared with there."""
        return to_host(self.Y), to_host(self.weights)
