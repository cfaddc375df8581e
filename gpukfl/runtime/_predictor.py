"""A model that predicts with NumPy alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpukfl._accel.trust import numpy_alone
from gpukfl._archive import Archive, RefusedError, check_version
from gpukfl._array import Array
from gpukfl.prediction import Served, check_finite_prediction, served
from gpukfl.runtime._reading import FOREIGN, Parts, parts_of

_AT_ONCE = 2**21  # elements of a block of rows
_NAMES = {  # of the estimators of methods and tasks
    "auto": ("AutoRegressor", "AutoClassifier"),
    "bkernn": ("BKerNNRegressor", "BKerNNClassifier"),
    "hkrr": ("HKRRRegressor", "HKRRClassifier"),
    "selection": ("KernelFeatureSelector", "KernelFeatureSelectorClassifier"),
    "rkhs_weighting": ("RKHSWeightingRegressor", "RKHSWeightingClassifier"),
    "regfeal": ("RegFeaLRegressor", "RegFeaLClassifier"),
}
_TASKS = ("regression", "classification")


class Predictor:
    """A fitted model, read by `load`.

    Attributes
    ----------
    method, task : str
        What was fitted, and "regression" or "classification".
    feature_names : list of str
        One for each column of rows.
    target_name : str
        What is predicted.
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

    def __init__(self, model: Served, about: dict[str, Any]) -> None:
        self._served = model
        self.method: str = about["method"]
        self.task: str = about["task"]
        self.feature_names: list[str] = about["feature_names"]
        self.target_name: str = about["target_name"]
        self.classes_ = model.labels

    def predict(self, X: Any) -> np.ndarray:
        """Predict the target, or labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Finite numbers; of a frame the columns of the fit in their order. Computed in the
            precision of the model.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            Predictions, in the dtype of X; or labels.

        Raises
        ------
        ValueError
            If X is not such, or so far from the data of the fit that a prediction overflows.
        """
        found = self._evaluated(self._served.predicted, X, "prediction")
        return found if self.classes_ is None else self.classes_[found]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Estimate the classes' probabilities.

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
        return self._evaluated(self._served.probabilities, X, "probability")

    def _evaluated(self, said: Callable[[Array], Array], X: Any, what: str) -> np.ndarray:
        """Give what is said of the values, by blocks of rows."""
        rows = self._rows(X)
        size = max(_AT_ONCE // max(self._served.values.width, rows.shape[1]), 1)
        parts = []
        with numpy_alone(), np.errstate(over="ignore", invalid="ignore"):  # reported just below
            for start in range(0, len(rows), size):
                found = self._served.values(rows[start : start + size])
                parts.append(np.asarray(said(found)))
        found = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if found.dtype.kind == "f":
            columns = found[:, None] if found.ndim == 1 else found
            check_finite_prediction(columns, what, found.dtype)
        return found

    def _rows(self, X: Any) -> np.ndarray:
        names = getattr(X, "columns", None)
        if names is not None and [str(name) for name in names] != self.feature_names:
            given = ", ".join(map(str, names))[:200]
            msg = f"expected columns {', '.join(self.feature_names)[:200]} in order, got {given}"
            raise ValueError(msg)
        rows = np.asarray(X)
        if rows.dtype.name not in ("float32", "float64"):
            rows = rows.astype(np.float64)
        d = self._served.n_features
        if rows.ndim != 2 or rows.shape[1] != d or not len(rows):
            msg = f"expected X of shape (n, {d}) with a row at least, got {rows.shape}"
            raise ValueError(msg)
        if not np.isfinite(rows).all():
            msg = "expected finite numbers in X, got NaN or infinity"
            raise ValueError(msg)
        return rows

    def __repr__(self) -> str:
        return f"Predictor({self.method}, {self.task}, {self._served.n_features} features)"


def load(path: str | Path, /) -> Predictor:
    """Read a model that `Model.save` or an estimator's wrote, to predict with NumPy alone.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Predictor
        Ready to predict. Nothing in the file is executed.

    Raises
    ------
    ValueError
        If the file is truncated, damaged, no gpukfl model or of another version, or predictions
        need more than NumPy: of a model of a table with categories, text, dates or gaps, or of a
        blend with trees or a linear model. The latter is fitted without by ``members="kernels"``
        or a list of kernel methods.
    OSError
        If it cannot be read.

    Notes
    -----
    Checks the file's checksum, the shapes of arrays that are read, and that a row of zeros has a
    prediction. `gpukfl.load` checks every value.
    """
    with Path(path).open("rb") as file:
        try:
            archive = Archive(file)
            check_version(archive.header)
            return _assembled(archive)
        except RefusedError as error:
            msg = f"expected a gpukfl model file, got {path}, {error}"
            raise ValueError(msg) from error


def _assembled(archive: Archive) -> Predictor:
    about = archive.header.get("model")
    known = isinstance(about, dict) and about.get("method") in list(_NAMES)
    if not isinstance(about, dict) or not known or about.get("task") not in _TASKS:
        msg = f"whose model is not of {', '.join(_NAMES)}"
        raise RefusedError(msg)
    if about.get("reader") is not None:
        msg = (
            "whose rows are of a table with categories, text, dates or gaps: expected columns of "
            "numbers for NumPy alone; gpukfl.load reads it"
        )
        raise RefusedError(msg)
    kind = _NAMES[about["method"]][_TASKS.index(about["task"])]
    try:
        model = served(parts_of(archive, kind, archive.header), _kind_of)
        found = Predictor(model, about)
        with numpy_alone(), np.errstate(all="ignore"):  # shapes are looked at
            model.predicted(model.values(np.zeros((1, model.n_features))))
    except RefusedError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        msg = f"which NumPy alone cannot predict by: {error}"
        raise RefusedError(msg) from error
    return found


def _kind_of(parts: Parts) -> str:
    if parts.kind == FOREIGN:
        msg = (
            "whose blend has a member of another library (trees or a linear model): expected "
            "kernel methods alone, by members=['hkrr', 'bkernn', 'laplace']; gpukfl.load reads it"
        )
        raise RefusedError(msg)
    return parts.kind
