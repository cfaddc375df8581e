"""Predictions as series and frames, with the index of the rows and the names of targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpukfl.core._array import is_array, to_host
from gpukfl.core._frames import is_frame
from gpukfl.partitioned import is_dask

AUTO, DEFAULT, PANDAS, POLARS = "auto", "default", "pandas", "polars"
OUTPUTS = (AUTO, DEFAULT, PANDAS, POLARS)


def frame_library(X: Any, output: str, /) -> str:
    """Return the library of predictions for rows `X`; "" for plain arrays."""
    if output == DEFAULT or is_dask(X):
        return ""
    if output in (PANDAS, POLARS):
        return output
    # NumPy functions do not take polars series, so these need an explicit `output`
    is_pandas = type(X).__module__.split(".")[0] == PANDAS
    return PANDAS if is_pandas and is_frame(X) else ""


def label_rows(
    found: Any, X: Any, library: str, names: Sequence[Any], parts: Sequence[Any] = (), /
) -> Any:
    """Return values of rows as a series or a frame.

    Parameters
    ----------
    found : array of shape (n,), (n, c), or (n, t, c)
        Values.
    X : object
        The rows, whose index the result gets if they have one.
    library : {"pandas", "polars"}
        Library of the result.
    names : sequence
        The name of a series, or those of a frame's columns, or those of t targets.
    parts : sequence
        Names of the c values of each target; empty for one value.
    """
    values = to_host(found) if is_array(found) else np.asarray(found)
    if library == POLARS:
        return _label_in_polars(values, names, parts)
    import pandas as pd

    index = getattr(X, "index", None)
    index = index if isinstance(index, pd.Index) else None
    if values.ndim == 1:
        return pd.Series(values, index=index, name=names[0])
    columns: Any = pd.Index(list(parts or names))
    if values.ndim == 3:
        columns = pd.MultiIndex.from_product([names, parts])
    return pd.DataFrame(values.reshape(len(values), -1), index=index, columns=columns)


def _label_in_polars(values: np.ndarray, names: Sequence[Any], parts: Sequence[Any]) -> Any:
    """Return a series or a frame of polars, whose names are text."""
    import polars as pl

    values = values if values.dtype.kind != "O" else np.array(values.tolist())
    if values.ndim == 1:
        return pl.Series(str(names[0]), values)
    labels = [str(one) for one in (parts or names)]
    if values.ndim == 3:
        labels = [f"{name} {part}" for name in names for part in parts]
    flat = values.reshape(len(values), -1)
    return pl.DataFrame({name: flat[:, k] for k, name in enumerate(labels)})
