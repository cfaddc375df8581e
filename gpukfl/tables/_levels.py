"""Levels of a category, and which of them later values are."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

import numpy as np

from gpukfl._warnings import warn
from gpukfl.tables import _values
from gpukfl.tables._column import Column
from gpukfl.tables._numerals import numbers_of
from gpukfl.tables._values import Values

_WHOLE = 2.0**53  # up to which floats tell integers apart
_NUMERAL = re.compile(r"[-+]?\d+(?:\.\d*)?", re.ASCII)  # not 1e3, which may be a name
# Of later values: how many there have to be, and the share of new ones that is warned of, also as
# a multiple of what the fit lets expect
_FEWEST, _HALF, _TIMES = 10, 0.5, 3.0
_SHOWN = 3  # levels that a warning names


def share_of_single(counts: Iterable[int], /) -> float:
    """Share of the rows that are alone with their level, by the rows of each."""
    kept = list(counts)
    return kept.count(1) / max(sum(kept), 1)


class Levels:
    """Finds the levels that values are.

    Parameters
    ----------
    column : Column
        A category, a code, or ordered.
    """

    def __init__(self, column: Column, /) -> None:
        self._column = column
        self._place = {level: k for k, level in enumerate(column.levels)}

    def places(self, values: Values, /) -> np.ndarray:
        """Give places of levels (n,), -1 of other values, and NaN where there is none.

        A number that is no level stands for the one level that is the same number.
        """
        named = values.as_labels()
        found = np.array([self._place.get(label, -1) for label in named.labels], dtype=np.float64)
        counts = np.bincount(named.data[named.data >= 0], minlength=len(found))
        strange = np.flatnonzero((found < 0) & (counts > 0))
        if len(strange):
            found[strange] = self._of_numbers(values.form, named.labels[strange])
            if self._column.kind != "ordered":  # whose other values are missing, and said
                self._tell_of_new(named.labels, np.where(found < 0, counts, 0), int(counts.sum()))
        return np.append(found, np.nan)[named.data]

    def _of_numbers(self, form: str, labels: np.ndarray) -> np.ndarray:
        """Give places (k,) of levels that are the same numbers as labels, -1 where none is."""
        found = np.full(len(labels), -1.0)
        if form not in (_values.NUMBERS, _values.LABELS):
            return found
        for k, label in enumerate(labels):
            text = label.strip()
            if form == _values.NUMBERS or _NUMERAL.fullmatch(text):
                found[k] = self._by_number.get(float(text), -1)
        if (found >= 0).any():
            self._tell_of_numbers(form, labels, found)
        return found

    @cached_property
    def _by_number(self) -> dict[float, int]:
        """Places of levels by the numbers that they are, where no other level is the same."""
        column, places = self._column, dict[float, list[int]]()
        numbers = numbers_of(np.array(column.levels, dtype=object), column.unit, column.decimal)
        for k in np.flatnonzero(np.abs(numbers) < _WHOLE).tolist():
            places.setdefault(float(numbers[k]), []).append(k)
        return {number: found[0] for number, found in places.items() if len(found) == 1}

    def _tell_of_numbers(self, form: str, labels: np.ndarray, found: np.ndarray) -> None:
        name, k = self._column.name, int(np.argmin(np.where(found < 0, np.inf, found)))
        level = self._column.levels[int(found[k])]
        if form == _values.NUMBERS:
            said = f"column {name!r} was text in the fit and is numbers here: {labels[k]}"
        else:
            said = f"column {name!r}: {labels[k]!r}, which is the same number,"
        warn(f"{said} is taken for {level!r}")

    def _tell_of_new(self, labels: np.ndarray, new: np.ndarray, n: int) -> None:
        """Warn where most values are other levels, as after a change of their spelling."""
        column, count = self._column, int(new.sum())
        if n < _FEWEST or count < max(_HALF, _TIMES * column.rare) * n:
            return
        some = f"none of {n} values was" if count == n else f"{count} of {n} values were not"
        left = len(column.levels) - _SHOWN
        known = ", ".join(map(repr, column.levels[:_SHOWN])) + (
            f", {left} more" if left > 0 else ""
        )
        odd = min(labels[new == new.max()])  # in whatever order they come
        warn(
            f"column {column.name!r}: {some} seen in the fit, such as {odd!r}: levels were {known}"
        )
