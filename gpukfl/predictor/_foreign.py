"""Linear models, constants and boosted trees of scikit-learn as functions of arrays.

They are members of blends by default. Files hold them so, and nothing of scikit-learn is needed to
predict.
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
from gpukfl.predictor._predictor import AtOnce, Foreign, Predictor, Put

_MANY = 20_000  # rows from which scikit-learn has all threads
_LAST = ("RidgeCV", "LogisticRegression")  # steps behind a scaler
_BOOSTED = ("HistGradientBoostingRegressor", "HistGradientBoostingClassifier")


@dataclass(frozen=True, eq=False)
class LinearValues(AtOnce):
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
class ConstantValues(AtOnce):
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
        """Raise ValueError unless it is finite numbers."""
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
    """A fitted model of scikit-learn whose predictions are one function of arrays.

    Attributes
    ----------
    values : Forest, LinearValues or ConstantValues
        Predictions (n, t), or probabilities of the classes.
    classes_ : array, shape (k,), or None
        Labels; None of a regression.
    one_target : bool
        Whether predictions are (n,).
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
        """Raise ValueError unless the model predicts for all rows."""
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
    """Return a fitted model of scikit-learn as arrays, or None if it is unknown."""
    if isinstance(model, ArrayModel):
        return model
    values = next((found for read in _READERS if (found := read(model)) is not None), None)
    if values is None:
        return None
    learned = model.steps[-1][1] if _class_name(model) == "Pipeline" else model
    labels = getattr(learned, "classes_", None)
    one_target = labels is None and values.n_outputs == 1 and _class_name(model) != _SEVERAL
    return ArrayModel(values, labels, one_target)


def member_predictor(model: Any, /) -> Predictor:
    """Return the predictor of a fitted member of a blend, whatever library it is of."""
    own = getattr(model, "predictor_", None)
    if isinstance(own, Predictor):
        return own
    found = array_model(model)
    if found is not None:  # quicker than scikit-learn, which checks rows for every model again
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
    """Allow one thread for few rows, of which several wait for each other more than work."""
    from gpukfl._accel.limits import one_sklearn_openmp_thread

    return one_sklearn_openmp_thread() if n < _MANY else contextlib.nullcontext()


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


def _linear(model: Any) -> LinearValues | None:
    steps = [step for _, step in model.steps] if _class_name(model) == "Pipeline" else []
    kinds = [_class_name(step) for step in steps]
    if len(kinds) != 2 or kinds[0] != "StandardScaler" or kinds[1] not in _LAST:
        return None
    scaler, last = steps
    if scaler.mean_ is None or scaler.scale_ is None or not hasattr(last, "coef_"):
        return None
    if hasattr(last, "classes_") and not _are_softmax(last):
        return None
    coef = np.ascontiguousarray(np.atleast_2d(last.coef_).T, dtype=np.float64)
    intercept = np.broadcast_to(last.intercept_, (coef.shape[1],)).astype(np.float64)
    mean, scale = (one.astype(np.float64, copy=False) for one in (scaler.mean_, scaler.scale_))
    return LinearValues(mean, scale, coef, intercept, hasattr(last, "classes_"))


def _are_softmax(model: Any) -> bool:
    """Whether a logistic regression has the probabilities of `proba`."""
    if getattr(model, "multi_class", "auto") not in ("auto", "deprecated", "warn"):
        return False
    return len(model.coef_) == 1 or model.solver != "liblinear"


def _constant(model: Any) -> ConstantValues | None:
    """Return the constant of a model that knows one class only, or None."""
    if (
        _class_name(model) == "DummyClassifier"
        and model.strategy == "prior"
        and model.n_outputs_ == 1
    ):
        values = model.class_prior_
    elif _class_name(model) == "DummyRegressor":
        values = np.ravel(model.constant_)
    else:
        return None
    return ConstantValues(np.asarray(values, dtype=np.float64), model.n_features_in_)


_SEVERAL = "MultiOutputRegressor"


def _read_trees(model: Any) -> Forest | None:
    if _class_name(model) in _BOOSTED:
        return read_forest(model)
    if _class_name(model) != _SEVERAL or {*map(_class_name, model.estimators_)} != {_BOOSTED[0]}:
        return None
    parts = [read_forest(one) for one in model.estimators_]
    found = [one for one in parts if one is not None]
    if len(found) < len(parts) or len({one.link for one in found}) > 1:
        return None
    if any(len(one.levels) for one in found):  # of which each target may know others
        return None
    return Forest.concat(found, [0] * len(found), found[0].n_features)


_READERS: tuple[Callable[[Any], Any], ...] = (_linear, _read_trees, _constant)
