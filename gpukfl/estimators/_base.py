"""What the estimators share: where fitted arrays live, and how they are pickled."""

from __future__ import annotations

import dataclasses
import functools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import (
    Array,
    array_namespace,
    as_columns,
    is_array,
    to_host,
)
from gpukfl._rows import Rows
from gpukfl._warnings import warnings_kept
from gpukfl.estimators._declared import (
    Declared,
    Fields,
    Rule,
    Switch,
    Text,
    Whole,
)
from gpukfl.estimators._described import DescribedEstimator
from gpukfl.estimators._device import on_its_device
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._validation import validate_targets
from gpukfl.estimators.scaling import ColumnScaling
from gpukfl.inspection import card
from gpukfl.prediction import Function, check_finite_prediction, function_of

OF_EVERY_FIT = """    place_ : str
        Library and device that computed.
    tuning_seconds_ : float
        That the search for settings took.
    tuning_cut_short_ : bool
        Whether the time was over before all settings were tried that would have been.
    warnings_ : list of str
        What the fit warned of, each once, at most 20.
"""  # of the docstrings' attributes


def on_host(value: Any, /) -> Any:
    """Copy every array inside lists, dicts and dataclasses to NumPy."""
    if isinstance(value, HostStored):
        return value.to_host()
    if is_array(value) and not isinstance(value, np.generic):  # a number, though libraries know it
        return to_host(value)
    if isinstance(value, dict):
        return {key: on_host(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(on_host(item) for item in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: on_host(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return type(value)(**fields)
    return value


def finite_prediction(estimator: Any, X: Any, method: str, /) -> Array:
    """Fitted functions of an estimator at `X`: (n, t).

    Raises
    ------
    ValueError
        If the data are not as in the fit, or a row is so far from them that a result overflows.
    """
    return finite(estimator, lambda: estimator._predict(X, method))


def finite(estimator: Any, evaluate: Callable[[], Array], /) -> Array:
    """Give what an estimator evaluates (n, t); ValueError where a result overflows."""
    with np.errstate(over="ignore", invalid="ignore"):  # reported just below
        predicted = evaluate()
    bits = array_namespace(predicted).finfo
    precision = min(predicted.dtype, estimator.intercept_.dtype, key=lambda t: bits(t).bits)
    return check_finite_prediction(predicted, "prediction", precision)


def unchanged_on_error(fit: Any, /) -> Any:
    """Decorate a `fit` method so that an exception leaves the estimator as it was."""

    @functools.wraps(fit)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            with np.errstate():  # an interruption may come just where one inside is put back
                return fit(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return wrapped


_PREDICTING = (  # arrays from which predictions are made
    *("W_", "map_", "centers_", "parameters_", "coef_", "dual_coef_", "intercept_", "bound_"),
    *("retrain_components_", "_rotation", "_offset", "_stretch"),
)


def _is_finite(e: Any) -> bool:
    arrays = [getattr(e, name, None) for name in _PREDICTING]
    return all(bool(np.isfinite(array).all()) for array in arrays if array is not None)


def _scales(e: Any) -> bool:
    return e.scaling_ is None or e.scaling_.is_sound


class ArrayRegressor(RegressorMixin):
    """A regressor of one or many targets, whatever library its arrays are of.

    Its other base checks parameters, fits the columns of Y, and evaluates the fitted functions.
    """

    _learn: Callable[[Any, Any, Any], Self]
    _predict: Callable[[Any, str], Array]
    _attributes: ClassVar[dict[str, Declared]] = {"_one_target": Switch()}
    _rules: ClassVar[dict[str, Rule]] = {
        "one target": lambda e: not e._one_target or e.intercept_.shape[0] == 1
    }

    @unchanged_on_error
    @warnings_kept
    @on_its_device
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to one or many targets.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite real data: NumPy, CuPy, torch, a frame, or a NumPy memory map.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            Finite real targets.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0; a common factor changes nothing, and an integer weight counts as
            so many copies of the sample, which are held out together.

        Returns
        -------
        self
            Fitted.

        Raises
        ------
        TypeError, ValueError
            If the data or a parameter is not as described; the model is left as it was.
        RuntimeError
            If the backend is not available.
        """
        return self._learn(X, y, sample_weight)

    def _read_targets(self, y: Any, X: Array, sample_weight: Any) -> Samples:
        y = validate_targets(y, X)
        self._one_target = y.ndim == 1
        return Samples.of(X, as_columns(y), sample_weight, labels=False)

    @on_its_device
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
        predictions = finite_prediction(self, X, "predict")
        return predictions[:, 0] if self._one_target else predictions

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the R² of the predictions, averaged over targets."""
        truth = to_host(y) if is_array(y) else y
        return float(r2_score(truth, to_host(self.predict(X)), sample_weight=sample_weight))


class HostStored(DescribedEstimator, BaseEstimator):
    """An estimator whose pickle holds NumPy arrays only, and loads without a GPU library."""

    _library: str
    _attributes: ClassVar[dict[str, Declared]] = {
        "n_features_in_": Whole("n_features"),
        "_library": Text(("numpy",)),
    }

    def __getstate__(self) -> dict[str, Any]:
        state = {key: on_host(value) for key, value in super().__getstate__().items()}
        state.pop("client", None)  # of a cluster that is not where it is loaded
        if "_library" in state:
            state["_library"] = "numpy"
        return state

    @property
    def _repr_html_(self) -> Any:
        """Give scikit-learn's diagram, and what was learned; none where it shall show text."""
        if get_config()["display"] != "diagram":
            msg = "there is HTML where scikit-learn's display is 'diagram'"
            raise AttributeError(msg)
        return self._in_html

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Give what notebooks show, by kind."""
        shown = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            shown["text/html"] = self._in_html()
        return shown

    def _in_html(self) -> str:
        """Give the diagram of the parameters, and under it what was learned."""
        diagram: str = estimator_html_repr(self)
        try:
            check_is_fitted(self)
        except NotFittedError:
            return diagram
        return diagram + card(self.describe())

    @abstractmethod
    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit to rows that were read."""

    @unchanged_on_error
    @warnings_kept
    @on_its_device
    def _fit_read(self, X: Any, y: Any, sample_weight: Any) -> Self:
        """Fit as `fit` does, to rows and targets that `gpukfl.tables` has read."""
        return self._fit_rows(X, y, sample_weight)

    def to_host(self) -> Any:
        """Give a copy that works on NumPy arrays, wherever this model was fitted."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__getstate__())
        return copy


class HostPickled(HostStored):
    """One that scales its features itself, and predicts by one function of arrays."""

    _predicts: ClassVar[str] = ""  # by which function, of `gpukfl.prediction`
    _unit_free: ClassVar[bool] = False  # whether a unit of all features changes nothing
    _attributes: ClassVar[dict[str, Declared]] = {
        "scaling_": Fields(ColumnScaling, optional=True),
    }
    _rules: ClassVar[dict[str, Rule]] = {
        "finite coefficients": _is_finite,
        "a scaling of features": _scales,
    }
    scaling_: ColumnScaling | None

    def _function(self) -> Function:
        """Give what was fitted, as a function of arrays."""
        return function_of(self._predicts, self)

    def _scaled_rows(self, X: Array, reference: Array, /) -> Rows:
        """Rows to predict for, scaled as the fit scaled its own, on the place of `reference`."""
        return Rows(X, reference, self.scaling_)
