"""A fitted model of any kind as a function of host rows, and rows that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from gpukfl._array import beside, is_array, to_host
from gpukfl._columns import is_frame, numeric_frame
from gpukfl.estimators._described import feature_names
from gpukfl.estimators._validation import validate_weights
from gpukfl.portfolio._base import AutoBase
from gpukfl.portfolio._judges import Judge, LogLoss, SquaredError, target_scale
from gpukfl.prediction import mixed
from gpukfl.tables._target import truth_of
from gpukfl.tables._training import read_test_data

Predict = Callable[[np.ndarray], np.ndarray]  # rows (m, c) -> predictions (m, t)
_FEWEST = 4  # rows of which anything is said


@dataclass(frozen=True, eq=False)
class Part:
    """Rows, by their numbers, and the predictions of a model that has not seen them."""

    rows: np.ndarray
    predict: Predict


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of a model: rows on the host, who predicts them, and what judges it.

    Attributes
    ----------
    rows : array, shape (n, c)
        In float64; NaN for the gaps of a table.
    names : tuple of str
        Of the features.
    sources : tuple of int
        Which feature each column is made of.
    judge : Judge
        Of the rows.
    parts : tuple of Part
        One, or one for each fold of a portfolio.
    finite : callable
        Rows (n, q) without gaps, by which columns are predicted from others.
    finite_sources : tuple of int
        Which feature each column of these is made of.
    """

    rows: np.ndarray
    names: tuple[str, ...]
    sources: tuple[int, ...]
    judge: Judge
    parts: tuple[Part, ...]
    finite: Predict
    finite_sources: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def is_regression(self) -> bool:
        """Whether targets are numbers."""
        return isinstance(self.judge, SquaredError)

    @property
    def squares(self) -> SquaredError:
        """Squared errors, of classes those of their probabilities."""
        judge = self.judge
        return judge if isinstance(judge, SquaredError) else _squares(judge.truth, judge.weights)

    def columns_of(self, features: Sequence[int], /) -> np.ndarray:
        """Give the numbers of the columns that are made of some features."""
        return np.flatnonzero(np.isin(self.sources, features))

    def others(self, features: Sequence[int], /) -> np.ndarray:
        """Give the rows (n, q) without what is made of some features, and without gaps."""
        return self.finite(self.rows)[:, ~np.isin(self.finite_sources, features)]

    def sampled(self, at_most: int, rng: np.random.RandomState, /) -> Self:
        """Draw so many of the rows, of every part its share."""
        n = len(self)
        if n <= at_most:
            return self
        drawn = [_some(part.rows, -(-at_most * len(part.rows) // n), rng) for part in self.parts]
        kept = np.concatenate(drawn)
        ends = np.cumsum([0, *map(len, drawn)])
        parts = tuple(
            replace(part, rows=np.arange(*ends[k : k + 2])) for k, part in enumerate(self.parts)
        )
        judge = replace(self.judge, truth=self.judge.truth[kept], weights=self.judge.weights[kept])
        return replace(self, rows=self.rows[kept], judge=judge, parts=parts)


def asked_of(model: Any, X: Any, y: Any, sample_weight: Any = None, /) -> Asked:
    """Ask a fitted model at rows that it has not seen, or at those its folds held out.

    Raises
    ------
    TypeError, ValueError
        If it is no fitted regressor or classifier, does not take the rows, or without X is no
        portfolio that keeps the models of its folds.
    """
    estimator = model.estimator if hasattr(model, "reader") else model
    if not hasattr(estimator, "predict"):
        msg = f"expected a fitted regressor or classifier, got {type(model).__name__}"
        raise TypeError(msg)
    check_is_fitted(estimator)
    if X is None or y is None:
        found = _out_of_fold(model, estimator, X, y)
    else:
        found = _of_rows(model, estimator, X, y, sample_weight)
    if len(found) < _FEWEST:
        msg = f"expected at least {_FEWEST} rows that were held out, got {len(found)}"
        raise ValueError(msg)
    return found


# ---------------------------------------------------------------------- rows that are given


def _of_rows(model: Any, estimator: Any, X: Any, y: Any, sample_weight: Any) -> Asked:
    name = str(getattr(model, "target_name", "y"))
    data = read_test_data(X, y, sample_weight, target=name)
    X = model._rows(data.X) if hasattr(model, "reader") else data.X
    predict, rows, names = _doors(estimator, X)
    n_columns = rows.shape[1]
    sources: Sequence[int] = range(n_columns)
    reader = getattr(model, "reader", None)
    if reader is not None:
        names, sources = tuple(reader.names), reader.encoding.sources
    elif isinstance(estimator, AutoBase):
        names, sources = feature_names(estimator), estimator._sources
    truth = truth_of(estimator, data.y)
    if len(truth) != len(rows):
        msg = f"expected a target for each of {len(rows)} rows, got {len(truth)}"
        raise ValueError(msg)
    weights = validate_weights(data.sample_weight, rows)
    weights = np.ones(len(rows)) if weights is None else weights
    kept = np.flatnonzero(weights > 0)
    judge = _judge(estimator, truth[kept], weights[kept])
    part = Part(np.arange(len(kept)), predict)
    finite, finite_sources = _finite(estimator, sources)
    return Asked(
        rows[kept], tuple(names), tuple(sources), judge, (part,), finite, tuple(finite_sources)
    )


def _doors(estimator: Any, X: Any) -> tuple[Predict, np.ndarray, tuple[str, ...]]:
    """Predictions of host rows, these rows, and names of their columns."""
    if isinstance(estimator, AutoBase):
        codes = estimator._new_rows(X, "predict")
        return _blend_of(estimator, codes, None), _wide(codes), ()
    if is_frame(X):
        frame = numeric_frame(X)
        names = tuple(str(name) for name in frame.columns)
        floats = frame.astype(np.float64)

        def framed(rows: np.ndarray) -> Any:
            return type(floats)(rows, columns=floats.columns)

        return _predictions(estimator, framed), floats.to_numpy(), names
    X = X if is_array(X) else np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        msg = f"expected X of shape (n, d), got {tuple(X.shape)}"
        raise ValueError(msg)
    rows = _wide(X)
    there = X if to_host(X).dtype.kind == "f" else rows
    names = feature_names(estimator) if hasattr(estimator, "n_features_in_") else ()
    if len(names) != rows.shape[1]:
        names = tuple(f"x{k}" for k in range(rows.shape[1]))
    return _predictions(estimator, lambda new: beside(new, there)), rows, names


def _predictions(estimator: Any, given: Callable[[np.ndarray], Any]) -> Predict:
    """Predictions of a model for host rows, which it takes as `given` makes them."""
    if not is_classifier(estimator):
        return lambda rows: _columns(_wide(estimator.predict(given(rows))))

    def classes(rows: np.ndarray) -> np.ndarray:
        if hasattr(estimator, "predict_proba"):
            return _wide(estimator.predict_proba(given(rows)))
        labels = to_host(estimator.predict(given(rows)))
        return (labels[:, None] == to_host(estimator.classes_)).astype(np.float64)

    return classes


def _blend_of(estimator: AutoBase, there: Any, fold: int | None) -> Predict:
    """Predictions of a portfolio, or of its models of one fold, for host rows."""
    return lambda rows: _wide(estimator._outputs(beside(rows, there), fold))


def _finite(estimator: Any, sources: Sequence[int]) -> tuple[Predict, Sequence[int]]:
    """Give what fills gaps without a look at targets, and of which features its columns are."""
    encodings = getattr(estimator, "encodings_", None)
    if encodings is None:
        return (lambda rows: rows), sources
    return encodings.finite, encodings.blind.sources


# ---------------------------------------------------------------------- targets


def _judge(estimator: Any, truth: np.ndarray, weights: np.ndarray) -> Judge:
    if is_classifier(estimator):
        return FlooredLogLoss(truth, weights)
    return _squares(truth, weights)


def _squares(truth: np.ndarray, weights: np.ndarray) -> SquaredError:
    return SquaredError(truth, weights, target_scale(truth, weights))


class FlooredLogLoss(LogLoss):
    """The log loss of probabilities that may be 0: of trees, or of labels that are all there is."""

    def part(self, predicted: np.ndarray, rows: slice | np.ndarray = slice(None), /) -> np.ndarray:
        """Probabilities of the true classes (m, 1), which are positive."""
        n, count = self.truth.shape
        return super().part(to_host(mixed(predicted, 0.5 / (n + count))), rows)


# ---------------------------------------------------------------------- rows of folds


def _out_of_fold(model: Any, estimator: Any, X: Any, y: Any) -> Asked:
    """Ask the models of each fold at the rows that it held out."""
    name = type(estimator).__name__
    if X is not None or y is not None:
        msg = "expected X and y, or neither for the rows that the folds of a portfolio held out"
        raise ValueError(msg)
    if not isinstance(estimator, AutoBase):
        msg = f"expected X and y that were held out: {name} keeps no models of folds"
        raise ValueError(msg)
    kept = estimator.out_of_fold_
    if not estimator._has_folds:
        msg = "expected X and y that were held out: the models of the folds were fitted again"
        raise ValueError(msg)
    parts = tuple(
        Part(np.flatnonzero(kept.fold == k), _blend_of(estimator, kept.rows, k))
        for k in range(kept.n_folds)
    )
    classes = is_classifier(estimator)
    judge = (
        FlooredLogLoss(kept.truth, kept.weights) if classes else _squares(kept.truth, kept.weights)
    )
    finite, finite_sources = _finite(estimator, estimator._sources)
    names = feature_names(estimator, getattr(model, "feature_names", None))
    return Asked(
        _wide(kept.rows),
        names,
        tuple(estimator._sources),
        judge,
        parts,
        finite,
        tuple(finite_sources),
    )


# ---------------------------------------------------------------------- arrays


def _wide(x: Any) -> np.ndarray:
    return np.asarray(to_host(x) if is_array(x) else x, dtype=np.float64)


def _columns(x: np.ndarray) -> np.ndarray:
    return x[:, None] if x.ndim == 1 else x


def _some(rows: np.ndarray, count: int, rng: np.random.RandomState) -> np.ndarray:
    return np.sort(rng.choice(rows, min(count, len(rows)), replace=False))
