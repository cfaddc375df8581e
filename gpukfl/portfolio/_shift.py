"""The shift that makes a blend of quantiles hold for new rows.

Models of a quantile are pulled to the middle of the targets that they are fitted to: of new rows, a
smaller share is below. The level's quantile of held-out residuals corrects this. Of all constants,
it lowers the pinball loss of these rows most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpukfl.losses import Quantile
from gpukfl.portfolio._attributes import OutOfFold
from gpukfl.portfolio._folds import HeldOutLoss
from gpukfl.portfolio._losses import MeanLoss
from gpukfl.tables._clusters import number_groups

_PARTS = 5  # of the rows, if there is one fold


class Shift(NamedTuple):
    """The shift of a blend, and the moves of its held-out predictions."""

    shift: np.ndarray  # (t,), from all held-out rows
    moves: np.ndarray  # (m, t), from the held-out rows of other folds


def has_shift(judge: HeldOutLoss, /) -> bool:
    """Return whether blends with this loss are shifted: whether it is that of a quantile."""
    return isinstance(judge, MeanLoss) and isinstance(judge.loss, Quantile)


def learn_shift(judge: HeldOutLoss, kept: OutOfFold, /) -> Shift | None:
    """Return the shift of a blend of quantiles, and the moves of its held-out predictions.

    Parameters
    ----------
    judge : HeldOutLoss
        Loss of the blend.
    kept : OutOfFold
        Held-out predictions of the blend.

    Returns
    -------
    Shift or None
        None for other losses than quantiles, and if a fold has no other rows that give its move.
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
    """Return the fold of each row (m,); for one fold, one of five parts of whole groups."""
    if kept.n_folds > 1:
        return kept.fold
    m = len(kept.fold)
    codes = np.arange(m) if kept.groups is None else number_groups(kept.groups)[0]
    return codes % _PARTS
