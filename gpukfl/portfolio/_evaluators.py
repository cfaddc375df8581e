"""What fitted members say of rows that the portfolio has checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from gpukfl._accel.limits import one_sklearn_openmp_thread
from gpukfl.core._array import (
    Array,
    array_namespace,
    as_columns,
    asarray_like,
    double_like,
    double_reference,
    to_host,
)
from gpukfl.estimators._learner import Learner
from gpukfl.prediction import array_model

_MANY = 20_000  # rows from which scikit-learn has all threads

Evaluator = Callable[[Array], Array]


def evaluator_of(model: Any, /) -> Evaluator:
    """Return what makes a fitted member's outputs (n, t) of validated rows (n, d).

    Predictions, or probabilities of the classes that it has seen; in float64, of the library of the
    rows. What does not depend on rows is done beforehand.
    """
    if isinstance(model, Learner):
        outputs = model._outputs()
        return lambda X: array_namespace(X).astype(outputs(X), double_like(X)["dtype"], copy=False)
    known = array_model(model)
    if known is not None:  # quicker than scikit-learn, which checks rows for every model again
        return lambda X: asarray_like(known.values(_wide(X)), double_reference(X))
    asked = model.predict_proba if is_classifier(model) else model.predict

    def evaluate(X: Array) -> Array:
        rows = _wide(X)
        with few_threads(len(rows)):
            found = asked(rows)
        return asarray_like(as_columns(found.astype(np.float64, copy=False)), double_reference(X))

    return evaluate


def _wide(X: Array) -> np.ndarray:
    return np.asarray(to_host(X), dtype=np.float64)


def of_all_classes(found: Array, model: Any, n_classes: int, /) -> Array:
    """Probabilities (n, n_classes) of those of the classes (n, k) that a member has seen.

    Of the others they are 0. Outputs of a regression, of 0 classes, stay as they are.
    """
    if not n_classes or found.shape[1] == n_classes:
        return found
    xp, seen = array_namespace(found), to_host(model.classes_).tolist()
    nothing = xp.zeros_like(found[:, 0])
    columns = [found[:, seen.index(k)] if k in seen else nothing for k in range(n_classes)]
    return xp.stack(columns, axis=1)


def few_threads(n: int, /) -> contextlib.AbstractContextManager[object]:
    """Limit work on few rows to one thread: several wait for each other more than work."""
    return one_sklearn_openmp_thread() if n < _MANY else contextlib.nullcontext()
