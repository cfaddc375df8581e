"""A fitted model: predictions, explanations, reports and files of one estimator."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from gpukfl._explanations import ModelExplanations
from gpukfl._refit import refit_estimator
from gpukfl._registry import known_methods
from gpukfl.core._array import to_host
from gpukfl.core._checks import check_number
from gpukfl.core._frames import check_in_memory
from gpukfl.core._lazy import OldName
from gpukfl.core._warnings import keep_warnings
from gpukfl.deployment._compression import (
    Compression,
    compress_estimator,
    own_score,
    remeasure_blend,
)
from gpukfl.deployment._model_files import read, write
from gpukfl.estimators._base import feature_names
from gpukfl.estimators._run import count_time_from
from gpukfl.inspection import Importances
from gpukfl.portfolio._fold_fits import default_jobs
from gpukfl.portfolio._scored import read_scored_rows, score_models
from gpukfl.tables._labelled import AUTO
from gpukfl.tables._reader import Reader, encode_training_data
from gpukfl.tables._reference import Reference
from gpukfl.tables._relations import GivenRelations
from gpukfl.tables._target import host_target, order_targets
from gpukfl.tables._training import read_test_data, read_training_data, split_target, take_rows
from gpukfl.tables._validation import join_validation

_NOT_SAVED = (
    "estimator",
    "max_time",
    "columns",
    "impute",
    "compression",
    "weighted",
    "related",
    "command",
    "output",
)


@dataclass(eq=False, repr=False)
class Model(ModelExplanations):
    """A tuned and fitted model, with the record of its fit.

    A model is also a scikit-learn estimator. `fit` tunes and fits again with the options of the
    `gpukfl.fit` call, and `sklearn.base.clone` returns a model that is not fitted. Therefore
    `cross_val_score(model, X, y)` scores the whole procedure, with its tuning.

    Attributes
    ----------
    estimator : scikit-learn estimator
        The estimator that predicts, with all fitted attributes.
    method, task : str
        The method of `gpukfl.fit`, and "regression" or "classification".
    n_samples : int
        Number of rows of the fit, without those of weight 0; copies of a row count once.
    feature_names : list of str
        Names of the columns that predict.
    target_name : str
        Name of the target.
    tuning : list of dict
        Every setting that was tried, with its hold-out score and whether it was chosen.
    seconds : float
        Time that tuning and fitting took.
    target_kind : str
        Kind of the target's values: floats, integers, booleans, categories or text.
    max_time : float, optional
        Time limit of `fit` in seconds; not saved.
    reader : Reader, optional
        Converts frames to the rows of the estimator, if it does not accept frames.
    columns : dict of str: str, optional
        Kinds of columns that `fit` does not detect, by name; not saved.
    impute : str
        How `fit` replaces missing numbers of a table; not saved.
    compression : Compression, optional
        Sizes and scores before and after `compress`; not saved.
    warnings_ : list of str
        Warnings of the fit, each once, at most 20.
    weighted : bool
        Whether the fit had sample weights; not saved.
    related : dict of str: str
        The arguments groups, time, gap and cv of the fit, as text; not saved.
    dropped : list of str
        Columns of the file that `gpukfl fit --drop` left out.
    command : str
        The shell command of `gpukfl fit`, which the report shows; not saved.
    reference : Reference, optional
        A sample of the training rows, for `drift`.
    output : str
        The setting of `set_output`; not saved.
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
    dropped: list[str] = field(default_factory=list)
    command: str = ""
    reference: Reference | None = None
    output: str = AUTO

    def __post_init__(self) -> None:
        self.tuning = [
            {key: value for key, value in trial.items() if key != "estimator"}
            for trial in self.tuning
        ]

    @classmethod
    def from_estimator(cls, estimator: Any, /) -> Self:
        """Return a model with an estimator that is already fitted.

        Parameters
        ----------
        estimator : estimator of a method of `gpukfl.fit`, or of kernel ridge regression
            Fitted.

        Returns
        -------
        Model
            With the estimator itself, not a copy.

        Raises
        ------
        TypeError
            If it is another kind of estimator.
        """
        task = "classification" if is_classifier(estimator) else "regression"
        kinds = {row.estimator_class(task): method for method, row in known_methods().items()}
        if type(estimator) not in kinds:
            names = ", ".join(kind.__name__ for kind in kinds)
            msg = f"expected an estimator of gpukfl ({names}), got {type(estimator).__name__}"
            raise TypeError(msg + ": use pickle for others")
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
        """Fit to other data with the same options as `gpukfl.fit`, and tune again.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            As for `gpukfl.fit`.
        y : str, or array, series or frame of shape (n_samples,) or (n_samples, n_targets)
            A target for the task of this model, or the name of its column in X. Rows without a
            target are dropped, with a warning.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0.
        groups, time, gap, cv : optional
            Groups of rows, times and splits, as in `gpukfl.fit`; by default the columns that
            were named there. Arrays must be passed again; without them you are warned.
        validation : tuple or frame, optional
            For a blend: rows that score the models instead of folds, as in `gpukfl.fit`.

        Returns
        -------
        self
            The fitted model; unchanged if an error is raised.

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
        options = self._time_limit | default_jobs(estimator, len(data))
        estimator.set_params(**options)
        rows = encode_training_data(estimator, data, self.columns, self.impute)
        with count_time_from(begun):
            estimator._fit_read(rows.X, data)
        self.estimator = estimator.set_params(**dict.fromkeys(options))
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
        """Return a model fitted to other rows with the settings of this one, without a search.

        Each model of a blend starts from its parameters here, such as its metric. Weights of the
        blend, calibration and intervals come from the new rows alone, held out as in a fit. This
        model does not change.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows with the columns of the fit, in any order if they have names. New levels are
            handled as in `predict`. Other columns are ignored, with a warning.
        y : str, or array, series or frame of shape (n_samples,) or (n_samples, n_targets)
            As many targets as in the fit, or the name of their column in X. Classes are those of
            the new rows.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0.
        groups, time, gap, cv : optional
            Groups of rows, times and splits, as in `fit`.

        Returns
        -------
        Model
            A new model.

        Raises
        ------
        TypeError, ValueError
            If the data are not as described, or a column is missing.

        Notes
        -----
        Blends use at most three folds, and one more model of all rows for each member, unless the
        fit had other settings. A refit takes a fifth to a third of the time of a fit, or more if
        boosted trees took most of it. Only members of the blend are fitted: use `fit` if the new
        rows may need others. Your own estimators cannot be refitted from a file. They are dropped,
        with a warning.
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
    def _time_limit(self) -> dict[str, float | None]:
        """Return the time limit of the next fit, if the estimator has one."""
        return {"max_time": self.max_time} if hasattr(self.estimator, "max_time") else {}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the estimator's parameters, with which `fit` fits again."""
        return {**self.estimator.get_params(deep=deep), **self._time_limit}

    def set_params(self, **params: Any) -> Self:
        """Set parameters for the next `fit`.

        Raises
        ------
        ValueError
            If the estimator has no such parameter.
        """
        if self._time_limit:
            self.max_time = params.pop("max_time", self.max_time)
        self.estimator.set_params(**params)
        return self

    def __sklearn_clone__(self) -> Self:
        blank: dict[str, Any] = {"n_samples": 0, "seconds": 0.0, "reader": None}
        blank |= {"tuning": [], "warnings_": [], "reference": None}
        return replace(self, estimator=clone(self.estimator), **blank)

    def __sklearn_tags__(self) -> Any:
        return self.estimator.__sklearn_tags__()

    @property
    def n_features_in_(self) -> int:
        """Number of columns that predict."""
        known = self.reader
        return self.estimator.n_features_in_ if known is None else len(known.names)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the columns, for a model that was fitted to a frame."""
        if self.reader is not None:
            return np.array(self.reader.names, dtype=object)
        return self.estimator.feature_names_in_

    @property
    def classes_(self) -> np.ndarray:
        """Labels of a classification."""
        return self.estimator.classes_

    def leaderboard(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Any:
        """Return the scores of every model of a blend, as a frame: see `AutoRegressor`.

        Parameters
        ----------
        X, y : as for `score`, optional
            Rows with their targets, for scores on these instead of the held-out rows of the fit.
        sample_weight : array of shape (n_samples,), optional
            Weights of these rows.

        Returns
        -------
        DataFrame
            See `AutoRegressor.leaderboard`. For a single method one row, for the given rows.

        Raises
        ------
        TypeError
            If the model is not a blend, and no rows are given.
        ValueError
            If only one of X and y is given, or they do not match the fit.
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

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R² of a regression, share of correct labels of a classification.

        `y` may name a column of X. Rows without a target are dropped, with a warning.
        """
        data = read_test_data(X, y, sample_weight, target=self.target_name, named=False)
        rows, truth = self._rows(data.X), host_target(data.y)
        return self.estimator.score(rows, truth, sample_weight=data.sample_weight)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importance of each column, summing to 1; for a blend computed at first access."""
        found = to_host(self.estimator.feature_importances_)
        return found.copy() if self.reader is None else self.reader.sum_by_column(found)

    def most_important(self, count: int = 10) -> list[tuple[str, float]]:
        """Return names and importances of the leading columns."""
        check_number("count", count, kind=Integral, low=0)
        return Importances(tuple(self.feature_names), self.feature_importances_).leading(count)

    def __repr__(self) -> str:
        if not self.__sklearn_is_fitted__():
            return f"Model({self.method}, {self.task}, not fitted)"
        return (
            f"Model({self.method}, {self.task}, {self.n_samples} rows, "
            f"{len(self.feature_names)} columns)"
        )

    # ------------------------------------------------------------------ files and smaller models

    def save(self, path: str | Path, *, record: bool = True) -> None:
        """Write the model to one file that `gpukfl.load` reads anywhere.

        Parameters
        ----------
        path : str or Path
            The file. An existing file is replaced when the new one is complete.
        record : bool, default=True
            Whether to save what predictions and intervals do not need: the held-out rows of a blend
            with their predictions, a sample of rows for `drift`, the factors of HKRR's Gaussian
            process, and BKerNN's dual coefficients. Without the record, a loaded model has no
            `drift`, no standard deviations, and no inference without X and y. A blend also has no
            `compress` and `distilled` without X and y, and no held-out panels in its report. The
            importances of a blend are always saved.

        Raises
        ------
        NotFittedError
            If the model is not fitted.
        TypeError
            If the model holds something that is neither an array nor JSON.
        ValueError
            If the model was changed and is not consistent.
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
            If predictions need more than array operations, as for a table with text. The message
            says what to fit instead.
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
        """Return a smaller model whose score is at most about `tolerance` lower.

        Growing numbers of knots, centres, features or members are tried. The smallest whose score
        is good enough on one half of the rows is kept. The other half measures the loss. Learned
        directions and importances do not change.

        Parameters
        ----------
        tolerance : float, default=0.01
            Largest accepted loss of the score, R² or accuracy; at least 0.
        X, y : as for `score`, optional
            At least 4 rows that the fit has not seen. A random half chooses the size, and the other
            half gives the scores of `compression`. A blend of folds' models has such rows itself.
            If its models were refitted to all rows, intervals and sets are also computed from
            the rows that you pass.
        sample_weight : array of shape (n_samples,), optional
            Weights of these rows.

        Returns
        -------
        Model
            A new model. Its attribute `compression` has the sizes, and the scores and the loss on
            the rows that did not choose the size. There, the loss may exceed `tolerance`, as these
            rows are a sample. If no smaller model is good enough, the new one is the same as this
            one, with a loss of 0.

        Raises
        ------
        ValueError
            If `tolerance` is negative, or X and y are needed and missing, or too few.
        TypeError
            If an estimator of another library predicts.

        Notes
        -----
        Centres are chosen by pivoted Cholesky, O(q³) for the q ≤ 4000 centres with the largest
        coefficients. Coefficients are fitted to the old function at the centres by least squares.
        A model with standard deviations loses these.
        """
        check_number("tolerance", tolerance, low=0)
        if (X is None) != (y is None) or (X is None and self.method != "auto"):
            msg = (
                "expected X and y that the fit has not seen, to compare scores, "
                f"got {'no X' if X is None else 'X'} and {'no y' if y is None else 'y'}"
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
    """Load a model that was saved by `Model.save` or an estimator, on any machine.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Model
        The fitted model. Nothing in the file is executed.

    Raises
    ------
    ValueError
        If the file is truncated, damaged, not a gpukfl model, or has an unsupported version.
    OSError
        If the file cannot be read.
    """
    estimator, about = read(path)
    return Model(estimator=estimator, **about)
