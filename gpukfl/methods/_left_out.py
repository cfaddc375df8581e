"""Folds of rows within a problem, and ridges by rows that are left out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpukfl._array import Array
from gpukfl._draws import drawn
from gpukfl.methods._nystrom import NystromSystem
from gpukfl.methods._ridge_path import Fold, RidgePath

N_FOLDS = 5
FOLDS_BELOW = 1_000  # rows below which one held-out set is too small to choose by

_HELD_OUT = 20_000  # rows that are held out once, at most
_LEFT_OUT_UP_TO = 20  # rows to a centre up to which each is left out: GCV needs many


def folds(n: int, rng: np.random.RandomState, /) -> list[Fold]:
    """Draw host indices to hold out of n rows, ascending: in five folds where rows are few.

    Else a fifth of them once, or 20 000.
    """
    if n > N_FOLDS * _HELD_OUT:
        return [np.sort(drawn(rng, n, _HELD_OUT))]
    parts = [np.sort(part) for part in np.array_split(rng.permutation(n), min(N_FOLDS, n))]
    return parts if n < FOLDS_BELOW else parts[:1]


def left_out_path(
    system: NystromSystem, Y: Array, weights: Array | None, ridges: Sequence[float], /
) -> RidgePath:
    """Error along the ridges by leave-one-out, or by GCV where rows are many."""
    n, q = system.operator.shape
    if n <= _LEFT_OUT_UP_TO * q:
        return system.leave_one_out(Y, weights, ridges)
    return system.path(ridges)
