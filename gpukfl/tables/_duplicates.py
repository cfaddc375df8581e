"""Columns that say the same as one before them."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

from gpukfl.tables._column import Column
from gpukfl.tables._values import Values

_PARTITIONS = ("category", "boolean", "code")  # kinds that tell rows apart, by whatever names


class Duplicates:
    """Finds columns that repeat earlier ones.

    Numbers and dates repeat equal ones; levels repeat what tells the same rows apart, by whatever
    names.
    """

    def __init__(self) -> None:
        self._first: dict[bytes, str] = {}

    def first_of(self, column: Column, values: Values, /) -> str:
        """Give the name of the first column that says the same: its own if none came before."""
        told = self._first.setdefault(_digest(column, values), column.name)
        if column.kind == "code":  # says more than its levels do
            self._first.setdefault(_partition(values), column.name)
        return told


def _digest(column: Column, values: Values) -> bytes:
    if column.kind in ("category", "boolean"):
        return _partition(values)
    if column.kind in ("numeric", "code"):
        numerals = values.as_numerals(column.unit, column.decimal)
        if numerals.exact is not None:  # whole numbers that float64 does not tell apart
            named = numerals.as_labels()
            return _hashed(named.data, column.kind, *named.labels)
    words = values.as_labels().labels if column.kind == "text" else column.levels
    told = words if column.kind in ("ordered", "text") else ()
    return _hashed(_meant(column, values), column.kind, *told)


def _meant(column: Column, values: Values) -> np.ndarray:
    """Give what a column says (n,), however it is written."""
    if column.kind in ("ordered", "text"):
        return values.as_labels().data
    if column.kind == "date":
        return values.as_dates(column.day_first, column.zone)
    found = values.as_numbers(column.unit, column.decimal) + 0.0
    found[np.isnan(found)] = np.nan  # of zeros and gaps one sort each
    return found


def _partition(values: Values) -> bytes:
    """Hash which rows are alike, numbered as they come."""
    import pandas as pd

    data = np.where(values.missing, -1, pd.factorize(values.as_labels().data)[0])
    return _hashed(data.astype(np.int64, copy=False), "levels")


def _hashed(data: np.ndarray, *words: str) -> bytes:
    digest = blake2b(np.ascontiguousarray(data).view(np.uint8).data, digest_size=16)
    for word in words:  # one text of all of them would take as much memory again
        digest.update(word.encode() + b"\0")
    return digest.digest()
