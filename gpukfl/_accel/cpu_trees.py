"""Sums over decision trees, compiled because Python's loop would dominate for few rows."""

from __future__ import annotations

import numpy as np

from gpukfl._accel.compiled import njit
from gpukfl._accel.threads import run_in_chunks

_STEPS = 8  # to a leaf, about
_FEW = 64
_NEAR = 512  # rows that stay near the processor while all trees are walked


def sum_leaves(
    nodes: np.ndarray,
    numbers: np.ndarray,
    trees: np.ndarray,
    subsets: np.ndarray,
    levels: np.ndarray,
    starts: np.ndarray,
    X: np.ndarray,
    out: np.ndarray,
    /,
) -> None:
    """Add to `out` (n, t) the values of the leaves that rows `X` (n, d) reach, tree by tree.

    The tables are those of a `Forest` that was checked; rows are float64 in C order. O(n times the
    depths), in threads.
    """
    if len(X) <= _FEW:  # of which a division takes longer than the trees
        _sum_leaves(nodes, numbers, trees, subsets, levels, starts, X, out)
        return

    def add(_: int, start: int, stop: int) -> None:
        _sum_leaves(nodes, numbers, trees, subsets, levels, starts, X[start:stop], out[start:stop])

    run_in_chunks(len(X), len(X) * len(trees) * _STEPS, add)


@njit(nogil=True, cache=True)
def _sum_leaves(nodes, numbers, trees, subsets, levels, starts, X, out):
    n = X.shape[0]
    for start in range(0, n, _NEAR):
        for tree in range(trees.shape[0]):
            column = trees[tree, 1]
            for i in range(start, min(start + _NEAR, n)):
                node = np.uint32(trees[tree, 0])  # of indices with a sign Numba looks at the sign
                feature = nodes[node, 0]
                while feature >= 0:
                    x, number = X[i, np.uint32(feature)], numbers[node]
                    left = x <= number
                    if not (left or x > number):
                        left = _goes_left(nodes, subsets, levels, starts, node, x)
                    node = np.uint32(nodes[node, 1 if left else 2])
                    feature = nodes[node, 0]
                out[i, column] += numbers[node]


@njit(nogil=True, cache=True)
def _goes_left(nodes, subsets, levels, starts, node, x):
    """Whether a missing value, or one of a category, goes left."""
    subset = nodes[node, 4]
    if subset >= 0 and not np.isnan(x):
        feature = nodes[node, 0]
        first, last = starts[feature], starts[feature + 1]
        code = np.searchsorted(levels[first:last], x)
        if code < last - first and levels[first + code] == x:
            return (subsets[subset, code >> 5] >> np.uint32(code & 31)) & 1 == 1
    return nodes[node, 3] == 1
