"""Whether what a file says of a table fits together."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from gpukfl.tables._encoding import Encoding
from gpukfl.tables._table import Table


def fits(table: Table, encoding: Encoding, /) -> bool:
    """Whether an encoding, of which a file may say anything, is one of a table's codes."""
    try:
        if not (_is_finite(table) and _is_finite(encoding)):
            return False
        if tuple(encoding.coded) != tuple(table.coded):
            return False
        levels = np.array([float(one.levels) for one in table.coded])
        probes = np.stack([levels, np.full_like(levels, np.nan)])
        found = encoding.transform(probes)
    except (TypeError, ValueError, LookupError, AttributeError):
        return False
    return found.shape == (2, encoding.n_features) and bool(np.isfinite(found).all())


def _is_finite(value: Any) -> bool:
    """Whether all arrays inside a value are finite, of float64."""
    if isinstance(value, np.ndarray):
        return value.dtype == np.float64 and bool(np.isfinite(value).all())
    if isinstance(value, tuple):
        return all(map(_is_finite, value))
    return not is_dataclass(value) or all(_is_finite(getattr(value, f.name)) for f in fields(value))
