"""Classification by least squares on one-hot classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from gpukfl._array import Array, array_namespace, is_array, library_of, like, to_host
from gpukfl.estimators._base import finite_prediction, unchanged_on_error
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._standardization import warn_of_units
from gpukfl.estimators._threads import few_threads
from gpukfl.estimators._validation import validate_labels, validate_samples


class OneHotClassifier(ClassifierMixin):
    """A classifier whose scores are a regression on one-hot classes, which estimates probabilities.

    Two classes are one column: the second's.
    """

    backend: str
    _check_parameters: Callable[[], None]
    _fit: Callable[..., None]
    _predict: Callable[[Any, str], Array]
    standardize: bool
    _unit_free: bool

    @unchanged_on_error
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to class labels.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Finite real data: NumPy, CuPy, torch, a frame, or a NumPy memory map.
        y : array of shape (n_samples,)
            Labels of any type that sorts.
        sample_weight : array of shape (n_samples,), optional
            Weights, at least 0; a common factor changes nothing, and an integer weight counts as
            so many copies of the sample.

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
        self._check_parameters()
        run = Run.of(self)
        X = validate_samples(self, X, reset=True, min_samples=2)
        labels = validate_labels(y, X)
        classes, codes = np.unique(labels, return_inverse=True)
        one_hot = (codes[:, None] == np.arange(len(classes))).astype(np.float64)
        if len(classes) <= 2:
            one_hot = one_hot[:, -1:]
        with few_threads(X, X.shape[0], self.backend):
            self._fit(Samples.of(X, one_hot, sample_weight, labels=True), run)
        if not self.standardize:
            warn_of_units(X, unit_free=self._unit_free)
        self.classes_ = classes
        return self

    def decision_function(self, X: Any) -> Array:
        """Give scores, of which the largest is predicted.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes the estimated probability of the second less one half.
        """
        return self._scores(X, "decision_function")

    def _scores(self, X: Any, method: str) -> Array:
        scores = finite_prediction(self, X, method)
        return scores[:, 0] - 0.5 if len(self.classes_) <= 2 else scores

    def predict_proba(self, X: Any) -> Array:
        """Estimate the classes' probabilities: the scores, projected on the simplex.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            Data, of the library that was used in `fit`.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to 1.
        """
        scores = finite_prediction(self, X, "predict_proba")
        xp = array_namespace(scores)
        if len(self.classes_) == 1:
            return xp.ones_like(scores)
        if len(self.classes_) == 2:
            scores = xp.concat([1.0 - scores, scores], axis=1)
        return _project_on_simplex(scores)

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
        scores = self._scores(X, "predict")
        xp = array_namespace(scores)
        if len(self.classes_) == 1:
            codes = xp.zeros_like(scores, dtype=xp.int64)
        elif scores.ndim == 1:
            codes = xp.astype(scores > 0, xp.int64)
        else:
            codes = xp.argmax(scores, axis=1)
        if library_of(scores) == "numpy" or self.classes_.dtype.kind not in "iuf":
            return self.classes_[to_host(codes)]
        classes = xp.asarray(self.classes_, device=like(scores)["device"])
        return xp.take(classes, codes, axis=0)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Give the share of samples that are classified correctly."""
        truth = to_host(y) if is_array(y) else y
        predicted = to_host(self.predict(X))
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))


def _project_on_simplex(S: Array) -> Array:
    """Nearest point of the probability simplex to each row of `S` (n, k), by sorting."""
    xp = array_namespace(S)
    k = S.shape[1]
    descending = xp.flip(xp.sort(S, axis=1), axis=1)
    excess = xp.cumulative_sum(descending, axis=1) - 1.0
    counts = xp.arange(1, k + 1, **like(S))
    positive = descending * counts > excess
    active = xp.sum(xp.astype(positive, S.dtype), axis=1, keepdims=True)
    last = xp.where(counts == active, excess / counts, xp.zeros_like(S))
    threshold = xp.sum(last, axis=1, keepdims=True)
    return xp.clip(S - threshold, min=0.0)
