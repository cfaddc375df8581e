"""Classification by least squares on one-hot classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_class_weight, compute_sample_weight

from gpukfl.core._array import (
    Array,
    array_namespace,
    is_array,
    library_name,
    lies_in_parts,
    like,
    to_host,
)
from gpukfl.core._frames import check_label_kinds, listed
from gpukfl.core._results import Status
from gpukfl.core._warnings import keep_warnings, warn
from gpukfl.estimators._base import ordered_classes, predict_finite, restore_on_error
from gpukfl.estimators._calibration import Calibration, HeldOutScores, SoftmaxCalibration
from gpukfl.estimators._dask import run_on_data_device
from gpukfl.estimators._fitted import held
from gpukfl.estimators._samples import Samples, decode_classes
from gpukfl.estimators._validation import plain_labels, validate_labels, validate_weights
from gpukfl.partitioned import is_dask
from gpukfl.partitioned._rows import map_rows, reduce_rows
from gpukfl.predictor import Classes, Predictor
from gpukfl.tables._relations import GivenRelations, Relations
from gpukfl.tables._target import class_order, label_places, order_labels

CLASS_WEIGHT = """    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, which multiply those of the samples; "balanced" gives all classes
        the same total.
"""  # of every classifier
OF_CLASSIFIERS = """    classes_ : array of shape (n_classes,)
        Labels.
    calibration_ : Calibration
        What makes probabilities of scores, chosen on held-out samples.
"""  # of the docstrings' attributes


class LabelClassifier(ClassifierMixin):
    """A classifier by least squares on indicators of classes; of two classes only the second's."""

    class_weight: Any
    predictor_: Predictor
    _start: Callable[..., None]
    _fitted_predictor: Callable[[], Predictor]
    classes_: np.ndarray = held("labels")
    _learn: Callable[[Any, Any, Any, GivenRelations], Self]
    predict: Callable[[Any], Array]
    _added_parameters: ClassVar[Mapping[str, Any]] = {"class_weight": None}
    _order: ClassVar[tuple[str, ...]] = ()  # of the classes, during a fit

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
        """Fit to class labels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite numbers: an array of NumPy, CuPy or torch, a frame, or a NumPy memory map.
        y : array of shape (n_samples,)
            Labels: text, integers, booleans or categories. Ordered categories of pandas keep their
            order in `classes_`.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0. A common factor changes nothing. An integer weight counts as that
            many copies of the row, which are held out together.
            `class_weight` multiplies them.
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
        with self._keep_order(y):
            return self._learn(X, y, sample_weight, GivenRelations(groups, time, gap, cv))

    def _keep_order(self, y: Any) -> AbstractContextManager[None]:
        """Let a fit keep the order of the categories of its labels."""
        return ordered_classes(self, () if is_dask(y) else class_order(y))

    def _read_targets(
        self, y: Any, X: Array, sample_weight: Any, relations: Relations | None = None
    ) -> Samples:
        labels = validate_labels(y, X)
        classes, counts = count_labels(labels)
        places = order_labels(classes, self._order)
        if not np.array_equal(places, np.arange(len(places))):
            classes, counts = classes[places], counts[places]
            warn(
                "classes keep the order of their categories, "
                f"{listed(map(str, classes.tolist()))}. scikit-learn's scorers of probabilities "
                "expect sorted classes: pass them labels="
            )
        asked = classes if len(classes) > 2 else classes[-1:]
        one_hot = map_rows(
            labels,
            lambda start, stop: (labels[start:stop, None] == asked).astype(np.float64),
            columns=(len(asked),),
            dtype=np.float64,
        )
        self._start(X.shape[1], labels=classes)
        if self.class_weight is not None:
            weights = validate_weights(sample_weight, X)
            of_classes = _class_weights(self.class_weight, labels, classes, counts)
            sample_weight = of_classes if weights is None else weights * of_classes
        return Samples.validate(X, one_hot, sample_weight, labels=True, relations=relations)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of samples that are classified correctly."""
        truth = plain_labels(to_host(y) if is_array(y) else y)
        predicted = to_host(self.predict(X))
        check_label_kinds(truth, np.asarray(self.classes_))
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))

    def _decode_labels(self, codes: Array) -> Array:
        """Return the labels of class codes (n,), in the codes' library if it can hold them."""
        if library_name(codes) == "numpy" or self.classes_.dtype.kind not in "iuf":
            return self.classes_[to_host(codes)]
        xp = array_namespace(codes)
        return xp.take(xp.asarray(self.classes_, device=like(codes)["device"]), codes, axis=0)


def count_labels(labels: Any, /) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted labels and their counts."""

    def part(start: int, stop: int) -> list[tuple[np.ndarray, np.ndarray]]:
        return [np.unique(labels[start:stop], return_counts=True)]

    (found,) = reduce_rows(labels, part, combine=_merge_counts)
    return found


def _merge_counts(
    a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray], /
) -> tuple[np.ndarray, np.ndarray]:
    classes, which = np.unique(np.concatenate([a[0], b[0]]), return_inverse=True)
    return classes, np.bincount(which, np.concatenate([a[1], b[1]])).astype(np.int64)


def _class_weights(how: Any, labels: Any, classes: np.ndarray, counts: np.ndarray, /) -> Array:
    """Return the weight of each row by its class."""
    if not lies_in_parts(labels):
        return compute_sample_weight(how, labels)
    if how == "balanced":
        of_classes = counts.sum() / (len(classes) * counts)
    else:
        of_classes = compute_class_weight(how, classes=classes, y=classes)

    def part(start: int, stop: int) -> Array:
        return of_classes[label_places(classes, labels[start:stop])]

    return map_rows(labels, part, columns=(), dtype=np.float64)


class OneHotClassifier(LabelClassifier):
    """A classifier with calibrated probabilities, by regression on one-hot classes.

    Two classes are one column: the second's. Probabilities are calibrated on held-out rows.
    """

    calibration_: Calibration | SoftmaxCalibration = held("classes.calibration")
    _has_signs: ClassVar[bool] = False  # whether targets are -1 and 1 instead of 0 and 1
    _calibration_class: ClassVar[type[Calibration | SoftmaxCalibration]] = Calibration
    _predict: Callable[[Any, str], Array]

    def _calibrate(self, held_out: Callable[[], HeldOutScores | None]) -> None:
        """Fit the calibration of probabilities to held-out rows."""
        try:
            found = held_out()
        except KeyboardInterrupt:  # the model is complete
            self.status_ = Status.INTERRUPTED.name
            msg = f"{type(self).__name__} was interrupted: its probabilities are not calibrated"
            warn(msg, ConvergenceWarning)
            return
        if found is not None and len(self.classes_) > 1:
            F, Y, weights = found
            scores = to_host(self._make_classes(self.classes_).all_probabilities(F))
            self.calibration_ = self._calibration_class.fit(scores, decode_classes(Y), weights)

    def _make_classes(self, labels: np.ndarray) -> Classes:
        """Return the map from scores to classes, not calibrated yet."""
        return Classes(len(labels), self._calibration_class(), self._has_signs)

    def _classes(self) -> Classes:
        """Return the fitted map from scores to classes and probabilities."""
        classes = self.predictor_.classes
        assert classes is not None
        return classes

    @run_on_data_device
    def decision_function(self, X: Any) -> Array:
        """Return the scores, whose largest is predicted.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes the estimated probability of the second less one half.
        """
        found = predict_finite(self, X, "decision_function")
        return self._classes().margins(found)

    @run_on_data_device
    def predict_proba(self, X: Any) -> Array:
        """Estimate the classes' probabilities, calibrated on held-out rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to 1. The largest is that of the predicted class.
        """
        found = predict_finite(self, X, "predict_proba")
        return self._fitted_predictor().probabilities(found)

    @run_on_data_device
    def predict_log_proba(self, X: Any) -> Array:
        """Estimate the logarithms of the classes' probabilities.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            At most 0; finite.
        """
        found = predict_finite(self, X, "predict_log_proba")
        return self._classes().log_proba(found)

    @run_on_data_device
    def predict(self, X: Any) -> Array:
        """Predict the labels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,)
            Labels; of X's library where they are numbers it can hold, else NumPy.
        """
        found = predict_finite(self, X, "predict")
        return self._decode_labels(self._fitted_predictor().decode(found))
