"""The median heuristic."""

from __future__ import annotations

from gpukfl._array import Array, array_namespace
from gpukfl.linalg import distances


def median_distance(X: Array, /, *, norm: str = "euclidean") -> float:
    r"""Median distance between different rows of `X`, a usual first lengthscale.

    Parameters
    ----------
    X : array, shape (n, d)
        Points; a random sample of some hundred where there are many, because all pairs are taken.
    norm : {"euclidean", "manhattan"}
        Of the distance.

    Returns
    -------
    float
        The median of :math:`\|x_i - x_j\|` over i < j, or over pairs that differ where more
        than half are equal; 1 where all rows are equal. O(n² d). Waits for the device.

    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl.kernels import median_distance
    >>> median_distance(np.array([[0.0], [1.0], [3.0]]))
    2.0
    """
    xp = array_namespace(X)
    n = X.shape[0]
    flat = xp.sort(xp.reshape(distances(X, X, norm=norm), (n * n,)))
    flat = flat[n:]  # the n zeros of the diagonal come first; what is left has each pair twice
    if n < 2 or not float(flat[-1]) > 0:
        return 1.0
    median = 0.5 * float(flat[(n * (n - 1) - 1) // 2] + flat[n * (n - 1) // 2])
    if median > 0:
        return median
    middle = (int(xp.sum(xp.astype(flat <= 0, xp.int64))) + flat.shape[0]) // 2
    return 0.5 * float(flat[middle - 1] + flat[middle])
