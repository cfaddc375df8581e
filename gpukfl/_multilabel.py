"""Several labels a row: one model and file with a model of two classes for each label."""

from __future__ import annotations

import html
import json
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.metrics import accuracy_score

from gpukfl import _model
from gpukfl._model import Model
from gpukfl.core._array import array_namespace, is_array, to_host
from gpukfl.core._checks import check_choice, check_number
from gpukfl.core._files import atomic_write
from gpukfl.core._frames import as_frame, is_frame
from gpukfl.core._warnings import keep_warnings
from gpukfl.inspection._explanation import stack_outputs
from gpukfl.partitioned import is_dask
from gpukfl.runtime._labels import FORMAT, INDEX, probability_of_true, read_labels
from gpukfl.tables import Table
from gpukfl.tables._labelled import AUTO, OUTPUTS, frame_library, label_rows
from gpukfl.tables._target import target_name, target_names
from gpukfl.tables._training import split_target
from gpukfl.tables._validation import read_validation

if TYPE_CHECKING:
    import pandas as pd

    from gpukfl.inspection import Explanation

# ------------------------------------------------------------------------------- indicators


@dataclass(frozen=True, eq=False)
class Indicators:
    """Rows and the labels that each of them has.

    Attributes
    ----------
    X : object
        Rows (n, d), without the columns of the labels.
    values : host array of bool, shape (n, k)
        Whether a row has a label.
    labels : tuple of str
        Names of the labels.
    """

    X: Any
    values: np.ndarray
    labels: tuple[str, ...]


def read_indicators(X: Any, y: Any, /) -> Indicators | None:
    """Return the indicators of several labels a row, or None for any other target.

    If each row has exactly one label, the columns are classes, and it returns None.
    """
    if any(map(is_dask, (X, y))):
        return None
    X, y, _ = split_target(X, y)
    values = _host_matrix(y)
    if values is None or values.shape[1] < 2 or not len(values):
        return None
    known = values.dtype.kind in "biuf" and np.isin(values, (0, 1)).all()
    if not known or (values.sum(axis=1, dtype=np.int64) == 1).all():
        return None
    name = target_name(y) or "y"
    return Indicators(X, values.astype(bool), target_names(name, values.shape[1]))


def _split_validation(given: Indicators, validation: Any, named: Any, /) -> list[dict[str, Any]]:
    """Return for each label the argument `validation` of its fit, if there is one.

    `named` is y if it names columns. Raises ValueError if a label varies in the fit, but not in
    the validation rows.
    """
    if validation is None:
        return [{} for _ in given.labels]
    X, y, weights = read_validation(validation, named)
    values, names = _read_columns(y, given.labels)
    _check_names("validation", names, given.labels)
    for label, own, one in zip(given.labels, given.values.T, values.T, strict=True):
        if len(one) and _varies(own) and not _varies(one):
            msg = (
                f"expected rows with and without the label {label!r} in validation, got only rows "
                f"{'with' if one[0] else 'without'} it"
            )
            raise ValueError(msg)
    rest = () if weights is None else (weights,)
    return [{"validation": (X, one, *rest)} for one in values.T]


def _varies(has: np.ndarray, /) -> bool:
    """Whether some rows have a label and others do not."""
    return bool(has.any() and not has.all())


def _read_columns(y: Any, labels: Sequence[str], /) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return indicators (n, k) in the order of known labels if names agree, and their names."""
    values, k = _host_matrix(y), len(labels)
    if values is None or values.shape[1] != k or not np.isin(values, (0, 1)).all():
        got = "no matrix of 0 and 1" if values is None else f"values of shape {values.shape}"
        msg = f"expected y of 0 and 1, a column for each of {k} labels, got {got}"
        raise ValueError(msg)
    name, known = target_name(y), tuple(labels)
    found = target_names(name, k) if name else known
    if set(found) == set(known):
        values, found = values[:, [found.index(one) for one in known]], known
    return values.astype(bool), found


def _check_names(what: str, names: Sequence[str], labels: Sequence[str], /) -> None:
    """Raise ValueError for a name of no label; labels of arrays have no names."""
    if tuple(labels) != target_names("y", len(labels)):
        for name in names:
            check_choice(what, name, tuple(labels))


def _host_matrix(y: Any) -> np.ndarray | None:
    if is_array(y):
        values = to_host(y)
    elif is_frame(y) or isinstance(y, (list, tuple)):
        try:
            values = np.asarray(as_frame(y) if is_frame(y) else y)
        except ValueError:  # rows of different lengths
            return None
        if values.dtype == object:
            values = np.array(values.tolist())
    else:
        return None
    return values if values.ndim == 2 else None


# ------------------------------------------------------------------------------------ model


@dataclass(eq=False, repr=False)
class MultiLabelModel:
    """One model of two classes for each label, for rows with several labels or none.

    `gpukfl.fit` returns this model for a matrix of 0 and 1 with ``task="classification"``. Like
    scikit-learn's `OneVsRestClassifier`, it predicts such a matrix.

    Attributes
    ----------
    models : list of Model
        One model for each label, with the classes False and True.
    output : str
        Form of the predictions, as for `set_output`. Files do not keep it.
    warnings_ : list of str
        Warnings of the fit.
    """

    models: list[Model]
    output: str = AUTO
    warnings_: list[str] = field(default_factory=list)

    @classmethod
    def from_fits(
        cls, given: Indicators, fit: Callable[..., Model], validation: Any, named: Any, /
    ) -> Self:
        """Fit a model to each label by ``fit(X, y)``, or ``fit(X, y, validation=...)``."""
        models, held_out = [], _split_validation(given, validation, named)
        for label, one, own in zip(given.labels, given.values.T, held_out, strict=True):
            model = fit(given.X, one, **own)
            model.target_name = label
            models.append(model)
        return cls(models)

    @property
    def classes_(self) -> np.ndarray:
        """Names of the labels (k,)."""
        return np.array([one.target_name for one in self.models], dtype=object)

    @property
    def labels(self) -> list[str]:
        """Names of the labels."""
        return [one.target_name for one in self.models]

    @property
    def dropped(self) -> list[str]:
        """Columns of the file that `gpukfl fit --drop` left out."""
        return self.models[0].dropped

    @dropped.setter
    def dropped(self, names: list[str]) -> None:
        for one in self.models:
            one.dropped = names

    def model_of(self, label: str) -> Model:
        """Return the model of one label, with the classes False and True.

        Parameters
        ----------
        label : str
            One of `labels`.

        Raises
        ------
        ValueError
            If there is no such label.
        """
        check_choice("label", label, tuple(self.labels))
        return self.models[self.labels.index(label)]

    @property
    def target_name(self) -> str:
        """Names of all labels, with commas between them."""
        return ", ".join(self.labels)

    @property
    def feature_names(self) -> list[str]:
        """Names of the features."""
        return self.models[0].feature_names

    @property
    def table(self) -> Table | None:
        """The schema of the columns; None if all columns are complete numbers."""
        return self.models[0].table

    @property
    def estimator(self) -> Any:
        """The estimator of the first label."""
        return self.models[0].estimator

    @property
    def task(self) -> str:
        """The task, "classification"."""
        return "classification"

    # ------------------------------------------------------------------ as an estimator

    @keep_warnings
    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, *, validation: Any = None, **related: Any
    ) -> Self:
        """Fit to other rows with the same options, and tune again: see `Model.fit`.

        Raises
        ------
        TypeError, ValueError
            If y is no matrix of 0 and 1 with as many labels, or the rows do not fit the
            description.
        """

        def fit(one: Model, rows: Any, y: Any, **own: Any) -> Model:
            return clone(one).fit(rows, y, sample_weight, **related, **own)

        self.models = self._fit_each(fit, X, y, validation)
        return self

    @keep_warnings
    def refit(self, X: Any, y: Any, sample_weight: Any = None, **related: Any) -> Self:
        """Return a model of other rows, with the same members and settings: see `Model.refit`."""

        def refit(one: Model, rows: Any, y: Any) -> Model:
            return one.refit(rows, y, sample_weight, **related)

        return replace(self, models=self._fit_each(refit, X, y))

    def _fit_each(
        self, fit: Callable[..., Model], X: Any, y: Any, validation: Any = None
    ) -> list[Model]:
        rows, values, labels = self._read(X, y)
        named = None if split_target(X, y)[1] is y else y
        held_out = _split_validation(Indicators(rows, values, labels), validation, named)
        found = []
        for one, label, column, own in zip(self.models, labels, values.T, held_out, strict=True):
            model = fit(one, rows, column, **own)
            model.target_name = label
            found.append(model)
        return found

    def _read(self, X: Any, y: Any) -> tuple[Any, np.ndarray, tuple[str, ...]]:
        """Return rows, indicators (n, k), and names of the labels in the order of the model."""
        X, y, _ = split_target(X, y)
        return X, *_read_columns(y, self.labels)

    def _read_named(self, X: Any, y: Any) -> tuple[Any, np.ndarray]:
        """Return rows and indicators (n, k); raise ValueError if y has names of other labels."""
        X, values, labels = self._read(X, y)
        _check_names("y", labels, self.labels)
        return X, values

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the first label's estimator."""
        return self.models[0].get_params(deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters of all labels for the next `fit`."""
        for one in self.models:
            one.set_params(**params)
        return self

    def __sklearn_clone__(self) -> Self:
        return replace(self, models=[clone(one) for one in self.models], warnings_=[])

    def __sklearn_is_fitted__(self) -> bool:
        return all(one.__sklearn_is_fitted__() for one in self.models)

    def __sklearn_tags__(self) -> Any:
        tags = self.models[0].__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags

    # ------------------------------------------------------------------ predictions

    def set_output(self, *, predict: str) -> Self:
        """Set the form of predictions: see `Model.set_output`.

        Raises
        ------
        ValueError
            If the word is unknown.
        """
        check_choice("predict", predict, OUTPUTS)
        self.output = predict
        return self

    def _label(self, found: Any, X: Any, *, shares: bool = False) -> Any:
        library = "" if shares and self.output == AUTO else frame_library(X, self.output)
        return label_rows(found, X, library, self.labels) if library else found

    def predict(self, X: Any) -> Any:
        """Predict the labels of each row.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array or frame of int, shape (n_samples, n_labels)
            1 where a label is more likely than not, and 0 elsewhere. A frame gives a frame. Other
            rows give an array of their own library.
        """
        found = self._probabilities(X)
        xp = array_namespace(found)
        return self._label(xp.astype(found > 0.5, xp.int64), X)

    def predict_proba(self, X: Any) -> Any:
        """Estimate the probability that a row has each label.

        Returns
        -------
        array of shape (n_samples, n_labels)
            Probability of each label by itself: the sum over a row need not be 1. `set_output` can
            request a frame.
        """
        return self._label(self._probabilities(X), X, shares=True)

    def _probabilities(self, X: Any) -> Any:
        columns = []
        for one in self.models:
            columns.append(probability_of_true(one, one._estimate(X, "predict_proba")))
        xp = array_namespace(columns[0])
        return xp.stack(columns, axis=1)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows with all labels predicted correctly, as scikit-learn does."""
        X, values = self._read_named(X, y)
        predicted = to_host(self._probabilities(X)) > 0.5
        return float(accuracy_score(values, predicted, sample_weight=sample_weight))

    def predict_set(self, X: Any, coverage: float = 0.9) -> Any:
        """Return, for each label, the set of False and True that holds with probability `coverage`.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Coverage of each label by itself, in (0, 1).

        Returns
        -------
        array or frame of bool, shape (n_samples, n_labels, 2)
            Whether False is in the set, and whether True is. A frame has a column for each pair of
            label and class: see `set_output`.

        Raises
        ------
        TypeError
            If the models are no blends.
        """
        columns = []
        for one in self.models:
            known = one._call_blend(X, "predict_set", coverage)
            xp, classes = array_namespace(known), to_host(one.classes_).tolist()
            never = xp.zeros_like(known[:, 0])
            both = [known[:, classes.index(c)] if c in classes else never for c in (False, True)]
            columns.append(xp.stack(both, axis=1))
        found = array_namespace(columns[0]).stack(columns, axis=1)
        library = frame_library(X, self.output)
        return label_rows(found, X, library, self.labels, (False, True)) if library else found

    # ------------------------------------------------------------------ shown and saved

    def leaderboard(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> pd.DataFrame:
        """Return the scores of every model of the labels' blends: see `Model.leaderboard`.

        Parameters
        ----------
        X, y : as for `score`, optional
            Rows with the indicators of all labels. Scores are then for these rows, and not for the
            rows that the fit held out.
        sample_weight : array of shape (n_samples,), optional
            Weights of these rows.

        Returns
        -------
        DataFrame
            The leaderboards of the labels below each other, each with its best model first. The
            first column is label.

        Raises
        ------
        TypeError, ValueError
            As `Model.leaderboard`, or if y has the name of no label.
        """
        if X is None or y is None:
            return self._join({one.target_name: one.leaderboard(X, y) for one in self.models})
        X, values = self._read_named(X, y)
        return self._join(
            {
                one.target_name: one.leaderboard(X, column, sample_weight)
                for one, column in zip(self.models, values.T, strict=True)
            }
        )

    def importances(self, *rows: Any) -> pd.DataFrame:
        """Return how much each column matters to each label: see `Model.importances`.

        Parameters
        ----------
        *rows
            None, as for `Model.importances`.

        Returns
        -------
        DataFrame
            The importances of the labels below each other. The first column is label.

        Raises
        ------
        TypeError
            As `Model.importances`.
        """
        return self._join({one.target_name: one.importances(*rows) for one in self.models})

    def partial_dependence(
        self, columns: Any = None, *, X: Any = None, y: Any = None, **options: Any
    ) -> pd.DataFrame:
        """Return how the mean probability of each label varies with each column, with bands.

        Parameters
        ----------
        columns : str, int, or sequence of these, optional
            As for `Model.partial_dependence`: by default the most important columns of each label.
        X : array or frame of shape (n_samples, n_features), optional
            Rows over which means are taken.
        y : optional
            The indicators of these rows, or names of their columns, as for `score`.
        **options : object
            Further options of `Model.partial_dependence`. `max_time` applies to each label.

        Returns
        -------
        DataFrame
            The curves of the labels below each other. The first column is label. A label that all
            rows of the fit have, or none, is left out.

        Raises
        ------
        TypeError, ValueError
            As `Model.partial_dependence`, or if all labels are left out.
        """
        asked = {"columns": columns, **options}
        if y is None:
            return self._join(
                {label: one.partial_dependence(X=X, **asked) for label, one in self._varying()}
            )
        X, values = self._read_named(X, y)
        given = dict(zip(self.labels, values.T, strict=True))
        return self._join(
            {
                label: one.partial_dependence(X=X, y=given[label], **asked)
                for label, one in self._varying()
            }
        )

    def explain(self, X: Any, **options: Any) -> Explanation:
        """Return what each column adds to the prediction of each label: see `Model.explain`.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows as for `predict`.
        **options : object
            Options of `Model.explain`. The labels share `max_time`.

        Returns
        -------
        gpukfl.inspection.Explanation
            An explanation with an output for each label: its log odds or its probability. A label
            that all rows of the fit have, or none, is left out.

        Raises
        ------
        TypeError, ValueError
            As `Model.explain`, or if all labels are left out.
        """
        if options.get("max_time") is not None:
            check_number("max_time", options["max_time"], low=0, low_allowed=False)
            options["max_time"] /= len(self.models)
        parts = {label: one.explain(X, **options) for label, one in self._varying()}
        return stack_outputs(list(parts.values()), tuple(parts))

    def _varying(self) -> list[tuple[str, Model]]:
        """Return the labels that vary in the fit, with their models."""
        found = [
            (label, one)
            for label, one in zip(self.labels, self.models, strict=True)
            if len(one.classes_) > 1
        ]
        if not found:
            msg = "expected a label that only some rows of the fit have, got none"
            raise ValueError(msg)
        return found

    @staticmethod
    def _join(frames: Mapping[str, pd.DataFrame], /) -> pd.DataFrame:
        """Return the frames of all labels as one; its first column is the label."""
        import pandas as pd

        joined = pd.concat(frames, names=["label"]).reset_index(level="label")
        joined.attrs = dict(next(iter(frames.values())).attrs)
        return joined.reset_index(drop=True)

    def drift(self, X: Any) -> Any:
        """Return the columns whose values differ from those of the fit: see `Model.drift`."""
        return self.models[0].drift(X)

    def summary(self) -> str:
        """Return the summaries of all labels."""
        told = (f"label {one.target_name}\n{one.summary()}" for one in self.models)
        return "\n\n".join(told)

    def report(self, path: str | Path, **options: Any) -> None:
        """Write a page that lists the labels, and one page beside it for each label.

        Parameters
        ----------
        path : str or Path
            The first page. The page of the second label of "page.html" is "page_2.html".
        **options : object
            Options of `Model.report`. The targets of ``held_out`` (test rows) and ``fitted_to``
            (training rows) are the indicators of all labels.

        Raises
        ------
        TypeError, ValueError, OSError
            As `Model.report`.
        """
        path, items = Path(path), []
        for k, one in enumerate(self.models):
            own = dict(options)
            for name in ("held_out", "fitted_to"):
                if own.get(name) is not None:
                    X, values = self._read_named(*own[name])
                    own[name] = X, values[:, k]
            page = path.with_name(f"{path.stem}_{k + 1}{path.suffix}")
            one.report(page, **own)
            name, link = html.escape(one.target_name), html.escape(page.name, quote=True)
            items.append(f'<li><a href="{link}">{name}</a></li>')
        title = f"{len(self.models)} labels"
        text = (
            f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
            f"<h1>{title}</h1><ol>{''.join(items)}</ol><pre>{html.escape(self.summary())}</pre>"
            "</html>"
        )
        with atomic_write(path) as file:
            file.write(text.encode())

    def save(self, path: str | Path, *, record: bool = True) -> None:
        """Write the models of all labels to one file that `gpukfl.load` reads.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.
        record : bool, default=True
            As of `Model.save`.

        Raises
        ------
        TypeError, ValueError, OSError
            As `Model.save`.
        """
        with tempfile.TemporaryDirectory() as folder:
            parts = [Path(folder) / f"{k}.gpukfl" for k in range(len(self.models))]
            for part, one in zip(parts, self.models, strict=True):
                one.save(part, record=record)
            with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
                archive.writestr(INDEX, json.dumps({"format": FORMAT, "count": len(parts)}))
                for part in parts:
                    archive.write(part, part.name)

    def __repr__(self) -> str:
        return f"MultiLabelModel({len(self.models)} labels: {', '.join(self.labels)})"


# ------------------------------------------------------------------------------------ files


def load(path: str | Path, /) -> Any:
    """Read a model that `Model.save` or an estimator wrote; it predicts on any machine.

    Parameters
    ----------
    path : str or Path
        The file.

    Returns
    -------
    Model or MultiLabelModel
        Ready to predict; the second of a file of several labels. Nothing in the file is executed.

    Raises
    ------
    ValueError
        If the file is truncated, damaged, not a gpukfl model, or of another version.
    OSError
        If it cannot be read.
    """
    models = read_labels(path, _model.load)
    return MultiLabelModel(models) if models else _model.load(path)
