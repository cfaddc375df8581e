"""Gaps of new rows in columns of numbers that had none where the model was fitted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpukfl._array import Array, array_namespace, beside, to_host
from gpukfl._warnings import warn
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
    return xp.where(known, X, beside(medians, X)[None, :])
