"""What a column is: guessed from its name and values."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from gpukfl._columns import reads_as_date, reads_as_number
from gpukfl.tables import _values
from gpukfl.tables._column import Column
from gpukfl.tables._conversion import levels_of, to_dates, to_labels, to_numbers
from gpukfl.tables._dates import days_since, varying
from gpukfl.tables._text import components_of
from gpukfl.tables._values import Values

_CODES = 12  # different integers up to which they may be codes
_REPEATED = 20  # times that a code is found, on average
_COLLISIONS = 10.0  # of integers drawn at random, of which none is seen if they count rows
_MANY = 20  # different texts above which ...
_UNIQUE = 0.5  # ... and above this share of the rows they are no categories
_MOMENTS = re.compile(r"year|month|day|date|time|hour|minute|second|week|age\b|step", re.I)
_IDENTIFIER = re.compile(
    r"(^|[\W_])(id|key|uuid|guid|index|row_?number|row_?id)$|[a-z]I[Dd]$", re.I
)


def guess(name: str, values: Values, /) -> Column:
    """Say what a column is and why."""
    missing = float(np.mean(values.missing)) if len(values.data) else 0.0
    column = _KINDS[values.form](name, values)
    return replace(column, missing=missing)


def of_kind(name: str, values: Values, kind: str, /) -> Column:
    """Take a column for what somebody says it is."""
    missing = float(np.mean(values.missing)) if len(values.data) else 0.0
    column = Column(name, kind, "as told", missing=missing)
    if kind in ("category", "code", "ordered"):
        return replace(column, levels=levels_of(values, kind))
    if kind == "date":
        return _date(column, values)
    return _text(column, values) if kind == "text" else column


def _few(name: str, values: Values) -> Column | None:
    """Columns of no or one value."""
    if values.missing.all():
        return Column(name, "empty", "no value in any row")
    kept = values.data[~values.missing]
    if (kept == kept[0]).all():
        if not values.missing.any():
            return Column(name, "constant", "the same in every row")
        return Column(name, "category", "one value, and gaps", levels_of(values, "category"))
    return None


def _number(name: str, values: Values) -> Column:
    few = _few(name, values)
    if few is not None:
        return few
    kept = values.data[~values.missing]
    if not (kept == np.rint(kept)).all():
        return Column(name, "numeric", "numbers")
    different = len(np.unique(kept))
    if different == len(kept) and _counts_rows(name, kept):
        return Column(name, "identifier", "another integer in every row")
    if 2 < different <= _CODES and len(kept) >= _REPEATED * different:
        reason = f"{different} different integers"
        return Column(name, "code", reason, levels_of(values, "code"))
    return Column(name, "numeric", "integers")


def _counts_rows(name: str, kept: np.ndarray) -> bool:
    """Whether different integers are more different than numbers that are measured."""
    if _MOMENTS.search(name):
        return False
    m, extent = float(len(kept)), float(np.ptp(kept)) + 1.0
    named = _IDENTIFIER.search(name) is not None
    return m * (m - 1) / (2.0 * extent) >= _COLLISIONS or (named and m > 2)


def _boolean(name: str, values: Values) -> Column:
    return _few(name, values) or Column(name, "boolean", "true or false")


def _duration(name: str, values: Values) -> Column:
    return _few(name, values) or Column(name, "duration", "durations, in seconds")


def _moment(name: str, values: Values) -> Column:
    return _few(name, values) or _date(Column(name, "date", "dates"), values)


def _date(column: Column, values: Values) -> Column:
    moments = to_dates(values, column.day_first)
    moments = moments[~np.isnat(moments)]
    if not len(moments):
        return replace(column, kind="empty", reason="no date in any row")
    return replace(column, parts=varying(moments), start=float(days_since(moments).min()))


def _text(column: Column, values: Values) -> Column:
    _, labels = to_labels(values)
    return replace(column, components=components_of(labels))


def _label(name: str, values: Values) -> Column:
    few = _few(name, values)
    if few is not None:
        return few
    labels, m = values.labels, int(np.count_nonzero(values.data >= 0))
    present = labels if not values.ordered else labels[np.unique(values.data[values.data >= 0])]
    u = len(present)
    if values.ordered:
        return Column(name, "ordered", f"{u} ordered levels", tuple(labels))
    if all(map(reads_as_number, present)):
        found = guess(name, Values(_values.NUMBERS, to_numbers(values)))
        return replace(found, reason=f"{found.reason}, written as text")
    if all(map(reads_as_date, present)):
        return _date(Column(name, "date", "dates, written as text"), values)
    if u > _MANY and u > _UNIQUE * m:
        words = np.mean([" " in label.strip() for label in present])
        if u == m and words < 0.5:
            return Column(name, "identifier", "another word in every row")
        return _text(Column(name, "text", f"text of {u} values"), values)
    return Column(name, "category", f"text of {u} values", levels_of(values, "category"))


_KINDS = {
    _values.NUMBERS: _number,
    _values.BOOLEANS: _boolean,
    _values.DATES: _moment,
    _values.DURATIONS: _duration,
    _values.LABELS: _label,
}
