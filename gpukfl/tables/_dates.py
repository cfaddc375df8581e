"""Dates in text, and the parts of dates."""

from __future__ import annotations

import re

import numpy as np

from gpukfl._accel.trust import only_numpy
from gpukfl.tables._moments import MOMENT, local, moments_of
from gpukfl.tables._numerals import is_gap

PERIODS = {"month": 12.0, "day": 31.0, "weekday": 7.0, "hour": 24.0}
_DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")  # microseconds
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    r"(?:(?:19|20)\d{6}(?=T|$)|\d{4}[-/.]\d{1,2}(?:[-/.]\d{1,2})?|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d\d)"
    rf"|\d{{1,2}}[- ]{_MONTH}[- ]\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}}|{_MONTH}[- ]\d{{4}})"
    r"(?:[T ]+\d{1,2}:\d\d.*|T\d{4,6})?",
    re.IGNORECASE,
)
_TWO_FIRST = re.compile(r"\s*(\d{1,2})([-/.])(\d{1,2})[-/.]")
_SEEN = 1000  # labels that are looked at before all are


def read_as_dates(labels: np.ndarray, /) -> bool:
    """Whether labels are dates, apart from those that stand for no value."""
    return _all_dates(labels[:_SEEN]) and _all_dates(labels)


def _all_dates(labels: np.ndarray) -> bool:
    kept = [label for label in labels if not is_gap(label)]
    return bool(kept) and all(_DATE.fullmatch(label.strip()) for label in kept)


def has_day_first(labels: np.ndarray, /) -> bool:
    """Whether days stand before months: by what exceeds 12, else wherever no slashes are."""
    found = [match for label in labels if (match := _TWO_FIRST.match(label))]
    first = max((int(match[1]) for match in found), default=0)
    second = max((int(match[3]) for match in found), default=0)
    if (first > 12) != (second > 12):
        return first > 12
    return bool(found) and found[0][2] != "/"


def dates_of(labels: np.ndarray, day_first: bool, /) -> np.ndarray:
    """Read labels (k,) as dates in local time; NaT of anything else.

    Raises
    ------
    ValueError
        With NumPy alone, of what is neither a date that it reads nor stands for no value.
    """
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
    return found.dt.tz_localize(None).to_numpy().astype(MOMENT)


def days_since(moments: np.ndarray, start: float = 0.0, /) -> np.ndarray:
    """Days (n,) since 1970 and a start, NaN for none."""
    days = moments.astype(np.int64) / _DAY - start
    return np.where(np.isnat(moments), np.nan, days)


def part_of(moments: np.ndarray, part: str, /) -> np.ndarray:
    """Give a part (n,) of dates (n,) as numbers, NaN for none."""
    numbers: np.ndarray
    if part == "year":
        numbers = 1970 + moments.astype("datetime64[Y]").astype(np.int64)
    elif part == "month":
        numbers = 1 + moments.astype("datetime64[M]").astype(np.int64) % 12
    elif part == "day":
        days = moments.astype("datetime64[D]") - moments.astype("datetime64[M]")
        numbers = 1 + days.astype(np.int64)
    elif part == "weekday":
        numbers = (moments.astype("datetime64[D]").astype(np.int64) + 3) % 7  # 1970: a Thursday
    else:
        numbers = moments.astype(np.int64) % int(_DAY) / _DAY * 24.0
    return np.where(np.isnat(moments), np.nan, numbers)


def varying(moments: np.ndarray, /) -> tuple[str, ...]:
    """Parts that are not the same in all of some dates, of which none is missing."""
    parts = ("year", *PERIODS)
    return tuple(part for part in parts if np.ptp(part_of(moments, part)) > 0)
