"""A fitted model and rows, as bands and directions ask them: host arrays, refits, kernels."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from gpukfl._array import is_array, to_host
from gpukfl._columns import is_frame, numeric_frame
from gpukfl._results import Status
from gpukfl.estimators._described import feature_names
from gpukfl.estimators._validation import validate_weights
from gpukfl.inference._learned_kernels import LearnedKernel, kernel_of
from gpukfl.portfolio._base import AutoBase
from gpukfl.tables._encoding import Category, Encoding, categories_of
from gpukfl.tables._seen import NUMBERS
from gpukfl.tables._target import host_target, target_names
from gpukfl.tables._training import read_test_data


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted estimator, and rows on the host.

    Attributes
    ----------
    estimator : estimator
        Fitted; of a blend the leading member that has learned a kernel.
    X : array, shape (n, d)
        Rows in float64, as the estimator takes them.
    y : array
        Targets or labels, as it is fitted to them.
    weights : array, shape (n,)
        Of the rows, of mean 1.
    names, outputs : tuple of str
        Of the features, and of the fitted functions.
    remark : str
        What is to be known of it.
    categories : tuple of Category
        Features that stand for a category together.
    """

    estimator: Any
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray
    names: tuple[str, ...]
    outputs: tuple[str, ...]
    remark: str = ""
    categories: tuple[Category, ...] = ()

    def __len__(self) -> int:
        return len(self.X)

    @property
    def classes(self) -> bool:
        """Whether targets are classes."""
        return is_classifier(self.estimator)

    @cached_property
    def Y(self) -> np.ndarray:  # noqa: N802
        """Targets, or indicators of the classes, (n, t): of two classes the second's alone."""
        if not self.classes:
            return self.y.reshape(len(self), -1).astype(np.float64)
        labels = to_host(self.estimator.classes_)
        found = (self.y[:, None] == labels).astype(np.float64)
        return found[:, -1:] if len(labels) <= 2 else found

    @cached_property
    def kernel(self) -> LearnedKernel | None:
        """The learned kernel, if there is one."""
        return kernel_of(self.estimator)

    def refitted(self, rows: np.ndarray, /) -> Any:
        """Fit an estimator like it to some rows.

        Raises KeyboardInterrupt where the fit was interrupted, and ended with its best step so far.
        """
        new, given = clone(self.estimator), {}
        if np.ptp(self.weights) > 0:
            if not has_fit_parameter(new, "sample_weight"):
                msg = f"expected an estimator that takes weights, got {type(new).__name__}"
                raise TypeError(msg)
            given["sample_weight"] = self.weights[rows]
        new.fit(self.X[rows], self.y[rows], **given)
        if getattr(new, "status_", "") == Status.INTERRUPTED.name:  # no part of any result
            raise KeyboardInterrupt
        return new

    def functions(self, X: np.ndarray, estimator: Any = None, /) -> np.ndarray:
        """Predictions (n, t) at host rows: of classes their probabilities."""
        e = _asked_by_arrays(self.estimator if estimator is None else estimator)
        if not self.classes:
            return np.asarray(to_host(e.predict(X)), dtype=np.float64).reshape(len(X), -1)
        return self._placed(np.asarray(to_host(e.predict_proba(X)), dtype=np.float64), e)

    def kernel_from(self, rows: np.ndarray, /) -> LearnedKernel | None:
        """Learn a kernel from some rows, with functions of all classes that there are."""
        fit = self.refitted(rows)
        kernel = kernel_of(fit)
        if kernel is None or not self.classes:
            return kernel
        functions = kernel.functions
        return replace(kernel, functions=lambda Z: self._placed(functions(Z), fit))

    def _placed(self, found: np.ndarray, fit: Any) -> np.ndarray:
        """Put a fit's functions (n, k) at the places of its classes, 0 for those that it lacks."""
        labels, own = to_host(self.estimator.classes_), to_host(fit.classes_)
        if found.shape[1] < len(own):  # of two classes the second's alone
            found = np.concatenate([-found, found], axis=1)
        placed = np.zeros((len(found), len(labels)))
        placed[:, np.searchsorted(labels, own)] = found
        return placed[:, -1:] if len(labels) <= 2 else placed

    def taken(self, rows: np.ndarray, /) -> Subject:
        """Give it with some of the rows."""
        return replace(self, X=self.X[rows], y=self.y[rows], weights=self.weights[rows])

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any = None, /) -> Subject:
        """Read a model and rows.

        Raises
        ------
        TypeError, ValueError
            If it is no fitted regressor or classifier, or does not take the rows.
        """
        estimator = model.estimator if hasattr(model, "reader") else model
        if not hasattr(estimator, "predict"):
            msg = f"expected a fitted regressor or classifier, got {type(model).__name__}"
            raise TypeError(msg)
        check_is_fitted(estimator)
        if y is None:
            msg = "expected targets y, or the name of their column in X, got None"
            raise ValueError(msg)
        name = str(getattr(model, "target_name", "y"))
        data = read_test_data(X, y, sample_weight, target=name)
        name = data.target_name or name
        rows = _rows_of(model, estimator, data.X)
        y = _targets(estimator, host_target(data.y), len(rows.X))
        weights = validate_weights(data.sample_weight, rows.X)
        weights = np.ones(len(rows.X)) if weights is None else weights / np.mean(weights)
        outputs = _outputs(estimator, y, name)
        if rows.asked is not estimator:
            y, outputs = _of_member(estimator, rows.asked, y, outputs)
        found = cls(
            rows.asked, rows.X, y, weights, rows.names, outputs, rows.remark, rows.categories
        )
        return found.taken(np.flatnonzero(weights)) if not weights.all() else found


@dataclass(frozen=True, eq=False)
class _Rows:
    """The estimator that is asked, its rows and their names, and a remark."""

    asked: Any
    X: np.ndarray
    names: tuple[str, ...]
    remark: str = ""
    categories: tuple[Category, ...] = field(default=(), kw_only=True)

    @classmethod
    def encoded(cls, asked: Any, X: Any, encoding: Encoding, remark: str = "") -> Self:
        return cls(asked, _wide(X), encoding.names, remark, categories=categories_of(encoding))


def _rows_of(model: Any, estimator: Any, X: Any) -> _Rows:
    if hasattr(model, "reader"):
        X = model._rows(X)
        if model.reader is not None:
            return _Rows.encoded(estimator, X, model.reader.encoding)
    if isinstance(estimator, AutoBase):
        return _member_of(estimator, X)
    frame = numeric_frame(X) if is_frame(X) else None
    rows = _wide(X if frame is None else frame.to_numpy())
    expected = getattr(estimator, "n_features_in_", rows.shape[-1])
    if rows.ndim != 2 or rows.shape[1] != expected:
        msg = f"expected X of shape (n, {expected}), got {rows.shape}"
        raise ValueError(msg)
    if not np.isfinite(rows).all():
        msg = "expected finite rows, got NaN or infinity"
        raise ValueError(msg)
    known = None if frame is None else [str(name) for name in frame.columns]
    known = known or getattr(estimator, "feature_names_in_", None)
    if known is None:
        known = [f"x{k}" for k in range(rows.shape[1])]
    return _Rows(estimator, rows, tuple(str(name) for name in known))


def _member_of(blend: AutoBase, X: Any) -> _Rows:
    """Give the leading member of a blend that has learned a kernel, or the blend itself."""
    codes = blend._new_rows(X, "predict")
    names = feature_names(blend)
    encodings = blend.encodings_
    for member in sorted(blend.members_, key=lambda one: -one.weight):
        one = member.models[0]
        if kernel_of(one) is None or member.sees != NUMBERS:
            continue
        rows = blend._seen(codes).by(0, NUMBERS)
        said = f"by the kernel of {member.name}, the leading member of the blend that has one"
        if encodings is None:
            return _Rows(one, _wide(rows), names, said)
        return _Rows.encoded(one, rows, encodings.by_fold[0], said)
    if encodings is not None:
        msg = "expected a blend with a member that learns a kernel, or a table of numbers"
        raise ValueError(msg)
    return _Rows(blend, _wide(codes), names)


def _targets(estimator: Any, y: Any, n: int) -> np.ndarray:
    """Targets or labels of n rows, checked."""
    values = to_host(y) if is_array(y) else np.asarray(y)
    if len(values) != n:
        msg = f"expected a target for each of {n} rows, got {len(values)}"
        raise ValueError(msg)
    if not is_classifier(estimator):
        values = values.astype(np.float64)
        if not np.isfinite(values).all():
            msg = "expected finite targets, got NaN or infinity"
            raise ValueError(msg)
        return values
    unknown = np.setdiff1d(values, to_host(estimator.classes_))
    if len(unknown):
        msg = f"expected labels that the model knows, got {unknown[0]!r}"
        raise ValueError(msg)
    return values


def _of_member(
    blend: AutoBase, member: Any, y: np.ndarray, outputs: tuple[str, ...]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Targets as a member of a blend is fitted to them, and names of its functions.

    Those of classes are their numbers; others may be on another scale.
    """
    if is_classifier(blend):
        labels = to_host(blend.classes_)
        return np.searchsorted(labels, y), _of_classes(labels[to_host(member.classes_)])
    transform = blend.target_transform_
    if transform is None:
        return y, outputs
    named = tuple(f"{transform.unit} of {output}" for output in outputs)
    return transform.forward(y.reshape(len(y), -1)).reshape(y.shape), named


def _outputs(estimator: Any, y: np.ndarray, target: str) -> tuple[str, ...]:
    """Names of the fitted functions."""
    if is_classifier(estimator):
        return _of_classes(to_host(estimator.classes_))
    return target_names(target, 1 if y.ndim == 1 else y.shape[1])


def _of_classes(labels: np.ndarray) -> tuple[str, ...]:
    return tuple(f"class {one}" for one in (labels[-1:] if len(labels) <= 2 else labels))


def _asked_by_arrays(estimator: Any) -> Any:
    """Give a copy that takes NumPy's rows, and does not miss the names of a frame."""
    found = estimator.to_host() if hasattr(estimator, "to_host") else copy.copy(estimator)
    found.__dict__.pop("feature_names_in_", None)
    return found


def _wide(x: Any) -> np.ndarray:
    return np.asarray(to_host(x) if is_array(x) else x, dtype=np.float64)
