"""The shift that makes a blend of quantiles the quantile of rows that its models have not seen.

Models fit the quantile of the rows that they have seen, and pull it to the middle of the targets:
of new rows a smaller share is below it. The level's quantile of the residuals of held-out rows says
by how much, and of all constants lowers the pinball loss of these rows the most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpukfl.losses import Quantile
from gpukfl.portfolio._attributes import OutOfFold
from gpukfl.portfolio._folds import HeldOutLoss
from gpukfl.portfolio._losses import MeanLoss
from gpukfl.tables._clusters import number_groups

_PARTS = 5  # of rows that one fold holds out


class Shift(NamedTuple):
    """What is added to a blend, and to what was held out."""

    shift: np.ndarray  # (t,), of new rows
    moves: np.ndarray  # (m, t), of each row by the rows of other folds


def has_shift(judge: HeldOutLoss, /) -> bool:
    """Return whether a blend that is judged so is shifted: whether it is of quantiles."""
    return isinstance(judge, MeanLoss) and isinstance(judge.loss, Quantile)


def learn_shift(judge: HeldOutLoss, kept: OutOfFold, /) -> Shift | None:
    """Return the shift of a blend of quantiles, and the moves of its held-out predictions.

    Parameters
    ----------
    judge : HeldOutLoss
        Of the blend.
    kept : OutOfFold
        Its predictions by models that have not seen the rows.

    Returns
    -------
    Shift or None
        None of other losses than quantiles, and where no other row says what a row's move is.
        O(K m log m) for m rows of K folds.
    """
    if not has_shift(judge):
        return None
    assert isinstance(judge, MeanLoss)
    some = kept.weights > 0
    parts = _find_parts(kept)
    if any(not (some & (parts != k)).any() for k in np.unique(parts)):
        return None

    def best_shift(rows: np.ndarray) -> np.ndarray:
        known = kept.truth[rows], kept.predicted[rows], kept.weights[rows]
        return judge.loss.best_shift(*known, judge.scale)

    moves = np.zeros_like(kept.truth)
    for k in np.unique(parts):
        moves[parts == k] = best_shift(some & (parts != k))
    return Shift(best_shift(some), moves)


def _find_parts(kept: OutOfFold) -> np.ndarray:
    """Return the fold of each row (m,); of one fold a part of it, by whole groups."""
    if kept.n_folds > 1:
        return kept.fold
    m = len(kept.fold)
    codes = np.arange(m) if kept.groups is None else number_groups(kept.groups)[0]
    return codes % _PARTS
