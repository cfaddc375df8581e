"""Parts of dates."""

from __future__ import annotations

import numpy as np

PERIODS = {"month": 12.0, "day": 31.0, "weekday": 7.0, "hour": 24.0}
_DAY = np.timedelta64(1, "D") / np.timedelta64(1, "us")  # microseconds


def days_since(moments: np.ndarray, start: float = 0.0, /) -> np.ndarray:
    """Days (n,) since 1970 and a start, NaN for none."""
    days = moments.astype(np.int64) / _DAY - start
    return np.where(np.isnat(moments), np.nan, days)


def part_of(moments: np.ndarray, part: str, /) -> np.ndarray:
    """A part (n,) of dates (n,) as numbers, NaN for none."""
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
        numbers = (moments.astype(np.int64) / _DAY % 1.0) * 24.0
    return np.where(np.isnat(moments), np.nan, numbers)


def varying(moments: np.ndarray, /) -> tuple[str, ...]:
    """Parts that are not the same in all of some dates, of which none is missing."""
    parts = ("year", *PERIODS)
    return tuple(part for part in parts if np.ptp(part_of(moments, part)) > 0)
