"""Rows divided among the GPUs of this machine, for a fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from gpukfl._array import Array, is_host
from gpukfl._cuda import cuda_devices
from gpukfl._places import resolve_place
from gpukfl.estimators._validation import (
    validate_labels,
    validate_samples,
    validate_targets,
    validate_weights,
)
from gpukfl.partitioned import Holder, PartitionedArray, Partitioning, ThreadHolders

_PARTS = 8  # whatever the number of GPUs, so that it changes no bit
_FEWEST = 1_000  # rows of a part


def fit_on_devices(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    devices: int,
    fit: Callable[[Any, Any, Any], object],
    /,
) -> None:
    """Divide host data among GPUs, and fit to them there; the model works on NumPy arrays.

    ``fit(X, y, sample_weight)`` takes arrays whose rows lie in parts.

    Raises
    ------
    TypeError
        If `X` is no data of the host.
    RuntimeError
        If there are not so many GPUs that CuPy can use.
    """
    X = validate_samples(estimator, X, reset=True, min_samples=2)
    if not is_host(X):
        msg = f"expected NumPy data to divide among devices, got {type(X).__name__}"
        raise TypeError(msg)
    y = (validate_labels if is_classifier(estimator) else validate_targets)(y, X)
    weights = validate_weights(sample_weight, X)
    resolve_place("cupy", X, dtype="float64", work=0)  # says what is missing
    if cuda_devices() < devices:
        msg = f"expected {devices} CUDA devices, found {cuda_devices()}"
        raise RuntimeError(msg)
    holders = [Holder(_empty_on(k)) for k in range(devices)]
    sizes = _sizes(X.shape[0])
    given = ThreadHolders(holders, sizes)
    try:
        rows = Partitioning(given, holders[0].place)
        fit(*(None if x is None else _divided(rows, given, x) for x in (X, y, weights)))
    finally:
        given.close()
    vars(estimator).update(estimator.__getstate__())  # where the data came from


def _empty_on(device: int) -> Array:
    import cupy

    with cupy.cuda.Device(device):
        return cupy.empty(0)


def _sizes(n: int) -> list[int]:
    """Rows of each part."""
    parts = max(1, min(_PARTS, n // _FEWEST))
    edges = np.linspace(0, n, parts + 1).astype(int)
    return np.diff(edges).tolist()


def _divided(rows: Partitioning, holders: ThreadHolders, x: np.ndarray) -> PartitionedArray:
    whole = PartitionedArray(rows, None, x.shape[1:], x.dtype)
    for part, start in enumerate(rows.edges[:-1]):
        holders.put(part, whole.key, x[start : rows.edges[part + 1]])
    return whole
