"""What members are judged by: squared errors of targets, or the log loss of classes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Chosen = slice | np.ndarray  # rows by their numbers, which may come again
# Shares of the loss of saying the same of every row, of which there is no use in less
_SETTLED, _SETTLED_CLASSES = 1e-10, 0.01
_LIKELIEST = 0.5


@dataclass(frozen=True, eq=False)
class Judge(ABC):
    """Rows that judge predictions of them.

    Attributes
    ----------
    truth : array, shape (n, t)
        Targets, or indicators of all classes.
    weights : array, shape (n,)
        Of the rows.
    """

    truth: np.ndarray
    weights: np.ndarray

    def losses(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Weighted loss of each of some rows of predictions (m, t): (m,)."""
        return self.losses_of(self.part(predicted, rows), rows)

    @abstractmethod
    def part(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Give the part of predictions (m, t) that is judged; that of a mean is the parts' mean."""

    @abstractmethod
    def losses_of(self, part: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Weighted loss of each of some rows (m,), by what is judged of predictions."""

    @abstractmethod
    def _trivial(self) -> np.ndarray:
        """Predictions (1, t) that say the same of every row."""

    @abstractmethod
    def is_settled(self, predicted: np.ndarray, /) -> bool:
        """Whether predictions of all rows leave next to nothing to explain."""

    def _leaves(self, predicted: np.ndarray, share: float) -> bool:
        return float(self.losses(predicted).sum()) <= share * self.spread

    @property
    def n_effective(self) -> float:
        """Kish's number: of rows of equal weight, of which a mean is as certain."""
        w = self.weights / self.weights.max()
        return float(w.sum() ** 2 / (w @ w))

    @cached_property
    def spread(self) -> float:
        """Loss of predictions that say the same of every row; 0 where that is true of all rows."""
        if not np.ptp(self.truth, axis=0).any():
            return 0.0  # and no rounding of a mean
        return float(self.losses(np.broadcast_to(self._trivial(), self.truth.shape)).sum())

    def score(self, losses: np.ndarray, /) -> float:
        """Share of the loss of saying the same of every row that is saved."""
        error = float(losses.sum())
        score = 1.0 - error / self.spread if self.spread > 0 else -error
        return score if math.isfinite(score) else -math.inf

    def standard_error(self, losses: np.ndarray, /) -> float:
        """Of the score, as the rows are a sample of all."""
        deviation = math.sqrt(len(losses)) * float(losses.std())
        return deviation / self.spread if self.spread > 0 else deviation


@dataclass(frozen=True, eq=False)
class SquaredError(Judge):
    """Squared errors, in units of each target's variance."""

    scale: np.ndarray  # (t,), standard deviations; positive

    def part(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:  # noqa: ARG002
        """All of them."""
        return predicted

    def losses_of(self, part: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Weighted squared error of each row, averaged over targets."""
        left = (self.truth[rows] - part) / self.scale
        return self.weights[rows] * np.mean(left**2, axis=1)

    def is_settled(self, predicted: np.ndarray, /) -> bool:
        """Whether errors are as good as rounding."""
        return self._leaves(predicted, _SETTLED)

    def _trivial(self) -> np.ndarray:
        return np.average(self.truth, axis=0, weights=self.weights)[None, :]


@dataclass(frozen=True, eq=False)
class LogLoss(Judge):
    """The log loss of probabilities (n, k) that are positive."""

    def part(self, predicted: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Probabilities of the true classes (m, 1)."""
        return np.sum(self.truth[rows] * predicted, axis=1, keepdims=True)

    def losses_of(self, part: np.ndarray, rows: Chosen = slice(None), /) -> np.ndarray:
        """Weighted log loss of each row."""
        with np.errstate(divide="ignore"):
            return -self.weights[rows] * np.log(part[:, 0])

    def is_settled(self, predicted: np.ndarray, /) -> bool:
        """Whether all true classes are the likeliest, and probabilities nearly 1."""
        likeliest = self.part(predicted)[self.weights > 0, 0] > _LIKELIEST
        return bool(np.all(likeliest)) and self._leaves(predicted, _SETTLED_CLASSES)

    def brier(self, predicted: np.ndarray, /) -> float:
        """Weighted mean of the squared distances of probabilities from the indicators."""
        squares = np.sum((self.truth - predicted) ** 2, axis=1)
        return float(self.weights @ squares / self.weights.sum())

    def _trivial(self) -> np.ndarray:
        return np.average(self.truth, axis=0, weights=self.weights)[None, :]


def target_scale(Y: np.ndarray, weights: np.ndarray | None, /) -> np.ndarray:
    """Return weighted standard deviations (t,) of targets (n, t).

    Of those that do not vary it is 1, or a power of 2 of their size where that is more: the
    deviation of equal numbers may be their rounding, by which all errors would be large.
    """
    # A power of 2 changes no digit, and squares of what it divides do not overflow
    unit = np.ldexp(1.0, np.maximum(np.frexp(np.max(np.abs(Y), axis=0))[1] - 1, 0))
    Y = Y / unit
    middle = np.average(Y, axis=0, weights=weights)
    scale = np.sqrt(np.average((Y - middle) ** 2, axis=0, weights=weights))
    return unit * np.where((np.ptp(Y, axis=0) > 0) & (scale > 0), scale, 1.0)
