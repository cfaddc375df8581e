"""Rows of a table as columns with names, read with NumPy alone whatever holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from gpukfl._columns import (
    WHOLE,
    NotANumberError,
    array_of,
    check_in_memory,
    check_no_series,
    is_gap,
    numbers_in,
)
from gpukfl.tables._frame import Frame
from gpukfl.tables._moments import as_moments
from gpukfl.tables._numerals import mixed_note, text_of
from gpukfl.tables._values import (
    BOOLEANS,
    DATES,
    DURATIONS,
    LABELS,
    Values,
    durations,
    durations_of_objects,
    labelled,
    moments_and_zones,
    moments_of_objects,
    numbers_of_objects,
    seconds_of,
    texts,
)
from gpukfl.tables._values import numbers as of_numbers
from gpukfl.tables._zones import known_zone

_SORTS: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("text", (str,)),
    ("boolean", (bool, np.bool_)),
    ("duration", (timedelta, np.timedelta64)),  # which NumPy counts among integers
    ("number", (int, float, np.integer, np.floating)),
    ("decimal", (Decimal,)),
    ("date", (datetime, date, np.datetime64)),
    ("time", (time,)),
    ("complex", (complex, np.complexfloating)),
)


def is_named(X: Any, /) -> bool:
    """Whether rows are a dict of columns, dicts, or a structured array."""
    if isinstance(X, Mapping):
        return True
    if isinstance(X, np.ndarray):
        return X.dtype.names is not None
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(x, Mapping) for x in X)


def frame_of(X: Any, target: str, known: Iterable[str], /, *, plain: bool = False) -> Frame:
    """Take rows apart; the target may be among their columns, which may all be `plain` numbers.

    Raises
    ------
    TypeError, ValueError
        If they are no table in memory, or columns have one name or different lengths.
    """
    check_in_memory(X)
    check_no_series(X)
    columns, named = _columns_of(X)
    twice = [name for name, count in Counter(name for name, _ in columns).items() if count > 1]
    if twice:
        msg = f"expected columns of different names, got two called {twice[0]!r}"
        raise ValueError(msg)
    if target not in set(known):
        columns = [one for one in columns if not named or one[0] != target]
    lengths = {name: _length(name, column) for name, column in columns}
    if len(set(lengths.values())) != 1 or not next(iter(lengths.values())):
        msg = f"expected columns of one length and a row at least, got {str(lengths)[:200]}"
        raise ValueError(msg)

    def read(k: int) -> Values:
        return numbers_of(columns[k][1]) if plain else values_of(columns[k][1])

    names = tuple(name for name, _ in columns)
    return Frame(names, named, next(iter(lengths.values())), read, lambda k: iter([read(k)]))


def _columns_of(X: Any) -> tuple[list[tuple[str, Any]], bool]:
    """Columns by their names, and whether they have any."""
    if is_named(X):
        if isinstance(X, (list, tuple)):
            keys = dict.fromkeys(name for row in X for name in row)
            return [(str(name), [row.get(name) for row in X]) for name in keys], True
        return [(str(n), X[n]) for n in (X if isinstance(X, Mapping) else X.dtype.names)], True
    names = getattr(X, "column_names", getattr(X, "columns", None))  # those of pyarrow are arrays
    if names is not None:
        return [(str(name), X[name]) for name in names], True
    rows = X if hasattr(X, "__array__") else _objects_of(X)
    rows = np.asarray(rows)
    if rows.ndim != 2:
        msg = f"expected a table of rows and columns, got {rows.ndim} dimensions"
        raise ValueError(msg)
    return [(f"x{k}", rows[:, k]) for k in range(rows.shape[1])], False


def _objects_of(rows: Any) -> np.ndarray:
    """Rows (n, d) of Python's values, which NumPy would turn into each other."""
    listed = [list(row) for row in rows]
    if len({len(row) for row in listed}) > 1:
        msg = "expected rows of the same length"
        raise ValueError(msg)
    found = np.empty((len(listed), len(listed[0]) if listed else 0), dtype=object)
    for i, row in enumerate(listed):
        found[i] = row
    return found


def _length(name: str, column: Any) -> int:
    if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
        msg = f"column {name!r}: expected a list or an array, got {column!r}"
        raise TypeError(msg)
    return len(column)


def values_of(column: Any, /) -> Values:
    """Read a column (n,): a list, an array, or what makes one of itself.

    Raises
    ------
    ValueError
        If it has more dimensions, or values of no known sort.
    """
    codes = getattr(getattr(column, "cat", None), "codes", None)
    if codes is not None:  # of pandas
        known = texts(map(text_of, column.cat.categories.tolist()))
        return Values(LABELS, np.asarray(codes).astype(np.int64), known)
    if str(getattr(column, "dtype", "")) in ("Int128", "UInt128"):  # of polars, not of NumPy
        column = list(column)
    array = array_of(column) if hasattr(column, "__array__") else texts(column)
    if array.ndim != 1:
        msg = f"expected values of one dimension, got shape {array.shape}"
        raise ValueError(msg)
    zone = getattr(getattr(column, "dtype", None), "time_zone", None)  # of polars, then of Arrow
    zone = known_zone(zone or getattr(getattr(column, "type", None), "tz", None) or "")
    if zone and array.dtype.kind == "M":  # which both give as times of Greenwich
        return Values(DATES, as_moments(array), zones=(zone,))
    if _has_rounded(array, column):
        return _of_objects(list(column.to_pylist() if hasattr(column, "to_pylist") else column))
    make = _BY_DTYPE.get(array.dtype.kind)
    return _of_objects(array.tolist()) if make is None else make(array)


def _has_rounded(array: np.ndarray, column: Any) -> bool:
    """Whether an array of floats was made of a column of integers, and is too large for that."""
    if array.dtype.kind != "f" or isinstance(getattr(column, "dtype", None), np.dtype):
        return False
    return bool((np.abs(array) >= WHOLE).any())


def numbers_of(column: Any, /) -> Values:
    """Read a column (n,) of numbers, as models of numbers read theirs.

    Raises
    ------
    NotANumberError
        If a value is neither a number nor missing.
    """
    array = array_of(column) if hasattr(column, "__array__") else texts(column)
    is_category = str(getattr(column, "dtype", "")) == "category"
    if array.ndim == 1 and array.dtype.kind in "mM" and np.isnat(array).all():
        return of_numbers(np.full(len(array), np.nan))
    if array.ndim == 1 and array.dtype.kind in "biuf" and not is_category:
        return of_numbers(array)
    if array.ndim != 1 or array.dtype.kind not in "OUST" or is_category:
        raise NotANumberError(next(iter(column), None))
    return of_numbers(numbers_in(array))


_BY_DTYPE: dict[str, Callable[[np.ndarray], Values]] = {
    **dict.fromkeys("iuf", of_numbers),
    "b": lambda array: of_numbers(array, BOOLEANS),
    "M": lambda array: Values(DATES, as_moments(array)),
    "m": durations,
}


def _of_objects(values: list[Any]) -> Values:
    """Read Python's values by what they are, apart from gaps."""
    kept = [None if is_gap(value) else value for value in values]
    sorts = {_sort_of(value) for value in kept if value is not None}
    if "complex" in sorts:
        msg = "expected real numbers, got complex ones"
        raise ValueError(msg)
    sort = sorts.pop() if len(sorts) == 1 else ("other" if sorts else "text")
    return _BY_SORT[sort](kept)


def _sort_of(value: Any) -> str:
    found = (sort for sort, kinds in _SORTS if isinstance(value, kinds))
    return next(found, "period" if hasattr(value, "to_timestamp") else "other")


def _booleans(kept: list[Any]) -> Values:
    return numbers_of_objects(kept, BOOLEANS)


def _text(kept: list[Any], note: str = "") -> Values:
    place: dict[str, int] = {}
    index = [-1 if value is None else place.setdefault(value, len(place)) for value in kept]
    return labelled(np.array(index, dtype=np.int64), place, note)


def _dates(kept: list[Any]) -> Values:
    times, zones = moments_and_zones(kept)
    return Values(DATES, moments_of_objects(times), zones=zones)


def _periods(kept: list[Any]) -> Values:
    return _dates([None if value is None else value.to_timestamp() for value in kept])


def _times(kept: list[Any]) -> Values:
    seconds = [np.nan if v is None else seconds_of(v) for v in kept]
    return Values(DURATIONS, np.array(seconds, dtype=np.float64))


def _other(kept: list[Any]) -> Values:
    found = _text([None if value is None else text_of(value) for value in kept])
    kinds = {type(value).__name__ for value in kept if value is not None}
    return replace(found, note=mixed_note(found.labels, kinds))


_BY_SORT: dict[str, Callable[[list[Any]], Values]] = {
    "text": _text,
    "boolean": _booleans,
    "number": numbers_of_objects,
    "decimal": numbers_of_objects,
    "date": _dates,
    "time": _times,
    "duration": durations_of_objects,
    "period": _periods,
    "other": _other,
}
