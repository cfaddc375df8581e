"""What the columns of a table were, for reports."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpukfl.inspection import ColumnFacts, DataFacts
from gpukfl.tables._column import Column
from gpukfl.tables._table import Table

_SHOWN = 60  # columns that a report lists
_LEVELS = 3  # of a category that are named
_NUMBERS = ("numeric", "code", "ordered")  # kinds of which ends and middles say something


def data_facts(
    table: Table | None,
    names: Sequence[str],
    rows: np.ndarray | None,
    /,
    *,
    target: np.ndarray | None = None,
    classes: Sequence[str] = (),
    targets: Sequence[str] = (),
    rows_are: str = "",
) -> DataFacts:
    """Return what is known of the data of a fit.

    Parameters
    ----------
    table : Table or None
        What the columns are; None of complete numbers.
    names : sequence of str
        Of the columns.
    rows : array, shape (n, c), or None
        The numbers, or the codes of the table; None where they are not kept.
    target : array, shape (n, t), optional
        Numbers, or indicators of classes.
    classes : sequence of str
        Names of the classes.
    targets : sequence of str
        Names of several targets.
    rows_are : str
        Which rows of the fit these are, where they are not all.

    Returns
    -------
    DataFacts
        Of the first columns in detail.
    """
    ranges = {} if rows is None else _ranges(table, rows)
    columns = tuple(
        ColumnFacts(name, "numeric", 0.0, ranges.get(k, ""))
        if table is None
        else _of_column(table.columns[k], ranges.get(k, ""))
        for k, name in enumerate(names[:_SHOWN])
    )
    said = "" if target is None else _of_target(target, classes, targets)
    return DataFacts(columns, len(names), said + (f" ({rows_are})" if said and rows_are else ""))


def _of_column(column: Column, ends: str) -> ColumnFacts:
    said = ends if column.kind in _NUMBERS and not column.levels else ""
    if column.levels:
        left = len(column.levels) - _LEVELS
        named = ", ".join(column.levels[:_LEVELS]) + (f" and {left} more" if left > 0 else "")
        said = f"{len(column.levels)} levels: {named}"
    if not column.used:
        said = f"left out: {column.reason}"
    return ColumnFacts(column.name, column.kind, column.missing, said or column.reason)


def _ranges(table: Table | None, rows: np.ndarray) -> dict[int, str]:
    """Say ends and middles of columns of numbers, by their places."""
    if table is None:
        return {k: _range(rows[:, k]) for k in range(min(rows.shape[1], _SHOWN))}
    first: dict[int, int] = {}
    for at, one in enumerate(table.coded):
        if not one.levels and one.source < _SHOWN:
            first.setdefault(one.source, at)
    return {source: _range(rows[:, at]) for source, at in first.items()}


def _range(values: np.ndarray) -> str:
    known = values[np.isfinite(values)]
    if not len(known):
        return ""
    return f"{known.min():.4g} to {known.max():.4g}, median {np.median(known):.4g}"


def _of_target(target: np.ndarray, classes: Sequence[str], targets: Sequence[str]) -> str:
    """Shares of classes, or ends, mean and spread of numbers."""
    if classes:
        shares = target.mean(axis=0)
        left = len(classes) - 2 * _LEVELS
        some = zip(classes[: 2 * _LEVELS], shares, strict=False)
        named = ", ".join(f"{name} {share:.1%}" for name, share in some)
        return named + (f" and {left} more" if left > 0 else "")
    said = [f"{_range(y)}, mean {y.mean():.4g}, sd {y.std():.4g}" for y in target.T[:_LEVELS]]
    if len(targets) > 1:
        said = [f"{name}: {ends}" for name, ends in zip(targets, said, strict=False)]
    left = target.shape[1] - _LEVELS
    return "; ".join(said) + (f"; and {left} more targets" if left > 0 else "")
