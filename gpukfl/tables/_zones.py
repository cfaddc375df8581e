"""Time zones, read with NumPy and the standard library alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from gpukfl.tables._moments import MOMENT

GREENWICH = "UTC"
_FIXED = re.compile(r"(?:UTC|GMT)?([-+])(\d{1,2})(?::?(\d\d))?", re.IGNORECASE)
_MINUTE = timedelta(minutes=1)
_QUARTER = np.timedelta64(15, "m")  # clocks are changed at such times
# Offsets before and after are those of these days; Python's dates end not far beyond
_FIRST, _LAST = np.datetime64("1000-01-01", "D"), np.datetime64("9000-01-01", "D")


@lru_cache(maxsize=256)
def offset_of(zone: str, /) -> np.timedelta64 | None:
    """How far the local time of a zone such as UTC or +09:30 is ahead; None of one with a name."""
    if zone.upper() in ("Z", "UTC", "GMT"):
        return np.timedelta64(0, "us")
    found = _FIXED.fullmatch(zone)
    if found is None:
        return None
    minutes = int(found[2]) * 60 + int(found[3] or 0)
    return np.timedelta64(minutes if found[1] == "+" else -minutes, "m").astype("timedelta64[us]")


def zone_at(minutes: int, /) -> str:
    """Give the name of the zone that is so far ahead of Greenwich."""
    if minutes == 0:
        return GREENWICH
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"


def known_zone(zone: str | tzinfo, /) -> str:
    """Give the name of a zone; "" where nobody knows it."""
    fixed = None if isinstance(zone, str) else zone.utcoffset(None)
    if fixed is not None:
        return "" if fixed % _MINUTE else zone_at(fixed // _MINUTE)
    name = str(zone)
    try:
        return name if offset_of(name) is not None or ZoneInfo(name) else ""
    except (ZoneInfoNotFoundError, ValueError):  # of what cannot be a name
        return ""


def zone_of(zones: Iterable[str], /) -> str:
    """Give the zone in which all local times are: theirs, or that of Greenwich of several."""
    kept = tuple(zones)
    return kept[0] if len(kept) == 1 else (GREENWICH if kept else "")


def in_zone(moments: np.ndarray, zone: str, /) -> np.ndarray:
    """Local times (n,) in a zone of moments (n,) that are times of Greenwich; NaT stays.

    Raises
    ------
    ZoneInfoNotFoundError
        If this machine does not know the zone.
    """
    fixed = offset_of(zone)
    if fixed is not None:
        return moments + fixed
    known = ~np.isnat(moments)
    kept = moments[known]
    days, place = np.unique(kept.astype("datetime64[D]"), return_inverse=True)
    ahead = _ahead(days, zone)
    changes = (ahead != _ahead(days + 1, zone))[place]
    ahead = ahead[place]
    quarters = kept[changes].astype("datetime64[m]")
    quarters, place = np.unique(
        quarters - (quarters - np.datetime64(0, "m")) % _QUARTER, return_inverse=True
    )
    ahead[changes] = _ahead(quarters, zone)[place]
    found = moments.copy()
    found[known] = kept + ahead
    return found


def _ahead(times: np.ndarray, zone: str) -> np.ndarray:
    """How far local time (n,) is ahead at times of Greenwich."""
    info, listed = ZoneInfo(zone), np.clip(times, _FIRST, _LAST).astype(MOMENT).tolist()
    offsets = [_offset(time.replace(tzinfo=UTC), info) for time in listed]
    return np.array(offsets, dtype="timedelta64[us]")


def _offset(time: datetime, zone: ZoneInfo) -> object:
    return time.astimezone(zone).utcoffset()
