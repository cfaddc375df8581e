"""Boosted trees of several models, all walked at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from gpukfl.prediction import Served
from gpukfl.prediction._foreign import Columns, TreeValues, proba
from gpukfl.runtime._blocks import near_blocks
from gpukfl.runtime._views import Place, View, Views


@dataclass(frozen=True, eq=False)
class Forest:
    """Nodes of all trees, level by level, so that both children stand side by side."""

    column: np.ndarray  # (m,): of the rows that all models see, and of those that have -inf in gaps
    threshold: np.ndarray  # (m,): the largest value that goes left; NaN of leaves
    right: np.ndarray  # (m,): the child to the right, before the one to the left; of leaves itself
    value: np.ndarray  # (m,)
    starts: np.ndarray  # (M t,): the first tree of each output; trees are the first nodes
    baseline: np.ndarray  # (M, 1, t)
    n_trees: int
    depth: int
    sees: str
    classes: bool

    @staticmethod
    def sort_of(model: Served, place: Place, /) -> Hashable:
        """Say what models of one forest have in common; None of others."""
        parts = _trees_of(model)
        if not parts:
            return None
        return place.sees, parts[0].classes, sum(len(part.baseline) for part in parts)

    @classmethod
    def of(cls, models: Sequence[Served], places: Sequence[Place], views: Views, /) -> Self:
        """Join models of one sort."""
        sees = places[0].sees
        n_folds, d = views.shape(sees)
        trees, columns, roots, size = list[TreeValues](), [], [], 0
        for model, place in zip(models, places, strict=True):
            first = d * views.fold_of(place)
            for tree in _trees_of(model):
                trees.append(tree)
                # Where gaps go left, values are read that have the lowest number there
                columns.append(tree.feature + first + n_folds * d * tree.gaps_left)
                t = len(tree.baseline)
                roots += [size + tree.roots[j::t] for j in range(t)]
                size += len(tree.feature)
        starts = np.cumsum([0, *map(len, roots)])
        baseline = np.concatenate([tree.baseline for tree in trees])
        return cls(
            *_by_levels(trees, np.concatenate(columns), np.concatenate(roots)),
            starts=starts[:-1],
            baseline=baseline.reshape(len(models), 1, -1),
            n_trees=int(starts[-1]),
            depth=max(tree.depth for tree in trees),
            sees=sees,
            classes=trees[0].classes,
        )

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return self.baseline.size

    def __call__(self, view: View, /) -> np.ndarray:
        """Values (M, n, t), or probabilities."""
        X = view.rows(self.sees)
        X = X.reshape(len(X), -1)
        X = np.concatenate([X, np.where(np.isnan(X), -np.inf, X)], axis=1)
        sums = [self._sums(X[rows]) for rows in near_blocks(len(X), self.n_trees)]
        M, _, t = self.baseline.shape
        raw = np.concatenate(sums).reshape(-1, M, t).transpose(1, 0, 2) + self.baseline
        return np.asarray(proba(raw, t)) if self.classes else raw

    def _sums(self, X: np.ndarray) -> np.ndarray:
        """Add up the leaves that rows end in: (n, M t)."""
        first, X = X.shape[1] * np.arange(len(X))[:, None], X.ravel()
        at = np.broadcast_to(np.arange(self.n_trees), (len(first), self.n_trees))
        for _ in range(self.depth):
            x = X.take(first + self.column.take(at))
            at = self.right.take(at) + (x <= self.threshold.take(at))
        return np.add.reduceat(self.value.take(at), self.starts, axis=1)


def _trees_of(model: Served) -> Sequence[TreeValues]:
    values = model.values
    if isinstance(values, Columns):
        return values.parts
    return [values] if isinstance(values, TreeValues) else []


def _by_levels(
    trees: Sequence[TreeValues], column: np.ndarray, roots: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, thresholds, children and values of nodes: first all roots, then their children."""
    sizes = [len(tree.feature) for tree in trees]
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    kids = np.concatenate([tree.kids.reshape(-1, 2) for tree in trees]) + first[:, None]
    leaf = kids[:, 0] == np.arange(len(kids))
    levels, count = [roots], 0
    while len(levels[-1]):
        levels.append(kids[levels[-1][~leaf[levels[-1]]]].ravel())
        count += len(levels[-1])
        if count > len(kids):
            msg = "expected trees, got nodes that are their own ancestors"
            raise ValueError(msg)
    order = np.concatenate(levels)
    place = np.empty(len(kids), dtype=np.intp)
    place[order] = np.arange(len(order))
    threshold, value = (
        np.concatenate([getattr(t, k) for t in trees]) for k in ("threshold", "value")
    )
    right = np.where(leaf, place, place[kids[:, 0]])
    threshold = np.where(leaf, np.nan, threshold)
    return column[order].astype(np.intp), threshold[order], right[order], value[order]
