"""What all rows of a table say of its columns: counts, which blocks of rows add up to."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpukfl.tables import _values
from gpukfl.tables._column import LEVELLED, Column
from gpukfl.tables._frame import frame_of, read_column, told_of
from gpukfl.tables._guess import CONSTANT, MOST_LEVELS, ONE_VALUE, in_their_order
from gpukfl.tables._levels import share_of_single
from gpukfl.tables._table import Table
from gpukfl.tables._values import Values

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
        """Give what a column is, of which some rows have said it, by the counts of all."""
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
        """Say what a column is that seemed to have one value, or none."""
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
    """Give levels, the most frequent first, ties by name."""
    chosen = heapq.nsmallest(at_most, levels.items(), key=lambda one: (-one[1], one[0]))
    return tuple(level for level, _ in chosen)
