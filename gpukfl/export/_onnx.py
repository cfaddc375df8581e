"""Models as ONNX graphs, by tracing the prediction functions with ndonnx arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gpukfl._version import __version__
from gpukfl.core._array import Array, to_host
from gpukfl.core._files import atomic_write
from gpukfl.core._warnings import warn
from gpukfl.instantiations import INSTANTIATIONS, RandomKitchenSinks
from gpukfl.kernels import KERNELS, ColumnBlock, Product, Scaled, Sum
from gpukfl.predictor import Blend, KernelSum, Predictor, weighted_medians

# ---------------------------------------------------------------------------------- tables

# Codes of the columns of a table as ONNX graphs, with one input per column.


OUTPUTS = ("prediction", "label", "probabilities")
_DAY = 86_400_000_000  # microseconds
_NO_DATE = -(2**63)  # NumPy's integer for a missing date
_MAX_INTEGER = 2.0**53  # float64 has all integers below


def make_inputs(table: Any, ndx: ModuleType, /) -> tuple[dict[str, Any], Any]:
    """Make an input for each used column of a table, and the codes (n, c).

    Numbers, booleans, durations in seconds and codes are float64, and missing as NaN. Categories
    and ordered levels are text, and missing as "". Dates are int64, microseconds since 1970 in
    local time, in the fit's time zone if it had one, and missing as the lowest integer.

    Raises
    ------
    TypeError, ValueError
        If a column is text, a code with levels that are not integers, or has an invalid name.
    """
    inputs: dict[str, Any] = {}
    codes: list[Any] = []
    days: dict[str, Any] = {}  # since the first date of each column of dates
    starts = {column.name: column.start for column in table.columns}
    for column in table.columns:
        if not column.is_used:
            continue
        read, dtype = _column_reader(column)
        x = inputs[column.name] = ndx.argument(shape=("n",), dtype=getattr(ndx, dtype))
        own = list(read(column, x, ndx))
        if column.kind == "date":
            days[column.name] = own[0]
            shifts = [(other, column.start - starts[other]) for other in column.since]
            own += [own[0] - days[other] + shift for other, shift in shifts]
        codes += own
    return inputs, ndx.stack(codes, axis=1)


Read = Callable[[Any, Any, ModuleType], Iterator[Array]]


def _column_reader(column: Any) -> tuple[Read, str]:
    if column.name in OUTPUTS:
        msg = f"expected no column with the name of an output, got {column.name!r}: rename it"
        raise ValueError(msg)
    if not column.name:
        msg = "expected a name for every input of an ONNX graph, got a column named '': rename it"
        raise ValueError(msg)
    if column.kind == "text":
        msg = (
            f"expected columns that ONNX supports, got text in {column.name!r}: to drop it, fit "
            f"with columns={{{column.name!r}: 'identifier'}}"
        )
        raise TypeError(msg)
    return _READERS.get(column.kind, (_read_number, "float64"))


def _read_number(_: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    yield ndx.where(ndx.isfinite(x), x, _nan(ndx))


def _nan(ndx: ModuleType) -> Any:
    return ndx.asarray(np.float64(np.nan))


def _read_category(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    codes = {level: k for k, level in enumerate(column.levels)}
    yield _look_up(x, {**codes, "": -1}, len(codes), ndx)


def _read_ordinal(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    yield _look_up(x, {level: k for k, level in enumerate(column.levels)}, -1, ndx)


def _look_up(x: Any, codes: dict[Any, int], other: int, ndx: ModuleType) -> Any:
    """Return the codes of values, `other` for unknown values, and NaN for negative codes."""
    found = ndx.astype(ndx.extensions.static_map(x, codes, default=other), ndx.float64)
    return ndx.where(found < 0, _nan(ndx), found)


def _read_code(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    (number,) = _read_number(column, x, ndx)
    yield number
    levels = [float(level) for level in column.levels]
    if not all(level.is_integer() and abs(level) < _MAX_INTEGER for level in levels):
        msg = f"expected integer codes for an ONNX file, got others in {column.name!r}"
        raise TypeError(msg)
    is_integer = (ndx.floor(number) == number) & (ndx.abs(number) < _MAX_INTEGER)
    keys = ndx.astype(ndx.where(is_integer, number, ndx.asarray(0.0)), ndx.int64)
    codes = {int(level): k for k, level in enumerate(levels)}
    found = _look_up(keys, codes, len(codes), ndx)
    found = ndx.where(is_integer, found, ndx.asarray(float(len(codes))))
    yield ndx.where(ndx.isnan(number), number, found)


def _read_date(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    is_missing = x == _NO_DATE
    x = ndx.where(is_missing, ndx.asarray(np.int64(0)), x)
    day = x // _DAY
    year, month, date = _civil_date(day, ndx)
    parts = {
        "year": year,
        "month": month,
        "day": date,
        "weekday": (day + 3) % 7,  # January 1, 1970 was a Thursday
        "hour": ndx.astype(x - day * _DAY, ndx.float64) / _DAY * 24.0,
    }
    first = ndx.asarray(np.int64(round(column.start * _DAY)))
    days = ndx.astype(x - first, ndx.float64) / _DAY
    for found in (days, *(parts[part] for part in column.parts)):
        yield ndx.where(is_missing, _nan(ndx), ndx.astype(found, ndx.float64))


def _civil_date(day: Any, ndx: ModuleType) -> tuple[Any, Any, Any]:
    """Return year, month and day of days since 1970 in NumPy's calendar.

    Years start in March here, so that leap days come last; an era has 400 years.
    """
    day = day + 719_468  # since March 1 of year 0
    era = day // 146_097
    day_of_era = day - era * 146_097
    leap_days = day_of_era // 1_460 - day_of_era // 36_524 + day_of_era // 146_096
    year = (day_of_era - leap_days) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    month = (5 * day_of_year + 2) // 153  # 0 is March
    date = day_of_year - (153 * month + 2) // 5 + 1
    month = ndx.where(month < 10, month + 3, month - 9)
    return year + era * 400 + ndx.astype(month <= 2, ndx.int64), month, date


_READERS: dict[str, tuple[Read, str]] = {
    "category": (_read_category, "utf8"),
    "ordered": (_read_ordinal, "utf8"),
    "code": (_read_code, "float64"),
    "date": (_read_date, "int64"),
}


_KERNEL_PARTS: dict[Any, tuple[str, ...]] = {  # attributes with kernels, of composite kernels
    Sum: ("first", "second"),
    Product: ("first", "second"),
    Scaled: ("kernel",),
    ColumnBlock: ("kernel",),
}


def write_onnx(
    estimator: Any, path: str | Path, names: Sequence[str], target: str, reader: Any = None, /
) -> None:
    """Write a fitted estimator to an ONNX file; see `DescribedEstimator.to_onnx`.

    Parameters
    ----------
    estimator : estimator of a method, or a portfolio
        A fitted estimator.
    path : str or Path
        The file.
    names : sequence of str
        Names of the features, for the file's metadata.
    target : str
        Name of the target, for the file's metadata.
    reader : Reader, optional
        Makes rows of a table for a method other than blends.
    """
    ndx = _ndonnx()
    host = estimator.to_host()
    if getattr(host, "seen_rows_", None) is not None:
        warn("the ONNX graph predicts rows that the fit has seen as if they were new")
    model = host.predictor_.to_traceable()
    _check_exportable(model)
    labels = None if model.labels is None else _onnx_labels(model.labels)
    with _use_reference_constants():
        inputs, X = _graph_inputs(host, model, reader, ndx)
        graph = ndx.build(inputs, _graph_outputs(model.map_arrays(ndx.asarray), X, labels, ndx))
    graph.producer_name, graph.producer_version = "gpukfl", __version__
    about = {"method": type(estimator).__name__, "target": target, "features": "\n".join(names)}
    for key, value in about.items():
        graph.metadata_props.add(key=f"gpukfl.{key}", value=value)
    with atomic_write(path) as file:
        file.write(graph.SerializeToString())


def _graph_inputs(
    host: Any, model: Predictor, reader: Any, ndx: ModuleType
) -> tuple[dict[str, Any], Array]:
    """Make the inputs of a graph, and the model's rows."""
    if reader is not None:
        inputs, codes = make_inputs(reader.table, ndx)
        return inputs, reader.encoding.transform(codes)
    is_blend = isinstance(model.values, Blend)
    if is_blend and host.encodings_ is not None:
        return make_inputs(host.encodings_.table, ndx)
    precision = np.dtype(_row_dtype(host, model)).name
    X = ndx.argument(shape=("n", model.n_features), dtype=getattr(ndx, precision))
    if not is_blend:
        return {"X": X}, X
    medians = weighted_medians(host.out_of_fold_.rows, host.out_of_fold_.weights)
    return {"X": X}, ndx.where(ndx.isfinite(X), X, ndx.asarray(medians.astype(precision)))


def _ndonnx() -> ModuleType:
    try:
        import ndonnx
    except ImportError as error:
        msg = "writing ONNX files needs ndonnx: pip install 'gpukfl[onnx]'"
        raise ImportError(msg) from error
    return ndonnx


@contextlib.contextmanager
def _use_reference_constants() -> Iterator[None]:
    """Compute constants of a graph by ONNX's reference implementation.

    The default makes a session of onnxruntime for each of thousands of constants. The graph is the
    same, but this takes longer than all other steps.
    """
    from spox import _future, _value_prop

    before = _value_prop._VALUE_PROP_BACKEND
    _future.set_value_prop_backend(_future.ValuePropBackend.REFERENCE)
    try:
        yield
    finally:
        _future.set_value_prop_backend(before)


def _graph_outputs(
    model: Predictor, X: Any, labels: np.ndarray | None, ndx: ModuleType
) -> dict[str, Any]:
    values = model.values(X)
    found = model.decode(values)
    if labels is None:
        return {"prediction": found}
    label = ndx.take(ndx.asarray(labels), found, axis=0)
    return {"label": label, "probabilities": model.probabilities(values)}


def _onnx_labels(labels: np.ndarray) -> np.ndarray:
    """Return labels in a type of ONNX: numbers, booleans or text."""
    if labels.dtype == object and all(isinstance(label, str) for label in labels):
        return labels.astype(str)
    if labels.dtype.kind not in "biufU":
        msg = f"expected labels that are text or numbers for an ONNX file, got {labels.dtype}"
        raise TypeError(msg)
    return labels


def _row_dtype(host: Any, model: Predictor) -> Any:
    """Return the dtype of the training rows."""
    values: Any = model.values
    if isinstance(values, Blend):
        return to_host(host.out_of_fold_.rows).dtype
    # The reference of a sum of kernels is float64 for rows of any dtype
    return (values.intercept if isinstance(values, KernelSum) else values.reference).dtype


def _check_exportable(model: Predictor) -> None:
    """Raise TypeError for kernels and instantiations that a user defined."""
    values: Any = model.values
    if isinstance(values, KernelSum):
        _check_kernel(values.kernel)
    one = getattr(values, "instantiation", None)
    while isinstance(one, RandomKitchenSinks):
        one = one.of
    if one is not None and type(one) not in INSTANTIATIONS.values():
        msg = f"expected an instantiation of gpukfl in an ONNX file, got {type(one).__name__}"
        raise TypeError(msg)
    if isinstance(values, Blend):
        for member in values.members:
            for inner in member.models:
                _check_exportable(inner)


def _check_kernel(kernel: Any) -> None:
    for name in _KERNEL_PARTS.get(type(kernel), ()):
        _check_kernel(getattr(kernel, name))
    if type(kernel) not in (*KERNELS.values(), *_KERNEL_PARTS):
        msg = f"expected a kernel of gpukfl in an ONNX file, got {type(kernel).__name__}"
        raise TypeError(msg)
