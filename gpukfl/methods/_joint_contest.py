r"""Two fits in which variables compete with copies of them: a kernel's and a linear one.

Nothing here tells a variable from its copies, so that which fits count may hang on the data.
"""

from __future__ import annotations

import numpy as np

from gpukfl._array import Array, array_namespace, index_like, like, to_host
from gpukfl._results import Status
from gpukfl.methods._linear_contest import StandardColumns, linear_weights
from gpukfl.methods._selection import FeatureSelection
from gpukfl.methods._selection_contest import competing_weights
from gpukfl.methods._selection_objective import SelectionObjective

_ORDERS = 20
_SHARE = 1 / 3  # of the rows: columns that least squares take, at most
_NOTHING = 1e-12  # relative: residuals of an exact fit


def competing_fits(
    algorithm: FeatureSelection,
    objective: SelectionObjective,
    n_variables: int,
    /,
    *,
    rng: np.random.RandomState,
) -> tuple[list[np.ndarray], Status]:
    r"""Weigh variables and their copies by a kernel and by a Lasso.

    The kernel counts where it explains what is not linear: where, at its weights β, it fits
    residuals of least squares better than each of twenty random orders of them. Where it does not,
    all that there is to find is linear, and weights inside a kernel only blur the Lasso's.

    Parameters
    ----------
    algorithm : FeatureSelection
        As of `competing_weights`.
    objective : SelectionObjective
        J of the rows of p variables and, after them, of each of their κ copies.
    n_variables : int
        p.
    rng : RandomState
        Draws orders of the rows, and variables to take γ from, on the host.

    Returns
    -------
    tuple of a list of host arrays and a Status
        Weights (κ + 1, p) of the fits that count, and how the kernel's last descent ended; where
        that was interrupted, only the kernel's.

    Notes
    -----
    O(n² κ p) for a round of the kernel's fit, O(n³) to ask whether it counts.
    """
    weights, status = competing_weights(algorithm, objective, n_variables, rng=rng)
    if status is Status.INTERRUPTED:
        return [weights], status
    linear = linear_weights(objective.X, objective.Y, objective.shares, n_variables)
    if _explains_more(objective, weights.ravel(), linear.ravel(), rng):
        return [weights, linear], status
    return [linear], status


def _explains_more(
    objective: SelectionObjective,
    beta: np.ndarray,
    linear: np.ndarray,
    rng: np.random.RandomState,
) -> bool:
    """Whether the kernel at `beta` fits what the heaviest columns leave better than any order."""
    left = _left(objective, linear)
    if not (beta.any() and left.shape[1]):
        return False
    orders = [np.arange(len(left)), *(rng.permutation(len(left)) for _ in range(_ORDERS))]
    shares = to_host(objective.shares)
    drawn = _standard(np.concatenate([left[order] for order in orders], axis=1), shares)
    values = _values(objective, beta, drawn).reshape(len(orders), -1).sum(axis=1)
    return bool(values[0] < values[1:].min())


def _left(objective: SelectionObjective, linear: np.ndarray) -> np.ndarray:
    """Residuals (n, t) of least squares: those of a Lasso keep some of what is linear."""
    Y = to_host(objective.Y)
    heaviest = np.argsort(-linear, kind="stable")[: int(_SHARE * len(Y))]
    X = _taken(objective.X, heaviest[linear[heaviest] > 0])
    columns = StandardColumns.of(X, objective.shares)
    roots, A = columns.shares[:, None] ** 0.5, columns.taken(np.arange(X.shape[1]))
    left = Y - A @ np.linalg.lstsq(roots * A, roots * Y, rcond=None)[0]
    return left[:, _squares(left, roots**2) > _NOTHING * _squares(Y, roots**2)]


def _standard(V: np.ndarray, shares: np.ndarray) -> np.ndarray:
    V = V - np.sum(shares * V, axis=0)
    return V / _squares(V, shares) ** 0.5


def _squares(V: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Weighted means of the squares of columns."""
    return np.sum(shares * V**2, axis=0)


def _values(objective: SelectionObjective, beta: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Twice J at β, over λ, of each target alone."""
    xp, active = array_namespace(objective.X), np.flatnonzero(beta)
    other = objective.of(_taken(objective.X, active), xp.asarray(Y, **like(objective.Y)))
    other.focus(beta[active])
    return to_host(xp.sum(other.at(beta[active]).alpha * other.Y, axis=0))


def _taken(X: Array, columns: np.ndarray) -> Array:
    xp = array_namespace(X)
    return xp.take(X, xp.asarray(columns, **index_like(X)), axis=1)
