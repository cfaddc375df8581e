"""From codes to finite numbers for kernels: learned on the rows of one fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from gpukfl._checks import check_choice
from gpukfl.tables._column import Coded, Listed
from gpukfl.tables._imputation import Imputation, learn_imputation
from gpukfl.tables._lookups import Lookup, learn_lookup

IMPUTE = ("median", "model")
_ROWS = 2**15  # encoded at a time


class Groups(NamedTuple):
    """Columns of codes by what they are: indices of each sort."""

    numbers: list[int]
    rounds: list[int]  # numbers that go round
    gaps: list[int]  # numbers with an indicator
    levels: list[int]


class Output(NamedTuple):
    """A column of numbers."""

    name: str
    column: int  # of codes
    weighed: bool
    told: bool  # by targets


@dataclass(frozen=True, eq=False)
class Encoding(Listed):
    """How codes become finite numbers.

    Columns of numbers are, in this order: numbers, sines and cosines of those that go round,
    indicators of missing numbers, and what stands for levels.

    Attributes
    ----------
    coded : tuple of Coded
        What the columns of codes are.
    medians : array, shape (c,)
        What stands for a missing number; 0 for levels and for numbers that go round.
    lookups : tuple of Lookup
        What stands for each level, of every column of levels.
    imputations : tuple of Imputation
        What tells missing numbers better than medians do.
    """

    coded: tuple[Coded, ...]
    medians: np.ndarray
    lookups: tuple[Lookup, ...]
    imputations: tuple[Imputation, ...] = ()

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
            What stands for missing numbers: the median of the column, or what kernel ridge
            regression tells from the other columns.
        weights : array, shape (n,), optional
            Of the rows; medians are of rows alike.
        random_state : int, default=0
            Draws the folds of the cross-fit, and rows of models of missing numbers.

        Returns
        -------
        encoding : Encoding
            For rows that it has not seen.
        encoded : array, shape (n, d)
            These rows. Means of targets are those of other rows, so that this is not what
            `transform` gives.

        Raises
        ------
        ValueError
            If there are no rows, or the arrays do not fit each other.
        """
        check_choice("impute", impute, IMPUTE)
        _check_columns(codes, coded)
        Y = _targets(y, n_classes, len(codes))
        levels = [j for j, one in enumerate(coded) if one.levels]
        learned = [learn_lookup(codes[:, j], coded[j], Y, weights, random_state) for j in levels]
        lookups = tuple(lookup for lookup, _ in learned)
        encoding = cls(tuple(coded), _medians(codes, coded), lookups)
        encoded = encoding._encoded(codes, [own for _, own in learned])
        if impute == "model":
            encoding = encoding._imputing(codes, encoded, weights, random_state)
            encoding._impute(codes, encoded)
        return encoding, encoded

    def transform(self, codes: np.ndarray, /) -> np.ndarray:
        """Encode codes (n, c): finite numbers (n, d).

        Raises
        ------
        ValueError
            If there are more or fewer columns.
        """
        _check_columns(codes, self.coded)
        encoded = self._encoded(codes, [None] * len(self.lookups))
        self._impute(codes, encoded)
        return encoded

    def _encoded(self, codes: np.ndarray, given: Sequence[np.ndarray | None]) -> np.ndarray:
        """Encode, with medians for missing numbers; `given` stands for some lookups."""
        out = np.empty((len(codes), self.n_features))
        for start in range(0, len(codes), _ROWS):  # copies of all rows would take too much memory
            rows = slice(start, start + _ROWS)
            at = 0
            for block in self._blocks(codes[rows], given, rows):
                out[rows, at : at + block.shape[1]] = block
                at += block.shape[1]
        return out

    def _blocks(
        self, codes: np.ndarray, given: Sequence[np.ndarray | None], rows: slice
    ) -> Iterator[np.ndarray]:
        groups = self._groups
        X = codes[:, groups.numbers]
        yield np.where(np.isnan(X), self.medians[groups.numbers], X)
        if groups.rounds:
            angles = codes[:, groups.rounds] * self._turns
            for wave in (np.sin(angles), np.cos(angles)):
                yield np.where(np.isnan(angles), 0.0, wave)
        yield np.isnan(codes[:, groups.gaps])
        for j, lookup, own in zip(groups.levels, self.lookups, given, strict=True):
            yield lookup(codes[:, j]) if own is None else own[rows]

    def _imputing(
        self,
        codes: np.ndarray,
        encoded: np.ndarray,
        weights: np.ndarray | None,
        random_state: int,
    ) -> Self:
        """Learn models of numbers with gaps, from encoded rows that have medians there."""
        rng, learned = np.random.default_rng(random_state), []
        for j in self._groups.gaps:
            source = self.coded[j].source
            others = [
                k
                for k, one in enumerate(self.outputs)
                if self.coded[one.column].source != source and not one.told
            ]
            learned.append(learn_imputation(j, codes[:, j], encoded, others, weights, rng))
        return replace(self, imputations=tuple(one for one in learned if one is not None))

    def _impute(self, codes: np.ndarray, encoded: np.ndarray) -> None:
        """Write into encoded rows what models tell; all of them from medians."""
        told = []
        for one in self.imputations:
            rows = np.flatnonzero(np.isnan(codes[:, one.column]))
            if len(rows):
                told.append((rows, self._groups.numbers.index(one.column), one(encoded[rows])))
        for rows, place, values in told:
            encoded[rows, place] = values

    @cached_property
    def _groups(self) -> Groups:
        every = list(enumerate(self.coded))
        return Groups(
            [j for j, one in every if not one.levels and not one.period],
            [j for j, one in every if one.period],
            [j for j, one in every if one.gaps and not one.levels],
            [j for j, one in every if one.levels],
        )

    @cached_property
    def _turns(self) -> np.ndarray:
        """Radians of a unit of each number that goes round."""
        return 2.0 * np.pi / np.array([self.coded[j].period for j in self._groups.rounds])

    @cached_property
    def outputs(self) -> tuple[Output, ...]:
        """What each column of numbers is."""
        groups, name = self._groups, [one.name for one in self.coded]
        found = [Output(name[j], j, False, False) for j in groups.numbers]
        for wave in ("sine", "cosine"):
            found += [Output(f"{name[j]} {wave}", j, True, False) for j in groups.rounds]
        found += [Output(f"{name[j]} missing", j, True, False) for j in groups.gaps]
        for j, lookup in zip(groups.levels, self.lookups, strict=True):
            told = not lookup.weighed
            found += [Output(f"{name[j]}{one}", j, lookup.weighed, told) for one in lookup.names]
        return tuple(found)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of numbers."""
        return tuple(one.name for one in self.outputs)

    @property
    def sources(self) -> tuple[int, ...]:
        """The table's column that each column of numbers comes from."""
        return tuple(self.coded[one.column].source for one in self.outputs)

    @property
    def weighed(self) -> tuple[bool, ...]:
        """Which columns of numbers have the scale that they should keep.

        Those of one category together, and a sine with its cosine, weigh like a number of unit
        variance.
        """
        return tuple(one.weighed for one in self.outputs)

    @property
    def n_features(self) -> int:
        """How many columns of numbers there are."""
        return len(self.outputs)


def _check_columns(codes: np.ndarray, coded: Sequence[Coded]) -> None:
    if codes.ndim != 2 or codes.shape[1] != len(coded):
        msg = f"expected codes (n, {len(coded)}), got shape {codes.shape}"
        raise ValueError(msg)


def _targets(y: Any, n_classes: int, n: int) -> np.ndarray | None:
    """Targets (n, t) in float64: indicators of the classes, of two the second's alone."""
    if not n:
        msg = "expected rows to learn from, got none"
        raise ValueError(msg)
    if y is None:
        return None
    Y = np.asarray(y, dtype=np.float64)
    if len(Y) != n or not np.isfinite(Y).all():
        msg = f"expected finite targets of {n} rows, got {len(Y)} of them or missing ones"
        raise ValueError(msg)
    if n_classes:
        classes = np.arange(n_classes) if n_classes > 2 else np.ones(1)
        return (Y.reshape(-1, 1) == classes).astype(np.float64)
    return Y.reshape(n, -1)


def _medians(codes: np.ndarray, coded: Sequence[Coded]) -> np.ndarray:
    """Medians (c,) of numbers, as of `SimpleImputer`, which sorts masked arrays: far slower."""
    medians = np.zeros(len(coded))
    for j, one in enumerate(coded):
        if not one.levels and not one.period:
            kept = codes[~np.isnan(codes[:, j]), j]
            medians[j] = np.median(kept) if len(kept) else 0.0
    return medians
