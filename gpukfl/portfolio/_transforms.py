"""Targets on another scale, on which members are fitted, and means of predictions on their own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import ndtri
from scipy.stats import skew

from gpukfl._array import to_host
from gpukfl.estimators import KernelRidgeRegressor
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._folds import hosted, split

TRANSFORMS = ("auto", "log", "rank", None)
_SKEWED = 1.0  # skewness from which another scale is tried
_KNOTS = 200
_QUANTILES = 51
_BEYOND = 0.7  # of a logarithm, that is predicted beyond the largest
_ROWS = 1_000  # that a scale is chosen on
_TRIED_ON = 3  # folds
_GAIN = 0.02  # share of the error that another scale must save


@dataclass(frozen=True)
class TargetTransform(ABC):
    """A growing function of each target, with its inverse."""

    @classmethod
    @abstractmethod
    def of(cls, Y: np.ndarray, /) -> Self:
        """Choose what there is to choose by targets (n, t)."""

    @abstractmethod
    def forward(self, Y: np.ndarray, /) -> np.ndarray:
        """Targets (n, t) on the other scale."""

    @abstractmethod
    def _inverse(self, Z: np.ndarray, /) -> np.ndarray:
        """Targets of values (n, t) on the other scale."""

    def mean(self, Z: np.ndarray, residuals: np.ndarray, /) -> np.ndarray:
        """Mean (n, t) of the targets where the other scale has these predictions.

        Duan's smearing: what is predicted is as likely to be off as rows were that models had not
        seen, of whose residuals (q, t) these are quantiles.
        """
        total = np.zeros_like(Z)
        for residual in residuals:
            total += self._inverse(Z + residual)
        return total / len(residuals)


@dataclass(frozen=True)
class LogTransform(TargetTransform):
    """Logarithms of 1 + (y - low) / scale, or of -y where the long tail is to the left.

    Attributes
    ----------
    sign, low, scale, high : list of float
        Of each target; `high` is the largest logarithm.
    """

    sign: list[float]
    low: list[float]
    scale: list[float]
    high: list[float]

    @classmethod
    def of(cls, Y: np.ndarray, /) -> Self:
        """Take the least value for 0, and the median for 1."""
        sign = np.where(_skewness(Y) < 0, -1.0, 1.0)
        low = (sign * Y).min(axis=0)
        gaps = sign * Y - low
        middle = np.median(gaps, axis=0)
        scale = np.where(middle > 0, middle, np.where(gaps.max(axis=0) > 0, gaps.mean(axis=0), 1.0))
        high = np.log1p(gaps.max(axis=0) / scale)
        return cls(*(part.tolist() for part in (sign, low, scale, high)))

    def forward(self, Y: np.ndarray, /) -> np.ndarray:
        """Logarithms, where the least value is 0."""
        sign, low, scale = map(np.asarray, (self.sign, self.low, self.scale))
        return np.log1p((sign * Y - low) / scale)

    def _inverse(self, Z: np.ndarray, /) -> np.ndarray:
        sign, low, scale = map(np.asarray, (self.sign, self.low, self.scale))
        return sign * (low + scale * np.expm1(np.minimum(Z, np.asarray(self.high) + _BEYOND)))


@dataclass(frozen=True)
class RankTransform(TargetTransform):
    """Normal scores of the ranks; between knots by straight lines.

    Attributes
    ----------
    knots, scores : list of lists of float
        Of each target: values that grow, and what they become.
    """

    knots: list[list[float]]
    scores: list[list[float]]

    @classmethod
    def of(cls, Y: np.ndarray, /) -> Self:
        """Take quantiles of the targets for knots."""
        found = [_knots(column) for column in Y.T]
        return cls([knots.tolist() for knots, _ in found], [s.tolist() for _, s in found])

    def forward(self, Y: np.ndarray, /) -> np.ndarray:
        """Give normal scores of targets."""
        parts = zip(Y.T, self.knots, self.scores, strict=True)
        return np.stack([np.interp(y, knots, scores) for y, knots, scores in parts], axis=1)

    def _inverse(self, Z: np.ndarray, /) -> np.ndarray:
        parts = zip(Z.T, self.scores, self.knots, strict=True)
        return np.stack([np.interp(z, scores, knots) for z, scores, knots in parts], axis=1)


def _knots(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values that grow, and normal scores of their middle ranks."""
    values, counts = np.unique(y, return_counts=True)
    scores = ndtri((np.cumsum(counts) - 0.5 * counts) / len(y))
    chosen = np.unique(np.linspace(0, len(values) - 1, min(_KNOTS, len(values))).round())
    chosen = chosen.astype(np.int64)
    return values[chosen], scores[chosen]


KINDS: dict[str, type[TargetTransform]] = {"log": LogTransform, "rank": RankTransform}


def residual_quantiles(residuals: np.ndarray, /) -> np.ndarray:
    """Quantiles (q, t) of residuals (n, t), in the middle of equal shares."""
    shares = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    return np.quantile(residuals, shares, axis=0)


def transform_of(
    asked: str | None, samples: Samples, rng: np.random.RandomState, /
) -> TargetTransform | None:
    """Give the transform that is asked for; "auto" is the best of a quick fit, on rows held out."""
    if asked is None or samples.labels:
        return None
    Y = to_host(samples.Y).astype(np.float64)
    if asked != "auto":
        return KINDS[asked].of(Y)
    if len(samples) < 2 * _TRIED_ON or np.abs(_skewness(Y)).max() < _SKEWED:
        return None
    rows = np.sort(rng.permutation(len(samples))[:_ROWS])
    part = hosted(samples.taken(rows))
    best, lowest = None, (1.0 - _GAIN) * _error(None, part)
    for kind in KINDS.values():
        error = _error(kind.of(Y[rows]), part)
        if error < lowest:
            best, lowest = kind.of(Y), error
    return best


def _error(transform: TargetTransform | None, samples: Samples) -> float:
    """Error of a plain kernel ridge regression on rows held out, in the targets' own units."""
    scale = np.std(to_host(samples.Y), axis=0) + np.finfo(np.float64).tiny
    found, truth, weights = [], [], []
    for fold in split(samples, np.random.RandomState(0), _TRIED_ON):
        Y = to_host(fold.inside.Y)
        Y = Y if transform is None else transform.forward(Y)
        # Of the quick members it is the best: a weak one gains by ranks where the others lose
        model = KernelRidgeRegressor("manhattan_laplace", backend="numpy", random_state=0)
        model.fit(fold.inside.X, Y, sample_weight=fold.inside.weights)
        found.append(to_host(model.predict(fold.outside.X)).reshape(len(fold.outside), -1))
        truth.append(to_host(fold.outside.Y))
        w = fold.outside.weights
        weights.append(np.ones(len(fold.outside)) if w is None else w)
    F, Y, w = np.concatenate(found), np.concatenate(truth), np.concatenate(weights)
    if transform is not None:
        F = transform.mean(F, residual_quantiles(transform.forward(Y) - F))
    return float(w @ np.sum(((Y - F) / scale) ** 2, axis=1))


def _skewness(Y: np.ndarray) -> np.ndarray:
    spread = np.std(Y, axis=0) > 0
    return np.where(spread, skew(np.where(spread, Y, np.arange(len(Y))[:, None]), axis=0), 0.0)
