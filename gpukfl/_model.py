"""A fitted model as `gpukfl.fit` returns it: predictions, a summary, pictures, a file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import Array, to_host
from gpukfl._as_estimator import AsEstimator
from gpukfl._checks import check_number
from gpukfl._columns import check_in_memory
from gpukfl._compression import Compression
from gpukfl._deployed import Deployed
from gpukfl._inferring import infer
from gpukfl._persistence import read
from gpukfl._registry import kept
from gpukfl._reported import Reported
from gpukfl._warnings import warnings_kept
from gpukfl.estimators._dask import by_partition
from gpukfl.estimators._described import feature_names
from gpukfl.tables import Table
from gpukfl.tables._reader import Reader, encode_training_data, read_new_rows
from gpukfl.tables._target import host_target
from gpukfl.tables._training import read_test_data, read_training_data

_NOT_SAVED = ("estimator", "max_time", "columns", "impute", "compression", "weighted")


@dataclass(eq=False, repr=False)
class Model(AsEstimator, Deployed, Reported):
    """A tuned and fitted estimator, and how it came about.

    It is an estimator of scikit-learn too, for its tools: `fit` fits again, with the options that
    `gpukfl.fit` was given, everything tuned anew; `sklearn.base.clone` gives a model that is not
    fitted. So `cross_val_score(model, X, y)` judges the whole procedure, with its tuning.

    Attributes
    ----------
    estimator : scikit-learn estimator
        What predicts; every fitted attribute is there.
    method, task : str
        What was fitted, and "regression" or "classification".
    n_samples : int
        Samples fitted on: without those of zero weight, copies of one counted once.
    feature_names : list of str
        One for each feature.
    target_name : str
        What is predicted.
    tuning : list of dict
        Setting, hold-out score and whether it was chosen, for each setting tried.
    seconds : float
        Time that tuning and fitting took.
    target_kind : str
        What the target's values were: floats, integers, booleans, categories or text.
    max_time : float, optional
        Seconds that `fit` may take to fit again; not kept in files.
    reader : Reader, optional
        What makes rows for the estimator of a frame, where it does not take frames itself.
    columns : dict of str: str, optional
        What `fit` takes columns for, by name, where it shall not guess; not kept in files.
    impute : str
        What stands for missing numbers where `fit` reads a table; not kept in files.
    compression : Compression, optional
        What `compress` made smaller, and the loss; not kept in files.
    warnings_ : list of str
        What the fit warned of, each once, at most 20.
    weighted : bool
        Whether the fit was given sample weights; not kept in files.
    """

    estimator: Any
    method: str
    task: str
    n_samples: int
    feature_names: list[str]
    target_name: str
    tuning: list[dict[str, Any]]
    seconds: float
    target_kind: str = ""
    max_time: float | None = None
    reader: Reader | None = None
    columns: Mapping[str, str] | None = None
    impute: str = "median"
    compression: Compression | None = None
    warnings_: list[str] = field(default_factory=list)
    weighted: bool = False

    def __post_init__(self) -> None:
        self.tuning = [
            {key: value for key, value in trial.items() if key != "estimator"}
            for trial in self.tuning
        ]

    @classmethod
    def of(cls, estimator: Any, /) -> Self:
        """Make a model of an estimator that was fitted by itself.

        Parameters
        ----------
        estimator : estimator of a method of `gpukfl.fit`, or of kernel ridge regression
            Fitted.

        Returns
        -------
        Model
            Of the estimator itself, not of a copy.

        Raises
        ------
        TypeError
            If the estimator is another.
        """
        task = "classification" if is_classifier(estimator) else "regression"
        kinds = {row.of(task): method for method, row in kept().items()}
        if type(estimator) not in kinds:
            names = ", ".join(kind.__name__ for kind in kinds)
            msg = f"expected an estimator of a method ({names}), got {type(estimator).__name__}"
            raise TypeError(msg + ": pickle keeps others")
        check_is_fitted(estimator)
        return cls(
            estimator=estimator,
            method=kinds[type(estimator)],
            task=task,
            n_samples=estimator._n_samples,
            feature_names=list(feature_names(estimator)),
            target_name="y",
            tuning=estimator.tuning_,
            seconds=0.0,
            warnings_=list(estimator.warnings_),
        )

    # ------------------------------------------------------------------ as an estimator

    @warnings_kept
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit again to other data, with the options that `gpukfl.fit` was given; tunes anew.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            As for `gpukfl.fit`.
        y : str, or array, series or frame of shape (n_samples,) or (n_samples, n_targets)
            A target for the task of this model, or the name of its column in X. Rows without a
            target are left out, with a warning.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0.

        Returns
        -------
        self
            Fitted; as it was on an error.

        Raises
        ------
        TypeError, ValueError
            If the data are not as described.
        """
        begun = time.perf_counter()
        check_in_memory(X)
        data = read_training_data(X, y, sample_weight, task=self.task)
        estimator = clone(self.estimator).set_params(**self._limit)
        rows = encode_training_data(estimator, data, self.columns, self.impute)
        estimator._fit_read(rows.X, data.y, data.sample_weight)
        self.estimator = estimator.set_params(**dict.fromkeys(self._limit))
        self.n_samples, self.reader = estimator._n_samples, rows.reader
        self.feature_names = rows.names or list(feature_names(estimator))
        self.target_name = data.target_name or self.target_name
        self.target_kind, self.weighted = data.kind, sample_weight is not None
        self.tuning, self.seconds = estimator.tuning_, time.perf_counter() - begun
        self.__post_init__()
        return self

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        known = self.reader
        return self.estimator.n_features_in_ if known is None else len(known.names)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features, of a model that was fitted to a frame."""
        if self.reader is not None:
            return np.array(self.reader.names, dtype=object)
        return self.estimator.feature_names_in_

    @property
    def classes_(self) -> np.ndarray:
        """Labels, of a classification."""
        return self.estimator.classes_

    @property
    def table(self) -> Table | None:
        """What the columns of the frame are that the model reads; None of complete numbers."""
        known = self.reader or getattr(self.estimator, "encodings_", None)
        return None if known is None else known.table

    # ------------------------------------------------------------------ predictions

    def _rows(self, X: Any) -> Any:
        """Make rows for the estimator of `X`."""
        check_is_fitted(self.estimator)
        return read_new_rows(self.estimator, self.reader, X, self.target_name)

    @by_partition
    def predict(self, X: Any) -> Array:
        """Predict the target at `X`, of the library that was used in `fit`."""
        return self.estimator.predict(self._rows(X))

    @by_partition
    def predict_proba(self, X: Any) -> Array:
        """Estimate the classes' probabilities at `X`.

        Raises
        ------
        TypeError
            If the model is a regression.
        """
        return self._of_classes("predict_proba")(self._rows(X))

    @by_partition
    def predict_log_proba(self, X: Any) -> Array:
        """Estimate the logarithms of the classes' probabilities at `X`.

        Raises
        ------
        TypeError
            If the model is a regression.
        """
        return self._of_classes("predict_log_proba")(self._rows(X))

    def _of_classes(self, name: str) -> Any:
        if not is_classifier(self.estimator):
            msg = "expected a classification model, got a regression: use predict"
            raise TypeError(msg)
        return getattr(self.estimator, name)

    @by_partition
    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Give intervals that hold the target with a probability of about `coverage`.

        See `AutoRegressor.predict_interval`.

        Raises
        ------
        TypeError
            If the model is no blend, or a classification.
        """
        return self._of_blend("predict_interval")(self._rows(X), coverage)

    @by_partition
    def predict_quantiles(self, X: Any, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> Array:
        """Estimate quantiles of the target: see `AutoRegressor.predict_quantiles`.

        Raises
        ------
        TypeError
            If the model is no blend, or a classification.
        """
        return self._of_blend("predict_quantiles")(self._rows(X), levels)

    @by_partition
    def predict_set(self, X: Any, coverage: float = 0.9) -> Array:
        """Give the classes that hold the true one with a probability of about `coverage`.

        See `AutoClassifier.predict_set`.

        Raises
        ------
        TypeError
            If the model is no blend, or a regression.
        """
        return self._of_blend("predict_set")(self._rows(X), coverage)

    @by_partition
    def transform(self, X: Any) -> Array:
        """Project `X` on the learned directions.

        Raises
        ------
        TypeError
            If the method has no directions of its own.
        """
        if not hasattr(self.estimator, "transform"):
            msg = f"expected a model with learned directions, got method {self.method!r}"
            raise TypeError(msg)
        return self.estimator.transform(self._rows(X))

    def leaderboard(self) -> Any:
        """Give what every member of a blend came to, as a frame: see `AutoRegressor`.

        Raises
        ------
        TypeError
            If the model is no blend.
        """
        return self._of_blend("leaderboard")()

    def distilled(self, method: str = "bkernn") -> Any:
        """Fit one small model to the predictions of a blend: see `AutoRegressor`.

        Raises
        ------
        TypeError
            If the model is no blend.
        """
        return self._of_blend("distilled")(method)

    def _of_blend(self, name: str) -> Any:
        if self.method != "auto":
            msg = (
                f"{name} is for blends, got a model of method {self.method!r}: "
                f"gpukfl.fit(..., members=[{self.method!r}]) fits a blend of it"
            )
            raise TypeError(msg)
        if not hasattr(self.estimator, name):
            other = "predict_interval" if name == "predict_set" else "predict_set"
            msg = f"expected a model of the other task for {name}, got a {self.task}: use {other}"
            raise TypeError(msg)
        return getattr(self.estimator, name)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of a regression, share of correct labels of a classification.

        `y` may name a column of X; rows without a target are left out, with a warning.
        """
        data = read_test_data(X, y, sample_weight, target=self.target_name, named=False)
        rows, truth = self._rows(data.X), host_target(data.y)
        return self.estimator.score(rows, truth, sample_weight=data.sample_weight)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importance of each feature, summing to 1."""
        found = to_host(self.estimator.feature_importances_)
        return found.copy() if self.reader is None else self.reader.by_column(found)

    def most_important(self, count: int = 10) -> list[tuple[str, float]]:
        """Names and importances of the leading features that have any, or of the first."""
        check_number("count", count, kind=Integral, low=0)
        importances = self.feature_importances_
        order = np.argsort(-importances, kind="stable")[:count]
        order = order[importances[order] > 0] if importances.any() else order
        return [(self.feature_names[k], float(importances[k])) for k in order]

    def inference(self, X: Any, y: Any, **options: Any) -> Any:
        """Say what may be concluded, with its errors: see `gpukfl.inference.infer`.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows, at least 40: those of the fit, or new ones, then with ``held_out=True``.
        y : str, or array of shape (n_samples,) or (n_samples, n_targets)
            Their targets, or the name of the target's column in X.
        **options : object
            Of `gpukfl.inference.infer`.

        Returns
        -------
        gpukfl.inference.Inference
            A frozen result with `summary`, `frames`, `plot` and `report`.

        Raises
        ------
        TypeError, ValueError
            If the rows or an option are not as described.
        """
        return infer(self, X, y, **options)

    def _with(self, **changes: Any) -> Self:
        """Give a copy with other fields."""
        return replace(self, **changes)

    def _about(self) -> dict[str, Any]:
        """Give what is known beside the estimator."""
        names = [one.name for one in fields(self) if one.name not in _NOT_SAVED]
        return {name: getattr(self, name) for name in names}

    def __repr__(self) -> str:
        if not self.__sklearn_is_fitted__():
            return f"Model({self.method}, {self.task}, not fitted)"
        return (
            f"Model({self.method}, {self.task}, {self.n_samples} samples, "
            f"{len(self.feature_names)} features)"
        )


def load(path: str | Path, /) -> Model:
    """Read a model that `Model.save` or an estimator's wrote; it predicts on any machine.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Model
        Ready to predict. Nothing in the file is executed.

    Raises
    ------
    ValueError
        If the file is truncated, damaged, not a gpukfl model, or of another version.
    OSError
        If it cannot be read.
    """
    estimator, about = read(path)
    return Model(estimator=estimator, **about)
