"""From the values of a column to its codes."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpukfl.tables._column import Coded, Column
from gpukfl.tables._conversion import to_dates, to_labels, to_numbers
from gpukfl.tables._dates import PERIODS, days_since, part_of
from gpukfl.tables._text import text_parts
from gpukfl.tables._values import Values

_NAMED = 32  # levels that are told by name


def coded_of(column: Column, source: int, /) -> list[Coded]:
    """Columns of codes that a column becomes."""
    gaps, name, kind = column.missing > 0, column.name, column.kind
    if not column.used:
        return []
    if kind == "category":
        return [_category_of(column, source)]
    if kind == "code":
        return [Coded(name, source, gaps=gaps), _category_of(column, source)]
    if kind == "date":
        days = Coded(f"{name} days", source, gaps=gaps)
        parts = [Coded(f"{name} {p}", source, period=PERIODS.get(p, 0.0)) for p in column.parts]
        return [days, *parts]
    if kind == "text":
        length = Coded(f"{name} length", source, gaps=gaps)
        k = len(column.components)
        return [length, *(Coded(f"{name} text {j + 1}", source) for j in range(k))]
    return [Coded(name, source, gaps=gaps)]


def _category_of(column: Column, source: int) -> Coded:
    k = len(column.levels)
    labels = column.levels if k <= _NAMED else ()
    return Coded(column.name, source, k, gaps=column.missing > 0, labels=labels)


class Coder:
    """Writes the codes of one column."""

    def __init__(self, column: Column, /) -> None:
        self.column = column

    def write(self, values: Values, codes: np.ndarray, at: int, /) -> int:
        """Write codes (n, width) from column `at` on; gives the column after them."""
        for one in _MAKERS.get(self.column.kind, Coder._numbers)(self, values):
            codes[:, at] = one
            at += 1
        return at

    def _numbers(self, values: Values) -> list[np.ndarray]:
        return [to_numbers(values)]

    @cached_property
    def _place(self) -> dict[str, int]:
        return {level: k for k, level in enumerate(self.column.levels)}

    def _levels(self, values: Values, other: float) -> np.ndarray:
        """Indices of levels (n,), and what stands for another one."""
        codes, labels = to_labels(values)
        index = [self._place.get(label, other) for label in labels]
        return np.array([*index, np.nan], dtype=np.float64)[codes]

    def _category(self, values: Values) -> list[np.ndarray]:
        return [self._levels(values, len(self.column.levels))]

    def _ordered(self, values: Values) -> list[np.ndarray]:
        return [self._levels(values, np.nan)]

    def _code(self, values: Values) -> list[np.ndarray]:
        return [*self._numbers(values), *self._category(values)]

    def _date(self, values: Values) -> list[np.ndarray]:
        moments = to_dates(values, self.column.day_first)
        parts = [part_of(moments, part) for part in self.column.parts]
        return [days_since(moments, self.column.start), *parts]

    def _text(self, values: Values) -> list[np.ndarray]:
        codes, labels = to_labels(values)
        parts = text_parts(labels, self.column.components)
        gap = np.full((1, parts.shape[1]), np.nan)
        return list(np.concatenate([parts, gap])[codes].T)


_MAKERS = {
    "category": Coder._category,
    "ordered": Coder._ordered,
    "code": Coder._code,
    "date": Coder._date,
    "text": Coder._text,
}
