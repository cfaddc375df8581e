"""The table that a command reads, as its options say."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from gpukfl.datasets._names import check_columns, listed

if TYPE_CHECKING:
    from gpukfl.datasets import LoadedTable


def load(options: argparse.Namespace, /, *, needs_target: bool = True) -> LoadedTable:
    """Read the table, and check what is said of its columns.

    Raises
    ------
    ValueError
        If there is no such table or column, or something else is said than a column's kind.
    """
    from gpukfl.datasets import LoadedTable, load_frame, load_table

    kinds = kinds_of(options)
    reading = {"kinds": kinds, "decimal": options.decimal, "na_values": options.na}
    if needs_target or options.target is not None:
        table = load_table(options.data, options.target, drop=options.drop, **reading)
    else:
        frame = load_frame(options.data, **reading)
        check_columns(options.drop, frame.columns, f"--drop to name one of {listed(frame)}, got ")
        table = LoadedTable(frame.drop(columns=options.drop), None, None)
    check_columns(kinds, table.X.columns, f"--columns to name one of {listed(table.X)}, got ")
    return table


def kinds_of(options: argparse.Namespace, /) -> dict[str, str]:
    """Read ``--columns NAME=KIND``: what columns are taken for, by name."""
    from gpukfl.tables import KINDS

    kinds = {}
    for text in options.columns:
        name, _, kind = text.rpartition("=")
        if not name or kind not in KINDS:
            msg = f"expected --columns NAME=KIND, of a kind among {', '.join(KINDS)}, got {text!r}"
            raise ValueError(msg)
        kinds[name] = kind
    return kinds
