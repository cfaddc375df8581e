"""Base classes of estimators: parameters, pickles, predictions and descriptions."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, RegressorMixin, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._annotations import Choice, Count, Sometimes, Texts
from gpukfl.core._array import (
    Array,
    array_namespace,
    as_columns,
    is_array,
    lies_in_parts,
    to_host,
)
from gpukfl.core._frames import listed
from gpukfl.core._results import Status
from gpukfl.core._source import import_lines
from gpukfl.core._warnings import keep_warnings
from gpukfl.estimators._dask import run_on_data_device
from gpukfl.estimators._fitted import held
from gpukfl.estimators._reweighting import check_not_in_parts, read_loss
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._validation import validate_targets
from gpukfl.estimators.scaling import AnyScaling
from gpukfl.inspection import Description, Names, Shown, Tuning, card
from gpukfl.losses import Loss, saved_share
from gpukfl.partitioned._rows import Rows
from gpukfl.predictor import Classes, Constant, Predictor, check_finite_prediction
from gpukfl.tables._relations import GivenRelations, Relations
from gpukfl.tables._target import target_names

if TYPE_CHECKING:
    from gpukfl.tables._training import Dataset

# ----------------------------------------------------------------------------- description


SCORES = {True: "explained Brier score", False: "R²"}  # of classifiers, and of regressors


class DescribedEstimator(Shown):
    """A fitted estimator with `describe`, `summary`, `plot`, `report` and `save`.

    Each method has its own `_describe`, which reads fitted attributes, so that the description is
    the same after loading.
    """

    n_features_in_: Annotated[int, Count("n_features")]
    warnings_: Annotated[list[str], Sometimes()] = []  # noqa: RUF012 - of no fit, and never changed
    to_host: Callable[[], Any]

    def _complete_record(self) -> None:
        """Compute the fitted attributes that are computed on first use."""

    @abstractmethod
    def _describe(self, names: Names, /) -> Description:
        """Return the description of an estimator with NumPy arrays."""

    def describe(self) -> Description:
        """Return a description of what was learned.

        Returns
        -------
        Description
            Words, names and host arrays. Features have the names of the frame that was fitted, or
            are x0, x1, ...
        """
        return self._describe_columns(None, "y")

    def save(self, path: str | Path, *, record: bool = True) -> None:
        """Write the estimator to one file, from which `gpukfl.load` makes a `gpukfl.Model`.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.
        record : bool, default=True
            Whether to keep what inference needs beside predictions: see `gpukfl.Model.save`.

        Raises
        ------
        TypeError
            If it is neither of a method of `gpukfl.fit` nor kernel ridge regression, or holds what
            is neither an array nor JSON.
        ValueError
            If it is not as `fit` made it.
        OSError
            If the file cannot be written; an older one stays as it was.
        """
        from gpukfl._model import Model

        check_is_fitted(self)
        Model.from_estimator(self).save(path, record=record)

    def to_onnx(self, path: str | Path) -> None:
        """Write the prediction function to an ONNX file, which runs without this library.

        Its input "X" has the shape (n, n_features), for any n, and the precision of the fit. Of a
        table every column is an input of its name and of shape (n,): numbers are float64 with NaN
        for gaps, categories text with "" for gaps, and dates int64, microseconds since 1970. Its
        output is "prediction"; of classifiers "label" and "probabilities". Encoding of columns,
        scaling of features, clipping, units of targets and calibration are part of it.

        Parameters
        ----------
        path : str or Path
            The file; an older one is replaced when the new one is complete.

        Raises
        ------
        TypeError
            If predictions are not array operations alone: of tables with text, with kernels or
            instantiations that are not of this library, or with members of others than those of a
            portfolio; says what to fit instead.
        ValueError
            If a column of a table has the name of an output.
        ImportError
            If ndonnx is missing: ``pip install 'gpukfl[onnx]'``.
        OSError
            If the file cannot be written; an older one stays as it was.

        Notes
        -----
        Agrees with `predict` up to rounding: of the order of 1e-10 of the targets' spread in
        float64, and 1e-5 in float32. Finite rows are expected and not checked.
        """
        self._to_onnx(path, None, "y")

    def _to_onnx(
        self, path: str | Path, features: Sequence[str] | None, target: str, reader: Any = None
    ) -> None:
        """Write an ONNX file with column names and the encoding of a table."""
        from gpukfl.export import write_onnx

        check_is_fitted(self)
        write_onnx(self, path, feature_names(self, features), target, reader)

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
        from gpukfl.inference import infer

        check_is_fitted(self)
        return infer(self, X, y, **options)

    def explain(self, X: Any, **options: Any) -> Any:
        """Return what each column adds to the prediction for each row: see `gpukfl.Model.explain`.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            Rows as for `predict`.
        **options : object
            Of `gpukfl.Model.explain`.

        Returns
        -------
        gpukfl.inspection.Explanation
            Contributions with their errors, and what they sum to.

        Raises
        ------
        TypeError, ValueError
            If the rows or an option are not as described.
        """
        from gpukfl._model import Model

        check_is_fitted(self)
        return Model.from_estimator(self).explain(X, **options)

    def partial_dependence(self, columns: Any = None, **options: Any) -> Any:
        """Return mean predictions along columns: see `gpukfl.Model.partial_dependence`.

        Parameters
        ----------
        columns : str, int, or sequence of these, optional
            Names or numbers of columns.
        **options : object
            Of `gpukfl.Model.partial_dependence`.

        Returns
        -------
        pandas.DataFrame
            A row for each value of a column, with the ends of its band.

        Raises
        ------
        TypeError, ValueError
            If a column or an option is not as described.
        """
        from gpukfl._model import Model

        check_is_fitted(self)
        return Model.from_estimator(self).partial_dependence(columns, **options)

    def _describe_columns(self, features: Sequence[str] | None, target: str) -> Description:
        """Return a description with column names."""
        check_is_fitted(self)
        self._complete_record()
        host = self.to_host()
        one_unit = is_classifier(host)
        names = Names(feature_names(self, features), target, output_names(host, target), one_unit)
        description = host._describe(names)
        return replace(
            description.add_warnings(host.warnings_),
            call=f"{import_lines([self])}model = {self!r}.fit(X, y)",
        )

    def _common_fields(self, names: Names, /) -> dict[str, Any]:
        """Return the fields of a description that all estimators have."""
        return {
            "name": type(self).__name__,
            "target": names.target,
            "task": task_text(self),
            "n_features": len(names.features),
        }


class DescribedMethod(DescribedEstimator):
    """A tuned method of `gpukfl.fit`."""

    def _fit_fields(self: Any, names: Names, /, *, along: str, beside: tuple[str, ...]) -> Any:
        """Return the fields of a description that all methods have, with the tuning.

        `along` is the setting on the axis of the scores' plot, and `beside` are the others.
        """
        count = self.n_effective_features_
        return {
            **self._common_fields(names),
            "n_samples": self._n_samples,
            "n_rows": vars(self).get("_n_rows"),
            "place": self.place_,
            "n_steps": self.n_iter_,
            "ended": status_text(self.status_),
            "dimension": (count, "effective direction"),
            "units": "" if self.scaling_ is None else self.scaling_.note,
            "tuning": Tuning(
                tuple(self.tuning_),
                SCORES[is_classifier(self)],
                along=along,
                beside=beside,
                cut_short=bool(getattr(self, "tuning_cut_short_", False)),
            ),
        }


def feature_names(estimator: Any, features: Sequence[str] | None = None, /) -> tuple[str, ...]:
    """Return the names of the features: those given, those of the fit, or x0, x1, ..."""
    if features is None and hasattr(estimator, "feature_names_in_"):
        features = estimator.feature_names_in_
    if features is None:
        return tuple(f"x{k}" for k in range(estimator.n_features_in_))
    return tuple(str(name) for name in features)


def output_names(host: Any, target: str, /) -> tuple[str, ...]:
    """Return the names of the fitted functions: targets, classes, or the second of two classes."""
    if is_classifier(host):
        classes = host.classes_[-1:] if len(host.classes_) <= 2 else host.classes_
        return tuple(f"class {one}" for one in classes)
    return target_names(target, host.intercept_.shape[0])


def coordinate_text(host: Any, /) -> str:
    """Return the axis label of a function along a direction or a variable."""
    return "coordinate along it" + unit_text(host)


def unit_text(host: Any, /) -> str:
    """Return the units of scaled features in words."""
    return "" if host.scaling_ is None else f", in {host.scaling_.unit}"


def task_text(estimator: Any, kind: str = "", /) -> str:
    """Return the task in words: a regression, or a classification and its number of classes."""
    task = "regression"
    if is_classifier(estimator):
        count = len(estimator.classes_)
        task = f"classification of {count} class{'es' if count > 1 else ''}"
        labels = to_host(estimator.classes_)
        if not np.array_equal(np.sort(labels), labels):
            task += f", in the order {listed(map(str, labels.tolist()))}"
    return task + (f" ({kind})" if kind else "")


def status_text(status: str, /) -> str:
    """Return in words how a fit ended."""
    if status == Status.TIME_LIMIT.name:  # perhaps before it was spent
        return "shortened by max_time"
    return status.lower().replace("_", " ")


# ------------------------------------------------------------------------------------ base


OF_EVERY_FIT = """    place_ : str
        Library and device of the fit.
    tuning_seconds_ : float
        Time of the search for settings.
    tuning_cut_short_ : bool
        Whether `max_time` ended the search before all settings were tried.
    warnings_ : list of str
        Warnings of the fit, each once, at most 20.
    n_reweightings_ : int
        Number of reweighted fits, for a regression with a loss other than "squared".
    predictor_ : Predictor
        The prediction function, as one frozen value of arrays.
"""  # of the docstrings' attributes


def copy_to_host(value: Any, /) -> Any:
    """Copy all arrays inside lists, dicts and dataclasses to NumPy."""
    if isinstance(value, HostStored):
        return value.to_host()
    if is_array(value) and not isinstance(value, np.generic):  # a scalar
        return to_host(value)
    if isinstance(value, dict):
        return {key: copy_to_host(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(copy_to_host(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: copy_to_host(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return type(value)(**fields)
    return value


def predict_finite(estimator: Any, X: Any, method: str, /) -> Array:
    """Return the fitted functions of an estimator at `X`: (n, t).

    Raises
    ------
    ValueError
        If the data are not as in the fit, or a row is so far from them that a result overflows.
    """
    return evaluate_finite(estimator, lambda: estimator._predict(X, method))


def evaluate_finite(estimator: Any, evaluate: Callable[[], Array], /) -> Array:
    """Evaluate an estimator (n, t); raise ValueError if a result overflows."""
    with np.errstate(over="ignore", invalid="ignore"):  # reported just below
        predicted = evaluate()
    bits = array_namespace(predicted).finfo
    precision = min(predicted.dtype, estimator.intercept_.dtype, key=lambda t: bits(t).bits)
    return check_finite_prediction(predicted, "prediction", precision)


@contextlib.contextmanager
def ordered_classes(estimator: Any, order: tuple[str, ...], /) -> Iterator[None]:
    """Let a fit of a classifier put its classes in an order, by their texts."""
    if not order:
        yield
        return
    estimator._order = order
    try:
        yield
    finally:
        vars(estimator).pop("_order", None)


def restore_on_error(fit: Any, /) -> Any:
    """Decorate a `fit` method so that an exception leaves the estimator as it was."""

    @functools.wraps(fit)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            with np.errstate():  # restored even if Ctrl-C comes while an inner one is restored
                return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return wrapper


class ArrayRegressor(RegressorMixin):
    """A regressor of one or many targets, for arrays of any library.

    Its other base class checks parameters, fits the columns of Y, and evaluates the functions.
    """

    _fitted_predictor: Callable[[], Predictor]
    _start: Callable[..., None]
    _learn: Callable[[Any, Any, Any, GivenRelations], Self]
    _predict: Callable[[Any, str], Array]
    _one_target: bool = held("one_target")
    loss: str | Loss
    _added_parameters: ClassVar[Mapping[str, Any]] = {"loss": "squared"}

    @restore_on_error
    @keep_warnings
    @run_on_data_device
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
    ) -> Self:
        """Fit to one or many targets.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite numbers: an array of NumPy, CuPy or torch, a frame, or a NumPy memory map.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Finite numbers, one or several targets for each row.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0. A common factor changes nothing. An integer weight counts as that
            many copies of the row, which are held out together.
        groups : array of shape (n_samples,), or str, optional
            Groups of rows, such as patients, or the name of their column in a frame. All rows of a
            group are held out together. For groups of columns see `gpukfl.Model.explain`.
        time : array of shape (n_samples,), or str, optional
            Numbers or dates, or the name of their column in a frame. Held-out rows are later than
            the rows that are fitted.
        gap : float or timedelta, optional
            Time before each held-out part in which no row is fitted, in units of `time`.
        cv : splitter of scikit-learn, or pairs of indices, optional
            Rows to fit and to hold out, instead of random folds.

        Returns
        -------
        self
            The fitted estimator.

        Raises
        ------
        TypeError, ValueError
            If the data or a parameter is not as described. The estimator does not change.
        RuntimeError
            If the backend is not available.
        """
        return self._learn(X, y, sample_weight, GivenRelations(groups, time, gap, cv))

    def _read_targets(
        self, y: Any, X: Array, sample_weight: Any, relations: Relations | None = None
    ) -> Samples:
        y, loss = validate_targets(y, X), read_loss(self)
        if loss is not None:
            if lies_in_parts(X):
                check_not_in_parts(loss)
            loss.check_targets(to_host(y).reshape(y.shape[0], -1))
        self._start(X.shape[1], one_target=y.ndim == 1)
        return Samples.validate(X, as_columns(y), sample_weight, labels=False, relations=relations)

    @run_on_data_device
    def predict(self, X: Any) -> Array:
        """Predict the targets.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            Predictions, of the library, device and dtype of X.
        """
        found = predict_finite(self, X, "predict")
        return self._fitted_predictor().decode(found)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions, averaged over targets.

        With another `loss` than "squared" it is the share of that loss that is saved, beside the
        best constant.
        """
        truth, found = (to_host(y) if is_array(y) else y), to_host(self.predict(X))
        loss = read_loss(self)
        if loss is None:
            return float(r2_score(truth, found, sample_weight=sample_weight))
        return saved_share(loss, np.asarray(truth), found, sample_weight)


class HostStored(DescribedEstimator, BaseEstimator):
    """An estimator whose pickle holds NumPy arrays only, and loads without a GPU library."""

    predictor_: Predictor
    _for_inference: ClassVar[tuple[str, ...]] = ()  # attributes that may be None
    _library: Annotated[str, Choice(("numpy",))]  # after `to_host`
    feature_names_in_: Annotated[np.ndarray, Texts("n_features"), Sometimes()]
    beside_: Annotated[list[str], Sometimes()]
    _sklearn_output_config: Annotated[dict[str, str], Sometimes()]

    def _start(
        self, n_features: int, *, one_target: bool = True, labels: np.ndarray | None = None
    ) -> None:
        """Set a constant predictor with the form of the targets, for the time of the fit."""
        nothing = Constant(intercept=np.zeros(1))
        classes = None if labels is None else self._make_classes(labels)
        self.predictor_ = Predictor(nothing, n_features, one_target, labels, classes)

    def _rules(self) -> Iterator[tuple[str, bool]]:
        """Yield conditions on fitted attributes, in words, and whether they hold."""
        yield "columns of its predictor", self.n_features_in_ == self.predictor_.n_features

    def _make_classes(self, labels: np.ndarray) -> Classes | None:  # noqa: ARG002
        """Return the map from scores to classes; None if values are probabilities."""
        return None

    def _fitted_predictor(self) -> Predictor:
        """Return the predictor; raise NotFittedError before a fit."""
        if "predictor_" not in vars(self):
            check_is_fitted(self, "predictor_")
        return self.predictor_

    def __getstate__(self) -> dict[str, Any]:
        known: dict[str, Any] = super().__getstate__()
        if "predictor_" in known:
            known = known | {"predictor_": self._own_predictor()}
        state = {key: copy_to_host(value) for key, value in known.items()}
        state.pop("client", None)  # its cluster may not exist after loading
        if "_library" in state:
            state["_library"] = "numpy"
        return state

    def _own_predictor(self) -> Predictor:
        """Return the predictor without parts that other attributes hold."""
        return self.predictor_

    @property
    def _repr_html_(self) -> Any:
        """Return scikit-learn's diagram with a short description, if HTML is displayed."""
        if get_config()["display"] != "diagram":
            msg = "expected scikit-learn's display to be 'diagram' for HTML"
            raise AttributeError(msg)
        return self._diagram_with_summary

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the representations that notebooks show, by MIME type."""
        shown = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            shown["text/html"] = self._diagram_with_summary()
        return shown

    def _diagram_with_summary(self) -> str:
        """Return the diagram of the parameters, followed by a summary."""
        diagram: str = estimator_html_repr(self)
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return diagram + card(self.describe())

    def without_record(self) -> Self:
        """Return a copy without what only inference needs; predictions stay."""
        host: Self = self.to_host()
        for name in self._for_inference:
            setattr(host, name, None)
        return host

    @abstractmethod
    def _fit_rows(
        self, X: Any, y: Any, sample_weight: Any, relations: Relations | None = None
    ) -> Self:
        """Fit to validated rows."""

    def _keep_beside(self, names: Sequence[str]) -> None:
        """Set `beside_`, the columns of frames that are no features, if there are any."""
        if "beside_" in vars(self):
            del self.beside_
        if names:
            self.beside_ = list(names)

    @restore_on_error
    @keep_warnings
    @run_on_data_device
    def _fit_read(self, X: Any, data: Dataset) -> Self:
        """Fit to rows `X` and targets that `gpukfl.tables` has read."""
        with ordered_classes(self, data.class_order):
            self._fit_rows(X, data.y, data.sample_weight, data.relations)
        self._keep_beside(data.beside)
        return self

    def to_host(self) -> Any:
        """Return a copy that works on NumPy arrays."""
        copy = type(self).__new__(type(self))
        copy.__setstate__(self.__getstate__())
        return copy


class HostPickled(HostStored):
    """An estimator that scales its features, and predicts by one function of arrays."""

    scaling_: AnyScaling | None = held("values.scaling")
    intercept_: Array = held("values.intercept")
    _unit_free: ClassVar[bool] = False  # whether a common factor of all features changes nothing

    def _scaled_rows(self, X: Array, reference: Array, /) -> Rows:
        """Return rows for prediction, scaled as in the fit, on the place of `reference`."""
        return Rows(X, reference, self.scaling_)


# ----------------------------------------------------------------------------- constructor

RENAMED = {  # old parameters of every estimator, with advice
    "dtype": "pass backend=Backend(dtype=...)",
    "standardize": "pass scaling='standard' or None",
    "normalize_y": "targets are always scaled",
    "validation_fraction": "it is always a fifth of the rows",
}


class RenamedParameters:
    """An estimator whose constructor explains renamed parameters."""

    _renamed: ClassVar[dict[str, str]] = {}
    # Parameters with defaults that are added to the constructor, and to every constructor
    _added_parameters: ClassVar[Mapping[str, Any]] = {}
    _common_parameters: ClassVar[Mapping[str, Any]] = {"monotone": None}
    monotone: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        known, own = inspect.signature(cls.__init__).parameters, "__init__" in vars(cls)
        offered = cls._added_parameters
        if own:  # a class of the user's keeps its constructor
            ours = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
            offered = cls._common_parameters if ours else {}
        more = {name: value for name, value in offered.items() if name not in known}
        if own or more:
            cls.__init__ = _extend_constructor(cls.__init__, more)  # type: ignore

    @classmethod
    def _refuse_old(cls, names: Iterable[str], /) -> None:
        """Raise TypeError for old names of parameters."""
        known = RENAMED | cls._renamed
        for name in filter(cls.has_old_name, names):
            msg = f"{cls.__name__} no longer has a parameter {name!r}: {known[name]}"
            raise TypeError(msg)

    @classmethod
    def has_old_name(cls, name: str, /) -> bool:
        """Whether a parameter once had this name."""
        return name in RENAMED or name in cls._renamed

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, also of nested values as ``name__field``.

        Raises
        ------
        TypeError
            For a name that is now another; says which.
        ValueError
            For any other name that is not a parameter.
        """
        self._refuse_old(params)
        return super().set_params(**params)  # type: ignore[misc]


def _extend_constructor(init: Callable[..., None], more: Mapping[str, Any]) -> Callable[..., None]:
    """Return a constructor with more parameters, whose signature scikit-learn can read."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        added = {name: kwargs.pop(name, default) for name, default in more.items()}
        self._refuse_old(name for name in kwargs if name not in signature.parameters)
        init(self, *args, **kwargs)
        for name, value in added.items():
            setattr(self, name, value)

    kind = inspect.Parameter.KEYWORD_ONLY
    keywords = [inspect.Parameter(k, kind, default=value) for k, value in more.items()]
    own = signature.replace(parameters=[*signature.parameters.values(), *keywords])
    construct.__signature__ = own  # type: ignore[attr-defined]
    return construct
