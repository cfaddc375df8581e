"""Codes of a column's values: numbers, levels, and parts of dates and of text."""

from __future__ import annotations

import itertools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time, timedelta
from functools import cache, cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from gpukfl._accel.trust import is_numpy_only
from gpukfl.core._frames import WHOLE, listed, parts_of_name, rounded_integers
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.tables import _values
from gpukfl.tables._column import AS_TEXT, DECLARED, Coded, Column
from gpukfl.tables._dates import PERIODS, date_part, days_since, detect_day_order, find_zones
from gpukfl.tables._frame import name_column_in_errors, read_objects
from gpukfl.tables._numerals import (
    SIGNS,
    ambiguous_label,
    detect_notation,
    format_number,
    is_gap,
    parse_integer,
    parse_labels,
)
from gpukfl.tables._values import Values

# -------------------------------------------------------------------------------- codes


_MOST_NAMED = 32  # levels whose names are kept as labels
_TIME_FORMS = (_values.DATES, _values.DURATIONS)
_TRUTH = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_MOST_DATES = 4  # date columns up to which their pairwise differences are taken
# Types whose equal values have equal codes
_CACHED_TYPES = (str, int, float, date, time, timedelta, type(None))
_LARGEST_FLOAT = sys.float_info.max
_CACHE_SIZE, _LONGEST_KEY = 2**12, 200  # cached values, and characters of one


def describe_codes(column: Column, source: int, /) -> list[Coded]:
    """Return the columns of codes of a column."""
    return _CODED_BY_KIND.get(column.kind, _code_number)(column, source) if column.is_used else []


def _code_number(column: Column, source: int) -> list[Coded]:
    return [Coded(column.name, source, gaps=column.missing > 0)]


def _code_category(column: Column, source: int) -> list[Coded]:
    k = len(column.levels)
    labels = column.levels if k <= _MOST_NAMED else ()
    return [Coded(column.name, source, k, gaps=column.missing > 0, labels=labels)]


def _code_code(column: Column, source: int) -> list[Coded]:
    return [*_code_number(column, source), *_code_category(column, source)]


def _code_date(column: Column, source: int) -> list[Coded]:
    name = column.name
    days = Coded(f"{name} days", source, gaps=column.missing > 0)
    parts = [Coded(f"{name} {p}", source, period=PERIODS.get(p, 0.0)) for p in column.parts]
    return [days, *parts, *(Coded(f"{name} since {other}", source) for other in column.since)]


def _code_text(column: Column, source: int) -> list[Coded]:
    length = Coded(f"{column.name} length", source, gaps=column.missing > 0)
    k = 0 if column.components is None else len(column.components)
    return [length, *(Coded(f"{column.name} text {j + 1}", source) for j in range(k))]


_CODED_BY_KIND: dict[str, Callable[[Column, int], list[Coded]]] = {
    "category": _code_category,
    "code": _code_code,
    "date": _code_date,
    "text": _code_text,
}


def add_time_differences(columns: Sequence[Column], /) -> list[Column]:
    """Add to date columns the earlier ones from which time differences are taken."""
    dates = [column.name for column in columns if column.kind == "date"]
    if not 1 < len(dates) <= _MOST_DATES:
        return list(columns)
    return [
        replace(c, since=tuple(dates[: dates.index(c.name)])) if c.kind == "date" else c
        for c in columns
    ]


def warn_infinite(counts: Mapping[str, int], n: int, /) -> None:
    """Warn of columns of n rows with infinite numbers."""
    some = [f"{count} of {n} rows of {name}" for name, count in counts.items() if count]
    if some:
        warn(f"infinite values are treated as missing: {listed(some)}")


class Coder:
    """A coder from the values of one column to its codes."""

    def __init__(self, column: Column, /) -> None:
        self.column = column

    @property
    def _encode(self) -> Callable[[Values], Iterator[np.ndarray]]:
        return getattr(self, f"_{self.column.kind}", self._number)

    @cached_property
    def keeps_numbers(self) -> bool:
        """Whether finite numbers are their own codes."""
        return self._encode == self._number

    def __call__(self, blocks: Iterator[Values], n: int, /) -> Iterator[np.ndarray]:
        """Yield the columns of codes (n,), without differences from other dates."""
        coded = self._encode
        first = next(blocks)
        if len(first.data) == n:
            yield from coded(first)
            return
        parts, at = [np.empty(n) for _ in describe_codes(self.column, 0)], 0
        for values in itertools.chain([first], blocks):
            stop = at + len(values.data)
            for whole, part in zip(parts, coded(values), strict=True):
                whole[at:stop] = part
            at = stop
        while parts:  # each is freed once it is used
            yield parts.pop(0)

    def _number(self, values: Values) -> Iterator[np.ndarray]:
        what = "durations" if self.column.kind == "duration" else "numbers"
        found = self._read_numbers(values)
        if values.form == _values.LABELS:
            found = self._read_other_notation(values, found)
        yield self._warn_unread(values, found, what)

    def _warn_ambiguous_commas(self, values: Values) -> None:
        """Warn of text such as 1,234 after a fit to numbers that show no decimal mark."""
        column = self.column
        if column.unit or AS_TEXT in column.reason or column.reason == DECLARED:
            return
        numbers = parse_labels(values.labels, "", column.decimal)
        label = ambiguous_label(values.labels[~np.isnan(numbers)], "", column.decimal)
        if label:
            number = float(numbers[values.labels == label][0])
            warn(
                f"column {column.name!r}: numbers can be read in two ways, and {label!r} is read "
                f"as {format_number(number)}"
            )

    def _read_other_notation(self, values: Values, found: np.ndarray) -> np.ndarray:
        """Read text as a fit would, if the column's own notation fails for some values.

        For example, a file's reader may have removed the currency before the fit. Both notations
        must agree, except for values with the other decimal mark, such as 1,234 beside 0,7. If some
        value remains unread in the other notation, values with its mark are missing.
        """
        column, kept = self.column, ~np.isnan(found)
        mark = "," if column.decimal == "." else "."
        marked = np.append([mark in label for label in values.labels], [False])[values.data] > 0
        unit, decimal = detect_notation(values.labels, column.decimal)
        if unit in (("", column.unit) if column.unit else ("", *SIGNS)):
            other = values.as_numbers(unit, decimal)
            read = ~kept & ~np.isnan(other)
            differ = kept & (found != other)
            if read.any() and not (differ & ~(marked & (decimal == mark))).any():
                self._warn_notation(values, other, [read, differ])
                return other
        swapped = values.as_numbers(column.unit, mark)
        if (~kept & ~np.isnan(swapped)).any():
            return np.where(marked & (found != swapped), np.nan, found)
        self._warn_ambiguous_commas(values)
        return found

    def _warn_notation(self, values: Values, other: np.ndarray, which: list[np.ndarray]) -> None:
        """Warn of the first row of each mask in `which`, read in another notation."""
        said = []
        for k in (int(np.argmax(rows)) for rows in which if rows.any()):
            label = values.labels[values.data[k]]
            said.append(f"{label!r} is read as {format_number(float(other[k]))}")
        warn(f"column {self.column.name!r} is written unlike in the fit: {', '.join(said)}")

    def _read_numbers(self, values: Values) -> np.ndarray:
        """Return numbers (n,), NaN for missing ones; times only if the fit saw some."""
        column = self.column
        known = column.kind == "duration" and values.form == _values.DURATIONS
        if values.form in _TIME_FORMS and not known and column.reason != DECLARED:
            return np.full(len(values.data), np.nan)
        return values.as_numbers(column.unit, column.decimal)

    def _boolean(self, values: Values) -> Iterator[np.ndarray]:
        found = self._read_numbers(values)
        if values.form == _values.LABELS:
            truth = [_TRUTH.get(label.strip().casefold(), np.nan) for label in values.labels]
            found = np.where(np.isnan(found), np.append(truth, np.nan)[values.data], found)
        yield self._warn_unread(values, found, "true or false")

    def _warn_unread(self, values: Values, found: np.ndarray, what: str) -> np.ndarray:
        """Warn of values that do not fit the column's kind."""
        name, unit = self.column.name, self.column.unit
        if found is values.data:  # no conversion, so none failed
            return found
        strange = np.isnan(found) & ~values.missing
        if strange.any():
            named = values.as_labels()
            labels = named.labels[np.unique(named.data[strange])]
            odd = sorted(label for label in labels if not is_gap(label, unit))
            if odd:
                shown = ", ".join(map(repr, odd[:3]))
                msg = f"column {name!r}: values that are not {what}, such as {shown}"
                warn(f"{msg}, are treated as missing")
        return found

    @cached_property
    def _levels(self) -> Levels:
        return Levels(self.column)

    def _indices(self, values: Values, other: float) -> np.ndarray:
        """Return the indices of levels (n,), with a value for unknown ones."""
        found = self._levels.places(values)
        return np.where(found < 0, other, found)

    def _category(self, values: Values) -> Iterator[np.ndarray]:
        yield self._indices(values, len(self.column.levels))

    def _ordered(self, values: Values) -> Iterator[np.ndarray]:
        yield self._warn_unread(values, self._indices(values, np.nan), "levels of the fit")

    def _code(self, values: Values) -> Iterator[np.ndarray]:
        (found,) = self._number(values)
        yield found
        named = values.as_numerals(self.column.unit, self.column.decimal)
        same = np.array_equal(named.data, found, equal_nan=True)  # false in another notation
        yield from self._category(named if same else Values(_values.NUMBERS, found))

    def _date(self, values: Values) -> Iterator[np.ndarray]:
        day_first, doubt = detect_day_order(values.labels, self.column.day_first)
        if doubt:
            warn(f"column {self.column.name!r}: {doubt}")
        self._warn_zones(values)
        with name_column_in_errors(self.column.name):
            moments = values.as_dates(day_first, self.column.zone)
        yield self._warn_unread(values, days_since(moments, self.column.start), "dates")
        for part in self.column.parts:
            yield date_part(moments, part)

    def _warn_zones(self, values: Values) -> None:
        """Warn of times whose zone, or that of the fit, is unknown."""
        name, zone = self.column.name, self.column.zone
        zones = values.zones or find_zones(values.labels)
        if zone and not zones and not values.missing.all():
            warn(f"column {name!r}: dates without a time zone are read as times in {zone}")
        if zones and not zone:
            shown = " and ".join(zones[:2])
            warn(f"column {name!r}: the fit had no time zones: local times in {shown} are used")

    def _text(self, values: Values) -> Iterator[np.ndarray]:
        named = values.as_labels()
        parts = encode_texts(named.labels, self.column.components)
        gap = np.full((1, parts.shape[1]), np.nan)
        yield from np.concatenate([parts, gap])[named.data].T


class RowCoder:
    """A coder of single rows of a table.

    Parameters
    ----------
    columns : sequence of Column
        The table's columns.
    named : bool
        Whether the table has column names; rows of a table without names are not accepted.
    with_times : callable
        `Table.with_times`.
    """

    def __init__(
        self, columns: Sequence[Column], named: bool, with_times: Callable[[Any], Iterable[Any]], /
    ) -> None:
        self._named, self._with_times = named, with_times
        self._names = {column.name for column in columns}
        self._used = {column.name for column in columns if column.is_used}
        self._cache: dict[Any, tuple[list[float], list[str]]] = {}

    def takes(self, X: Any, besides: str, /) -> bool:
        """Whether `X` is a list of one dict that needs no warning."""
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
            is_nan = value != value  # noqa: PLR0124
            if coder.keeps_numbers and (is_nan or abs(value) <= _LARGEST_FLOAT):
                return (value,)
            value = None if is_nan else value
        codes, messages = (
            self._look_up(coder, value) if _is_cacheable(value) else _code_value(coder, value)
        )
        for message in messages:
            warn(message)
        return codes

    def _look_up(self, coder: Coder, value: Any) -> tuple[list[float], list[str]]:
        """Return the cached code of a value, or code and cache it."""
        key = coder.column.name, type(value), value
        found = self._cache.get(key)
        if found is None:
            found = _code_value(coder, value)
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[key] = found
        return found


def _is_cacheable(value: Any) -> bool:
    """Whether a value's code may be cached: equal times of two zones have different codes."""
    if not isinstance(value, _CACHED_TYPES) or getattr(value, "tzinfo", None) is not None:
        return False
    return not isinstance(value, str) or len(value) <= _LONGEST_KEY


def _code_value(coder: Coder, value: Any) -> tuple[list[float], list[str]]:
    """Return the codes of one value, and the warnings."""
    with collect_warnings() as messages:
        with name_column_in_errors(coder.column.name):
            values = read_objects([value])
        warn_infinite({coder.column.name: values.infinite}, 1)
        return [float(codes[0]) for codes in coder(iter([values]), 1)], messages


# ------------------------------------------------------------------------------- levels


Key = TypeVar("Key", float, str)
_NUMERAL = re.compile(r"[-+]?\d+(?:\.\d*)?", re.ASCII)  # not 1e3, which may be a name
# New levels are warned of among at least so many values, from this share of them on, and from this
# multiple of the share that the fit predicts (`Column.rare`)
_MIN_VALUES, _NEW_SHARE, _NEW_FACTOR = 10, 0.5, 3.0
_FORM_TEXTS = {_values.NUMBERS: "numbers", _values.BOOLEANS: "true or false"}
_MOST_SHOWN = 3  # levels in a warning
_MIDNIGHT = " 00:00:00"


def singleton_share(counts: Iterable[int], /) -> float:
    """Return the share of rows whose level no other row has, from the levels' counts."""
    kept = list(counts)
    return kept.count(1) / max(sum(kept), 1)


def _index_unique(pairs: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    """Return the indices of unique keys."""
    kept = list(pairs)
    counts = Counter(key for key, _ in kept)
    return {key: place for key, place in kept if counts[key] == 1}


def warn_of_floats(name: str, values: Values, /) -> None:
    """Warn of float levels so large that they may have been rounded on loading."""
    if values.form != _values.NUMBERS or values.exact is not None:
        return
    kept = values.data[~values.missing]
    if (np.abs(kept) >= WHOLE).any():
        warn(
            f"column {name!r} has dtype float64, which rounds integers beyond 2**53: "
            "load it as integers or as text"
        )


class Levels:
    """A lookup of values among levels.

    Parameters
    ----------
    column : Column
        A category, a code, or ordered.
    """

    def __init__(self, column: Column, /) -> None:
        self._column = column
        self._index = {level: k for k, level in enumerate(column.levels)}

    def places(self, values: Values, /) -> np.ndarray:
        """Return the indices of levels (n,), -1 for other values, NaN for missing ones.

        A value that is no level gets the one equivalent level: of the same number, of the same word
        as a truth value, or of the same day as a moment at midnight.
        """
        if self._are_rounded:
            warn_of_floats(self._column.name, values)
        named = values.as_labels()
        found = np.array([self._index.get(label, -1) for label in named.labels], dtype=np.float64)
        counts = np.bincount(named.data[named.data >= 0], minlength=len(found))
        strange = np.flatnonzero((found < 0) & (counts > 0))
        if len(strange):
            found[strange] = self._find_equivalent(values.form, named.labels[strange])
            if self._column.kind != "ordered":  # its new values are missing, with a warning
                self._warn_new(named.labels, np.where(found < 0, counts, 0), int(counts.sum()))
        return np.append(found, np.nan)[named.data]

    def _find_equivalent(self, form: str, labels: np.ndarray) -> np.ndarray:
        """Return the indices (k,) of equivalent levels, -1 for none."""
        found = np.full(len(labels), -1.0)
        for k, label in enumerate(labels):
            text = label.strip()
            if form == _values.BOOLEANS:
                found[k] = self._word_places.get(text.casefold(), -1)
            elif form == _values.DATES:  # categories of days have levels without a time
                found[k] = self._index.get(text.removesuffix(_MIDNIGHT), -1)
            elif form == _values.NUMBERS or (
                form == _values.LABELS and _NUMERAL.fullmatch(text) is not None
            ):
                whole = parse_integer(text)
                found[k] = self._number_places.get(float(text) if whole is None else whole, -1)
        if form != _values.DATES and (found >= 0).any():
            self._warn_equivalent(form, labels, found)
        return found

    @cached_property
    def _are_rounded(self) -> bool:
        """Whether some levels are integers that float64 rounds."""
        whole = [parse_integer(level) for level in self._column.levels]
        return bool(rounded_integers(np.array(whole, dtype=object)).any())

    @cached_property
    def _number_places(self) -> dict[float, int]:
        """The indices of levels by numeric value, where only one level has it."""
        column = self._column
        numbers = parse_labels(np.array(column.levels, dtype=object), column.unit, column.decimal)
        exact = np.flatnonzero(np.abs(numbers) < WHOLE)
        known: dict[int, float] = dict(zip(exact.tolist(), numbers[exact].tolist(), strict=True))
        for k in np.flatnonzero(np.abs(numbers) >= WHOLE).tolist():
            whole = parse_integer(column.levels[k])
            if whole is not None:
                known[k] = whole
        return _index_unique((number, k) for k, number in known.items())

    @cached_property
    def _word_places(self) -> dict[str, int]:
        """The indices of levels by lower-case text, where only one level has it."""
        words = (level.strip().casefold() for level in self._column.levels)
        return _index_unique((word, k) for k, word in enumerate(words))

    def _warn_equivalent(self, form: str, labels: np.ndarray, found: np.ndarray) -> None:
        name, k = self._column.name, int(np.argmin(np.where(found < 0, np.inf, found)))
        level = self._column.levels[int(found[k])]
        if form in _FORM_TEXTS:
            what = _FORM_TEXTS[form]
            said = f"column {name!r} was text in the fit and is {what} here: {labels[k]}"
        else:
            said = f"column {name!r}: {labels[k]!r}, which is the same number,"
        warn(f"{said} is read as {level!r}")

    def _warn_new(self, labels: np.ndarray, new: np.ndarray, n: int) -> None:
        """Warn if most values are unknown levels."""
        column, count = self._column, int(new.sum())
        if n < _MIN_VALUES or count < max(_NEW_SHARE, _NEW_FACTOR * column.rare) * n:
            return
        some = f"none of {n} values was" if count == n else f"{count} of {n} values were not"
        left = len(column.levels) - _MOST_SHOWN
        known = ", ".join(map(repr, column.levels[:_MOST_SHOWN])) + (
            f", {left} more" if left > 0 else ""
        )
        odd = min(labels[new == new.max()])  # independent of the rows' order
        warn(
            f"column {column.name!r}: {some} seen in the fit, such as {odd!r}: levels were {known}"
        )


# -------------------------------------------------------------------------------- words


_WORD = re.compile(r"\b\w\w+\b")
_MASK, _MIN_INT32 = 0xFFFFFFFF, -(2**31)
_WORD_CACHE_SIZE = 2**16  # cached hashes of words
_N_HASHES, _MOST_TEXTS = 2**10, 10_000  # hashed words, and texts that directions are learned from
_BLOCK_ROWS = 2**15  # texts encoded at once, to limit memory
_COMPONENTS = 3


def project_texts(texts: np.ndarray, components: np.ndarray, /) -> np.ndarray:
    """Return the projections (n, k) of texts (n,) on directions (k, n_hashes).

    Terms are added in the order of a sparse product, for bitwise equal results: trees may split
    between values that differ in the last bit.
    """
    found = np.zeros((len(texts), len(components)))
    for i, text in enumerate(texts):
        counts = sorted(_count_words(text, components.shape[1]).items())
        values = np.array([count for _, count in counts], dtype=np.float64)
        norm = np.sqrt(values @ values)  # of integers, without rounding
        if norm > 0.0:
            parts = (values / norm)[:, None] * components[:, [place for place, _ in counts]].T
            found[i] = np.cumsum(parts, axis=0)[-1]
    return found


def _count_words(text: str, n_hashes: int) -> Counter[int]:
    """Return the signed counts of a text's words by hash."""
    counts: Counter[int] = Counter()
    for word in _WORD.findall(text.lower()):
        place, sign = _hash_word(word, n_hashes)
        counts[place] += sign
    return counts


@lru_cache(_WORD_CACHE_SIZE)
def _hash_word(word: str, n_hashes: int) -> tuple[int, int]:
    hashed = murmur3(word.encode())
    if hashed == _MIN_INT32:  # its absolute value is no 32-bit number
        return (2**31 - n_hashes) % n_hashes, -1
    return abs(hashed) % n_hashes, 1 if hashed >= 0 else -1


def murmur3(data: bytes, /) -> int:
    """MurmurHash3 of 32 bits with the seed 0, as a signed number.

    References
    ----------
    .. [1] Appleby, "MurmurHash3", function MurmurHash3_x86_32, 2011; in the public domain.
    """
    h, whole = 0, len(data) - len(data) % 4
    for start in range(0, whole, 4):
        h = _rotate_bits(h ^ _mix_word(int.from_bytes(data[start : start + 4], "little")), 13)
        h = (5 * h + 0xE6546B64) & _MASK
    h ^= _mix_word(int.from_bytes(data[whole:], "little")) if len(data) > whole else 0
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = ((h ^ (h >> shift)) * factor) & _MASK
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


def _mix_word(word: int) -> int:
    return (_rotate_bits((word * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _rotate_bits(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK


@cache
def _make_vectorizer() -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(n_features=_N_HASHES)


def learn_components(texts: np.ndarray, /) -> np.ndarray | None:
    """Learn directions (k, n_hashes) from distinct texts; None for fewer than three."""
    from sklearn.decomposition import TruncatedSVD

    if len(texts) < 3:
        return None
    counts = _make_vectorizer().transform(texts[:_MOST_TEXTS])
    k = min(_COMPONENTS, len(texts) - 1)
    with np.errstate(invalid="ignore"):  # variance ratios 0 / 0, which are not used
        return TruncatedSVD(k, random_state=0).fit(counts).components_


def encode_texts(texts: np.ndarray, components: np.ndarray | None, /) -> np.ndarray:
    """Return lengths and projections of texts: (n, 1 + k)."""
    lengths = np.array([len(text) for text in texts], dtype=np.float64)
    if components is None:
        return lengths[:, None]
    if not len(texts):
        return np.empty((0, 1 + len(components)))
    if is_numpy_only():
        return np.column_stack([lengths, project_texts(texts, components)])
    parts = [
        _make_vectorizer().transform(texts[start : start + _BLOCK_ROWS]) @ components.T
        for start in range(0, len(texts), _BLOCK_ROWS)
    ]
    return np.column_stack([lengths, np.concatenate(parts)])
