"""Dates in text, moments and time zones, by NumPy and the standard library."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from gpukfl._accel.trust import is_numpy_only
from gpukfl.tables._numerals import PROBE, is_gap

MOMENT = "datetime64[us]"
_FINE, _FINER = "datetime64[ns]", ("ns", "ps", "fs", "as")
_NANOSECONDS = 1000  # in a microsecond
_FIRST, _LAST = np.datetime64("1678-01-01", "us"), np.datetime64("2262-01-01", "us")
_OFFSET = re.compile(r"(:\d\d(?:\.\d+)?) ?(Z|(?:UTC|GMT)?[-+]\d{1,2}(?::?\d\d)?|UTC|GMT)$")
_EXTRA_DIGITS = re.compile(r":\d\d\.\d{6}(\d{1,3})\d*$")  # digits of nanoseconds
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_NAMED_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_CLOCK = (
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d+))?)?"
    r"(?: ?(?P<half>[ap])m)?)?"
)
_DATE_FORMS = tuple(
    re.compile(form + _CLOCK, re.IGNORECASE | re.ASCII)
    for form in (
        r"(?P<year>\d{4})(?P<sep>[-/.])(?P<month>\d{1,2})(?:(?P=sep)(?P<day>\d{1,2}))?",
        r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)",
        r"(?P<month>\d{1,2})/(?P<year>(?:19|20)\d\d)",
        r"(?P<first>\d{1,2})(?P<sep>[-/.])(?P<then>\d{1,2})(?P=sep)(?P<year>\d{4})",
        rf"(?P<day>\d{{1,2}})[- ]{_NAMED_MONTH}[- ](?P<year>\d{{4}})",
        rf"{_NAMED_MONTH} (?P<day>\d{{1,2}}),? (?P<year>\d{{4}})",
        rf"{_NAMED_MONTH}[- ](?P<year>\d{{4}})",
    )
)
GREENWICH = "UTC"
_FIXED_OFFSET = re.compile(r"(?:UTC|GMT)?([-+])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)
_MINUTE = timedelta(minutes=1)
_QUARTER_HOUR = np.timedelta64(15, "m")  # clocks change at multiples of it
# Days outside get the offsets of these; Python's dates end soon after the last
_FIRST_DAY, _LAST_DAY = np.datetime64("1000-01-01", "D"), np.datetime64("9000-01-01", "D")
PERIODS = {"month": 12.0, "day": 31.0, "weekday": 7.0, "hour": 24.0}
_DAY_US = 86_400_000_000  # microseconds
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(?:(?:19|20)\d{6}(?=T|$)|\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d\d)"
    r"|\d{1,2}/(?:19|20)\d\d"
    rf"|\d{{1,2}}[- ]{_MONTH}[- ]\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}}|{_MONTH}[- ]\d{{4}})"
    r"(?:[T ]+\d{1,2}:\d\d.*|T\d{4,6})?",
    re.IGNORECASE,
)
_TWO_FIRST = re.compile(r"\s*(\d{1,2})([-/.])(\d{1,2})[-/.]")
_YEAR_AND_MONTH = re.compile(r"(\d{4})[-/](\d\d?)")
_SIX_DIGITS = re.compile(r"(\d{4})(\d\d)(?:\.0*)?", re.ASCII)
_MIN_SEASONS = 2  # different seasons; a single 2003/04 may be a month
_BLOCK_ROWS = 2**15  # dates converted at once


def as_moments(times: np.ndarray, /) -> np.ndarray:
    """Return dates (n,) in microseconds, or in nanoseconds if some need them."""
    if np.datetime_data(times.dtype)[0] not in _FINER:
        return times.astype(MOMENT)
    fine = times.astype(_FINE)
    parts = fine.view(np.int64) % _NANOSECONDS != 0
    return fine if (parts & ~np.isnat(fine)).any() else fine.astype(MOMENT)


def add_nanoseconds(moments: np.ndarray, beyond: np.ndarray, /) -> np.ndarray:
    """Add nanoseconds (n,), at most 999, to dates (n,) in microseconds."""
    if not beyond.any():
        return moments
    known = moments[~np.isnat(moments)]
    if not ((known >= _FIRST) & (known <= _LAST)).all():  # beyond the range of nanoseconds
        return moments
    return moments.astype(_FINE) + beyond.astype("timedelta64[ns]")


def strip_offset(label: str, /) -> str:
    """Return a date in text without its UTC offset."""
    return _OFFSET.sub(r"\1", label.strip())


def parse_zone(label: str, /) -> str:
    """Return the UTC offset of a date in text, or "" without one."""
    found = _OFFSET.search(label.strip())
    return found[2] if found else ""


def parse_moments(labels: np.ndarray, day_first: bool, /) -> np.ndarray:
    """Parse labels (k,) as local dates, NaT for missing ones.

    Raises ValueError for other labels.
    """
    found = [None if is_gap(label) else _parse_moment(label, day_first) for label in labels]
    parts = (_EXTRA_DIGITS.search(strip_offset(label)) for label in labels)
    beyond = np.array([int(f"{part[1]:0<3}") if part else 0 for part in parts], dtype=np.int64)
    return add_nanoseconds(np.array(found, dtype=MOMENT), beyond)


def _parse_moment(label: str, day_first: bool) -> datetime:
    text = strip_offset(label)
    for form in _DATE_FORMS:
        match = form.fullmatch(text)
        if match is not None:
            try:
                return _make_date(match.groupdict(), day_first)
            except ValueError:
                break
    msg = f"expected dates such as 2020-01-31 or 2020-01-31 18:30:00, got {label!r}"
    raise ValueError(msg)


def _make_date(parts: dict[str, str | None], day_first: bool) -> datetime:
    if parts.get("first"):
        month, day = _order_day_month(int(parts["first"] or 0), int(parts["then"] or 0), day_first)
    else:
        month, day = _month_number(parts["month"] or ""), int(parts.get("day") or 1)
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    if parts["half"]:
        if not 1 <= hour <= 12:
            msg = f"expected an hour from 1 to 12 with am or pm, got {hour}"
            raise ValueError(msg)
        hour = hour % 12 + 12 * (parts["half"].lower() == "p")
    micro = int(f"{parts['part'] or '':0<6}"[:6])
    return datetime(int(parts["year"] or 0), month, day, hour, minute, second) + timedelta(
        microseconds=micro
    )


def _order_day_month(first: int, then: int, day_first: bool) -> tuple[int, int]:
    """Return month and day; a number above 12 is the day."""
    month, day = (then, first) if day_first else (first, then)
    return (month, day) if month <= 12 else (day, month)


def _month_number(text: str) -> int:
    return int(text) if text.isdigit() else 1 + _MONTHS.index(text[:3].lower())


@lru_cache(maxsize=256)
def zone_offset(zone: str, /) -> np.timedelta64 | None:
    """Return the offset of a zone such as UTC or +09:30, or None for a named zone."""
    if zone.upper() in ("Z", "UTC", "GMT"):
        return np.timedelta64(0, "us")
    found = _FIXED_OFFSET.fullmatch(zone)
    if found is None:
        return None
    minutes = int(found[2]) * 60 + int(found[3] or 0)
    return np.timedelta64(minutes if found[1] == "+" else -minutes, "m").astype("timedelta64[us]")


def zone_name(minutes: int, /) -> str:
    """Return the name of the zone with an offset in minutes."""
    if minutes == 0:
        return GREENWICH
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"


def known_zone(zone: str | tzinfo, /) -> str:
    """Return the name of a zone, or "" if it is unknown."""
    fixed = None if isinstance(zone, str) else zone.utcoffset(None)
    if fixed is not None:
        return "" if fixed % _MINUTE else zone_name(fixed // _MINUTE)
    name = str(zone)
    try:
        return name if zone_offset(name) is not None or ZoneInfo(name) else ""
    except (ZoneInfoNotFoundError, ValueError):  # not a valid name
        return ""


def common_zone(zones: Iterable[str], /) -> str:
    """Return the common zone of local times, or UTC if there are several."""
    kept = tuple(zones)
    return kept[0] if len(kept) == 1 else (GREENWICH if kept else "")


def to_local_time(moments: np.ndarray, zone: str, /) -> np.ndarray:
    """Convert UTC moments (n,) to local times (n,) of a zone; NaT stays.

    Raises ZoneInfoNotFoundError if this machine does not know the zone.
    """
    fixed = zone_offset(zone)
    if fixed is not None:
        return moments + fixed
    known = ~np.isnat(moments)
    kept = moments[known]
    days, place = np.unique(kept.astype("datetime64[D]"), return_inverse=True)
    ahead = _zone_offsets(days, zone)
    changes = (ahead != _zone_offsets(days + 1, zone))[place]
    ahead = ahead[place]
    quarters = kept[changes].astype("datetime64[m]")
    quarters, place = np.unique(
        quarters - (quarters - np.datetime64(0, "m")) % _QUARTER_HOUR, return_inverse=True
    )
    ahead[changes] = _zone_offsets(quarters, zone)[place]
    found = moments.copy()
    found[known] = kept + ahead
    return found


def _zone_offsets(times: np.ndarray, zone: str) -> np.ndarray:
    """Return the offsets (n,) of a zone at UTC times."""
    info, listed = ZoneInfo(zone), np.clip(times, _FIRST_DAY, _LAST_DAY).astype(MOMENT).tolist()
    offsets: Any = [time.replace(tzinfo=UTC).astimezone(info).utcoffset() for time in listed]
    return np.array(offsets, dtype="timedelta64[us]")


def are_dates_text(labels: np.ndarray, /) -> bool:
    """Whether all nonmissing labels are dates."""
    return _all_look_like_dates(labels[:PROBE]) and _all_look_like_dates(labels)


def are_seasons(labels: np.ndarray, /) -> bool:
    """Whether all labels are seasons such as 2023/24."""
    found = [_YEAR_AND_MONTH.fullmatch(label.strip()) for label in labels]
    pairs = [(int(one[1]), int(one[2])) for one in found if one]
    following = all((first + 1) % 100 == then for first, then in pairs)
    return len(labels) >= _MIN_SEASONS and len(pairs) == len(labels) and following


def _all_look_like_dates(labels: np.ndarray) -> bool:
    kept = [label for label in labels if not is_gap(label)]
    return bool(kept) and all(map(looks_like_date, kept))


def looks_like_date(label: str, /) -> bool:
    """Whether a text has the form of a date, even with a month above 12."""
    return _DATE.fullmatch(label.strip()) is not None


def detect_day_order(
    labels: np.ndarray, day_first: bool | None = None, /
) -> tuple[bool | None, str]:
    """Return whether days come before months, and a remark if that is ambiguous.

    Numbers above 12 decide; otherwise days come first unless dates have slashes. `day_first` is
    returned if no label begins with a day or a month.
    """
    found = [match for label in labels if (match := _TWO_FIRST.match(label))]
    if not found:
        return day_first, ""
    first, then = np.array([(int(match[1]), int(match[3])) for match in found]).T
    if day_first is None:
        large, slashes = [first.max() > 12, then.max() > 12], found[0][2] == "/"
        if slashes and not any(large):
            said = "may begin with the day or the month: they are read with the month first"
            return False, _doubt_text(found, first != then, said)
        day_first = bool(large[0]) if large[0] != large[1] else not slashes
    day, month = (first, then) if day_first else (then, first)
    taken, other = ("day", "month") if day_first else ("month", "day")
    said = f"begin with the {other}, but the column is read with the {taken} first"
    return day_first, _doubt_text(found, (month > 12) & (day <= 12), said)


def _doubt_text(found: list[re.Match[str]], odd: np.ndarray, said: str) -> str:
    """Return a remark on odd dates, or ""."""
    if not odd.any():
        return ""
    return f"dates such as {found[int(np.argmax(odd))].string.strip()!r} {said}"


def find_zones(labels: np.ndarray, /) -> tuple[str, ...]:
    """Return the distinct zones of dates in text."""
    offsets = (zone_offset(parse_zone(label)) for label in labels)
    minutes = {int(one.astype("timedelta64[m]").astype(int)) for one in offsets if one is not None}
    return tuple(map(zone_name, sorted(minutes)))


def parse_dates(labels: np.ndarray, day_first: bool, zone: str = "", /) -> np.ndarray:
    """Parse labels (k,) as local dates, of a zone if it is known; NaT for others.

    Labels of six digits are years and months if all of them can be; else they are no dates. With
    NumPy alone, raises ValueError for labels that are neither dates nor missing.
    """
    found = _parse_iso_dates(_write_months(labels), day_first)
    if not zone:
        return found
    offsets = [zone_offset(parse_zone(label)) for label in labels]
    has_offset = np.array([offset is not None for offset in offsets], dtype=bool)
    ahead = np.array([one for one in offsets if one is not None], dtype="timedelta64[us]")
    found[has_offset] = to_local_time(found[has_offset] - ahead, zone)
    return found


def _write_months(labels: np.ndarray) -> np.ndarray:
    """Return labels (k,) with 200301 written as 2003-01, if all of six digits are months."""
    found = [_SIX_DIGITS.fullmatch(label.strip()) for label in labels]
    months = [match for match in found if match]
    if not months or not all(are_year_and_month(int(one[1] + one[2])) for one in months):
        return labels
    written = labels.copy()
    for k, match in enumerate(found):
        if match:
            written[k] = f"{match[1]}-{match[2]}"
    return written


def are_year_and_month(number: Any, /) -> Any:
    """Whether numbers such as 200301, one or an array, are months from 1900 to 2099."""
    return (number > 190_000) & (number < 210_000) & (number % 100 >= 1) & (number % 100 <= 12)


def _parse_iso_dates(labels: np.ndarray, day_first: bool) -> np.ndarray:
    if is_numpy_only():
        return parse_moments(labels, day_first)
    import pandas as pd

    # pandas would read six digits as a day, a month and a year of two digits
    kept = [None if _SIX_DIGITS.fullmatch(one.strip()) else strip_offset(one) for one in labels]
    texts = pd.Series(kept, dtype=object)
    found = pd.to_datetime(texts, errors="coerce", utc=True, format="ISO8601")
    left = found.isna()
    if left.any():
        rest = pd.to_datetime(
            texts[left], errors="coerce", utc=True, format="mixed", dayfirst=day_first
        )
        found = found.astype(rest.dtype) if found.isna().all() else found
        found[left] = rest
    return as_moments(found.dt.tz_localize(None).to_numpy())


def days_since(moments: np.ndarray, start: float = 0.0, /) -> np.ndarray:
    """Return the days (n,) since 1970 and a start, NaN for missing dates."""
    day = _units_per_day(moments)
    first = round(start * _DAY_US) * (day // _DAY_US)  # `start` is in whole microseconds
    return _map_in_blocks(lambda block: (block.astype(np.int64) - first) / day, moments)


def _units_per_day(moments: np.ndarray) -> int:
    """Return the number of time units in a day."""
    unit = np.datetime_data(moments.dtype)[0]
    return int(np.array(1, dtype="timedelta64[D]").astype(f"timedelta64[{unit}]").astype(np.int64))


def date_part(moments: np.ndarray, part: str, /) -> np.ndarray:
    """Return a part (n,) of dates (n,) as numbers, NaN for missing ones."""
    return _map_in_blocks(_PART_NUMBERS[part], moments)


def _map_in_blocks(
    numbers_of: Callable[[np.ndarray], np.ndarray], moments: np.ndarray
) -> np.ndarray:
    """Convert dates to numbers (n,) by blocks, to save memory; NaN for missing ones."""
    found = np.empty(len(moments))
    for start in range(0, len(moments), _BLOCK_ROWS):
        block = moments[start : start + _BLOCK_ROWS]
        found[start : start + _BLOCK_ROWS] = np.where(np.isnat(block), np.nan, numbers_of(block))
    return found


def _whole_units(moments: np.ndarray, unit: str) -> np.ndarray:
    """Return whole years, months or days since 1970."""
    return moments.astype(f"datetime64[{unit}]").astype(np.int64)


def _day_of_month(moments: np.ndarray) -> np.ndarray:
    days = moments.astype("datetime64[D]") - moments.astype("datetime64[M]")
    return 1 + days.astype(np.int64)


_PART_NUMBERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "year": lambda moments: 1970 + _whole_units(moments, "Y"),
    "month": lambda moments: 1 + _whole_units(moments, "M") % 12,
    "day": _day_of_month,
    "weekday": lambda moments: (_whole_units(moments, "D") + 3) % 7,  # 1970 began on a Thursday
    "hour": lambda moments: (
        moments.astype(np.int64) % _units_per_day(moments) / _units_per_day(moments) * 24.0
    ),
}


def varying_parts(moments: np.ndarray, /) -> tuple[str, ...]:
    """Return the parts that vary among nonmissing dates."""
    return tuple(part for part in _PART_NUMBERS if np.ptp(date_part(moments, part)) > 0)
