"""Scores of learned directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpukfl.core._array import is_array, to_host

# Share of the largest singular value that is a direction's. Of eight functions of 3 to 10 features
# and five methods, predictions are had again from these directions with R² 0.85 to 1; from those
# of an equal share of the sum, of three features that matter alike, with R² 0.3 to 0.7
_LEAST = 0.2


def feature_score(P: Any, W: Any, /) -> float:
    r"""Compare learned directions with the true ones.

    .. math:: 1 - \|\pi_P - \pi_{\hat P}\|_F^2 / 2k \quad (k \le d/2), \qquad
              1 - \|\pi_P - \pi_{\hat P}\|_F^2 / (2d - 2k) \quad (k > d/2)

    with :math:`\hat P` the k leading left singular vectors of W; 1 for k = d.

    Parameters
    ----------
    P : array, shape (d, k)
        True directions, of full column rank.
    W : array, shape (d, m)
        Particles, or any matrix whose leading left singular vectors are the estimate.

    Returns
    -------
    float
        In [0, 1]. Directions that W does not have (rank below k) count as wrong, so that the
        score does not depend on how a factorisation fills the null space.

    Raises
    ------
    ValueError
        If the shapes disagree or `P` has more columns than rows or dependent columns.

    References
    ----------
    .. [1] Follain and Bach, arXiv:2407.17280, eq. (16).

    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl import feature_score
    >>> feature_score(np.eye(4)[:, :1], np.eye(4)[:, :1])
    1.0
    """
    P = np.asarray(to_host(P) if is_array(P) else P, dtype=np.float64)
    W = np.asarray(to_host(W) if is_array(W) else W, dtype=np.float64)
    if P.ndim != 2 or W.ndim != 2 or P.shape[0] != W.shape[0] or P.shape[1] > P.shape[0]:
        msg = f"expected P (d, k) with k <= d and W (d, m), got {P.shape} and {W.shape}"
        raise ValueError(msg)
    d, k = P.shape
    U, singular, _ = np.linalg.svd(P, full_matrices=False)
    if k == 0 or singular[-1] <= 1e-12 * singular[0]:
        msg = f"expected P of full column rank {k}, got singular values {singular}"
        raise ValueError(msg)
    if k == d:
        return 1.0
    directions = leading_directions(W, k).T
    # ||pi_P - pi_P'||^2 = k + rank - 2 ||P' U||^2; a missing direction costs as a wrong one does
    shared = float(np.sum((U.T @ directions) ** 2))
    # No k directions are further from P than this; without all k of W's own the sum may be
    furthest = 2.0 * k if k <= d / 2 else 2.0 * d - 2.0 * k
    return 1.0 - min(2.0 * k - 2.0 * shared, furthest) / furthest


def leading_directions(W: np.ndarray, k: int | None = None, /) -> np.ndarray:
    """Leading left singular vectors of `W` (d, m) as rows, at most its rank.

    And at most k, or as many as its effective rank. The largest entry of each is positive.
    """
    U, singular, _ = np.linalg.svd(np.asarray(W, dtype=np.float64), full_matrices=False)
    count = _n_large(singular) if k is None else k
    U = U[:, : min(count, _numerical_rank(singular))]
    largest = U[np.argmax(np.abs(U), axis=0), np.arange(U.shape[1])]
    return (U * np.sign(largest)).T


def effective_rank(W: np.ndarray, /) -> int:
    """Count the singular values of `W` of at least a fifth of the largest.

    At least 1, also where W = 0. Directions that matter alike all count, however many features
    there are, and however little the others matter.
    """
    return _n_large(np.linalg.svd(np.asarray(W, dtype=np.float64), compute_uv=False))


def _n_large(singular: np.ndarray) -> int:
    least = _LEAST * singular.max()
    return int(np.sum(singular >= least)) if least > 0 else 1


def _numerical_rank(singular: np.ndarray) -> int:
    return int(np.sum(singular > 1e-10 * max(singular.max(), 1e-300)))
