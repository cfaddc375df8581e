r"""A linear fit to variables and copies of them, which compete: the scaled Lasso.

Sun and Zhang, "Scaled sparse linear regression", Biometrika, 2012: the penalty of the Lasso goes
with the size of the residuals, which it leaves. Nothing here tells a variable from its copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpukfl._array import Array, array_namespace, beside, clipped, index_like, to_host
from gpukfl._results import Status
from gpukfl.solvers import Lasso

_SHARE = 0.02  # of columns that tell nothing, which may enter: copies judge them later
_AT_ONCE = 200  # columns that may enter together
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

    columns = StandardColumns.of(X, shares)
    beyond = -float(ndtri(0.5 * _SHARE)) * float(np.sum(columns.shares**2)) ** 0.5
    targets = to_host(Y).astype(np.float64).T
    coefficients = [_scaled(columns, y - columns.shares @ y, beyond) for y in targets]
    return np.linalg.norm(coefficients, axis=0).reshape(-1, n_variables)


def _scaled(columns: StandardColumns, y: np.ndarray, beyond: float) -> np.ndarray:
    """Coefficients at the penalty that is `beyond` times the size of the residuals."""
    coef, left = np.zeros(len(columns)), y
    penalty = np.inf
    for _ in range(_SCALINGS):
        last, penalty = penalty, beyond * float(columns.shares @ left**2) ** 0.5
        if penalty == 0.0 or last - penalty <= _ALIKE * last < np.inf:
            break
        coef, left = lasso_on(columns, y, penalty, coef, left)
    return coef


def lasso_on(
    columns: StandardColumns, y: np.ndarray, penalty: float, coef: np.ndarray, left: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Give coefficients and residuals at a penalty, by a set of columns that grows."""
    for _ in range(_ROUNDS):
        slopes = np.where(coef == 0, np.abs(columns.products(left)), 0.0)
        order = np.argsort(-slopes, kind="stable")[:_AT_ONCE]
        entering = order[slopes[order] > (1.0 + _ENTERS) * penalty]
        some = np.sort(np.concatenate([np.flatnonzero(coef), entering]))
        if not len(some):
            break
        A = columns.taken(some)
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
    """Columns (n, P) with means 0 and variances 1, which are never formed all at once."""

    X: Array
    shares: np.ndarray  # (n,)
    mean: np.ndarray  # (P,)
    scale: np.ndarray  # (P,), 0 of constant columns

    @classmethod
    def of(cls, X: Array, shares: Array, /) -> StandardColumns:
        xp = array_namespace(X, shares)
        w = xp.astype(shares, X.dtype)
        mean = xp.sum(w * X, axis=0)
        variance = clipped(xp.sum(w * (X - mean) ** 2, axis=0), low=0.0)
        deviation = to_host(xp.sqrt(variance)).astype(np.float64)
        size = to_host(xp.max(xp.abs(X), axis=0)) * 1e-6
        scale = np.where(deviation > size, 1.0 / np.where(deviation > size, deviation, 1.0), 0.0)
        host = to_host(shares).astype(np.float64)[:, 0]
        return cls(X, host / host.sum(), to_host(mean).astype(np.float64), scale)

    def __len__(self) -> int:
        return len(self.mean)

    def products(self, left: np.ndarray, /) -> np.ndarray:
        """Covariances (P,) with residuals (n,) of mean 0."""
        moved = beside((self.shares * left)[:, None], self.X)
        return self.scale * to_host((self.X.T @ moved)[:, 0]).astype(np.float64)

    def taken(self, some: np.ndarray, /) -> np.ndarray:
        """Take some of the columns (n, q)."""
        xp = array_namespace(self.X)
        found = xp.take(self.X, xp.asarray(some, **index_like(self.X)), axis=1)
        return (to_host(found).astype(np.float64) - self.mean[some]) * self.scale[some]
