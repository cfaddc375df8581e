r"""One fit of kernel feature selection on variables and copies of them, which compete.

Rounds as of Algorithm 2' on all columns, each with those that score highest. At the end the
weights of all that entered are relearned together, without a penalty: what is compared with what a
copy got. Nothing here may tell a variable from its copies.
"""

from __future__ import annotations

import numpy as np

from gpukfl._results import Status
from gpukfl.methods._selection import FeatureSelection, permutation_threshold
from gpukfl.methods._selection_objective import SelectionObjective

_ORDERS = 4  # random orders behind a threshold, of as many columns as there are variables
_AT_ONCE = 100  # columns that may enter in one round
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

    A column enters a round where its score exceeds all those of some columns in random orders of
    the samples, four times as many as there are variables, and where Algorithm 1' gives it weight.

    Parameters
    ----------
    algorithm : FeatureSelection
        Its `max_rounds` end the rounds, at the latest.
    objective : SelectionObjective
        J of n rows of the variables and, after them, of each of their copies.
    n_variables : int
        p, of which the columns of J are a multiple.
    rng : RandomState
        Draws orders of the samples, and variables to take thresholds from, on the host.

    Returns
    -------
    tuple of a host array and a Status
        Weights (κ + 1, p), of the variables first, and how the fit ended.

    Notes
    -----
    A gradient of all columns a round, and half of one for its threshold: O(n² κ p).
    """
    held, status = np.zeros(objective.n_variables, dtype=bool), Status.CONVERGED
    for _ in range(algorithm.max_rounds):
        entered, status = _round(algorithm, objective, n_variables, held, rng)
        held[entered] = True
        if not len(entered) or status in _STOPPED:
            break
    start = np.where(held, algorithm.anchor, 0.0)
    if held.any() and status not in _STOPPED:
        objective.focus(start)
        last = algorithm.select(objective, 0.0, start, ~held)
        start, status = last.beta, last.status
    return start.reshape(-1, n_variables), status


def _round(
    algorithm: FeatureSelection,
    objective: SelectionObjective,
    p: int,
    held: np.ndarray,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, Status]:
    """Give the columns that enter beside those held at τ, and how the descent ended."""
    start, free = np.where(held, algorithm.anchor, 0.0), np.flatnonzero(~held)
    if held.any():
        objective.focus(start)
    point = objective.at(start)
    scores = np.zeros(len(held))
    scores[free] = -objective.gradient(point, free)
    some = _columns_of_some(p, len(held), rng)
    gamma = permutation_threshold(objective, point, some, n_permutations=_ORDERS, rng=rng)
    rivals = _highest(scores, gamma)
    if not rivals.any():
        return np.zeros(0, dtype=np.int64), Status.CONVERGED
    found = algorithm.select(objective, gamma, start, ~rivals)
    return found.rounds[0].entered, found.status


def _columns_of_some(p: int, P: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw variables with all their copies, about p columns in all."""
    drawn = rng.choice(p, -(-p * p // P), replace=False)
    return np.sort((drawn[None, :] + np.arange(0, P, p)[:, None]).ravel())


def _highest(scores: np.ndarray, gamma: float) -> np.ndarray:
    """Whether each score is above γ, and among the highest."""
    order = np.argsort(-scores, kind="stable")[:_AT_ONCE]
    rivals = np.zeros(len(scores), dtype=bool)
    rivals[order] = scores[order] > gamma
    return rivals
