"""Weights of a blend by greedy selection with replacement, and their mean over bags."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

STEPS = 50
_BAGS = 20
_BAG_STEPS = 20  # more change nothing
_SHARE = 0.5  # of the members, in a bag
_LEAST = 0.02  # weight that is worth the time of predictions
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


def bagged_weights(
    predictions: Sequence[np.ndarray],
    losses: Callable[[np.ndarray], np.ndarray],
    rng: np.random.RandomState,
    /,
    *,
    bags: int = _BAGS,
) -> np.ndarray:
    """Average greedy weights over draws of half of the members and of as many rows.

    Parameters
    ----------
    predictions : sequence of arrays, shape (n, t)
        Of every member, for rows that it has not seen.
    losses : callable
        Of each row (n,), for a mean of predictions.
    rng : RandomState
        Draws members and rows.
    bags : int
        How often.

    Returns
    -------
    array, shape (n_members,)
        Weights, summing to 1; none is below 0.02.

    Raises
    ------
    ValueError
        If no member has a finite loss.

    Notes
    -----
    Greedy weights of few rows follow their noise: the mean over bags is of more members, and does
    better on new rows. `bags` times the cost of half of the members.

    References
    ----------
    .. [1] Caruana, Niculescu-Mizil, Crew and Ksikes, "Ensemble selection from libraries of
       models", ICML 2004, Section 2.3.
    """
    rows = [losses(one) for one in predictions]
    usable = [k for k, one in enumerate(rows) if np.isfinite(one).all()]
    if not usable:
        msg = "expected a member whose predictions have a finite loss, got none"
        raise ValueError(msg)
    total, n = np.zeros(len(predictions)), len(rows[0])
    count = max(min(2, len(usable)), math.ceil(_SHARE * len(usable)))
    for _ in range(bags):
        drawn = np.bincount(rng.randint(n, size=n), minlength=n).astype(np.float64)
        bag = np.sort(rng.choice(usable, count, replace=False))
        total[bag] += greedy_weights(
            [predictions[k] for k in bag],
            lambda mean, drawn=drawn: float(drawn @ losses(mean)),
            steps=_BAG_STEPS,
        )
    total[total < _LEAST * bags] = 0.0
    return total / total.sum()


def _smallest(losses: np.ndarray, counts: np.ndarray) -> int | None:
    """Give the member of the smallest loss; one that is in already, of equal ones."""
    finite = np.where(np.isfinite(losses), losses, np.inf)
    lowest = finite.min(initial=np.inf)
    if not np.isfinite(lowest):
        return None
    equal = finite <= lowest + _TIE * abs(lowest)
    return int(np.argmax(2 * equal + (equal & (counts > 0))))
