"""Tables in parts: statistics of their levels are sums over all rows, by other rows for those."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpukfl._array import is_array, to_host
from gpukfl._reader import Reader
from gpukfl.partitioned import Collections, partition_named
from gpukfl.tables import Encoding, Table
from gpukfl.tables._level_sums import LevelSums
from gpukfl.tables._lookups import FOLDS, lookup_of, rows_of


@dataclass(frozen=True, eq=False)
class PartsReader:
    """What makes rows for a fit of the columns of a partition.

    Attributes
    ----------
    table : Table
        What the columns are.
    by_fold : tuple of Encoding
        One for each fold, with means of targets by the rows of the others.
    """

    table: Table
    by_fold: tuple[Encoding, ...]

    def __call__(self, X: Any, /) -> np.ndarray:
        """Give the rows (m, d) of a frame."""
        codes = self.table.codes(X)
        rows, fold = np.empty((len(codes), self.by_fold[0].n_features)), _folds(len(codes))
        for k, encoding in enumerate(self.by_fold):
            rows[fold == k] = encoding.transform(codes[fold == k])
        return rows


def of_all_rows(
    reader: Reader, given: Collections, classes: np.ndarray | None, /
) -> tuple[Reader, PartsReader]:
    """Take statistics of levels over all rows: for new rows, and for those of the fit.

    Parameters
    ----------
    reader : Reader
        Learned on some of the rows: what the columns and their levels are, and medians.
    given : Collections
        All rows.
    classes : array or None
        Labels that the targets are of; None of numbers.
    """
    table, encoding = reader.table, reader.encoding
    levelled = [one for one in encoding.coded if one.levels]
    if not levelled:
        return reader, PartsReader(table, (encoding,) * FOLDS)
    sums = _summed(table, given, classes)
    both = list(zip(levelled, sums, strict=True))

    def learned(without: int | None) -> Encoding:
        found = tuple(lookup_of(one, of, without=without) for one, of in both)
        return replace(encoding, lookups=found)

    by_fold = tuple(learned(k) for k in range(FOLDS))
    return replace(reader, encoding=learned(None)), PartsReader(table, by_fold)


def _summed(table: Table, given: Collections, classes: np.ndarray | None) -> list[LevelSums]:
    """Sum over all partitions, two by two."""
    import dask
    from dask import delayed

    found = [
        delayed(_sums_of, pure=False)(
            k, table, classes, X, y, None if given.weights is None else given.weights[k]
        )
        for k, (X, y, n) in enumerate(zip(given.X, given.y, given.lengths, strict=True))
        if n
    ]
    while len(found) > 1:
        pairs = [found[k : k + 2] for k in range(0, len(found), 2)]
        found = [delayed(_added, pure=False)(*pair) if pair[1:] else pair[0] for pair in pairs]
    return list(dask.compute(*found)[0])


def _added(a: list[LevelSums], b: list[LevelSums]) -> list[LevelSums]:
    return list(map(operator.add, a, b))


def _sums_of(
    number: int, table: Table, classes: np.ndarray | None, X: Any, y: Any, weights: Any
) -> list[LevelSums]:
    """Sum over a partition: for each column of levels."""
    with partition_named(number):
        codes, Y = table.codes(X), _targets(y, classes)
    w = None if weights is None else np.asarray(weights, dtype=np.float64)
    fold, found = _folds(len(codes)), []
    for j, one in enumerate(table.coded):
        if one.levels:
            size = one.levels + 2
            found.append(LevelSums.of(rows_of(codes[:, j], size), size, Y, w, fold, FOLDS))
    return found


def _folds(n: int) -> np.ndarray:
    """Folds (n,) of the rows of a partition, one after the other."""
    return np.arange(n) % FOLDS


def _targets(y: Any, classes: np.ndarray | None) -> np.ndarray:
    """Targets (n, t), or indicators of classes, of two the second's alone."""
    host = np.asarray(to_host(y) if is_array(y) else y)
    if classes is None:
        return host.astype(np.float64).reshape(len(host), -1)
    shown = classes if len(classes) > 2 else classes[1:]
    return (host.reshape(-1, 1) == shown).astype(np.float64)
