"""Members of blends that are scikit-learn's, as functions of arrays: linear models, and trees."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gpukfl._array import Array, array_namespace, double_like, index_like
from gpukfl.prediction import Served

Put = Callable[[Array], Array]


def served_foreign(model: Any, /) -> Served:
    """Make what serves a fitted member of a blend that is not of this library.

    Raises
    ------
    TypeError
        If it is another than those that a portfolio has by itself.
    """
    for known in (_linear, _boosted, _several_boosted):
        values = known(model)
        if values is not None:
            labels = getattr(model, "classes_", None)
            return Served(values, model.n_features_in_, one_target=False, labels=labels)
    msg = (
        "expected members that are kernel methods, linear models or gradient-boosted trees in an "
        f"ONNX file, got {type(model).__name__}: members='kernels' blends kernel methods"
    )
    raise TypeError(msg)


# ---------------------------------------------------------------------- linear


@dataclass(frozen=True, eq=False)
class LinearValues:
    """Values (n, t) of a linear model of standardised rows; of classes their probabilities."""

    mean: Array  # (d,)
    scale: Array  # (d,)
    coef: Array  # (d, t)
    intercept: Array  # (t,)
    classes: bool

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return self.coef.shape[0]

    def __call__(self, X: Array, /) -> Array:
        """Evaluate at rows (n, d)."""
        xp = array_namespace(X)
        rows = (xp.astype(X, xp.float64) - self.mean) / self.scale
        raw = rows @ self.coef + self.intercept
        return _proba(raw) if self.classes else raw

    def placed(self, put: Put, /) -> Self:
        """Give the same function of arrays that `put` makes of its own."""
        names = ("mean", "scale", "coef", "intercept")
        found: dict[str, Any] = {name: put(getattr(self, name)) for name in names}
        return dataclasses.replace(self, **found)


def _linear(model: Any) -> LinearValues | None:
    from sklearn.linear_model import LogisticRegression, RidgeCV
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    kinds = [type(step) for _, step in model.steps] if isinstance(model, Pipeline) else []
    if kinds not in ([StandardScaler, RidgeCV], [StandardScaler, LogisticRegression]):
        return None
    scaler, last = (step for _, step in model.steps)
    coef = np.atleast_2d(last.coef_).T.astype(np.float64)
    intercept = np.atleast_1d(last.intercept_).astype(np.float64)
    return LinearValues(scaler.mean_, scaler.scale_, coef, intercept, hasattr(model, "classes_"))


def _proba(raw: Array) -> Array:
    """Probabilities (n, k) of raw scores (n, k), or (n, 1) of the second of two classes."""
    xp = array_namespace(raw)
    if raw.shape[1] == 1:
        raw = xp.concat([xp.zeros_like(raw), raw], axis=1)
    powers = xp.exp(raw - xp.max(raw, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)


# ---------------------------------------------------------------------- trees


@dataclass(frozen=True, eq=False)
class TreeValues:
    """Values (n, t) of boosted trees, their nodes one after another; of classes probabilities."""

    nodes: np.ndarray  # structured, leaves with themselves as both children
    roots: np.ndarray  # (T,)
    depth: int
    baseline: np.ndarray  # (t,)
    classes: bool

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return len(self.roots)

    def __call__(self, X: Array, /) -> Array:
        """Evaluate at rows (n, d)."""
        xp, t = array_namespace(X), len(self.baseline)
        wide = xp.astype(X, xp.float64)
        on, ints = double_like(wide), index_like(wide)
        thresholds, values = (
            xp.asarray(self.nodes[k].copy(), **on) for k in ("threshold", "value")
        )
        left, right, feature = (
            xp.asarray(self.nodes[k].copy(), **ints) for k in ("left", "right", "feature")
        )
        at = xp.asarray(self.roots, **ints)[None, :] + xp.zeros_like(X[:, :1], dtype=xp.int64)
        for _ in range(self.depth):
            flat = xp.reshape(at, (-1,))
            looked = xp.reshape(xp.take(feature, flat, axis=0), (-1, self.width))
            x = xp.reshape(xp.take_along_axis(wide, looked, axis=1), (-1,))
            goes_left = x <= xp.take(thresholds, flat, axis=0)
            kids = xp.where(goes_left, xp.take(left, flat, axis=0), xp.take(right, flat, axis=0))
            at = xp.reshape(kids, (-1, self.width))
        leaves = xp.reshape(
            xp.take(values, xp.reshape(at, (-1,)), axis=0), (-1, self.width // t, t)
        )
        raw = xp.sum(leaves, axis=1) + xp.asarray(self.baseline, **on)
        return _proba(xp.reshape(raw, (-1, t))) if self.classes else raw

    def placed(self, put: Put, /) -> Self:  # noqa: ARG002
        """Give itself: its arrays are placed beside rows."""
        return self


@dataclass(frozen=True, eq=False)
class Columns:
    """Several functions of one column each, side by side."""

    parts: Sequence[TreeValues]

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return max(part.width for part in self.parts)

    def __call__(self, X: Array, /) -> Array:
        """Evaluate at rows (n, d)."""
        return array_namespace(X).concat([part(X) for part in self.parts], axis=1)

    def placed(self, put: Put, /) -> Self:  # noqa: ARG002
        """Give itself: its arrays are placed beside rows."""
        return self


_NODE = np.dtype(
    [("threshold", "f8"), ("value", "f8"), ("feature", "i8"), ("left", "i8"), ("right", "i8")]
)


def _boosted(model: Any) -> TreeValues | None:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kinds = (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
    if type(model) not in kinds or model.is_categorical_ is not None:
        return None
    if type(model) is kinds[1] and model.loss != "squared_error":
        return None
    trees = [tree.nodes for stage in model._predictors for tree in stage]
    roots = np.cumsum([0, *map(len, trees)])
    nodes = np.concatenate([_nodes(tree, first) for tree, first in zip(trees, roots, strict=False)])
    depth = max(int(tree["depth"].max()) for tree in trees)
    baseline = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
    return TreeValues(nodes, roots[:-1], depth, baseline, type(model) is kinds[0])


def _nodes(tree: np.ndarray, first: int) -> np.ndarray:
    """Nodes of one tree, whose first has a number."""
    leaf, own = tree["is_leaf"].astype(bool), np.arange(len(tree))
    found = np.empty(len(tree), dtype=_NODE)
    found["threshold"], found["value"] = np.where(leaf, 0.0, tree["num_threshold"]), tree["value"]
    found["feature"] = np.where(leaf, 0, tree["feature_idx"])
    for side in ("left", "right"):
        found[side] = first + np.where(leaf, own, tree[side])
    return found


def _several_boosted(model: Any) -> Columns | None:
    from sklearn.multioutput import MultiOutputRegressor

    if type(model) is not MultiOutputRegressor:
        return None
    parts = [_boosted(one) for one in model.estimators_]
    return Columns([part for part in parts if part is not None]) if all(parts) else None
