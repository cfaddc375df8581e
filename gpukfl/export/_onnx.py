"""Models as ONNX graphs: the same functions, of arrays that record what is done with them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gpukfl._array import Array, to_host
from gpukfl._replacing import replacing
from gpukfl._version import __version__
from gpukfl.export._tables import inputs_of
from gpukfl.instantiations import INSTANTIATIONS, RandomKitchenSinks
from gpukfl.kernels import KERNELS, Product, Scaled, Sum
from gpukfl.prediction import BLENDS, Served, medians_of, served, served_foreign

_PARTS: dict[Any, tuple[str, ...]] = {
    Sum: ("first", "second"),
    Product: ("first", "second"),
    Scaled: ("kernel",),
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
    model = served(host, _kind_of, served_foreign)
    _check_known(host)
    labels = None if model.labels is None else _labels(model.labels)
    with _quick_constants():
        inputs, X = _inputs(host, model, reader, ndx)
        graph = ndx.build(inputs, _outputs(model.placed(ndx.asarray), X, labels, ndx))
    graph.producer_name, graph.producer_version = "gpukfl", __version__
    said = {"method": type(estimator).__name__, "target": target, "features": "\n".join(names)}
    for key, value in said.items():
        graph.metadata_props.add(key=f"gpukfl.{key}", value=value)
    with replacing(path) as file:
        file.write(graph.SerializeToString())


def _inputs(host: Any, model: Served, reader: Any, ndx: ModuleType) -> tuple[dict[str, Any], Array]:
    """Make inputs of a graph, and the rows that the model sees."""
    if reader is not None:
        inputs, codes = inputs_of(reader.table, ndx)
        return inputs, reader.encoding.transform(codes)
    if _kind_of(host) in BLENDS and host.encodings_ is not None:
        return inputs_of(host.encodings_.table, ndx)
    precision = np.dtype(_precision_of(host, model)).name
    X = ndx.argument(shape=("n", model.n_features), dtype=getattr(ndx, precision))
    if _kind_of(host) not in BLENDS:
        return {"X": X}, X
    medians = medians_of(host.out_of_fold_.rows, host.out_of_fold_.weights)
    return {"X": X}, ndx.where(ndx.isfinite(X), X, ndx.asarray(medians.astype(precision)))


def _ndonnx() -> ModuleType:
    try:
        import ndonnx
    except ImportError as error:
        msg = "expected ndonnx, which makes ONNX files: pip install 'gpukfl[onnx]'"
        raise ImportError(msg) from error
    return ndonnx


@contextlib.contextmanager
def _quick_constants() -> Iterator[None]:
    """Let values that are known while a graph is built be computed by ONNX's own reference.

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


def _kind_of(estimator: Any) -> str:
    return type(estimator).__name__


def _outputs(model: Served, X: Any, labels: np.ndarray | None, ndx: ModuleType) -> dict[str, Any]:
    values = model.values(X)
    found = model.predicted(values)
    if labels is None:
        return {"prediction": found}
    label = ndx.take(ndx.asarray(labels), found, axis=0)
    return {"label": label, "probabilities": model.probabilities(values)}


def _labels(labels: np.ndarray) -> np.ndarray:
    """Labels as ONNX knows them: numbers, booleans or text."""
    if labels.dtype == object and all(isinstance(label, str) for label in labels):
        return labels.astype(str)
    if labels.dtype.kind not in "biufU":
        msg = f"expected labels that are text or numbers, which ONNX has, got {labels.dtype}"
        raise TypeError(msg)
    return labels


def _precision_of(host: Any, model: Served) -> Any:
    """Dtype of rows: that of the fit."""
    if _kind_of(host) in BLENDS:
        return to_host(host.out_of_fold_.rows).dtype
    values: Any = model.values  # of sums of kernels in float64, whatever the rows are
    centers = getattr(host, "centers_", None)
    return (values.reference if centers is None else centers).dtype


def _check_known(host: Any) -> None:
    """Raise TypeError where a model has a kernel or an instantiation of the user's."""
    kernel = getattr(host, "kernel_", None)
    if kernel is not None:
        _check_kernel(kernel)
    one = getattr(host, "instantiation_", None)
    while isinstance(one, RandomKitchenSinks):
        one = one.of
    if one is not None and type(one) not in INSTANTIATIONS.values():
        msg = f"expected an instantiation of gpukfl in an ONNX file, got {type(one).__name__}"
        raise TypeError(msg)
    for member in getattr(host, "members_", ()):
        for inner in member.models:
            _check_known(inner)


def _check_kernel(kernel: Any) -> None:
    for name in _PARTS.get(type(kernel), ()):
        _check_kernel(getattr(kernel, name))
    if type(kernel) not in (*KERNELS.values(), *_PARTS):
        msg = f"expected a kernel of gpukfl in an ONNX file, got {type(kernel).__name__}"
        raise TypeError(msg)
