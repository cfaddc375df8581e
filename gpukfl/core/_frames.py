"""Frames of any library as pandas frames of numbers, or what is wrong with their columns."""

from __future__ import annotations

import numbers
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from gpukfl.core._array import is_array, unsupported_storage

# Words that stand for no value among numbers and dates, in a file and in a frame
GAPS = frozenset(
    {
        *("?", "-", "--", "---", ".", "..", "...", "*", "n/a", "n.a.", "n.a", "na", "n/d", "n.d."),
        *("nan", "nat", "nil", "none", "null", "(null)", "missing", "unknown", "undefined"),
        *("not available", "#n/a", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"),
    }
)
SEVERAL = ", "  # between the names of several targets
WHOLE = 2.0**53  # up to which float64 tells whole numbers apart
_NO_VALUES = ("NAType", "NaTType")  # what pandas has for no value
_NOT_EQUAL = (float, np.floating, Decimal, np.datetime64, np.timedelta64)  # gaps are not themselves
_PLAIN_TYPES = {float, int, bool, np.float64, np.float32, np.int64, np.bool_, type(None)}
_TEXT = "OUST"  # kinds of dtypes that may hold numbers as text, and gaps of any sort
_NAMED = 10  # columns that a message names
_ADVICE = {
    "text": "encode categories (pandas.get_dummies makes one column a category)",
    "numbers as text": "convert numbers that are text (pandas.to_numeric)",
    "categories": "encode categories (pandas.get_dummies makes one column a category)",
    "dates as text": "turn dates into numbers (days since the first)",
    "dates": "turn dates into numbers (days since the first)",
    "durations": "turn durations into numbers (.dt.total_seconds())",
}
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2} [A-Za-z]{3,9} \d{4})"
    r"([T ].*)?"
)


def as_frame(X: Any, /) -> Any:
    """Make a pandas frame of the columns of another frame, and a series of Arrow's arrays.

    Anything else stays as it is.

    Raises
    ------
    TypeError
        If the frame is not in memory.
    """
    if not is_frame(X):
        return X.to_pandas() if type(X).__module__.startswith("pyarrow") else X
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return with_text_names(X)
    return pd.DataFrame({name: values_in(X[name]) for name in column_names(X)})


def values_in(values: Any, /) -> np.ndarray:
    """Make an array (n,) of a column, of objects where its values have parts."""
    found = array_of(values)
    if found.ndim == 1:
        return found
    listed = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        listed[k] = value
    return listed


def array_of(values: Any, /) -> np.ndarray:
    """Make an array of a column; Arrow's times of the day to microseconds, as Python's are."""
    if str(getattr(values, "type", "")) == "time64[ns]":
        import pyarrow as pa

        values = values.cast(pa.time64("us"), safe=False)
    return np.asarray(values)


class NotANumberError(ValueError):
    """A value among numbers that is none.

    Attributes
    ----------
    value : object
        The value.
    """

    def __init__(self, value: Any, /) -> None:
        super().__init__(f"expected numbers, got {value!r}")
        self.value = value


def numbers_in(values: Sequence[Any] | np.ndarray, /) -> np.ndarray:
    """Read numbers (n,) of objects or text, NaN where there is none.

    Missing are None, pandas's NA and NaT, blank text, and the words of `GAPS`. Text is read as
    Python reads a number.

    Raises
    ------
    NotANumberError
        If a value is neither a number nor missing.
    """
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if set(map(type, listed)) <= _PLAIN_TYPES:
        return np.array(listed, dtype=np.float64)
    return np.array([_number(value) for value in listed], dtype=np.float64)


def _number(value: Any) -> float:
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
    return isinstance(value, (np.datetime64, np.timedelta64))  # the latter counts as an integer


def is_gap(value: Any, /) -> bool:
    """Whether a value of Python stands for none."""
    if value is None or type(value).__name__ in _NO_VALUES:
        return True
    return isinstance(value, _NOT_EQUAL) and bool(value != value)  # noqa: PLR0124


def numbers_of_rows(rows: Any, /) -> Any:
    """Make an array (n, d) of numbers of rows of objects or text, as `numbers_in` reads them.

    Lists of rows become arrays. What is no table, or holds numbers already, is left.

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
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or rows.dtype.kind not in _TEXT:
        return rows
    found = np.empty(rows.shape)
    for k in range(rows.shape[1]):
        found[:, k] = numbers_in(rows[:, k])
    return found


def with_numbers(X: Any, /) -> Any:
    """Read numbers of the columns of a frame, an array or a list of rows that hold objects or text.

    Columns that hold anything else stay as they are, with None where a value is missing.

    Raises
    ------
    ValueError
        If a value is a time of NumPy.
    """
    if not is_frame(X):
        try:
            return numbers_of_rows(X)
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
    """Read numbers of a column of a pandas frame, where it is one of objects or text, or empty."""
    if column.dtype.kind in "mM" and column.isna().all():
        return type(column)(np.nan, column.index, name=column.name)
    if type(column.dtype).__name__ == "CategoricalDtype" or column.dtype.kind not in _TEXT:
        return column
    try:
        return type(column)(numbers_in(np.asarray(column)), column.index, name=column.name)
    except NotANumberError as error:
        _check_no_time(error.value)
        return column


def _check_no_time(value: Any) -> None:
    """Raise ValueError for a time of NumPy, which it would make a large number of."""
    if _is_time(value):
        msg = f"expected columns of numbers, got {value!r}: {_ADVICE['dates']}"
        raise ValueError(msg)


def parts_of_name(target: str, /) -> set[str]:
    """Columns that the name of a target may stand for: "height, width" are two."""
    return {target, *target.split(SEVERAL)}


def with_text_names(X: Any, /) -> Any:
    """Name the columns of a frame by text: pandas takes names of any kind."""
    names = column_names(X)
    if all(isinstance(name, str) for name in names):
        return X
    return X.set_axis([str(name) for name in names], axis=1)


def column_names(X: Any, /) -> list[Any]:
    """Names of the columns of a frame, which may be no text; none of anything else."""
    return list(getattr(X, "column_names", getattr(X, "columns", ())))  # pyarrow's, or others'


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
    """Raise TypeError for what only gives data when it is asked to; says how."""
    kind = type(X)
    if hasattr(X, "collect") or hasattr(X, "compute"):
        msg = f"expected data in memory, got {kind.__name__}: collect it first"
        raise TypeError(msg)
    if kind.__module__.startswith("pyarrow") and not hasattr(X, "column_names"):
        way = next((name for name in ("to_table", "read_all") if hasattr(X, name)), None)
        if way is not None:
            msg = (
                f"expected data in memory, got {kind.__name__}: its {way}() gives a table, and "
                "dask.dataframe takes what memory does not hold"
            )
            raise TypeError(msg)


def check_container(name: str, x: Any, /, *, labels: bool = False) -> None:
    """Raise TypeError or ValueError for what is no array, frame or list of finite length."""
    stored = unsupported_storage(x)
    if _is_sparse(x) or (stored is not None and "sparse" in stored):
        msg = (
            "Sparse data was passed: expected a dense array or frame, got "
            f"{stored or type(x).__name__} for {name}; "
            f"{name}.{'to_dense' if stored else 'toarray'}() makes one if it fits in memory"
        )
        raise TypeError(msg)
    wanted = f"expected an array{', a frame' if name == 'X' else ''} or a list for {name}, got"
    if stored is not None:
        msg = f"{wanted} a {stored}"
        raise TypeError(msg)
    if isinstance(x, (numbers.Number, str, bytes)) or getattr(x, "shape", None) == ():
        msg = "Expected 2D array, got scalar array instead: " if name == "X" else ""
        named = (
            ": gpukfl.fit takes the name of a column" if name == "y" and isinstance(x, str) else ""
        )
        raise ValueError(msg + f"{wanted} one value{named}")
    listed = hasattr(x, "__len__") and hasattr(x, "__getitem__")
    if not (x is None or listed or is_array(x) or hasattr(x, "__array__")):
        msg = f"{wanted} {type(x).__name__}"
        raise TypeError(msg)
    if isinstance(x, dict):
        msg = f"{wanted} dict: pandas.DataFrame makes a frame of it"
        raise TypeError(msg)
    if np.ma.isMaskedArray(x) and np.ma.is_masked(x):  # pandas's have a mask too
        msg = f"{wanted} a masked array with masked values: fill them, or leave out their rows"
        raise ValueError(msg)
    kind = getattr(getattr(x, "dtype", None), "kind", "f")
    if kind == "V" or (kind in "mM" and not labels):
        msg = f"expected numbers for {name}, got {x.dtype}"
        raise ValueError(msg)
    columns = column_names(x)
    if len(set(columns)) < len(columns):
        twice = sorted({str(c) for c in columns if columns.count(c) > 1})
        msg = f"expected columns of different names in {name}, got {', '.join(twice[:10])} twice"
        raise ValueError(msg)


def _is_sparse(x: Any) -> bool:
    """Whether it is sparse of SciPy, which is imported then."""
    if "scipy.sparse" not in sys.modules:
        return False
    from scipy import sparse

    return bool(sparse.issparse(x))


def check_size(shape: tuple[int, ...], min_samples: int, /) -> None:
    """Raise ValueError unless there are so many rows, and a column."""
    if shape[0] < min_samples:
        msg = (
            f"Found array with {shape[0]} sample(s) (shape={tuple(shape)}) while a minimum of "
            f"{min_samples} is required."
        )
        raise ValueError(msg)
    if shape[1] < 1:
        msg = (
            f"Found array with 0 feature(s) (shape={tuple(shape)}) while a minimum of 1 is "
            "required."
        )
        raise ValueError(msg)


def index_difference(X: Any, y: Any, name: str, /) -> str:
    """Return what to warn of where the index of y shares labels with that of X, but differs.

    The empty string where nothing is wrong, and for what is not pandas. Labels that count rows from
    0 or 1 say nothing, unless others are a part of such a count.
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
            f"{name}.loc[X.index] pairs them by label"
        )
    counts, ranges = [_counts_rows(one) for one in (a, b)], [_is_range(one) for one in (a, b)]
    if not shared.any() or all(counts) or (any(counts) and not all(ranges)):
        return ""
    return (
        f"{name} has {shared.sum()} of the {len(a)} index labels of X, and others: rows are paired "
        f"by position. X.join({name}, how='inner') pairs them by label, and reset_index(drop=True) "
        "of both says that positions are right"
    )


def _is_range(labels: Any) -> bool:
    """Whether labels follow each other in steps of 1."""
    return labels.dtype.kind in "iu" and bool((labels[1:] - labels[:-1] == 1).all())


def _counts_rows(labels: Any) -> bool:
    """Whether labels are 0, 1, ... or 1, 2, ..."""
    return _is_range(labels) and labels[0] in (0, 1)


def check_no_series(X: Any, /) -> None:
    """Raise ValueError for a series, such as a row that was taken out of a frame."""
    if type(X).__name__ == "Series":
        msg = "Expected 2D array, got a series: frame.iloc[[0]], with two brackets, makes a frame"
        raise ValueError(msg)


def framed(X: Any, /) -> Any:
    """Make a pandas frame of a list of dicts, one a row; leave anything else."""
    if not isinstance(X, (list, tuple)) or not X:
        return X
    if not all(isinstance(row, Mapping) for row in X):
        return X
    import pandas as pd

    rows = [dict(row) for row in X]
    return with_whole_numbers(pd.DataFrame(rows), lambda name: [row.get(name) for row in rows])


def with_whole_numbers(frame: Any, values: Callable[[Any], list[Any]], /) -> Any:
    """Put back large integers of which pandas made floats beside missing values.

    ``values(name)`` returns what the column was made of.
    """
    import pandas as pd

    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind == "f" and (np.abs(column.to_numpy()) >= WHOLE).any():
            frame[name] = pd.Series(values(name), dtype=object, index=frame.index)
    return frame


def is_numeric(X: Any, /) -> bool:
    """Whether a frame has complete columns of finite numbers only, which float64 tells apart."""
    frame = as_frame(X)
    columns = (frame.iloc[:, k] for k in range(frame.shape[1]))
    return all(
        _are_numbers(column) and _is_finite(column) and not _merges(column) for column in columns
    )


def _is_finite(column: Any) -> bool:
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return bool(np.isfinite(numbers).all())


def _merges(column: Any) -> bool:
    """Whether whole numbers of a pandas column that differ are equal in float64."""
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
    """Make a frame of any library a pandas frame of numbers; leave arrays as they are.

    These are complete unless they may have `gaps`.

    Raises
    ------
    TypeError
        If the frame is not in memory.
    ValueError
        If columns hold anything but numbers; names them.
    """
    frame = as_frame(X)
    if not hasattr(frame, "iloc") or not hasattr(frame, "columns"):
        return frame
    frame = with_numbers(frame)
    kinds = [_kind_of(frame.iloc[:, k]) for k in range(frame.shape[1])]
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
    """Raise ValueError for dates in a frame, which NumPy would make large numbers of."""
    dates = [name for name, kind in _schema(X).items() if kind.is_temporal()]
    if dates:
        msg = (
            f"expected columns of numbers, got dates or durations in {listed(dates)}: "
            "gpukfl.fit, AutoRegressor and AutoClassifier take frames with them"
        )
        raise ValueError(msg)


def holds_float32(X: Any, /) -> bool:
    """Whether data are a frame of any library, all of whose columns are float32."""
    import narwhals as nw

    return set(_schema(X).values()) == {nw.Float32}


def _schema(X: Any) -> Mapping[str, Any]:
    """Name what each column of a frame holds, as narwhals does; nothing of anything else."""
    if not is_frame(X):
        return {}
    import narwhals as nw

    return nw.from_native(with_text_names(X), eager_only=True).schema


def _kind_of(column: Any) -> str:
    """Name what a pandas column holds; "plain" and "numbers" can be computed with."""
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
    """Name what Python objects are, of which none is missing."""
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


def _problems(frame: Any, kinds: list[str], *, gaps: bool) -> list[str]:
    """Sentences on columns that are no numbers, and on those that have gaps and may have none."""
    found: dict[str, list[str]] = {}
    for name, kind in zip(frame.columns, kinds, strict=True):
        if kind not in ("plain", "numbers"):
            found.setdefault(kind, []).append(str(name))
    problems = []
    if found:
        what = "; ".join(f"{kind} in {listed(names)}" for kind, names in found.items())
        advice = dict.fromkeys(_ADVICE[kind] for kind in found if kind in _ADVICE)
        ways = ", ".join([*advice, f"{'or ' * bool(advice)}leave the columns out"])
        problems.append(f"expected columns of numbers, got {what}: {ways}")
    # What is no number has to go anyway, gaps and all
    missing = frame.loc[:, [kind in ("plain", "numbers") for kind in kinds]].isna()
    if not gaps and missing.to_numpy().any():
        names = [str(name) for name, lacks in missing.any().items() if lacks]
        rows = int(missing.any(axis=1).sum())
        problems.append(
            f"expected no missing values, got NaN in {listed(names)}: fill them "
            f"(sklearn.impute.SimpleImputer), or leave out the {rows} of {len(frame)} rows"
        )
    return problems


def listed(names: Iterable[str], most: int = _NAMED, /) -> str:
    """List names, or the first of many and how many more there are."""
    kept = list(names)
    more = len(kept) - most
    return ", ".join(kept[:most]) + (f" and {more} more" if more > 0 else "")
