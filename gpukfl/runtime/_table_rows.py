"""Rows of a table as codes, of which services ask for a single one: a dict of Python's values.

A column of one value takes as many steps as one of thousands. What becomes of a value is kept for
the next row that has it, unless it is a number that is its own code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from gpukfl._warnings import collected, warn
from gpukfl.runtime._columns import frame_of, values_of
from gpukfl.tables import Table
from gpukfl.tables._codes import Coder
from gpukfl.tables._frame import told_of

# Of which equal values of one type have the same codes
_KEPT = (str, int, float, date, time, timedelta, type(None))
_MOST, _LONGEST = 2**12, 200  # values that are kept, and characters of one


class TableRows:
    """What makes codes of rows.

    Parameters
    ----------
    table : Table
        What its columns are.
    target : str
        A column that rows may have besides.
    """

    def __init__(self, table: Table, target: str, /) -> None:
        self._table, self._target = table, target
        self._names = {column.name for column in table.columns}
        self._used = {column.name for column in table.columns if column.used}
        self._seen: dict[Any, tuple[list[float], list[str]]] = {}

    def __call__(self, X: Any, /) -> np.ndarray:
        """Give codes (n, c)."""
        if not self._is_plain_row(X):
            return self._table.codes(frame_of(X, self._target, self._names))
        row = X[0]
        codes = self._table.with_times(lambda _, coder: self._codes(coder, row[coder.column.name]))
        return np.array([list(codes)], dtype=np.float64)

    def _is_plain_row(self, X: Any) -> bool:
        """Whether it is a list of one dict, of which there is nothing to say."""
        if not (self._table.named and isinstance(X, (list, tuple)) and len(X) == 1):
            return False
        row = X[0]
        if not (isinstance(row, dict) and self._used <= row.keys()):
            return False
        return row.keys() <= self._names or row.keys() - self._names == {self._target}

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
    """Give the codes of a column of one value, and what is warned of."""
    with collected() as told:
        with told_of(coder.column.name):
            values = values_of([value])
        return [float(codes[0]) for codes in coder(iter([values]), 1)], told
