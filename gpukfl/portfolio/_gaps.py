"""Rows for predictions that have gaps, where those of the fit had none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpukfl._array import array_namespace, is_array, lies_in_parts
from gpukfl._columns import holds_float32, is_frame, numeric_frame
from gpukfl.portfolio._attributes import OutOfFold
from gpukfl.prediction import medians_of
from gpukfl.tables._gaps import filled


def without_gaps(X: Any, kept: OutOfFold, names: Sequence[str], /) -> Any:
    """Give rows (m, d) of numbers with medians of the fit for their gaps; warns of these.

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
        whole = filled(values, medians_of(kept.rows, kept.weights), names)
        return type(frame)(whole, index=frame.index, columns=frame.columns)
    in_memory = is_array(X) and not isinstance(X, np.memmap) and not lies_in_parts(X)
    if not in_memory or X.ndim != 2 or X.shape[1] != len(names):
        return X
    if not array_namespace(X).isdtype(X.dtype, "real floating"):
        return X
    return filled(X, medians_of(kept.rows, kept.weights), names)
