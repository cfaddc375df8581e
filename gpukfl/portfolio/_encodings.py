"""Encodings of the rows of a table for members, learned in each fold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from gpukfl.core._array import Array, to_host
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._folds import MemberFold
from gpukfl.portfolio._members import Member
from gpukfl.tables import Encoding, Table
from gpukfl.tables._encoding import are_consistent
from gpukfl.tables._fold_encodings import FoldEncodings
from gpukfl.tables._seen import (
    CODES,
    LEVELS,
    are_level_columns,
    columns_with_gaps,
    find_level_columns,
    level_outputs,
    with_gaps,
    with_levels,
)


@dataclass(frozen=True, eq=False)
class Encodings:
    """The encodings of a table's codes for members.

    Attributes
    ----------
    table : Table
        Schema of the columns, which turns them into codes.
    folds : FoldEncodings
        Encodings for the models of every fold.
    blind : Encoding
        Encoding that was learned without targets.
    impute : str
        How missing numbers are replaced: as for `Encoding.learn`.
    """

    table: Table
    folds: FoldEncodings
    blind: Encoding
    impute: str = "median"

    @property
    def by_fold(self) -> tuple[Encoding, ...]:
        """The encodings of the models of a member: those of the folds, and of all rows."""
        return self.folds.by_fold

    @property
    def some(self) -> tuple[int, ...]:
        """The columns whose levels some members see."""
        return self.folds.some

    @classmethod
    def blindly(cls, table: Table, samples: Samples, impute: str = "median", /) -> Self:
        """Learn the encoding without targets from all codes."""
        X, w = to_host(samples.X), samples.weights
        blind, _ = Encoding.learn(X, table.coded, weights=w, impute=impute)
        some = find_level_columns(X if w is None else X[w > 0], table.coded)
        return cls(table, FoldEncodings((), some), blind, impute)

    def learn_on_folds(
        self, folds: Sequence[MemberFold], seed: int, /
    ) -> tuple[Self, list[MemberFold]]:
        """Learn an encoding with each fold, and return the encoded folds."""
        learned = [self._learn_encoding(fold.inside, seed) for fold in folds]
        encoded: list[MemberFold] = []
        for (one, inside), fold in zip(learned, folds, strict=True):
            outside = replace(fold.outside, X=one.transform(to_host(fold.outside.X)))
            encoded.append(TableFold(inside, outside, fold, one, self.some))
        return self._with_folds(one for one, _ in learned), encoded

    def learn_on_all(
        self, samples: Samples, seed: int, /, *, beside: bool
    ) -> tuple[Self, MemberFold]:
        """Learn an encoding with all rows, and return the encoded rows."""
        one, inside = self._learn_encoding(samples, seed)
        whole = TableFold(inside, inside, MemberFold(samples, samples), one, self.some)
        return self._with_folds([*self.by_fold, one] if beside else [one]), whole

    def _with_folds(self, by_fold: Iterable[Encoding]) -> Self:
        return replace(self, folds=FoldEncodings(tuple(by_fold), self.some))

    def is_sound(self, n_features: int, n_models: int, /) -> bool:
        """Whether it is valid for these numbers of columns, and of models of a member."""
        return (
            len(self.table.columns) == n_features
            and len(self.by_fold) == n_models
            and all(are_consistent(self.table, one) for one in [*self.by_fold, self.blind])
            and len({one.n_features for one in self.by_fold}) == 1
            and are_level_columns(self.some, self.table.coded)
        )

    def _learn_encoding(self, samples: Samples, seed: int) -> tuple[Encoding, Samples]:
        """Learn an encoding from samples of codes, and return them encoded."""
        classes, related = samples.classes, samples.relations
        encoding, X = Encoding.learn(
            to_host(samples.X),
            self.table.coded,
            to_host(samples.Y) if classes is None else classes,
            n_classes=0 if classes is None else max(samples.Y.shape[1], 2),
            impute=self.impute,
            weights=samples.weights,
            random_state=seed,
            blocks=None if related is None else related.cross_fit_blocks(seed),
        )
        return encoding, replace(samples, X=X)

    def outputs(self, view: str, /) -> list[tuple[str, int]]:
        """Return the names of the encoded columns of the first fold, with their source columns."""
        return level_outputs(self.by_fold[0], self.some if view == LEVELS else ())

    def sources(self, view: str, /) -> np.ndarray | None:
        """Return the source of each column of a view; None if some have several sources."""
        first = self.by_fold[0]
        if any(one.imputations for one in self.by_fold):
            return None
        if view != CODES:
            return np.array([source for _, source in self.outputs(view)])
        kept, statistics = columns_with_gaps(first)
        return np.array(
            [first.coded[j].source for j in kept] + [first.sources[k] for k in statistics]
        )

    def finite(self, codes: np.ndarray, /) -> np.ndarray:
        """Return rows (m, d) without missing values, encoded without the targets."""
        return self.blind.transform(codes)


@dataclass(frozen=True, eq=False)
class TableFold(MemberFold):
    """A fold of encoded rows that keeps their codes."""

    codes: MemberFold
    encoding: Encoding
    some: tuple[int, ...] = ()

    @property
    def source(self) -> MemberFold:
        """The fold of codes."""
        return self.codes

    def member_view(self, member: Member, /) -> MemberFold:
        """Return the fold in the form that a member takes."""
        if member.sees == CODES:
            return self._tree_fold
        return self._level_fold if member.sees == LEVELS else super().member_view(member)

    @cached_property
    def _tree_fold(self) -> MemberFold:
        return self._make_fold(lambda codes, X: with_gaps(self.encoding, codes, X))

    @cached_property
    def _level_fold(self) -> MemberFold:
        return self._make_fold(lambda codes, X: with_levels(self.encoding, self.some, codes, X))

    def _make_fold(self, make: Callable[[np.ndarray, np.ndarray], Array]) -> MemberFold:
        """Return the fold with rows made from codes and encoded rows."""
        parts = (self.codes.inside, self.inside), (self.codes.outside, self.outside)
        return MemberFold(
            *(replace(own, X=make(to_host(codes.X), to_host(own.X))) for codes, own in parts)
        )
