"""The kind of a target: numbers or classes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from gpukfl.core._array import as_columns, is_array, is_host, to_host
from gpukfl.core._frames import (
    SEVERAL,
    TOO_LONG,
    as_frame,
    check_labels,
    column_array,
    kind_of_objects,
    plain_numbers,
    reads_as_date,
    reads_as_number,
    rounded_integers,
)
from gpukfl.core._warnings import warn
from gpukfl.tables._numerals import parse_integer

_MOST_DOUBTFUL = 20  # at most so many different integers may be classes or counts: a warning
_MOST_CLASSES = 10  # at most so many are classes, if they are 0, 1, 2, ...
_CLASS_ROWS = 3  # ... and each has so many rows ...
_SHARE = 0.25  # ... and this part of an equal share of the rows

_SYMBOLS = re.compile(r"[\s$€£¥%,'()]")
_KIND_OF_DTYPE = {
    "f": "floats",
    "i": "integers",
    "u": "integers",
    "b": "booleans",
    "c": "complex numbers",
    "M": "dates",
    "m": "durations",
    "U": "text",
    "S": "text",
}
_CONFIRM = "pass task='regression' to confirm, or task='classification' if they are classes"
_ONE_EACH = (
    "for several labels a row, use gpukfl.fit(..., task='classification'), which fits a model to "
    "each column; for one-hot encoded classes, pass y.argmax(axis=1)"
)


@dataclass(frozen=True, eq=False)
class Target:
    """A target for an estimator, and its kind.

    Attributes
    ----------
    y : array
        Numbers or labels: NumPy, or the device array that was given.
    task : str
        "regression" or "classification".
    kind : str
        Kind of the values: floats, integers, booleans, categories or text.
    """

    y: Any
    task: str
    kind: str


def read_target(y: Any, task: str = "auto", /, *, name: str = "y") -> Target:
    """Return the target and its kind, independent of row order; warn if it is ambiguous.

    Parameters
    ----------
    y : array, series or frame of shape (n,) or (n, t)
        The target.
    task : {"auto", "regression", "classification"}, default="auto"
        The task; "auto" infers it.
    name : str
        Name of the target in messages.

    Raises
    ------
    ValueError
        If values are missing or dates, if a regression has other values than numbers, or if text
        makes no sensible classes.
    """
    values, kind = _host_values(y, tell=True)
    y = y if is_array(y) and not is_host(y) else values
    if kind in ("dates", "durations", "other objects"):
        raise ValueError(_refusal_text(kind, values))
    one = values.ndim == 1 or values.shape[1:] == (1,)
    if task == "classification" and not one:
        raise ValueError(_several_labels_text(kind, values))
    if task == "auto":
        task = _GUESSES[kind](values.ravel()) if one else _guess_many(values, kind)
    if task == "classification" and one and values.ndim > 1:
        y = y[:, 0]
    if task == "classification" and kind == "integers":
        check_labels(values)
    if task == "regression" and kind in ("text", "categories"):
        y = values = _parse_numbers(values, kind)
    if task == "regression" and values.dtype.kind in "iuO":
        y = _convert_integers(y, values, name)
    return Target(y, task, kind)


def class_order(y: Any, /) -> tuple[str, ...]:
    """Return the labels of ordered pandas categories in their order, as text; else ()."""
    if is_array(y):
        return ()
    frame = _squeeze_frame(y)
    kind: Any = getattr(frame, "dtype", None)
    if type(kind).__name__ != "CategoricalDtype" or not kind.ordered:
        return ()
    values = np.asarray(frame, dtype=object)
    known = set(values.tolist())
    listed = [one for one in kind.categories if one in known]
    present = np.empty(len(listed), dtype=object)
    present[:] = listed
    return tuple(map(str, _as_labels(present, False).tolist()))


def order_labels(labels: np.ndarray, order: tuple[str, ...], /) -> np.ndarray:
    """Return the permutation (k,) that puts sorted labels in the order of their texts.

    Labels stay sorted if one of them is not in the order.
    """
    place = {text: k for k, text in enumerate(order)}
    named = [str(label) for label in labels.tolist()]
    if not order or not set(named) <= place.keys():
        return np.arange(len(named))
    return np.argsort([place[name] for name in named], kind="stable")


def label_places(labels: np.ndarray, y: np.ndarray, /) -> np.ndarray:
    """Return the indices (n,) of known values among labels in any order."""
    order = np.argsort(labels, kind="stable")
    found: np.ndarray = order[np.searchsorted(labels, y, sorter=order)]
    return found


def warn_rounded_targets(y: Any, name: str = "y", /) -> None:
    """Warn of integers in numeric targets that float64 rounds."""
    try:
        values, kind = _host_values(y)
    except (NotImplementedError, TypeError, ValueError):  # reported by the checks of a fit
        return
    if kind == "integers" and values.dtype != object:
        _warn_rounding(values, name)


def _convert_integers(y: Any, values: np.ndarray, name: str) -> Any:
    """Return the integers of a regression, long ones as floats; warn of rounded ones."""
    if values.dtype != object:
        _warn_rounding(values, name)
        return y
    try:
        floats = values.astype(np.float64)
    except OverflowError:
        msg = f"{name}: {TOO_LONG}"
        raise ValueError(msg) from None
    _warn_rounding(values, name)
    return floats


def _warn_rounding(values: np.ndarray, name: str) -> None:
    """Warn of integers (n,) or (n, t) that float64 rounds."""
    flat = values.ravel()
    changed = rounded_integers(flat)
    if not changed.any():
        return
    first = flat[int(np.argmax(changed))]
    before, after = len(np.unique(flat)), len(np.unique(flat.astype(np.float64)))
    merged = f"; {before} different values become {after}" if after < before else ""
    warn(
        f"{name} has integers beyond 2**53, which float64 rounds, such as {first} to "
        f"{int(float(first))}{merged}: subtract a constant, such as the smallest, before the fit"
    )


def target_name(y: Any, /) -> str | None:
    """Return the name of a series, or joined column names: "height, width"."""
    if is_array(y):
        return None
    frame = as_frame(y)
    if hasattr(frame, "columns"):
        return SEVERAL.join(map(str, frame.columns)) or None
    name = getattr(y, "name", None)
    return None if name in (None, "") else str(name)


def order_targets(y: Any, target: str, /) -> Any:
    """Return targets in the model's column order.

    Raises ValueError if a frame has targets of other names than the model.
    """
    given = [] if is_array(y) else [str(name) for name in getattr(as_frame(y), "columns", ())]
    wanted = target.split(SEVERAL)
    if given == wanted or len(given) != len(wanted) or len(given) < 2:
        return y
    if set(given) != set(wanted):
        msg = f"expected the targets {target}, got {SEVERAL.join(given)}"
        raise ValueError(msg)
    frame = as_frame(y)
    return frame[[frame.columns[given.index(name)] for name in wanted]]


def target_names(target: str, count: int, /) -> tuple[str, ...]:
    """Return the names of several targets from one name: "height, width", or "y"."""
    if count == 1:
        return (target,)
    named = tuple(target.split(SEVERAL))
    if len(named) == count:
        return named
    return tuple(f"{target} {k}" for k in range(count))


def host_target(y: Any, /) -> Any:
    """Convert a target of any library to NumPy, for scores; device arrays stay."""
    return y if is_array(y) and not is_host(y) else _host_values(y)[0]


def encode_truth(estimator: Any, y: Any, /) -> np.ndarray:
    """Return targets, or indicators of the estimator's classes, (n, t) in float64 on the host.

    Raises ValueError if a classifier does not know a label, or has several targets.
    """
    values = host_target(y)
    values = to_host(values) if is_array(values) else np.asarray(values)
    if not is_classifier(estimator):
        return np.asarray(as_columns(values.astype(np.float64)))
    classes = to_host(estimator.classes_) if not isinstance(estimator.classes_, list) else None
    values = values[:, 0] if values.shape[1:] == (1,) else values
    if classes is None or values.ndim != 1:
        msg = f"expected one target for a classification, got y of shape {values.shape}"
        raise ValueError(msg)
    unknown = np.setdiff1d(values, classes)
    if len(unknown):
        msg = f"expected labels of the fit, got {unknown[0]!r} ({len(unknown)} unknown in all)"
        raise ValueError(msg)
    return (values[:, None] == classes).astype(np.float64)


# ---------------------------------------------------------------------- values


def _host_values(y: Any, *, tell: bool = False) -> tuple[np.ndarray, str]:
    """Return host values and their kind; perhaps warn of categories that become text."""
    if is_array(y):
        values = to_host(y)
    else:
        frame = _squeeze_frame(y)
        if type(getattr(frame, "dtype", None)).__name__ == "CategoricalDtype":
            return _as_labels(_complete(np.asarray(frame, dtype=object)), tell), "categories"
        values = column_array(frame)
    if values.dtype.kind in "OT":
        values = _complete(values.astype(object))
        kind = kind_of_objects(values.ravel())
        if kind != "numbers":
            return values, "text" if kind.endswith("text") else kind
        values = plain_numbers(values)
        return values, _KIND_OF_DTYPE.get(values.dtype.kind, "integers")  # integers of any length
    return values, _KIND_OF_DTYPE.get(values.dtype.kind, "other objects")


def _squeeze_frame(y: Any) -> Any:
    """Return a frame of one column as a series; other frames, series and lists by `as_frame`."""
    frame = as_frame(y)
    return frame.iloc[:, 0] if hasattr(frame, "columns") and frame.shape[1] == 1 else frame


def _complete(values: np.ndarray) -> np.ndarray:
    """Return the values; raise ValueError if one is missing."""
    from pandas import isna

    missing = int(np.count_nonzero(isna(values)))
    if missing:
        msg = f"expected a target in every row, got NaN or None in {missing} of {len(values)}"
        raise ValueError(msg)
    return values


def _as_labels(values: np.ndarray, tell: bool) -> np.ndarray:
    """Return categories as sortable labels: integers, or else text."""
    if all(isinstance(v, (int, np.integer, np.bool_)) or _is_whole(v) for v in values):
        whole = plain_numbers(values)
        if whole.dtype != object:  # else they are too long
            return whole
    other = next((value for value in values if not isinstance(value, str)), None)
    if tell and other is not None:
        kind, text = type(other).__name__, str(other)
        warn(f"y holds categories of type {kind}: labels are converted to text, such as {text!r}")
    return values.astype(str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and float(value).is_integer()


def _refusal_text(kind: str, values: np.ndarray) -> str:
    if kind == "other objects":
        types = sorted({type(value).__name__ for value in values.ravel().tolist()})
        return f"expected y to hold numbers or labels of one kind, got {', '.join(types)}"
    ways = {
        "dates": "for numbers, use (y - y.min()).dt.days; for classes, y.astype(str) and "
        "task='classification'",
        "durations": "for seconds, use y.dt.total_seconds()",
    }
    first = values.ravel().min()
    return f"expected y to hold numbers or labels, got {kind} such as {first}: {ways[kind]}"


def _parse_numbers(values: np.ndarray, kind: str) -> np.ndarray:
    """Return numbers from text or categories."""
    bad = sorted({str(v) for v in values.ravel() if not reads_as_number(str(v))})
    if bad:
        msg = (
            f"expected numbers for task='regression', got {kind} such as {bad[0]!r} "
            f"({len(bad)} different values that are not numbers)"
        )
        raise ValueError(msg + _advice(bad))
    if kind == "categories" and values.dtype.kind != "U":
        return values
    written = [parse_integer(str(v)) for v in values.ravel()]
    parsed = [float(v) if n is None else n for v, n in zip(values.ravel(), written, strict=True)]
    return plain_numbers(np.array(parsed, dtype=object).reshape(values.shape))


# ---------------------------------------------------------------------- guesses


def _guess_floats(values: np.ndarray) -> str:
    different = np.unique(values[np.isfinite(values)])
    if len(different) == 2 and len(values) >= 4:
        low, high = different
        warn(f"y holds two different floats, {low:g} and {high:g}, treated as numbers: {_CONFIRM}")
    return "regression"


def _guess_integers(values: np.ndarray) -> str:
    different, counts = np.unique(values, return_counts=True)
    k, n = len(different), len(values)
    if k == 2:
        return "classification"
    if not 2 < k <= min(_MOST_DOUBTFUL, n // 2):
        return "regression"
    low, high = different[0], different[-1]
    filled = counts.min() >= max(_CLASS_ROWS, _SHARE * n / k)
    if k > _MOST_CLASSES or (low, high) != (0, k - 1) or not filled:
        warn(f"y holds {k} different integers from {low} to {high}, treated as numbers: {_CONFIRM}")
        return "regression"
    return "classification"


def _guess_text(values: np.ndarray) -> str:
    different, counts = np.unique(values.astype(str), return_counts=True)
    k, n = len(different), len(values)
    words = different.tolist()
    example = words[0]
    if _share(words, reads_as_date) > 0.5:
        msg = (
            f"expected y to hold numbers or labels, got dates as text such as {example!r}: "
            "convert them to days (pandas.to_datetime), or pass task='classification'"
        )
        raise ValueError(msg)
    if k > n / 2 or np.count_nonzero(counts == 1) > k / 2:
        like = "numbers as text" if _share(words, _is_number) > 0.5 else "names or identifiers"
        msg = (
            f"y holds {k} different texts in {n} rows, too few rows for classes. They look like "
            f"{like}, such as {example!r}"
        )
        raise ValueError(msg + _advice(words) + "; or pass task='classification'")
    if _share(words, _is_number) > 0.5 and not all(map(reads_as_number, words)):
        warn(
            f"y holds {k} different texts that look like numbers, such as {example!r}, treated "
            f"as classes{_advice(words)}"
        )
    return "classification"


def _guess_many(values: np.ndarray, kind: str) -> str:
    """Return the kind of several targets, which must be numbers."""
    if kind in ("text", "categories"):
        raise ValueError(_several_labels_text(kind, values))
    if kind == "booleans" or (kind == "integers" and set(np.unique(values)) <= {0, 1}):
        what = kind if kind == "booleans" else "the integers 0 and 1"
        count = values.shape[1]
        warn(
            f"y of shape {values.shape} has only {what}: it is treated as {count} numeric targets; "
            f"{_ONE_EACH}"
        )
    return "regression"


def _several_labels_text(kind: str, values: np.ndarray) -> str:
    said = (
        f"expected one column of classes or several of numbers, got {kind} of shape {values.shape}"
    )
    return f"{said}: {_ONE_EACH}"


_GUESSES: dict[str, Callable[[np.ndarray], str]] = {
    "floats": _guess_floats,
    "integers": _guess_integers,
    "text": _guess_text,
    "booleans": lambda _: "classification",
    "categories": lambda _: "classification",
    "complex numbers": lambda _: "regression",  # refused by the estimator
}


def _advice(words: list[str]) -> str:
    """Return advice on how to convert text to numbers."""
    if all(map(reads_as_number, words)):
        return ": for numbers, use pandas.to_numeric(y)"
    if _share(words, _is_number) > 0.5:
        return ": for numbers, use y.str.replace('[^-0-9.]', '', regex=True).astype(float)"
    return ""


def _share(words: list[str], test: Callable[[str], bool]) -> float:
    return sum(map(test, words)) / max(len(words), 1)


def _is_number(word: str) -> bool:
    return reads_as_number(_SYMBOLS.sub("", word))
