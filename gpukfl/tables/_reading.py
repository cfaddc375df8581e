"""Columns of any library as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from gpukfl._columns import WHOLE, values_in
from gpukfl._memory import release_arrow
from gpukfl.tables import _values
from gpukfl.tables._moments import as_moments
from gpukfl.tables._numerals import mixed_note, text_of
from gpukfl.tables._values import (
    BOOLEANS,
    LABELS,
    Values,
    labels,
    labels_of_parts,
    numbers,
    numbers_of_objects,
    texts,
)
from gpukfl.tables._zones import known_zone

_ROWS = 2**14  # of text that are read at once


def read_series(series: nw.Series[Any], /) -> Values:
    """Read one column of a frame."""
    native = series.to_native()
    known = getattr(native, "dtype", None)
    if isinstance(known, np.dtype) and known.kind in "iufO":  # of pandas, as it lies
        return read_objects(native) if known.kind == "O" else numbers(native.to_numpy())
    dtype = series.dtype
    if dtype.is_numeric():
        return _of_numbers(series)
    if dtype == nw.Boolean:
        return numbers(series.cast(nw.Float64).to_numpy(), BOOLEANS)
    if isinstance(dtype, (nw.Enum, nw.Categorical)):
        return _categories(series, native)
    read = next((read for known, read in _READERS.items() if dtype == known), None)
    return read(series) if read else read_objects(native)


def _of_numbers(series: nw.Series[Any]) -> Values:
    """Read numbers of a frame's own type, which may have missing values beside integers."""
    ends = () if series.dtype.is_float() else (series.min(), series.max())
    missing = series.is_null().to_list() if ends else []
    if not all(missing) and max(abs(int(end)) for end in ends) >= WHOLE:
        pairs = zip(series.to_list(), missing, strict=True)
        return numbers_of_objects([None if gap else value for value, gap in pairs])
    return numbers(series.cast(nw.Float64).to_numpy())


def read_in_blocks(series: nw.Series[Any], /) -> Iterator[Values]:
    """Read text in parts, for the memory that different ones take; all else at once.

    Objects say what they are only together.
    """
    text = series.dtype == nw.String and not _holds_objects(series)
    size = _ROWS if text else max(len(series), 1)
    for start in range(0, max(len(series), 1), size):
        yield read_series(series[start : start + size])


def release_text(n_rows: int, /) -> None:
    """Let pyarrow give back what it holds of texts that were read, where these are many.

    It keeps what it has had for what may come, here as much as the texts take.
    """
    if n_rows >= _ROWS:
        release_arrow()


def _holds_objects(series: nw.Series[Any]) -> bool:
    return str(getattr(series.to_native(), "dtype", "")) == "object"


def _read_text(series: nw.Series[Any]) -> Values:
    """Read text, that of Arrow in parts: objects of all rows would take much memory."""
    if series.implementation.is_pandas_like():
        return labels(series.to_native())
    n = len(series)
    return labels_of_parts(
        (series[start : start + _ROWS].to_numpy() for start in range(0, n, _ROWS)), n
    )


def _moments(series: nw.Series[Any]) -> Values:
    zone = known_zone(getattr(series.dtype, "time_zone", None) or "")
    local = series.dt.convert_time_zone("UTC") if zone else series
    return _values.dates(local.dt.replace_time_zone(None).to_numpy(), zone)


_READERS: dict[Any, Callable[[nw.Series[Any]], Values]] = {
    nw.String: _read_text,
    nw.Date: lambda series: _values.dates(series.to_numpy()),
    nw.Datetime: _moments,
    nw.Duration: lambda series: _values.durations(series.to_numpy()),
}


def _categories(series: nw.Series[Any], native: Any) -> Values:
    """Read a categorical column, in the order of its levels where they have one."""
    if hasattr(native, "cat") and hasattr(native.cat, "codes"):
        known = texts(map(text_of, native.cat.categories.tolist()))
        index = native.cat.codes.to_numpy().astype(np.int64)
        return Values(LABELS, index, known, declared=True, ordered=bool(native.cat.ordered))
    found = _read_text(series.cast(nw.String))
    dtype = series.dtype
    if not isinstance(dtype, nw.Enum):
        return replace(found, declared=True)
    known = texts(dtype.categories)
    place = {label: k for k, label in enumerate(known)}
    index = np.array([*(place[label] for label in found.labels), -1], dtype=np.int64)
    return Values(LABELS, index[found.data], known, declared=True, ordered=True)


def read_objects(column: Any, /) -> Values:
    """Read text and other Python objects (n,), or what narwhals does not know."""
    from pandas.api.types import infer_dtype

    array = values_in(column)
    if array.dtype.kind in "iufb":
        return numbers(array)
    inferred = "complex" if array.dtype.kind == "c" else infer_dtype(array, skipna=True)
    if inferred == "complex":
        msg = "Complex data not supported: expected real numbers"
        raise ValueError(msg)
    return _OBJECTS.get(inferred, _mixed)(array.astype(object))


def _numbers(array: np.ndarray) -> Values:
    import pandas as pd

    pairs = zip(array, pd.isna(array), strict=True)
    return numbers_of_objects([None if gap else value for value, gap in pairs])


def _booleans(array: np.ndarray) -> Values:
    return numbers(_numbers(array).data, BOOLEANS)


def _dates(array: np.ndarray) -> Values:
    """Read dates; those that pandas cannot hold are missing, with a note."""
    import pandas as pd

    times, zones = _values.moments_and_zones(array)
    found = pd.to_datetime(pd.Series(times, dtype=object), errors="coerce").to_numpy()
    lost = int(np.count_nonzero(np.isnat(found) & ~pd.isna(array)))
    note = f"{lost} dates that are out of range, which are taken for missing" if lost else ""
    return Values(_values.DATES, as_moments(found), note=note, zones=zones)


def _durations(array: np.ndarray) -> Values:
    import pandas as pd

    return _values.durations(pd.to_timedelta(pd.Series(array)).to_numpy())


def _times(array: np.ndarray) -> Values:
    """Read times of the day, in seconds."""
    import pandas as pd

    seconds = np.full(len(array), np.nan)
    for k in np.flatnonzero(~pd.isna(array)).tolist():
        seconds[k] = _values.seconds_of(array[k])
    return Values(_values.DURATIONS, seconds)


def _periods(array: np.ndarray) -> Values:
    import pandas as pd

    return _values.dates(pd.PeriodIndex(array).to_timestamp().to_numpy())


def _as_text(array: np.ndarray) -> Values:
    """Read objects as what Python prints."""
    import pandas as pd

    gaps = pd.isna(array)
    pairs = zip(array, gaps, strict=True)
    return labels(np.array([None if gap else text_of(v) for v, gap in pairs], dtype=object))


def _mixed(array: np.ndarray) -> Values:
    import pandas as pd

    found = _as_text(array)
    kinds = {type(value).__name__ for value in array[~pd.isna(array)]}
    return replace(found, note=mixed_note(found.labels, kinds))


_OBJECTS: dict[str, Callable[[np.ndarray], Values]] = {
    "string": labels,
    "empty": labels,
    "integer": _numbers,
    "floating": _numbers,
    "mixed-integer-float": _numbers,
    "decimal": _numbers,
    "boolean": _booleans,
    "datetime": _dates,
    "datetime64": _dates,
    "date": _dates,
    "timedelta": _durations,
    "timedelta64": _durations,
    "time": _times,
    "period": _periods,
    "interval": _as_text,
}
