"""Rows that are held out, for every search over settings, and ridges by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.model_selection import KFold, ShuffleSplit

from gpukfl._array import Array, to_host
from gpukfl.estimators._copies import without_copies
from gpukfl.estimators._data import take
from gpukfl.methods import Fold, NystromSystem, RidgePath

N_FOLDS = 5
FOLDS_BELOW = 1_000  # rows below which one held-out set is too small to choose by

_LEFT_OUT_UP_TO = 20  # rows to a centre up to which each is left out: GCV needs many


def held_out_splits(
    X: Array, Y: Array, rng: np.random.RandomState, /, *, at_most: int, share: float
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows to fit and rows held out, as ascending host indices, among at most so many.

    Folds where rows are few, else one held-out `share`. Of copies in a memory map, where they are
    not yet one sample, one is drawn.
    """
    n = X.shape[0]
    rows = np.arange(n)
    if n > at_most:
        rows = np.sort(rng.choice(n, at_most, replace=False))
    rows = without_copies(X, to_host(take(Y, rows)), rows)
    splitter = (
        KFold(N_FOLDS, shuffle=True, random_state=rng)
        if len(rows) < FOLDS_BELOW
        else ShuffleSplit(1, test_size=share, random_state=rng)
    )
    for inside, outside in splitter.split(rows):
        yield rows[np.sort(inside)], rows[np.sort(outside)]


def folds(n: int, rng: np.random.RandomState, /) -> list[Fold]:
    """Split n rows by lot: five folds where they are few, else the first of these."""
    parts = [np.sort(part) for part in np.array_split(rng.permutation(n), min(N_FOLDS, n))]
    held_out = parts if n < FOLDS_BELOW else parts[:1]
    return [(np.setdiff1d(np.arange(n), part), part) for part in held_out]


def left_out_path(
    system: NystromSystem, Y: Array, weights: Array | None, ridges: Sequence[float], /
) -> RidgePath:
    """Error along the ridges by leave-one-out, or by GCV where rows are many."""
    n, q = system.operator.shape
    if n <= _LEFT_OUT_UP_TO * q:
        return system.leave_one_out(Y, weights, ridges)
    return system.path(ridges)
