"""Outputs of scikit-learn's members at a few rows, without the checks of each call.

A row was checked when the portfolio read it. Where a blend has a model for each fold, checking it
again for every one, and a step of Python for every tree, take most of the time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from gpukfl._accel.cpu_trees import sum_leaves

FEW = 64  # rows up to which this is quicker
_LINKS = ("feature_idx", "left", "right", "missing_go_to_left")
_KNOWN = {*_LINKS, "is_leaf", "num_threshold", "value"}  # of the nodes of a tree


def for_few_rows(model: Any, /) -> Callable[[np.ndarray], np.ndarray] | None:
    """Give what a fitted model predicts of checked rows (n, d): (n, t), of classes probabilities.

    None of a model that is not known: it is asked itself.
    """
    if type(model) in (HistGradientBoostingRegressor, HistGradientBoostingClassifier):
        return Trees.of(model)
    if type(model) is MultiOutputRegressor:
        parts = [for_few_rows(one) for one in model.estimators_]
        return None if None in parts else Columns(parts)
    if type(model) is Pipeline and len(model) == 2 and type(model[0]) is StandardScaler:
        return Linear.of(*model) if type(model[1]) in (RidgeCV, LogisticRegression) else None
    return None


def probabilities(scores: np.ndarray, /) -> np.ndarray:
    """Probabilities (n, k) of log-odds (n, 1) of the second of two classes, or of scores (n, k)."""
    if scores.shape[1] > 1:
        return softmax(scores, axis=1)
    second = expit(scores)
    return np.concatenate([1.0 - second, second], axis=1)


@dataclass(frozen=True, eq=False)
class Columns:
    """Regressions of one target each, side by side."""

    parts: Sequence[Any]

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        return np.concatenate([part(X) for part in self.parts], axis=1)


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear or logistic regression of standardised features."""

    mean: np.ndarray  # (d,)
    scale: np.ndarray  # (d,)
    coef: np.ndarray  # (d, t)
    intercept: np.ndarray  # (t,)
    classes: bool

    @classmethod
    def of(cls, scaler: StandardScaler, model: Any, /) -> Self:
        """Read fitted steps of a pipeline."""
        coef = np.atleast_2d(model.coef_).T
        intercept = np.atleast_1d(model.intercept_)
        return cls(scaler.mean_, scaler.scale_, coef, intercept, is_classifier(model))

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        scores = ((X - self.mean) / self.scale) @ self.coef + self.intercept
        return probabilities(scores) if self.classes else scores


@dataclass(frozen=True, eq=False)
class Trees:
    """Gradient-boosted trees, all of them in one list of nodes."""

    links: np.ndarray  # (m, 4): feature, left, right, and whether gaps go left
    numbers: np.ndarray  # (m,): thresholds, and values of leaves
    roots: np.ndarray  # (trees,)
    columns: np.ndarray  # (trees,): the output that each adds to
    baseline: np.ndarray  # (1, t)
    classes: bool

    @classmethod
    def of(cls, model: Any, /) -> Self | None:
        """Read a fitted model; None where its trees are not as they are known to be.

        Trees are no public part of it. They are read as by every version so far; those that split
        by categories are left to scikit-learn.
        """
        grown = getattr(model, "_predictors", None)
        baseline = getattr(model, "_baseline_prediction", None)
        if not grown or baseline is None or model.is_categorical_ is not None:
            return None
        if model.loss not in ("squared_error", "log_loss"):  # whose links are known
            return None
        nodes = [tree.nodes for trees in grown for tree in trees]
        if not all(set(one.dtype.names) >= _KNOWN for one in nodes):
            return None
        sizes = np.array([len(one) for one in nodes])
        roots = np.cumsum(sizes) - sizes
        columns = np.tile(np.arange(len(grown[0])), len(grown))
        links, numbers = _read(np.concatenate(nodes), np.repeat(roots, sizes))
        baseline = np.reshape(baseline, (1, -1))
        return cls(links, numbers, roots, columns, baseline, is_classifier(model))

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        raw = np.repeat(self.baseline, len(X), axis=0)
        X = np.ascontiguousarray(X, dtype=np.float64)
        sum_leaves(self.links, self.numbers, self.roots, self.columns, X, raw)
        return probabilities(raw) if self.classes else raw


def _read(nodes: np.ndarray, roots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Links and numbers of nodes (m,) whose trees begin at `roots` (m,)."""
    links = np.stack([nodes[name].astype(np.int32) for name in _LINKS], axis=1)
    links[:, 1:3] += roots[:, None].astype(np.int32)
    leaf = nodes["is_leaf"].astype(bool)
    links[leaf, 0] = -1
    return links, np.where(leaf, nodes["value"], nodes["num_threshold"])
