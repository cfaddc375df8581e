"""Encodings of several folds with the same columns, applied together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpukfl.core._array import Array
from gpukfl.tables._column import TupleFields
from gpukfl.tables._encoding import Encoding, group_by_kind, waves
from gpukfl.tables._seen import CODES, LEVELS, NUMBERS, Seen, columns_with_gaps, with_levels


@dataclass(frozen=True, eq=False)
class FoldEncodings(TupleFields):
    """The encodings of all folds, applied to codes.

    Attributes
    ----------
    by_fold : tuple of Encoding
        One for each model of a blend's member: the folds' and that of all rows.
    some : tuple of int
        Columns of codes whose levels get indicators in the view `LEVELS`.
    """

    by_fold: tuple[Encoding, ...]
    some: tuple[int, ...] = ()

    @cached_property
    def _joint(self) -> JointEncodings:
        return JointEncodings(self.by_fold, self.some)

    @property
    def shapes(self) -> dict[str, tuple[int, int]]:
        """For each view, the numbers of different folds and of columns."""
        return self._joint.shapes

    def view_rows(self, codes: Array, /) -> Seen:
        """Encode codes, also traced ones, by one fold after another."""
        return Seen(codes, self.by_fold, self.some)

    def together(self, codes: np.ndarray, /) -> FoldViews:
        """Encode codes by all folds together, on first use."""
        return FoldViews(self._joint, codes)

    def only(self, fold: int, /) -> FoldEncodings:
        """Return the encoding of one fold."""
        return FoldEncodings(self.by_fold[fold : fold + 1], self.some)


class JointEncodings:
    """The encodings of all folds, in joint arrays."""

    def __init__(self, by_fold: Sequence[Encoding], some: Sequence[int], /) -> None:
        first = by_fold[0]
        self._some = some
        self._by_fold = by_fold
        self._numbers, self._cyclic, self._gaps, self._levels = map(
            _as_indices, group_by_kind(first.coded)
        )
        self._medians = np.stack([one.medians[self._numbers] for one in by_fold])
        self._radians = first._radians
        shapes = [lookup.values.shape for lookup in first.lookups]
        self._missing_rows = np.array([size - 1 for size, _ in shapes])
        self._columns = np.repeat(np.arange(len(shapes)), [width for _, width in shapes])
        sizes = self._missing_rows[self._columns] + 1
        self._starts = np.cumsum(sizes) - sizes
        self._tables = np.stack([_join_lookups(one) for one in by_fold])
        self._imputed = _as_indices({one.column for each in by_fold for one in each.imputations})
        kept, statistics = columns_with_gaps(first)
        self._kept, self._statistics = _as_indices(kept), _as_indices(statistics)
        self.shape = len(by_fold), first.n_features
        self.shapes = {
            NUMBERS: self.shape,
            CODES: (len(by_fold) if statistics else 1, len(self._kept) + len(statistics)),
            LEVELS: (len(by_fold), first.n_features + sum(first.coded[j].levels for j in some)),
        }

    def encode(self, codes: np.ndarray, /) -> np.ndarray:
        """Encode codes (n, c) by all folds: (n, F, d)."""
        found, at = np.empty((len(codes), *self.shape)), len(self._numbers)
        numbers = codes.take(self._numbers, axis=1)[:, None]
        found[:, :, :at] = np.where(np.isnan(numbers), self._medians, numbers)
        for block in self._blocks(codes):
            found[:, :, at : at + block.shape[-1]] = block
            at += block.shape[-1]
        if len(self._imputed) and np.isnan(codes.take(self._imputed, axis=1)).any():
            for k, one in enumerate(self._by_fold):
                one._impute(codes.T, found[:, k])
        return found

    def _blocks(self, codes: np.ndarray) -> list[np.ndarray]:
        """Return the encoded blocks: (n, 1, w) where folds agree, else (n, F, w)."""
        blocks = list[np.ndarray]()
        if len(self._cyclic):
            angles = codes.take(self._cyclic, axis=1)[:, None] * self._radians
            missing = np.isnan(angles)
            blocks += [np.where(missing, 0.0, wave) for wave in waves(angles)]
        if len(self._gaps):
            blocks.append(np.isnan(codes.take(self._gaps, axis=1))[:, None])
        if len(self._levels):
            levels = codes.take(self._levels, axis=1)
            rows = np.where(np.isnan(levels), self._missing_rows, levels).astype(np.intp)
            at = rows.take(self._columns, axis=1) + self._starts
            blocks.append(self._tables.take(at, axis=1).transpose(1, 0, 2))
        return blocks

    def with_gaps(self, codes: np.ndarray, encoded: Callable[[], np.ndarray], /) -> np.ndarray:
        """Return rows (n, F, d), or (n, 1, d), for trees: see `gpukfl.tables._seen`."""
        kept = codes.take(self._kept, axis=1)[:, None]
        if not len(self._statistics):
            return kept
        found = np.empty((len(codes), *self.shapes[CODES]))
        found[:, :, : len(self._kept)] = kept
        found[:, :, len(self._kept) :] = encoded().take(self._statistics, axis=2)
        return found

    def with_levels(self, codes: np.ndarray, encoded: np.ndarray, /) -> np.ndarray:
        """Return rows (n, F, d) with a column for each level of some columns of codes."""
        rows = with_levels(self._by_fold[0], self._some, codes, np.empty((len(codes), 0)))
        levels = np.broadcast_to(rows[:, None], (len(codes), len(self._by_fold), rows.shape[1]))
        return np.concatenate([encoded, levels], axis=2)


class FoldViews:
    """Codes (n, c) encoded by all folds, each view once."""

    def __init__(self, encodings: JointEncodings, codes: np.ndarray, /) -> None:
        self._encodings, self._codes = encodings, codes

    def rows(self, view: str, /) -> np.ndarray:
        """Return rows (n, F, d) as models of each fold see them; (n, 1, d) where all agree."""
        if view == CODES:
            return self._gap_rows
        return self._level_rows if view == LEVELS else self._encoded_rows

    @cached_property
    def _encoded_rows(self) -> np.ndarray:
        return self._encodings.encode(self._codes)

    @cached_property
    def _gap_rows(self) -> np.ndarray:
        return self._encodings.with_gaps(self._codes, lambda: self._encoded_rows)

    @cached_property
    def _level_rows(self) -> np.ndarray:
        return self._encodings.with_levels(self._codes, self._encoded_rows)


def _as_indices(columns: Iterable[int]) -> np.ndarray:
    """Return indices as an array, which saves a conversion at each call."""
    return np.array(sorted(columns), dtype=np.intp)


def _join_lookups(encoding: Encoding) -> np.ndarray:
    """Concatenate the columns of all lookups."""
    return np.concatenate([np.empty(0), *(one.values.T.ravel() for one in encoding.lookups)])
