"""Views of new rows for models: encoded, as codes, with levels, and without missing values."""

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
from gpukfl.core._frames import holds_float32, is_frame, listed, numeric_frame
from gpukfl.core._warnings import warn
from gpukfl.tables._codes import warn_infinite
from gpukfl.tables._column import Coded
from gpukfl.tables._encoding import Encoding
from gpukfl.tables._lookups import FEW, Lookup, select_columns

# -------------------------------------------------------------------------------- views


NUMBERS, CODES, LEVELS = VIEWS = "numbers", "codes", "levels"
_MOST_LEVELS, _ROWS_PER_LEVEL = 32, 20  # limits of a column whose levels get indicators
_MOST_COLUMNS = 64  # indicators of levels in all
_BINS = 255  # bins of a tree's column; more levels would share bins


def with_gaps(encoding: Encoding, codes: Array, encoded: Array, /) -> Any:
    """Return rows for trees: codes, and statistics of columns with many levels.

    Trees treat codes as numbers. On seventeen tables with categories of at least nine levels, trees
    with categorical splits were no better, and three times slower for a single row.
    """
    kept, statistics = columns_with_gaps(encoding)
    parts = [select_columns(codes, kept)] if kept else []
    parts += [select_columns(encoded, statistics)] if statistics else []
    return array_namespace(codes).concat(parts, axis=1)


def columns_with_gaps(encoding: Encoding) -> tuple[list[int], list[int]]:
    """Return the columns of codes, and of encoded statistics, that trees use."""
    levels = [j for j, one in enumerate(encoding.coded) if one.levels]
    at = encoding.n_features - sum(len(lookup.names) for lookup in encoding.lookups)
    left, statistics = set[int](), list[int]()
    for j, lookup in zip(levels, encoding.lookups, strict=True):
        if not lookup.weighed:
            if encoding.coded[j].levels > _BINS:
                left.add(j)
            statistics += range(at, at + len(lookup.names))
        at += len(lookup.names)
    return [j for j in range(len(encoding.coded)) if j not in left], statistics


def find_level_columns(codes: np.ndarray, coded: Sequence[Coded], /) -> tuple[int, ...]:
    """Return the columns of codes (n, c) whose levels get indicators, fewest levels first."""
    known = len(codes) - np.count_nonzero(np.isnan(codes), axis=0)
    found = [j for j, one in enumerate(coded) if FEW < one.levels <= _MOST_LEVELS]
    found = [j for j in found if known[j] >= _ROWS_PER_LEVEL * coded[j].levels]
    found.sort(key=lambda j: coded[j].levels)
    counts = np.cumsum([coded[j].levels for j in found])
    return tuple(j for j, count in zip(found, counts, strict=True) if count <= _MOST_COLUMNS)


def with_levels(encoding: Encoding, some: Sequence[int], codes: Array, encoded: Array, /) -> Any:
    """Append a column for each level of `some` columns of codes to encoded rows."""
    xp, parts = array_namespace(codes), [encoded]
    for j in some:
        size = encoding.coded[j].levels
        of_level = Lookup(np.eye(size + 2, size), (), weighed=False)
        parts.append(xp.astype(of_level(codes[:, j]), encoded.dtype))
    return xp.concat(parts, axis=1)


def are_level_columns(some: Sequence[int], coded: Sequence[Coded], /) -> bool:
    """Whether these are distinct columns of codes with levels."""
    known = [j for j in some if 0 <= j < len(coded) and coded[j].levels]
    return len(set(known)) == len(some)


def level_outputs(encoding: Encoding, some: Sequence[int], /) -> list[tuple[str, int]]:
    """Return the names of the columns with levels, and their source columns."""
    found = list(zip(encoding.names, encoding.sources, strict=True))
    for j in some:
        one = encoding.coded[j]
        found += [(f"{one.name}={' '.join(label.split())}", one.source) for label in one.labels]
    return found


class Seen:
    """The views of new rows, computed on first use.

    Rows of a table are codes, and `by_fold` has an encoding for each model. Without encodings every
    model sees the rows unchanged. `some` are the columns whose levels get indicators.
    """

    def __init__(
        self, X: Any, by_fold: Sequence[Encoding] | None = None, some: Sequence[int] = (), /
    ) -> None:
        self._X, self._by_fold, self._some = X, by_fold, some
        self._views: dict[tuple[int, str], Any] = {}

    def rows(self, k: int, view: str, /) -> Any:
        """Return the rows in a view of `VIEWS`, for the model of fold k."""
        if self._by_fold is None:
            return self._X
        if (k, view) not in self._views:
            self._views[k, view] = self._make_view(self._by_fold[k], k, view)
        return self._views[k, view]

    def _make_view(self, encoding: Encoding, k: int, view: str) -> Any:
        if view == NUMBERS:
            return encoding.transform(self._X)
        encoded = self.rows(k, NUMBERS)
        if view == CODES:
            return with_gaps(encoding, self._X, encoded)
        return with_levels(encoding, self._some, self._X, encoded)


# ----------------------------------------------------------------------- missing values


def fill_with_medians(X: Array, medians: np.ndarray, names: Sequence[str], /) -> Array:
    """Replace values that are not finite in `X` (m, d) by medians (d,), with a warning."""
    xp = array_namespace(X)
    known = xp.isfinite(X)
    lacking = np.flatnonzero(~to_host(xp.all(known, axis=0)))
    if not len(lacking):
        return X
    infinite = to_host(xp.sum(xp.astype(~known & ~xp.isnan(X), xp.int64), axis=0)).tolist()
    warn_infinite(dict(zip(names, infinite, strict=True)), X.shape[0])
    where = listed([names[j] for j in lacking.tolist()])
    warn(f"missing values in {where}, which had none in the fit, are replaced by its medians")
    return xp.where(known, X, asarray_like(medians, X)[None, :])


def replace_gaps(X: Any, medians: Callable[[], np.ndarray], names: Sequence[str], /) -> Any:
    """Replace missing values in rows (m, d) by medians of the fit, with a warning.

    Other data do not change: rows of another width, memory maps, partitioned rows and integers.
    Raises ValueError if columns of a frame hold anything but numbers; names them.
    """
    if is_frame(X):
        frame = numeric_frame(X, gaps=True)
        values = frame.to_numpy(np.float32 if holds_float32(frame) else np.float64)
        if values.shape[1] != len(names):
            return X
        whole = fill_with_medians(values, medians(), names)
        return type(frame)(whole, index=frame.index, columns=frame.columns)
    in_memory = is_array(X) and not isinstance(X, np.memmap) and not lies_in_parts(X)
    if not in_memory or X.ndim != 2 or X.shape[1] != len(names):
        return X
    if not array_namespace(X).isdtype(X.dtype, "real floating"):
        return X
    return fill_with_medians(X, medians(), names)
