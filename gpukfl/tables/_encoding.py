"""From codes to finite numbers for kernels: learned on the rows of one fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from gpukfl.tables._column import Coded, Listed
from gpukfl.tables._lookups import Lookup, learn_lookup

_ROWS = 2**16  # encoded at a time


@dataclass(frozen=True, eq=False)
class Encoding(Listed):
    """How codes become finite numbers.

    Attributes
    ----------
    coded : tuple of Coded
        What the columns of codes are.
    medians : array, shape (c,)
        What stands for a missing number; 0 for levels and for numbers that go round.
    lookups : tuple of Lookup
        What stands for each level, of every column of levels.
    """

    coded: tuple[Coded, ...]
    medians: np.ndarray
    lookups: tuple[Lookup, ...]

    @classmethod
    def learn(
        cls,
        codes: np.ndarray,
        coded: Sequence[Coded],
        y: Any = None,
        /,
        *,
        n_classes: int = 0,
        impute: str = "median",
        weights: np.ndarray | None = None,
        random_state: int = 0,
    ) -> tuple[Self, np.ndarray]:
        """Learn from rows, and encode them.

        Parameters
        ----------
        codes : array, shape (n, c)
            Of `Table.codes`.
        coded : sequence of Coded
            `Table.coded`.
        y : array, shape (n,) or (n, t), optional
            Targets, or classes 0, ..., n_classes - 1. Without any, levels are told by their
            frequencies alone where they are many.
        n_classes : int, default=0
            How many classes there are, whether these rows have all of them or not; 0 of numbers.
        impute : {"median", "model"}, default="median"
            What stands for missing numbers.
        weights : array, shape (n,), optional
            Of the rows.
        random_state : int, default=0
            Draws the folds of the cross-fit.

        Returns
        -------
        encoding : Encoding
            For rows that it has not seen.
        encoded : array, shape (n, d)
            These rows. Statistics of the targets are those of other rows, so that this is not
            what `transform` gives.
        """
        Y = _targets(y, n_classes)
        levels = [j for j, one in enumerate(coded) if one.levels]
        learned = [learn_lookup(codes[:, j], coded[j], Y, weights, random_state) for j in levels]
        medians = _medians(codes, coded)
        encoding = cls(tuple(coded), medians, tuple(lookup for lookup, _ in learned))
        return encoding, encoding._encoded(codes, [own for _, own in learned])

    def transform(self, codes: np.ndarray, /) -> np.ndarray:
        """Encode codes (n, c): finite numbers (n, d)."""
        return self._encoded(codes, [None] * len(self.lookups))

    def _encoded(self, codes: np.ndarray, given: Sequence[np.ndarray | None]) -> np.ndarray:
        out = np.empty((len(codes), len(self.names)))
        for start in range(0, len(codes), _ROWS):
            rows = slice(start, start + _ROWS)
            self._write(
                codes[rows], out[rows], [one if one is None else one[rows] for one in given]
            )
        return out

    def _write(
        self, codes: np.ndarray, out: np.ndarray, given: Sequence[np.ndarray | None]
    ) -> None:
        """Write encoded rows: numbers, sines, cosines, gaps, and levels."""
        numbers, round_, gaps, levels = self._groups
        X = codes[:, numbers]
        out[:, : len(numbers)] = np.where(np.isnan(X), self.medians[numbers], X)
        at, m = len(numbers), len(round_)
        if m:
            X = codes[:, round_]
            angle = X * (2.0 * np.pi / np.array([self.coded[j].period for j in round_]))
            out[:, at : at + m] = np.where(np.isnan(X), 0.0, np.sin(angle))
            out[:, at + m : at + 2 * m] = np.where(np.isnan(X), 0.0, np.cos(angle))
        at += 2 * m
        out[:, at : at + len(gaps)] = np.isnan(codes[:, gaps])
        at += len(gaps)
        for j, lookup, own in zip(levels, self.lookups, given, strict=True):
            found = lookup(codes[:, j]) if own is None else own
            out[:, at : at + found.shape[1]] = found
            at += found.shape[1]

    @cached_property
    def _groups(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Columns of codes: numbers, those that go round, with gaps, and of levels."""
        every = list(enumerate(self.coded))
        return (
            [j for j, one in every if not one.levels and not one.period],
            [j for j, one in every if one.period],
            [j for j, one in every if one.gaps and not one.levels],
            [j for j, one in every if one.levels],
        )

    @cached_property
    def _columns(self) -> list[tuple[str, int, bool]]:
        """Name, source, and whether it is weighed already, of every column of numbers."""
        numbers, round_, gaps, levels = self._groups
        found = [(self.coded[j].name, j, False) for j in numbers]
        found += [(f"{self.coded[j].name} sine", j, True) for j in round_]
        found += [(f"{self.coded[j].name} cosine", j, True) for j in round_]
        found += [(f"{self.coded[j].name} missing", j, True) for j in gaps]
        for j, lookup in zip(levels, self.lookups, strict=True):
            found += [(f"{self.coded[j].name}{one}", j, lookup.weighed) for one in lookup.names]
        return [(name, self.coded[j].source, weighed) for name, j, weighed in found]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of numbers."""
        return tuple(name for name, _, _ in self._columns)

    @property
    def sources(self) -> tuple[int, ...]:
        """The table's column that each column of numbers comes from."""
        return tuple(source for _, source, _ in self._columns)

    @property
    def weighed(self) -> tuple[bool, ...]:
        """Which columns of numbers have the scale that they should keep."""
        return tuple(weighed for _, _, weighed in self._columns)

    @property
    def n_features(self) -> int:
        """How many columns of numbers there are."""
        return len(self._columns)


def _targets(y: Any, n_classes: int) -> np.ndarray | None:
    """Targets (n, t) in float64: indicators of the classes, of two the second's alone."""
    if y is None:
        return None
    Y = np.asarray(y)
    if n_classes == 2:
        return (Y.reshape(-1, 1) == 1).astype(np.float64)
    if n_classes:
        return (Y.reshape(-1, 1) == np.arange(n_classes)).astype(np.float64)
    return Y.reshape(len(Y), -1).astype(np.float64)


def _medians(codes: np.ndarray, coded: Sequence[Coded]) -> np.ndarray:
    from sklearn.impute import SimpleImputer

    medians = np.zeros(len(coded))
    numbers = [j for j, one in enumerate(coded) if not one.levels and not one.period]
    if numbers:
        imputer = SimpleImputer(strategy="median", keep_empty_features=True)
        medians[numbers] = imputer.fit(codes[:, numbers]).statistics_
    return medians
