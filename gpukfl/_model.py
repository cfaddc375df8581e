"""A fitted model: predictions, explanations, reports and files of one estimator."""

from __future__ import annotations

import html
import inspect
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from gpukfl._refit import refit_estimator
from gpukfl._registry import METHODS, known_methods
from gpukfl.core._array import Array, to_host
from gpukfl.core._checks import check_choice, check_number
from gpukfl.core._files import check_can_write
from gpukfl.core._frames import check_in_memory
from gpukfl.core._lazy import OldName
from gpukfl.core._source import import_lines
from gpukfl.core._warnings import keep_warnings
from gpukfl.deployment._compression import (
    Compression,
    compress_estimator,
    own_score,
    remeasure_blend,
)
from gpukfl.deployment._model_files import read, write
from gpukfl.estimators._base import feature_names, task_text
from gpukfl.estimators._dask import defer_for_dask
from gpukfl.estimators._run import count_time_from
from gpukfl.inspection import (
    Description,
    Explanation,
    Importances,
    Inferred,
    Shown,
    write_report,
)
from gpukfl.portfolio._fold_fits import usual_jobs
from gpukfl.portfolio._scored import read_scored_rows, score_models
from gpukfl.tables import Table
from gpukfl.tables._labelled import AUTO, OUTPUTS, frame_library, label_rows
from gpukfl.tables._reader import Reader, encode_training_data, read_new_rows
from gpukfl.tables._reference import Reference
from gpukfl.tables._relations import GivenRelations
from gpukfl.tables._schema import data_facts
from gpukfl.tables._target import host_target, order_targets, target_names
from gpukfl.tables._training import read_test_data, read_training_data, split_target, take_rows
from gpukfl.tables._validation import join_validation

if TYPE_CHECKING:
    import pandas as pd

# ------------------------------------------------------------------------------------ call

# The line of Python that fits a model again.


_WIDE = 88  # letters of a line
_DEFAULTS = {"backend": "auto", "scaling": "auto", "impute": "median"}  # of `gpukfl.fit`
_BESIDE = {"random_state", "max_time", "columns", "impute"}  # said of the model itself


def call_text(model: Any, /) -> str:
    """Return the call of `gpukfl.fit` that a model came from, with what is not the default.

    It always names the method, the task and the seed.
    """
    given = {"method": model.method, "task": model.task} | _given_options(model)
    given["random_state"] = model.estimator.random_state
    beside = {"max_time": None, "columns": None, "impute": "median"}
    for name, default in beside.items():
        value = getattr(model, name)
        value = getattr(model.estimator, name, None) if value == default else value
        if value not in (None, default):
            given[name] = dict(value) if name == "columns" else value
    weights = ["sample_weight=sample_weight"] if model.weighted else []
    weights += [f"{name}={words}" for name, words in model.related.items()]
    arguments = ["X", "y", *weights, *(f"{name}={value!r}" for name, value in given.items())]
    line, needed = f"model = gpukfl.fit({', '.join(arguments)})", import_lines(given.values())
    if len(line) <= _WIDE:
        return needed + line
    return f"{needed}model = gpukfl.fit(\n" + "".join(f"    {one},\n" for one in arguments) + ")"


def _given_options(model: Any) -> dict[str, Any]:
    """Return the parameters of the estimator that the user chose."""
    kind, row = type(model.estimator), METHODS[model.method]
    defaults = {
        name: one.default for name, one in inspect.signature(kind.__init__).parameters.items()
    } | _DEFAULTS
    defaults["ridge"] = "tune" if row.penalised else "auto"
    params = model.estimator.get_params(deep=False)
    return {
        name: value
        for name, value in params.items()
        if name not in _BESIDE and repr(value) != repr(defaults[name])
    }


# ----------------------------------------------------------------------------------- model

# A fitted model as `gpukfl.fit` returns it: predictions, a summary, pictures, a file.


_NOT_SAVED = (
    "estimator",
    "max_time",
    "columns",
    "impute",
    "compression",
    "weighted",
    "related",
    "output",
)


@dataclass(eq=False, repr=False)
class Model(Shown):
    """A tuned and fitted estimator, with the record of its fit.

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
    related : dict of str: str
        How its call named groups, times and splits; not kept in files.
    reference : Reference, optional
        A sample of the rows of the fit, with which `drift` compares others.
    output : str
        What predictions are, as of `set_output`; not kept in files.
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
    related: Mapping[str, str] = field(default_factory=dict)
    reference: Reference | None = None
    output: str = AUTO

    def __post_init__(self) -> None:
        self.tuning = [
            {key: value for key, value in trial.items() if key != "estimator"}
            for trial in self.tuning
        ]

    @classmethod
    def from_estimator(cls, estimator: Any, /) -> Self:
        """Make a model of an estimator that was fitted on its own.

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
        kinds = {row.estimator_class(task): method for method, row in known_methods().items()}
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

    @keep_warnings
    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        time: Any = None,
        gap: Any = None,
        cv: Any = None,
        validation: Any = None,
    ) -> Self:
        """Fit to other data with the same options of `gpukfl.fit`, and tune again.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            As for `gpukfl.fit`.
        y : str, or array, series or frame of shape (n_samples,) or (n_samples, n_targets)
            A target for the task of this model, or the name of its column in X. Rows without a
            target are left out, with a warning.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0.
        groups, time, gap, cv : optional
            How rows hang together, as for `gpukfl.fit`; by default the columns that were named
            there. Arrays have to be passed again, or a warning says so.
        validation : tuple or frame, optional
            Rows that judge models in place of folds, of a blend, as for `gpukfl.fit`.

        Returns
        -------
        self
            Fitted; as it was on an error.

        Raises
        ------
        TypeError, ValueError
            If the data are not as described.
        """
        begun, given = clock.perf_counter(), GivenRelations(groups, time, gap, cv)
        check_in_memory(X)
        if validation is not None:
            self._blend_method("fit")
            X, y, sample_weight, given = join_validation(X, y, sample_weight, given, validation)
        given = given.or_else(self.related, X)
        data = read_training_data(X, y, sample_weight, given, task=self.task)
        estimator = clone(self.estimator)
        beside = self._limit | usual_jobs(estimator, len(data))
        estimator.set_params(**beside)
        rows = encode_training_data(estimator, data, self.columns, self.impute)
        with count_time_from(begun):
            estimator._fit_read(rows.X, data)
        self.estimator = estimator.set_params(**dict.fromkeys(beside))
        self.n_samples, self.reader = estimator._n_samples, rows.reader
        self.feature_names = rows.names or list(feature_names(estimator))
        self.target_name = data.target_name or self.target_name
        self.target_kind, self.weighted = data.kind, sample_weight is not None
        self.related = given.words
        self.reference = Reference.draw(data.X, self.table, self.feature_names)
        self.tuning, self.seconds = estimator.tuning_, clock.perf_counter() - begun
        self.__post_init__()
        return self

    @keep_warnings
    def refit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        time: Any = None,
        gap: Any = None,
        cv: Any = None,
    ) -> Self:
        """Return a model of other rows with the members and settings of this one, without a search.

        Each member starts from what its fits came to here, such as its metric. Weights of the
        blend, calibration and intervals come from the new rows alone, held out as in a fit. This
        model stays as it is.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows with the columns of the fit, in any order where they have names. Levels that it
            did not know are handled as by `predict`. Other columns are ignored, with a warning.
        y : str, or array, series or frame of shape (n_samples,) or (n_samples, n_targets)
            As many targets as those of the fit, or the name of their column in X. Classes are
            those of the new rows.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0.
        groups, time, gap, cv : optional
            How rows hang together, as for `fit`.

        Returns
        -------
        Model
            A new one, which `fit` would tune again with the same options.

        Raises
        ------
        TypeError, ValueError
            If the data are not as described, or a column is missing.

        Notes
        -----
        Blends have at most three folds, and one more model a member of all rows, unless the fit was
        told otherwise. It takes a fifth to a third of the time of a fit, more where boosted trees
        took most of it. Members that are not in the blend are not tried: fit again where the new
        rows may ask for others. Of a file, members that the user brought, of which it keeps only
        arrays, are left out with a warning.
        """
        check_is_fitted(self.estimator)
        begun, given = clock.perf_counter(), GivenRelations(groups, time, gap, cv)
        check_in_memory(X)
        given = given.or_else(self.related, X)
        data = read_training_data(X, y, sample_weight, given, task=self.task)
        options: dict[str, Any] = {"target": self.target_name, "impute": self.impute}
        estimator, rows = refit_estimator(
            self.estimator, self.reader, data, max_time=self.max_time, **options
        )
        found = replace(
            self,
            estimator=estimator,
            n_samples=estimator._n_samples,
            tuning=estimator.tuning_,
            seconds=clock.perf_counter() - begun,
            target_name=data.target_name or self.target_name,
            target_kind=data.kind,
            reader=rows.reader,
            compression=None,
            weighted=sample_weight is not None,
            related=given.words,
        )
        found.reference = Reference.draw(data.X, found.table, found.feature_names)
        return found

    @property
    def _limit(self) -> dict[str, float | None]:
        """Return the time limit of the next fit, if the estimator has one."""
        return {"max_time": self.max_time} if hasattr(self.estimator, "max_time") else {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the estimator's parameters, with which `fit` fits again."""
        return {**self.estimator.get_params(deep=deep), **self._limit}

    def set_params(self, **params: Any) -> Self:
        """Set parameters for the next `fit`.

        Raises
        ------
        ValueError
            If the estimator has no such parameter.
        """
        if self._limit:
            self.max_time = params.pop("max_time", self.max_time)
        self.estimator.set_params(**params)
        return self

    def __sklearn_clone__(self) -> Self:
        blank: dict[str, Any] = {"n_samples": 0, "seconds": 0.0, "reader": None}
        blank |= {"tuning": [], "warnings_": [], "reference": None}
        return replace(self, estimator=clone(self.estimator), **blank)

    def __sklearn_is_fitted__(self) -> bool:
        try:
            check_is_fitted(self.estimator)
        except NotFittedError:
            return False
        return True

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()

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
        """Convert `X` to the rows that the estimator takes."""
        check_is_fitted(self.estimator)
        return read_new_rows(self.estimator, self.reader, X, self.target_name)

    def set_output(self, *, predict: str | None = None, transform: str | None = None) -> Self:
        """Set what predictions are.

        Parameters
        ----------
        predict : {"auto", "default", "pandas", "polars"}, optional
            "auto", where nothing is set: for a frame of pandas a series from `predict`, and frames
            from `predict_interval`, `predict_quantiles` and `predict_set`. Probabilities are
            arrays, as scikit-learn's tools index them; so is all for other rows. "default" is
            arrays from all, "pandas" and "polars" are series and frames from all, also of
            probabilities and whatever the rows are.
        transform : {"default", "pandas", "polars"}, optional
            Of `transform`, as of scikit-learn.

        Returns
        -------
        self
            Files do not keep it.

        Raises
        ------
        ValueError
            If it is another word.
        """
        if predict is not None:
            check_choice("predict", predict, OUTPUTS)
            self.output = predict
        if transform is not None and hasattr(self.estimator, "set_output"):
            self.estimator.set_output(transform=transform)
        return self

    def predict(self, X: Any) -> Any:
        """Predict the target at `X`.

        Of a frame of pandas it returns a series with its index and the target's name, or
        a frame of several targets; else an array of the library that was used in `fit`:
        see `set_output`.
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
        """Return values of the rows `X` as `set_output` says."""
        library = frame_library(X, self.output)
        return label_rows(found, X, library, names, parts) if library else found

    def _label_probabilities(self, found: Any, X: Any) -> Any:
        """Return probabilities, which are arrays unless `set_output` says otherwise."""
        if self.output == AUTO:
            return found
        return self._label(found, X, to_host(self.classes_).tolist())

    def predict_proba(self, X: Any) -> Any:
        """Estimate the classes' probabilities at `X`, in the order of `classes_`.

        Raises
        ------
        TypeError
            If the model is a regression.
        """
        return self._label_probabilities(self._estimate(X, "predict_proba"), X)

    def predict_log_proba(self, X: Any) -> Any:
        """Estimate the logarithms of the classes' probabilities at `X`.

        Raises
        ------
        TypeError
            If the model is a regression.
        """
        return self._label_probabilities(self._estimate(X, "predict_log_proba"), X)

    @defer_for_dask
    def _estimate(self, X: Any, method: str) -> Array:
        return self._classifier_method(method)(self._rows(X))

    def _classifier_method(self, name: str) -> Any:
        if not is_classifier(self.estimator):
            msg = "expected a classification model, got a regression: use predict"
            raise TypeError(msg)
        return getattr(self.estimator, name)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        """Return intervals that hold the target with a probability of about `coverage`.

        Of a frame it returns one with the columns low and high, for each of several targets. See
        `AutoRegressor.predict_interval`, and `set_output`.

        Raises
        ------
        TypeError
            If the model is no blend, or a classification.
        """
        found = self._ask_blend(X, "predict_interval", coverage)
        return self._label(found, X, self._target_names, ("low", "high"))

    def predict_quantiles(self, X: Any, levels: Sequence[float] = (0.05, 0.5, 0.95)) -> Any:
        """Estimate quantiles of the target: see `AutoRegressor.predict_quantiles`.

        Of a frame it returns one with a column for each level: see `set_output`.

        Raises
        ------
        TypeError
            If the model is no blend, or a classification.
        """
        found = self._ask_blend(X, "predict_quantiles", levels)
        return self._label(found, X, self._target_names, tuple(levels))

    def predict_set(self, X: Any, coverage: float = 0.9) -> Any:
        """Return the classes that hold the true one with a probability of about `coverage`.

        Of a frame it returns one with a column for each class. See `AutoClassifier.predict_set`,
        and `set_output`.

        Raises
        ------
        TypeError
            If the model is no blend, or a regression.
        """
        found = self._ask_blend(X, "predict_set", coverage)
        return self._label(found, X, to_host(self.classes_).tolist())

    @defer_for_dask
    def _ask_blend(self, X: Any, method: str, given: Any) -> Array:
        return self._blend_method(method)(self._rows(X), given)

    @defer_for_dask
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

    def leaderboard(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Any:
        """Return the scores of every model of a blend, as a frame: see `AutoRegressor`.

        Parameters
        ----------
        X, y : as for `score`, optional
            Rows with their targets, to be scored on in place of the rows that the fit held out.
        sample_weight : array of shape (n_samples,), optional
            Weights of these rows.

        Returns
        -------
        DataFrame
            See `AutoRegressor.leaderboard`; of a single method one row, on given rows.

        Raises
        ------
        TypeError
            If the model is no blend, and there are no rows.
        ValueError
            If one of X and y is missing, or they are not as the model knows.
        """
        if X is None and y is None:
            return self._blend_method("leaderboard")()
        data = read_scored_rows(X, y, sample_weight, self.target_name)
        name = "" if self.method == "auto" else self.method
        rows = self._rows(data.X)
        return score_models(self.estimator, rows, data.y, data.sample_weight, name=name)

    def fit_times(self) -> Any:
        """Return where the time of a blend's fit went, as a frame: see `AutoRegressor.fit_times`.

        Raises
        ------
        TypeError
            If the model is no blend.
        """
        return self._blend_method("fit_times")()

    def distilled(self, method: str = "bkernn") -> Any:
        """Fit one small model to the predictions of a blend: see `AutoRegressor`.

        Raises
        ------
        TypeError
            If the model is no blend.
        """
        return self._blend_method("distilled")(method)

    def _blend_method(self, name: str) -> Any:
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
        """Importance of each feature, summing to 1; of a blend computed at the first look."""
        found = to_host(self.estimator.feature_importances_)
        return found.copy() if self.reader is None else self.reader.sum_by_column(found)

    def most_important(self, count: int = 10) -> list[tuple[str, float]]:
        """Return names and importances of the leading features."""
        check_number("count", count, kind=Integral, low=0)
        return Importances(tuple(self.feature_names), self.feature_importances_).leading(count)

    # ------------------------------------------------------------------ shown and reported

    def describe(self) -> Description:
        """Return a description of what was learned.

        Returns
        -------
        Description
            Words, names and host arrays, made when it is asked for.
        """
        names: Sequence[str] = self.feature_names
        names = names if self.reader is None else self.reader.encoding.names
        told = self.estimator._describe_columns(names, self.target_name)
        if self.reader is not None:
            told = self.reader.translate(told)
        return replace(
            told.add_warnings(self.warnings_),
            task=task_text(self.estimator, self.target_kind),
            n_samples=self.n_samples,
            seconds=self.seconds or None,
            data=told.data or data_facts(self.table, self.feature_names, None),
            call=call_text(self) if self.method in METHODS else told.call,
        )

    def _repr_html_(self) -> str:
        """Return a short HTML description, as notebooks show it."""
        if not self.__sklearn_is_fitted__():
            return f"<pre>{html.escape(repr(self))}</pre>"
        return super()._repr_html_()

    def report(
        self,
        path: str | Path,
        *,
        scores: dict[str, float] | None = None,
        inference: Inferred | None = None,
        held_out: tuple[Any, Any] | None = None,
        fitted_to: tuple[Any, Any] | None = None,
    ) -> None:
        """Write one HTML file that reports what was learned, for phones and paper too.

        Parameters
        ----------
        path : str or Path
            Where to write; an older file is replaced when the new one is complete.
        scores : dict, optional
            Named scores to show, for example on held-out rows.
        inference : gpukfl.inference.Inference, optional
            What may be concluded, for a section of its own: curves with bands, importances with
            errors, how sure directions are.
        held_out : tuple (X, y), optional
            Rows that the model has not seen, with their targets, or the name of the target's
            column: for scores with errors, and whether they agree with those of the fit's own
            held-out rows; pictures of predictions, residuals or calibration; and what shuffling
            each feature costs, with errors. Errors are those of groups where the rows have the
            column that the fit was given as `groups`.
        fitted_to : tuple (X, y), optional
            The rows of the fit. They tell the ranges of the columns; and a linear model and boosted
            trees are fitted to them, at most 20 000, to be compared on the rows of `held_out`. Of a
            single method with a kernel they give curves bands: at most 1000 rows by two fits to
            half of them; of more the bands are made of at most 500 rows of `held_out`.

        Raises
        ------
        TypeError, ValueError
            If rows or targets are not such as the model knows; says what was expected.
        OSError
            If the page cannot be written; an older one stays as it was. A folder that does not
            exist is noticed before any work.

        Notes
        -----
        The page begins with scores, importances and curves of the most important columns. Curves of
        a blend take at most about three seconds, and so do its importances at their first look.
        Without matplotlib the page has no pictures, and says so. A blend has kept the rows that its
        members were judged by: it shows these where none are given.
        """
        check_can_write(path)
        rows = {"held_out": held_out, "fitted_to": fitted_to}
        write = self._page(scores, with_bands=inference is None, **rows)
        write(path, inference)

    def _page(
        self,
        scores: dict[str, float] | None,
        /,
        *,
        with_bands: bool,
        held_out: tuple[Any, Any] | None = None,
        fitted_to: tuple[Any, Any] | None = None,
    ) -> Callable[[str | Path, Inferred | None], None]:
        """Prepare a report; return a function that writes it with or without inference."""
        from gpukfl.inference._held_out import evaluate_held_out

        told = evaluate_held_out(self, self.describe(), held_out, fitted_to, with_bands=with_bands)
        known = scores or {}
        return lambda path, inference: write_report(told, path, scores=known, inference=inference)

    def explain(
        self,
        X: Any,
        *,
        background: Any = None,
        n_background: int = 32,
        groups: Mapping[str, Sequence[str]] | None = None,
        output: str = "auto",
        n_walks: int | str = "auto",
        max_time: float | None = None,
        random_state: Any = 0,
        progress: bool | None = None,
    ) -> Explanation:
        r"""Return what each column adds to the prediction for each row.

        Contributions are Shapley values: with background rows b and v(S) the mean prediction where
        the columns in S are the row's, and others those of b, a column is paid the mean of what it
        adds to v over all orders of the columns. They sum to the prediction less the baseline, the
        mean prediction for the background rows.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows as for `predict`.
        background : array or frame, optional
            Rows to compare with, such as those of the fit. By default a blend takes those that its
            folds held out, with their weights.
        n_background : int, default=32
            How many of these are chosen, at most: together they are like all, in the means and
            variances of columns and in predictions.
        groups : mapping of str to list of str, optional
            Columns that change together, by the name of the group, such as
            ``{"place": ["latitude", "longitude"]}``; each other column is alone.
        output : {"auto", "log_odds", "probability"}, default="auto"
            What is explained of classes: by default log odds, in which effects add up. Of two
            classes it is that of the second, of more one for each. A regression has "auto" only.
        n_walks : int or "auto", default="auto"
            Pairs of orders for each row. More than there are background rows are divided among
            these. By default 64, or at least 8 where the evaluations would be more than 300 000.
        max_time : float, optional
            Seconds, after which the estimates so far are returned; at least one background row is
            taken.
        random_state : int, RandomState or None, default=0
            Draws background rows and orders.
        progress : bool, optional
            Whether progress is shown; by default on terminals and in notebooks.

        Returns
        -------
        gpukfl.inspection.Explanation
            Contributions with their standard errors and their spread over the models of the folds,
            the baseline and the predictions; with `to_frame`, `plot_row` and `plot_summary`. On the
            host in float64.

        Raises
        ------
        TypeError, ValueError
            If the rows, groups or an option are not as described; if a single method, or a model
            from a file without the rows of its fit, is asked without `background`.

        Notes
        -----
        Interventional Shapley values [1]_, by antithetic pairs of orders [2]_: 2 (p - 1)
        predictions for each pair of p columns, fewer where the row and b share values. With at most
        5 columns or groups they are exact. Each pair walks from one background row to the row; f at
        background rows that were not taken is a control variate. A sum of functions of at most two
        columns each is explained exactly by any pair, against each background row that is taken.

        Models explain new rows. Where a blend remembers a row of its fit, all columns share what it
        remembers equally. Columns that are left out, such as identifiers, contribute 0.

        References
        ----------
        .. [1] Lundberg and Lee, "A unified approach to interpreting model predictions", NeurIPS
           2017; Janzing, Minorics and Blöbaum, "Feature relevance quantification in explainable AI:
           a causal problem", AISTATS 2020.
        .. [2] Mitchell, Cooper, Frank and Holmes, "Sampling permutations for Shapley value
           estimation", JMLR 23, 2022, Section 4.
        """
        from gpukfl.inference import explain  # here, so that a fit does not wait for it

        return explain(
            self,
            X,
            background=background,
            n_background=n_background,
            groups=groups,
            output=output,
            n_walks=n_walks,
            max_time=max_time,
            random_state=random_state,
            progress=progress,
        )

    def partial_dependence(
        self,
        columns: str | int | Sequence[str | int] | None = None,
        *,
        X: Any = None,
        y: Any = None,
        points: int = 20,
        max_rows: int = 500,
        max_time: float | None = 5.0,
        random_state: Any = 0,
    ) -> pd.DataFrame:
        """Return how the mean prediction goes with each column, with bands.

        The question: what is the mean prediction if every row has this value of the column, and all
        else as it is? The answer says what the model has learned, and no cause.

        Parameters
        ----------
        columns : str, int, or sequence of these, optional
            Names or numbers of columns: numbers, categories, booleans, dates or durations. By
            default the six most important ones that are of these kinds.
        X : array or frame of shape (n_samples, n_features), optional
            Rows that means are over. By default a blend takes those that its folds held out, with
            their weights; single methods keep no rows, and need it.
        y : str, or array of shape (n_samples,) or (n_samples, n_targets), optional
            Targets of these rows, for bands of a single method, which take fits to halves of at
            least 40 rows: see `gpukfl.inference.bands`. Blends need none.
        points : int, default=20
            Values of a column, at most, and at least 2. They leave out 2 % of the rows at either
            end. Categories have their 20 most frequent levels.
        max_rows : int, default=500
            Rows that means are over, at most; of more a sample is drawn.
        max_time : float, optional
            Seconds that it may take, about: rows are fewer then, at least 20. None has no limit.
        random_state : int, RandomState or None, default=0
            Draws the rows.

        Returns
        -------
        pandas.DataFrame
            A row for each value of a column, with columns column, value (as the table has it: a
            number, a level, a date), mean (the mean prediction; of classes their probability), low
            and high; and output, the target or class, where there are several. Its `attrs` have the
            number of "rows", "of_rows" that there are, and what the "band" is.

        Raises
        ------
        TypeError, ValueError
            If a column or an option is not as described, or X is missing where it is needed.

        Notes
        -----
        Bands of a blend are two standard errors to either side, by the jackknife over its folds:
        how far the curve moves when a fold of the rows is left out of the fit. As few folds say
        little at one value, each variance is averaged with the mean over the curve, of weight 4 to
        K - 1. Bands know nothing of the bias that all fits share. Models without folds' models have
        no bands: low and high are NaN. Costs a prediction for each row and value of each column, of
        all folds' models.
        """
        from gpukfl.inference._dependence import partial_dependence

        return partial_dependence(
            self,
            columns,
            X=X,
            y=y,
            points=points,
            max_rows=max_rows,
            max_time=max_time,
            random_state=random_state,
        )

    def inference(self, X: Any, y: Any, **options: Any) -> Any:
        """Return confidence bands, tests and errors: see `gpukfl.inference.infer`.

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
        from gpukfl.inference import infer  # here, so that a fit does not wait for it

        return infer(self, X, y, **options)

    def drift(self, X: Any) -> pd.DataFrame:
        r"""Return which columns of new rows are unlike those of the fit.

        The model keeps a sample of at most 1000 rows of its fit, and compares at most 2000 of the
        new ones, drawn at random, column by column.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows as for `predict`.

        Returns
        -------
        DataFrame
            A row for each column, the smallest p-value first: column; statistic, in [0, 1];
            missing_then and missing_now, shares of rows without a value; change, in words: medians,
            the level whose share changed most, new levels; p_value, adjusted by Holm's method for
            the number of columns; and p_alone, of the column alone.

        Raises
        ------
        TypeError, ValueError
            If the rows are not as described, or a column is missing. If the model has no sample: of
            a file that was saved with ``record=False`` or is older, or of an estimator that was
            fitted on its own to a table.

        Notes
        -----
        The statistic is the largest difference between the shares of rows up to a value, of numbers
        and dates (Kolmogorov-Smirnov), and half the sum of the differences between the shares of
        levels, of others (total variation). A missing value counts as a value of its own. p is
        exact where values are continuous and complete. Of others it comes from permutations of the
        rows, at most 9999, with which no p is below 1e-4. Rows are taken as independent: groups and
        times change together, and p is too small then.

        Examples
        --------
        >>> import gpukfl
        >>> from sklearn.datasets import load_diabetes
        >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
        >>> model = gpukfl.fit(X[:300], y[:300], members=["linear"])
        >>> found = model.drift(X[300:].assign(bmi=X["bmi"] + 0.1))
        >>> found["column"][0]
        'bmi'
        """
        from gpukfl.inference._drift import measure_drift  # here, so that a fit does not wait

        check_is_fitted(self.estimator)
        return measure_drift(self, X)

    def __repr__(self) -> str:
        if not self.__sklearn_is_fitted__():
            return f"Model({self.method}, {self.task}, not fitted)"
        return (
            f"Model({self.method}, {self.task}, {self.n_samples} samples, "
            f"{len(self.feature_names)} features)"
        )

    # ------------------------------------------------------------------ files and smaller models

    def save(self, path: str | Path, *, record: bool = True) -> None:
        """Write the model to one file that `gpukfl.load` reads anywhere.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.
        record : bool, default=True
            Whether the file holds what only inference needs: the rows that the folds of a blend
            held out, and the predictions for them; a sample of rows for `drift`; the factors of
            HKRR's Gaussian process; and BKerNN's dual coefficients. Predictions and intervals need
            no record. Inference without X and y, `compress`, `distilled` and the report's held-out
            panels of a blend, and standard deviations do. Importances of a blend are in every
            file: `save` computes them where no look at them has.

        Raises
        ------
        NotFittedError
            If the model is a copy that was not fitted.
        TypeError
            If the model holds something that is neither an array nor JSON.
        ValueError
            If it is not as `gpukfl.fit` made it.
        OSError
            If the file cannot be written; an older one stays as it was.
        """
        check_is_fitted(self.estimator)
        estimator = self.estimator if record else self.estimator.without_record()
        about = self._metadata()
        write(path, estimator, about if record else about | {"reference": None})

    def _metadata(self) -> dict[str, Any]:
        """Return the fields of the model besides the estimator."""
        names = [one.name for one in fields(self) if one.name not in _NOT_SAVED]
        return {name: getattr(self, name) for name in names}

    def to_onnx(self, path: str | Path) -> None:
        """Write the prediction function to an ONNX file: see `BKerNNRegressor.to_onnx`.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.

        Raises
        ------
        TypeError
            If predictions are not array operations alone, as of a table with text; says what to
            fit instead.
        ValueError
            If a column of a table has the name of an output.
        ImportError
            If ndonnx is missing: ``pip install 'gpukfl[onnx]'``.
        OSError
            If the file cannot be written; an older one stays as it was.
        """
        self.estimator._to_onnx(path, self.feature_names, self.target_name, self.reader)

    def compress(
        self, tolerance: float = 0.01, X: Any = None, y: Any = None, sample_weight: Any = None
    ) -> Self:
        """Return a smaller model whose score is about `tolerance` lower at most.

        Of knots, centres, features or members the fewest are kept, among sizes that grow, with
        which the score holds on one half of the rows. The other half says what the model lost.
        Learned directions and importances stay as they are.

        Parameters
        ----------
        tolerance : float, default=0.01
            Largest loss of the score that is taken: R², or the share of correct labels; at least 0.
        X, y : as for `score`, optional
            Rows that the fit has not seen, at least 4: a half that is drawn chooses, and the
            scores of `compression` are those of the other half. A blend of folds' models has such
            rows by itself; of one whose members were fitted to all rows these are also what
            intervals and sets are made of.
        sample_weight : array of shape (n_samples,), optional
            Of these rows.

        Returns
        -------
        Model
            A new one; its attribute `compression` has the scores and the loss on the rows that
            have not chosen, their numbers, and the sizes. There the loss may be more than
            `tolerance`, as the rows are a sample. With no smaller one that is as good it is equal
            to this one, and its loss is 0.

        Raises
        ------
        ValueError
            If `tolerance` is negative, or X and y are missing where they are needed, or too few.
        TypeError
            If predictions are those of another library's estimator.

        Notes
        -----
        Centres are chosen by pivoted Cholesky, O(q³) for the q ≤ 4000 of them with the largest
        coefficients, and coefficients by least squares on the old function at the centres. A model
        with standard deviations loses these.
        """
        check_number("tolerance", tolerance, low=0)
        if (X is None) != (y is None) or (X is None and self.method != "auto"):
            msg = (
                "expected rows X, and their y, that the fit has not seen, on which scores are "
                f"compared, got {'no X' if X is None else 'X'} and {'no y' if y is None else 'y'}"
            )
            raise ValueError(msg)

        if X is None:
            n_rows, score = len(self.estimator._held_out.truth), own_score
        else:
            X, y, _ = split_target(X, y)
            y = order_targets(y, self.target_name)
            n_rows = y.shape[0] if hasattr(y, "shape") else len(y)
            score = self._make_scorer(X, y, sample_weight)
        estimator, what = compress_estimator(self.estimator, float(tolerance), n_rows, score)
        if what.unit == "members" and what.size < what.size_before:
            rows = None if X is None else self._rows(X)
            estimator = remeasure_blend(estimator, rows, y, sample_weight)
        return replace(self, estimator=estimator, compression=what)

    def _make_scorer(self, X: Any, y: Any, weights: Any) -> Callable[[Any, np.ndarray], float]:
        """Return a function that scores another estimator on some of the rows."""

        def score(estimator: Any, rows: np.ndarray) -> float:
            some = [None if one is None else take_rows(one, rows) for one in (X, y, weights)]
            return replace(self, estimator=estimator).score(*some)

        return score

    of = OldName("from_estimator")


def load(path: str | Path, /) -> Model:
    """Read a model that `Model.save` or an estimator wrote; it predicts on any machine.

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
