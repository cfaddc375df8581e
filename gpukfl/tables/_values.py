"""The values of a column, and their conversion to numbers, dates or labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from gpukfl._accel.trust import is_numpy_only
from gpukfl.core._frames import TOO_LONG, WHOLE
from gpukfl.tables._dates import (
    MOMENT,
    add_nanoseconds,
    common_zone,
    days_since,
    known_zone,
    parse_dates,
    to_local_time,
)
from gpukfl.tables._numerals import format_number, parse_integers, parse_labels

NUMBERS, BOOLEANS, DATES, DURATIONS, LABELS = "numbers", "booleans", "dates", "durations", "labels"


@dataclass(frozen=True, eq=False)
class Values:
    """The values of a column as read.

    Attributes
    ----------
    form : str
        numbers, booleans, dates, durations or labels.
    data : array, shape (n,)
        Numbers in float64, NaN if missing; dates in datetime64[us], NaT if missing, in UTC if there
        are `zones`, else in local time; or indices of `labels`, -1 if missing.
    labels : array of str
        The distinct labels.
    declared : bool
        Whether the frame declares the labels as categories.
    ordered : bool
        Whether the frame declares an order of the labels.
    note : str
        A remark on the values, for a warning.
    infinite : int
        Number of values that are missing because they were infinite.
    zones : tuple of str
        Time zones of dates, unless these are text.
    exact : array, shape (n,), or None
        The numbers without rounding, if there are integers beyond 2⁵³. They decide which values are
        equal. Missing rows hold any number.
    """

    form: str
    data: np.ndarray
    labels: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=object))
    declared: bool = False
    ordered: bool = False
    note: str = ""
    infinite: int = 0
    zones: tuple[str, ...] = ()
    exact: np.ndarray | None = None

    @property
    def identities(self) -> np.ndarray:
        """Keys (n,) that are equal for equal values."""
        return self.data if self.exact is None else self.exact

    @property
    def missing(self) -> np.ndarray:
        """Which rows (n,) are missing."""
        if self.form == LABELS:
            return self.data < 0
        return np.isnat(self.data) if self.form == DATES else np.isnan(self.data)

    def as_numbers(self, unit: str = "", decimal: str = ".", /) -> np.ndarray:
        """Return numbers (n,), NaN for missing ones; dates as days since 1970."""
        if self.form == DATES:
            return days_since(self.as_dates(None))
        if self.form != LABELS:
            return self.data
        return np.append(parse_labels(self.labels, unit, decimal), np.nan)[self.data]

    def as_numerals(self, unit: str = "", decimal: str = ".", /) -> Values:
        """Return labels as numbers, without rounding integers."""
        data = self.as_numbers(unit, decimal)
        exact = self.exact
        if self.form == LABELS:
            exact = parse_integers(self.labels, decimal)
            exact = None if exact is None else np.append(exact, [0])[self.data]
        return Values(NUMBERS, data, exact=exact)

    def as_dates(self, day_first: bool | None, zone: str = "", /) -> np.ndarray:
        """Return dates (n,), NaT for missing ones, by the order of days and months.

        They are in the local time of `zone` if their zones are known, else in their own.
        """
        if self.form == DATES:
            own = common_zone(self.zones)
            return to_local_time(self.data, zone or own) if own else self.data
        labels = self.as_labels()
        found = parse_dates(labels.labels, bool(day_first), zone)
        return np.append(found, np.datetime64("NaT", "us"))[labels.data]

    def as_labels(self) -> Values:
        """Return the values as labels."""
        if self.form == LABELS:
            return self
        if self.exact is None:
            index, found = _factorize(self.as_dates(None) if self.zones else self.data)
        else:
            found, places = np.unique(self.exact[~self.missing], return_inverse=True)
            index = np.full(len(self.data), -1)
            index[~self.missing] = places
        if self.form == BOOLEANS:
            found = found.astype(bool)
        if self.form == DATES:
            return Values(LABELS, np.asarray(index), texts(map(_format_moment, found)))
        return Values(LABELS, np.asarray(index), texts(map(format_number, found.tolist())))

    def levels(self, at_most: int, /) -> tuple[str, ...]:
        """Return the labels, the most frequent first, ties by name."""
        labels, counts = self._count_labels()
        order = np.lexsort((labels.astype(str), -counts))
        return tuple(labels[order[: min(at_most, np.count_nonzero(counts))]].tolist())

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each label."""
        pairs = zip(*(found.tolist() for found in self._count_labels()), strict=True)
        return {label: count for label, count in pairs if count}

    def _count_labels(self) -> tuple[np.ndarray, np.ndarray]:
        """Return labels (k,) and their counts."""
        named = self.as_labels()
        return named.labels, np.bincount(named.data[named.data >= 0], minlength=len(named.labels))


def _format_moment(moment: np.datetime64) -> str:
    """Return a date as Python writes it, with nanoseconds if there are any."""
    whole = moment.astype(MOMENT)
    if whole == moment:
        return str(whole.tolist())
    return str(moment).replace("T", " ")


def numbers(array: np.ndarray, form: str = NUMBERS, /) -> Values:
    """Make numeric values; infinite ones are missing."""
    array = np.asarray(array)
    data = array.astype(np.float64, copy=False)
    exact = array if array.dtype.kind in "iu" and _has_inexact_integers(data) else None
    infinite = np.isinf(data)
    if not infinite.any():
        return Values(form, data, exact=exact)
    count = int(np.count_nonzero(infinite))
    return Values(form, np.where(infinite, np.nan, data), infinite=count)


def numbers_of_objects(values: Sequence[Any], form: str = NUMBERS, /) -> Values:
    """Make numeric values from Python or NumPy numbers, with None for missing ones.

    Raises ValueError if float64 does not hold one.
    """
    try:
        data = np.array([np.nan if v is None else float(v) for v in values], dtype=np.float64)
    except OverflowError:
        raise ValueError(TOO_LONG) from None
    found = numbers(data, form)
    # A float is exact already
    if not any(v is not None and not isinstance(v, (float, np.floating)) for v in values):
        return found
    if not _has_inexact_integers(data):
        return found
    exact = np.zeros(len(data), dtype=object)
    for k in np.flatnonzero(np.isfinite(data)).tolist():
        whole = data[k].is_integer() and values[k] == int(values[k])
        exact[k] = int(values[k]) if whole else float(data[k])
    return replace(found, exact=exact)


def _has_inexact_integers(data: np.ndarray) -> bool:
    """Whether some numbers are beyond the integers that float64 holds exactly."""
    return bool((np.abs(data) >= WHOLE).any())


def durations(array: np.ndarray, /) -> Values:
    """Make values of durations, in seconds."""
    return Values(DURATIONS, array / np.timedelta64(1, "s"))


def time_seconds(time: Any, /) -> float:
    """Return a time of the day in seconds."""
    whole = time.hour * 3600 + time.minute * 60 + time.second
    return float(whole + time.microsecond * 1e-6)


def moments_of_objects(times: Sequence[Any], /) -> np.ndarray:
    """Convert dates of Python, NumPy or pandas to an array (n,), with None for missing ones."""
    beyond = np.array([_extra_nanoseconds(time) for time in times], dtype=np.int64)
    return add_nanoseconds(np.array(times, dtype=MOMENT), beyond)


def _extra_nanoseconds(time: Any) -> int:
    """Return the nanoseconds of a date beyond microseconds."""
    if isinstance(time, np.datetime64):
        return 0 if np.isnat(time) else int((time - time.astype(MOMENT)) / np.timedelta64(1, "ns"))
    return getattr(time, "nanosecond", 0)  # of pandas


def durations_of_objects(spans: Sequence[Any], /) -> Values:
    """Make values of durations of Python, NumPy or pandas, with None for missing ones."""
    seconds = [np.nan if span is None else _duration_seconds(span) for span in spans]
    return Values(DURATIONS, np.array(seconds, dtype=np.float64))


def _duration_seconds(span: Any) -> float:
    second = np.timedelta64(1, "s") if isinstance(span, np.timedelta64) else timedelta(seconds=1)
    return float(span / second)


def moments_and_zones(times: Iterable[Any], /) -> tuple[list[Any], tuple[str, ...]]:
    """Return Python dates without zones, and the sorted zones.

    Dates are in UTC if all zones are known, else in local time.
    """
    kept = list(times)
    aware = {id(z): z for v in kept if (z := getattr(v, "tzinfo", None)) is not None}
    names = {known_zone(zone) for zone in aware.values()}
    if not names or "" in names:
        return [_drop_zone(time, None) for time in kept], ()
    taken = UTC if len(names) > 1 else next(iter(aware.values()))  # zone of dates without one
    return [_drop_zone(time, taken) for time in kept], tuple(sorted(names))


def _drop_zone(time: Any, zone: Any) -> Any:
    """Return a time without its zone, converted to UTC if a zone is given."""
    if not isinstance(time, datetime) or time != time:  # days and missing values  # noqa: PLR0124
        return time
    if zone is not None:
        time = (time.replace(tzinfo=zone) if time.tzinfo is None else time).astimezone(UTC)
    return time.replace(tzinfo=None)


def _factorize(data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return codes (n,) of distinct values, -1 for missing ones, and the values."""
    if not is_numpy_only():
        import pandas as pd

        return pd.factorize(data)
    known = ~np.isnat(data) if data.dtype.kind == "M" else ~np.isnan(data)
    found, places = np.unique(data[known], return_inverse=True)
    index = np.full(len(data), -1)
    index[known] = places
    return index, found


def labels(array: Any, /) -> Values:
    """Make values of pandas text (n,); blank text is missing."""
    import pandas as pd

    index, found = pd.factorize(array)
    return labels_from_indices(np.asarray(index), map(str, found))


def labels_of_parts(parts: Iterable[Sequence[Any] | np.ndarray], n: int, /) -> Values:
    """Make values of text in parts; blank text and other types are missing."""
    places: dict[str, int] = {}
    index, at = np.empty(n, dtype=np.int64), 0
    for part in parts:
        listed = part.tolist() if isinstance(part, np.ndarray) else part
        own = {
            word: places.setdefault(str(word), len(places)) if isinstance(word, str) else -1
            for word in dict.fromkeys(listed)
        }
        stop = at + len(listed)
        index[at:stop] = np.fromiter(map(own.__getitem__, listed), np.int64, len(listed))
        at = stop
    return labels_from_indices(index, places)


def labels_from_indices(index: np.ndarray, words: Iterable[str], /) -> Values:
    """Make values from indices (n,) of texts, -1 for missing; blank text is missing."""
    known = texts(words)
    blank = np.fromiter((not text or text.isspace() for text in known), bool, len(known))
    if blank.any():
        kept = np.append(np.where(blank, -1, np.cumsum(~blank) - 1), -1)
        index, known = kept[index], known[~blank]
    return Values(LABELS, index, known)


def texts(found: Iterable[str], /) -> np.ndarray:
    """Return texts as an object array."""
    listed = list(found)
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array
