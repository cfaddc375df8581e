"""Transforms of targets, and means of predictions on the original scale."""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, double_like
from gpukfl.linalg import interpolate_columns

_MAX_KNOTS = 200  # of a `RankTransform`
_LOG_MARGIN = 0.7  # predicted logarithms exceed the largest one of the fit by at most this


@dataclass(frozen=True)
class TargetTransform(ABC):
    """An increasing function of each target, with its inverse."""

    unit: ClassVar[str]  # the name of a transformed value

    @classmethod
    @abstractmethod
    def fit(cls, Y: np.ndarray, weights: np.ndarray | None = None, /) -> Self:
        """Fit the transform to targets (n, t) with weights (n,)."""

    @abstractmethod
    def forward(self, Y: np.ndarray, /) -> np.ndarray:
        """Return the transformed targets (n, t)."""

    @abstractmethod
    def inverse(self, Z: Array, /) -> Array:
        """Return the targets of transformed values (n, t)."""

    def mean(self, Z: Array, residuals: Array, /) -> Array:
        """Return the mean (n, t) of the targets, given predictions on the transformed scale.

        This is Duan's smearing: errors of predictions have the same distribution as held-out
        residuals, whose quantiles (q, t) are given.
        """
        count = residuals.shape[0]
        parts = (self.inverse(Z + residuals[k, :]) for k in range(count))
        return functools.reduce(operator.add, parts) / count


@dataclass(frozen=True)
class LogTransform(TargetTransform):
    """The logarithm of 1 + (sign * y - low) / scale.

    Attributes
    ----------
    sign, low, scale, high : list of float
        By target. The sign is -1 for long left tails; `high` is the largest logarithm.
    """

    unit: ClassVar[str] = "logarithm"
    sign: list[float]
    low: list[float]
    scale: list[float]
    high: list[float]

    @classmethod
    def fit(cls, Y: np.ndarray, weights: np.ndarray | None = None, /) -> Self:
        """Fit the transform: the least value becomes 0, and the median log 2."""
        sign = np.where(skewness(Y, weights) < 0, -1.0, 1.0)
        low = (sign * Y).min(axis=0)
        gaps = sign * Y - low
        middle, mean = _medians(gaps, weights), np.average(gaps, axis=0, weights=weights)
        scale = np.where(middle > 0, middle, np.where(gaps.max(axis=0) > 0, mean, 1.0))
        high = np.log1p(gaps.max(axis=0) / scale)
        return cls(*(part.tolist() for part in (sign, low, scale, high)))

    def forward(self, Y: np.ndarray, /) -> np.ndarray:
        """Return the logarithms."""
        sign, low, scale = map(np.asarray, (self.sign, self.low, self.scale))
        return np.log1p((sign * Y - low) / scale)

    def inverse(self, Z: Array, /) -> Array:
        xp, on = array_namespace(Z), double_like(Z)
        sign, low, scale = (xp.asarray(part, **on) for part in (self.sign, self.low, self.scale))
        ends = xp.asarray([high + _LOG_MARGIN for high in self.high], **on)
        return sign * (low + scale * xp.expm1(xp.minimum(Z, ends)))


@dataclass(frozen=True)
class RankTransform(TargetTransform):
    """Normal scores of the ranks, interpolated linearly between knots.

    Attributes
    ----------
    knots, scores : list of lists of float
        Ascending values of each target, and their normal scores.
    """

    unit: ClassVar[str] = "normal score"
    knots: list[list[float]]
    scores: list[list[float]]

    @classmethod
    def fit(cls, Y: np.ndarray, weights: np.ndarray | None = None, /) -> Self:
        """Fit the transform, with quantiles of the targets as knots."""
        found = [_score_knots(column, weights) for column in Y.T]
        return cls([knots.tolist() for knots, _ in found], [s.tolist() for _, s in found])

    def forward(self, Y: np.ndarray, /) -> np.ndarray:
        """Return normal scores of targets."""
        parts = zip(Y.T, self.knots, self.scores, strict=True)
        return np.stack([np.interp(y, knots, scores) for y, knots, scores in parts], axis=1)

    def inverse(self, Z: Array, /) -> Array:
        xp, on = array_namespace(Z), double_like(Z)
        columns = []
        for j, (scores, knots) in enumerate(zip(self.scores, self.knots, strict=True)):
            tables = (xp.asarray([part], **on) for part in (scores, knots))
            columns.append(interpolate_columns(Z[:, j : j + 1] + 0.0, *tables)[:, 0])
        return xp.stack(columns, axis=1)


def _medians(Y: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    if weights is None:
        return np.median(Y, axis=0)
    return np.quantile(Y, 0.5, axis=0, weights=weights, method="inverted_cdf")


def _score_knots(y: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return increasing values, and the normal scores of their midranks."""
    from scipy.special import ndtri

    values, inverse = np.unique(y, return_inverse=True)
    counts = np.bincount(inverse, weights)
    scores = ndtri((np.cumsum(counts) - 0.5 * counts) / counts.sum())
    chosen = np.unique(np.linspace(0, len(values) - 1, min(_MAX_KNOTS, len(values))).round())
    chosen = chosen.astype(np.int64)
    return values[chosen], scores[chosen]


def skewness(Y: np.ndarray, weights: np.ndarray | None = None, /) -> np.ndarray:
    """Return the skewness of the columns of targets (n, t) with weights (n,); 0 for constants."""
    gaps = Y - np.average(Y, axis=0, weights=weights)
    varies = np.ptp(Y, axis=0) > 0
    gaps /= np.where(varies, np.max(np.abs(gaps), axis=0), 1.0)
    spread = np.sqrt(np.average(gaps**2, axis=0, weights=weights))
    thirds = np.average(gaps**3, axis=0, weights=weights)
    return np.where(varies, thirds / np.where(varies, spread, 1.0) ** 3, 0.0)
