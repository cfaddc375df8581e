"""Conversion of data frames of any library to numbers, and errors about their columns."""

from __future__ import annotations

import numbers
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from gpukfl.core._array import Array, array_namespace, is_array, to_host, unsupported_storage

# Words that mean a missing value among numbers and dates
GAPS = frozenset(
    {
        *("?", "-", "--", "---", ".", "..", "...", "*", "n/a", "n.a.", "n.a", "na", "n/d", "n.d."),
        *("nan", "nat", "nil", "none", "null", "(null)", "missing", "unknown", "undefined"),
        *("not available", "#n/a", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"),
    }
)
SEVERAL = ", "  # separator of the names of several targets
WHOLE = 2.0**53  # float64 has all integers up to this one
WIDE = ("Int128", "UInt128")  # types of polars that NumPy does not have
TOO_LONG = "expected numbers below 1.8e308, the largest of float64, got a larger integer"
_MISSING_TYPES = ("NAType", "NaTType")  # classes of pandas's missing values
_NAN_TYPES = (float, np.floating, Decimal, np.datetime64, np.timedelta64)  # missing: x != x
_PLAIN_TYPES = {float, int, bool, np.float64, np.float32, np.int64, np.bool_, type(None)}
_TEXT_KINDS = "OUST"  # kinds of dtypes that may hold numbers as text, and any missing values
_MAX_NAMED = 10  # columns that a message names
_ADVICE = {  # by kinds of columns
    "text": "encode categories (pandas.get_dummies)",
    "numbers as text": "convert text to numbers (pandas.to_numeric)",
    "categories": "encode categories (pandas.get_dummies)",
    "dates as text": "convert dates to numbers (days since the first)",
    "dates": "convert dates to numbers (days since the first)",
    "durations": "convert durations to numbers (.dt.total_seconds())",
}
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2} [A-Za-z]{3,9} \d{4})"
    r"([T ].*)?"
)


def as_frame(X: Any, /) -> Any:
    """Convert a frame of any library to pandas, and an array of Arrow to a series.

    Anything else stays as it is.

    Raises
    ------
    TypeError
        If the frame is not in memory.
    """
    if not is_frame(X):
        if not type(X).__module__.startswith("pyarrow"):
            return X
        return X.to_pandas(integer_object_nulls=True)  # floats would round integers
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return stringify_names(X)
    return pd.DataFrame({name: column_values(X[name]) for name in column_names(X)})


def column_values(values: Any, /) -> np.ndarray:
    """Convert a column to an array (n,); sequences become objects."""
    found = column_array(values)
    if found.ndim == 1:
        return found
    objects = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        objects[k] = value
    return objects


def column_array(values: Any, /) -> np.ndarray:
    """Convert a column to an array; times of day of Arrow are rounded to microseconds."""
    if str(getattr(values, "dtype", "")) in WIDE:
        return np.array(list(values), dtype=object)
    if str(getattr(values, "type", "")) == "time64[ns]":
        import pyarrow as pa

        values = values.cast(pa.time64("us"), safe=False)
    found = np.asarray(values)
    is_float_list = isinstance(values, (list, tuple)) and found.dtype.kind == "f"
    if is_float_list and (np.abs(found) >= WHOLE).any():  # NumPy may have rounded integers
        return np.array(values, dtype=object)
    return found


class NotANumberError(ValueError):
    """A value that is not a number.

    Attributes
    ----------
    value : object
        The value.
    """

    def __init__(self, value: Any, /) -> None:
        super().__init__(f"expected numbers, got {value!r}")
        self.value = value


def to_numbers(values: Sequence[Any] | np.ndarray, /) -> np.ndarray:
    """Convert objects or text to numbers (n,), with NaN for missing values.

    None, pandas's NA and NaT, blank text and the words of `GAPS` are missing. Text is converted as
    Python does.

    Raises
    ------
    NotANumberError
        If a value is neither a number nor missing.
    ValueError
        If an integer is too large for float64.
    """
    items = values.tolist() if isinstance(values, np.ndarray) else list(values)
    try:
        if set(map(type, items)) <= _PLAIN_TYPES:
            return np.array(items, dtype=np.float64)
        return np.array([_to_number(value) for value in items], dtype=np.float64)
    except OverflowError:
        raise ValueError(TOO_LONG) from None


def plain_numbers(values: np.ndarray, /) -> np.ndarray:
    """Convert an object array of numbers to a numeric one.

    Integers beyond 2⁵³ stay exact, as int64 or uint64 if these hold all of them, else as Python's
    integers. Raises ValueError if an integer beside other numbers is too large for float64.
    """
    items = values.ravel().tolist()
    found = np.array(items)
    if found.dtype.kind not in "biu":
        found = _to_exact_array(items)
    return found.reshape(values.shape)


def _to_exact_array(items: list[Any]) -> np.ndarray:
    """Return an integer array if all are integers and some are beyond 2⁵³, else a float array."""
    exact: list[Any] = [v for v in items if isinstance(v, (int, np.integer, Decimal))]
    if not any(abs(v) >= WHOLE for v in exact) or any(v % 1 != 0 for v in items):
        try:
            return np.array(items, dtype=np.float64)
        except OverflowError:
            raise ValueError(TOO_LONG) from None
    integers = [int(v) for v in items]
    low, high = min(integers), max(integers)
    signed, unsigned = np.iinfo(np.int64), np.iinfo(np.uint64)
    if signed.min <= low and high <= signed.max:
        return np.array(integers, dtype=np.int64)
    return np.array(integers, dtype=np.uint64 if low >= 0 and high <= unsigned.max else object)


def check_labels(labels: np.ndarray, /) -> np.ndarray:
    """Return labels of `plain_numbers`; raise ValueError unless 64-bit integers hold them."""
    if labels.dtype == object:
        longest = max(labels.ravel().tolist(), key=abs)
        shown = f"{longest}" if abs(longest) < 10**40 else "a larger one"
        msg = (
            f"expected labels within 64-bit integers, got {shown}: convert them to text, "
            "[str(label) for label in y]"
        )
        raise ValueError(msg)
    return labels


def check_label_kinds(labels: np.ndarray, known: np.ndarray, /) -> None:
    """Raise ValueError if labels are text where the `known` ones are numbers, or conversely."""
    kinds = [_label_kind(one) for one in (known, labels)]
    if set(kinds) == {"text", "numbers"}:
        wanted, got = (
            f"{kind} such as {one.item(0)!r}"
            for kind, one in zip(kinds, (known, labels), strict=True)
        )
        msg = f"expected labels as in the fit, {wanted}, got {got}"
        raise ValueError(msg)


def _label_kind(labels: np.ndarray) -> str:
    if labels.size and all(isinstance(label, str) for label in labels.ravel().tolist()):
        return "text"
    return "numbers" if labels.size and labels.dtype.kind in "iuf" else ""


def rounded_integers(values: np.ndarray, /) -> np.ndarray:
    """Return a mask (n,) of the integers that float64 would round."""
    if values.dtype.kind in "iu":
        floats = values.astype(np.float64)
        within = floats < float(np.iinfo(values.dtype).max)  # 2⁶³ and 2⁶⁴ would overflow
        return ~within | (np.where(within, floats, 0.0).astype(values.dtype) != values)
    if values.dtype != object:
        return np.zeros(len(values), dtype=bool)
    return np.fromiter(map(_is_rounded, values), bool, len(values))


def _is_rounded(value: Any) -> bool:
    """Whether a value is an integer with more than the 53 bits of float64."""
    if not isinstance(value, (numbers.Integral, Decimal)) or value % 1 != 0:
        return False
    size = abs(int(value))
    return size > WHOLE and size % 2 ** (size.bit_length() - 53) != 0


def _to_number(value: Any) -> float:
    if is_gap(value):
        return np.nan
    if isinstance(value, str):
        word = value.strip()
        if not word or word.casefold() in GAPS:
            return np.nan
        if reads_as_number(word):
            return float(word)
    elif isinstance(value, (numbers.Real, Decimal, np.bool_)) and not _is_time(value):
        return float(value)
    raise NotANumberError(value)


def _is_time(value: Any) -> bool:
    return isinstance(value, (np.datetime64, np.timedelta64))  # `Real` includes timedelta64


def is_gap(value: Any, /) -> bool:
    """Whether a Python value is missing."""
    if value is None or type(value).__name__ in _MISSING_TYPES:
        return True
    return isinstance(value, _NAN_TYPES) and bool(value != value)  # noqa: PLR0124


def rows_to_numbers(rows: Any, /) -> Any:
    """Convert rows of objects or text to numbers (n, d), as `to_numbers` does.

    Lists of rows become arrays. Anything that is no table, or has numbers already, stays.

    Raises
    ------
    NotANumberError
        If a value is neither a number nor missing.
    """
    if isinstance(rows, (list, tuple)):
        if not rows or not all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
            return rows
        if len({len(row) for row in rows}) > 1 or any(np.ndim(v) for row in rows for v in row):
            return rows
        rows = np.array([list(row) for row in rows], dtype=object)
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind not in _TEXT_KINDS:
        return rows
    found = np.empty(rows.shape)
    for k in range(rows.shape[1]):
        found[:, k] = to_numbers(rows[:, k])
    return found


def columns_to_numbers(X: Any, /) -> Any:
    """Convert columns of objects or text in a frame, array or list of rows to numbers.

    Columns with other values stay as they are, with None for missing values.

    Raises
    ------
    ValueError
        If a value is a NumPy time.
    """
    if not is_frame(X):
        try:
            return rows_to_numbers(X)
        except NotANumberError as error:
            _check_no_time(error.value)
            rows = np.array(X, dtype=object)
            rows[np.reshape(list(map(is_gap, rows.ravel())), rows.shape)] = None
            return rows
    if all(dtype.is_numeric() for dtype in _schema(X).values()):
        return X
    frame = as_frame(X)
    columns = [frame.iloc[:, k] for k in range(frame.shape[1])]
    read = list(map(_read_numbers, columns))
    if all(a is b for a, b in zip(columns, read, strict=True)):
        return X
    import pandas as pd

    return pd.concat(read, axis=1)


def _read_numbers(column: Any) -> Any:
    """Convert a pandas column of objects or text, or an empty one, to numbers."""
    if column.dtype.kind in "mM" and column.isna().all():
        return type(column)(np.nan, column.index, name=column.name)
    if type(column.dtype).__name__ == "CategoricalDtype" or column.dtype.kind not in _TEXT_KINDS:
        return column
    try:
        return type(column)(to_numbers(np.asarray(column)), column.index, name=column.name)
    except NotANumberError as error:
        _check_no_time(error.value)
        return column
    except ValueError as error:
        msg = f"column {column.name!r}: {error}"
        raise ValueError(msg) from None


def _check_no_time(value: Any) -> None:
    """Raise ValueError for a NumPy time, which would become a large number."""
    if _is_time(value):
        msg = f"expected columns of numbers, got {value!r}: {_ADVICE['dates']}"
        raise ValueError(msg)


def parts_of_name(target: str, /) -> set[str]:
    """Return the columns that a target's name may refer to: "height, width" may be two."""
    return {target, *target.split(SEVERAL)}


def stringify_names(X: Any, /) -> Any:
    """Convert the column names of a frame to text."""
    names = column_names(X)
    if all(isinstance(name, str) for name in names):
        return X
    return X.set_axis([str(name) for name in names], axis=1)


def column_names(X: Any, /) -> list[Any]:
    """Return the column names of a frame; an empty list for anything else."""
    return list(getattr(X, "column_names", getattr(X, "columns", ())))  # pyarrow, or others


def is_frame(X: Any, /) -> bool:
    """Whether data have columns with names: pandas, polars or pyarrow.

    Raises
    ------
    TypeError
        If they are not in memory.
    """
    check_in_memory(X)
    return hasattr(X, "column_names") or hasattr(X, "columns")


def check_in_memory(X: Any, /) -> None:
    """Raise TypeError for lazy data; the error says how to load them."""
    kind = type(X)
    if hasattr(X, "collect") or hasattr(X, "compute"):
        msg = f"expected data in memory, got {kind.__name__}: call its collect() first"
        raise TypeError(msg)
    if kind.__module__.startswith("pyarrow") and not hasattr(X, "column_names"):
        way = next((name for name in ("to_table", "read_all") if hasattr(X, name)), None)
        if way is not None:
            msg = (
                f"expected data in memory, got {kind.__name__}: call its {way}() to load a table, "
                "or use dask.dataframe for data that exceed memory"
            )
            raise TypeError(msg)


def check_container(name: str, x: Any, /, *, labels: bool = False) -> None:
    """Raise TypeError or ValueError unless the data are an array, a frame or a list."""
    stored = unsupported_storage(x)
    if _is_sparse(x) or (stored is not None and "sparse" in stored):
        msg = (
            "Sparse data was passed: expected a dense array or frame, got "
            f"{stored or type(x).__name__} for {name}; "
            f"use {name}.{'to_dense' if stored else 'toarray'}() if it fits in memory"
        )
        raise TypeError(msg)
    wanted = f"expected an array{', a frame' if name == 'X' else ''} or a list for {name}, got"
    if stored is not None:
        msg = f"{wanted} a {stored}"
        raise TypeError(msg)
    if isinstance(x, (numbers.Number, str, bytes)) or getattr(x, "shape", None) == ():
        msg = "Expected 2D array, got scalar array instead: " if name == "X" else ""
        named = (
            ": a column name works with gpukfl.fit" if name == "y" and isinstance(x, str) else ""
        )
        raise ValueError(msg + f"{wanted} one value{named}")
    is_sequence = hasattr(x, "__len__") and hasattr(x, "__getitem__")
    if not (x is None or is_sequence or is_array(x) or hasattr(x, "__array__")):
        msg = f"{wanted} {type(x).__name__}"
        raise TypeError(msg)
    if isinstance(x, dict):
        msg = f"{wanted} dict: convert it with pandas.DataFrame"
        raise TypeError(msg)
    if np.ma.isMaskedArray(x) and np.ma.is_masked(x):  # pandas has a `mask` too
        msg = f"{wanted} a masked array with masked values: fill them, or drop their rows"
        raise ValueError(msg)
    kind = getattr(getattr(x, "dtype", None), "kind", "f")
    if kind == "V" or (kind in "mM" and not labels):
        msg = f"expected numbers for {name}, got {x.dtype}"
        raise ValueError(msg)
    columns = column_names(x)
    if len(set(columns)) < len(columns):
        twice = sorted({str(c) for c in columns if columns.count(c) > 1})
        msg = f"expected different column names in {name}, got {', '.join(twice[:10])} twice"
        raise ValueError(msg)


def _is_sparse(x: Any) -> bool:
    """Whether `x` is a sparse matrix of SciPy."""
    if "scipy.sparse" not in sys.modules:
        return False
    from scipy import sparse

    return bool(sparse.issparse(x))


def check_size(shape: tuple[int, ...], min_samples: int, /) -> None:
    """Raise ValueError unless there are enough rows and at least one column."""
    if shape[0] < min_samples:
        msg = (
            f"expected at least {min_samples} row{'s' * (min_samples > 1)}, got {shape[0]} "
            f"sample(s) (shape={tuple(shape)}) while a minimum of {min_samples} is required"
        )
        raise ValueError(msg)
    if shape[1] < 1:
        msg = (
            f"Found array with 0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is "
            "required."
        )
        raise ValueError(msg)


def check_rows(X: Any, min_samples: int = 1, /) -> None:
    """Raise ValueError for a frame, array or list with fewer than `min_samples` rows."""
    if isinstance(X, (list, tuple)):
        shape = (len(X),) if not X else ()
    else:
        shape = tuple(getattr(X, "shape", ()))
    if shape and (len(shape) == 2 or not shape[0]) and shape[0] < min_samples:
        check_size(shape, min_samples)


def not_finite(X: Array, names: Sequence[str] = (), /) -> str:
    """Return in words which columns of X (n, d) have NaN or infinity, as "infinity in a"."""
    xp = array_namespace(X)
    names = names or [f"x{k}" for k in range(X.shape[1])]
    found = []
    missing = xp.isnan(X)
    for what, where in (("NaN", missing), ("infinity", ~xp.isfinite(X) & ~missing)):
        columns = np.flatnonzero(to_host(xp.any(where, axis=0)))
        if len(columns):
            found.append(f"{what} in {listed([names[j] for j in columns.tolist()])}")
    return " and ".join(found)


def index_difference(X: Any, y: Any, name: str, /) -> str:
    """Return a warning if the index of y shares labels with that of X, but differs.

    Without such a difference, or without pandas, the warning is empty. It is also empty if both
    indices count rows from 0 or 1, or if one does and the other is no range.
    """
    if not all(hasattr(getattr(one, "index", None), "isin") for one in (X, y)):
        return ""
    a, b = X.index, y.index
    if len(a) != len(b) or a.equals(b):
        return ""
    shared = b.isin(a)
    if shared.all() and a.isin(b).all():
        return (
            f"{name} has the index labels of X in another order: rows are paired by position. "
            f"To pair them by label, pass {name}.loc[X.index]"
        )
    counts, ranges = [_counts_rows(one) for one in (a, b)], [_is_range(one) for one in (a, b)]
    if not shared.any() or all(counts) or (any(counts) and not all(ranges)):
        return ""
    return (
        f"{name} has only {shared.sum()} of the {len(a)} index labels of X: rows are paired by "
        f"position. To pair them by label, use X.join({name}, how='inner'). To confirm positions, "
        "use reset_index(drop=True) on both"
    )


def _is_range(labels: Any) -> bool:
    """Whether labels follow each other in steps of 1."""
    return labels.dtype.kind in "iu" and bool((labels[1:] - labels[:-1] == 1).all())


def _counts_rows(labels: Any) -> bool:
    """Whether labels are 0, 1, ... or 1, 2, ..."""
    return _is_range(labels) and labels[0] in (0, 1)


def check_no_series(X: Any, /) -> None:
    """Raise ValueError for a series, such as one row of a frame."""
    if type(X).__name__ == "Series":
        msg = "Expected 2D array, got a series: for one row, use frame.iloc[[0]], with two brackets"
        raise ValueError(msg)


def frame_from_dicts(X: Any, /) -> Any:
    """Convert a list of dicts, one per row, to a pandas frame; return anything else unchanged."""
    if not isinstance(X, (list, tuple)) or not X:
        return X
    if not all(isinstance(row, Mapping) for row in X):
        return X
    import pandas as pd

    rows = [dict(row) for row in X]
    return restore_large_integers(pd.DataFrame(rows), lambda name: [row.get(name) for row in rows])


def restore_large_integers(frame: Any, values: Callable[[Any], list[Any]], /) -> Any:
    """Restore large integers that pandas rounded to floats because of missing values.

    ``values(name)`` returns the original values of a column.
    """
    import pandas as pd

    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind == "f" and (np.abs(column.to_numpy()) >= WHOLE).any():
            frame[name] = pd.Series(values(name), dtype=object, index=frame.index)
    return frame


def is_numeric(X: Any, /) -> bool:
    """Whether all columns are finite numbers, and float64 keeps different integers apart."""
    frame = as_frame(X)
    columns = (frame.iloc[:, k] for k in range(frame.shape[1]))
    return all(
        _are_numbers(column) and _is_finite(column) and not _merges(column) for column in columns
    )


def _is_finite(column: Any) -> bool:
    try:
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    except OverflowError:  # the reader of tables raises an error with the column's name
        return False
    return bool(np.isfinite(numbers).all())


def _merges(column: Any) -> bool:
    """Whether different integers of a pandas column are equal in float64."""
    if getattr(column.dtype, "kind", "O") in "fb":
        return False
    floats = column.to_numpy(dtype=np.float64, na_value=np.nan)
    if not (np.abs(floats) >= WHOLE).any():
        return False
    return len(np.unique(floats)) < column.nunique()


def _are_numbers(column: Any) -> bool:
    kind = getattr(column.dtype, "kind", "O")
    if kind != "O" or type(column.dtype).__name__ == "CategoricalDtype":
        return kind in "iufb"
    return all(isinstance(value, (numbers.Real, Decimal, np.bool_)) for value in column)


def numeric_frame(X: Any, /, *, gaps: bool = False) -> Any:
    """Convert a frame of any library to a pandas frame of numbers; return arrays unchanged.

    Numbers must be finite unless `gaps` allows missing values.

    Raises
    ------
    TypeError
        If the frame is not in memory.
    ValueError
        If columns have other values than numbers; the message names them.
    """
    frame = as_frame(X)
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        return frame
    frame = columns_to_numbers(frame)
    kinds = [_column_kind(frame.iloc[:, k]) for k in range(frame.shape[1])]
    problems = _problems(frame, kinds, gaps=gaps)
    if problems:
        raise ValueError("; and ".join(problems))
    if all(kind == "plain" for kind in kinds):
        return frame
    dtype = np.float32 if holds_float32(frame) else np.float64
    columns = [
        frame.iloc[:, k] if kind == "plain" else frame.iloc[:, k].astype(dtype)
        for k, kind in enumerate(kinds)
    ]
    import pandas as pd

    return pd.concat(columns, axis=1)


def check_no_dates(X: Any, /) -> None:
    """Raise ValueError for dates in a frame, which NumPy would turn into large numbers."""
    dates = [name for name, kind in _schema(X).items() if kind.is_temporal()]
    if dates:
        msg = (
            f"expected columns of numbers, got dates or durations in {listed(dates)}: "
            "gpukfl.fit, AutoRegressor and AutoClassifier accept them"
        )
        raise ValueError(msg)


def holds_float32(X: Any, /) -> bool:
    """Whether data are a frame whose columns are all float32."""
    import narwhals as nw

    return set(_schema(X).values()) == {nw.Float32}


def _schema(X: Any) -> Mapping[str, Any]:
    """Return the narwhals schema of a frame; empty for anything else."""
    if not is_frame(X):
        return {}
    import narwhals as nw

    return nw.from_native(stringify_names(X), eager_only=True).schema


def _column_kind(column: Any) -> str:
    """Return the kind of a pandas column; "plain" and "numbers" are numeric."""
    dtype = column.dtype
    kind = getattr(dtype, "kind", "O")
    if kind in "iufb":
        return "plain" if isinstance(dtype, np.dtype) else "numbers"
    if type(dtype).__name__ == "CategoricalDtype":
        return "categories"
    if kind in "Mm":
        return "dates" if kind == "M" else "durations"
    return "complex numbers" if kind == "c" else kind_of_objects(column.dropna())


def kind_of_objects(values: Any, /) -> str:
    """Return the kind of Python objects, none of which is missing."""
    from pandas.api.types import infer_dtype

    if all(isinstance(value, (numbers.Real, Decimal, np.bool_)) for value in values):
        return "numbers"
    inferred = infer_dtype(values, skipna=False)
    if inferred in ("date", "datetime", "datetime64", "period"):
        return "dates"
    if inferred in ("timedelta", "timedelta64"):
        return "durations"
    if inferred != "string":
        return "other objects"
    if all(map(reads_as_number, values)):
        return "numbers as text"
    return "dates as text" if all(map(reads_as_date, values)) else "text"


def reads_as_number(text: str, /) -> bool:
    """Whether Python reads `text` as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return any(character.isdigit() for character in text)


def reads_as_date(text: str, /) -> bool:
    """Whether `text` is a date in digits, or with the name of the month, and perhaps a time."""
    return _DATE.fullmatch(text.strip()) is not None


def _odd_value(column: Any) -> Any:
    """Return the first value of a column of objects that is not a number, or the first number."""
    try:
        return to_numbers(np.asarray(column, dtype=object))[0]
    except NotANumberError as error:
        return error.value


def _problems(frame: Any, kinds: list[str], *, gaps: bool) -> list[str]:
    """Return sentences on columns that are not numeric or have missing values."""
    found: dict[str, list[str]] = {}
    for name, kind in zip(frame.columns, kinds, strict=True):
        if kind not in ("plain", "numbers"):
            odd = f" such as {_odd_value(frame[name])!r}" if kind == "other objects" else ""
            found.setdefault(kind + odd, []).append(str(name))
    problems = []
    if found:
        what = "; ".join(f"{kind} in {listed(names)}" for kind, names in found.items())
        advice = dict.fromkeys(_ADVICE[kind] for kind in found if kind in _ADVICE)
        ways = ", ".join([*advice, f"{'or ' * bool(advice)}drop the columns"])
        problems.append(f"expected columns of numbers, got {what}: {ways}")
    if gaps:  # missing values of other columns do not matter, as these must be dropped
        return problems
    known = frame.loc[:, [kind in ("plain", "numbers") for kind in kinds]]
    values = known.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~np.isfinite(values)
    if bad.any():
        where = not_finite(values, list(map(str, known.columns)))
        problems.append(
            f"expected no missing values, got {where}: fill them (sklearn.impute.SimpleImputer), "
            f"or drop the {int(bad.any(axis=1).sum())} of {len(frame)} rows"
        )
    return problems


def listed(names: Iterable[str], most: int = _MAX_NAMED, /) -> str:
    """Return names in words: the first `most` of them, and the number of others."""
    kept = list(names)
    more = len(kept) - most
    return ", ".join(kept[:most]) + (f" and {more} more" if more > 0 else "")
