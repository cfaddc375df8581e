"""Encodings of several folds, of which all have the same columns, applied at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gpukfl.tables import Encoding
from gpukfl.tables._layout import groups_of
from gpukfl.tables._seen import many_levels


class FoldEncodings:
    """What makes rows for the models of every fold out of codes."""

    def __init__(self, by_fold: Sequence[Encoding], /) -> None:
        first = by_fold[0]
        self._by_fold, self._groups = by_fold, groups_of(first.coded)
        self._medians = np.stack([one.medians[self._groups.numbers] for one in by_fold])
        self._turns = first._turns
        shapes = [lookup.values.shape for lookup in first.lookups]
        self._last = np.array([size - 1 for size, _ in shapes])
        self._columns = np.repeat(np.arange(len(shapes)), [width for _, width in shapes])
        sizes = self._last[self._columns] + 1
        self._starts = np.cumsum(sizes) - sizes
        self._tables = np.stack([_side_by_side(one) for one in by_fold])
        self._told = sorted({one.column for each in by_fold for one in each.imputations})
        many, self._statistics = many_levels(first)
        self._kept = [j for j in range(len(first.coded)) if j not in many]
        self.shape = len(by_fold), first.n_features
        self.shape_with_gaps = (
            len(by_fold) if self._statistics else 1,
            len(self._kept) + len(self._statistics),
        )

    def encoded(self, codes: np.ndarray, /) -> np.ndarray:
        """Encode codes (n, c) by all folds: (n, F, d)."""
        groups, found = self._groups, np.empty((len(codes), *self.shape))
        at = len(groups.numbers)
        numbers = codes[:, None, groups.numbers]
        found[:, :, :at] = np.where(np.isnan(numbers), self._medians, numbers)
        for block in self._blocks(codes):
            found[:, :, at : at + block.shape[-1]] = block
            at += block.shape[-1]
        if np.isnan(codes[:, self._told]).any():
            for k, one in enumerate(self._by_fold):
                one._impute(codes.T, found[:, k])
        return found

    def _blocks(self, codes: np.ndarray) -> list[np.ndarray]:
        """Encode all but numbers: (n, 1, w) where folds agree, and (n, F, w)."""
        groups, blocks = self._groups, list[np.ndarray]()
        if groups.rounds:
            angles = codes[:, None, groups.rounds] * self._turns
            blocks += [np.where(np.isnan(angles), 0.0, f(angles)) for f in (np.sin, np.cos)]
        if groups.gaps:
            blocks.append(np.isnan(codes[:, None, groups.gaps]))
        if groups.levels:
            levels = codes[:, groups.levels]
            rows = np.where(np.isnan(levels), self._last, levels).astype(np.int64)
            at = rows[:, self._columns] + self._starts
            blocks.append(self._tables[:, at].transpose(1, 0, 2))
        return blocks

    def with_gaps(self, codes: np.ndarray, encoded: Callable[[], np.ndarray], /) -> np.ndarray:
        """Give rows (n, F, d), or (n, 1, d), as trees take them: see `gpukfl.tables._seen`."""
        kept = codes[:, None, self._kept]
        if not self._statistics:
            return kept
        everywhere = np.broadcast_to(kept, (len(codes), self.shape[0], len(self._kept)))
        return np.concatenate([everywhere, encoded()[:, :, self._statistics]], axis=2)


def _side_by_side(encoding: Encoding) -> np.ndarray:
    """Columns of all lookups, one after the other."""
    return np.concatenate([np.empty(0), *(one.values.T.ravel() for one in encoding.lookups)])
