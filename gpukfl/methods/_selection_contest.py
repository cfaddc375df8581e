"""Fits in which variables compete with copies of them: by a kernel, linearly, or both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, clip, index_like, like, to_host
from gpukfl.core._results import Status
from gpukfl.methods._selection import FeatureSelection
from gpukfl.methods._selection_objective import Point, SelectionObjective
from gpukfl.solvers import Lasso

# ----------------------------------------------------------------------- selection contest

# One fit of kernel feature selection to variables and copies of them, which compete.
#
# Rounds as of Algorithm 2', but only what is clear and heavy begins at τ while others are looked
# for, and no weights are held in the descents. Nothing here tells a variable from its copies.


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
        beta, status, clear = _run_round(algorithm, objective, start, beta, n_variables, rng)
        new = clear & _leading_columns(beta, held, n_variables)
        if not new.any() or status in _STOPPED:
            break
        held = held | new
    return beta.reshape(copies, n_variables), status


def _run_round(
    algorithm: FeatureSelection,
    objective: SelectionObjective,
    start: np.ndarray,
    beta: np.ndarray,
    p: int,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, Status, np.ndarray]:
    """Return new weights, the status, and the columns above the noise threshold."""
    if start.any():
        objective.focus(start)
    point, free = objective.evaluate(start), np.flatnonzero(start == 0)
    scores = np.zeros(len(start))
    scores[free] = -objective.gradient(point, free)
    gamma, highest = _noise_threshold(objective, point, p, rng)
    rivals = _highest_scores(scores, gamma)
    if not rivals.any():
        return beta, Status.CONVERGED, rivals
    found = algorithm.select(objective, gamma, start, ~(rivals | (start > 0) | (beta > 0)))
    clear = (found.beta > 0) & (scores > _CLEAR * highest)
    return found.beta, found.status, clear


def _leading_columns(beta: np.ndarray, held: np.ndarray, p: int) -> np.ndarray:
    """Return which columns are the heaviest of a variable and its copies."""
    weights = np.where(held.reshape(-1, p).any(axis=0), 0.0, beta.reshape(-1, p))
    heaviest = (weights == weights.max(axis=0)) & (weights > 0)
    return (heaviest & (weights >= _HEAVY * beta.max())).ravel()


def _noise_threshold(
    objective: SelectionObjective, point: Point, p: int, rng: np.random.RandomState
) -> tuple[float, float]:
    """Return γ and the highest score by permutations of some columns."""
    P, n = objective.n_variables, objective.X.shape[0]
    some = rng.choice(p, -(-p * p // P), replace=False)
    # With all their copies: which of them is the variable must not matter
    columns = np.sort((some[None, :] + np.arange(0, P, p)[:, None]).ravel())
    orders = (rng.permutation(n) for _ in range(_ORDERS))
    scores = -objective.gradients(point, columns, orders)
    share = min(_FALSE / P, _SHARE)
    gamma, highest = np.quantile(scores.ravel(), [1.0 - share, 1.0])
    return max(float(gamma), 0.0), max(float(highest), 0.0)


def _highest_scores(scores: np.ndarray, gamma: float) -> np.ndarray:
    """Return which scores are above γ, and among the highest."""
    order = np.argsort(-scores, kind="stable")[:_AT_ONCE]
    rivals = np.zeros(len(scores), dtype=bool)
    rivals[order] = scores[order] > gamma
    return rivals


# -------------------------------------------------------------------------- linear contest

# A linear fit to variables and copies of them, which compete: the scaled Lasso.
#
# Sun and Zhang, "Scaled sparse linear regression", Biometrika, 2012: the penalty of the Lasso goes
# with the size of the residuals, which it leaves. Nothing here tells a variable from its copies.


_LASSO_SHARE = 0.02  # of columns that tell nothing, which may enter: copies judge them later
_COLUMNS_AT_ONCE = 200  # columns that may enter together
_ENTERS = 1e-3  # of the penalty, beyond it
_ROUNDS = 100  # in which columns may enter
_SCALINGS = 10  # penalties
_ALIKE = 0.01  # relative: a penalty that changes by less is final
_SOLVER = Lasso(tol=1e-5)


def linear_weights(X: Array, Y: Array, shares: Array, n_variables: int, /) -> np.ndarray:
    r"""Weigh variables and their copies by absolute coefficients of a Lasso on all of them.

    The penalty is :math:`z \hat\sigma / \sqrt{n}`: what covariances with residuals of size
    :math:`\hat\sigma` exceed of one in fifty columns that tell nothing.

    Parameters
    ----------
    X : array (n, (κ + 1) p)
        Variables and, after them, their copies.
    Y : array (n, t)
        Targets, each of which has a fit.
    shares : array (n, 1)
        Weights of the rows, of sum 1.
    n_variables : int
        p.

    Returns
    -------
    host array (κ + 1, p)
        Norms over the targets of coefficients, of columns of variance 1.

    Notes
    -----
    O(n κ p) for each of some ten products with all columns, where X is; the Lasso is solved on the
    host, of some hundred columns.
    """
    from scipy.special import ndtri

    columns = StandardColumns.standardize(X, shares)
    beyond = -float(ndtri(0.5 * _LASSO_SHARE)) * float(np.sum(columns.shares**2)) ** 0.5
    targets = to_host(Y).astype(np.float64).T
    coefficients = [_scaled_lasso(columns, y - columns.shares @ y, beyond) for y in targets]
    return np.linalg.norm(coefficients, axis=0).reshape(-1, n_variables)


def _scaled_lasso(columns: StandardColumns, y: np.ndarray, beyond: float) -> np.ndarray:
    """Return Lasso coefficients with a penalty of `beyond` times the residuals' size."""
    coef, left = np.zeros(len(columns)), y
    penalty = np.inf
    for _ in range(_SCALINGS):
        last, penalty = penalty, beyond * float(columns.shares @ left**2) ** 0.5
        if penalty == 0.0 or last - penalty <= _ALIKE * last < np.inf:
            break
        coef, left = fit_lasso(columns, y, penalty, coef, left)
    return coef


def fit_lasso(
    columns: StandardColumns, y: np.ndarray, penalty: float, coef: np.ndarray, left: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and residuals at a penalty, by a growing working set."""
    for _ in range(_ROUNDS):
        slopes = np.where(coef == 0, np.abs(columns.products(left)), 0.0)
        order = np.argsort(-slopes, kind="stable")[:_COLUMNS_AT_ONCE]
        entering = order[slopes[order] > (1.0 + _ENTERS) * penalty]
        some = np.sort(np.concatenate([np.flatnonzero(coef), entering]))
        if not len(some):
            break
        A = columns.take(some)
        weighted = columns.shares[:, None] * A
        fit = _SOLVER.solve(
            A.T @ weighted, weighted.T @ y, float(columns.shares @ y**2), penalty, coef[some]
        )
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        coef = np.zeros(len(columns))
        coef[some], left = fit.coef, y - A @ fit.coef
        if not len(entering):
            break
    return coef, left


@dataclass(frozen=True, eq=False)
class StandardColumns:
    """Standardised columns (n, P), which are never formed all at once."""

    X: Array
    shares: np.ndarray  # (n,)
    mean: np.ndarray  # (P,)
    scale: np.ndarray  # (P,), 0 of constant columns

    @classmethod
    def standardize(cls, X: Array, shares: Array, /) -> StandardColumns:
        xp = array_namespace(X, shares)
        w = xp.astype(shares, X.dtype)
        mean = xp.sum(w * X, axis=0)
        variance = clip(xp.sum(w * (X - mean) ** 2, axis=0), low=0.0)
        deviation = to_host(xp.sqrt(variance)).astype(np.float64)
        size = to_host(xp.max(xp.abs(X), axis=0)) * 1e-6
        scale = np.where(deviation > size, 1.0 / np.where(deviation > size, deviation, 1.0), 0.0)
        host = to_host(shares).astype(np.float64)[:, 0]
        return cls(X, host / host.sum(), to_host(mean).astype(np.float64), scale)

    def __len__(self) -> int:
        return len(self.mean)

    def products(self, left: np.ndarray, /) -> np.ndarray:
        """Covariances (P,) with residuals (n,) of mean 0."""
        moved = asarray_like((self.shares * left)[:, None], self.X)
        return self.scale * to_host((self.X.T @ moved)[:, 0]).astype(np.float64)

    def take(self, some: np.ndarray, /) -> np.ndarray:
        """Take some of the columns (n, q)."""
        xp = array_namespace(self.X)
        found = xp.take(self.X, xp.asarray(some, **index_like(self.X)), axis=1)
        return (to_host(found).astype(np.float64) - self.mean[some]) * self.scale[some]


# --------------------------------------------------------------------------- joint contest

# Two fits in which variables compete with copies of them: a kernel's and a linear one.
#
# Nothing here tells a variable from its copies, so that which fits count may hang on the data.


_JOINT_ORDERS = 20
_JOINT_SHARE = 1 / 3  # of the rows: columns that least squares take, at most
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
    """Whether the kernel at `beta` fits the linear residuals better than any permutation."""
    left = _least_squares_residuals(objective, linear)
    if not (beta.any() and left.shape[1]):
        return False
    orders = [np.arange(len(left)), *(rng.permutation(len(left)) for _ in range(_JOINT_ORDERS))]
    shares = to_host(objective.shares)
    drawn = _standardise(np.concatenate([left[order] for order in orders], axis=1), shares)
    values = _objective_values(objective, beta, drawn).reshape(len(orders), -1).sum(axis=1)
    return bool(values[0] < values[1:].min())


def _least_squares_residuals(objective: SelectionObjective, linear: np.ndarray) -> np.ndarray:
    """Return the least-squares residuals (n, t)."""
    Y = to_host(objective.Y)
    heaviest = np.argsort(-linear, kind="stable")[: int(_JOINT_SHARE * len(Y))]
    X = _take_columns(objective.X, heaviest[linear[heaviest] > 0])
    columns = StandardColumns.standardize(X, objective.shares)
    roots, A = columns.shares[:, None] ** 0.5, columns.take(np.arange(X.shape[1]))
    left = Y - A @ np.linalg.lstsq(roots * A, roots * Y, rcond=None)[0]
    return left[:, _mean_squares(left, roots**2) > _NOTHING * _mean_squares(Y, roots**2)]


def _standardise(V: np.ndarray, shares: np.ndarray) -> np.ndarray:
    V = V - np.sum(shares * V, axis=0)
    return V / _mean_squares(V, shares) ** 0.5


def _mean_squares(V: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Weighted means of the squares of columns."""
    return np.sum(shares * V**2, axis=0)


def _objective_values(objective: SelectionObjective, beta: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return 2 J(β) / λ of each target."""
    xp, active = array_namespace(objective.X), np.flatnonzero(beta)
    other = objective.with_data(
        _take_columns(objective.X, active), xp.asarray(Y, **like(objective.Y))
    )
    other.focus(beta[active])
    return to_host(xp.sum(other.evaluate(beta[active]).alpha * other.Y, axis=0))


def _take_columns(X: Array, columns: np.ndarray) -> Array:
    xp = array_namespace(X)
    return xp.take(X, xp.asarray(columns, **index_like(X)), axis=1)
