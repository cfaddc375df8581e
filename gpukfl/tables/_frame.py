"""Tables of any library read as named columns, and columns read as values.

In the NumPy-only runtime, columns are read with NumPy and their own library, without pandas.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from gpukfl._accel.trust import is_numpy_only
from gpukfl.core._array import is_array, to_host
from gpukfl.core._frames import (
    WHOLE,
    NotANumberError,
    check_in_memory,
    check_no_series,
    check_rows,
    check_size,
    column_array,
    column_names,
    column_values,
    is_gap,
    parts_of_name,
    to_numbers,
)
from gpukfl.core._memory import release_arrow
from gpukfl.tables._dates import as_moments, known_zone
from gpukfl.tables._numerals import format_number, mixed_note
from gpukfl.tables._values import (
    BOOLEANS,
    DATES,
    DURATIONS,
    LABELS,
    Values,
    durations,
    durations_of_objects,
    labels,
    labels_from_indices,
    labels_of_parts,
    moments_and_zones,
    moments_of_objects,
    numbers,
    numbers_of_objects,
    texts,
    time_seconds,
)

# ------------------------------------------------------------------------------- frames


@dataclass(frozen=True, eq=False)
class Frame:
    """Named columns that are read one at a time.

    Attributes
    ----------
    names : tuple of str
        Distinct names.
    named : bool
        Whether the data have these names; else they are x0, x1, ...
    n_rows : int
        Number of rows.
    column : callable
        Returns the column at an index in the library of the data.
    """

    names: tuple[str, ...]
    named: bool
    n_rows: int
    column: Callable[[int], Any]


def read_frame(X: Any, /, *, besides: str = "", known: Iterable[str] = ()) -> Frame:
    """Read a frame, an array, rows, dicts, a dict of columns or a structured array.

    Columns named by the target `besides` are left out unless they are `known`. Raises TypeError or
    ValueError for other data, data not in memory, duplicate names, or unequal lengths.
    """
    check_in_memory(X)
    check_no_series(X)
    columns: Any = X
    if is_named(X):
        columns, named = _columns_of_dicts(X), True
        keys, n = list(columns), _count_rows(columns)
    elif hasattr(X, "column_names") or hasattr(X, "columns"):
        named, n = True, len(X)
        keys = column_names(X)
    else:
        columns, named = _make_rows(X).T, False
        keys, n = list(range(len(columns))), columns.shape[1]
    names = [str(key) if named else f"x{key}" for key in keys]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        msg = f"expected different column names, got two columns called {twice[0]!r}"
        raise ValueError(msg)
    places = list(range(len(names)))
    if named and besides:
        left_out = parts_of_name(besides).difference(known)
        places = [at for at in places if names[at] not in left_out]

    def column(k: int) -> Any:
        at = places[k]
        return X.iloc[:, at] if hasattr(X, "iloc") else columns[keys[at]]

    return Frame(tuple(names[at] for at in places), named, n, column)


def is_named(X: Any, /) -> bool:
    """Whether the data are a dict of columns, a list of dicts, or a structured array."""
    if isinstance(X, Mapping):
        return True
    if isinstance(X, np.ndarray):
        return X.dtype.names is not None
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(x, Mapping) for x in X)


def _columns_of_dicts(X: Any) -> dict[Any, Any]:
    """Return the columns of dicts or of a structured array by name."""
    if isinstance(X, Mapping):
        return dict(X)
    if isinstance(X, np.ndarray):
        return {name: X[name] for name in X.dtype.names}
    names = dict.fromkeys(name for row in X for name in row)
    return {name: [row.get(name) for row in X] for name in names}


def _count_rows(columns: dict[Any, Any]) -> int:
    """Count the rows of columns."""
    for name, column in columns.items():
        if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
            msg = f"column {str(name)!r}: expected a list or an array, got {column!r}"
            raise TypeError(msg)
    lengths = {str(name): len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        msg = f"expected columns of the same length and at least one row, got {str(lengths)[:200]}"
        raise ValueError(msg)
    return next(iter(lengths.values()))


def _make_rows(X: Any) -> np.ndarray:
    """Convert rows to an array (n, d), of objects if NumPy would convert types."""
    if is_array(X) or hasattr(X, "__array__"):
        rows = to_host(X) if is_array(X) else np.asarray(X)
        _check_shape(rows)
        return rows
    listed = list(X)
    are_rows = all(isinstance(row, Sequence | np.ndarray) for row in listed)
    check_rows(listed)
    if not are_rows or isinstance(listed[0], str):
        _check_shape(np.empty(len(listed)))
    lengths = [len(row) for row in listed]
    if min(lengths) != max(lengths):
        msg = f"expected rows of the same length, got {min(lengths)} to {max(lengths)} values"
        raise ValueError(msg)
    rows = np.empty((len(listed), lengths[0]), dtype=object)
    for k, row in enumerate(listed):
        rows[k] = list(row)
    return rows


def _check_shape(X: np.ndarray) -> None:
    if X.ndim != 2:
        msg = f"Expected 2D array, got {X.ndim}D array instead. Reshape your data: (n, d)"
        raise ValueError(msg)


def check_any(frame: Frame, /) -> None:
    """Raise ValueError unless there are rows and columns to learn from."""
    check_size((frame.n_rows, len(frame.names)), 1)


def read_column(frame: Frame, k: int, /) -> Values:
    """Read a column.

    Raises ValueError if it holds complex numbers; names it.
    """
    with name_column_in_errors(frame.names[k]):
        return read_values(frame.column(k))


def read_whole(frame: Frame, k: int, /) -> Iterator[Values]:
    """Read a column as one part."""
    yield read_column(frame, k)


def read_blocks(frame: Frame, k: int, /) -> Iterator[Values]:
    """Read a text column in parts; raise as `read_column` does."""
    with name_column_in_errors(frame.names[k]):
        yield from read_in_blocks(frame.column(k))


@contextlib.contextmanager
def name_column_in_errors(name: str, /) -> Iterator[None]:
    """Add the name of the column to errors."""
    try:
        yield
    except ValueError as error:
        msg = f"column {name!r}: {error}"
        raise ValueError(msg) from error


# ------------------------------------------------------------------------------ columns


_BLOCK_ROWS = 2**14  # texts read at once
# Names of text types in pandas, polars and Arrow
_TEXT_TYPE = re.compile(r"(large_)?(str|string|string_view)(\[.*\])?", re.IGNORECASE)
_CATEGORY_TYPES = ("Categorical", "Enum", "dictionary<")  # in polars and Arrow
_TYPES_OF_SORT: tuple[tuple[str, tuple[type, ...]], ...] = (
    ("text", (str,)),
    ("boolean", (bool, np.bool_)),
    ("duration", (timedelta, np.timedelta64)),  # before integers, of which it is a subclass
    ("number", (int, float, np.integer, np.floating)),
    ("decimal", (Decimal,)),
    ("date", (datetime, date, np.datetime64)),
    ("time", (time,)),
    ("complex", (complex, np.complexfloating)),
)
_NEVER_MISSING = {str, int, bool, type(None)}  # types without a missing value, and None


def read_values(column: Any, /) -> Values:
    """Read a column (n,): a list, an array, or a column of pandas, polars or Arrow.

    Raises ValueError if it holds complex numbers, or is an array of more dimensions.
    """
    if isinstance(column, (list, tuple)):
        return read_objects(column)
    dtype = getattr(column, "dtype", None)
    if isinstance(dtype, np.dtype):  # of NumPy, and of pandas
        return _read_array(np.asarray(column))
    name, read = _type_name(column), _read_others
    if name == "category":
        read = _read_categories_of_pandas
    elif name.startswith(_CATEGORY_TYPES):
        read = _read_categories
    elif _TEXT_TYPE.fullmatch(name):
        read = _read_text
    elif _zone_name(column):
        read = _read_moments
    elif hasattr(column, "iloc") and getattr(dtype, "kind", "O") in "iufb":
        read = _read_masked_numbers
    return read(column)


def read_in_blocks(column: Any, /) -> Iterator[Values]:
    """Read text in parts, to limit memory; other values at once."""
    if not _TEXT_TYPE.fullmatch(_type_name(column)):
        yield read_values(column)
        return
    for part in _row_blocks(column):
        yield read_values(part)


def release_text(n_rows: int, /) -> None:
    """Let pyarrow return its unused memory after many texts."""
    if n_rows >= _BLOCK_ROWS:
        release_arrow()


def read_numbers(column: Any, /) -> np.ndarray:
    """Read a numeric column (n,), with NaN for missing values; infinite ones stay.

    Raises NotANumberError if a value is neither a number nor missing.
    """
    array = column_array(column) if hasattr(column, "__array__") else texts(column)
    is_category = str(getattr(column, "dtype", "")) == "category"
    if array.ndim == 1 and array.dtype.kind in "mM" and np.isnat(array).all():
        return np.full(len(array), np.nan)
    if array.ndim == 1 and array.dtype.kind in "biuf" and not is_category:
        return array.astype(np.float64, copy=False)
    if array.ndim != 1 or array.dtype.kind not in "OUST" or is_category:
        raise NotANumberError(next(iter(column), None))
    return to_numbers(array)


# ---------------------------------------------------------------------- columns of libraries


def _type_name(column: Any) -> str:
    """Return the type name of a column of pandas, polars or Arrow."""
    dtype = getattr(column, "dtype", None)
    return str(getattr(column, "type", "") if dtype is None else dtype)


def _zone_name(column: Any) -> str:
    """Return the time zone of a column, or ""."""
    of_arrow = getattr(getattr(column, "type", None), "tz", None)
    dtype = getattr(column, "dtype", None)
    return str(getattr(dtype, "tz", None) or getattr(dtype, "time_zone", None) or of_arrow or "")


def _row_blocks(column: Any) -> Iterator[Any]:
    rows = getattr(column, "iloc", column)
    for start in range(0, max(len(column), 1), _BLOCK_ROWS):
        yield rows[start : start + _BLOCK_ROWS]


def _read_array(array: np.ndarray) -> Values:
    if array.ndim != 1:
        msg = f"expected a one-dimensional column, got shape {array.shape}"
        raise ValueError(msg)
    if array.dtype.kind == "c":
        raise ValueError(_NO_REAL_NUMBERS)
    make = _BY_DTYPE.get(array.dtype.kind)
    return read_objects(array) if make is None else make(array)


def _read_text(column: Any) -> Values:
    """Read text, with Arrow if installed, which needs no Python object for each row."""
    if hasattr(column, "iloc") and not is_numpy_only():
        return labels(column)
    if hasattr(column, "to_arrow"):  # of polars
        with contextlib.suppress(ModuleNotFoundError):
            column = column.to_arrow()
    if not hasattr(column, "dictionary_encode"):
        return labels_of_parts(map(np.asarray, _row_blocks(column)), len(column))
    found = column.dictionary_encode()
    found = found.combine_chunks() if hasattr(found, "combine_chunks") else found
    index = found.indices.fill_null(-1).to_numpy().astype(np.int64)
    return labels_from_indices(index, found.dictionary.to_pylist())


def _read_categories_of_pandas(column: Any) -> Values:
    known = texts(map(format_number, column.cat.categories.tolist()))
    index, ordered = np.asarray(column.cat.codes).astype(np.int64), bool(column.cat.ordered)
    return Values(LABELS, index, known, declared=True, ordered=ordered)


def _read_categories(column: Any) -> Values:
    """Read a categorical column of polars or Arrow, with its order."""
    of_arrow, of_pandas = hasattr(column, "to_pylist"), hasattr(column, "iloc")
    cast = column.astype if of_pandas else column.cast
    found = _read_text(cast("string" if of_arrow or of_pandas else str))
    if not _type_name(column).startswith("Enum"):
        return replace(found, declared=True)
    known = texts(column.dtype.categories)
    place = {label: k for k, label in enumerate(known)}
    index = np.array([*(place[label] for label in found.labels), -1], dtype=np.int64)
    return Values(LABELS, index[found.data], known, declared=True, ordered=True)


def _read_moments(column: Any) -> Values:
    """Read times of a zone as UTC, or as local times if the zone is unknown."""
    known = known_zone(_zone_name(column))
    if hasattr(column, "iloc"):
        there = column.dt.tz_convert("UTC") if known else column
        array = there.dt.tz_localize(None).to_numpy()
    elif known:
        array = np.asarray(column)  # polars and Arrow give UTC
    elif hasattr(column, "dt"):
        array = column.dt.replace_time_zone(None).to_numpy()
    else:
        from pyarrow.compute import local_timestamp

        array = np.asarray(local_timestamp(column))
    return Values(DATES, as_moments(array), zones=(known,) if known else ())


def _read_masked_numbers(column: Any) -> Values:
    """Read numbers of a nullable pandas type."""
    data, kind = column.to_numpy(dtype=np.float64, na_value=np.nan), column.dtype.kind
    if kind in "iu" and (np.abs(data) >= WHOLE).any():
        return read_objects(column.tolist())
    return numbers(data, BOOLEANS) if kind == "b" else numbers(data)


def _read_others(column: Any) -> Values:
    """Read values with NumPy; integers that it would round are read as objects."""
    array = column_values(column)
    if array.dtype.kind == "f" and (np.abs(array) >= WHOLE).any():
        return read_objects(column.to_pylist() if hasattr(column, "to_pylist") else list(column))
    return _read_array(array)


# ---------------------------------------------------------------------- Python's values


def read_objects(values: Sequence[Any] | np.ndarray, /) -> Values:
    """Read Python values (n,) by their type, apart from missing ones.

    Raises ValueError if they are complex numbers.
    """
    kept = values.tolist() if isinstance(values, np.ndarray) else list(values)
    kinds = set(map(type, kept))
    if not kinds <= _NEVER_MISSING:
        kept = [None if is_gap(value) else value for value in kept]
        kinds = set(map(type, kept))
    sorts = set(map(_sort_of_type, kinds - {type(None)}))
    sort = sorts.pop() if len(sorts) == 1 else ("other" if sorts else "text")
    return _BY_SORT[sort](kept)


def _sort_of_type(kind: type) -> str:
    found = (sort for sort, kinds in _TYPES_OF_SORT if issubclass(kind, kinds))
    of_pandas = "period" if hasattr(kind, "to_timestamp") else "interval"
    return next(found, of_pandas if kind.__name__ in ("Period", "Interval") else "other")


def _from_booleans(kept: list[Any]) -> Values:
    if set(map(type, kept)) <= {bool, type(None)}:
        return numbers(np.array(kept, dtype=np.float64), BOOLEANS)
    return numbers_of_objects(kept, BOOLEANS)


def _from_texts(kept: list[Any]) -> Values:
    return labels_of_parts([kept], len(kept))


def _from_dates(kept: list[Any]) -> Values:
    times, zones = moments_and_zones(kept)
    return Values(DATES, moments_of_objects(times), zones=zones)


def _from_periods(kept: list[Any]) -> Values:
    return _from_dates([None if value is None else value.to_timestamp() for value in kept])


def _from_times(kept: list[Any]) -> Values:
    seconds = [np.nan if value is None else time_seconds(value) for value in kept]
    return Values(DURATIONS, np.array(seconds, dtype=np.float64))


def _refuse_complex(_: list[Any]) -> Values:
    raise ValueError(_NO_REAL_NUMBERS)


def _from_objects_as_text(kept: list[Any]) -> Values:
    """Read objects as their text."""
    return _from_texts([None if value is None else format_number(value) for value in kept])


def _from_other_objects(kept: list[Any]) -> Values:
    found = _from_objects_as_text(kept)
    kinds = {type(value).__name__ for value in kept if value is not None}
    return replace(found, note=mixed_note(found.labels, kinds))


_NO_REAL_NUMBERS = "Complex data not supported: expected real numbers"
_BY_DTYPE: dict[str, Callable[[np.ndarray], Values]] = {
    **dict.fromkeys("iuf", numbers),
    "b": lambda array: numbers(array, BOOLEANS),
    "M": lambda array: Values(DATES, as_moments(array)),
    "m": durations,
}
_BY_SORT: dict[str, Callable[[list[Any]], Values]] = {
    "text": _from_texts,
    "boolean": _from_booleans,
    "number": numbers_of_objects,
    "decimal": numbers_of_objects,
    "date": _from_dates,
    "time": _from_times,
    "duration": durations_of_objects,
    "period": _from_periods,
    "interval": _from_objects_as_text,
    "complex": _refuse_complex,
    "other": _from_other_objects,
}
