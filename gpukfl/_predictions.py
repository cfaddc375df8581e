"""Predictions of a fitted model, as arrays, series or frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._array import Array, to_host
from gpukfl.core._checks import check_choice
from gpukfl.estimators._dask import defer_for_dask
from gpukfl.tables import Table
from gpukfl.tables._labelled import AUTO, OUTPUTS, frame_library, label_rows
from gpukfl.tables._reader import Reader, read_new_rows
from gpukfl.tables._target import target_names


class ModelPredictions:
    """Predictions of a fitted estimator, whose rows may be a table."""

    estimator: Any
    method: str
    task: str
    reader: Reader | None
    target_name: str
    output: str
    classes_: Any

    def __sklearn_is_fitted__(self) -> bool:
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return False
        return True

    @property
    def table(self) -> Table | None:
        """Columns that the model reads, with their kinds; None for complete numbers."""
        known = self.reader or getattr(self.estimator, "encodings_", None)
        return None if known is None else known.table

    def _rows(self, X: Any) -> Any:
        """Convert `X` to the rows that the estimator takes."""
        check_is_fitted(self.estimator)
        return read_new_rows(self.estimator, self.reader, X, self.target_name)

    def set_output(self, *, predict: str | None = None, transform: str | None = None) -> Self:
        """Set whether predictions are arrays, or series and frames.

        Parameters
        ----------
        predict : {"auto", "default", "pandas", "polars"}, optional
            "auto", the default: for pandas frames, `predict` returns a series, and
            `predict_interval`, `predict_quantiles` and `predict_set` return frames. Probabilities
            are arrays, as scikit-learn's tools expect, and for other rows everything is an array.
            "default" always returns arrays. "pandas" and "polars" always return series and
            frames, also for probabilities.
        transform : {"default", "pandas", "polars"}, optional
            For `transform`, as in scikit-learn.

        Returns
        -------
        self
            The setting is not saved in files.

        Raises
        ------
        ValueError
            If a setting is unknown.
        """
        if predict is not None:
            check_choice("predict", predict, OUTPUTS)
            self.output = predict
        if transform is not None and hasattr(self.estimator, "set_output"):
            self.estimator.set_output(transform=transform)
        return self

    def predict(self, X: Any) -> Any:
        """Predict the target at `X`.

        For a pandas frame, return a series with its index and the target's name, or a frame for
        several targets. For other rows, return an array of the library that was used in `fit`.
        See `set_output`.
        """
        return self._label(self._predict(X), X, self._target_names)

    @defer_for_dask
    def _predict(self, X: Any) -> Array:
        return self.estimator.predict(self._rows(X))

    @property
    def _target_names(self) -> Sequence[str]:
        if is_classifier(self.estimator):
            return (self.target_name,)
        return target_names(self.target_name, int(self.estimator.intercept_.shape[0]))

    def _label(self, found: Any, X: Any, names: Sequence[Any], parts: Sequence[Any] = (), /) -> Any:
        """Return values of the rows `X` in the form of `set_output`."""
        library = frame_library(X, self.output)
        return label_rows(found, X, library, names, parts) if library else found

    def _label_probabilities(self, found: Any, X: Any) -> Any:
        """Return probabilities as arrays, unless `set_output` chose frames."""
        if self.output == AUTO:
            return found
        return self._label(found, X, to_host(self.classes_).tolist())

    def predict_proba(self, X: Any) -> Any:
        """Return the classes' probabilities at `X`, in the order of `classes_`.

        Raises
        ------
        TypeError
            If the model is a regression.
        """
        return self._label_probabilities(self._estimate(X, "predict_proba"), X)

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the classes' probabilities at `X`.

        Raises
        ------
        TypeError
            If the model is a regression.
        """
        return self._label_probabilities(self._estimate(X, "predict_log_proba"), X)

    @defer_for_dask
    def _estimate(self, X: Any, method: str) -> Array:
        if not is_classifier(self.estimator):
            msg = "expected a classification model, got a regression: use predict"
            raise TypeError(msg)
        return getattr(self.estimator, method)(self._rows(X))

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Return intervals that cover the target with a probability of about `coverage`.

        For a frame, return a frame with the columns `lower` and `upper`, for each of several
        targets. See `AutoRegressor.predict_interval` and `set_output`.

        Raises
        ------
        TypeError
            If the model is no blend, or a classification.
        """
        found = self._call_blend(X, "predict_interval", coverage)
        return self._label(found, X, self._target_names, ("lower", "upper"))

    def predict_quantiles(self, X: Any, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> Any:
        """Return quantiles of the target: see `AutoRegressor.predict_quantiles`.

        For a frame, return a frame with a column for each level: see `set_output`.

        Raises
        ------
        TypeError
            If the model is no blend, or a classification.
        """
        found = self._call_blend(X, "predict_quantiles", levels)
        return self._label(found, X, self._target_names, tuple(levels))

    def predict_set(self, X: Any, coverage: float = 0.9) -> Any:
        """Return sets of classes that contain the true one with a probability of about `coverage`.

        For a frame, return a frame with a column for each class. See `AutoClassifier.predict_set`
        and `set_output`.

        Raises
        ------
        TypeError
            If the model is no blend, or a regression.
        """
        found = self._call_blend(X, "predict_set", coverage)
        return self._label(found, X, to_host(self.classes_).tolist())

    @defer_for_dask
    def _call_blend(self, X: Any, method: str, given: Any) -> Array:
        return self._blend_method(method)(self._rows(X), given)

    @defer_for_dask
    def transform(self, X: Any) -> Array:
        """Project `X` on the learned directions.

        Raises
        ------
        TypeError
            If the method learns no directions.
        """
        if not hasattr(self.estimator, "transform"):
            msg = f"expected a model with learned directions, got method {self.method!r}"
            raise TypeError(msg)
        return self.estimator.transform(self._rows(X))

    def _blend_method(self, name: str) -> Any:
        if self.method != "auto":
            msg = (
                f"{name} is for blends, got a model of method {self.method!r}: "
                f"for a blend of it, use gpukfl.fit(..., members=[{self.method!r}])"
            )
            raise TypeError(msg)
        if not hasattr(self.estimator, name):
            other = "predict_interval" if name == "predict_set" else "predict_set"
            task = "classification" if name == "predict_set" else "regression"
            msg = f"expected a {task} model for {name}, got a {self.task}: use {other}"
            raise TypeError(msg)
        return getattr(self.estimator, name)
