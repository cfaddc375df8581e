"""A fitted model: predictions, explanations, reports and files of one estimator."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

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
from gpukfl.inspection import (
    Importances,
)
from gpukfl.portfolio._fold_fits import usual_jobs
from gpukfl.portfolio._scored import read_scored_rows, score_models
from gpukfl.tables._labelled import AUTO
from gpukfl.tables._reader import Reader, encode_training_data
from gpukfl.tables._reference import Reference
from gpukfl.tables._relations import GivenRelations
from gpukfl.tables._target import host_target, order_targets
from gpukfl.tables._training import read_test_data, read_training_data, split_target, take_rows
from gpukfl.tables._validation import join_validation

if TYPE_CHECKING:
    pass

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
class Model(ModelExplanations):
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
