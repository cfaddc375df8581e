"""Boosted trees as arrays, with checks and evaluation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from gpukfl._accel.trust import has_compiled_code
from gpukfl.core._array import Array, array_namespace, is_host
from gpukfl.predictor._classes import proba
from gpukfl.predictor._predictor import DirectFunction

FEATURE, LEFT, RIGHT, MISSING_LEFT, SUBSET = range(5)  # columns of the table of nodes
LINKS = ("identity", "log", "probabilities")
MAX_LEVELS = 256  # levels of a category, and bits of a subset of levels
_SUBSET_WORDS = MAX_LEVELS // 32  # 32-bit words of a subset
_MAX_DEPTH = 512  # steps from a root to a leaf


@dataclass(frozen=True, eq=False)
class Forest(DirectFunction):
    """A sum of trees, with all nodes in one table.

    A node is a leaf, or splits by a threshold or by a set of levels of a category. Each split has a
    side for missing values and unknown levels.

    Attributes
    ----------
    nodes : array of int32, shape (m, 5)
        Columns: the feature (-1 for leaves); the left and the right child (0 for leaves); whether
        missing values go left; the row of `subsets` that goes left (-1 for thresholds).
    numbers : array, shape (m,)
        The largest value that goes left, NaN for splits by subsets; for leaves, the value.
    trees : array of int32, shape (T, 2)
        The root of each tree, and the output that the tree adds to.
    baseline : array, shape (t,)
        Constant terms of the outputs.
    subsets : array of uint32, shape (s, 8)
        Sets of levels of a category, 256 bits each.
    levels : array, shape (c,)
        Values of the levels of all categories, ascending for each category.
    starts : array of int32, shape (d + 1,)
        Index of the first level of each feature; numeric features have no levels.
    link : {"identity", "log", "probabilities"}
        Whether the sums are values, logarithms of values, or class scores.
    """

    nodes: np.ndarray
    numbers: np.ndarray
    trees: np.ndarray
    baseline: np.ndarray
    subsets: np.ndarray
    levels: np.ndarray
    starts: np.ndarray
    link: str

    @property
    def n_features(self) -> int:
        """Number of columns of rows."""
        return len(self.starts) - 1

    @property
    def n_outputs(self) -> int:
        """Number of columns of values."""
        t = len(self.baseline)
        return 2 if self.link == "probabilities" and t == 1 else t

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return 4 * len(self.trees)

    def map_arrays(self, put: Any, /) -> Self:  # noqa: ARG002
        """Return the forest unchanged: its arrays are placed at evaluation."""
        return self

    def check(self) -> None:
        """Raise ValueError unless every row reaches a leaf of each tree.

        This takes O(m) operations times the depth, and memory of a few tables.
        """
        wrong = next((what for what, holds in self._rules() if not holds), None)
        if wrong is not None:
            msg = f"expected trees with {wrong}"
            raise ValueError(msg)
        self._levels_of_nodes()

    def _rules(self) -> Any:
        """Yield the conditions of a valid table, in order."""
        m, d, t = len(self.numbers), self.n_features, len(self.baseline)
        yield "columns", d > 0
        shapes = {
            "nodes": ("int32", (m, 5)),
            "numbers": ("float64", (m,)),
            "trees": ("int32", (len(self.trees), 2)),
            "baseline": ("float64", (t,)),
            "subsets": ("uint32", (len(self.subsets), _SUBSET_WORDS)),
            "levels": ("float64", (len(self.levels),)),
            "starts": ("int32", (d + 1,)),
        }
        for name, (dtype, shape) in shapes.items():
            array = getattr(self, name)
            yield f"{name} of {dtype} {shape}", array.dtype == dtype and array.shape == shape
        yield f"a link of {', '.join(LINKS)}", self.link in LINKS
        outputs = self.trees[:, 1]
        yield "outputs", t > 0 and bool(np.all((outputs >= 0) & (outputs < t)))
        yield "a tree for each output", len(np.unique(outputs)) == t
        yield "finite baselines", bool(np.isfinite(self.baseline).all())
        counts = np.diff(self.starts.astype(np.int64))  # int32 could overflow
        yield (
            f"0 to {MAX_LEVELS} levels of each feature",
            self.starts[0] == 0
            and self.starts[-1] == len(self.levels)
            and bool(np.all((counts >= 0) & (counts <= MAX_LEVELS))),
        )
        first = np.isin(np.arange(1, len(self.levels)), self.starts)
        yield (
            "ascending levels",
            bool(np.isfinite(self.levels).all() and np.all(first | (np.diff(self.levels) > 0))),
        )
        yield from self._rules_of_nodes(counts)

    def _rules_of_nodes(self, counts: np.ndarray) -> Any:
        m, roots = len(self.numbers), self.trees[:, 0].astype(np.int64)
        feature, left, right, missing_left, subset = self.nodes.T
        yield "roots in order", roots[0] == 0 and bool(np.all(np.diff(roots) > 0) and roots[-1] < m)
        ends = np.repeat(np.append(roots[1:], m), np.diff(np.append(roots, m)))
        leaf, own = feature == -1, np.arange(m)
        sides = np.stack([left, right])
        yield "features within the columns", bool(np.all((feature >= -1) & (feature < len(counts))))
        yield "children after their parents", bool(np.all(leaf | (sides > own)))
        yield "children in the tree of their parents", bool(np.all(leaf | (sides < ends)))
        yield "leaves without children", bool(np.all(~leaf | (sides == 0)))
        parents = np.bincount(sides[:, ~leaf].ravel(), minlength=m)
        parents[roots] += 1
        yield "one parent of every node", bool(np.all(parents == 1))
        yield "a side for missing values", bool(np.all((missing_left >= 0) & (missing_left <= 1)))
        of_levels = subset >= 0
        yield (
            "subsets of categories",
            bool(
                np.all((subset >= -1) & (subset < len(self.subsets)))
                and np.all(~of_levels | (~leaf & (counts[feature] > 0)))
            ),
        )
        yield "thresholds", bool(np.all(np.isnan(self.numbers) == of_levels))
        yield "finite leaves", bool(np.isfinite(self.numbers[leaf]).all())

    def __call__(self, X: Array, /) -> Array:
        """Evaluate at rows (n, d): values, or probabilities of classes."""
        raw = self.raw(X)
        if self.link == "log":
            return array_namespace(raw).exp(raw)
        return proba(raw, len(self.baseline)) if self.link == "probabilities" else raw

    def raw(self, X: Array, /) -> Array:
        """Sum the leaves at rows (n, d): values (n, t) before the link."""
        if X.shape[1] != self.n_features:
            msg = f"expected rows of {self.n_features} columns, got {X.shape[1]}"
            raise ValueError(msg)
        return self.compiled_sums(X) if has_compiled_code(X) else self.sums(X)

    def compiled_sums(self, X: np.ndarray, /) -> np.ndarray:
        """Walk all trees by compiled code: sums (n, t) before the link."""
        from gpukfl._accel.cpu_trees import sum_leaves

        out = np.empty((len(X), len(self.baseline)))
        out[:] = self.baseline
        tables = self.nodes, self.numbers, self.trees
        wide = np.ascontiguousarray(X, dtype=np.float64)
        sum_leaves(*tables, self.subsets, self.levels, self.starts, wide, out)
        return out

    # ------------------------------------------------------------------ without a compiler

    def sums(self, X: Array, /) -> Array:
        """Walk all trees at once, by array operations: sums (n, t) before the link."""
        walk = self._walk
        leaves = self._leaf_values(self._node_inputs(X), walk, self._codes(X))
        if is_host(X):
            sums: Array = np.add.reduceat(leaves, walk.first, axis=1)
        else:
            xp, edges = array_namespace(X), [*walk.first.tolist(), len(self.trees)]
            columns = [xp.sum(leaves[:, a:b], axis=1) for a, b in itertools.pairwise(edges)]
            sums = xp.stack(columns, axis=1)
        return sums + _put_beside(self.baseline, X)

    @staticmethod
    def _node_inputs(X: Array) -> Any:
        """Return the nodes' inputs (n, 2 d + 1): rows, rows for missing values to the left, NaN.

        The second d columns have -infinity for missing values, so that these go left. Leaves
        compare with the last column, NaN.
        """
        xp: Any = array_namespace(X)
        return xp.concat([X, xp.where(xp.isnan(X), -np.inf, X), X[:, :1] * np.nan], axis=1)

    def _leaf_values(self, X: Any, walk: Walk, codes: np.ndarray | None) -> Any:
        """Return the values (n, T) of the leaves that rows (n, 2 d + 1) reach."""
        xp, T, host = array_namespace(X), len(self.trees), is_host(X)
        column, number, right = (_put_beside(one, X) for one in walk[:3])
        if host:  # for one row, `take_along_axis` takes longer than all other steps
            at: Any = np.broadcast_to(np.arange(T), (len(X), T))
            row, flat = X.shape[1] * np.arange(len(X))[:, None], np.ascontiguousarray(X).ravel()
        else:
            at = _put_beside(np.arange(T)[None, :], X) + xp.zeros_like(X[:, :1], dtype=xp.int64)
        for _ in range(walk.depth):
            where = _take(column, at, T)
            x = flat.take(row + where) if host else xp.take_along_axis(X, where, axis=1)
            left = x <= _take(number, at, T)  # False for NaN
            if codes is not None:
                left = self._left_by_codes(self.nodes[walk.order[at]], codes, left)
            at = _take(right, at, T) + (left if host else xp.astype(left, xp.int64))
        return _take(number, at, T)

    def _codes(self, X: Array) -> np.ndarray | None:
        """Return the level codes (n, d) of categories, -1 for others; None without categories."""
        if not len(self.subsets):
            return None
        if not is_host(X):
            msg = "expected trees without categorical splits, which an ONNX graph cannot evaluate"
            raise TypeError(msg)
        codes = np.full(X.shape, -1)
        for j in np.flatnonzero(np.diff(self.starts)):
            levels = self.levels[self.starts[j] : self.starts[j + 1]]
            place = np.minimum(np.searchsorted(levels, X[:, j]), len(levels) - 1)
            codes[:, j] = np.where(levels[place] == X[:, j], place, -1)
        return codes

    def _left_by_codes(self, nodes: np.ndarray, codes: np.ndarray, left: Any) -> np.ndarray:
        """Return which rows go left at nodes (n, k, 5), or at (1, k, 5) for all rows.

        `left` has the result for thresholds.
        """
        feature, _, _, missing_left, subset = nodes.transpose(2, 0, 1)
        code = np.take_along_axis(codes, np.maximum(feature, 0), axis=1)
        bits = self.subsets[np.maximum(subset, 0), np.maximum(code, 0) >> 5]
        inside = (bits >> (np.maximum(code, 0) & 31).astype(np.uint32)) & 1
        return np.where(subset >= 0, np.where(code < 0, missing_left, inside), left).astype(bool)

    def goes_left(self, X: np.ndarray, /) -> np.ndarray:
        """Return whether rows (n, d) would go left at each node: host bool (n, m)."""
        feature, _, _, missing_left, _ = self.nodes.T
        x = X[:, np.maximum(feature, 0)]
        left = np.where(np.isnan(x), missing_left == 1, x <= self.numbers)
        codes = self._codes(X)
        return left if codes is None else self._left_by_codes(self.nodes[None], codes, left)

    @cached_property
    def _walk(self) -> Walk:
        """The nodes level by level, with siblings side by side."""
        by_output = np.argsort(self.trees[:, 1], kind="stable")
        levels = self._levels_of_nodes(by_output)
        order = np.concatenate(levels)
        own = np.arange(len(order), dtype=np.int32)
        place = np.empty_like(own)
        place[order] = own
        right = place[self.nodes[order, RIGHT]]
        feature, missing_left = self.nodes[order, FEATURE], self.nodes[order, MISSING_LEFT]
        # Splits by subsets read missing values from codes instead
        lowest = (missing_left == 1) & (self.nodes[order, SUBSET] < 0)
        leaf = feature == -1
        column = np.where(leaf, 2 * self.n_features, feature + self.n_features * lowest)
        return Walk(
            column=column.astype(np.int32),
            number=self.numbers[order],
            right=np.where(leaf, own, right),
            first=np.flatnonzero(np.diff(self.trees[by_output, 1], prepend=-1)),
            depth=len(levels) - 1,
            order=order if len(self.subsets) else order[:0],
        )

    def _levels_of_nodes(self, by: np.ndarray | None = None) -> list[np.ndarray]:
        """Return the nodes of each depth: all roots, then their children, right children first."""
        roots = self.trees[:, 0]
        levels = [roots if by is None else roots[by]]
        while True:
            inner = levels[-1][self.nodes[levels[-1], FEATURE] != -1]
            if not len(inner):
                return levels
            if len(levels) > _MAX_DEPTH:
                msg = f"expected trees of at most {_MAX_DEPTH} steps"
                raise ValueError(msg)
            levels.append(self.nodes[inner][:, [RIGHT, LEFT]].ravel())

    # ------------------------------------------------------------------ several as one

    @classmethod
    def concat(cls, forests: Sequence[Self], first: Sequence[int], n_features: int, /) -> Self:
        """Concatenate forests of one link, without categories, by outputs.

        Parameters
        ----------
        forests : sequence of Forest
            Forests; their outputs become those of the result, in order.
        first : sequence of int
            The column of the first feature of each forest.
        n_features : int
            Number of columns of the result's rows.
        """
        nodes, trees, size, t = [], [], 0, 0
        for forest, shift in zip(forests, first, strict=True):
            inner = forest.nodes[:, FEATURE] != -1
            moved = np.array([shift, size, size, 0, 0], dtype=np.int32)
            nodes.append(forest.nodes + inner[:, None] * moved)
            trees.append(forest.trees + np.array([size, t], dtype=np.int32))
            size, t = size + len(forest.nodes), t + len(forest.baseline)
        return cls(
            nodes=np.concatenate(nodes).astype(np.int32, copy=False),
            numbers=np.concatenate([one.numbers for one in forests]),
            trees=np.concatenate(trees).astype(np.int32, copy=False),
            baseline=np.concatenate([one.baseline for one in forests]),
            subsets=np.empty((0, _SUBSET_WORDS), dtype=np.uint32),
            levels=np.empty(0),
            starts=np.zeros(n_features + 1, dtype=np.int32),
            link=forests[0].link,
        )


class Walk(NamedTuple):
    """A forest's nodes in the order of evaluation: roots first, sorted by outputs."""

    column: np.ndarray  # (m,): the column of `Forest._node_inputs` that a node compares
    number: np.ndarray  # (m,): thresholds, and values of leaves
    right: np.ndarray  # (m,): the right child, which the left child follows; leaves have themselves
    first: np.ndarray  # (t,): the first tree of each output
    depth: int
    order: np.ndarray  # (m,): the node's index in the table; empty for forests without subsets


def _put_beside(x: np.ndarray, other: Array) -> Any:
    """Copy a host array to the library of another one, which may record operations."""
    if is_host(other):
        return x
    return array_namespace(other).asarray(x.astype(np.int64) if x.dtype.kind == "i" else x)


def _take(x: Any, index: Any, T: int) -> Any:
    """Return the values of x (m,) at indices (n, T)."""
    if is_host(x):
        return x.take(index)
    xp = array_namespace(x)
    return xp.reshape(xp.take(x, xp.reshape(index, (-1,)), axis=0), (-1, T))


# ---------------------------------------------------------------------- scikit-learn


def read_forest(model: Any, /) -> Forest | None:
    """Return the trees of a fitted HistGradientBoosting, or None if they are not supported.

    Other versions of scikit-learn may store trees differently, and categories may be text.
    """
    link = _LINKS.get(getattr(model, "loss", ""))
    stages = getattr(model, "_predictors", None)
    if link is None or not stages:
        return None
    try:
        found = _read_trees(model, link, stages)
        found.check()
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
    return found


_LINKS = {
    "squared_error": "identity",
    "absolute_error": "identity",
    "quantile": "identity",
    "poisson": "log",
    "gamma": "log",
    "log_loss": "probabilities",
}


def _read_trees(model: Any, link: str, stages: Sequence[Sequence[Any]]) -> Forest:
    trees = [tree for stage in stages for tree in stage]
    sizes = np.array([len(tree.nodes) for tree in trees])
    roots, tables = np.cumsum(sizes) - sizes, np.concatenate([tree.nodes for tree in trees])
    first = np.repeat(roots, sizes)
    leaf, by_levels = tables["is_leaf"] == 1, tables["is_categorical"] == 1
    subsets = [tree.raw_left_cat_bitsets for tree in trees]
    counts = np.array([len(one) for one in subsets])
    original, levels = _feature_columns(model)
    fields = (
        np.where(leaf, -1, original[np.where(leaf, 0, tables["feature_idx"])]),
        np.where(leaf, 0, first + tables["left"]),
        np.where(leaf, 0, first + tables["right"]),
        np.where(leaf, 0, tables["missing_go_to_left"]),
        np.where(
            by_levels & ~leaf,
            np.repeat(np.cumsum(counts) - counts, sizes) + tables["bitset_idx"],
            -1,
        ),
    )
    thresholds = np.where(by_levels, np.nan, tables["num_threshold"])
    outputs = np.tile(np.arange(len(stages[0])), len(stages))
    return Forest(
        nodes=np.stack(fields, axis=1).astype(np.int32),
        numbers=np.where(leaf, tables["value"], thresholds).astype(np.float64),
        trees=np.stack([roots, outputs], axis=1).astype(np.int32),
        baseline=np.asarray(model._baseline_prediction, dtype=np.float64).ravel(),
        subsets=np.concatenate(subsets).astype(np.uint32).reshape(-1, _SUBSET_WORDS),
        levels=np.concatenate([np.empty(0), *levels]).astype(np.float64),
        starts=np.cumsum([0, *map(len, levels)]).astype(np.int32),
        link=link,
    )


def _feature_columns(model: Any) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the column of each feature of the trees, and the levels of each column.

    In the trees, categories come first, and their codes follow the order of their values.
    """
    d = model.n_features_in_
    levels = [np.empty(0)] * d
    if model.is_categorical_ is None:
        return np.arange(d), levels
    coded = np.flatnonzero(model.is_categorical_)
    encoder = model._preprocessor.named_transformers_["encoder"]
    for j, values in zip(coded, encoder.categories_, strict=True):
        known = np.asarray(values, dtype=np.float64)
        levels[j] = known[~np.isnan(known)]
    return np.concatenate([coded, np.setdiff1d(np.arange(d), coded)]), levels
