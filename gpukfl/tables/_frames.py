"""Frames of any library, arrays and lists as columns with names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from gpukfl._array import is_array, to_host
from gpukfl._warnings import warn
from gpukfl.estimators._validation import check_container
from gpukfl.tables._reading import read_series
from gpukfl.tables._values import Values, numbers

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
    read : callable
        Gives the values of the column at an index.
    """

    names: tuple[str, ...]
    named: bool
    n_rows: int
    read: Callable[[int], Values]


def frame_of(X: Any, /) -> Frame:
    """Take a frame, an array or a list of rows apart.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, is not in memory, or has two columns of one name.
    """
    check_container("X", X)
    if hasattr(X, "collect") or hasattr(X, "compute"):
        msg = f"expected data in memory, got {type(X).__name__}: collect it first"
        raise TypeError(msg)
    if is_array(X):
        host = to_host(X)
        if host.ndim == 2 and host.dtype.kind in "biuf":
            return _of_array(host)
        X = host
    import pandas as pd

    named = hasattr(X, "columns")
    if not named:
        X = _unnamed(X)
    if isinstance(X, pd.DataFrame):
        names = tuple(str(name) for name in X.columns)
        _check_names(names)
        if not all(isinstance(name, str) for name in X.columns):
            X = X.set_axis(list(names), axis=1)
    frame = nw.from_native(X, eager_only=True)
    names = tuple(frame.columns)
    return Frame(names, named, len(frame), lambda k: read_series(frame.get_column(names[k])))


def read_column(frame: Frame, k: int, /) -> Values:
    """Read a column, warning of what is odd about it.

    Raises
    ------
    ValueError
        If it holds complex numbers; names it.
    """
    try:
        values = frame.read(k)
    except ValueError as error:
        msg = f"column {frame.names[k]!r}: {error}"
        raise ValueError(msg) from error
    if values.note:
        warn(f"column {frame.names[k]!r} has {values.note}")
    return values


def listed(names: Sequence[str], /) -> str:
    """List names, or the first of many."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _of_array(X: np.ndarray) -> Frame:
    names = tuple(f"x{k}" for k in range(X.shape[1]))
    return Frame(names, False, X.shape[0], lambda k: numbers(X[:, k]))


def _unnamed(X: Any) -> Any:
    import pandas as pd

    frame = pd.DataFrame(X if isinstance(X, np.ndarray) else list(X)).infer_objects()
    return frame.set_axis([f"x{k}" for k in range(frame.shape[1])], axis=1)


def _check_names(names: tuple[str, ...]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        msg = f"expected columns of different names, got two called {twice[0]!r}"
        raise ValueError(msg)
