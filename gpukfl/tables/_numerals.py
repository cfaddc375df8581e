"""Numbers in text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from gpukfl.core._frames import GAPS, WHOLE

_GROUP = "[,'\u2019\u00a0\u2009\u202f]"  # between groups of three digits
_NUMERAL = re.compile(
    rf"([-+]?)\s*([$€£¥₹]?)\s*([-+]?)([1-9]\d{{0,2}}(?:{_GROUP}\d{{3}})+|\d+)(\.\d*)?"
    r"\s*([%$€£¥₹°]|[^\W\d_]\D{0,9})?"
)
_PLAIN = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", re.IGNORECASE | re.ASCII)
# Missing values in frames beside those of `GAPS`: infinite numbers, and what pandas writes
_WRITTEN_GAP = re.compile(r"[-+]?inf(?:inity)?|<na>")
SIGNS = tuple("$€£¥₹%")  # units that readers of files remove
CLOCK = ":"  # the unit of times such as 13:45 or 13:45:10, read in seconds
_INTEGER = re.compile(r"([-+]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+))(?:\.0*)?", re.ASCII)
_TIME = re.compile(
    r"(?:(-?\d+) days?,? \+?)?(\d{1,4}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?", re.ASCII
)
_SECONDS_PER_DAY = 86_400  # seconds
_BRACKETED = re.compile(r"\((.*\d.*)\)")  # accountants' negative numbers
_COMMAS = str.maketrans(".,", ",.")
_PADDED = re.compile(r"[-+]?0\d")  # a code, whose zeros must stay
_VERSION = re.compile(r"\d{1,3}\.\d{1,3}", re.ASCII)
VERSIONS = 64  # at most so many different numbers may be versions
_POWER = re.compile(r"\d+e\d+", re.IGNORECASE | re.ASCII)  # perhaps a code: programs write 1e+05
PROBE = 1000  # labels tested first, before all labels are


def is_gap(label: str, unit: str = "", /) -> bool:
    """Whether a text means a missing value, perhaps with a unit."""
    word = label.strip().casefold().removesuffix(unit).strip()
    return word in GAPS or _WRITTEN_GAP.fullmatch(word) is not None


def format_number(value: Any, /) -> str:
    """Return a value as a label, whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def parse_labels(labels: np.ndarray, unit: str = "", decimal: str = ".", /) -> np.ndarray:
    """Parse labels (k,) to numbers, perhaps with digit groups or a given unit.

    Times of the day have the unit `CLOCK`. Other labels give NaN. With decimal commas, points
    separate groups of digits.
    """
    labels = _swap_commas(labels, decimal)
    found = np.array([_parse_plain(label) for label in labels], dtype=np.float64)
    found = np.where(np.isfinite(found), found, np.nan)
    for k in np.flatnonzero(np.isnan(found)).tolist():
        number, own = _parse_label(labels[k])
        if own in ("", unit):
            found[k] = number
    return found


def parse_integer(label: str, /) -> int | None:
    """Parse an integer of any length, perhaps with digit groups; None for others."""
    found = _INTEGER.fullmatch(label.strip())
    return int(found[1].replace(",", "")) if found else None


def parse_integers(labels: np.ndarray, decimal: str = ".", /) -> np.ndarray | None:
    """Parse labels (k,) without rounding; None unless some integer is beyond 2⁵³."""
    written = _swap_commas(labels, decimal)
    whole = [parse_integer(label) for label in written]
    if not any(number is not None and abs(number) >= WHOLE for number in whole):
        return None
    floats = parse_labels(labels, "", decimal)
    found = np.zeros(len(whole), dtype=object)
    for k, number in enumerate(whole):
        found[k] = float(floats[k]) if number is None else number
    return found


def _parse_plain(label: str) -> float:
    text = label.strip()
    return float(text) if _PLAIN.fullmatch(text) else np.nan


def _swap_commas(labels: np.ndarray, decimal: str) -> Any:
    return labels if decimal == "." else [label.translate(_COMMAS) for label in labels]


def _parse_label(label: str) -> tuple[float, str]:
    """Return a number and its currency or unit; times of day in seconds."""
    time = _TIME.fullmatch(label.strip())
    if time is not None:
        hours = int(time[1] or 0) * 24 + int(time[2])
        return hours * 3600 + int(time[3]) * 60 + float(time[4] or 0), CLOCK
    usual = label.strip().replace("\u2212", "-")
    found = _NUMERAL.fullmatch(_BRACKETED.sub(r"-\1", usual))
    if found is None or (found[1] and found[3]):
        return np.nan, ""
    sign, before, inner, whole, part, after = (group or "" for group in found.groups())
    digits = re.sub(_GROUP, "", whole)
    return float(sign + inner + digits + part), (before + after).strip().casefold()


def detect_notation(labels: np.ndarray, first: str = ".", /) -> tuple[str, str]:
    """Return the first unit among labels, or "", and their decimal mark.

    The mark is `first` unless labels are numbers only with the other one.
    """
    for decimal in (first, *(mark for mark in ".," if mark != first)):
        unit = _detect_unit(labels, decimal)
        marked = decimal == first or any(decimal in label for label in labels[:PROBE])
        if marked and are_numbers(labels, unit, decimal):
            return unit, decimal
    return _detect_unit(labels, first), first


def _detect_unit(labels: np.ndarray, decimal: str) -> str:
    units = (_parse_label(label)[1] for label in _swap_commas(labels[:PROBE], decimal))
    return next(filter(None, units), "")


def are_numbers(labels: np.ndarray, unit: str, decimal: str = ".", /) -> bool:
    """Whether all nonmissing labels are numbers of one unit."""
    return all(_all_are_numbers(some, unit, decimal) for some in (labels[:PROBE], labels))


def ambiguous_label(labels: np.ndarray, unit: str, decimal: str, /) -> str:
    """Return a label whose comma may be decimal, or ""."""
    marked = [label for label in labels if "," in label]
    if CLOCK in unit or decimal != "." or not marked or not are_numbers(labels, unit, ","):
        return ""
    return str(marked[0])


def doubtful_number_text(labels: Iterable[str], unit: str = "", /) -> str:
    """Return a remark on numbers or times that may be something else, or ""."""
    kept = [label.strip() for label in labels if not is_gap(label, unit)]
    if unit == CLOCK:
        return _doubtful_time_text(kept)
    version = _find_version(kept)
    if version:
        return f"{version!r} is read as the number {float(version):g}"
    powers = [label for label in kept if _POWER.fullmatch(label)]
    if powers and len(powers) == len(kept):
        return f"{powers[0]!r} is read as the number {float(powers[0]):g}"
    return ""


def _find_version(kept: list[str]) -> str:
    """Return a label such as 1.10 beside 1.9, whose last zero a number would not have, or ""."""
    if not kept or len(kept) > VERSIONS or not all(map(_VERSION.fullmatch, kept)):
        return ""
    if all(label.startswith("0") for label in kept):  # shares
        return ""
    digits = {label: len(label.partition(".")[2]) for label in kept}
    least = min(digits.values())
    return next((label for label in kept if label.endswith("0") and digits[label] > least), "")


def _doubtful_time_text(kept: list[str]) -> str:
    """Return a remark on times of two parts beyond a day, beside times of three parts, or ""."""
    long = next((label for label in kept if label.count(":") == 2), "")
    for label in kept if long else ():
        if label.count(":") == 1 and _parse_label(label)[0] >= _SECONDS_PER_DAY:
            return f"{label!r} is read as hours and minutes, beside {long!r}"
    return ""


def mixed_note(labels: np.ndarray, types: Iterable[str], /) -> str:
    """Return a remark on a column with several types, or ""."""
    if are_numbers(labels, *detect_notation(labels)):
        return ""
    return f"values of type {', '.join(sorted(types)[:5])}, which are read as text"


def has_zero_padded(labels: Iterable[str], /) -> bool:
    """Whether some labels have leading zeros, as codes do."""
    return any(_PADDED.match(label.strip()) for label in labels)


def _all_are_numbers(labels: np.ndarray, unit: str, decimal: str) -> bool:
    kept = np.array([label for label in labels if not is_gap(label, unit)], dtype=object)
    if unit == CLOCK:
        return len(kept) > 0 and all(_TIME.fullmatch(label.strip()) for label in kept)
    if not len(kept) or has_zero_padded(kept):
        return False
    return not np.isnan(parse_labels(kept, unit, decimal)).any()
