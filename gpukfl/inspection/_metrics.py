"""Metrics of predictions, and what each row adds to them.

Each metric returns its value, and of every row what it adds to the value's deviation from that of
all rows there are: the influences. Their squares sum to the squared standard error, as the rows are
a sample and the model is fixed (the delta method, or infinitesimal jackknife). What rows of one
group add is summed before it is squared, as their errors may go together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Self

import numpy as np

from gpukfl.losses import Loss

Measured = tuple[float, np.ndarray]
_FEWEST = 2  # rows or groups that tell an error
_CLOSEST = np.finfo(np.float64).eps  # to 0, of a probability whose logarithm is taken


def _mean(losses: np.ndarray, weights: np.ndarray) -> Measured:
    """Return the weighted mean of numbers (n,)."""
    shares = weights / weights.sum()
    value = float(shares @ losses)
    return value, shares * (losses - value)


def r2(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, /) -> Measured:
    """R², averaged over targets; NaN of fewer than two rows, as scikit-learn."""
    if np.count_nonzero(weights) < _FEWEST:
        return np.nan, np.full(len(truth), np.nan)
    squares = (truth - predicted) ** 2
    spread = (truth - np.average(truth, axis=0, weights=weights)) ** 2
    error, total = weights @ squares, weights @ spread
    varies = (total > 0) & (np.ptp(truth, axis=0) > 0)
    left = error / np.where(varies, total, 1.0)
    values = np.where(varies, 1.0 - left, np.where(error > 0, 0.0, 1.0))
    scaled = (squares - left * spread) / np.where(varies, total, np.inf)
    return float(values.mean()), -weights * scaled.mean(axis=1)


def d2(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, loss: Loss, /) -> Measured:
    """D²: the share of the best constant's loss that is saved, averaged over targets."""
    scale = loss.scale(truth, weights)
    constant = np.broadcast_to(loss.constant(truth, weights, scale), truth.shape)
    own, least = (
        weights[:, None] * np.asarray(loss.losses(truth, one, scale))
        for one in (predicted, constant)
    )
    if not least.any(axis=0).all():
        return np.nan, np.full(len(truth), np.nan)
    pairs = [ratio_influence(own[:, k], least[:, k]) for k in range(truth.shape[1])]
    values, influences = zip(*pairs, strict=True)
    return 1.0 - float(np.mean(values)), -np.mean(influences, axis=0)


def rmse(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, /) -> Measured:
    """Root of the mean squared error, averaged over targets."""
    shares = weights / weights.sum()
    squares = (truth - predicted) ** 2
    means = shares @ squares
    roots = np.sqrt(means)
    slopes = 0.5 / np.where(roots > 0, roots, np.inf)
    return float(roots.mean()), shares * ((squares - means) * slopes).mean(axis=1)


def mae(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, /) -> Measured:
    """Mean absolute error, averaged over targets."""
    return _mean(np.abs(truth - predicted).mean(axis=1), weights)


def mean_loss(
    truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, loss: Loss, /
) -> Measured:
    """Mean of a loss, averaged over targets."""
    scale = loss.scale(truth, weights)
    return _mean(np.asarray(loss.losses(truth, predicted, scale)).mean(axis=1), weights)


def log_loss(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, /) -> Measured:
    """Mean of the negative logarithm of the true class's probability."""
    of_true = np.clip(np.sum(truth * predicted, axis=1), _CLOSEST, 1.0 - _CLOSEST)
    return _mean(-np.log(of_true), weights)


def accuracy(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, /) -> Measured:
    """Share of rows whose true class has the largest probability."""
    hits = np.argmax(predicted, axis=1) == np.argmax(truth, axis=1)
    return _mean(hits.astype(np.float64), weights)


def balanced_accuracy(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, /) -> Measured:
    """Mean over classes of the share of their rows that are classified correctly."""
    codes = np.argmax(truth, axis=1)
    hits = (np.argmax(predicted, axis=1) == codes).astype(np.float64)
    totals = weights @ truth
    there = totals > 0
    recalls = ((weights * hits) @ truth) / np.where(there, totals, 1.0)
    parts = weights * (hits - recalls[codes]) / np.where(there, totals, np.inf)[codes]
    return float(recalls[there].mean()), parts / np.count_nonzero(there)


def brier(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, /) -> Measured:
    """Mean squared error of the second of two classes' probability; of more the sum over them."""
    squares = np.sum((truth - predicted) ** 2, axis=1)
    return _mean(0.5 * squares if truth.shape[1] == 2 else squares, weights)


def roc_auc(truth: np.ndarray, predicted: np.ndarray, weights: np.ndarray, /) -> Measured:
    """Area under the ROC curve of the second of two classes; of more the mean, one versus rest.

    NaN where no class has rows beside others.
    """
    found = [_area(truth[:, k] > 0, predicted[:, k], weights) for k in _judged_classes(truth)]
    if not found:
        return np.nan, np.full(len(truth), np.nan)
    values, influences = zip(*found, strict=True)
    return float(np.mean(values)), np.mean(influences, axis=0)


def area_of_targets(truth: np.ndarray, weights: np.ndarray, /) -> Callable[[np.ndarray], float]:
    """Return a function of predictions (n, k) with the value of `roc_auc`, without influences.

    It takes a sixth of the time: it sorts the scores of each class's rows and of the others, and
    counts pairs by a search. O(n k log n) a call.
    """
    areas = [(k, _Area.of(truth[:, k] > 0, weights)) for k in _judged_classes(truth)]

    def value(predicted: np.ndarray) -> float:
        return float(np.mean([one.value(predicted[:, k]) for k, one in areas] or [np.nan]))

    return value


def _judged_classes(truth: np.ndarray) -> list[int]:
    """Return the classes whose areas are averaged: those that have rows beside others."""
    count = truth.shape[1]
    asked = [1] if count == 2 else range(count)
    return [k for k in asked if 0 < np.count_nonzero(truth[:, k]) < len(truth)]


class _Area(NamedTuple):
    """Rows of a class and the others, whose scores are compared pair by pair as in `_area`."""

    own: np.ndarray
    others: np.ndarray
    own_weights: np.ndarray | None  # None where all are equal
    other_weights: np.ndarray | None

    @classmethod
    def of(cls, is_true: np.ndarray, weights: np.ndarray, /) -> Self:
        own, others = np.flatnonzero(is_true), np.flatnonzero(~is_true)
        vary = bool(np.ptp(weights))
        return cls(own, others, *((weights[own], weights[others]) if vary else (None, None)))

    def value(self, scores: np.ndarray, /) -> float:
        """Return the share of pairs in which the row of the class has the larger score."""
        own, others = scores[self.own], scores[self.others]
        if self.own_weights is None or self.other_weights is None:
            own.sort()
            others.sort()
            below, ties = _count_below(own, others)
            return (float(below.sum()) + 0.5 * float(ties.sum())) / (len(own) * len(others))
        order = np.argsort(others)
        sums = np.concatenate([[0.0], np.cumsum(self.other_weights[order])])
        below, ties = _count_below(own, others[order])
        places = 0.5 * (sums[below] + sums[below + ties])
        total = float(self.own_weights.sum() * sums[-1])
        return float(self.own_weights @ places) / total if total else np.nan


def _count_below(scores: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count the sorted others (m,) that are smaller than each score (n,), and those that equal."""
    below = np.searchsorted(others, scores)
    ties = np.zeros(len(scores), dtype=below.dtype)
    tied = np.flatnonzero(others[np.minimum(below, len(others) - 1)] == scores)
    ties[tied] = np.searchsorted(others, scores[tied], "right") - below[tied]
    return below, ties


def _area(is_true: np.ndarray, scores: np.ndarray, weights: np.ndarray) -> Measured:
    """Return the area under the curve by ranks, where ties count half (DeLong's placements)."""
    _, rank = np.unique(scores, return_inverse=True)
    rank = rank.reshape(-1)
    own = [np.bincount(rank, weights * side, rank.max() + 1) for side in (~is_true, is_true)]
    below, above = np.cumsum(own[0]) - 0.5 * own[0], own[1].sum() - np.cumsum(own[1]) + 0.5 * own[1]
    totals = own[0].sum(), own[1].sum()
    if not all(totals):
        return np.nan, np.full(len(scores), np.nan)
    places = np.where(is_true, below[rank] / totals[0], above[rank] / totals[1])
    shares = weights / np.where(is_true, totals[1], totals[0])
    value = float((shares * places)[is_true].sum())
    return value, shares * (places - value)


def influence_error(influence: np.ndarray, groups: np.ndarray | None = None, /) -> float:
    """Return the standard error of a score, by what each row (n,) adds to it, in sum 0.

    With groups (n,), given as codes, it is that of a sample of groups; NaN of fewer than two.
    """
    if groups is not None:
        influence = np.bincount(np.unique(groups, return_inverse=True)[1].ravel(), influence)
    count = len(influence)
    if count < _FEWEST:
        return math.nan
    return math.sqrt(count / (count - 1.0) * float(influence @ influence))


def ratio_influence(above: np.ndarray, below: np.ndarray, /) -> tuple[float, np.ndarray]:
    """Return a ratio of two sums over rows, and what each row adds to it."""
    total = float(below.sum())
    ratio = float(above.sum()) / total
    return ratio, (above - ratio * below) / total
