"""The schema of data by counts over all rows, and the facts that reports show of it."""

from __future__ import annotations

import heapq
import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from gpukfl.core._frames import check_size, is_frame, is_numeric, listed
from gpukfl.inspection import ColumnFacts, DataFacts
from gpukfl.inspection._description import count_text
from gpukfl.partitioned import Collections, compute_values, name_partition_in_errors
from gpukfl.tables import _values
from gpukfl.tables._codes import singleton_share
from gpukfl.tables._column import DECLARED, DROPPED_KINDS, LEVEL_KINDS, Column
from gpukfl.tables._frame import name_column_in_errors, read_column, read_frame
from gpukfl.tables._guess import CONSTANT, MOST_LEVELS, ONE_VALUE, sort_levels
from gpukfl.tables._table import Table
from gpukfl.tables._values import Values

# ------------------------------------------------------------------------------- schema


_MOST_COUNTED = 4 * MOST_LEVELS  # levels of a column; counts are exact up to so many
_NUMBER_KINDS = ("numeric", "code", "boolean", "duration")  # a value that is no number is missing
_COUNTED_KINDS = (*LEVEL_KINDS, "ordered", "constant", "empty")
_RARE = "other values are rare"
_KIND_OF_FORM = {  # new kind of a column that was constant in the sample, and is not in all rows
    _values.NUMBERS: "numeric",
    _values.BOOLEANS: "boolean",
    _values.DATES: "date",
    _values.DURATIONS: "duration",
    _values.LABELS: "category",
}
_MIN_ROWS = 2  # of a fit


@dataclass(frozen=True)
class ColumnCounts:
    """Counts of the rows of a column.

    Attributes
    ----------
    rows, missing : int
        Number of rows, and of rows without a value.
    levels : dict of str to int
        Number of rows of each level; only the most frequent levels where there are very many.
    form : str
        `Values.form` of the first values; "" if all are missing.
    """

    rows: int
    missing: int
    levels: dict[str, int]
    form: str

    @classmethod
    def count(cls, column: Column, values: Values, /) -> ColumnCounts:
        """Count the rows of a column."""
        missing, levels = _find_missing(column, values), dict[str, int]()
        if column.kind in _COUNTED_KINDS:
            if column.kind == "code":
                values = values.as_numerals(column.unit, column.decimal)
            levels = values.counts()
        form = "" if missing.all() else values.form
        return cls(len(missing), int(np.count_nonzero(missing)), _keep_frequent(levels), form)

    def __add__(self, other: ColumnCounts, /) -> ColumnCounts:
        levels = dict(Counter(self.levels) + Counter(other.levels))
        return ColumnCounts(
            self.rows + other.rows,
            self.missing + other.missing,
            _keep_frequent(levels),
            self.form or other.form,
        )

    def update_column(self, column: Column, /) -> Column:
        """Return a column, guessed from a sample, corrected by the counts of all rows."""
        column = replace(column, missing=self.missing / self.rows)
        if column.kind in ("constant", "empty") or column.reason == ONE_VALUE:
            column = self._update_constant(column)
        if column.kind in LEVEL_KINDS:
            rare = singleton_share(self.levels.values())
            return replace(column, levels=_most_frequent(self.levels, MOST_LEVELS), rare=rare)
        if column.kind == "ordered" and not self.levels.keys() <= set(column.levels):
            return replace(column, levels=sort_levels(_most_frequent(self.levels, MOST_LEVELS)))
        return column

    def _update_constant(self, column: Column) -> Column:
        """Return the kind of a column that was constant or empty in the sample."""
        if len(self.levels) > 1:
            return replace(column, kind=_KIND_OF_FORM[self.form], reason=_RARE, levels=())
        if not self.levels:
            return column
        if self.missing:
            return replace(column, kind="category", reason=ONE_VALUE)
        return replace(column, kind="constant", reason=CONSTANT)


def count_columns(table: Table, frame: Any, /) -> list[ColumnCounts]:
    """Return the counts of a frame's rows for each column of a table."""
    given, found = read_frame(frame), []
    places = table.places(given, every=True)
    for k, column in enumerate(table.columns):
        with name_column_in_errors(column.name):
            found.append(ColumnCounts.count(column, read_column(given, places[k])))
    return found


def _find_missing(column: Column, values: Values) -> np.ndarray:
    """Return which rows (n,) are missing or cannot be read."""
    if column.kind in _NUMBER_KINDS:
        return np.isnan(values.as_numbers(column.unit, column.decimal))
    if column.kind == "date":
        return np.isnat(values.as_dates(column.day_first, column.zone))
    return values.missing


def _keep_frequent(levels: dict[str, int]) -> dict[str, int]:
    """Return the counts of the most frequent levels."""
    if len(levels) <= _MOST_COUNTED:
        return levels
    return {level: levels[level] for level in _most_frequent(levels, _MOST_COUNTED)}


def _most_frequent(levels: dict[str, int], at_most: int) -> tuple[str, ...]:
    """Return the levels, the most frequent first, ties by name."""
    chosen = heapq.nsmallest(at_most, levels.items(), key=lambda one: (-one[1], one[0]))
    return tuple(level for level, _ in chosen)


def infer_schema(
    X: Any, columns: Mapping[str, str] | None = None, everything: Collections | None = None, /
) -> Table | None:
    """Return the schema of a frame, or None for complete numeric data.

    Parameters
    ----------
    X : frame, array or list of rows
        All rows, or a sample of `everything` from which kinds are guessed. A NumPy array is a table
        if `columns` names some of its columns x0, x1, ...
    columns : mapping of str to str, optional
        Kinds of columns by name; others are guessed.
    everything : Collections, optional
        All rows, in which missing values and levels are counted.

    Raises
    ------
    TypeError, ValueError
        As `Table.learn`; if `columns` is given with an array of another library; if no column is
        usable; if a frame has no column or less than two rows; or if a partition is invalid.
    """
    if everything is not None:
        return _infer_from_partitions(everything, X, columns)
    if not is_frame(X):
        return _infer_from_rows(X, columns) if columns else None
    check_size(X.shape, _MIN_ROWS)
    if not columns and is_numeric(X):
        return None
    return check_usable(Table.learn(X, columns=columns))


def _infer_from_rows(X: Any, columns: Mapping[str, str]) -> Table:
    """Return the schema of an array or a list of rows, with columns x0, x1, ..."""
    if not isinstance(X, (np.ndarray, list, tuple)):
        _refuse_columns(type(X).__name__)
    table = replace(Table.learn(X, columns=columns), named=True)
    check_size((len(X), len(table.columns)), _MIN_ROWS)
    return check_usable(table)


def _refuse_columns(kind: str) -> NoReturn:
    msg = f"expected a frame or a NumPy array with columns=, got {kind}"
    raise TypeError(msg)


def _infer_from_partitions(
    everything: Collections, X: Any, columns: Mapping[str, str] | None
) -> Table | None:
    """Return the schema by a sample, with missing values and levels counted in all partitions."""
    if everything.names is None:
        if columns:
            _refuse_columns("data that is partitioned")
        return None
    if not columns and is_numeric(X) and _are_complete(everything):
        return None
    table = Table.learn(X, columns=columns, whole=False)
    counts = sum_partitions(everything, partial(_count_partition, table))
    learned = tuple(
        one.update_column(column) for one, column in zip(counts, table.columns, strict=True)
    )
    table = check_usable(replace(table, columns=learned))
    table.tell_of_empty()
    return table


def _are_complete(given: Collections) -> bool:
    """Whether numeric columns are complete in all partitions."""
    from dask import delayed

    return all(compute_values(*(delayed(is_numeric, pure=False)(X) for X in given.X)))


def _count_partition(table: Table, number: int, X: Any) -> list[ColumnCounts]:
    with name_partition_in_errors(number):
        return count_columns(table, X)


def sum_partitions(given: Collections, of: Any, /, *beside: Sequence[Any]) -> list[Any]:
    """Return the pairwise sums of lists ``of(number, X, *beside)`` over partitions."""
    from dask import delayed

    # `delayed` once: Dask would search the function's arguments for collections in every task
    work, numbered = delayed(of, pure=False), range(len(given.lengths))
    found = [
        work(*partition)
        for n, *partition in zip(given.lengths, numbered, given.X, *beside, strict=True)
        if n
    ]
    while len(found) > 1:
        pairs = [found[k : k + 2] for k in range(0, len(found), 2)]
        found = [delayed(_add_lists, pure=False)(*pair) if pair[1:] else pair[0] for pair in pairs]
    return list(compute_values(*found)[0])


def _add_lists(a: list[Any], b: list[Any]) -> list[Any]:
    return list(map(operator.add, a, b))


def check_usable(table: Table, /) -> Table:
    """Return the table; raise ValueError if it has no usable column."""
    if not table.coded:
        msg = f"expected at least one column to predict from, got none: {columns_text(table)}"
        raise ValueError(msg)
    return table


def columns_text(table: Table, /) -> str:
    """Return in words the number of columns of each kind, with reasons for doubtful kinds."""
    used = {one.source for one in table.coded}
    taken = [column for k, column in enumerate(table.columns) if k in used]
    kinds, said = Counter(column.kind for column in taken), []
    for kind, count in kinds.most_common():
        some = [_name_with_reason(one) for one in taken if one.kind == kind and _reason_text(one)]
        named = f": {listed(some, _MOST_NAMED)}" if some else ""
        said.append(f"{count} {_KIND_TEXTS[kind][count > 1]}{named}")
    left = [_name_with_reason(one) for k, one in enumerate(table.columns) if k not in used]
    if left:
        said.append(f"dropped: {listed(left)}")
    return "; ".join(said)


def _name_with_reason(column: Column) -> str:
    return f"{column.name} ({_reason_text(column) or column.reason})"


def _reason_text(column: Column) -> str:
    """Return why a column has its kind, or "" where the kind is certain."""
    if column.reason == DECLARED:
        return "as you asked"
    doubtful = column.kind in _DOUBTFUL_KINDS or "," in column.reason
    return column.reason if doubtful and column.reason not in _PLAIN_REASONS else ""


# -------------------------------------------------------------------------------- facts


_MOST_COLUMNS = 60  # listed in a report
_MOST_NAMED = 3  # levels of a category, or columns of a kind, that a text names
_KIND_TEXTS = {
    "numeric": ("number", "numbers"),
    "code": ("category of integers", "categories of integers"),
    "ordered": ("ordered category", "ordered categories"),
    "category": ("category", "categories"),
    "boolean": ("true or false", "true or false"),
    "date": ("date", "dates"),
    "duration": ("duration", "durations"),
    "text": ("text", "texts"),
}  # for one column and for several
_DOUBTFUL_KINDS = ("code", "text", "date", *DROPPED_KINDS)  # kinds that are often guesses
_PLAIN_REASONS = ("dates",)  # reasons that only repeat the kind
_RANGE_KINDS = ("numeric", "code", "ordered")  # kinds whose range and median are shown


def data_facts(
    table: Table | None,
    names: Sequence[str],
    rows: np.ndarray | None,
    /,
    *,
    target: np.ndarray | None = None,
    classes: Sequence[str] = (),
    targets: Sequence[str] = (),
    rows_are: str = "",
) -> DataFacts:
    """Return facts about the data of a fit, in detail for the first columns.

    `table` is None for complete numbers. `rows` (n, c) are these numbers or the table's codes; None
    if they are not kept. `target` (n, t) holds numbers, or indicators of `classes`. `rows_are`
    describes the rows if they are a part of the fit's.
    """
    ranges = {} if rows is None else _range_texts(table, rows)
    columns = tuple(
        ColumnFacts(name, "number", 0.0, ranges.get(k, ""))
        if table is None
        else _describe_column(table.columns[k], ranges.get(k, ""))
        for k, name in enumerate(names[:_MOST_COLUMNS])
    )
    said = "" if target is None else _describe_target(target, classes, targets)
    return DataFacts(columns, len(names), said + (f" ({rows_are})" if said and rows_are else ""))


def _describe_column(column: Column, ends: str) -> ColumnFacts:
    if not column.is_used:
        why = _reason_text(column)
        return ColumnFacts(column.name, "dropped", column.missing, reason=why, is_used=False)
    kind, said = _KIND_TEXTS[column.kind][0], ends if column.kind in _RANGE_KINDS else ""
    if column.levels:
        kind = f"{kind}, {count_text(len(column.levels), 'level')}"
        said = listed(column.levels, _MOST_NAMED)
    return ColumnFacts(column.name, kind, column.missing, said, _reason_text(column))


def _range_texts(table: Table | None, rows: np.ndarray) -> dict[int, str]:
    """Return the ranges and medians of numeric columns in words, by index."""
    if table is None:
        return {k: _range_text(rows[:, k]) for k in range(min(rows.shape[1], _MOST_COLUMNS))}
    first: dict[int, int] = {}
    for at, one in enumerate(table.coded):
        if not one.levels and one.source < _MOST_COLUMNS:
            first.setdefault(one.source, at)
    return {source: _range_text(rows[:, at]) for source, at in first.items()}


def _range_text(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return ""
    return f"{known.min():.4g} to {known.max():.4g}, median {np.median(known):.4g}"


def _describe_target(target: np.ndarray, classes: Sequence[str], targets: Sequence[str]) -> str:
    """Return shares of classes, or range, mean and deviation of numbers, in words."""
    if classes:
        pairs = zip(classes, target.mean(axis=0), strict=True)
        return listed((f"{name} {share:.1%}" for name, share in pairs), 2 * _MOST_NAMED)
    some = target.T[:_MOST_NAMED]
    said = [f"{_range_text(y)}, mean {y.mean():.4g}, sd {y.std():.4g}" for y in some]
    if len(targets) > 1:
        said = [f"{name}: {ends}" for name, ends in zip(targets, said, strict=False)]
    left = target.shape[1] - _MOST_NAMED
    return "; ".join(said) + (f"; and {left} more targets" if left > 0 else "")
