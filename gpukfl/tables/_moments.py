"""Dates in text, read with NumPy alone: those whose meaning no library has to guess."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import numpy as np

from gpukfl.tables._numerals import is_gap

MOMENT = "datetime64[us]"
_FINE, _FINER = "datetime64[ns]", ("ns", "ps", "fs", "as")
_NANOSECONDS = 1000  # of a microsecond
_FIRST, _LAST = np.datetime64("1678-01-01", "us"), np.datetime64("2262-01-01", "us")
_OFFSET = re.compile(r"(:\d\d(?:\.\d+)?) ?(Z|(?:UTC|GMT)?[-+]\d{1,2}(?::?\d\d)?|UTC|GMT)$")
_BEYOND = re.compile(r":\d\d\.\d{6}(\d{1,3})\d*$")  # nanoseconds
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_CLOCK = (
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<part>\d+))?)?"
    r"(?: ?(?P<half>[ap])m)?)?"
)
_FORMS = tuple(
    re.compile(form + _CLOCK, re.IGNORECASE | re.ASCII)
    for form in (
        r"(?P<year>\d{4})(?P<sep>[-/.])(?P<month>\d{1,2})(?:(?P=sep)(?P<day>\d{1,2}))?",
        r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)",
        r"(?P<first>\d{1,2})(?P<sep>[-/.])(?P<then>\d{1,2})(?P=sep)(?P<year>\d{4})",
        rf"(?P<day>\d{{1,2}})[- ]{_MONTH}[- ](?P<year>\d{{4}})",
        rf"{_MONTH} (?P<day>\d{{1,2}}),? (?P<year>\d{{4}})",
        rf"{_MONTH}[- ](?P<year>\d{{4}})",
    )
)


def as_moments(times: np.ndarray, /) -> np.ndarray:
    """Return dates (n,) in microseconds, or in nanoseconds where some have a part of one."""
    if np.datetime_data(times.dtype)[0] not in _FINER:
        return times.astype(MOMENT)
    fine = times.astype(_FINE)
    parts = fine.view(np.int64) % _NANOSECONDS != 0
    return fine if (parts & ~np.isnat(fine)).any() else fine.astype(MOMENT)


def with_nanoseconds(moments: np.ndarray, beyond: np.ndarray, /) -> np.ndarray:
    """Add nanoseconds (n,), of each microsecond at most 999, to dates (n,) in microseconds."""
    if not beyond.any():
        return moments
    known = moments[~np.isnat(moments)]
    if not ((known >= _FIRST) & (known <= _LAST)).all():  # those that nanoseconds do not reach
        return moments
    return moments.astype(_FINE) + beyond.astype("timedelta64[ns]")


def local(label: str, /) -> str:
    """Give a date in text without how far its time is from that of Greenwich."""
    return _OFFSET.sub(r"\1", label.strip())


def zone_in(label: str, /) -> str:
    """Give how far the time of a date in text is from that of Greenwich; "" if it does not say."""
    found = _OFFSET.search(label.strip())
    return found[2] if found else ""


def moments_of(labels: np.ndarray, day_first: bool, /) -> np.ndarray:
    """Read labels (k,) as dates in local time; NaT of those that stand for no value.

    Raises
    ------
    ValueError
        If one is neither.
    """
    found = [None if is_gap(label) else _moment_of(label, day_first) for label in labels]
    parts = (_BEYOND.search(local(label)) for label in labels)
    beyond = np.array([int(f"{part[1]:0<3}") if part else 0 for part in parts], dtype=np.int64)
    return with_nanoseconds(np.array(found, dtype=MOMENT), beyond)


def _moment_of(label: str, day_first: bool) -> datetime:
    text = local(label)
    for form in _FORMS:
        match = form.fullmatch(text)
        if match is not None:
            try:
                return _made(match.groupdict(), day_first)
            except ValueError:
                break
    msg = f"expected dates such as 2020-01-31 or 2020-01-31 18:30:00, got {label!r}"
    raise ValueError(msg)


def _made(parts: dict[str, str | None], day_first: bool) -> datetime:
    if parts.get("first"):
        month, day = _ordered(int(parts["first"] or 0), int(parts["then"] or 0), day_first)
    else:
        month, day = _month(parts["month"] or ""), int(parts.get("day") or 1)
    hour, minute, second = (int(parts[name] or 0) for name in ("hour", "minute", "second"))
    if parts["half"]:
        if not 1 <= hour <= 12:
            msg = f"expected an hour of half a day, got {hour}"
            raise ValueError(msg)
        hour = hour % 12 + 12 * (parts["half"].lower() == "p")
    micro = int(f"{parts['part'] or '':0<6}"[:6])
    return datetime(int(parts["year"] or 0), month, day, hour, minute, second) + timedelta(
        microseconds=micro
    )


def _ordered(first: int, then: int, day_first: bool) -> tuple[int, int]:
    """Month and day, of which one that exceeds 12 is the day."""
    month, day = (then, first) if day_first else (first, then)
    return (month, day) if month <= 12 else (day, month)


def _month(text: str) -> int:
    return int(text) if text.isdigit() else 1 + _MONTHS.index(text[:3].lower())
