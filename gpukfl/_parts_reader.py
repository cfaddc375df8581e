"""Tables in parts: gaps, levels, and statistics of these, are counts and sums over all rows."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gpukfl._array import is_array, to_host
from gpukfl._columns import is_numeric
from gpukfl._reader import Reader, of_use, table_of
from gpukfl.partitioned import Collections, computed, partition_named
from gpukfl.tables import Encoding, Table
from gpukfl.tables._counts import ColumnCounts, counts_of
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


def table_of_all(
    given: Collections, X: Any, columns: Mapping[str, str] | None = None, /
) -> Table | None:
    """Say what the columns of frames are: by some rows, and their gaps and levels by all.

    Parameters
    ----------
    given : Collections
        All rows.
    X : frame or array
        Some of them, which say of what kind columns are.
    columns : mapping of str to str, optional
        Kinds of columns, by name, where they are not to be guessed.

    Returns
    -------
    Table or None
        None of arrays, and of columns of numbers that are complete in all rows.

    Raises
    ------
    TypeError, ValueError
        As `table_of`, and if a partition does not hold what it should.
    """
    table = table_of(X, columns, whole=False)
    if given.names is None or (table is None and _are_complete(given)):
        return table
    table = table or Table.of(X, whole=False)
    counts = _added_up(given, partial(_counts_in, table))
    told = tuple(one.told(column) for one, column in zip(counts, table.columns, strict=True))
    table = of_use(replace(table, columns=told))
    table.tell_of_empty()
    return table


def _are_complete(given: Collections) -> bool:
    """Whether columns of numbers have no gap in any partition."""
    from dask import delayed

    return all(computed(*(delayed(is_numeric, pure=False)(X) for X in given.X)))


def _counts_in(table: Table, number: int, X: Any) -> list[ColumnCounts]:
    with partition_named(number):
        return counts_of(table, X)


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
    weights = given.weights or [None] * len(given.lengths)
    sums = _added_up(given, partial(_sums_in, table, classes), given.y, weights)
    both = list(zip(levelled, sums, strict=True))

    def learned(without: int | None) -> Encoding:
        found = tuple(lookup_of(one, of, without=without) for one, of in both)
        return replace(encoding, lookups=found)

    by_fold = tuple(learned(k) for k in range(FOLDS))
    return replace(reader, encoding=learned(None)), PartsReader(table, by_fold)


def _added_up(given: Collections, of: Any, *beside: Sequence[Any]) -> list[Any]:
    """Add up lists ``of(number, X, *beside)`` of all partitions, two by two."""
    from dask import delayed

    # One object of the graph: arguments would be looked through for collections in every task
    work, numbered = delayed(of, pure=False), range(len(given.lengths))
    found = [
        work(*partition)
        for n, *partition in zip(given.lengths, numbered, given.X, *beside, strict=True)
        if n
    ]
    while len(found) > 1:
        pairs = [found[k : k + 2] for k in range(0, len(found), 2)]
        found = [delayed(_added, pure=False)(*pair) if pair[1:] else pair[0] for pair in pairs]
    return list(computed(*found)[0])


def _added(a: list[Any], b: list[Any]) -> list[Any]:
    return list(map(operator.add, a, b))


def _sums_in(
    table: Table, classes: np.ndarray | None, number: int, X: Any, y: Any, weights: Any
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
