"""Weights of a blend by greedy selection with replacement."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

STEPS = 50
_TIE = 1e-12  # share of a loss by which rounding may part equals


def greedy_weights(
    predictions: Sequence[np.ndarray],
    loss: Callable[[np.ndarray], float],
    /,
    *,
    steps: int = STEPS,
) -> np.ndarray:
    """Choose members one by one, each as often as it lowers the loss of the mean prediction.

    Parameters
    ----------
    predictions : sequence of arrays, shape (n, t)
        Of every member, for rows that it has not seen.
    loss : callable
        Of a mean of predictions, to be made small.
    steps : int
        Members that are chosen, with replacement.

    Returns
    -------
    array, shape (n_members,)
        Weights, summing to 1: how often each member is among the first ones chosen, cut where the
        loss was lowest. Of members that are as good one is taken that is in already, or the first.

    Raises
    ------
    ValueError
        If there is no member, or none has a finite loss.

    Notes
    -----
    ``steps * n_members`` evaluations of the loss.

    References
    ----------
    .. [1] Caruana, Niculescu-Mizil, Crew and Ksikes, "Ensemble selection from libraries of
       models", ICML 2004, Sections 2.1 and 2.2.
    """
    counts = np.zeros(len(predictions), dtype=np.int64)
    best, lowest = None, np.inf
    total: np.ndarray | float = 0.0
    for k in range(1, steps + 1):
        losses = np.asarray([loss((total + one) / k) for one in predictions])
        chosen = _smallest(losses, counts)
        if chosen is None:
            break
        total = total + predictions[chosen]
        counts[chosen] += 1
        if losses[chosen] < lowest * (1.0 - _TIE):
            best, lowest = counts.copy(), losses[chosen]
    if best is None:
        msg = "expected a member whose predictions have a finite loss, got none"
        raise ValueError(msg)
    return best / best.sum()


def _smallest(losses: np.ndarray, counts: np.ndarray) -> int | None:
    """Give the member of the smallest loss; one that is in already, of equal ones."""
    finite = np.where(np.isfinite(losses), losses, np.inf)
    lowest = finite.min(initial=np.inf)
    if not np.isfinite(lowest):
        return None
    equal = finite <= lowest + _TIE * abs(lowest)
    return int(np.argmax(2 * equal + (equal & (counts > 0))))
