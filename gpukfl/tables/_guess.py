"""The kind of a column by its name and values, and detection of duplicate columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from gpukfl.core._warnings import warn
from gpukfl.tables import _values
from gpukfl.tables._codes import learn_components, warn_of_floats
from gpukfl.tables._column import AS_TEXT, DECLARED, LEVEL_KINDS, Column
from gpukfl.tables._dates import (
    are_dates_text,
    are_seasons,
    are_year_and_month,
    common_zone,
    days_since,
    detect_day_order,
    find_zones,
    looks_like_date,
    parse_dates,
    varying_parts,
)
from gpukfl.tables._numerals import (
    CLOCK,
    PROBE,
    ambiguous_label,
    are_numbers,
    detect_notation,
    doubtful_number_text,
    format_number,
    has_zero_padded,
    is_gap,
    parse_labels,
)
from gpukfl.tables._values import Values

MOST_LEVELS = 2**16  # levels kept, the most frequent; all others share one code
CONSTANT, ONE_VALUE = "the same in every row", "one value, and missing values"  # reasons
_MOST_CODES = 8  # at most so many distinct integers are codes ...
_ROWS_PER_CODE = 20  # ... if each is in so many rows on average
_COLLISIONS = 10.0  # expected equal pairs above which distinct integers are not random draws
_MANY_TEXTS, _UNIQUE_SHARE = 20, 0.5  # distinct texts, and their share of the rows: text above both
_MOSTLY = 0.95  # least share of dates, among labels and among rows
_PHRASE_SHARE = 0.5  # least share of texts with several words for the kind "text"
_NEXT_YEAR = "each value names a year and the next one"  # why seasons are not dates
# Names of columns whose integers may all differ without identifying rows
_MEASUREMENT_NAME = re.compile(
    r"year|month|day|date|time|hour|minute|second|week|step|rank|pos|place|score|size|length"
    r"|price|amount|count|total|dist|temp|dose|dosage|depth|height|width|weight|mass|volume|speed"
    r"|pressure|mile|altitude|angle|degree|area|income|salary|cost|value|level|concentration|power"
    r"|\bage\b|^[a-z]\d*$",
    re.I,
)
_DATE_NAME, _FIRST_DAY, _LAST_DAY = re.compile(r"date|day", re.I), 19_000_000, 21_000_000
_MONTH_NAME = re.compile(r"date|month|yyyy[\W_]?mm|(^|[\W_])ym$", re.I)
# Names of identifiers; few words that end in "id" are, unlike paid and acid
_IDENTIFIER_NAME = re.compile(
    r"(^|[\W_])(id|uuid|guid)$|(?-i:[a-z]I[Dd])$"
    r"|(user|customer|client|account|person|patient|subject|passenger|player|team|student|employee"
    r"|member|product|item|object|order|device|session|event|record|sample|row|store|station)id$",
    re.I,
)
_KEY_NAME = re.compile(r"(^|[\W_])(key|no|nr|row[\W_]?n\w*)$", re.I)  # "no" may be nitric oxide
_COUNTER_NAME = re.compile(  # row numbers, or measurements such as octane numbers
    r"(^|[\W_])(num|number|index|idx|row)$|(?-i:[a-z](No|Nr|Num|Number|Index))$|^order$"
    r"|^unnamed|^$",
    re.I,
)
_ODD_NUMBER = re.compile(r"[^\w\s]{0,2}\s*\d[\d.,' ]*\s*[^\w\s]?")  # such as <0.5 and 12+
_POSTCODE_NAME = re.compile(r"(^|[\W_])(zip|post|postal)[\W_]?(code)?$|zip_?code|post_?code", re.I)


class Duplicates:
    """A detector of columns that repeat earlier ones.

    Numbers and dates repeat equal values. Levels repeat an equal partition of the rows, under any
    names.
    """

    def __init__(self) -> None:
        self._first: dict[bytes, str] = {}

    def find_first(self, column: Column, values: Values, /) -> str:
        """Return the name of the first equivalent column, perhaps its own."""
        first = self._first.setdefault(_hash_column(column, values), column.name)
        if column.kind == "code":  # a later category may repeat its levels
            self._first.setdefault(_hash_partition(values), column.name)
        return first


def _hash_column(column: Column, values: Values) -> bytes:
    if column.kind in ("category", "boolean"):
        return _hash_partition(values)
    if column.kind in ("numeric", "code"):
        numerals = values.as_numerals(column.unit, column.decimal)
        if numerals.exact is not None:  # integers that float64 would round
            named = numerals.as_labels()
            return _hash_bytes(named.data, column.kind, *named.labels)
    words = list(column.levels) if column.kind == "ordered" else []
    if column.kind == "text":
        words = values.as_labels().labels.tolist()
    return _hash_bytes(_comparable_values(column, values), column.kind, *words)


def _comparable_values(column: Column, values: Values) -> np.ndarray:
    """Return values (n,) that are equal for equal numbers, dates or labels in any notation."""
    if column.kind in ("ordered", "text"):
        return values.as_labels().data
    if column.kind == "date":
        return values.as_dates(column.day_first, column.zone)
    found = values.as_numbers(column.unit, column.decimal) + 0.0
    found[np.isnan(found)] = np.nan  # one bit pattern for all NaN, as + 0.0 gives for zeros
    return found


def _hash_partition(values: Values) -> bytes:
    """Return a hash of which rows have equal values."""
    import pandas as pd

    data = np.where(values.missing, -1, pd.factorize(values.as_labels().data)[0])
    return _hash_bytes(data.astype(np.int64, copy=False), "levels")


def _hash_bytes(data: np.ndarray, *words: str) -> bytes:
    digest = blake2b(np.ascontiguousarray(data).view(np.uint8).data, digest_size=16)
    for word in words:  # joined words would double the memory
        digest.update(word.encode() + b"\0")
    return digest.digest()


def guess(name: str, values: Values, named: bool, /) -> Column:
    """Return a column's kind with the reason; unnamed numeric columns are numbers."""
    if values.missing.all():
        return Column(name, "empty", "no value in any row", missing=1.0)
    if values.form == _values.NUMBERS and not named:
        column = Column(name, "numeric", "numbers")
    else:
        column = _constant_column(name, values) or _GUESSES[values.form](name, values)
    return _add_missing(column, values.missing)


def _add_missing(column: Column, missing: np.ndarray) -> Column:
    """Return the column with its share of missing values."""
    return replace(column, missing=max(column.missing, float(np.mean(missing))))


def make_column(name: str, values: Values, kind: str, /) -> Column:
    """Return a column of the kind that the user chose.

    Raises ValueError if none of its values is of that kind.
    """
    unit, decimal = detect_notation(values.labels)
    unit = unit or (CLOCK if kind == "duration" else "")
    missing = float(np.mean(values.missing))
    column = Column(name, kind, DECLARED, missing=missing, unit=unit, decimal=decimal)
    if kind in ("numeric", "boolean", "duration", "code"):
        column = _check_values(column, values, np.isnan(values.as_numbers(unit, decimal)))
    if kind in LEVEL_KINDS:
        warn_of_floats(name, values)
    if kind in ("numeric", "code"):
        _warn_ambiguous_commas(name, values, unit, decimal)
    if kind == "numeric":
        _warn_rounding(name, values.as_numerals(unit, decimal))
    if kind == "code":
        return replace(column, levels=_to_numbers(values, unit, decimal).levels(MOST_LEVELS))
    if kind == "category":
        return replace(column, levels=values.levels(MOST_LEVELS))
    if kind == "ordered":
        known = tuple(values.labels) if values.ordered else sort_levels(values.levels(MOST_LEVELS))
        return replace(column, levels=known)
    if kind == "date":
        column = _make_date(column, values)
        return _check_values(
            column, values, np.isnat(values.as_dates(column.day_first, column.zone))
        )
    return _make_text(column, values) if kind == "text" else column


def _check_values(column: Column, values: Values, missing: np.ndarray) -> Column:
    if missing.all() and not values.missing.all():
        some = values.as_labels().labels[0]
        msg = f"expected only {column.kind} values in column {column.name!r}, got {some!r}"
        raise ValueError(msg)
    return _add_missing(column, missing)


def _constant_column(name: str, values: Values) -> Column | None:
    """Return a column of one value or none, or None if it varies."""
    missing = values.missing
    known = values.identities
    if not (missing | (known == known[np.argmin(missing)])).all():
        return None
    if not missing.any():
        return Column(name, "constant", CONSTANT)
    return Column(name, "category", ONE_VALUE, values.levels(1))


def _guess_number(name: str, values: Values) -> Column:
    kept = values.data[~values.missing]
    if not (kept == np.rint(kept)).all():
        return Column(name, "numeric", "numbers")
    if _DATE_NAME.search(name) and ((kept > _FIRST_DAY) & (kept < _LAST_DAY)).all():
        found = _make_date(Column(name, "date", "dates, written as integers"), values)
        if found.missing == np.mean(values.missing):
            return found
    if _MONTH_NAME.search(name) and are_year_and_month(kept).all():
        reads = f"if they are months, pass columns={{{name!r}: 'date'}}"
        warn(f"column {name!r} holds integers such as {int(kept[0])}: {reads}")
    different = len(np.unique(values.identities[~values.missing]))
    merged = different - len(np.unique(kept))
    if different == len(values.data) and _is_identifier(name, values):
        return Column(name, "identifier", "a different integer in every row")
    if any(names.search(name) for names in (_IDENTIFIER_NAME, _KEY_NAME, _POSTCODE_NAME)):
        warn_of_floats(name, values)
        return Column(name, "code", "integers that name something", values.levels(MOST_LEVELS))
    few = 2 < different <= _MOST_CODES and len(kept) >= _ROWS_PER_CODE * different
    if few or (merged and different <= _UNIQUE_SHARE * len(kept)):
        reason = f"{different} different integers"
        reason += ", which float64 does not tell apart" * bool(merged)
        return Column(name, "code", reason, values.levels(MOST_LEVELS))
    _warn_rounding(name, values)
    return Column(name, "numeric", "integers")


def _warn_rounding(name: str, values: Values) -> None:
    """Warn of integers that are equal as floats."""
    if values.exact is None:
        return
    different = len(np.unique(values.exact[~values.missing]))
    left = len(np.unique(values.data[~values.missing]))
    if left < different:
        keeps = f"columns={{{name!r}: 'category'}}"
        warn(
            f"column {name!r}: {different} different integers are rounded to {left} numbers of "
            f"float64: pass {keeps} to keep them apart"
        )


def _is_identifier(name: str, values: Values) -> bool:
    """Whether distinct integers identify rows; warn unless the name is that of an identifier."""
    if _IDENTIFIER_NAME.search(name):
        return True
    found = _KEY_NAME.search(name) is not None or _looks_like_row_number(name, values.identities)
    if found:
        keeps = f"columns={{{name!r}: 'numeric'}}"
        warn(f"column {name!r} looks like a row number and is dropped: pass {keeps} to keep it")
    return found


def _looks_like_row_number(name: str, kept: np.ndarray) -> bool:
    """Whether distinct integers seem to number the rows.

    Of m random numbers from a range of size r, about m (m - 1) / (2 r) pairs are equal. Many such
    pairs are expected and none is found: enough for a name such as "index". Under other names, the
    numbers must also fill their range.
    """
    m, extent = float(len(kept)), float(int(kept.max()) - int(kept.min()) + 1)
    follow = extent == m and not _MEASUREMENT_NAME.search(name)
    return m * (m - 1.0) / (2.0 * extent) >= _COLLISIONS and (
        follow or _COUNTER_NAME.search(name) is not None
    )


def _to_numbers(values: Values, unit: str, decimal: str) -> Values:
    if unit == CLOCK:
        return Values(_values.DURATIONS, values.as_numbers(unit, decimal))
    return values.as_numerals(unit, decimal)


def sort_levels(levels: Sequence[str], /) -> tuple[str, ...]:
    """Sort levels by leading numbers, or by name."""
    return tuple(sorted(levels, key=_level_sort_key))


def _level_sort_key(label: str) -> tuple[float, str]:
    found = re.match(r"\s*[-+]?\d+(\.\d+)?", label)
    return float(found[0]) if found else np.inf, label


def _make_date(column: Column, values: Values) -> Column:
    day_first, doubt = detect_day_order(values.labels)
    if doubt:
        warn(f"column {column.name!r}: {doubt}")
    zones = values.zones or find_zones(values.labels)
    column = replace(column, day_first=day_first, zone=common_zone(zones))
    if len(zones) > 1:
        some = f"{len(zones)} time zones, such as {zones[0]} and {zones[-1]}"
        warn(f"column {column.name!r} has dates of {some}: all are converted to {column.zone}")
    moments = values.as_dates(day_first, column.zone)
    missing, moments = np.isnat(moments), moments[~np.isnat(moments)]
    column = _add_missing(column, missing)
    if not len(moments):
        return column
    return replace(column, parts=varying_parts(moments), start=float(days_since(moments).min()))


def _make_text(column: Column, values: Values) -> Column:
    return replace(column, components=learn_components(values.as_labels().labels))


def _guess_label(name: str, values: Values) -> Column:
    if values.ordered:
        levels = tuple(values.labels)
        return Column(name, "ordered", f"{len(levels)} ordered levels", levels)
    if values.declared:
        return Column(name, "category", "categories", values.levels(MOST_LEVELS))
    unit, decimal = detect_notation(values.labels)
    if are_numbers(values.labels, unit, decimal):
        _warn_ambiguous_commas(name, values, unit, decimal)
        doubt = doubtful_number_text(values.labels, unit)
        if doubt:
            keeps = f"pass columns={{{name!r}: 'category'}}"
            warn(f"column {name!r}: {doubt}. To keep the text, {keeps}")
        found = guess(name, _to_numbers(values, unit, decimal), True)
        units = [*([unit] if unit else []), *(["decimal commas"] if decimal == "," else [])]
        said = f"{found.reason}{AS_TEXT}{' with ' * bool(units)}{' and '.join(units)}"
        if found.reason != ONE_VALUE:  # its level must stay as it is written
            return replace(found, reason=said, unit=unit, decimal=decimal)
    if are_dates_text(values.labels):
        others = _no_dates_reason(values)
        if others is None:
            return _make_date(Column(name, "date", f"dates{AS_TEXT}"), values)
        if others == _NEXT_YEAR:
            advice = f"pass columns={{{name!r}: 'category'}} to confirm"
        else:
            advice = f"pass columns={{{name!r}: 'date'}} to read dates, and treat others as missing"
        if others:
            warn(f"column {name!r} is not read as dates, as {others}: {advice}")
    else:
        _warn_stray_words(name, values.labels, unit, decimal)
    return _guess_words(name, values)


def _no_dates_reason(values: Values) -> str | None:
    """Return why date-like labels are not dates: None if nearly all are, "" if none is."""
    labels = values.labels
    written = np.array([not is_gap(label) for label in labels], dtype=bool)
    dates = written & ~np.isnat(parse_dates(labels, bool(detect_day_order(labels)[0])))
    if not dates.any():
        return ""
    if are_seasons(labels[written]):
        return _NEXT_YEAR
    rows = np.bincount(values.data[values.data >= 0], minlength=len(labels))
    for counts in (rows, np.ones(len(labels))):
        if counts[dates].sum() < _MOSTLY * counts[written].sum():
            some = labels[written & ~dates][0]
            return f"{dates.sum()} of {written.sum()} values are dates, and {some!r} is not"
    return None


def _warn_ambiguous_commas(name: str, values: Values, unit: str, decimal: str) -> None:
    label = ambiguous_label(values.labels, unit, decimal)
    if label:
        number = format_number(float(parse_labels(np.array([label]), unit, decimal)[0]))
        warn(
            f"column {name!r}: numbers can be read in two ways, and {label!r} is read as "
            f"{number}: convert the column to numbers if its commas are decimal"
        )


def _warn_stray_words(name: str, labels: np.ndarray, unit: str, decimal: str) -> None:
    """Warn of words among values that are nearly all numbers or dates."""
    number = "duration" if unit == CLOCK else "numeric"
    found: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        number: lambda some: ~np.isnan(parse_labels(some, unit, decimal)),
        "date": lambda some: np.array([looks_like_date(label) for label in some], dtype=bool),
    }
    for kind, are_of in found.items():
        if np.mean(are_of(labels[:PROBE])) < _MOSTLY:
            continue
        others = [label for label in labels[~are_of(labels)] if not is_gap(label, unit)]
        if 0 < len(others) <= (1.0 - _MOSTLY) * len(labels):
            warn(
                f"column {name!r} is not {kind}, as {len(others)} of {len(labels)} values, such as "
                f"{others[0]!r}, are not: pass columns={{{name!r}: {kind!r}}} to make them missing"
            )


def _guess_words(name: str, values: Values) -> Column:
    """Return text, an identifier or a category, by the number of distinct values."""
    u, m = len(values.labels), int(np.count_nonzero(values.data >= 0))
    if u > _MANY_TEXTS and u > _UNIQUE_SHARE * m:
        if np.mean([" " in label.strip() for label in values.labels]) >= _PHRASE_SHARE:
            return _make_text(Column(name, "text", f"{u} different texts"), values)
        if u == len(values.data):  # identifiers have no missing values
            if all(_ODD_NUMBER.fullmatch(label.strip()) for label in values.labels):
                warn(
                    f"column {name!r} is dropped: every row has a different value, and some, "
                    f"such as {values.labels[0]!r}, are not numbers. Pass columns={{{name!r}: "
                    "'numeric'} to read the numbers and treat other values as missing"
                )
            return Column(name, "identifier", "a different word in every row")
    reason = f"{u} different texts"
    some = values.labels[:PROBE]
    if has_zero_padded(some) and not np.isnan(parse_labels(some)).any():
        reason += ", digits that begin with a zero"
    return Column(name, "category", reason, values.levels(MOST_LEVELS))


_GUESSES: dict[str, Callable[[str, Values], Column]] = {
    _values.NUMBERS: _guess_number,
    _values.BOOLEANS: lambda name, _: Column(name, "boolean", "true or false"),
    _values.DATES: lambda name, values: _make_date(Column(name, "date", "dates"), values),
    _values.DURATIONS: lambda name, _: Column(
        name, "duration", "durations, in seconds", unit=CLOCK
    ),
    _values.LABELS: _guess_label,
}
