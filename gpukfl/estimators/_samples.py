"""Samples as an estimator is given them, before they are placed: weighed, split, and taken."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.model_selection import (
    KFold,
    ShuffleSplit,
    StratifiedKFold,
    StratifiedShuffleSplit,
)

from gpukfl._array import Array, array_namespace, lies_in_parts, take, to_host
from gpukfl._draws import drawn
from gpukfl._passes import map_rows, take_together
from gpukfl.estimators._copies import copies_of, total_weights, without_copies
from gpukfl.estimators._validation import validate_weights
from gpukfl.methods import FOLDS_BELOW, N_FOLDS

_WEIGHT_BITS = 33  # of a weight's mantissa
_OF_A_CLASS = 2  # samples, of which trees that are stopped early need one to judge


@dataclass(frozen=True)
class Splits:
    """How rows are held out to judge settings.

    Attributes
    ----------
    at_most : int
        Rows that settings are chosen on.
    folds_below : int
        Rows below which there are folds, for one held-out set is too small to choose by.
    n_folds : int
        As many, or as many as rows.
    share : float
        Of the rows, otherwise held out once.
    fewest : int
        Rows with which anything is held out.
    judges : int or None
        Held-out rows that are enough: no more folds are used than these take.
    """

    at_most: int = 20_000
    folds_below: int = FOLDS_BELOW
    share: float = 0.2
    fewest: int = 20
    judges: int | None = None
    n_folds: int = N_FOLDS


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows, targets and weights, of whatever library they came in.

    Attributes
    ----------
    X : array, shape (n, d)
        Rows; a memory map stays one.
    Y : array, shape (n, t)
        Targets, or indicators of classes: of two classes the second's alone.
    weights : host array, shape (n,), or None
        Of mean 1 where they are positive; None where all are equal. Where the rows of `X` lie in
        parts, theirs do.
    labels : bool
        Whether the targets are indicators of classes.
    """

    X: Array
    Y: Array
    weights: np.ndarray | None
    labels: bool = False

    @classmethod
    def of(cls, X: Array, Y: Array, sample_weight: Any, /, *, labels: bool) -> Self:
        """Validate the weights, leave out samples without, and let copies of one count as weight.

        Not of a memory map, of which this would be a copy: there they stay in. A common factor of
        the weights says nothing. Copies are one sample, so that leaving it out of a fit, by itself
        or with a fold, leaves out all of them.
        """
        weights = validate_weights(sample_weight, X)
        if lies_in_parts(X):
            return cls(X, Y, None if weights is None else _relative_in_parts(weights), labels)
        if weights is not None and np.any(weights == 0) and not isinstance(X, np.memmap):
            rows = np.flatnonzero(weights)
            X, Y, weights = take(X, rows), take(Y, rows), weights[rows]
        found = copies_of(X, to_host(Y))
        if found is not None:
            firsts, group = found
            X, Y, weights = take(X, firsts), take(Y, firsts), total_weights(group, weights)
        return cls(X, Y, relative_weights(weights), labels)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_effective(self) -> float:
        """Kish's number: of samples of equal weight, of which a mean is as certain."""
        if self.weights is None:
            return float(len(self))
        xp = array_namespace(self.weights)
        w = self.weights / xp.max(self.weights)
        return float(xp.sum(w) ** 2 / xp.sum(w * w))

    @cached_property
    def classes(self) -> np.ndarray | None:
        """Class of every sample (n,), on the host, where the targets say of classes."""
        if not self.labels:
            return None
        Y = self.Y
        if not lies_in_parts(Y):
            return _classes_of(to_host(Y))
        there = map_rows(
            Y, lambda a, b: _classes_of(to_host(Y[a:b, :])), columns=(), dtype=np.int64
        )
        return to_host(take(there, np.arange(len(self))))

    def taken(self, rows: np.ndarray | slice, /) -> Samples:
        """Those at host indices, or a slice of a memory map, as they are."""
        X, Y, weights = take_together(rows, self.X, self.Y, self.weights)
        return Samples(X, Y, None if weights is None else to_host(weights), self.labels)

    def draw(self, count: int, rng: np.random.RandomState, /) -> Samples:
        """Draw some samples, and two of each class where it has them, in their order."""
        n, codes = len(self), self.classes
        if count >= n:
            return self
        rows = rng.choice(n, count, replace=False)
        if codes is not None:
            counts = np.bincount(codes[rows], minlength=int(codes.max()) + 1)
            rare = np.flatnonzero(counts < _OF_A_CLASS)
            found = [np.flatnonzero(codes == k)[:_OF_A_CLASS] for k in rare]
            rows = np.union1d(rows, np.concatenate([rows[:0], *found]))
        return self.taken(np.sort(rows))

    def splits(self, rng: np.random.RandomState, how: Splits, /) -> list[tuple[Samples, Samples]]:
        """Give samples to fit and samples held out.

        Folds where they are few, else one held-out share; of every class its share, where it has
        a sample for each fold. Of copies in a memory map, where they are not yet one sample, one
        is drawn.
        """
        n, few = len(self), how.at_most
        rows = np.arange(n) if n <= few else np.sort(drawn(rng, n, few))
        if lies_in_parts(self.X):  # all at once
            return self.taken(rows).splits(rng, how)
        Y = to_host(take(self.Y, rows))
        rows = without_copies(self.X, Y, rows)
        classes = None if not self.labels else _classes_of(to_host(take(self.Y, rows)))
        k = min(how.n_folds, len(rows))
        sizes = np.zeros(1) if classes is None else np.unique(classes, return_counts=True)[1]
        if len(rows) < how.folds_below:
            folds = StratifiedKFold if sizes.min() >= k else KFold
            splitter = folds(k, shuffle=True, random_state=rng)
        else:
            held_out = math.ceil(how.share * len(rows))
            both = min(held_out, len(rows) - held_out) >= len(sizes)
            once = StratifiedShuffleSplit if both and sizes.min() >= max(k, 2) else ShuffleSplit
            splitter = once(1, test_size=how.share, random_state=rng)
        splits = list(splitter.split(rows, None if classes is None else by_appearance(classes)))
        if how.judges is not None:
            splits = splits[: math.ceil(how.judges / len(splits[0][1]))]
        return [
            (self.taken(rows[np.sort(inside)]), self.taken(rows[np.sort(outside)]))
            for inside, outside in splits
        ]


def by_appearance(classes: np.ndarray, /) -> np.ndarray:
    """Give classes (n,) numbers by where they are first: their names have no part in a split."""
    _, first, codes = np.unique(classes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def _classes_of(Y: np.ndarray, /) -> np.ndarray:
    """Classes (n,) of indicators (n, t), which of two classes are the second's."""
    return Y.argmax(axis=1) if Y.shape[1] > 1 else (Y[:, 0] > 0.5).astype(np.int64)


def relative_weights(weights: np.ndarray | None, /) -> np.ndarray | None:
    """Give weights (n,) of mean 1 where they are positive; None where all are equal.

    To ten digits, so that rounding of another common factor cannot choose another model.
    """
    if weights is None or np.all(weights == weights[0]):
        return None
    shares = weights / weights.max()
    return _to_ten_digits(shares / np.mean(shares[shares > 0]))


def _relative_in_parts(weights: Any, /) -> Any:
    """Do so with weights that lie in parts."""
    xp = array_namespace(weights)
    largest, least = float(xp.max(weights)), float(xp.min(weights))
    if largest == least:
        return None
    mean = float(xp.sum(weights / largest)) / float(xp.sum(weights > 0))

    def part(start: int, stop: int) -> np.ndarray:
        return _to_ten_digits(to_host(weights[start:stop]) / largest / mean)

    return map_rows(weights, part, columns=(), dtype=np.float64)


def _to_ten_digits(weights: np.ndarray, /) -> np.ndarray:
    mantissa, exponent = np.frexp(weights)
    return np.ldexp(np.round(np.ldexp(mantissa, _WEIGHT_BITS)), exponent - _WEIGHT_BITS)
