"""Numbers that are written as text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

# What stands for no value among numbers and dates
GAPS = {"?", "-", "--", ".", "..", "na", "n/a", "#n/a", "n.a.", "nan", "nat", "null", "nil", "none"}
GAPS |= {"missing", "unknown", "undefined"}
_DRESSED = re.compile(r"([-+]?)\s*[$€£¥]?\s*([-+]?)(\d{1,3}(?:,\d{3})+|\d+)(\.\d*)?\s*[%$€£¥]?")
_PADDED = re.compile(r"[-+]?0\d")  # as of codes, of which the zeros are a part
_SEEN = 1000  # labels that are looked at before all are


def is_gap(label: str, /) -> bool:
    """Whether a text stands for no value."""
    return label.strip().casefold() in GAPS


def text_of(value: Any, /) -> str:
    """Write a value as a label: whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def numbers_of(labels: np.ndarray, /) -> np.ndarray:
    """Read labels (k,): plain numbers, and those with a currency, a percent sign or 1,000s.

    NaN of anything else.
    """
    import pandas as pd

    found = pd.to_numeric(pd.Series(labels, dtype=object), errors="coerce").to_numpy(np.float64)
    found = np.where(np.isfinite(found), found, np.nan)
    for k in np.flatnonzero(np.isnan(found)).tolist():
        dressed = _DRESSED.fullmatch(labels[k].strip())
        if dressed is not None:
            found[k] = float("".join(part or "" for part in dressed.groups()).replace(",", ""))
    return found


def read_as_numbers(labels: np.ndarray, /) -> bool:
    """Whether labels are numbers, apart from those that stand for no value."""
    return _all_numbers(labels[:_SEEN]) and _all_numbers(labels)


def _all_numbers(labels: np.ndarray) -> bool:
    kept = np.array([label for label in labels if not is_gap(label)], dtype=object)
    if not len(kept) or any(map(_PADDED.match, kept)):
        return False
    return not np.isnan(numbers_of(kept)).any()
