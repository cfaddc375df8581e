"""Rows that services ask for one at a time, a dict of Python's values, as codes of a table.

A column of one value takes as many steps as one of thousands. What becomes of a value is kept for
the next row that has it, unless it is a number that is its own code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from gpukfl._columns import parts_of_name
from gpukfl._warnings import collected, warn
from gpukfl.tables._codes import Coder
from gpukfl.tables._column import Column
from gpukfl.tables._frame import told_of
from gpukfl.tables._reading import read_objects

# What calls a function for each column that is used, and gives its codes and times between dates
WithTimes = Callable[[Callable[[int, Coder], Sequence[float]]], Iterable[Any]]
# Of which equal values of one type have the same codes
_KEPT = (str, int, float, date, time, timedelta, type(None))
_MOST, _LONGEST = 2**12, 200  # values that are kept, and characters of one


class RowCoder:
    """Codes one row of a table.

    Parameters
    ----------
    columns : sequence of Column
        Of the table.
    named : bool
        Whether it has names; rows of one without are not taken.
    with_times : callable
        `Table.with_times`.
    """

    def __init__(self, columns: Sequence[Column], named: bool, with_times: WithTimes, /) -> None:
        self._named, self._with_times = named, with_times
        self._names = {column.name for column in columns}
        self._used = {column.name for column in columns if column.used}
        self._seen: dict[Any, tuple[list[float], list[str]]] = {}

    def takes(self, X: Any, besides: str, /) -> bool:
        """Whether `X` is a list of one dict, of which there is nothing to say."""
        if not (self._named and isinstance(X, (list, tuple)) and len(X) == 1):
            return False
        row = X[0]
        if not (isinstance(row, dict) and self._used <= row.keys()):
            return False
        return row.keys() <= self._names or row.keys() - self._names <= parts_of_name(besides)

    def __call__(self, row: Mapping[str, Any], /) -> np.ndarray:
        """Return the codes (1, c) of a row."""
        codes = self._with_times(lambda _, coder: self._codes(coder, row[coder.column.name]))
        return np.array([list(codes)], dtype=np.float64)

    def _codes(self, coder: Coder, value: Any) -> Sequence[float]:
        if isinstance(value, (int, float)):
            if coder.keeps_numbers:
                return (value if math.isfinite(value) else math.nan,)
            value = None if math.isnan(value) else value
        codes, told = self._kept(coder, value) if _is_kept(value) else _coded(coder, value)
        for message in told:
            warn(message)
        return codes

    def _kept(self, coder: Coder, value: Any) -> tuple[list[float], list[str]]:
        """Look a value up, or code it and keep what was found."""
        key = coder.column.name, type(value), value
        found = self._seen.get(key)
        if found is None:
            found = _coded(coder, value)
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen[key] = found
        return found


def _is_kept(value: Any) -> bool:
    """Whether a value may be kept; those of several time zones are equal, and not their codes."""
    if not isinstance(value, _KEPT) or getattr(value, "tzinfo", None) is not None:
        return False
    return not isinstance(value, str) or len(value) <= _LONGEST


def _coded(coder: Coder, value: Any) -> tuple[list[float], list[str]]:
    """Return the codes of a column of one value, and what is warned of."""
    with collected() as told:
        with told_of(coder.column.name):
            values = read_objects([value])
        return [float(codes[0]) for codes in coder(iter([values]), 1)], told
