"""What a fit is given: a target that is a column of the frame, and rows without a target."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np

from gpukfl._array import is_array, is_host, lies_in_parts, take, to_host
from gpukfl._columns import (
    as_frame,
    framed,
    index_difference,
    is_frame,
    with_text_names,
)
from gpukfl._warnings import warn
from gpukfl.partitioned import is_dask

_NAMED = 20  # columns that a message names


def with_target(X: Any, y: Any, /) -> tuple[Any, Any, str | None]:
    """Take the columns that `y` names out of a frame: the others, the target, and its name.

    One name gives a series, and a list of them a frame, which has its names itself. What is no
    name is the target itself.

    Raises
    ------
    TypeError
        If there is a name, and `X` is no frame, or if a frame is not in memory.
    ValueError
        If no column, or more than one, has it.
    """
    X, lazy = framed(X), is_dask(X)
    in_memory = not lazy and is_frame(X)
    y = _as_text(y, getattr(X, "column_names", getattr(X, "columns", ())))
    X = with_text_names(X) if in_memory else X
    columns = list(getattr(X, "column_names", getattr(X, "columns", ())))
    wanted = _names_in(y, set(map(str, columns)), len(X) if in_memory else None)
    if not wanted:
        return X, y, None
    if not (in_memory or lazy):
        msg = f"expected a frame with a column {y!r} for X, got {type(X).__name__}"
        if isinstance(X, (str, PathLike)):
            msg += ": pandas.read_csv makes a frame of a file"
        raise TypeError(msg)
    _check_once(wanted, [str(column) for column in columns])
    chosen: Any = [next(column for column in columns if str(column) == name) for name in wanted]
    one = isinstance(y, (str, Integral))
    chosen, name = (chosen[0], wanted[0]) if one else (chosen, None)
    if lazy:
        return X.drop(columns=chosen), X[chosen], name
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    return frame.drop(chosen).to_native(), frame[chosen].to_native(), name


def _as_text(y: Any, columns: Iterable[Any]) -> Any:
    """Write names of columns that are no text, such as tuples and times, as columns are named."""
    odd = [name for name in columns if not isinstance(name, str)]

    def text(name: Any) -> Any:
        is_one = isinstance(name, tuple) or not (name is None or hasattr(name, "__len__"))
        return str(name) if is_one and name in odd else name

    named = text(y) if odd else y
    listed = odd and isinstance(named, (list, tuple)) and isinstance(next(iter(named), 0), tuple)
    return list(map(text, named)) if listed else named


def _names_in(y: Any, known: set[str], n_rows: int | None) -> list[str]:
    """Names that `y` gives, or a list of them; none where it holds a value for each row."""
    if isinstance(y, str) or (isinstance(y, Integral) and str(y) in known):
        return [str(y)]
    is_row = isinstance(y, np.ndarray) and y.ndim == 1
    listed = is_row or isinstance(y, (list, tuple)) or hasattr(y, "get_indexer")  # an index
    if not listed or not 0 < len(y) <= len(known) or len(y) == n_rows:
        return []
    names = [name for name in y if isinstance(name, str)]
    is_each = len(names) == len(y) == len(set(names))
    return names if is_each and not known.isdisjoint(names) else []


def _check_once(wanted: list[str], names: list[str]) -> None:
    for name in wanted:
        count = names.count(name)
        if count != 1:
            shown = ", ".join(names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
            msg = f"expected y to name one column of X, got {name!r}: {count} of {shown}"
            raise ValueError(msg)


def with_names(X: Any, /) -> Any:
    """Make a frame of host rows with gaps or text, x0, x1, ... for names; leave all others.

    Infinity is a gap. Of a list of dicts it makes a frame with their names.
    """
    X = framed(X)
    if isinstance(X, np.memmap) or np.ma.isMaskedArray(X):
        return X
    rows = _objects(X) if isinstance(X, (list, tuple)) else X
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or _are_complete_numbers(rows):
        return X
    import pandas as pd

    return pd.DataFrame(rows, columns=[f"x{k}" for k in range(rows.shape[1])]).infer_objects()


def _are_complete_numbers(rows: np.ndarray) -> bool:
    """Whether they are, all of them finite, or something that is neither numbers nor text."""
    if rows.dtype.kind not in "fOU":
        return True
    try:
        numbers = rows if rows.dtype.kind == "f" else rows.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite(numbers).all())


def _objects(rows: Any) -> np.ndarray:
    """Make an array (n, d) of rows of one length, and an empty one of others."""
    try:
        return np.asarray(rows, dtype=object)
    except ValueError:
        return np.empty(0)


def pair_rows(X: Any, y: Any, sample_weight: Any, /) -> tuple[Any, Any, Any]:
    """Pair rows with targets and weights by position, and drop rows of weight 0.

    So these decide nothing: neither kinds of columns nor classes. Memory maps are left as they are,
    and so is what the checks of a fit will refuse.

    Warns
    -----
    UserWarning
        Of targets or weights whose index has labels of X in other rows.
    """
    difference = index_difference(X, y, "y")
    if difference:
        warn(difference)
    difference = index_difference(X, sample_weight, "sample_weight")
    if difference:
        warn(difference)
        sample_weight = sample_weight.to_numpy()  # nobody warns again
    return _drop_unweighted(X, y, sample_weight)


def _drop_unweighted(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    if sample_weight is None or isinstance(X, np.memmap) or lies_in_parts(X):
        return X, y, sample_weight
    try:
        given = to_host(sample_weight) if is_array(sample_weight) else sample_weight
        weights = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        return X, y, sample_weight
    rows, n = np.flatnonzero(weights), weights.size
    is_each = weights.ndim == 1 and all(hasattr(x, "__len__") and len(x) == n for x in (X, y))
    if not is_each or not 2 <= len(rows) < n:
        return X, y, sample_weight
    return taken(X, rows), taken(y, rows), taken(sample_weight, rows)


def complete(X: Any, y: Any, sample_weight: Any, /) -> tuple[Any, Any, Any]:
    """Leave out rows whose target is missing, with a warning that counts them.

    Memory maps, and targets on a device, are left as they are.

    Raises
    ------
    ValueError
        If no row has a target.
    """
    y = y if is_frame(y) else as_frame(y)
    missing = None if isinstance(X, np.memmap) else _missing_of(y)
    if missing is None or not missing.any():
        return X, y, sample_weight
    n, count = len(missing), int(missing.sum())
    if count == n:
        msg = f"expected a target in some rows, got NaN or None in all {n}"
        raise ValueError(msg)
    warn(f"y is missing in {count} of {n} rows, which are left out", UserWarning)
    rows = np.flatnonzero(~missing)
    if sample_weight is not None and not np.isscalar(sample_weight):
        sample_weight = taken(sample_weight, rows)
    return taken(X, rows), taken(y, rows), sample_weight


def _missing_of(y: Any) -> np.ndarray | None:
    """Which rows have no target (n,); None where there cannot be one."""
    from pandas import isna

    if is_array(y):
        if not is_host(y) or y.dtype.kind not in "fOmM" or y.ndim not in (1, 2):
            return None
        found = isna(y)
    elif is_frame(y):
        found = as_frame(y).isna().to_numpy()
    elif hasattr(y, "to_numpy") or isinstance(y, (list, tuple)):
        found = isna(np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, dtype=object))
    else:
        return None
    return found.any(axis=1) if found.ndim == 2 else found


def taken(x: Any, rows: np.ndarray, /) -> Any:
    """Take rows of data of any kind."""
    from pandas.api.extensions import ExtensionArray
    from sklearn.utils import _safe_indexing

    if isinstance(x, ExtensionArray):  # such as the values of a series, which indices take too
        return x.take(rows)
    return take(x, rows) if is_array(x) else _safe_indexing(x, rows)
