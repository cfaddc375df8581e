"""A single row of a table as a service has it: a dict of Python's values.

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
from gpukfl.runtime._columns import values_of
from gpukfl.tables import Table
from gpukfl.tables._codes import Coder
from gpukfl.tables._frame import told_of

# Equal values of one type, in one time zone, have the same codes
_KEPT = (str, int, float, date, time, timedelta, type(None))
_MOST, _LONGEST = 2**12, 200  # values that are kept, and characters of one


class OneRow:
    """Codes of a row, as `Table.codes` gives them of many.

    Parameters
    ----------
    table : Table
        What its columns are.
    target : str
        A column that rows may have besides.
    """

    def __init__(self, table: Table, target: str, /) -> None:
        self._table = table
        self._used = {column.name for column in table.columns if column.used}
        self._known = {target, *(column.name for column in table.columns)}
        self._seen: dict[Any, tuple[list[float], list[str]]] = {}

    def __call__(self, X: Any, /) -> np.ndarray | None:
        """Give codes (1, c) of a list of one dict; None where only a whole table tells more."""
        if not (self._table.named and isinstance(X, (list, tuple)) and len(X) == 1):
            return None
        row = X[0]
        if not (isinstance(row, dict) and self._used <= row.keys() <= self._known):
            return None
        codes = self._table.with_times(lambda _, coder: self._codes(coder, row[coder.column.name]))
        return np.array([list(codes)])

    def _codes(self, coder: Coder, value: Any) -> Sequence[float]:
        if isinstance(value, float):
            if coder.keeps_numbers:
                return (value if math.isfinite(value) else math.nan,)
            value = None if math.isnan(value) else value
        codes, told = self._known_of(coder, value)
        for message in told:
            warn(message)
        return codes

    def _known_of(self, coder: Coder, value: Any) -> tuple[list[float], list[str]]:
        """Look a value up, or code it and keep what was found."""
        if not isinstance(value, _KEPT) or (isinstance(value, str) and len(value) > _LONGEST):
            return _coded(coder, value)
        key = coder.column.name, type(value), value, getattr(value, "tzinfo", None)
        found = self._seen.get(key)
        if found is None:
            found = _coded(coder, value)
            if len(self._seen) >= _MOST:
                self._seen.clear()
            self._seen[key] = found
        return found


def _coded(coder: Coder, value: Any) -> tuple[list[float], list[str]]:
    """Give the codes of a column of one value, and what is warned of."""
    with collected() as told:
        with told_of(coder.column.name):
            values = values_of([value])
        return [float(codes[0]) for codes in coder(iter([values]), 1)], told
