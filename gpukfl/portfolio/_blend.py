"""Weights of a blend by greedy selection with replacement, drawn to equal ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

STEPS = 50
# Chosen by cross-validation on training rows of 17 sets: greedy weights of few rows follow noise.
# Of more rows it fades as a prior does, which counts as so many rows
_EVENNESS = 0.1
_PRIOR_ROWS = 40.0
_TIE = 1e-12  # share of a loss by which rounding may part equals


def greedy_weights(
    predictions: Sequence[np.ndarray],
    loss: Callable[[np.ndarray], float],
    /,
    *,
    steps: int = STEPS,
    evenness: float = 0.0,
) -> np.ndarray:
    r"""Choose members one by one, each as often as it lowers the loss of the mean prediction.

    Parameters
    ----------
    predictions : sequence of arrays, shape (n, t)
        Of every member, for rows that it has not seen.
    loss : callable
        Of a mean of predictions, to be made small.
    steps : int
        Members that are chosen, with replacement.
    evenness : float
        What weights w of m members cost beside their loss: so many times the smallest loss of a
        member, times :math:`\|w - 1/m\|^2`. So a member that is far better than the others keeps
        all weight.

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
    smallest = min((x for x in map(loss, predictions) if np.isfinite(x)), default=0.0)
    for k in range(1, steps + 1):
        losses = np.asarray([loss((total + one) / k) for one in predictions])
        losses += evenness * abs(smallest) * _unevenness(counts, k)
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


def blend_weights(
    predictions: Sequence[np.ndarray], loss: Callable[[np.ndarray], float], n: float, /
) -> np.ndarray:
    """Give greedy weights that are drawn to equal ones, the less the more rows there are.

    Parameters
    ----------
    predictions, loss
        As of `greedy_weights`.
    n : float
        Rows; where they have weights, of so many of equal weight a mean is as certain.

    Returns
    -------
    array, shape (n_members,)
        Weights, summing to 1; each is 0 or at least 0.02, one of 50 steps.

    Raises
    ------
    ValueError
        If there is no member, or none has a finite loss.
    """
    return greedy_weights(predictions, loss, evenness=min(_EVENNESS, _PRIOR_ROWS / max(n, 1.0)))


def _unevenness(counts: np.ndarray, k: int) -> np.ndarray:
    """Squared distance of weights from equal ones, when each of the members is chosen next."""
    tried = (counts + np.eye(len(counts))) / k
    return np.sum((tried - 1.0 / len(counts)) ** 2, axis=1)


def _smallest(losses: np.ndarray, counts: np.ndarray) -> int | None:
    """Give the member of the smallest loss; one that is in already, of equal ones."""
    finite = np.where(np.isfinite(losses), losses, np.inf)
    lowest = finite.min(initial=np.inf)
    if not np.isfinite(lowest):
        return None
    equal = finite <= lowest + _TIE * abs(lowest)
    return int(np.argmax(2 * equal + (equal & (counts > 0))))
