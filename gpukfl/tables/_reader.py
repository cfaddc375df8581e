"""Encoding of tables for one estimator: training rows, partitions and new rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from gpukfl.core._array import is_array, to_host
from gpukfl.core._frames import (
    check_no_series,
    check_rows,
    column_names,
    frame_from_dicts,
    is_frame,
    is_numeric,
    numeric_frame,
    parts_of_name,
    stringify_names,
)
from gpukfl.core._warnings import warn
from gpukfl.estimators._validation import validate_weights
from gpukfl.inspection import Description, Importances
from gpukfl.partitioned import Collections, Read, name_partition_in_errors
from gpukfl.tables._encoding import Encoding, are_consistent
from gpukfl.tables._lookups import FOLDS, LevelSums, look_up_rows, make_lookup
from gpukfl.tables._monotone import declare_monotone_numeric, read_table_signs
from gpukfl.tables._relations import Relations, drop_columns
from gpukfl.tables._schema import columns_text, infer_schema, sum_partitions
from gpukfl.tables._table import Table
from gpukfl.tables._training import SAMPLE, Dataset

_MOST_NAMED = 10  # columns in a message


@dataclass(frozen=True, eq=False)
class Reader:
    """The encoding of a frame's columns for an estimator.

    Attributes
    ----------
    table : Table
        The schema.
    encoding : Encoding
        The encoding of its codes, learned on the rows of the fit.
    """

    table: Table
    encoding: Encoding

    @classmethod
    def learn(
        cls,
        table: Table,
        X: Any,
        y: np.ndarray,
        weights: np.ndarray | None,
        /,
        *,
        classes: bool,
        impute: str,
        seed: int,
        relations: Relations | None = None,
    ) -> tuple[Self, np.ndarray]:
        """Learn from training rows with targets or labels; also return the encoded rows."""
        n_classes = 0
        if classes:
            labels, y = np.unique(y, return_inverse=True)
            n_classes = len(labels)
        n, columns = table.code_columns(X, seen=True)
        encoding, rows = Encoding.learn_columns(
            columns,
            table.coded,
            y,
            n=n,
            n_classes=n_classes,
            impute=impute,
            weights=weights,
            random_state=seed,
            blocks=None if relations is None else relations.cross_fit_blocks(seed),
        )
        return cls(table, encoding), rows

    def __call__(self, X: Any, besides: str = "", /) -> np.ndarray:
        """Return the rows (m, d) of a frame, or of an array with the same columns.

        The frame may also have the columns of the target `besides`.
        """
        return self.encoding.transform(self.table.codes(X, besides=besides))

    def sum_by_column(self, importances: np.ndarray, /) -> np.ndarray:
        """Return the importances (c,) of columns, summed over their encoded columns (d,)."""
        sources = np.asarray(self.encoding.sources, dtype=np.int64)
        return np.bincount(sources, weights=importances, minlength=len(self.names))

    def translate(self, description: Description, /) -> Description:
        """Return an estimator's description in terms of the frame's columns."""
        panels = tuple(
            self._join_importances(panel) if isinstance(panel, Importances) else panel
            for panel in description.panels
        )
        return replace(
            description,
            columns=columns_text(self.table),
            n_features=len(self.names),
            panels=panels,
        )

    def _join_importances(self, panel: Importances) -> Importances:
        """Return the importances of columns, with those of their encoded columns as parts."""
        parts: list[dict[str, float]] = [{} for _ in self.names]
        made = zip(self.encoding.sources, panel.features, panel.values.tolist(), strict=True)
        for source, name, value in made:
            parts[source][name] = value
        values = self.sum_by_column(panel.values)
        return Importances(tuple(self.names), values, panel.unit, parts=tuple(parts))

    def is_sound(self, n_features: int, /) -> bool:
        """Whether it is valid for an estimator with that number of features."""
        return are_consistent(self.table, self.encoding) and self.encoding.n_features == n_features

    @property
    def names(self) -> list[str]:
        """The names of the frame's columns."""
        return [column.name for column in self.table.columns]


# ---------------------------------------------------------------------- rows of a fit


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """Encoded rows for an estimator.

    Attributes
    ----------
    X : array or frame
        Rows to fit to.
    names : list of str or None
        Names of a frame's columns.
    reader : Reader or None
        Encodes new rows; None if the estimator reads them itself.
    of_partition : callable or None
        Encodes the rows of a partition for the fit.
    """

    X: Any
    names: list[str] | None = None
    reader: Reader | None = None
    of_partition: Read | None = None


def encode_training_data(
    estimator: Any, data: Dataset, columns: Mapping[str, str] | None, impute: str, /
) -> EncodedRows:
    """Encode the training rows of an estimator that does not read tables.

    Raises TypeError, ValueError as `infer_schema`.
    """
    X, many = data.X, data.everything
    if many is not None and many.n_rows <= SAMPLE:
        many = None
    parameters = estimator.get_params(deep=False)
    if "columns" in parameters:
        if columns or (is_frame(X) and not is_numeric(X)):
            return EncodedRows(X)
        many = None
    columns = declare_monotone_numeric(columns, parameters.get("monotone"), X)
    table = infer_schema(X, columns, many)
    if table is None:
        X = numeric_frame(X)
        return EncodedRows(X, [str(c) for c in X.columns] if hasattr(X, "columns") else None)
    rng = check_random_state(parameters["random_state"])
    y, classes = to_host(data.y), data.task == "classification"
    if read_table_signs(parameters["monotone"], table) and impute == "model":
        msg = "expected impute='median' for a single method with monotone columns, got 'model'"
        raise ValueError(msg)
    reader, rows = Reader.learn(
        table,
        X,
        y,
        validate_weights(data.sample_weight, X),
        classes=classes,
        impute=impute,
        seed=int(rng.randint(2**31 - 1)),
        relations=data.relations,
    )
    pass_monotone_columns(estimator, reader)
    if many is None:
        return EncodedRows(rows, reader.names, reader, reader)
    reader, of_partition = fit_level_statistics(reader, many, np.unique(y) if classes else None)
    return EncodedRows(rows, reader.names, reader, of_partition)


def encode_again(
    estimator: Any, reader: Reader | None, data: Dataset, impute: str, target: str, /
) -> EncodedRows:
    """Encode other training rows by the schema of a fitted estimator, and learn the encoding anew.

    Raises ValueError if columns are missing or too many, as `read_new_rows`.
    """
    if reader is None:
        X = read_new_rows(estimator, None, data.X, target)
        names, count = None, estimator.n_features_in_
        if is_frame(X):
            names = [str(name) for name in estimator.feature_names_in_]
        elif getattr(X, "ndim", 0) == 2 and X.shape[1] != count:
            msg = f"expected X with the {count} columns of the fit, got {X.shape[1]} columns"
            raise ValueError(msg)
        return EncodedRows(X, names)
    rng = check_random_state(estimator.random_state)
    frame = _drop_target(data.X, target, reader.names) if is_frame(data.X) else data.X
    reader, rows = Reader.learn(
        *(reader.table, frame, to_host(data.y), validate_weights(data.sample_weight, data.X)),
        classes=data.task == "classification",
        impute=impute,
        seed=int(rng.randint(2**31 - 1)),
        relations=data.relations,
    )
    return EncodedRows(rows, reader.names, reader)


def pass_monotone_columns(estimator: Any, reader: Reader, /) -> None:
    """Set the signs of encoded columns for the next fit of a monotone estimator."""
    if estimator.monotone is not None:
        signs, places = read_table_signs(estimator.monotone, reader.table), reader.encoding
        found = {places.number_places[code]: sign for code, sign in signs.items()}
        estimator._read_signs = found


@dataclass(frozen=True, eq=False)
class PartsReader:
    """The encoding of partitions for a fit.

    Attributes
    ----------
    table : Table
        The schema.
    by_fold : tuple of Encoding
        One for each fold, with target means of the other folds' rows.
    """

    table: Table
    by_fold: tuple[Encoding, ...]

    def __call__(self, X: Any, /) -> np.ndarray:
        """Return the rows (m, d) of a frame."""
        codes = self.table.codes(X, seen=True)
        rows, fold = np.empty((len(codes), self.by_fold[0].n_features)), _deal_folds(len(codes))
        for k, encoding in enumerate(self.by_fold):
            rows[fold == k] = encoding.transform(codes[fold == k])
        return rows


def fit_level_statistics(
    reader: Reader, given: Collections, classes: np.ndarray | None, /
) -> tuple[Reader, PartsReader]:
    """Compute statistics of levels over all rows; return encodings of new and training rows.

    The reader's schema and medians were learned on a sample. Targets are labels of `classes`, or
    numbers without these.
    """
    table, encoding = reader.table, reader.encoding
    levelled = [one for one in encoding.coded if one.levels]
    if not levelled:
        return reader, PartsReader(table, (encoding,) * FOLDS)
    weights = given.weights or [None] * len(given.lengths)
    sums = sum_partitions(given, partial(_sum_partition, table, classes), given.y, weights)
    both = list(zip(levelled, sums, strict=True))

    def learn_encoding(without: int | None) -> Encoding:
        found = tuple(make_lookup(one, of, without=without) for one, of in both)
        return replace(encoding, lookups=found)

    by_fold = tuple(learn_encoding(k) for k in range(FOLDS))
    return replace(reader, encoding=learn_encoding(None)), PartsReader(table, by_fold)


def _sum_partition(
    table: Table, classes: np.ndarray | None, number: int, X: Any, y: Any, weights: Any
) -> list[LevelSums]:
    """Return the sums of a partition for each column of levels."""
    with name_partition_in_errors(number):
        codes, Y = table.codes(X, seen=True), _target_matrix(y, classes)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    fold, found = _deal_folds(len(codes)), []
    for j, one in enumerate(table.coded):
        if one.levels:
            size = one.levels + 2
            found.append(
                LevelSums.from_rows(look_up_rows(codes[:, j], size), size, Y, w, fold, FOLDS)
            )
    return found


def _deal_folds(n: int) -> np.ndarray:
    """Return the folds (n,) of the rows of a partition."""
    return np.arange(n) % FOLDS


def _target_matrix(y: Any, classes: np.ndarray | None) -> np.ndarray:
    """Return targets, or indicators of classes, (n, t)."""
    host = np.asarray(to_host(y) if is_array(y) else y)
    if classes is None:
        return host.astype(np.float64).reshape(len(host), -1)
    shown = classes if len(classes) > 2 else classes[1:]
    return (host.reshape(-1, 1) == shown).astype(np.float64)


# ---------------------------------------------------------------------- new rows


def read_new_rows(estimator: Any, reader: Reader | None, X: Any, target: str, /) -> Any:
    """Encode new rows of a fitted estimator; the target may be among the columns.

    Raises ValueError if columns are missing, or hold values of another kind than in the fit.
    """
    check_rows(X)
    X = drop_columns(X, getattr(estimator, "beside_", ()))
    if reader is not None:
        return reader(X, target)
    check_no_series(X)
    encodings = getattr(estimator, "encodings_", None)
    # A single row, as a service sends it, is read without pandas
    if encodings is not None and isinstance(X, list) and len(X) == 1 and isinstance(X[0], dict):
        beside = getattr(estimator, "beside_", ())
        left_out = (parts_of_name(target) | {*beside}).difference(estimator.feature_names_in_)
        return [{name: value for name, value in X[0].items() if name not in left_out}]
    X = frame_from_dicts(X)
    if not is_frame(X):
        return X
    known = getattr(estimator, "feature_names_in_", None)
    X = stringify_names(X)
    X = X if known is None else _drop_target(X, target, list(known))
    if encodings is not None:
        return X
    return numeric_frame(_order_columns(X, known), gaps=allows_missing(estimator))


def order_numbers(X: Any, names: Sequence[str], /, *, gaps: bool = False) -> Any:
    """Return the columns of a frame of numbers in the order of names; other rows unchanged.

    Raises ValueError if columns are missing, or if values are missing and `gaps` is False.
    """
    X = frame_from_dicts(X)
    if not is_frame(X):
        return X
    return numeric_frame(_order_columns(stringify_names(X), names), gaps=gaps).to_numpy()


def allows_missing(estimator: Any, /) -> bool:
    """Whether new rows may have missing values, as in blends."""
    return hasattr(estimator, "encodings_")


def _drop_target(X: Any, target: str, known: list[str]) -> Any:
    """Drop the target columns from a frame."""
    unknown = parts_of_name(target).difference(known)
    held = [name for name in column_names(X) if name in unknown]
    if not held:
        return X
    import narwhals as nw

    return nw.from_native(X, eager_only=True).drop(held).to_native()


def _order_columns(X: Any, names: Sequence[str] | None) -> Any:
    """Return the columns of a frame in the order of a fit."""
    given = column_names(X)
    if names is None or given == list(names):
        return X
    lacking = [name for name in names if name not in given]
    if lacking:
        msg = f"expected columns {', '.join(lacking[:_MOST_NAMED])}, which are not in X"
        raise ValueError(msg)
    new = [name for name in given if name not in names]
    if new:
        warn(f"columns that were not in the fit are ignored: {', '.join(new[:_MOST_NAMED])}")
    import narwhals as nw

    return nw.from_native(X, eager_only=True).select(*names).to_native()
