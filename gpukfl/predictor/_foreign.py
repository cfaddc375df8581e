"""Conversion of scikit-learn's linear models, constants and boosted trees to functions of arrays.

Blends contain such models by default. As arrays in a file, they predict without scikit-learn.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, as_columns, to_host
from gpukfl.predictor._classes import proba
from gpukfl.predictor._forest import Forest, read_forest
from gpukfl.predictor._predictor import DirectFunction, Foreign, Predictor, Put

_FEW_ROWS = 20_000  # below this number of rows, scikit-learn uses one thread
_LINEAR_MODELS = ("RidgeCV", "LogisticRegression")  # each after a scaler in a pipeline
_BOOSTED = ("HistGradientBoostingRegressor", "HistGradientBoostingClassifier")
_MULTI_OUTPUT = "MultiOutputRegressor"


@dataclass(frozen=True, eq=False)
class LinearValues(DirectFunction):
    """A linear model of standardised rows: values or probabilities (n, t)."""

    mean: Array  # (d,)
    scale: Array  # (d,)
    coef: Array  # (d, t)
    intercept: Array  # (t,)
    classes: bool

    @property
    def n_features(self) -> int:
        """Number of columns of rows."""
        return self.coef.shape[0]

    @property
    def n_outputs(self) -> int:
        """Number of columns of values."""
        return 2 if self.classes and self.coef.shape[1] == 1 else self.coef.shape[1]

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return self.coef.shape[0]

    def check(self) -> None:
        """Raise ValueError unless shapes agree and numbers are finite."""
        d, t = self.coef.shape if self.coef.ndim == 2 else (0, 0)
        shapes = {"mean": (d,), "scale": (d,), "coef": (d, t), "intercept": (t,)}
        _check_finite(self, shapes)

    def __call__(self, X: Array, /) -> Array:
        """Evaluate at rows (n, d)."""
        rows = (X - self.mean) / self.scale
        raw = rows @ self.coef + self.intercept
        return proba(raw, self.coef.shape[1]) if self.classes else raw

    def map_arrays(self, put: Put, /) -> Self:
        """Return the function with arrays mapped by `put`."""
        names = ("mean", "scale", "coef", "intercept")
        found: dict[str, Any] = {name: put(getattr(self, name)) for name in names}
        return dataclasses.replace(self, **found)


@dataclass(frozen=True, eq=False)
class ConstantValues(DirectFunction):
    """The same values (t,) for every row."""

    values: Array
    n_features: int

    @property
    def n_outputs(self) -> int:
        """Number of columns of values."""
        return self.values.shape[0]

    @property
    def width(self) -> int:
        """Return the temporary elements per row."""
        return self.values.shape[0]

    def check(self) -> None:
        """Raise ValueError unless the values are finite."""
        _check_finite(self, {"values": (len(np.asarray(self.values)),)})

    def __call__(self, X: Array, /) -> Array:
        """Evaluate at rows (n, d)."""
        xp = array_namespace(X)
        return xp.zeros_like(X[:, :1], dtype=xp.float64) + self.values

    def map_arrays(self, put: Put, /) -> Self:
        """Return the function with arrays mapped by `put`."""
        return dataclasses.replace(self, values=put(self.values))


def _check_finite(values: Any, shapes: dict[str, tuple[int, ...]]) -> None:
    for name, shape in shapes.items():
        array = getattr(values, name)
        wrong = array.dtype != "float64" or array.shape != shape or 0 in shape
        if wrong or not np.isfinite(array).all():
            msg = f"expected finite {name} of float64 {shape}, got {array.dtype} {array.shape}"
            raise ValueError(msg)


# ---------------------------------------------------------------------- models


@dataclass(frozen=True, eq=False)
class ArrayModel:
    """A fitted model of scikit-learn as a function of arrays.

    Attributes
    ----------
    values : Forest, LinearValues or ConstantValues
        Computes predictions (n, t), or class probabilities.
    classes_ : array, shape (k,), or None
        Class labels; None for a regression.
    one_target : bool
        Whether predictions have shape (n,).
    """

    values: Forest | LinearValues | ConstantValues
    classes_: np.ndarray | None
    one_target: bool

    @property
    def n_features_in_(self) -> int:
        """Number of columns of rows."""
        return self.values.n_features

    @property
    def predictor_(self) -> Predictor:
        """The same model as a predictor."""
        return Predictor(self.values, self.n_features_in_, one_target=False, labels=self.classes_)

    def check(self) -> None:
        """Raise ValueError unless values and labels match, and all rows have predictions."""
        self.values.check()
        t, labels = self.values.n_outputs, self.classes_
        if labels is not None and (labels.shape != (t,) or len(np.unique(labels)) < t):
            msg = f"expected {t} labels that differ, got shape {labels.shape}"
            raise ValueError(msg)
        if self.one_target and (labels is not None or t > 1):
            msg = f"expected one target, got {t} outputs"
            raise ValueError(msg)
        probable = getattr(self.values, "link", "") == "probabilities"
        if labels is None and (probable or getattr(self.values, "classes", False)):
            msg = "expected labels of probabilities, got none"
            raise ValueError(msg)

    def predict(self, X: Any, /) -> np.ndarray:
        """Predict for rows (n, d): values, or labels."""
        found = np.asarray(self.values(np.asarray(X)))
        if self.classes_ is not None:
            return self.classes_[found.argmax(axis=1)]
        return found[:, 0] if self.one_target else found

    def predict_proba(self, X: Any, /) -> np.ndarray:
        """Probabilities (n, k) of the classes for rows (n, d)."""
        if self.classes_ is None:
            msg = "expected a classification model, got a regression: use predict"
            raise TypeError(msg)
        return np.asarray(self.values(np.asarray(X)))


def array_model(model: Any, /) -> ArrayModel | None:
    """Convert a fitted model of scikit-learn to arrays; return None if that is not supported."""
    if isinstance(model, ArrayModel):
        return model
    values = next((found for read in _READERS if (found := read(model)) is not None), None)
    if values is None:
        return None
    learned = model.steps[-1][1] if _class_name(model) == "Pipeline" else model
    labels = getattr(learned, "classes_", None)
    one_target = labels is None and values.n_outputs == 1 and _class_name(model) != _MULTI_OUTPUT
    return ArrayModel(values, labels, one_target)


def member_predictor(model: Any, /) -> Predictor:
    """Return the predictor of a fitted model of any library."""
    own = getattr(model, "predictor_", None)
    if isinstance(own, Predictor):
        return own
    found = array_model(model)
    if found is not None:  # faster than scikit-learn, where every model checks the rows again
        return found.predictor_
    from sklearn.base import is_classifier

    classifies = is_classifier(model)
    ask = model.predict_proba if classifies else model.predict
    values = Foreign(str(unknown_member(type(model).__name__)), partial(_ask_on_host, ask))
    labels = np.asarray(model.classes_) if classifies else None
    return Predictor(values, getattr(model, "n_features_in_", 0), one_target=False, labels=labels)


def _ask_on_host(ask: Callable[[np.ndarray], np.ndarray], X: Array) -> Array:
    """Return a model's predictions (n, t) at rows (n, d), computed on the host."""
    rows = np.asarray(to_host(X), dtype=np.float64)
    with few_threads(len(rows)):
        found = ask(rows)
    return as_columns(np.asarray(found).astype(np.float64, copy=False))


def few_threads(n: int, /) -> contextlib.AbstractContextManager[object]:
    """Limit scikit-learn to one thread for few rows, where more threads mostly wait."""
    from gpukfl._accel.limits import one_sklearn_openmp_thread

    return one_sklearn_openmp_thread() if n < _FEW_ROWS else contextlib.nullcontext()


def unknown_member(kind: str, /) -> TypeError:
    """Return the error for a member of an unknown class."""
    msg = (
        "expected members that are kernel methods, linear models or gradient-boosted trees, "
        f"got {kind}: fit with members='kernels' for kernel methods alone"
    )
    return TypeError(msg)


def _class_name(model: Any) -> str:
    """Return the class name of a scikit-learn model, or an empty string."""
    kind = type(model)
    return kind.__name__ if kind.__module__.startswith("sklearn.") else ""


def _read_linear(model: Any) -> LinearValues | None:
    steps = [step for _, step in model.steps] if _class_name(model) == "Pipeline" else []
    kinds = [_class_name(step) for step in steps]
    if len(kinds) != 2 or kinds[0] != "StandardScaler" or kinds[1] not in _LINEAR_MODELS:
        return None
    scaler, last = steps
    if scaler.mean_ is None or scaler.scale_ is None or not hasattr(last, "coef_"):
        return None
    if hasattr(last, "classes_") and not _uses_softmax(last):
        return None
    coef = np.ascontiguousarray(np.atleast_2d(last.coef_).T, dtype=np.float64)
    intercept = np.broadcast_to(last.intercept_, (coef.shape[1],)).astype(np.float64)
    mean, scale = (one.astype(np.float64, copy=False) for one in (scaler.mean_, scaler.scale_))
    return LinearValues(mean, scale, coef, intercept, hasattr(last, "classes_"))


def _uses_softmax(model: Any) -> bool:
    """Whether the probabilities of a logistic regression are those of `proba`."""
    if getattr(model, "multi_class", "auto") not in ("auto", "deprecated", "warn"):
        return False
    return len(model.coef_) == 1 or model.solver != "liblinear"


def _read_constant(model: Any) -> ConstantValues | None:
    """Return the values of a dummy model, such as that of a single class, or None."""
    kind = _class_name(model)
    if kind == "DummyClassifier" and model.strategy == "prior" and model.n_outputs_ == 1:
        values = model.class_prior_
    elif kind == "DummyRegressor":
        values = np.ravel(model.constant_)
    else:
        return None
    return ConstantValues(np.asarray(values, dtype=np.float64), model.n_features_in_)


def _read_trees(model: Any) -> Forest | None:
    if _class_name(model) in _BOOSTED:
        return read_forest(model)
    if _class_name(model) != _MULTI_OUTPUT or {*map(_class_name, model.estimators_)} != {
        _BOOSTED[0]
    }:
        return None
    parts = [read_forest(one) for one in model.estimators_]
    found = [one for one in parts if one is not None]
    if len(found) < len(parts) or len({one.link for one in found}) > 1:
        return None
    if any(len(one.levels) for one in found):  # each target's trees may know other levels
        return None
    return Forest.concat(found, [0] * len(found), found[0].n_features)


_READERS: tuple[Callable[[Any], Any], ...] = (_read_linear, _read_trees, _read_constant)
