"""What the columns of data are, by counts of all rows, and what reports say of them."""

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
from gpukfl.partitioned import Collections, compute_values, name_partition_in_errors
from gpukfl.tables import _values
from gpukfl.tables._codes import share_of_single
from gpukfl.tables._column import LEVELLED, Column
from gpukfl.tables._frame import frame_of, read_column, told_of
from gpukfl.tables._guess import CONSTANT, MOST_LEVELS, ONE_VALUE, in_their_order
from gpukfl.tables._table import Table
from gpukfl.tables._values import Values

# ------------------------------------------------------------------------------- schema


_KEPT = 4 * MOST_LEVELS  # of a column; up to so many are counted exactly
_NUMBERS = ("numeric", "code", "boolean", "duration")  # kinds whose gaps are what is no number
_COUNTED = (*LEVELLED, "ordered", "constant", "empty")
_RARE = "other values are rare"
_VARIED = {  # what a column is whose value in the rows that were looked at is not the only one
    _values.NUMBERS: "numeric",
    _values.BOOLEANS: "boolean",
    _values.DATES: "date",
    _values.DURATIONS: "duration",
    _values.LABELS: "category",
}
_FEWEST = 2  # rows of a fit


@dataclass(frozen=True)
class ColumnCounts:
    """Of the rows of a column.

    Attributes
    ----------
    rows, missing : int
        How many there are, and how many have no value.
    levels : dict of str to int
        How many have each level, of the most frequent ones where these are very many.
    form : str
        Of the first values, as of `Values`; empty where there are none.
    """

    rows: int
    missing: int
    levels: dict[str, int]
    form: str

    @classmethod
    def of(cls, column: Column, values: Values, /) -> ColumnCounts:
        """Count."""
        missing, levels = _gaps(column, values), dict[str, int]()
        if column.kind in _COUNTED:
            if column.kind == "code":
                values = values.as_numerals(column.unit, column.decimal)
            levels = values.counts()
        form = "" if missing.all() else values.form
        return cls(len(missing), int(np.count_nonzero(missing)), _few(levels), form)

    def __add__(self, other: ColumnCounts, /) -> ColumnCounts:
        levels = dict(Counter(self.levels) + Counter(other.levels))
        return ColumnCounts(
            self.rows + other.rows,
            self.missing + other.missing,
            _few(levels),
            self.form or other.form,
        )

    def told(self, column: Column, /) -> Column:
        """Return what a column is, of which some rows have said it, by the counts of all."""
        column = replace(column, missing=self.missing / self.rows)
        if column.kind in ("constant", "empty") or column.reason == ONE_VALUE:
            column = self._varied(column)
        if column.kind in LEVELLED:
            rare = share_of_single(self.levels.values())
            return replace(column, levels=_most(self.levels, MOST_LEVELS), rare=rare)
        if column.kind == "ordered" and not self.levels.keys() <= set(column.levels):
            return replace(column, levels=in_their_order(_most(self.levels, MOST_LEVELS)))
        return column

    def _varied(self, column: Column) -> Column:
        """Return what a column is that seemed to have one value, or none."""
        if len(self.levels) > 1:
            return replace(column, kind=_VARIED[self.form], reason=_RARE, levels=())
        if not self.levels:
            return column
        if self.missing:
            return replace(column, kind="category", reason=ONE_VALUE)
        return replace(column, kind="constant", reason=CONSTANT)


def counts_of(table: Table, frame: Any, /) -> list[ColumnCounts]:
    """Count the rows of a frame: for each column of the table that was learned on some rows."""
    given, found = frame_of(frame), []
    places = table.places(given, every=True)
    for k, column in enumerate(table.columns):
        with told_of(column.name):
            found.append(ColumnCounts.of(column, read_column(given, places[k])))
    return found


def _gaps(column: Column, values: Values) -> np.ndarray:
    """Which rows (n,) have no value, also by what cannot be read."""
    if column.kind in _NUMBERS:
        return np.isnan(values.as_numbers(column.unit, column.decimal))
    if column.kind == "date":
        return np.isnat(values.as_dates(column.day_first, column.zone))
    return values.missing


def _few(levels: dict[str, int]) -> dict[str, int]:
    """Keep the most frequent ones."""
    return levels if len(levels) <= _KEPT else {k: levels[k] for k in _most(levels, _KEPT)}


def _most(levels: dict[str, int], at_most: int) -> tuple[str, ...]:
    """Return levels, the most frequent first, ties by name."""
    chosen = heapq.nsmallest(at_most, levels.items(), key=lambda one: (-one[1], one[0]))
    return tuple(level for level, _ in chosen)


def infer_schema(
    X: Any, columns: Mapping[str, str] | None = None, everything: Collections | None = None, /
) -> Table | None:
    """Return what the columns of a frame are; None of arrays, and of complete columns of numbers.

    Parameters
    ----------
    X : frame, array or list of rows
        All rows, or some of `everything`, which say of what kind columns are. Arrays of NumPy are
        tables where `columns` names some of theirs, x0, x1, ...
    columns : mapping of str to str, optional
        Kinds of columns, by name, where they are not to be guessed.
    everything : Collections, optional
        All rows, by which gaps and levels are counted.

    Raises
    ------
    TypeError, ValueError
        As `Table.of`, if `columns` says something of an array of another library, or no column is
        of use; where a whole frame has no column, or less than two rows; and if a partition does
        not hold what it should.
    """
    if everything is not None:
        return _of_everything(everything, X, columns)
    if not is_frame(X):
        return _of_rows(X, columns) if columns else None
    check_size(X.shape, _FEWEST)
    if not columns and is_numeric(X):
        return None
    return of_use(Table.of(X, columns=columns))


def _of_rows(X: Any, columns: Mapping[str, str]) -> Table:
    """Return what the columns x0, x1, ... of an array or a list of rows are."""
    if not isinstance(X, (np.ndarray, list, tuple)):
        _refuse_columns(type(X).__name__)
    table = replace(Table.of(X, columns=columns), named=True)
    check_size((len(X), len(table.columns)), _FEWEST)
    return of_use(table)


def _refuse_columns(kind: str) -> NoReturn:
    msg = f"expected a frame, or an array of NumPy, where columns are named, got {kind}"
    raise TypeError(msg)


def _of_everything(
    everything: Collections, X: Any, columns: Mapping[str, str] | None
) -> Table | None:
    """Return what columns are by some rows, and count their gaps and levels in all."""
    if everything.names is None:
        if columns:
            _refuse_columns("one in parts")
        return None
    if not columns and is_numeric(X) and _are_complete(everything):
        return None
    table = Table.of(X, columns=columns, whole=False)
    counts = sum_partitions(everything, partial(_counts_in, table))
    told = tuple(one.told(column) for one, column in zip(counts, table.columns, strict=True))
    table = of_use(replace(table, columns=told))
    table.tell_of_empty()
    return table


def _are_complete(given: Collections) -> bool:
    """Whether columns of numbers have no gap in any partition."""
    from dask import delayed

    return all(compute_values(*(delayed(is_numeric, pure=False)(X) for X in given.X)))


def _counts_in(table: Table, number: int, X: Any) -> list[ColumnCounts]:
    with name_partition_in_errors(number):
        return counts_of(table, X)


def sum_partitions(given: Collections, of: Any, /, *beside: Sequence[Any]) -> list[Any]:
    """Add up lists ``of(number, X, *beside)`` of all partitions, two by two."""
    from dask import delayed

    # One object of the graph: arguments would be looked through for collections in every task
    work, numbered = delayed(of, pure=False), range(len(given.lengths))
    found = [
        work(*partition)
        for n, *partition in zip(given.lengths, numbered, given.X, *beside, strict=True)
        if n
    ]
    while len(found) > 1:
        pairs = [found[k : k + 2] for k in range(0, len(found), 2)]
        found = [delayed(_added, pure=False)(*pair) if pair[1:] else pair[0] for pair in pairs]
    return list(compute_values(*found)[0])


def _added(a: list[Any], b: list[Any]) -> list[Any]:
    return list(map(operator.add, a, b))


def of_use(table: Table, /) -> Table:
    """Return a table; raise ValueError if nothing can be predicted by it."""
    if not table.coded:
        msg = f"expected a column to predict by, got none: {columns_text(table)}"
        raise ValueError(msg)
    return table


def columns_text(table: Table, /) -> str:
    """Say what columns were taken for: how many of each kind, and why some are left out."""
    used = {one.source for one in table.coded}
    kinds = Counter(column.kind for k, column in enumerate(table.columns) if k in used)
    said = [f"{count} {kind}" for kind, count in kinds.most_common()]
    left = [f"{one.name} ({one.reason})" for k, one in enumerate(table.columns) if k not in used]
    if left:
        said.append(f"left out {listed(left)}")
    return ", ".join(said)


# -------------------------------------------------------------------------------- facts


_SHOWN = 60  # columns that a report lists
_LEVELS = 3  # of a category that are named
_WITH_ENDS = ("numeric", "code", "ordered")  # kinds of which ends and middles say something


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
    """Return what is known of the data of a fit, of the first columns in detail.

    There is no table of complete numbers. Rows (n, c) are numbers, or the codes of the table, if
    they are kept. Targets (n, t) are numbers, or indicators of `classes`. `rows_are` says which
    rows of the fit these are, where they are not all.
    """
    ranges = {} if rows is None else _ranges(table, rows)
    columns = tuple(
        ColumnFacts(name, "numeric", 0.0, ranges.get(k, ""))
        if table is None
        else _of_column(table.columns[k], ranges.get(k, ""))
        for k, name in enumerate(names[:_SHOWN])
    )
    said = "" if target is None else _of_target(target, classes, targets)
    return DataFacts(columns, len(names), said + (f" ({rows_are})" if said and rows_are else ""))


def _of_column(column: Column, ends: str) -> ColumnFacts:
    said = ends if column.kind in _WITH_ENDS and not column.levels else ""
    if column.levels:
        said = f"{len(column.levels)} levels: {listed(column.levels, _LEVELS)}"
    if not column.used:
        said = f"left out: {column.reason}"
    return ColumnFacts(column.name, column.kind, column.missing, said or column.reason)


def _ranges(table: Table | None, rows: np.ndarray) -> dict[int, str]:
    """Say ends and middles of columns of numbers, by their places."""
    if table is None:
        return {k: _range(rows[:, k]) for k in range(min(rows.shape[1], _SHOWN))}
    first: dict[int, int] = {}
    for at, one in enumerate(table.coded):
        if not one.levels and one.source < _SHOWN:
            first.setdefault(one.source, at)
    return {source: _range(rows[:, at]) for source, at in first.items()}


def _range(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return ""
    return f"{known.min():.4g} to {known.max():.4g}, median {np.median(known):.4g}"


def _of_target(target: np.ndarray, classes: Sequence[str], targets: Sequence[str]) -> str:
    """Shares of classes, or ends, mean and spread of numbers."""
    if classes:
        pairs = zip(classes, target.mean(axis=0), strict=True)
        return listed((f"{name} {share:.1%}" for name, share in pairs), 2 * _LEVELS)
    said = [f"{_range(y)}, mean {y.mean():.4g}, sd {y.std():.4g}" for y in target.T[:_LEVELS]]
    if len(targets) > 1:
        said = [f"{name}: {ends}" for name, ends in zip(targets, said, strict=False)]
    left = target.shape[1] - _LEVELS
    return "; ".join(said) + (f"; and {left} more targets" if left > 0 else "")
