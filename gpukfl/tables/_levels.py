"""Levels of a category, and which of them later values are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import TypeVar

import numpy as np

from gpukfl.core._frames import WHOLE
from gpukfl.core._warnings import warn
from gpukfl.tables import _values
from gpukfl.tables._column import Column
from gpukfl.tables._numerals import numbers_of, whole_number_of
from gpukfl.tables._values import Values

Key = TypeVar("Key", float, str)
_NUMERAL = re.compile(r"[-+]?\d+(?:\.\d*)?", re.ASCII)  # not 1e3, which may be a name
# Of later values: how many there have to be, and the share of new ones that is warned of, also as
# a multiple of what the fit lets expect
_FEWEST, _HALF, _TIMES = 10, 0.5, 3.0
_SORTS = {_values.NUMBERS: "numbers", _values.BOOLEANS: "true or false"}  # of other values
_SHOWN = 3  # levels that a warning names


def share_of_single(counts: Iterable[int], /) -> float:
    """Share of the rows that are alone with their level, by the rows of each."""
    kept = list(counts)
    return kept.count(1) / max(sum(kept), 1)


def _alone(pairs: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    """Places by their keys, without keys of several places."""
    kept = list(pairs)
    counts = Counter(key for key, _ in kept)
    return {key: place for key, place in kept if counts[key] == 1}


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
        """Return places of levels (n,), -1 of other values, and NaN where there is none.

        A number that is no level stands for the one level that is the same number, and a truth
        value for the one that is the same word.
        """
        named = values.as_labels()
        found = np.array([self._place.get(label, -1) for label in named.labels], dtype=np.float64)
        counts = np.bincount(named.data[named.data >= 0], minlength=len(found))
        strange = np.flatnonzero((found < 0) & (counts > 0))
        if len(strange):
            found[strange] = self._same(values.form, named.labels[strange])
            if self._column.kind != "ordered":  # whose other values are missing, and said
                self._tell_of_new(named.labels, np.where(found < 0, counts, 0), int(counts.sum()))
        return np.append(found, np.nan)[named.data]

    def _same(self, form: str, labels: np.ndarray) -> np.ndarray:
        """Return places (k,) of levels that say the same as labels, -1 where none does."""
        found = np.full(len(labels), -1.0)
        for k, label in enumerate(labels):
            text = label.strip()
            if form == _values.BOOLEANS:
                found[k] = self._by_word.get(text.casefold(), -1)
            elif form == _values.NUMBERS or (
                form == _values.LABELS and _NUMERAL.fullmatch(text) is not None
            ):
                whole = whole_number_of(text)
                found[k] = self._by_number.get(float(text) if whole is None else whole, -1)
        if (found >= 0).any():
            self._tell_of_same(form, labels, found)
        return found

    @cached_property
    def _by_number(self) -> dict[float, int]:
        """Places of levels by the numbers that they are, where no other level is the same."""
        column = self._column
        numbers = numbers_of(np.array(column.levels, dtype=object), column.unit, column.decimal)
        exact = np.flatnonzero(np.abs(numbers) < WHOLE)
        known: dict[int, float] = dict(zip(exact.tolist(), numbers[exact].tolist(), strict=True))
        for k in np.flatnonzero(np.abs(numbers) >= WHOLE).tolist():
            whole = whole_number_of(column.levels[k])
            if whole is not None:
                known[k] = whole
        return _alone((number, k) for k, number in known.items())

    @cached_property
    def _by_word(self) -> dict[str, int]:
        """Places of levels by what they are in small letters, likewise."""
        return _alone((level.strip().casefold(), k) for k, level in enumerate(self._column.levels))

    def _tell_of_same(self, form: str, labels: np.ndarray, found: np.ndarray) -> None:
        name, k = self._column.name, int(np.argmin(np.where(found < 0, np.inf, found)))
        level = self._column.levels[int(found[k])]
        if form in _SORTS:
            said = f"column {name!r} was text in the fit and is {_SORTS[form]} here: {labels[k]}"
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
