"""The median heuristic."""

from __future__ import annotations

import numpy as np

from gpukfl._array import Array, to_host
from gpukfl.linalg import distances


def median_distance(
    X: Array, /, *, norm: str | float = "euclidean", weights: np.ndarray | None = None
) -> float:
    r"""Median distance between different points among the rows of `X`, a usual first lengthscale.

    Parameters
    ----------
    X : array, shape (n, d)
        Points; a random sample of some hundred where there are many, because all pairs are taken.
    norm : {"euclidean", "manhattan"} or float
        Of the distance; a number p is the p-norm.
    weights : host array, shape (n,), optional
        Positive; a weight counts as so many copies.

    Returns
    -------
    float
        The median of :math:`\|x_i - x_j\|` over pairs that differ, each with the product of its
        weights; 1 where all rows are equal. O(n² d). Waits for the device.

    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl.kernels import median_distance
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
    2.0
    """
    rows, columns = np.triu_indices(X.shape[0], 1)
    pairs = to_host(distances(X, X, norm=norm))[rows, columns].astype(np.float64)
    differ = pairs > 0
    if not differ.any():
        return 1.0
    if weights is None:
        return float(np.median(pairs[differ]))
    pairs, mass = pairs[differ], (weights[rows] * weights[columns])[differ]
    order = np.argsort(pairs, kind="stable")
    share = np.cumsum(mass[order]) / mass.sum()
    # Where the shares meet one half exactly, the mean of the two around it
    lower, upper = np.searchsorted(share, [0.5 - 1e-12, 0.5 + 1e-12])
    middle = pairs[order[[lower, min(upper, len(order) - 1)]]]
    return float(middle.mean())
