"""Rows of a table as members see them: encoded with each fold, or as codes with gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from gpukfl._array import to_host
from gpukfl._reader import fits
from gpukfl.estimators._declared import Declared, Items, Record
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._folds import Fold
from gpukfl.portfolio._members import Member
from gpukfl.tables import Encoding, Table

_MOST_LEVELS = 255  # of a category of scikit-learn's trees


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
    """

    table: Table
    by_fold: list[Encoding]
    blind: Encoding
    fields: ClassVar[Mapping[str, Declared]] = {
        "table": Record(Table),
        "by_fold": Items(Record(Encoding)),
        "blind": Record(Encoding),
    }

    @classmethod
    def blindly(cls, table: Table, samples: Samples, /) -> Self:
        """Learn from all codes, without targets; nothing of the folds yet."""
        blind, _ = Encoding.learn(samples.X, table.coded, weights=samples.weights)
        return cls(table, [], blind)

    def on(self, folds: Sequence[Fold], seed: int, /) -> tuple[Self, list[Fold]]:
        """Learn one with each fold, and give the folds encoded."""
        learned = [_learned(self.table, fold.inside, seed) for fold in folds]
        encoded = [
            TableFold(inside, replace(fold.outside, X=one.transform(fold.outside.X)), fold, self)
            for (one, inside), fold in zip(learned, folds, strict=True)
        ]
        return replace(self, by_fold=[one for one, _ in learned]), encoded

    def on_all(self, samples: Samples, seed: int, /) -> tuple[Self, Fold]:
        """Learn one with all rows, and give these as members take them."""
        one, inside = _learned(self.table, samples, seed)
        return replace(self, by_fold=[one]), TableFold(inside, inside, Fold(samples, samples), self)

    def is_sound(self, n_features: int, n_models: int, /) -> bool:
        """Whether it is such as a fit makes it, of so many columns, and models a member."""
        return (
            len(self.table.columns) == n_features
            and len(self.by_fold) == n_models
            and all(fits(self.table, one) for one in [*self.by_fold, self.blind])
            and len({one.n_features for one in self.by_fold}) == 1
        )

    def finite(self, codes: np.ndarray, /) -> np.ndarray:
        """Rows (m, d) without gaps, that know nothing of targets."""
        return self.blind.transform(codes)

    def for_trees(self, codes: np.ndarray, /) -> np.ndarray:
        """Codes of which the rare ones of many are one."""
        return np.minimum(codes, self._largest)

    @property
    def categorical(self) -> list[bool]:
        """Which codes are of categories."""
        return [one.levels > 0 for one in self.table.coded]

    @property
    def _largest(self) -> np.ndarray:
        return np.where(self.categorical, _MOST_LEVELS - 1.0, np.inf)


@dataclass(frozen=True, eq=False)
class TableFold(Fold):
    """Encoded rows, of which it knows the codes."""

    codes: Fold
    encodings: Encodings

    @property
    def source(self) -> Fold:
        """The codes of the rows."""
        return self.codes

    def seen_by(self, member: Member, /) -> Fold:
        """Give the rows as a member takes them."""
        return self._for_trees if member.takes_codes else super().seen_by(member)

    @cached_property
    def _for_trees(self) -> Fold:
        parts = self.codes.inside, self.codes.outside
        return Fold(*(replace(part, X=self.encodings.for_trees(part.X)) for part in parts))


class Seen:
    """New rows as models see them, made when the first one asks and kept for the others."""

    def __init__(self, X: Any, encodings: Encodings | None, /) -> None:
        self._X, self._encodings = X, encodings
        self._made: dict[int | None, Any] = {}

    def by(self, k: int, /, *, codes: bool) -> Any:
        """Give the rows to the model of fold k, or to any that takes codes."""
        if self._encodings is None:
            return self._X
        key = None if codes else k
        if key not in self._made:
            one = self._encodings
            make = one.for_trees if codes else one.by_fold[k].transform
            self._made[key] = make(self._X)
        return self._made[key]


def _learned(table: Table, samples: Samples, seed: int) -> tuple[Encoding, Samples]:
    """Learn an encoding from samples of codes, and give them encoded."""
    classes = samples.classes
    encoding, X = Encoding.learn(
        samples.X,
        table.coded,
        to_host(samples.Y) if classes is None else classes,
        n_classes=0 if classes is None else max(samples.Y.shape[1], 2),
        weights=samples.weights,
        random_state=seed,
    )
    return encoding, replace(samples, X=X)
