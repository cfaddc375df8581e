"""Whatever holds a table as columns with names, which are read one at a time."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl.core._array import is_array, to_host
from gpukfl.core._frames import check_in_memory, check_no_series, column_names, parts_of_name
from gpukfl.tables._reading import read_in_blocks, read_values
from gpukfl.tables._values import Values

_NAMED = 10  # columns that a message names


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns that are read one at a time.

    Attributes
    ----------
    names : tuple of str
        All different.
    named : bool
        Whether the data say so, or the names only count.
    n_rows : int
        Rows.
    column : callable
        Returns the column at an index as the data hold it.
    """

    names: tuple[str, ...]
    named: bool
    n_rows: int
    column: Callable[[int], Any]


def frame_of(X: Any, /, *, besides: str = "", known: Iterable[str] = ()) -> Frame:
    """Take a frame, an array, rows, dicts, or a dict of columns apart.

    Parameters
    ----------
    X : frame, array, list of rows or of dicts, dict of columns, or structured array
        Of any library.
    besides : str
        The target: its column, or those of several, are left out unless they are `known`.
    known : iterable of str
        Names of columns.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, is not in memory, or has two columns of one name, or rows or columns
        of different lengths.
    """
    check_in_memory(X)
    check_no_series(X)
    columns: Any = X
    if is_named(X):
        columns, named = _columns_of_dicts(X), True
        keys, n = list(columns), _rows_in(columns)
    elif hasattr(X, "column_names") or hasattr(X, "columns"):
        named, n = True, len(X)
        keys = column_names(X)
    else:
        columns, named = _rows_of(X).T, False
        keys, n = list(range(len(columns))), columns.shape[1]
    names = [str(key) if named else f"x{key}" for key in keys]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        msg = f"expected columns of different names, got two called {twice[0]!r}"
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
    """Whether rows are a dict of columns, dicts, or a structured array."""
    if isinstance(X, Mapping):
        return True
    if isinstance(X, np.ndarray):
        return X.dtype.names is not None
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(x, Mapping) for x in X)


def _columns_of_dicts(X: Any) -> dict[Any, Any]:
    """Columns by their names."""
    if isinstance(X, Mapping):
        return dict(X)
    if isinstance(X, np.ndarray):
        return {name: X[name] for name in X.dtype.names}
    names = dict.fromkeys(name for row in X for name in row)
    return {name: [row.get(name) for row in X] for name in names}


def _rows_in(columns: dict[Any, Any]) -> int:
    """Count the rows of columns."""
    for name, column in columns.items():
        if isinstance(column, (str, bytes)) or not hasattr(column, "__len__"):
            msg = f"column {str(name)!r}: expected a list or an array, got {column!r}"
            raise TypeError(msg)
    lengths = {str(name): len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        msg = f"expected columns of one length and a row at least, got {str(lengths)[:200]}"
        raise ValueError(msg)
    return next(iter(lengths.values()))


def _rows_of(X: Any) -> np.ndarray:
    """Make an array (n, d) of rows; of Python's values, which NumPy would turn into each other."""
    if is_array(X) or hasattr(X, "__array__"):
        rows = to_host(X) if is_array(X) else np.asarray(X)
        _check_shape(rows)
        return rows
    listed = list(X)
    are_rows = all(isinstance(row, Sequence | np.ndarray) for row in listed)
    if not listed or not are_rows or isinstance(listed[0], str):
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
    """Raise ValueError where there is no row or no column to learn from."""
    for what, count in (("sample(s)", frame.n_rows), ("feature(s)", len(frame.names))):
        if not count:
            shape = (frame.n_rows, len(frame.names))
            msg = f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required."
            raise ValueError(msg)


def read_column(frame: Frame, k: int, /) -> Values:
    """Read a column.

    Raises
    ------
    ValueError
        If it holds complex numbers; names it.
    """
    with told_of(frame.names[k]):
        return read_values(frame.column(k))


def read_whole(frame: Frame, k: int, /) -> Iterator[Values]:
    """Read a column as one part."""
    yield read_column(frame, k)


def read_blocks(frame: Frame, k: int, /) -> Iterator[Values]:
    """Read a column in parts, where it is text; raises what `read_column` does."""
    with told_of(frame.names[k]):
        yield from read_in_blocks(frame.column(k))


@contextlib.contextmanager
def told_of(name: str, /) -> Iterator[None]:
    """Say of which column an error is."""
    try:
        yield
    except ValueError as error:
        msg = f"column {name!r}: {error}"
        raise ValueError(msg) from error


def listed(names: Sequence[str], /) -> str:
    """List names, or the first of many."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
