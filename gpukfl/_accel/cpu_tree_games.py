"""Shapley values of decision trees, compiled because every pair of rows has paths of its own."""

from __future__ import annotations

import numpy as np

from gpukfl._accel.compiled import njit
from gpukfl._accel.cpu_trees import _goes_left
from gpukfl._accel.threads import run_in_chunks

_STEPS = 50  # to all leaves that a pair of rows reaches, about
_OF_ROW, _OF_BACKGROUND = 1, 2


def add_tree_games(
    nodes: np.ndarray,
    numbers: np.ndarray,
    trees: np.ndarray,
    subsets: np.ndarray,
    levels: np.ndarray,
    starts: np.ndarray,
    players: np.ndarray,
    gained: np.ndarray,
    lost: np.ndarray,
    X: np.ndarray,
    B: np.ndarray,
    out: np.ndarray,
    /,
) -> None:
    """Add to `out` (n, G, p, t) what players add to each tree from rows `B` (G, d) to `X` (n, d).

    The first six tables are those of a `Forest` that was checked, `players` (d,) those of its
    features, `gained` and `lost` of `leaf_shares`. Rows are float64 in C order. For each pair and
    tree the leaves are visited that some mixture of the rows reaches; in threads.
    """
    tables = nodes, numbers, trees, subsets, levels, starts

    def add(_: int, start: int, stop: int) -> None:
        _add_tree_games(tables, players, gained, lost, X[start:stop], B, out[start:stop])

    run_in_chunks(len(X), len(X) * len(B) * len(trees) * _STEPS, add)


@njit(nogil=True, cache=True)
def _add_tree_games(tables, players, gained, lost, X, B, out):
    nodes, numbers, trees = tables[0], tables[1], tables[2]
    n_players = out.shape[2]
    state = np.zeros(n_players, dtype=np.int8)  # whose column a player has on the path
    trail = np.empty(n_players, dtype=np.int64)  # players with a state, the latest last
    branches = np.empty((n_players + 1, 3), dtype=np.int64)  # node, length of the trail, player
    counts = np.zeros(3, dtype=np.int64)  # players of each state
    for i in range(X.shape[0]):
        for g in range(B.shape[0]):
            for tree in range(trees.shape[0]):
                paid = out[i, g, :, trees[tree, 1]]
                branches[0, 0], branches[0, 1], branches[0, 2] = trees[tree, 0], 0, -1
                length, n_branches = 0, 1
                while n_branches > 0:
                    n_branches -= 1
                    node, player = branches[n_branches, 0], branches[n_branches, 2]
                    length = _forget(state, trail, counts, length, branches[n_branches, 1])
                    if player >= 0:
                        length = _meet(state, trail, counts, length, player, _OF_BACKGROUND)
                    while nodes[node, 0] >= 0:
                        feature = nodes[node, 0]
                        left = _turns_left(tables, node, X[i, feature])
                        other = _turns_left(tables, node, B[g, feature])
                        player = players[feature]
                        if left != other and state[player] == 0:
                            branches[n_branches, 0] = nodes[node, 1 if other else 2]
                            branches[n_branches, 1], branches[n_branches, 2] = length, player
                            n_branches += 1
                            length = _meet(state, trail, counts, length, player, _OF_ROW)
                        elif state[player] == _OF_BACKGROUND:
                            left = other
                        node = nodes[node, 1 if left else 2]
                    gain = numbers[node] * gained[counts[_OF_ROW], counts[_OF_BACKGROUND]]
                    loss = numbers[node] * lost[counts[_OF_ROW], counts[_OF_BACKGROUND]]
                    for k in range(length):
                        paid[trail[k]] += gain if state[trail[k]] == _OF_ROW else -loss
                _forget(state, trail, counts, length, 0)


@njit(nogil=True, cache=True)
def _turns_left(tables, node, x):
    number = tables[1][node]
    if x <= number:
        return True
    if x > number:
        return False
    return _goes_left(tables[0], tables[3], tables[4], tables[5], node, x)


@njit(nogil=True, cache=True)
def _meet(state, trail, counts, length, player, whose):
    """Put a player at the end of the trail; return the length."""
    state[player] = whose
    counts[whose] += 1
    trail[length] = player
    return length + 1


@njit(nogil=True, cache=True)
def _forget(state, trail, counts, length, kept):
    """Take the latest players from the trail; return the length."""
    for k in range(kept, length):
        counts[state[trail[k]]] -= 1
        state[trail[k]] = 0
    return kept
