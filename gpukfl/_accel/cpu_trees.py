"""Sums over decision trees: for few rows a loop in Python takes longer than the trees."""

from __future__ import annotations

import numpy as np

from gpukfl._accel.compiled import njit


def sum_leaves(
    links: np.ndarray,
    numbers: np.ndarray,
    roots: np.ndarray,
    columns: np.ndarray,
    X: np.ndarray,
    out: np.ndarray,
    /,
) -> None:
    """Add to `out` (n, t) the values of the leaves that rows `X` (n, d) reach, tree by tree.

    `links` (m, 4), of int32, has for each node its feature, -1 of a leaf, the nodes to the left and
    to the right, and whether a missing value goes left; `numbers` (m,) the largest value that goes
    left, or the value of a leaf. `roots` and `columns` (trees,) say where each tree begins, and to
    which column of `out` it adds. O(n times the depths).
    """
    _sum_leaves(links, numbers, roots, columns, X, out)


@njit(nogil=True, cache=True)
def _sum_leaves(links, numbers, roots, columns, X, out):
    for tree in range(roots.shape[0]):
        for i in range(X.shape[0]):
            node = roots[tree]
            feature = links[node, 0]
            while feature >= 0:
                x = X[i, feature]
                left = links[node, 3] == 1 if np.isnan(x) else x <= numbers[node]
                node = links[node, 1] if left else links[node, 2]
                feature = links[node, 0]
            out[i, columns[tree]] += numbers[node]
