r"""One fit of kernel feature selection to variables and copies of them, which compete.

Rounds as of Algorithm 2', but only what is clear and heavy begins at τ while others are looked for,
and no weights are held in the descents. Nothing here tells a variable from its copies.
"""

from __future__ import annotations

import numpy as np

from gpukfl._results import Status
from gpukfl.methods._selection import FeatureSelection
from gpukfl.methods._selection_objective import Point, SelectionObjective

_ORDERS = 4  # random orders behind a threshold, each of as many columns as there are variables
_FALSE = 20  # columns that tell nothing and may enter a round: copies judge them later
_SHARE = 0.02  # of all columns, and no more than these
_AT_ONCE = 100  # columns that may enter in one round
_CLEAR = 1.2  # times the highest score of noise, which lets another round follow
_HEAVY = 0.2  # of the largest weight
_STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)


def competing_weights(
    algorithm: FeatureSelection,
    objective: SelectionObjective,
    n_variables: int,
    /,
    *,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, Status]:
    r"""Weigh variables and their copies in one fit.

    In a round γ is what the scores of some twenty columns would exceed that tell nothing, by the
    scores of columns in random orders of the samples: as many of either kind may enter, so that a
    selection by the weights sees how they compare. Another round follows one in which some column
    entered far beyond all of noise; it begins with such columns at τ, as in Algorithm 2', and ends
    with the weights of all that entered so far. At τ are only columns that weigh a fifth of the
    heaviest at least, and one of a variable and its copies: with more, the kernel would be so
    narrow that nothing else could help it.

    Parameters
    ----------
    algorithm : FeatureSelection
        Its `max_rounds` end the rounds, at the latest.
    objective : SelectionObjective
        J of the rows of p variables and, after them, of each of their κ copies.
    n_variables : int
        p, of which the columns of J are a multiple.
    rng : RandomState
        Draws orders of the samples, and variables to take γ from, on the host.

    Returns
    -------
    tuple of a host array and a Status
        Weights (κ + 1, p), of the variables first, and how the last descent ended.

    Raises
    ------
    ValueError
        If the columns of J are not a multiple of p, two at least.

    Notes
    -----
    A round takes a gradient by all columns, and four by p of them: O(n² κ p).
    """
    copies, rest = divmod(objective.n_variables, n_variables)
    if rest or copies < 2:
        msg = (
            f"expected columns of {n_variables} variables and of as many copies once or several "
            f"times, got {objective.n_variables} columns"
        )
        raise ValueError(msg)
    beta, status = np.zeros(objective.n_variables), Status.CONVERGED
    held = beta > 0
    for _ in range(algorithm.max_rounds):
        start = np.where(held, algorithm.anchor, 0.0)
        beta, status, clear = _round(algorithm, objective, start, beta, n_variables, rng)
        new = clear & _leading(beta, held, n_variables)
        if not new.any() or status in _STOPPED:
            break
        held = held | new
    return beta.reshape(copies, n_variables), status


def _round(
    algorithm: FeatureSelection,
    objective: SelectionObjective,
    start: np.ndarray,
    beta: np.ndarray,
    p: int,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, Status, np.ndarray]:
    """Give new weights, how the descent ended, and which columns entered that are no noise."""
    if start.any():
        objective.focus(start)
    point, free = objective.at(start), np.flatnonzero(start == 0)
    scores = np.zeros(len(start))
    scores[free] = -objective.gradient(point, free)
    gamma, highest = _noise(objective, point, p, rng)
    rivals = _highest(scores, gamma)
    if not rivals.any():
        return beta, Status.CONVERGED, rivals
    found = algorithm.select(objective, gamma, start, ~(rivals | (start > 0) | (beta > 0)))
    clear = (found.beta > 0) & (scores > _CLEAR * highest)
    return found.beta, found.status, clear


def _leading(beta: np.ndarray, held: np.ndarray, p: int) -> np.ndarray:
    """Whether each column is heavy, and the heaviest of a variable and its copies, none held."""
    weights = np.where(held.reshape(-1, p).any(axis=0), 0.0, beta.reshape(-1, p))
    heaviest = (weights == weights.max(axis=0)) & (weights > 0)
    return (heaviest & (weights >= _HEAVY * beta.max())).ravel()


def _noise(
    objective: SelectionObjective, point: Point, p: int, rng: np.random.RandomState
) -> tuple[float, float]:
    """Give γ, and the highest score, by random orders of the samples of some columns."""
    P, n = objective.n_variables, objective.X.shape[0]
    some = rng.choice(p, -(-p * p // P), replace=False)
    # With all their copies: which of them is the variable must not matter
    columns = np.sort((some[None, :] + np.arange(0, P, p)[:, None]).ravel())
    orders = (rng.permutation(n) for _ in range(_ORDERS))
    scores = -objective.gradients(point, columns, orders)
    share = min(_FALSE / P, _SHARE)
    gamma, highest = np.quantile(scores.ravel(), [1.0 - share, 1.0])
    return max(float(gamma), 0.0), max(float(highest), 0.0)


def _highest(scores: np.ndarray, gamma: float) -> np.ndarray:
    """Whether each score is above γ, and among the highest."""
    order = np.argsort(-scores, kind="stable")[:_AT_ONCE]
    rivals = np.zeros(len(scores), dtype=bool)
    rivals[order] = scores[order] > gamma
    return rivals
