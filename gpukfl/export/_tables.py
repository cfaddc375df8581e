"""Codes of the columns of a table as ONNX graphs: one input a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from gpukfl._array import Array

OUTPUTS = ("prediction", "label", "probabilities")
_DAY = 86_400_000_000  # microseconds
_NO_TIME = -(2**63)  # as NumPy writes that there is no date
_LARGEST = 2.0**53  # up to which floats are integers


def inputs_of(table: Any, ndx: ModuleType, /) -> tuple[dict[str, Any], Any]:
    """Make an input of every column that a table uses, and the codes (n, c) of all of them.

    Numbers, booleans, durations in seconds and codes are float64, with NaN for none; categories and
    ordered levels are text, "" for none; dates are int64, microseconds since 1970 in local time, of
    the fit's time zone where it had one, the least integer for none.

    Raises
    ------
    TypeError, ValueError
        If a column is text, has levels that are no integers, no name, or that of an output.
    """
    inputs: dict[str, Any] = {}
    codes: list[Any] = []
    days: dict[str, Any] = {}
    starts = {column.name: column.start for column in table.columns}
    for column in table.columns:
        if not column.used:
            continue
        read, dtype = _reader_of(column)
        x = inputs[column.name] = ndx.argument(shape=("n",), dtype=getattr(ndx, dtype))
        made = list(read(column, x, ndx))
        if column.kind == "date":
            days[column.name] = made[0]
            apart = [(other, column.start - starts[other]) for other in column.since]
            made += [made[0] - days[other] + gap for other, gap in apart]
        codes += made
    return inputs, ndx.stack(codes, axis=1)


Read = Callable[[Any, Any, ModuleType], Iterator[Array]]


def _reader_of(column: Any) -> tuple[Read, str]:
    if column.name in OUTPUTS:
        msg = f"expected no column with the name of an output, got {column.name!r}: rename it"
        raise ValueError(msg)
    if not column.name:
        msg = "expected a name for every input of an ONNX graph, got a column named '': rename it"
        raise ValueError(msg)
    if column.kind == "text":
        msg = (
            f"expected columns that ONNX files can read, got text in {column.name!r}: fit with "
            f"columns={{{column.name!r}: 'identifier'}}, which leaves it out"
        )
        raise TypeError(msg)
    return _READERS.get(column.kind, (_number, "float64"))


def _number(_: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    yield ndx.where(ndx.isfinite(x), x, _nothing(ndx))


def _nothing(ndx: ModuleType) -> Any:
    return ndx.asarray(np.float64(np.nan))


def _category(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    places = {level: k for k, level in enumerate(column.levels)}
    yield _looked_up(x, {**places, "": -1}, len(places), ndx)


def _ordered(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    yield _looked_up(x, {level: k for k, level in enumerate(column.levels)}, -1, ndx)


def _looked_up(x: Any, places: dict[Any, int], other: int, ndx: ModuleType) -> Any:
    """Places of values, NaN for -1."""
    found = ndx.astype(ndx.extensions.static_map(x, places, default=other), ndx.float64)
    return ndx.where(found < 0, _nothing(ndx), found)


def _code(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    (number,) = _number(column, x, ndx)
    yield number
    levels = [float(level) for level in column.levels]
    if not all(level.is_integer() and abs(level) < _LARGEST for level in levels):
        msg = f"expected codes that are integers in an ONNX file, got others in {column.name!r}"
        raise TypeError(msg)
    whole = (ndx.floor(number) == number) & (ndx.abs(number) < _LARGEST)
    keys = ndx.astype(ndx.where(whole, number, ndx.asarray(0.0)), ndx.int64)
    places = {int(level): k for k, level in enumerate(levels)}
    found = _looked_up(keys, places, len(places), ndx)
    found = ndx.where(whole, found, ndx.asarray(float(len(places))))
    yield ndx.where(ndx.isnan(number), number, found)


def _date(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    gap = x == _NO_TIME
    x = ndx.where(gap, ndx.asarray(np.int64(0)), x)
    day = x // _DAY
    year, month, date = _civil(day, ndx)
    parts = {
        "year": year,
        "month": month,
        "day": date,
        "weekday": (day + 3) % 7,  # 1970: a Thursday
        "hour": ndx.astype(x - day * _DAY, ndx.float64) / _DAY * 24.0,
    }
    first = ndx.asarray(np.int64(round(column.start * _DAY)))
    days = ndx.astype(x - first, ndx.float64) / _DAY
    for found in (days, *(parts[part] for part in column.parts)):
        yield ndx.where(gap, _nothing(ndx), ndx.astype(found, ndx.float64))


def _civil(day: Any, ndx: ModuleType) -> tuple[Any, Any, Any]:
    """Year, month and day of days since 1970, in the calendar of all NumPy dates.

    Counted in years that begin in March, so that leap days are last, and in eras of 400 years.
    """
    day = day + 719_468  # since March 1 of year 0
    era = day // 146_097
    of_era = day - era * 146_097
    of_years = of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096
    year = of_years // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153  # 0 is March
    date = of_year - (153 * month + 2) // 5 + 1
    month = ndx.where(month < 10, month + 3, month - 9)
    return year + era * 400 + ndx.astype(month <= 2, ndx.int64), month, date


_READERS: dict[str, tuple[Read, str]] = {
    "category": (_category, "utf8"),
    "ordered": (_ordered, "utf8"),
    "code": (_code, "float64"),
    "date": (_date, "int64"),
}
