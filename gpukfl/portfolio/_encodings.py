"""Rows of a table as members see them: encoded with each fold, or as codes with gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from gpukfl._array import to_host
from gpukfl._reader import fits
from gpukfl.estimators._declared import Declared, Items, Record, Text
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._folds import Fold
from gpukfl.portfolio._members import Member
from gpukfl.tables import IMPUTE, Encoding, Table


@dataclass(frozen=True, eq=False)
class Encodings:
    """How the codes of a table become numbers for members.

    Attributes
    ----------
    table : Table
        What gives the codes.
    by_fold : list of Encoding
        One for each model of a member.
    blind : Encoding
        Learned without targets, for what looks at rows whose targets are known.
    impute : str
        What stands for missing numbers: as of `Encoding.learn`.
    """

    table: Table
    by_fold: list[Encoding]
    blind: Encoding
    impute: str = "median"
    fields: ClassVar[Mapping[str, Declared]] = {
        "table": Record(Table),
        "by_fold": Items(Record(Encoding)),
        "blind": Record(Encoding),
        "impute": Text(IMPUTE),
    }

    @classmethod
    def blindly(cls, table: Table, samples: Samples, impute: str = "median", /) -> Self:
        """Learn from all codes, without targets; nothing of the folds yet."""
        X, w = to_host(samples.X), samples.weights
        blind, _ = Encoding.learn(X, table.coded, weights=w, impute=impute)
        return cls(table, [], blind, impute)

    def on(self, folds: Sequence[Fold], seed: int, /) -> tuple[Self, list[Fold]]:
        """Learn one with each fold, and give the folds encoded."""
        learned = [self._learned(fold.inside, seed) for fold in folds]
        encoded: list[Fold] = []
        for (one, inside), fold in zip(learned, folds, strict=True):
            outside = replace(fold.outside, X=one.transform(to_host(fold.outside.X)))
            encoded.append(TableFold(inside, outside, fold, one))
        return replace(self, by_fold=[one for one, _ in learned]), encoded

    def on_all(self, samples: Samples, seed: int, /) -> tuple[Self, Fold]:
        """Learn one with all rows, and give these as members take them."""
        one, inside = self._learned(samples, seed)
        return replace(self, by_fold=[one]), TableFold(inside, inside, Fold(samples, samples), one)

    def is_sound(self, n_features: int, n_models: int, /) -> bool:
        """Whether it is such as a fit makes it, of so many columns, and models a member."""
        return (
            len(self.table.columns) == n_features
            and len(self.by_fold) == n_models
            and all(fits(self.table, one) for one in [*self.by_fold, self.blind])
            and len({one.n_features for one in self.by_fold}) == 1
        )

    def _learned(self, samples: Samples, seed: int) -> tuple[Encoding, Samples]:
        """Learn an encoding from samples of codes, and give them encoded."""
        classes = samples.classes
        encoding, X = Encoding.learn(
            to_host(samples.X),
            self.table.coded,
            to_host(samples.Y) if classes is None else classes,
            n_classes=0 if classes is None else max(samples.Y.shape[1], 2),
            impute=self.impute,
            weights=samples.weights,
            random_state=seed,
        )
        return encoding, replace(samples, X=X)

    def finite(self, codes: np.ndarray, /) -> np.ndarray:
        """Rows (m, d) without gaps, that know nothing of targets."""
        return self.blind.transform(codes)


def with_gaps(encoding: Encoding, codes: np.ndarray, encoded: np.ndarray, /) -> np.ndarray:
    """Make rows that trees take: codes, and statistics in place of those of many levels.

    Codes are plain numbers to them: on the training rows of six tables trees that knew which were
    categories were hardly better, and take three times as long for a single row.
    """
    many, statistics = _many(encoding)
    kept = np.delete(codes, many, axis=1)
    return np.concatenate([kept, encoded[:, statistics]], axis=1)


def _many(encoding: Encoding) -> tuple[list[int], list[int]]:
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


@dataclass(frozen=True, eq=False)
class TableFold(Fold):
    """Encoded rows, of which it knows the codes."""

    codes: Fold
    encoding: Encoding

    @property
    def source(self) -> Fold:
        """The codes of the rows."""
        return self.codes

    def seen_by(self, member: Member, /) -> Fold:
        """Give the rows as a member takes them."""
        return self._for_trees if member.takes_codes else super().seen_by(member)

    @cached_property
    def _for_trees(self) -> Fold:
        parts = (self.codes.inside, self.inside), (self.codes.outside, self.outside)
        return Fold(*(self._with_gaps(codes, encoded) for codes, encoded in parts))

    def _with_gaps(self, codes: Samples, encoded: Samples) -> Samples:
        X = with_gaps(self.encoding, to_host(codes.X), to_host(encoded.X))
        return replace(encoded, X=X)


class Seen:
    """New rows as models see them, made when the first one asks and kept for the others."""

    def __init__(self, X: Any, encodings: Encodings | None, /) -> None:
        self._X, self._encodings = X, encodings
        self._made: dict[tuple[int, bool], Any] = {}

    def by(self, k: int, /, *, codes: bool) -> Any:
        """Give the rows to a model of fold k: encoded, or as trees take them."""
        if self._encodings is None:
            return self._X
        if (k, codes) not in self._made:
            encoding = self._encodings.by_fold[k]
            made = (
                with_gaps(encoding, self._X, self.by(k, codes=False))
                if codes
                else encoding.transform(self._X)
            )
            self._made[k, codes] = made
        return self._made[k, codes]
