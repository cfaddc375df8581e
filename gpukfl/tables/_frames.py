"""Frames of any library, arrays and lists as columns with names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from gpukfl._array import is_array, to_host
from gpukfl._columns import (
    check_in_memory,
    check_no_series,
    framed,
    with_text_names,
    with_whole_numbers,
)
from gpukfl.estimators._validation import check_container
from gpukfl.tables._frame import Frame
from gpukfl.tables._reading import read_in_blocks, read_series
from gpukfl.tables._values import numbers


def frame_of(X: Any, /) -> Frame:
    """Take a frame, an array, or a list of rows or dicts apart.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, is not in memory, or has two columns of one name, or rows of
        different lengths.
    """
    check_in_memory(X)
    check_no_series(X)
    X = framed(X)
    check_container("X", X)
    if is_array(X) or (hasattr(X, "__array__") and not hasattr(X, "columns")):
        X = to_host(X) if is_array(X) else np.asarray(X)
        _check_shape(X)
        if X.dtype.kind in "biuf":
            return _of_array(X)
    named = hasattr(X, "columns")
    X = _with_names(X) if named else _unnamed(X)
    frame = nw.from_native(X, eager_only=True)
    names = tuple(frame.columns)
    return Frame(
        names,
        named,
        len(frame),
        lambda k: read_series(frame.get_column(names[k])),
        lambda k: read_in_blocks(frame.get_column(names[k])),
    )


def check_any(frame: Frame, /) -> None:
    """Raise ValueError where there is no row or no column to learn from."""
    for what, count in (("sample(s)", frame.n_rows), ("feature(s)", len(frame.names))):
        if not count:
            shape = (frame.n_rows, len(frame.names))
            msg = f"Found array with 0 {what} (shape={shape}) while a minimum of 1 is required."
            raise ValueError(msg)


def _of_array(X: np.ndarray) -> Frame:
    names = tuple(f"x{k}" for k in range(X.shape[1]))
    return Frame(
        names, False, X.shape[0], lambda k: numbers(X[:, k]), lambda k: iter([numbers(X[:, k])])
    )


def _with_names(X: Any) -> Any:
    """Name the columns of a frame by text."""
    if type(X).__name__ == "RecordBatch":  # of Arrow
        from pyarrow import Table

        X = Table.from_batches([X])
    X = with_text_names(X)
    _check_names(list(getattr(X, "column_names", X.columns)))
    return X


def _unnamed(X: Any) -> Any:
    """Make a frame of rows."""
    import pandas as pd

    if not isinstance(X, np.ndarray):
        X = list(X)
        rows = all(isinstance(row, Sequence | np.ndarray) for row in X)
        if not X or not rows or isinstance(X[0], str):
            _check_shape(np.empty(len(X)))
        _check_lengths(X)
    frame = with_whole_numbers(pd.DataFrame(X).infer_objects(), lambda k: [row[k] for row in X])
    return frame.set_axis([f"x{k}" for k in range(frame.shape[1])], axis=1)


def _check_shape(X: np.ndarray) -> None:
    if X.ndim != 2:
        msg = f"Expected 2D array, got {X.ndim}D array instead. Reshape your data: (n, d)"
        raise ValueError(msg)


def _check_lengths(rows: Sequence[Sequence[Any]]) -> None:
    lengths = [len(row) for row in rows]
    if min(lengths) != max(lengths):
        msg = f"expected rows of the same length, got {min(lengths)} to {max(lengths)} values"
        raise ValueError(msg)


def _check_names(names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        msg = f"expected columns of different names, got two called {twice[0]!r}"
        raise ValueError(msg)
