"""Folds of rows within a problem, and ridges by rows that are left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpukfl._array import Array
from gpukfl.methods._nystrom import NystromSystem
from gpukfl.methods._ridge_path import Fold, RidgePath

N_FOLDS = 5
FOLDS_BELOW = 1_000  # rows below which one held-out set is too small to choose by

_LEFT_OUT_UP_TO = 20  # rows to a centre up to which each is left out: GCV needs many


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
