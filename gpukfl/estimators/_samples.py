"""Samples before they are placed: weights, duplicates, and splits that keep these together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit

from gpukfl.core._array import (
    Array,
    array_namespace,
    double_reference,
    index_like,
    lies_in_parts,
    take_rows,
    to_host,
)
from gpukfl.core._hashes import hash_rows, row_factors
from gpukfl.core._random import draw_indices
from gpukfl.estimators._validation import validate_weights
from gpukfl.linalg import each_block
from gpukfl.methods import FOLDS_BELOW, N_FOLDS
from gpukfl.partitioned._rows import Rows, map_rows, take_together
from gpukfl.tables._relations import Relations

# ---------------------------------------------------------------------------------- copies

# Copies of a row are merged, so that no fit sees a copy of a held-out row.

_BLOCK_ROWS = 2**16  # rows compared with their neighbours at once
_SAMPLE_ROWS = 2**12  # distinct rows whose values are counted
# A grid has at most so many values a column, and so many rows for each
_FEW_VALUES, _ROWS_PER_VALUE = 20, 5


def find_duplicates(X: Any, y: np.ndarray, /) -> tuple[np.ndarray, np.ndarray] | None:
    """Find rows of `X` that are equal and have equal targets; NaN equals NaN.

    Return the indices (k,) of each group's first row, ascending, and the group (n,) of every row.
    Return None if all rows differ, or for a memory map, which would have to be copied.

    Equal rows with different targets are repeated measurements, not copies. Rows of a grid are
    equal by chance, and not copies either: no column has more than 20 values, and there are five
    times as many rows.

    O(n (d + log n)): rows with equal hashes of 64 bits are compared.
    """
    found = _sort_equal_rows(X)
    if found is None:
        return None
    order, alike = found
    run = np.concatenate([[0], np.cumsum(~alike)])  # of equal rows, for each in order
    columns = y[order].reshape(len(y), -1)
    other_target = np.any(columns[1:] != columns[:-1], axis=1) & alike
    repeated = np.zeros(run[-1] + 1, dtype=bool)
    repeated[run[1:][other_target]] = True
    begins = np.concatenate([[True], ~alike]) | repeated[run]
    if begins.all() or _is_grid(X, order[begins]):
        return None
    return _number_groups(order, begins)


def find_equal_rows(X: Any, /) -> tuple[np.ndarray, np.ndarray] | None:
    """Find equal rows of `X` with any targets; return indices and groups as `find_duplicates`."""
    found = _sort_equal_rows(X)
    if found is None:
        return None
    order, alike = found
    begins = np.concatenate([[True], ~alike])
    if begins.all() or _is_grid(X, order[begins]):
        return None
    return _number_groups(order, begins)


def _sort_equal_rows(X: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return an order (n,) with equal rows side by side, and which equal the next (n - 1,).

    None if all hashes differ, or for a memory map.
    """
    if isinstance(X, np.memmap) or X.shape[0] < 2:
        return None
    hashes = _hash_rows(X)
    ranked = np.sort(hashes)  # ten times as fast as argsort
    if not np.any(ranked[1:] == ranked[:-1]):
        return None
    order = np.argsort(hashes, kind="stable")
    alike = hashes[order[1:]] == hashes[order[:-1]]
    pairs = np.flatnonzero(alike)
    alike[pairs] = _are_equal(X, order[pairs], order[pairs + 1])
    return order, alike


def _number_groups(order: np.ndarray, begins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return first rows and groups (n,) of neighbours in `order`; `begins` marks their starts."""
    firsts = order[begins]
    place = np.argsort(np.argsort(firsts))
    group = np.empty(len(order), dtype=np.int64)
    group[order] = place[np.cumsum(begins) - 1]
    return np.sort(firsts), group


def drop_duplicates(X: Any, y: Any, rows: np.ndarray, /) -> np.ndarray:
    """Drop duplicates among rows of a memory map; other data have none any more."""
    if not isinstance(X, np.memmap):
        return rows
    found = find_duplicates(np.array(X[rows]), y)
    return rows if found is None else rows[found[0]]


def _is_grid(X: Array, rows: np.ndarray) -> bool:
    """Whether rows are a grid: columns have few distinct values, so equal rows are expected."""
    xp = array_namespace(X)
    few = xp.asarray(np.sort(rows)[:_SAMPLE_ROWS], **index_like(X))
    values = np.sort(to_host(xp.take(X, few, axis=0)), axis=0)
    values, gaps = np.nan_to_num(values), np.isnan(values)
    other = (values[1:] != values[:-1]) | (gaps[1:] != gaps[:-1])
    most = 1 + np.max(np.sum(other, axis=0))
    return bool(most <= min(_FEW_VALUES, X.shape[0] / _ROWS_PER_VALUE))


def _hash_rows(X: Array) -> np.ndarray:
    """Return a hash (n,) of every row, on the host."""
    (n, d), out = X.shape, np.empty(X.shape[0], dtype=np.uint64)
    rows, factors = Rows(X, double_reference(X)), row_factors(X.shape[1])

    def compute(start: int, stop: int) -> np.ndarray:
        return hash_rows(to_host(rows.block(start, stop)), factors)

    def take(start: int, stop: int, found: np.ndarray) -> None:
        out[start:stop] = found

    each_block(rows.reference, (0, n), d, compute, take)
    return out


def _are_equal(X: Array, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return whether rows at some host indices equal those at others."""
    xp = array_namespace(X)
    found = []
    for start in range(0, len(first), _BLOCK_ROWS):
        left, right = (
            xp.take(X, xp.asarray(rows[start : start + _BLOCK_ROWS], **index_like(X)), axis=0)
            for rows in (first, second)
        )
        same = (left == right) | (xp.isnan(left) & xp.isnan(right))
        found.append(to_host(xp.all(same, axis=1)))
    return np.concatenate(found)


# --------------------------------------------------------------------------------- samples

_WEIGHT_BITS = 33  # kept of a weight's mantissa
_CLASS_ROWS = 2  # least samples of a class: early stopping holds one out


@dataclass(frozen=True)
class Splits:
    """The way in which rows are held out to score settings."""

    at_most: int = 20_000  # rows used in a search
    folds_below: int = FOLDS_BELOW  # fewer rows are split into folds
    share: float = 0.2  # of the rows held out once, if these are more
    fewest: int = 20  # with fewer rows there is no search
    enough: int | None = None  # held-out rows after which no more folds are used
    n_folds: int = N_FOLDS  # at most; no more than rows
    double_below: int = 0  # fits to fewer rows use float64


@dataclass(frozen=True, eq=False)
class Samples:
    """Rows, targets and weights, of any library.

    Attributes
    ----------
    X : array, shape (n, d)
        Rows; a memory map stays one.
    Y : array, shape (n, t)
        Targets, or indicators of classes; of two classes only the second's.
    weights : host array, shape (n,), or None
        Weights; the positive ones have mean 1. None if all are equal. Partitioned like `X`.
    labels : bool
        Whether the targets are indicators of classes.
    copies : host array, shape (n,), or None
        Number of rows merged into each sample, by Kish's formula for their weights; None if no rows
        were merged.
    relations : Relations or None
        Groups, times or given splits, which `splits` respects.
    given_weights : host array, shape (n,), or None
        The user's weights, for the scaling of features, if `weights` contain those of a loss.
    n_rows : int or None
        Number of given rows with positive weight, copies included; None if unknown.
    """

    X: Array
    Y: Array
    weights: np.ndarray | None
    labels: bool = False
    copies: np.ndarray | None = None
    relations: Relations | None = None
    given_weights: np.ndarray | None = None
    n_rows: int | None = None

    @classmethod
    def validate(
        cls,
        X: Array,
        Y: Array,
        sample_weight: Any,
        /,
        *,
        labels: bool,
        relations: Relations | None = None,
    ) -> Self:
        """Validate weights, drop samples of weight 0, and merge duplicates.

        A memory map stays as it is, as this would copy it. Copies become one sample, so that they
        are held out together.
        """
        weights = validate_weights(sample_weight, X)
        if lies_in_parts(X):
            return cls(
                X, Y, None if weights is None else _relative_weights_in_parts(weights), labels
            )
        if weights is not None and np.any(weights == 0) and not isinstance(X, np.memmap):
            rows = np.flatnonzero(weights)
            X, Y, weights = take_rows(X, rows), take_rows(Y, rows), weights[rows]
            relations = None if relations is None else relations.take(rows)
        alike = to_host(Y) if relations is None else np.column_stack([to_host(Y), relations.keys])
        found, copies, n_rows = find_duplicates(X, alike), None, X.shape[0]
        if found is not None:
            firsts, group = found
            X, Y = take_rows(X, firsts), take_rows(Y, firsts)
            relations = None if relations is None else relations.take(firsts)
            copies = _effective_counts(group, weights)
            weights = np.bincount(group, weights=weights).astype(np.float64)
        return cls(X, Y, relative_weights(weights), labels, copies, relations, n_rows=n_rows)

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_effective(self) -> float:
        """Kish's effective sample size."""
        known = self.weights if self.given_weights is None else self.given_weights
        return float(len(self)) if known is None else effective_number(known)

    @cached_property
    def classes(self) -> np.ndarray | None:
        """Class (n,) of every sample on the host, or None in a regression."""
        if not self.labels:
            return None
        Y = self.Y
        if not lies_in_parts(Y):
            return decode_classes(to_host(Y))
        there = map_rows(
            Y, lambda a, b: decode_classes(to_host(Y[a:b, :])), columns=(), dtype=np.int64
        )
        return to_host(take_rows(there, np.arange(len(self))))

    @property
    def groups(self) -> np.ndarray | None:
        """The groups (n,) of the samples, where they are known."""
        return None if self.relations is None else self.relations.groups

    def take(self, rows: np.ndarray | slice, /) -> Samples:
        """Return the samples at host indices, or in a slice of a memory map."""
        X, Y, weights = take_together(rows, self.X, self.Y, self.weights)
        weights = None if weights is None else to_host(weights)
        copies = None if self.copies is None else self.copies[rows]
        relations = None if self.relations is None else self.relations.take(rows)
        scaled = None if self.given_weights is None else self.given_weights[rows]
        return Samples(X, Y, weights, self.labels, copies, relations, scaled)

    def draw(self, count: int, rng: np.random.RandomState, /) -> Samples:
        """Draw some samples in their order, at least two of each class if possible."""
        n, codes = len(self), self.classes
        if count >= n:
            return self
        rows = rng.choice(n, count, replace=False)
        if codes is not None:
            counts = np.bincount(codes[rows], minlength=int(codes.max()) + 1)
            rare = np.flatnonzero(counts < _CLASS_ROWS)
            found = [np.flatnonzero(codes == k)[:_CLASS_ROWS] for k in rare]
            rows = np.union1d(rows, np.concatenate([rows[:0], *found]))
        return self.take(np.sort(rows))

    def splits(self, rng: np.random.RandomState, how: Splits, /) -> list[tuple[Samples, Samples]]:
        """Return pairs of training samples and held-out samples.

        Few samples are split into folds, of others one share is held out. Splits respect relations
        if these leave any, or else are stratified if each class has a sample for every fold.
        """
        if lies_in_parts(self.X):  # all at once
            n, few = len(self), how.at_most
            rows = np.arange(n) if n <= few else np.sort(draw_indices(rng, n, few))
            return self.take(rows).splits(rng, how)
        return [
            (self.take(inside), self.take(outside)) for inside, outside in self.split_rows(rng, how)
        ]

    def split_rows(
        self, rng: np.random.RandomState, how: Splits, /
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the ascending rows of the pairs of `splits`; samples are not partitioned."""
        n, few = len(self), how.at_most
        rows = np.arange(n) if n <= few else np.sort(draw_indices(rng, n, few))
        Y = to_host(take_rows(self.Y, rows))
        rows = drop_duplicates(self.X, Y, rows)
        classes = None if not self.labels else decode_classes(to_host(take_rows(self.Y, rows)))
        splits: list[tuple[np.ndarray, np.ndarray]] = []
        if self.relations is not None:
            share = None if len(rows) < how.folds_below else how.share
            splits = self.relations.take(rows).split(rng, how.n_folds, share, classes)
        splits = splits or _split_independent_rows(len(rows), classes, rng, how)
        if how.enough is not None:
            splits = splits[: math.ceil(how.enough / len(splits[0][1]))]
        return [(rows[np.sort(inside)], rows[np.sort(outside)]) for inside, outside in splits]


def _split_independent_rows(
    n: int, classes: np.ndarray | None, rng: np.random.RandomState, how: Splits
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return folds or one held-out share of n rows without relations."""
    k = min(how.n_folds, n)
    sizes = np.zeros(1) if classes is None else np.unique(classes, return_counts=True)[1]
    if n < how.folds_below:
        folds = StratifiedKFold if sizes.min() >= k else KFold
        splitter = folds(k, shuffle=True, random_state=rng)
    else:
        held_out = math.ceil(how.share * n)
        both = min(held_out, n - held_out) >= len(sizes)
        once = StratifiedShuffleSplit if both and sizes.min() >= max(k, 2) else ShuffleSplit
        splitter = once(1, test_size=how.share, random_state=rng)
    labels = None if classes is None else number_by_appearance(classes)
    return list(splitter.split(np.arange(n), labels))


def _effective_counts(group: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return Kish's number of rows (k,) of each group of rows (n,)."""
    w = np.ones(len(group)) if weights is None else weights / weights.max()
    squares = np.bincount(group, weights=w * w)
    return np.bincount(group, weights=w) ** 2 / np.where(squares > 0, squares, 1.0)


def number_by_appearance(classes: np.ndarray, /) -> np.ndarray:
    """Enumerate classes (n,) by their first rows, so that splits do not depend on names."""
    _, first, codes = np.unique(classes, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[codes]


def decode_classes(Y: np.ndarray, /) -> np.ndarray:
    """Return the classes (n,) of indicators (n, t)."""
    return Y.argmax(axis=1) if Y.shape[1] > 1 else (Y[:, 0] > 0.5).astype(np.int64)


def effective_number(weights: Any, /) -> float:
    """Return Kish's effective sample size of weights (n,)."""
    xp = array_namespace(weights)
    w = weights / xp.max(weights)
    return float(xp.sum(w) ** 2 / xp.sum(w * w))


def relative_weights(weights: np.ndarray | None, /) -> np.ndarray | None:
    """Return weights (n,) whose positive ones have mean 1, or None if all are equal.

    They are rounded to ten digits, so that rounding of a common factor cannot change the model.
    """
    if weights is None or np.all(weights == weights[0]):
        return None
    shares = weights / weights.max()
    return _round_to_ten_digits(shares / np.mean(shares[shares > 0]))


def _relative_weights_in_parts(weights: Any, /) -> Any:
    """Return the same as `relative_weights` for partitioned weights."""
    xp = array_namespace(weights)
    largest, least = float(xp.max(weights)), float(xp.min(weights))
    if largest == least:
        return None
    mean = float(xp.sum(weights / largest)) / float(xp.sum(weights > 0))

    def part(start: int, stop: int) -> np.ndarray:
        return _round_to_ten_digits(to_host(weights[start:stop]) / largest / mean)

    return map_rows(weights, part, columns=(), dtype=np.float64)


def _round_to_ten_digits(weights: np.ndarray, /) -> np.ndarray:
    mantissa, exponent = np.frexp(weights)
    return np.ldexp(np.round(np.ldexp(mantissa, _WEIGHT_BITS)), exponent - _WEIGHT_BITS)
