"""Folds that all members share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpukfl._array import to_host
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.portfolio._judges import Judge, LogLoss, SquaredError, target_scale
from gpukfl.portfolio._members import Member

MANY, _FOLDS_BELOW = 2_000, 20_000
_MOST_FOLDS, _FEW_FOLDS, _HASTY_FOLDS = 8, 5, 3
_QUICK_FOLDS, _FEW_QUICK_FOLDS = 4, 2
HALF_ENOUGH = 1_000  # rows from which half of them are enough to fit, where it is quick
_WIDE = 300  # columns up to which a row takes a member about as long
_HASTE = 5e-3  # seconds a row below which many rows have no time for folds
_SHARE, _MOST_HELD_OUT = 0.2, 20_000  # of the rows, that are held out once
FEWEST = 2  # rows that are split at all
FEW = 4  # rows below which a fold leaves too few to fit


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows that a member is fitted to, and rows that judge it."""

    inside: Samples
    outside: Samples

    def transformed(self, forward: Callable[[np.ndarray], np.ndarray], /) -> Fold:
        """Give the same with other targets, of NumPy."""
        inside, outside = (
            replace(part, Y=forward(to_host(part.Y).astype(np.float64)))
            for part in (self.inside, self.outside)
        )
        return Fold(inside, outside)

    @property
    def source(self) -> Fold:
        """The rows as they were split."""
        return self

    def seen_by(self, member: Member, /) -> Fold:
        """Give the rows as a member takes them."""
        return self if member.takes_any_library else self.on_host

    @cached_property
    def on_host(self) -> Fold:
        """The same in NumPy, for members that know no other library."""
        return Fold(hosted(self.inside), hosted(self.outside))


def hosted(samples: Samples, /) -> Samples:
    """Give samples as NumPy arrays."""
    X, Y = to_host(samples.X), to_host(samples.Y)
    return Samples(np.asarray(X), Y, samples.weights, samples.labels)


def n_folds_of(n: int, d: int = 1, /, max_time: float | None = None, *, quick: bool = False) -> int:
    """Say how many folds rows are split into; 1 is one held-out part.

    They are fewer where there is little time: more members, fitted to as many rows, say more. Rows
    of many columns take longer in proportion. One
    part takes longer than two folds, of 2000 to 4000 rows: to learn a metric of four fifths of the
    rows takes four times as long as of a half.
    """
    each = math.inf if max_time is None else max_time / n / max(d / _WIDE, 1.0)
    if n >= _FOLDS_BELOW or (n >= MANY and each < _HASTE):
        return 1
    if quick and n >= HALF_ENOUGH:
        return _FEW_QUICK_FOLDS
    if n >= MANY:
        return _FEW_FOLDS
    if d > _WIDE and each < _HASTE / 4.0:
        return _FEW_QUICK_FOLDS
    if each < 2.0 * _HASTE:
        return _HASTY_FOLDS
    return _QUICK_FOLDS if quick else _MOST_FOLDS


def split(samples: Samples, rng: np.random.RandomState, n_folds: int, /) -> list[Fold]:
    """Split samples into folds, or hold out one part of at most 20 000 rows.

    Every class has its share in each part, where it has a row for each. Copies are one sample by
    then, so that they are on one side.

    Raises
    ------
    ValueError
        If there is one row only.
    """
    n = len(samples)
    if n < FEWEST:
        msg = f"expected at least {FEWEST} different samples, of which some are held out, got {n}"
        raise ValueError(msg)
    how = Splits(
        at_most=n,
        folds_below=n + 1 if n_folds > 1 else 0,
        share=min(_SHARE, _MOST_HELD_OUT / n),
        n_folds=n_folds,
    )
    return [Fold(inside, outside) for inside, outside in samples.splits(rng, how)]


def judge_of(folds: Sequence[Fold], samples: Samples, n_classes: int, /) -> Judge:
    """Make the judge of all rows that are held out."""
    truth = np.concatenate([to_host(fold.outside.Y).astype(np.float64) for fold in folds])
    weights = [fold.outside.weights for fold in folds]
    sizes = [len(fold.outside) for fold in folds]
    w = np.concatenate(
        [np.ones(m) if one is None else one for one, m in zip(weights, sizes, strict=True)]
    )
    if n_classes:
        if truth.shape[1] == 1 and n_classes == 2:
            truth = np.concatenate([1.0 - truth, truth], axis=1)
        return LogLoss(truth, w)
    Y = to_host(samples.Y).astype(np.float64)
    return SquaredError(truth, w, target_scale(Y, samples.weights))
