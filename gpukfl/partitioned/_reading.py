"""What a partition holds, as host arrays: rows, targets and weights, read and checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gpukfl._array import is_array, to_host
from gpukfl._columns import holds_float32, kind_of_objects

_KINDS = {
    "string": "text",
    **dict.fromkeys(
        ("integer", "floating", "mixed-integer-float", "decimal", "boolean"), "numbers"
    ),
}  # of targets, by pandas's names

Read = Callable[[Any], np.ndarray]  # rows (m, d) of a partition of X


def read_part(
    read: Read,
    form: tuple[int, Any, int | None, bool],
    numbers_of: Sequence[int],
    X: Sequence[Any],
    y: Sequence[Any],
    weights: Sequence[Any] | None,
    /,
) -> dict[int, Any]:
    """Read partitions that make a part: rows, targets, and weights, by their keys.

    Raises
    ------
    ValueError
        If one does not hold what it should: says which of all partitions.
    """
    width, dtype, n_targets, labels = form
    blocks: list[list[np.ndarray]] = [[], [], []]
    for k, number in enumerate(numbers_of):
        with partition_named(number):
            rows = np.asarray(read(X[k]))
            check_rows(rows, width)
            _check_precision(rows, dtype)
            targets = _targets(y[k], len(rows), n_targets, labels=labels)
            blocks[0].append(rows.astype(dtype, copy=False))
            blocks[1].append(targets)
            if weights is not None:
                blocks[2].append(_weights(weights[k], len(rows)))
    return {key: np.concatenate(found) for key, found in enumerate(blocks) if found}


@contextlib.contextmanager
def partition_named(number: int, /) -> Iterator[None]:
    """Say of errors which of all partitions they are about."""
    try:
        yield
    except (TypeError, ValueError) as error:
        msg = f"partition {number}: {error}"
        raise type(error)(msg) from error


def columns_in_order(names: Sequence[Any], number: int, partition: Any, /) -> Any:
    """Return a partition, a frame, with its columns in the order of the whole frame.

    Raises
    ------
    ValueError
        If it lacks columns, has others, or orders several of one name differently.
    """
    own = list(partition.columns)
    if own == list(names):
        return partition
    if sorted(map(str, own)) != sorted(map(str, names)) or len(set(map(str, own))) < len(own):
        lacking = [str(one) for one in names if one not in own]
        other = [str(one) for one in own if one not in names]
        found = [
            f"{word} {', '.join(some[:10])}"
            for word, some in (("lacks", lacking), ("also has", other))
            if some
        ] or ["has several columns of one name"]
        msg = (
            f"partition {number}: expected the {len(names)} columns of the frame, but it "
            f"{' and '.join(found)}: give every partition the same columns"
        )
        raise ValueError(msg)
    place = {str(one): k for k, one in enumerate(own)}
    ordered = partition.iloc[:, [place[str(one)] for one in names]]
    return ordered.set_axis(list(names), axis=1)


def numbers(partition: Any, /) -> np.ndarray:
    """Give the numbers (m, d) of a partition: an array, or a frame of numeric columns."""
    if is_array(partition):
        host = to_host(partition)
        return host.astype(np.float64) if host.dtype == object else host
    frame = partition.to_pandas() if hasattr(partition, "to_pandas") else partition
    wrong = [str(c) for c in frame.columns if not _holds_numbers(frame[c])]
    if wrong:
        msg = f"expected columns of numbers, got others: {', '.join(wrong[:10])}"
        raise ValueError(msg)
    return frame.to_numpy(dtype=np.float32 if holds_float32(frame) else np.float64, na_value=np.nan)


def _holds_numbers(column: Any) -> bool:
    objects = column.dtype == object and kind_of_objects(column) == "numbers"
    return objects or column.dtype.kind in "fiub"


def check_rows(rows: np.ndarray, width: int, /) -> None:
    """Raise ValueError for rows of another width, or that are not finite."""
    if rows.ndim != 2 or rows.shape[1] != width:
        msg = f"expected rows of {width} columns as in the first partition, got {rows.shape}"
        raise ValueError(msg)
    if rows.dtype.kind == "c":
        msg = f"Complex data not supported: expected real numbers, got dtype {rows.dtype}"
        raise ValueError(msg)
    if not np.isfinite(rows).all():
        msg = "Input X contains NaN or infinity: expected finite values only"
        raise ValueError(msg)


def _check_precision(rows: np.ndarray, dtype: np.dtype[Any]) -> None:
    """Raise ValueError for rows that single precision would round, or make infinite."""
    if dtype == np.float32 and rows.dtype != np.float32:
        msg = (
            f"expected float32 as in the first partition, got {rows.dtype}: give all partitions "
            "one precision, with astype"
        )
        raise ValueError(msg)


def kind_of_targets(y: np.ndarray, /) -> str | None:
    """Return what the targets of a partition are: "numbers", "text" or else; None without any."""
    import pandas as pd

    if y.dtype.kind in "fiub":
        return "numbers"
    found = str(pd.api.types.infer_dtype(y.ravel(), skipna=True))
    if found == "empty":
        return None
    return _KINDS.get(found, found)


def _targets(y: Any, n: int, n_targets: int | None, *, labels: bool) -> np.ndarray:
    host = host_of(y)
    if labels and host.shape[1:] == (1,):
        host = host[:, 0]
    shape = (n,) if labels or n_targets is None else (n, n_targets)
    if host.shape != shape:
        msg = f"expected targets of shape {shape}, as many as rows, got {host.shape}"
        raise ValueError(msg)
    if labels:
        _check_classes(host)
        return host
    host = host.astype(np.float64)
    if not np.isfinite(host).all():
        msg = "Input y contains NaN or infinity: expected finite targets only"
        raise ValueError(msg)
    return host


def _check_classes(labels: np.ndarray) -> None:
    """Raise ValueError for labels that are numbers with fractions, as targets of regressions are.

    So does scikit-learn, by the labels of all rows; it warns where few rows have many classes.
    """
    known = np.asarray(labels.tolist()) if labels.dtype == object else labels
    if known.dtype.kind != "f":
        return
    wrong = known[~np.isfinite(known) | (known != np.trunc(known))]
    if wrong.size:
        msg = f"Unknown label type: expected classes, got numbers such as {wrong.flat[0]:g}"
        raise ValueError(msg)


def _weights(weights: Any, n: int) -> np.ndarray:
    host = host_of(weights).astype(np.float64)
    if host.shape != (n,):
        msg = f"expected sample weights of shape ({n},), got {host.shape}"
        raise ValueError(msg)
    if not np.isfinite(host).all() or np.any(host < 0):
        msg = "expected finite sample weights of at least 0"
        raise ValueError(msg)
    return host


def host_of(x: Any, /) -> np.ndarray:
    """Give targets or weights of a partition as a host array."""
    if is_array(x):
        return to_host(x)
    host = np.asarray(x.to_pandas() if hasattr(x, "to_pandas") else x)
    return host.astype(object) if host.dtype.kind == "T" else host
