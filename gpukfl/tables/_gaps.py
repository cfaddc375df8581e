"""Gaps of new rows in columns of numbers that had none where the model was fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    is_array,
    lies_in_parts,
    to_host,
)
from gpukfl.core._frames import holds_float32, is_frame, numeric_frame
from gpukfl.core._warnings import warn
from gpukfl.tables._frame import listed


def filled(X: Array, medians: np.ndarray, names: Sequence[str], /) -> Array:
    """Put medians (d,) for what is not finite in `X` (m, d), and warn of these columns by name."""
    xp = array_namespace(X)
    known = xp.isfinite(X)
    lacking = np.flatnonzero(~to_host(xp.all(known, axis=0)))
    if not len(lacking):
        return X
    where = listed([names[j] for j in lacking.tolist()])
    warn(f"X has gaps in {where}, where the rows of the fit had none: their medians stand for them")
    return xp.where(known, X, asarray_like(medians, X)[None, :])


def without_gaps(X: Any, medians: Callable[[], np.ndarray], names: Sequence[str], /) -> Any:
    """Replace missing values in rows (m, d) by medians of the fit, with a warning.

    What medians cannot mend, and what is too large to be copied, stays what it is.

    Raises
    ------
    ValueError
        If columns of a frame hold anything but numbers; names them.
    """
    if is_frame(X):
        frame = numeric_frame(X, gaps=True)
        values = frame.to_numpy(np.float32 if holds_float32(frame) else np.float64)
        if values.shape[1] != len(names):
            return X
        whole = filled(values, medians(), names)
        return type(frame)(whole, index=frame.index, columns=frame.columns)
    in_memory = is_array(X) and not isinstance(X, np.memmap) and not lies_in_parts(X)
    if not in_memory or X.ndim != 2 or X.shape[1] != len(names):
        return X
    if not array_namespace(X).isdtype(X.dtype, "real floating"):
        return X
    return filled(X, medians(), names)
