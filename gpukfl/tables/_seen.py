"""Rows of a table as models see them: encoded with their folds, or as codes with gaps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpukfl._array import Array, array_namespace
from gpukfl.tables._encoding import Encoding
from gpukfl.tables._lookups import columns_of


def with_gaps(encoding: Encoding, codes: Array, encoded: Array, /) -> Any:
    """Make rows that trees take: codes, and statistics in place of those of many levels.

    Codes are plain numbers to them: on the training rows of six tables trees that knew which were
    categories were hardly better, and take three times as long for a single row.
    """
    many, statistics = many_levels(encoding)
    kept = [j for j in range(len(encoding.coded)) if j not in many]
    parts = [columns_of(codes, kept)] if kept else []
    parts += [columns_of(encoded, statistics)] if statistics else []
    return array_namespace(codes).concat(parts, axis=1)


def many_levels(encoding: Encoding) -> tuple[list[int], list[int]]:
    """Codes of which statistics were made, and the columns of these, among the last of all."""
    levels = [j for j, one in enumerate(encoding.coded) if one.levels]
    at = encoding.n_features - sum(len(lookup.names) for lookup in encoding.lookups)
    many, statistics = list[int](), list[int]()
    for j, lookup in zip(levels, encoding.lookups, strict=True):
        if not lookup.weighed:
            many.append(j)
            statistics += range(at, at + len(lookup.names))
        at += len(lookup.names)
    return many, statistics


class Seen:
    """New rows as models see them, made when the first one asks and kept for the others.

    Of a table they are codes, and `by_fold` has an encoding for each model of a member; without
    encodings every model sees the rows as they are.
    """

    def __init__(self, X: Any, by_fold: Sequence[Encoding] | None = None, /) -> None:
        self._X, self._by_fold = X, by_fold
        self._made: dict[tuple[int, bool], Any] = {}

    def by(self, k: int, /, *, codes: bool) -> Any:
        """Give the rows to a model of fold k: encoded, or as trees take them."""
        if self._by_fold is None:
            return self._X
        if (k, codes) not in self._made:
            encoding = self._by_fold[k]
            made = (
                with_gaps(encoding, self._X, self.by(k, codes=False))
                if codes
                else encoding.transform(self._X)
            )
            self._made[k, codes] = made
        return self._made[k, codes]
