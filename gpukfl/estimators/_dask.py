"""Dask collections and devices in the public methods of estimators."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from sklearn.base import is_classifier

from gpukfl.core._array import device_context, library_name
from gpukfl.core._cuda import check_not_forked
from gpukfl.core._memory import explain_full_gpu
from gpukfl.core._places import Backend
from gpukfl.partitioned import Collections, Read, is_dask, read_partitions
from gpukfl.tables._training import SAMPLE

# ------------------------------------------------------------------------------------ dask


def find_client(estimator: Any, /) -> Any:
    """Return the client for a fit: the estimator's own, which must be open, or the current one."""
    client = estimator.client
    if client is None and "distributed" in sys.modules:
        from distributed import default_client

        try:
            client = default_client()
        except ValueError:  # there is none: this process computes
            return None
    if client is not None and client.status != "running":
        msg = f"expected a connected Dask client, got one that is {client.status}"
        raise RuntimeError(msg)
    return client


def fit_collections(
    estimator: Any,
    given: Collections,
    fit: Callable[[Any, Any, Any], object],
    /,
    *,
    read: Read | None = None,
) -> None:
    """Fit to Dask collections on their workers, or to few rows locally.

    ``fit(X, y, sample_weight)`` takes host arrays and frames, or partitioned arrays. `read` encodes
    partitions that are not numeric.
    """
    client = find_client(estimator)
    if given.n_rows <= SAMPLE:
        X, y, weights = given.sample(np.random.RandomState(0), given.n_rows)
        fit(X if read is None else read(X), y, weights)
        return
    backend, labels = Backend.parse(estimator.backend).name, is_classifier(estimator)
    with read_partitions(given, client, backend, labels=labels, read=read) as parts:
        fit(parts.X, parts.y, parts.weights)
    if given.names is not None and read is None:
        estimator.feature_names_in_ = np.array(given.names, dtype=object)


def has_dask(*collections: Any) -> bool:
    """Whether one of the values is a Dask collection."""
    return any(map(is_dask, collections))


def defer_for_dask(method: Any, /) -> Any:
    """Decorate a method whose first argument is data, so that Dask collections are lazy."""

    @functools.wraps(method)
    def wrapper(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        if is_dask(X):
            return map_lazily(functools.partial(_call_method, method, args, kwargs), self, X)
        return method(self, X, *args, **kwargs)

    return wrapper


def _call_method(method: Any, args: Any, kwargs: Any, model: Any, X: Any, /) -> Any:
    return method(model, X, *args, **kwargs)


def map_lazily(call: Callable[[Any, Any], Any], model: Any, X: Any, /) -> Any:
    """Return ``call(model, rows)`` of every partition lazily, as the kind of `X`.

    `model` works on NumPy arrays and frames. For a frame, the result is a series or a frame. If a
    call returns several arrays, so does this, and each is computed separately.
    """
    if hasattr(X, "columns"):
        example = _example_row(model, X._meta)
    else:
        X = X.rechunk({1: -1})
        example = np.zeros((1, X.shape[1]), dtype=X.dtype)
    found = call(model, example)
    if isinstance(found, tuple):
        return tuple(
            map_lazily(functools.partial(_call_kth, call, k), model, X) for k in range(len(found))
        )
    empty = np.asarray(found)[:0]
    if hasattr(X, "columns"):
        framed = _to_pandas(empty, X._meta.index)
        return X.map_partitions(_call_on_frame, model, call, framed, meta=framed)
    form: dict[str, Any] = {"drop_axis": 1}
    if empty.ndim > 1:
        form = {"chunks": (X.chunks[0], *((k,) for k in empty.shape[1:]))}
        form["new_axis"] = list(range(2, empty.ndim)) or None
    return X.map_blocks(_call_on_rows, model, call, empty, meta=empty, dtype=empty.dtype, **form)


def _example_row(model: Any, empty: Any) -> Any:
    """Return an example row that shows the form of a model's results.

    Dask's own example values may be unknown to the model.
    """
    import pandas as pd

    if getattr(model, "table", None) or getattr(model, "encodings_", None):
        return pd.DataFrame(index=[0], columns=empty.columns, dtype=object)
    plain = {c: t for c, t in empty.dtypes.items() if isinstance(t, np.dtype) and t.kind in "fiub"}
    return pd.DataFrame(np.zeros((1, len(empty.columns))), columns=empty.columns).astype(plain)


def _call_kth(call: Callable[[Any, Any], Any], k: int, model: Any, X: Any, /) -> Any:
    return call(model, X)[k]


def _call_on_rows(rows: Any, model: Any, call: Callable[[Any, Any], Any], empty: np.ndarray) -> Any:
    return call(model, rows) if len(rows) else empty


def _call_on_frame(part: Any, model: Any, call: Callable[[Any, Any], Any], empty: Any) -> Any:
    return _to_pandas(np.asarray(call(model, part)), part.index) if len(part) else empty


def _to_pandas(found: np.ndarray, index: Any) -> Any:
    """Convert results to a series or a frame with the index of their rows."""
    import pandas as pd

    if found.ndim > 2:
        found = found.reshape(len(found), int(np.prod(found.shape[1:])))
    return (pd.Series if found.ndim == 1 else pd.DataFrame)(found, index=index)


# ---------------------------------------------------------------------------------- device

Given = ParamSpec("Given")
Result = TypeVar("Result")


def run_on_data_device(
    method: Callable[Concatenate[Any, Any, Given], Result], /
) -> Callable[Concatenate[Any, Any, Given], Result]:
    """Decorate a method whose first argument is data X.

    For a Dask collection, methods other than `fit` are lazy.
    """

    @functools.wraps(method)
    def wrapper(self: Any, X: Any, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if is_dask(X) and method.__name__ != "fit":
            lazy: Any = defer_for_dask(method)(self.to_host(), X, *args, **kwargs)
            return lazy
        if library_name(X) == "cupy":
            check_not_forked()
        try:
            with device_context(X):
                return method(self, X, *args, **kwargs)
        except Exception as error:
            explain_full_gpu(error)
            raise

    return wrapper
