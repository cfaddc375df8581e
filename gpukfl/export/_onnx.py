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

# Codes of the columns of a table as ONNX graphs: one input a column.


OUTPUTS = ("prediction", "label", "probabilities")
_DAY = 86_400_000_000  # microseconds
_NO_TIME = -(2**63)  # as NumPy writes that there is no date
_LARGEST = 2.0**53  # up to which floats are integers


def make_inputs(table: Any, ndx: ModuleType, /) -> tuple[dict[str, Any], Any]:
    """Make an input for each used column of a table, and the codes (n, c).

    Numbers, booleans, durations in seconds and codes are float64, with NaN for none; categories and
    ordered levels are text, "" for none; dates are int64, microseconds since 1970 in local time, of
    the fit's time zone where it had one, the least integer for none.

    Raises
    ------
    TypeError, ValueError
        If a column is text, has levels that are no integers, no name, or that of an output.
    """
    inputs: dict[str, Any] = {}
    codes: list[Any] = []
    days: dict[str, Any] = {}
    starts = {column.name: column.start for column in table.columns}
    for column in table.columns:
        if not column.is_used:
            continue
        read, dtype = _column_reader(column)
        x = inputs[column.name] = ndx.argument(shape=("n",), dtype=getattr(ndx, dtype))
        made = list(read(column, x, ndx))
        if column.kind == "date":
            days[column.name] = made[0]
            apart = [(other, column.start - starts[other]) for other in column.since]
            made += [made[0] - days[other] + gap for other, gap in apart]
        codes += made
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
    places = {level: k for k, level in enumerate(column.levels)}
    yield _look_up(x, {**places, "": -1}, len(places), ndx)


def _read_ordinal(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    yield _look_up(x, {level: k for k, level in enumerate(column.levels)}, -1, ndx)


def _look_up(x: Any, places: dict[Any, int], other: int, ndx: ModuleType) -> Any:
    """Return the codes of values, with NaN for unknown ones."""
    found = ndx.astype(ndx.extensions.static_map(x, places, default=other), ndx.float64)
    return ndx.where(found < 0, _nan(ndx), found)


def _read_code(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    (number,) = _read_number(column, x, ndx)
    yield number
    levels = [float(level) for level in column.levels]
    if not all(level.is_integer() and abs(level) < _LARGEST for level in levels):
        msg = f"expected integer codes for an ONNX file, got others in {column.name!r}"
        raise TypeError(msg)
    whole = (ndx.floor(number) == number) & (ndx.abs(number) < _LARGEST)
    keys = ndx.astype(ndx.where(whole, number, ndx.asarray(0.0)), ndx.int64)
    places = {int(level): k for k, level in enumerate(levels)}
    found = _look_up(keys, places, len(places), ndx)
    found = ndx.where(whole, found, ndx.asarray(float(len(places))))
    yield ndx.where(ndx.isnan(number), number, found)


def _read_date(column: Any, x: Any, ndx: ModuleType) -> Iterator[Any]:
    gap = x == _NO_TIME
    x = ndx.where(gap, ndx.asarray(np.int64(0)), x)
    day = x // _DAY
    year, month, date = _civil_date(day, ndx)
    parts = {
        "year": year,
        "month": month,
        "day": date,
        "weekday": (day + 3) % 7,  # 1970: a Thursday
        "hour": ndx.astype(x - day * _DAY, ndx.float64) / _DAY * 24.0,
    }
    first = ndx.asarray(np.int64(round(column.start * _DAY)))
    days = ndx.astype(x - first, ndx.float64) / _DAY
    for found in (days, *(parts[part] for part in column.parts)):
        yield ndx.where(gap, _nan(ndx), ndx.astype(found, ndx.float64))


def _civil_date(day: Any, ndx: ModuleType) -> tuple[Any, Any, Any]:
    """Return year, month and day of days since 1970 in NumPy's calendar.

    Counted in years that begin in March, so that leap days are last, and in eras of 400 years.
    """
    day = day + 719_468  # since March 1 of year 0
    era = day // 146_097
    of_era = day - era * 146_097
    of_years = of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096
    year = of_years // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153  # 0 is March
    date = of_year - (153 * month + 2) // 5 + 1
    month = ndx.where(month < 10, month + 3, month - 9)
    return year + era * 400 + ndx.astype(month <= 2, ndx.int64), month, date


_READERS: dict[str, tuple[Read, str]] = {
    "category": (_read_category, "utf8"),
    "ordered": (_read_ordinal, "utf8"),
    "code": (_read_code, "float64"),
    "date": (_read_date, "int64"),
}


_PARTS: dict[Any, tuple[str, ...]] = {
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
        Fitted.
    path : str or Path
        The file.
    names : sequence of str
        Of its features, for the file's metadata.
    target : str
        Name of what is predicted, for the same.
    reader : Reader, optional
        What makes rows for the estimator of a table.
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
    said = {"method": type(estimator).__name__, "target": target, "features": "\n".join(names)}
    for key, value in said.items():
        graph.metadata_props.add(key=f"gpukfl.{key}", value=value)
    with atomic_write(path) as file:
        file.write(graph.SerializeToString())


def _graph_inputs(
    host: Any, model: Predictor, reader: Any, ndx: ModuleType
) -> tuple[dict[str, Any], Array]:
    """Make the inputs of a graph, and the rows that the model takes."""
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

    Otherwise each of thousands of constants has a session of onnxruntime, which takes longer than
    all else; the graph is the same.
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
    """Return the dtype of rows, that of the fit."""
    values: Any = model.values
    if isinstance(values, Blend):
        return to_host(host.out_of_fold_.rows).dtype
    # Sums of kernels are in float64, whatever the rows are
    return (values.intercept if isinstance(values, KernelSum) else values.reference).dtype


def _check_exportable(model: Predictor) -> None:
    """Raise TypeError if a model has a user's kernel or instantiation."""
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
    for name in _PARTS.get(type(kernel), ()):
        _check_kernel(getattr(kernel, name))
    if type(kernel) not in (*KERNELS.values(), *_PARTS):
        msg = f"expected a kernel of gpukfl in an ONNX file, got {type(kernel).__name__}"
        raise TypeError(msg)
