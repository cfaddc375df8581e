"""The parameter `monotone`: in which columns predictions rise or fall."""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gpukfl.core._array import Array, lies_in_parts, to_host
from gpukfl.core._checks import suggest
from gpukfl.core._frames import as_frame, is_frame, is_numeric, listed
from gpukfl.predictor import MOST_COLUMNS, Monotone
from gpukfl.tables._table import Table

MONOTONE = """    monotone : dict of str or int to int, sequence of int, or None, default=None
        Columns in which predictions never fall (1) or never rise (-1), by name or by number, or a
        sign of -1, 0 or 1 for each column. It holds exactly, for all values of the other columns:
        see `gpukfl.fit`. For two classes, the probability of the second rises or falls.
"""  # of the docstrings' parameters
# Kinds whose values have an order, dropped columns included
_NUMBERS = ("numeric", "boolean", "ordered", "duration", "constant", "empty", "duplicate")
_SIGNS = (-1, 0, 1)
_WANT = "expected monotone to map columns to -1, 0 or 1, or to be a sequence of these"


def check_monotone(given: Any, /) -> None:
    """Raise TypeError or ValueError unless `monotone` is valid for some columns."""
    if given is None:
        return
    is_sequence = isinstance(given, (Sequence, np.ndarray)) and not isinstance(given, str)
    if not (isinstance(given, Mapping) or is_sequence):
        msg = f"{_WANT}, got {given!r}"
        raise TypeError(msg)
    signs = list(given.values() if isinstance(given, Mapping) else np.ravel(given).tolist())
    for sign in signs:
        if isinstance(sign, (bool, np.bool_)) or sign not in _SIGNS:
            msg = f"{_WANT}, got {sign!r}"
            raise ValueError(msg)
    if sum(map(bool, signs)) > MOST_COLUMNS:
        msg = f"expected at most {MOST_COLUMNS} monotone columns, got {sum(map(bool, signs))}"
        raise ValueError(msg)


def read_signs(
    given: Any, names: Sequence[str], numeric: Sequence[bool] | None = None, /
) -> dict[int, int]:
    """Return the signs -1 or 1 by column index, from the names of all columns.

    Raises ValueError if a column is unknown, is named twice, or is not numeric.
    """
    check_monotone(given)
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        signs = np.ravel(given).tolist()
        if len(signs) != len(names):
            msg = f"expected {len(names)} monotone signs, one for each column, got {len(signs)}"
            raise ValueError(msg)
        given = dict(enumerate(signs))
    found: dict[int, int] = {}
    for name, sign in given.items():
        place = _find_column(name, names)
        if place in found:
            msg = f"expected each monotone column once, got {names[place]!r} twice"
            raise ValueError(msg)
        found[place] = int(sign)
    signed = {place: sign for place, sign in found.items() if sign}
    for place in signed:
        if numeric is not None and not numeric[place]:
            msg = f"expected only numeric columns in monotone, got {names[place]!r}"
            raise ValueError(msg)
    return signed


def read_table_signs(given: Any, table: Table, /) -> dict[int, int]:
    """Return the signs -1 or 1 by column of codes, from the parameter `monotone`.

    Raises TypeError, ValueError as `read_signs`. Dropped columns have no codes.
    """
    if given is None:
        return {}
    names = [column.name for column in table.columns]
    plain = {one.source for one in table.coded if not (one.levels or one.period)}
    numeric = [
        column.kind in _NUMBERS and (not column.is_used or k in plain)
        for k, column in enumerate(table.columns)
    ]
    signs = read_signs(given, names, numeric)
    return {k: signs[one.source] for k, one in enumerate(table.coded) if one.source in signs}


def declare_monotone_numeric(
    columns: Mapping[str, str] | None, given: Any, X: Any, /
) -> Mapping[str, str] | None:
    """Return `columns`, with monotone columns of numbers declared numeric.

    Otherwise integers of few values would be codes, whose levels have no order.
    """
    if given is None or not is_frame(X) or is_numeric(X):
        return columns
    frame = as_frame(X)
    signs = read_signs(given, [str(name) for name in frame.columns])
    plain = {str(frame.columns[k]): "numeric" for k in signs if frame.dtypes.iloc[k].kind in "iuf"}
    return plain | dict(columns or {}) if plain else columns


def _find_column(name: Any, names: Sequence[str]) -> int:
    if isinstance(name, str) and name in names:
        return list(names).index(name)
    if isinstance(name, str) and name.isdecimal():  # numbers are text in files
        name = int(name)
    whole = isinstance(name, numbers.Integral) and not isinstance(name, bool)
    if whole and 0 <= int(name) < len(names):
        return int(name)
    msg = f"expected monotone columns among {listed(names)}, got {name!r}{suggest(name, names)}"
    raise ValueError(msg)


def check_classes(count: int, signs: Mapping[int, int], /) -> None:
    """Raise ValueError for monotone columns with more than two classes."""
    if signs and count > 2:
        msg = f"expected at most two classes with monotone columns, got {count}"
        raise ValueError(msg)


def learn_monotone(
    X: Array, weights: np.ndarray | None, signs: Mapping[int, int], /
) -> Monotone | None:
    """Return the monotone projection for rows like X (n, d); None if no column has a sign.

    Raises ValueError if the rows are partitioned.
    """
    if not signs:
        return None
    if lies_in_parts(X):
        msg = "expected data in memory with monotone columns, got partitioned data"
        raise ValueError(msg)
    host = to_host(X)
    return Monotone.learn(host if weights is None else host[weights > 0], signs)
