"""A model that predicts with NumPy alone."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpukfl._accel.trust import use_numpy_only
from gpukfl.core._archive import FAULTS, Archive, RefusedError
from gpukfl.core._array import Array
from gpukfl.core._frames import (
    NotANumberError,
    check_rows,
    check_size,
    listed,
    not_finite,
    rows_to_numbers,
)
from gpukfl.predictor import Predictor, check_finite_prediction
from gpukfl.predictor._codec import Decoder, MisfitError
from gpukfl.runtime._labels import RuntimeLabels, read_labels
from gpukfl.runtime._reading import KINDS, RowReading, decode_predictor, open_model
from gpukfl.tables._frame import Frame, is_named, read_frame, read_numbers
from gpukfl.tables._seen import fill_with_medians

_BLOCK_ELEMENTS = 2**18  # temporary elements of a block of rows; a few such arrays fit in a cache
_COMPILED_ROWS = 2**14  # rows per call of compiled code, which makes smaller blocks itself
_MIN_OPERATIONS = 10**6  # of NumPy, from which imported compiled code is faster
_MIN_OPERATIONS_TO_IMPORT = 4 * 10**8  # about half a second, as long as the imports take
_COMPILER_LIBRARIES = ("numba", "scipy", "joblib", "threadpoolctl", "psutil")
_TASKS = ("regression", "classification")


class RuntimeModel:
    """A fitted model, as `load` returns it.

    Attributes
    ----------
    method, task : str
        The method of `gpukfl.fit`, and "regression" or "classification".
    feature_names : list of str
        Name of each column of rows; for a table also of those that are dropped.
    target_name : str
        Name of the target.
    classes_ : array of shape (n_classes,) or None
        Labels of a classification.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import gpukfl, gpukfl.runtime
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    >>> model = gpukfl.fit(X, X[:, 0] ** 2, method="bkernn", ridge=0.01)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "model.gpukfl"))
    ...     light = gpukfl.runtime.load(os.path.join(folder, "model.gpukfl"))
    >>> bool(np.allclose(light.predict(X), model.predict(X)))
    True
    """

    def __init__(
        self, predictor: Predictor, about: dict[str, Any], reading: RowReading | None = None
    ) -> None:
        self._fitted, reading = predictor, reading or RowReading()
        self._table, self._encoding = reading.table, reading.encoding
        self._medians = reading.medians
        self.method: str = about["method"]
        self.task: str = about["task"]
        self.feature_names: list[str] = about["feature_names"]
        self.target_name: str = about["target_name"]
        self.classes_ = predictor.labels

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target, or labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers; a blend also accepts missing values. A frame needs the columns of the
            fit in their order. A model of a table accepts a frame, a dict of columns, a list of
            dicts, a structured array or a list of rows, with categories, text, dates and missing
            values. Predictions are computed in the precision of the model.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            Predictions, in the dtype of X; or labels.

        Raises
        ------
        ValueError
            If X is not as described, or so far from the training set that a prediction overflows.
        """
        found = self._evaluate_blocks(self._fitted.decode, X, "prediction")
        return found if self.classes_ is None else self.classes_[found]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the classes' probabilities.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            As of `predict`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to 1.

        Raises
        ------
        TypeError
            If the model is a regression.
        ValueError
            As of `predict`.
        """
        if self.classes_ is None:
            msg = "expected a classification model, got a regression: use predict"
            raise TypeError(msg)
        return self._evaluate_blocks(self._fitted.probabilities, X, "probability")

    def _evaluate_blocks(self, convert: Callable[[Array], Array], X: Any, what: str) -> np.ndarray:
        """Evaluate by blocks of rows, and convert the values."""
        parts = []
        with use_numpy_only():
            rows = self._rows(X)
        fitted, width = self._fitted, max(self._fitted.values.width, rows.shape[1])
        is_compiled = _compiled_is_faster(len(rows) * getattr(fitted.values, "steps", 0))
        evaluate: Callable[[Array], Array] = fitted.values
        size = max(_BLOCK_ELEMENTS // width, 1)
        if is_compiled:
            evaluate, size = fitted.evaluate, _COMPILED_ROWS
        if fitted.monotone is not None:  # the projection makes its own blocks
            evaluate, size = fitted.evaluate, max(len(rows), 1)
        limit = contextlib.nullcontext() if is_compiled else use_numpy_only()
        with limit, np.errstate(over="ignore", invalid="ignore"):  # overflow is checked below
            for start in range(0, len(rows), size):
                block = rows[start : start + size]
                block = block if self._encoding is None else self._encoding.transform(block)
                parts.append(np.asarray(convert(evaluate(block))))
        found = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if found.dtype.kind == "f":
            columns = found[:, None] if found.ndim == 1 else found
            check_finite_prediction(columns, what, found.dtype)
        return found

    def _rows(self, X: Any) -> np.ndarray:
        """Return numeric rows, or the codes of a table."""
        if self._table is None:
            return self._numbers(X)
        if not (isinstance(X, list) and len(X) == 1):  # `codes` reads one dict faster
            names = [column.name for column in self._table.columns]
            X = read_frame(X, besides=self.target_name, known=names)
        codes = self._table.codes(X, besides=self.target_name)
        check_size(codes.shape, 1)
        return codes

    def _numbers(self, X: Any) -> np.ndarray:
        if is_named(X):
            X = self._stack_columns(X)
        names = getattr(X, "column_names", getattr(X, "columns", None))  # pyarrow, or others
        if names is not None and [str(name) for name in names] != self.feature_names:
            given = ", ".join(map(str, names))[:200]
            msg = f"expected columns {', '.join(self.feature_names)[:200]} in order, got {given}"
            raise ValueError(msg)
        rows = np.asarray(X if names is not None else self._read_rows(X))
        categories = "category" in map(str, getattr(X, "dtypes", ()))
        # Object columns may have missing values of other libraries
        if names is not None and (categories or rows.dtype.kind not in "biuf"):
            rows = self._stack_columns(X)
        if rows.dtype.kind not in "biuf":
            msg = f"expected numbers in X, got {rows.dtype}"
            raise ValueError(msg)
        if rows.dtype.name not in ("float32", "float64"):
            rows = rows.astype(np.float64)
        check_rows(rows)
        d = self._fitted.n_features
        if rows.ndim != 2 or rows.shape[1] != d:
            msg = f"expected X of shape (n, {d}), got {rows.shape}"
            raise ValueError(msg)
        if self._medians is not None:
            rows = np.asarray(fill_with_medians(rows, self._medians, self.feature_names))
        if not np.isfinite(rows).all():
            msg = f"expected finite numbers in X, got {not_finite(rows, self.feature_names)}"
            raise ValueError(msg)
        return rows

    def _read_rows(self, X: Any) -> Any:
        """Convert rows of objects or text to numbers."""
        try:
            return rows_to_numbers(X)
        except NotANumberError as error:
            msg = f"expected columns of numbers, got {error.value!r}"
            raise ValueError(msg) from None

    def _stack_columns(self, X: Any) -> np.ndarray:
        """Return numeric columns in the order of the fit."""
        frame = read_frame(X, besides=self.target_name, known=self.feature_names)
        lacking = [name for name in self.feature_names if name not in frame.names]
        if lacking:
            msg = f"expected columns {listed(lacking)}, which are not in X"
            raise ValueError(msg)
        indices = [frame.names.index(name) for name in self.feature_names]
        return np.column_stack([_read_column(frame, k) for k in indices])

    def __repr__(self) -> str:
        return f"RuntimeModel({self.method}, {self.task}, {len(self.feature_names)} features)"


def load(path: str | Path, /) -> RuntimeModel | RuntimeLabels:
    """Load a model that was saved by `Model.save` or an estimator, to predict with NumPy alone.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    RuntimeModel or RuntimeLabels
        The model; `RuntimeLabels` for several labels a row. Nothing in the file is executed.

    Raises
    ------
    ValueError
        If the file is truncated, damaged, not a gpukfl model or has an unsupported version. If
        predictions need more than NumPy, as for a blend with members other than kernel methods,
        linear models and gradient-boosted trees.
    OSError
        If the file cannot be read.

    Notes
    -----
    The checksum and the prediction function are checked as by `gpukfl.load`. The record of the fit
    is not read.
    """
    models = read_labels(path, _load_one)
    return RuntimeLabels(models) if models else _load_one(path)


def _load_one(path: str | Path) -> RuntimeModel:
    with Path(path).open("rb") as file:
        try:
            return _make_model(Archive(file))
        except (RefusedError, MisfitError) as error:
            msg = f"expected a gpukfl model file, got {path}, {error}"
            raise ValueError(msg) from error


def _compiled_is_faster(n_operations: int) -> bool:
    """Whether compiled code, with its imports, is faster than so many operations of NumPy."""
    if all(name in sys.modules for name in _COMPILER_LIBRARIES):
        return n_operations > _MIN_OPERATIONS
    return n_operations > _MIN_OPERATIONS_TO_IMPORT and _has_compiler()


@functools.cache
def _has_compiler() -> bool:
    """Whether all libraries of compiled code are installed."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in _COMPILER_LIBRARIES)
    except (ImportError, ValueError):
        return False


def _make_model(archive: Archive) -> RuntimeModel:
    header, arrays = open_model(archive)
    about = header.get("model")
    if not isinstance(about, dict) or about.get("task") not in _TASKS:
        msg = f"whose model is not of a task among {', '.join(_TASKS)}"
        raise RefusedError(msg)
    texts = [about.get(name) for name in ("method", "target_name")]
    names = about.get("feature_names")
    if not isinstance(names, list) or not all(isinstance(n, str) for n in [*texts, *names]):
        msg = "whose names are not text"
        raise RefusedError(msg)
    try:
        predictor, reading = decode_predictor(header, Decoder(arrays, archive.read, KINDS))
        with use_numpy_only(), np.errstate(all="ignore"):
            predictor.check_outputs()
    except (RefusedError, MisfitError):
        raise
    except FAULTS as error:
        msg = f"which needs more than NumPy to predict: {error}"
        raise RefusedError(msg) from error
    return RuntimeModel(predictor, about, reading)


def _read_column(frame: Frame, k: int) -> np.ndarray:
    try:
        return read_numbers(frame.column(k))
    except NotANumberError as error:
        msg = f"expected columns of numbers, got {error.value!r} in {frame.names[k]}"
        raise ValueError(msg) from None
    except ValueError as error:
        msg = f"column {frame.names[k]!r}: {error}"
        raise ValueError(msg) from None
