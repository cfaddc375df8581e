"""Columns that say the same as one before them."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from gpukfl.tables import _values
from gpukfl.tables._column import Column
from gpukfl.tables._values import Values


def without_duplicates(
    columns: Sequence[Column], values: Sequence[Values], kept: Set[str], /
) -> list[Column]:
    """Mark columns that repeat an earlier one; labels may have other names."""
    seen: dict[bytes, str] = {}
    found = []
    for column, one in zip(columns, values, strict=True):
        if column.used and column.name not in kept:
            first = seen.setdefault(_digest(one), column.name)
            if first != column.name:
                column = Column(column.name, "duplicate", f"says the same as {first}")  # noqa: PLW2901
        found.append(replace(column))
    return found


def _digest(values: Values) -> bytes:
    data = values.data
    if values.form == _values.LABELS:
        import pandas as pd

        data = pd.factorize(data)[0].astype(np.int64)  # numbered as they come
        data[values.data < 0] = -1
    form = "labels" if values.form == _values.LABELS else values.form
    return blake2b(np.ascontiguousarray(data).view(np.uint8), key=form.encode()).digest()
