"""A sample of the rows of a fit, by column, for comparison with later rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np

from gpukfl.core._annotations import Count, Doubles
from gpukfl.core._array import is_array, to_host
from gpukfl.core._frames import as_frame, is_frame
from gpukfl.tables._column import Column
from gpukfl.tables._dates import days_since
from gpukfl.tables._frame import name_column_in_errors, read_column, read_frame
from gpukfl.tables._table import Table
from gpukfl.tables._training import count_rows, take_rows
from gpukfl.tables._values import BOOLEANS, DATES, DURATIONS, LABELS, NUMBERS, Values

NUMBER, DATE, LEVEL = "number", "date", "level"
_MOST_ROWS, _LEAST_ROWS, _MOST_VALUES = 1_000, 100, 200_000  # of a sample
_LETTERS = 60  # longer levels are cut
_SORT_OF_KIND = {
    "numeric": NUMBER,
    "boolean": NUMBER,
    "duration": NUMBER,
    "date": DATE,
    "code": LEVEL,
    "category": LEVEL,
    "ordered": LEVEL,
    "text": LEVEL,
}
_SORT_OF_FORM = {NUMBERS: NUMBER, BOOLEANS: NUMBER, DURATIONS: NUMBER, DATES: DATE, LABELS: LEVEL}


@dataclass(frozen=True, eq=False)
class ColumnSample:
    """Values of a column.

    Attributes
    ----------
    name : str
        As in the frame.
    sort : str
        "number", "date" or "level".
    values : host array, shape (n,)
        Numbers, days since 1970, or indices of levels; NaN if missing.
    levels : tuple of str
        The levels of the indices.
    """

    name: str
    sort: str
    values: Annotated[np.ndarray, Doubles("n", any_value=True)]
    levels: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise ValueError for an unknown sort or indices out of range."""
        known = self.values[np.isfinite(self.values)]
        if self.sort not in (NUMBER, DATE, LEVEL):
            msg = f"expected a sample of numbers, dates or levels, got {self.sort}"
            raise ValueError(msg)
        if (
            self.sort == LEVEL
            and len(known)
            and not 0 <= known.min() <= known.max() < len(self.levels)
        ):
            msg = f"expected indices of {len(self.levels)} levels in the sample of {self.name}"
            raise ValueError(msg)


@dataclass(frozen=True, eq=False)
class Reference:
    """A sample of rows.

    Attributes
    ----------
    columns : tuple of ColumnSample
        One for each column of the fit.
    n_rows : int
        Number of rows from which the sample was drawn.
    """

    columns: tuple[ColumnSample, ...]
    n_rows: Annotated[int, Count()]

    @classmethod
    def draw(cls, X: Any, table: Table | None, names: Sequence[str], /) -> Self:
        """Draw at most 1000 rows, fewer of very many columns.

        Parameters
        ----------
        X : array, frame or list
            Rows.
        table : Table or None
            Their schema; None for numbers.
        names : sequence of str
            Names of the columns.
        """
        n = count_rows(X)
        rows = draw_rows(n, max(min(_MOST_ROWS, _MOST_VALUES // max(len(names), 1)), _LEAST_ROWS))
        return cls(tuple(read_samples(take_some(X, rows), table, names)), n)


def draw_rows(n: int, at_most: int, /) -> np.ndarray:
    """Return indices of at most so many of n rows, ascending and the same at each call."""
    if n <= at_most:
        return np.arange(n)
    return np.sort(np.random.RandomState(0).choice(n, at_most, replace=False))


def take_some(X: Any, rows: np.ndarray, /) -> Any:
    """Return some rows of data of any kind, also of pyarrow."""
    return X.take(rows) if type(X).__module__.startswith("pyarrow") else take_rows(X, rows)


def read_samples(
    X: Any,
    table: Table | None,
    names: Sequence[str],
    /,
    *,
    known: Reference | None = None,
    target: str = "",
) -> Iterator[ColumnSample]:
    """Yield the values of each column of rows, of the sorts of a `known` sample.

    Raises
    ------
    TypeError, ValueError
        If columns are missing, or cannot be read.
    """
    sorts = [None] * len(names) if known is None else [one.sort for one in known.columns]
    if table is None:
        for name, values in zip(names, _read_numbers(X, names).T, strict=True):
            yield ColumnSample(str(name), NUMBER, np.where(np.isfinite(values), values, np.nan))
        return
    frame = read_frame(X, besides=target, known=[column.name for column in table.columns])
    places = table.places(frame, every=True)
    for k, (column, sort) in enumerate(zip(table.columns, sorts, strict=True)):
        with name_column_in_errors(column.name):
            yield _read_sample(column, read_column(frame, places[k]), sort)


def _read_numbers(X: Any, names: Sequence[str]) -> np.ndarray:
    if is_frame(X):
        X = as_frame(X)
        X = X if all(name in names for name in map(str, X.columns)) else X[list(names)]
        X = X.to_numpy()
    host = np.asarray(to_host(X) if is_array(X) else X, dtype=np.float64)
    if host.ndim != 2 or host.shape[1] != len(names):
        msg = f"expected rows of {len(names)} columns, got {host.shape}"
        raise ValueError(msg)
    return host


def _read_sample(column: Column, values: Values, sort: str | None) -> ColumnSample:
    sort = sort or _SORT_OF_KIND.get(column.kind) or _SORT_OF_FORM[values.form]
    if sort == NUMBER:
        return ColumnSample(column.name, sort, values.as_numbers(column.unit, column.decimal))
    if sort == DATE:
        days = days_since(values.as_dates(column.day_first, column.zone))
        return ColumnSample(column.name, sort, np.asarray(days, dtype=np.float64))
    if column.kind == "code":
        values = values.as_numerals(column.unit, column.decimal)
    named = values.as_labels()
    index = np.asarray(named.data)
    used, places = np.unique(index[index >= 0], return_inverse=True)
    found = np.full(len(index), np.nan)
    found[index >= 0] = places
    levels = tuple(str(named.labels[k])[:_LETTERS] for k in used.tolist())
    return ColumnSample(column.name, sort, found, levels)
