"""A fitted model as a function of host rows, with the rows and targets for inference."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from gpukfl.core._array import asarray_like, is_array, to_host
from gpukfl.core._frames import is_frame, numeric_frame
from gpukfl.core._results import Status
from gpukfl.core._warnings import collect_warnings
from gpukfl.estimators._base import feature_names
from gpukfl.estimators._validation import validate_weights
from gpukfl.inference._kernels import LearnedKernel, learned_kernel
from gpukfl.inference._losses import loss_of_fit
from gpukfl.inspection._measures import d2_name
from gpukfl.portfolio._base import AutoBase
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss, SquaredError, squared_error
from gpukfl.portfolio._losses import MeanLoss, make_mean_loss
from gpukfl.predictor import floor_probabilities
from gpukfl.tables import Table
from gpukfl.tables._encoding import Category, Encoding, find_categories
from gpukfl.tables._monotone import read_signs
from gpukfl.tables._relations import GivenRelations, deal_groups
from gpukfl.tables._seen import NUMBERS
from gpukfl.tables._target import encode_truth, host_target, label_places, target_names
from gpukfl.tables._training import read_test_data

# ----------------------------------------------------------------------------------- asked

# A fitted model of any kind as a function of host rows, and rows that it has not seen.


Predict = Callable[[np.ndarray], np.ndarray]  # rows (m, c) -> predictions (m, t)
_FEWEST = 4  # rows of which anything is said
_DAY = 86_400.0  # seconds


@dataclass(frozen=True, eq=False)
class Part:
    """Row numbers, and a prediction function that was fitted without them."""

    rows: np.ndarray
    predict: Predict


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """Rows on the host, their prediction functions, and the loss."""

    rows: np.ndarray  # (n, c) in float64; NaN for the gaps of a table
    names: tuple[str, ...]  # of the features
    sources: tuple[int, ...]  # which feature each column is made of
    judge: HeldOutLoss
    parts: tuple[Part, ...]  # one, or one for each fold of a portfolio
    finite: Predict  # rows (n, q) without gaps, by which columns are predicted from others
    finite_sources: tuple[int, ...]  # which feature each column of these is made of
    levels: np.ndarray  # (c,), of columns that are indices of levels how many there are, else 0

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_regression(self) -> bool:
        """Whether the task is a regression."""
        return not isinstance(self.judge, LogLoss)

    @property
    def score_name(self) -> str:
        """What a share of the judge's loss is called."""
        if isinstance(self.judge, MeanLoss):
            return d2_name(self.judge.loss)
        return "R²" if self.is_regression else "explained log loss"

    @property
    def squares(self) -> SquaredError:
        """The squared error, for classes that of the probabilities."""
        judge = self.judge
        if isinstance(judge, SquaredError):
            return judge
        return squared_error(judge.truth, judge.weights)

    @property
    def groups(self) -> np.ndarray | None:
        """The groups (n,) of the rows, where they are known."""
        return self.judge.groups

    def column_numbers(self, features: Sequence[int], /) -> np.ndarray:
        """Return the numbers of the columns that come from some features."""
        return np.flatnonzero(np.isin(self.sources, features))

    def others(self, features: Sequence[int], /) -> np.ndarray:
        """Return the rows (n, q) without some features' columns, and without missing values."""
        return self.finite(self.rows)[:, ~np.isin(self.finite_sources, features)]

    def subsample(self, at_most: int, rng: np.random.RandomState, /) -> Self:
        """Draw some of the rows, stratified by part."""
        n = len(self)
        if n <= at_most:
            return self
        counts = [min(-(-at_most * len(part.rows) // n), len(part.rows)) for part in self.parts]
        drawn = [
            np.sort(rng.choice(part.rows, count, replace=False))
            for part, count in zip(self.parts, counts, strict=True)
        ]
        kept = np.concatenate(drawn)
        ends = np.cumsum([0, *map(len, drawn)])
        parts = tuple(
            replace(part, rows=np.arange(*ends[k : k + 2])) for k, part in enumerate(self.parts)
        )
        groups = None if self.groups is None else self.groups[kept]
        own = {"truth": self.judge.truth[kept], "weights": self.judge.weights[kept]}
        judge = replace(self.judge, groups=groups, **own)
        return replace(self, rows=self.rows[kept], judge=judge, parts=parts)


def make_evaluation_data(
    model: Any, X: Any, y: Any, sample_weight: Any = None, row_groups: Any = None, /
) -> EvaluationData:
    """Read rows that a fitted model has not seen, or without X those that its folds held out.

    Groups of these are those of the fit.
    """
    estimator = _fitted_estimator(model)
    if X is None or y is None:
        if row_groups is not None:
            msg = "expected X and y with row_groups, got neither: the groups of the fit are known"
            raise ValueError(msg)
        found = _data_from_folds(model, estimator, X, y)
    else:
        found = _data_from_rows(model, estimator, X, y, sample_weight, row_groups)
    if len(found) < _FEWEST:
        msg = f"expected at least {_FEWEST} held-out rows, got {len(found)}"
        raise ValueError(msg)
    return found


def _fitted_estimator(model: Any) -> Any:
    """Return what predicts, of a model or of an estimator; TypeError where nothing does."""
    estimator = model.estimator if hasattr(model, "reader") else model
    if not hasattr(estimator, "predict"):
        msg = f"expected a fitted regressor or classifier, got {type(model).__name__}"
        raise TypeError(msg)
    check_is_fitted(estimator)
    return estimator


# ---------------------------------------------------------------------- rows that are given


def _data_from_rows(
    model: Any, estimator: Any, X: Any, y: Any, sample_weight: Any, row_groups: Any
) -> EvaluationData:
    name = str(getattr(model, "target_name", "y"))
    given = GivenRelations(groups=row_groups)
    data = read_test_data(X, y, sample_weight, given, target=name).check_splits()
    X = model._rows(data.X) if hasattr(model, "reader") else data.X
    predict, rows, names = _prediction_inputs(estimator, X)
    n_columns = rows.shape[1]
    sources: Sequence[int] = range(n_columns)
    reader = getattr(model, "reader", None)
    if reader is not None:
        names, sources = tuple(reader.names), reader.encoding.sources
    elif isinstance(estimator, AutoBase):
        names, sources = feature_names(estimator), estimator._sources
    truth = encode_truth(estimator, data.y)
    if len(truth) != len(rows):
        msg = f"expected a target for each of {len(rows)} rows, got {len(truth)}"
        raise ValueError(msg)
    weights = validate_weights(data.sample_weight, rows)
    weights = np.ones(len(rows)) if weights is None else weights
    kept = np.flatnonzero(weights > 0)
    parts = (Part(np.arange(len(kept)), predict),)
    groups = None if data.relations is None else data.relations.take(kept).groups
    own = (rows[kept], names, sources, truth[kept], weights[kept])
    return _make_data(estimator, *own, parts, groups)


def _make_data(
    estimator: Any,
    rows: np.ndarray,
    names: Sequence[str],
    sources: Sequence[int],
    truth: np.ndarray,
    weights: np.ndarray,
    parts: tuple[Part, ...],
    groups: np.ndarray | None,
) -> EvaluationData:
    """Add what judges predictions, and the imputation that does not see targets."""
    if is_classifier(estimator):
        judge: HeldOutLoss = FlooredLogLoss(truth, weights, groups=groups)
    else:
        judge, loss = replace(squared_error(truth, weights), groups=groups), loss_of_fit(estimator)
        if loss is not None:
            loss.check_targets(truth)
            judge = make_mean_loss(loss, judge, truth, weights)
    encodings = getattr(estimator, "encodings_", None)
    finite: Predict = (lambda X: X) if encodings is None else encodings.finite
    finite_sources = tuple(sources if encodings is None else encodings.blind.sources)
    levels = np.zeros(rows.shape[1], dtype=np.int64)
    if encodings is not None:
        levels[:] = [one.levels for one in encodings.table.coded]
    return EvaluationData(
        *(rows, tuple(names), tuple(sources), judge, parts),
        *(finite, finite_sources, levels),
    )


def _prediction_inputs(estimator: Any, X: Any) -> tuple[Predict, np.ndarray, tuple[str, ...]]:
    """Return the prediction function, the host rows, and the names of their columns."""
    if isinstance(estimator, AutoBase):
        codes = estimator._new_rows(X, "predict")
        return _make_blend_predict(estimator, codes, None), _to_float64(codes), ()
    if is_frame(X):
        frame = numeric_frame(X)
        names = tuple(str(name) for name in frame.columns)
        floats = frame.astype(np.float64)

        def make_frame(rows: np.ndarray) -> Any:
            return type(floats)(rows, columns=floats.columns)

        return _make_predict(estimator, make_frame), floats.to_numpy(), names
    X = X if is_array(X) else np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        msg = f"expected X of shape (n, d), got {tuple(X.shape)}"
        raise ValueError(msg)
    rows = _to_float64(X)
    there = X if to_host(X).dtype.kind == "f" else rows
    names = feature_names(estimator) if hasattr(estimator, "n_features_in_") else ()
    if len(names) != rows.shape[1]:
        names = tuple(f"x{k}" for k in range(rows.shape[1]))
    return _make_predict(estimator, lambda new: asarray_like(new, there)), rows, names


def _make_predict(estimator: Any, given: Callable[[np.ndarray], Any]) -> Predict:
    """Return the prediction function of a model for host rows."""
    if not is_classifier(estimator):
        return lambda rows: _to_float64(estimator.predict(given(rows))).reshape(len(rows), -1)

    def classes(rows: np.ndarray) -> np.ndarray:
        if hasattr(estimator, "predict_proba"):
            return _to_float64(estimator.predict_proba(given(rows)))
        labels = to_host(estimator.predict(given(rows)))
        return (labels[:, None] == to_host(estimator.classes_)).astype(np.float64)

    return classes


def _make_blend_predict(estimator: AutoBase, there: Any, fold: int | None) -> Predict:
    """Return the prediction function of a portfolio, or of one fold's models, for host rows."""
    return lambda rows: _to_float64(estimator._outputs(asarray_like(rows, there), fold))


# ---------------------------------------------------------------------- targets


class FlooredLogLoss(LogLoss):
    """The log loss of probabilities that may be 0, which are raised to a floor."""

    def losses(
        self, predicted: np.ndarray, rows: slice | np.ndarray = slice(None), /
    ) -> np.ndarray:
        """Weighted log loss of each row."""
        n, count = self.truth.shape
        return super().losses(to_host(floor_probabilities(predicted, 0.5 / (n + count))), rows)


# ---------------------------------------------------------------------- rows of folds


def _data_from_folds(model: Any, estimator: Any, X: Any, y: Any) -> EvaluationData:
    """Read the held-out rows of each fold, with the models of that fold."""
    name = type(estimator).__name__
    if X is not None or y is not None:
        msg = "expected X and y, or neither for the held-out rows of a blend"
        raise ValueError(msg)
    if not isinstance(estimator, AutoBase):
        msg = f"expected held-out rows X and y: {name} has no models of folds"
        raise ValueError(msg)
    if not estimator._has_fold_models:
        msg = "expected held-out rows X and y: the models of the folds were refitted"
        raise ValueError(msg)
    kept = estimator._held_out
    parts = tuple(
        Part(np.flatnonzero(kept.fold == k), _make_blend_predict(estimator, kept.rows, k))
        for k in range(kept.n_folds)
    )
    names = feature_names(estimator, getattr(model, "feature_names", None))
    rows, sources = _to_float64(kept.rows), estimator._sources
    own = (rows, names, sources, kept.truth, kept.weights)
    return _make_data(estimator, *own, parts, kept.groups)


# ---------------------------------------------------------------------- arrays


def _to_float64(x: Any) -> np.ndarray:
    return np.asarray(to_host(x) if is_array(x) else x, dtype=np.float64)


# --------------------------------------------------------------------------------- subject

# A fitted model and rows, as bands and directions ask them: host arrays, refits, kernels.


@dataclass(frozen=True, eq=False)
class InferenceData:
    """A fitted estimator with rows on the host."""

    estimator: Any  # of a blend the leading member that has learned a kernel
    X: np.ndarray  # (n, d) in float64, as the estimator takes them
    y: np.ndarray  # targets or labels, as it is fitted to them
    weights: np.ndarray  # (n,), of mean 1
    names: tuple[str, ...]  # of the features
    outputs: tuple[str, ...]  # of the fitted functions
    remark: str = ""  # what is to be known of it
    categories: tuple[Category, ...] = ()  # features that stand for a category together
    seconds: Mapping[str, float] = field(default_factory=dict)  # of 1, of features that are times
    groups: np.ndarray | None = None  # (n,), codes of the groups that rows belong to

    def __len__(self) -> int:
        return len(self.X)

    @property
    def classes(self) -> bool:
        """Whether the task is a classification."""
        return is_classifier(self.estimator)

    def deal_groups(self, n_folds: int, rng: np.random.RandomState, /) -> np.ndarray | None:
        """Return the fold (n,) of each row, of whole groups; None where there are no groups."""
        if self.groups is None:
            return None
        codes = np.unique(self.y, return_inverse=True)[1].reshape(-1) if self.classes else None
        return deal_groups(self.groups, min(n_folds, len(np.unique(self.groups))), rng, codes)

    @cached_property
    def Y(self) -> np.ndarray:  # noqa: N802
        """Targets, or indicators of the classes (n, t); of two classes the second's."""
        if not self.classes:
            return self.y.reshape(len(self), -1).astype(np.float64)
        labels = to_host(self.estimator.classes_)
        found = (self.y[:, None] == labels).astype(np.float64)
        return found[:, -1:] if len(labels) <= 2 else found

    @cached_property
    def kernel(self) -> LearnedKernel | None:
        """The learned kernel, if there is one."""
        return learned_kernel(self.estimator)

    def draw(self, count: int, rng: Any, /) -> InferenceData:
        """Return the data of at most so many rows, drawn without replacement."""
        if count >= len(self):
            return self
        some = np.sort(rng.choice(len(self), count, replace=False))
        groups = None if self.groups is None else self.groups[some]
        own = {"X": self.X[some], "y": self.y[some], "weights": self.weights[some]}
        return replace(self, groups=groups, **own)

    def refit(self, rows: np.ndarray, max_time: float | None = None, /) -> Any:
        """Fit a clone of the estimator to some rows, within a time limit if it takes one.

        Raises KeyboardInterrupt where the fit was interrupted, and ended with its best step so far.
        """
        new, given = clone(self.estimator), {}
        if getattr(new, "monotone", None) is not None:  # these rows have no names
            new.set_params(monotone=read_signs(new.monotone, self.names))
        if np.ptp(self.weights) > 0:
            if not has_fit_parameter(new, "sample_weight"):
                msg = (
                    f"expected an estimator whose fit takes sample_weight, got {type(new).__name__}"
                )
                raise TypeError(msg)
            given["sample_weight"] = self.weights[rows]
        if self.groups is not None and has_fit_parameter(new, "groups"):
            own = self.groups[rows]
            given |= {"groups": own} if len(np.unique(own)) > 1 else {}
        limited = max_time is not None and "max_time" in new.get_params()
        if not limited:
            new.fit(self.X[rows], self.y[rows], **given)
        else:
            with collect_warnings():  # of the limit, which is known
                new.set_params(max_time=max_time).fit(self.X[rows], self.y[rows], **given)
        if getattr(new, "status_", "") == Status.INTERRUPTED.name:  # no part of any result
            raise KeyboardInterrupt
        return new

    def functions(self, X: np.ndarray, estimator: Any = None, /) -> np.ndarray:
        """Return predictions, or probabilities, (n, t) at host rows."""
        e = _drop_feature_names(self.estimator if estimator is None else estimator)
        if not self.classes:
            return np.asarray(to_host(e.predict(X)), dtype=np.float64).reshape(len(X), -1)
        return self._align_classes(np.asarray(to_host(e.predict_proba(X)), dtype=np.float64), e)

    def learn_kernel(
        self, rows: np.ndarray, max_time: float | None = None, /
    ) -> LearnedKernel | None:
        """Learn a kernel from some rows, with the functions of all classes."""
        fit = self.refit(rows, max_time)
        kernel = learned_kernel(fit)
        if kernel is None or not self.classes:
            return kernel
        functions = kernel.functions
        return replace(kernel, functions=lambda Z: self._align_classes(functions(Z), fit))

    def _align_classes(self, found: np.ndarray, fit: Any) -> np.ndarray:
        """Align a fit's functions (n, k) with all classes; missing ones are 0."""
        labels, own = to_host(self.estimator.classes_), to_host(fit.classes_)
        if found.shape[1] < len(own):  # of two classes the second's alone
            found = np.concatenate([-found, found], axis=1)
        placed = np.zeros((len(found), len(labels)))
        placed[:, label_places(labels, own)] = found
        return placed[:, -1:] if len(labels) <= 2 else placed

    @classmethod
    def from_model(
        cls, model: Any, X: Any, y: Any, sample_weight: Any = None, row_groups: Any = None, /
    ) -> InferenceData:
        """Make the data of a model and rows."""
        estimator = _fitted_estimator(model)
        if y is None:
            msg = "expected targets y, or the name of the target column in X, got None"
            raise ValueError(msg)
        name = str(getattr(model, "target_name", "y"))
        given = GivenRelations(groups=row_groups)
        data = read_test_data(X, y, sample_weight, given, target=name).check_splits()
        name = data.target_name or name
        rows = _read_rows(model, estimator, data.X)
        y = _check_targets(estimator, host_target(data.y), len(rows.X))
        weights = validate_weights(data.sample_weight, rows.X)
        weights = np.ones(len(rows.X)) if weights is None else weights / np.mean(weights)
        outputs = _output_names(estimator, y, name)
        if rows.asked is not estimator:
            y, outputs = _member_targets(estimator, rows.asked, y, outputs)
        kept = weights > 0
        X, y, weights = (values[kept] for values in (rows.X, y, weights))
        groups = None if data.relations is None else data.relations.take(kept).groups
        return cls(
            *(rows.asked, X, y, weights, rows.names, outputs, rows.remark),
            *(rows.categories, rows.seconds, groups),
        )


@dataclass(frozen=True, eq=False)
class _Rows:
    """An estimator with its rows, their names, and a remark."""

    asked: Any
    X: np.ndarray
    names: tuple[str, ...]
    remark: str = ""
    categories: tuple[Category, ...] = field(default=(), kw_only=True)
    seconds: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    @classmethod
    def encode(cls, asked: Any, X: Any, encoding: Encoding, table: Table, remark: str = "") -> Self:
        return cls(
            *(asked, _to_float64(X), encoding.names, remark),
            categories=find_categories(encoding),
            seconds=_seconds_of_units(table),
        )


def _seconds_of_units(table: Table) -> dict[str, float]:
    """Return the seconds that 1 is of features that are times: durations, those between dates."""
    found = dict[str, float]()
    for k, column in enumerate(table.columns):
        names = [one.name for one in table.coded if one.source == k]
        if column.kind == "duration":
            found[names[0]] = 1.0
        found |= dict.fromkeys(names[len(names) - len(column.since) :], _DAY)
    return found


def _read_rows(model: Any, estimator: Any, X: Any) -> _Rows:
    if hasattr(model, "reader"):
        X = model._rows(X)
        if model.reader is not None:
            return _Rows.encode(estimator, X, model.reader.encoding, model.reader.table)
    if isinstance(estimator, AutoBase):
        return _leading_member(estimator, X)
    frame = numeric_frame(X) if is_frame(X) else None
    rows = _to_float64(X if frame is None else frame.to_numpy())
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


def _leading_member(blend: AutoBase, X: Any) -> _Rows:
    """Return the heaviest member of a blend that has a kernel, or the blend itself."""
    codes = blend._new_rows(X, "predict")
    names = feature_names(blend)
    encodings = blend.encodings_
    for member in sorted(blend.members_, key=lambda one: -one.weight):
        one = member.models[0]
        if learned_kernel(one) is None or member.sees != NUMBERS:
            continue
        rows = codes if encodings is None else encodings.folds.view_rows(codes).rows(0, NUMBERS)
        said = f"by the kernel of {member.name}, the first member of the blend that has one"
        if encodings is None:
            return _Rows(one, _to_float64(rows), names, said)
        return _Rows.encode(one, rows, encodings.by_fold[0], encodings.table, said)
    if encodings is not None:
        msg = "expected a blend with a member that learns a kernel, or columns of numbers"
        raise ValueError(msg)
    return _Rows(blend, _to_float64(codes), names)


def _check_targets(estimator: Any, y: Any, n: int) -> np.ndarray:
    """Return the checked targets or labels of n rows."""
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
        msg = f"expected labels of the fit, got {unknown[0]!r}"
        raise ValueError(msg)
    return values


def _member_targets(
    blend: AutoBase, member: Any, y: np.ndarray, outputs: tuple[str, ...]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the targets that a member of a blend is fitted to, and its function names.

    Those of classes are their numbers; others may be on another scale.
    """
    if is_classifier(blend):
        labels = to_host(blend.classes_)
        return label_places(labels, y), _class_output_names(labels[to_host(member.classes_)])
    transform = blend.target_transform_
    if transform is None:
        return y, outputs
    named = tuple(f"{transform.unit} of {output}" for output in outputs)
    return transform.forward(y.reshape(len(y), -1)).reshape(y.shape), named


def _output_names(estimator: Any, y: np.ndarray, target: str) -> tuple[str, ...]:
    """Return the names of the fitted functions."""
    if is_classifier(estimator):
        return _class_output_names(to_host(estimator.classes_))
    return target_names(target, 1 if y.ndim == 1 else y.shape[1])


def _class_output_names(labels: np.ndarray) -> tuple[str, ...]:
    return tuple(f"class {one}" for one in (labels[-1:] if len(labels) <= 2 else labels))


def _drop_feature_names(estimator: Any) -> Any:
    """Return a copy without feature names, which takes arrays without a warning."""
    found = estimator.to_host() if hasattr(estimator, "to_host") else copy.copy(estimator)
    found.__dict__.pop("feature_names_in_", None)
    return found


# -------------------------------------------------------------------------------- shuffled

# What a model makes of columns that are shuffled.


def mean_squared_change(
    predict: Callable[[np.ndarray], np.ndarray],
    X: np.ndarray,
    columns: Sequence[int] | np.ndarray,
    weights: np.ndarray,
    rng: np.random.RandomState,
    /,
) -> float:
    """Return the mean squared change of predictions when columns (n, d) are shuffled together."""
    shuffled = X.copy()
    shuffled[:, columns] = X[rng.permutation(len(X))][:, columns]
    moves = np.sum((predict(shuffled) - predict(X)) ** 2, axis=1)
    return float(np.average(moves, weights=weights))


def known_importances(model: Any, n_features: int, /) -> np.ndarray | None:
    """Return a model's own importances of features (d,), or None if it has none of these."""
    found = getattr(model, "feature_importances_", None)
    if found is None or len(found) != n_features:
        return None
    return np.asarray(to_host(found), dtype=np.float64)
