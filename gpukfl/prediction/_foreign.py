"""Members of blends that are scikit-learn's, as functions of arrays: linear models, and trees.

They are read by their attributes, whether these are of estimators or of a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gpukfl._array import Array, array_namespace, is_host
from gpukfl.prediction._served import Put, Served

_LOSSES = {
    "HistGradientBoostingRegressor": "squared_error",
    "HistGradientBoostingClassifier": "log_loss",
}
_LAST = ("RidgeCV", "LogisticRegression")  # steps behind a scaler


def served_foreign(model: Any, kind_of: Callable[[Any], str], /) -> Served:
    """Make what serves a fitted member of a blend that is not of this library.

    Parameters
    ----------
    model : estimator
        Fitted; or what has its attributes.
    kind_of : callable
        Gives the name of the class of an estimator, or of a part of it.

    Raises
    ------
    TypeError
        If it is another than those that a portfolio has by itself.
    """
    for known in (_linear, _boosted, _several_boosted, _constant):
        values = known(model, kind_of)
        if values is not None:
            # Of a pipeline a property, which files do not have
            learned = model.steps[-1][1] if kind_of(model) == "Pipeline" else model
            labels = getattr(learned, "classes_", None)
            return Served(values, learned.n_features_in_, one_target=False, labels=labels)
    msg = (
        "expected members that are kernel methods, linear models or gradient-boosted trees of "
        f"numbers, got {kind_of(model)}: members='kernels' blends kernel methods"
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
        return proba(raw, self.coef.shape[1]) if self.classes else raw

    def placed(self, put: Put, /) -> Self:
        """Give the same function of arrays that `put` makes of its own."""
        names = ("mean", "scale", "coef", "intercept")
        found: dict[str, Any] = {name: put(getattr(self, name)) for name in names}
        return dataclasses.replace(self, **found)


def _linear(model: Any, kind_of: Callable[[Any], str]) -> LinearValues | None:
    steps = [step for _, step in model.steps] if kind_of(model) == "Pipeline" else []
    kinds = [kind_of(step) for step in steps]
    if len(kinds) != 2 or kinds[0] != "StandardScaler" or kinds[1] not in _LAST:
        return None
    scaler, last = steps
    coef = np.atleast_2d(last.coef_).T.astype(np.float64)
    intercept = np.atleast_1d(last.intercept_).astype(np.float64)
    return LinearValues(scaler.mean_, scaler.scale_, coef, intercept, hasattr(last, "classes_"))


def proba(raw: Array, count: int, /) -> Array:
    """Probabilities (..., k) of `count` raw scores, or of one score: the second of two classes.

    Arrays that only record what is done with them need not know how many columns they have.
    """
    xp = array_namespace(raw)
    if count == 1:
        raw = xp.concat([xp.zeros_like(raw), raw], axis=-1)
    powers = xp.exp(raw - xp.max(raw, axis=-1, keepdims=True))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


# ---------------------------------------------------------------------- constants


@dataclass(frozen=True, eq=False)
class ConstantValues:
    """The same values (t,) for every row."""

    values: Array

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return self.values.shape[0]

    def __call__(self, X: Array, /) -> Array:
        """Evaluate at rows (n, d)."""
        xp = array_namespace(X)
        return xp.zeros_like(X[:, :1], dtype=xp.float64) + self.values

    def placed(self, put: Put, /) -> Self:
        """Give the same function of arrays that `put` makes of its own."""
        return dataclasses.replace(self, values=put(self.values))


def _constant(model: Any, kind_of: Callable[[Any], str]) -> ConstantValues | None:
    """Read what folds have where they know one class only."""
    if kind_of(model) == "DummyClassifier" and model.strategy == "prior":
        return ConstantValues(np.asarray(model.class_prior_, dtype=np.float64))
    if kind_of(model) == "DummyRegressor":
        return ConstantValues(np.asarray(model.constant_, dtype=np.float64).ravel())
    return None


# ---------------------------------------------------------------------- trees


@dataclass(frozen=True, eq=False)
class TreeValues:
    """Values (n, t) of boosted trees, their nodes one after another; of classes probabilities.

    Leaves have themselves as both children, so that all trees are walked as long as the deepest.
    """

    feature: np.ndarray  # (m,)
    threshold: np.ndarray  # (m,): the largest value that goes left
    gaps_left: np.ndarray  # (m,): whether a missing value goes left
    kids: np.ndarray  # (2 m,): of each node that to the right, and that to the left
    value: np.ndarray  # (m,)
    roots: np.ndarray  # (T,)
    depth: int
    baseline: np.ndarray  # (t,)
    classes: bool

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return 4 * len(self.roots)

    def __call__(self, X: Array, /) -> Array:
        """Evaluate at rows (n, d)."""
        xp, t, T = array_namespace(X), len(self.baseline), len(self.roots)
        wide = xp.astype(X, xp.float64)
        nodes = self if is_host(X) else self._beside(wide)
        at = nodes.roots[None, :] + xp.zeros_like(X[:, :1], dtype=xp.int64)
        for _ in range(self.depth):
            x = _along(wide, _taken(nodes.feature, at, T))
            left = xp.isnan(x) & _taken(nodes.gaps_left, at, T)
            left = left | (x <= _taken(nodes.threshold, at, T))  # never of what is missing
            at = _taken(nodes.kids, 2 * at + xp.astype(left, xp.int64), T)
        leaves = xp.reshape(_taken(nodes.value, at, T), (-1, T // t, t))
        raw = xp.sum(leaves, axis=1) + nodes.baseline
        return proba(raw, t) if self.classes else raw

    def _beside(self, x: Array) -> Any:
        """Give the same of arrays beside `x`, which only records what is done with it."""
        xp = array_namespace(x)
        own = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        placed: dict[str, Any] = {
            k: xp.asarray(v) for k, v in own.items() if isinstance(v, np.ndarray)
        }
        return dataclasses.replace(self, **placed)

    def placed(self, put: Put, /) -> Self:  # noqa: ARG002
        """Give itself: its arrays are placed beside rows."""
        return self


def _taken(x: Any, index: Any, T: int) -> Any:
    """Values of x (m,) at indices (n, T)."""
    if is_host(x):
        return x[index]
    xp = array_namespace(x)
    return xp.reshape(xp.take(x, xp.reshape(index, (-1,)), axis=0), (-1, T))


def _along(X: Any, columns: Any) -> Any:
    """Values of each row of X (n, d) at its columns (n, T)."""
    if is_host(X):  # `take_along_axis` takes longer than all else of a single row
        return X[np.arange(len(X))[:, None], columns]
    return array_namespace(X).take_along_axis(X, columns, axis=1)


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


def _boosted(model: Any, kind_of: Callable[[Any], str]) -> TreeValues | None:
    kind = kind_of(model)
    if kind not in _LOSSES or model.is_categorical_ is not None or model.loss != _LOSSES[kind]:
        return None
    trees = [tree.nodes for stage in model._predictors for tree in stage]
    sizes = np.array([len(tree) for tree in trees])
    roots, nodes = np.cumsum(sizes) - sizes, np.concatenate(trees)
    leaf, first = nodes["is_leaf"].astype(bool), np.repeat(roots, sizes)
    own = np.arange(len(nodes))
    sides = [np.where(leaf, own, first + nodes[side]) for side in ("right", "left")]
    return TreeValues(
        feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int64),
        threshold=np.where(leaf, 0.0, nodes["num_threshold"]),
        gaps_left=nodes["missing_go_to_left"].astype(bool),
        kids=np.stack(sides, axis=1).astype(np.int64).ravel(),
        value=nodes["value"].astype(np.float64),
        roots=roots,
        depth=max(int(tree["depth"].max()) for tree in trees),
        baseline=np.asarray(model._baseline_prediction, dtype=np.float64).ravel(),
        classes=kind == "HistGradientBoostingClassifier",
    )


def _several_boosted(model: Any, kind_of: Callable[[Any], str]) -> Columns | None:
    if kind_of(model) != "MultiOutputRegressor":
        return None
    parts = [_boosted(one, kind_of) for one in model.estimators_]
    return Columns([part for part in parts if part is not None]) if all(parts) else None
