"""Dates in text, and the parts of dates."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from gpukfl._accel.trust import only_numpy
from gpukfl.tables._moments import as_moments, local, moments_of, zone_in
from gpukfl.tables._numerals import is_gap
from gpukfl.tables._zones import in_zone, offset_of, zone_at

PERIODS = {"month": 12.0, "day": 31.0, "weekday": 7.0, "hour": 24.0}
_DAY = 86_400_000_000  # microseconds
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(?:(?:19|20)\d{6}(?=T|$)|\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d\d)"
    rf"|\d{{1,2}}[- ]{_MONTH}[- ]\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}}|{_MONTH}[- ]\d{{4}})"
    r"(?:[T ]+\d{1,2}:\d\d.*|T\d{4,6})?",
    re.IGNORECASE,
)
_TWO_FIRST = re.compile(r"\s*(\d{1,2})([-/.])(\d{1,2})[-/.]")
_YEAR_AND_MONTH = re.compile(r"(\d{4})[-/](\d\d)")
_SEASONS = 3  # different values from which a year and the next one are no month by chance
_ROWS = 2**15  # dates that numbers are made of at once
_SEEN = 1000  # labels that are looked at before all are


def read_as_dates(labels: np.ndarray, /) -> bool:
    """Whether labels are dates, apart from those that stand for no value."""
    return _all_dates(labels[:_SEEN]) and _all_dates(labels)


def seasons(labels: np.ndarray, /) -> bool:
    """Whether labels, of which there are some, are years with the next one's last two digits."""
    found = [_YEAR_AND_MONTH.fullmatch(label.strip()) for label in labels]
    pairs = [(int(one[1]), int(one[2])) for one in found if one]
    following = all((first + 1) % 100 == then for first, then in pairs)
    return len(labels) >= _SEASONS and len(pairs) == len(labels) and following


def _all_dates(labels: np.ndarray) -> bool:
    kept = [label for label in labels if not is_gap(label)]
    return bool(kept) and all(map(looks_like_date, kept))


def looks_like_date(label: str, /) -> bool:
    """Whether a text is written as dates are, though its month may be 13."""
    return _DATE.fullmatch(label.strip()) is not None


def order_of(labels: np.ndarray, day_first: bool | None = None, /) -> tuple[bool | None, str]:
    """Say whether days stand before months, unless that is known, and what is doubtful in it.

    By what exceeds 12, else wherever no slashes are; None where no label begins with either.
    """
    found = [match for label in labels if (match := _TWO_FIRST.match(label))]
    if not found:
        return day_first, ""
    first, then = np.array([(int(match[1]), int(match[3])) for match in found]).T
    if day_first is None:
        large, slashes = [first.max() > 12, then.max() > 12], found[0][2] == "/"
        if slashes and not any(large):
            said = "may begin with the day or the month: the month is taken to be first"
            return False, _doubt(found, first != then, said)
        day_first = bool(large[0]) if large[0] != large[1] else not slashes
    day, month = (first, then) if day_first else (then, first)
    taken, other = ("day", "month") if day_first else ("month", "day")
    said = f"begin with the {other}, though the {taken} is taken to be first"
    return day_first, _doubt(found, (month > 12) & (day <= 12), said)


def _doubt(found: list[re.Match[str]], odd: np.ndarray, said: str) -> str:
    """Say something of the odd ones among dates; "" where there is none."""
    if not odd.any():
        return ""
    return f"dates such as {found[int(np.argmax(odd))].string.strip()!r} {said}"


def zones_of(labels: np.ndarray, /) -> tuple[str, ...]:
    """Give the different zones of dates in text, without those that do not say theirs."""
    offsets = (offset_of(zone_in(label)) for label in labels)
    minutes = {int(one.astype("timedelta64[m]").astype(int)) for one in offsets if one is not None}
    return tuple(map(zone_at, sorted(minutes)))


def dates_of(labels: np.ndarray, day_first: bool, zone: str = "", /) -> np.ndarray:
    """Read labels (k,) as dates in local time, of a zone where both are known; NaT of no dates.

    Raises
    ------
    ValueError
        With NumPy alone, of what is neither a date that it reads nor stands for no value.
    """
    found = _as_written(labels, day_first)
    if not zone:
        return found
    offsets = [offset_of(zone_in(label)) for label in labels]
    told = np.array([offset is not None for offset in offsets], dtype=bool)
    ahead = np.array([one for one in offsets if one is not None], dtype="timedelta64[us]")
    found[told] = in_zone(found[told] - ahead, zone)
    return found


def _as_written(labels: np.ndarray, day_first: bool) -> np.ndarray:
    if only_numpy():
        return moments_of(labels, day_first)
    import pandas as pd

    texts = pd.Series([local(label) for label in labels], dtype=object)
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
    """Days (n,) since 1970 and a start, NaN for none."""
    day = _day_of(moments)
    first = round(start * _DAY) * (day // _DAY)  # a start has whole microseconds
    return _in_blocks(lambda block: (block.astype(np.int64) - first) / day, moments)


def _day_of(moments: np.ndarray) -> int:
    """How many units of its moments a day has."""
    unit = np.datetime_data(moments.dtype)[0]
    return int(np.array(1, dtype="timedelta64[D]").astype(f"timedelta64[{unit}]").astype(np.int64))


def part_of(moments: np.ndarray, part: str, /) -> np.ndarray:
    """Give a part (n,) of dates (n,) as numbers, NaN for none."""
    return _in_blocks(_PARTS[part], moments)


def _in_blocks(numbers_of: Callable[[np.ndarray], np.ndarray], moments: np.ndarray) -> np.ndarray:
    """Make numbers (n,) of dates, NaN of none; all rows at once would take five times as much."""
    found = np.empty(len(moments))
    for start in range(0, len(moments), _ROWS):
        block = moments[start : start + _ROWS]
        found[start : start + _ROWS] = np.where(np.isnat(block), np.nan, numbers_of(block))
    return found


def _units(moments: np.ndarray, unit: str) -> np.ndarray:
    """Whole years, months or days since 1970."""
    return moments.astype(f"datetime64[{unit}]").astype(np.int64)


def _day_of_month(moments: np.ndarray) -> np.ndarray:
    days = moments.astype("datetime64[D]") - moments.astype("datetime64[M]")
    return 1 + days.astype(np.int64)


_PARTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "year": lambda moments: 1970 + _units(moments, "Y"),
    "month": lambda moments: 1 + _units(moments, "M") % 12,
    "day": _day_of_month,
    "weekday": lambda moments: (_units(moments, "D") + 3) % 7,  # 1970 began on a Thursday
    "hour": lambda moments: moments.astype(np.int64) % _day_of(moments) / _day_of(moments) * 24.0,
}


def varying(moments: np.ndarray, /) -> tuple[str, ...]:
    """Parts that are not the same in all of some dates, of which none is missing."""
    return tuple(part for part in _PARTS if np.ptp(part_of(moments, part)) > 0)
