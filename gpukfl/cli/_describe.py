"""``gpukfl describe``: what each column of a table is taken for, and why."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl._columns import GAPS
from gpukfl._streams import tell
from gpukfl.cli._table import kinds_of, load

if TYPE_CHECKING:
    from gpukfl.tables import Column

_WIDEST = 40  # letters of a name
_LEVELS = 5  # levels that are shown


def describe(options: argparse.Namespace) -> int:
    """Print a line for each column: its name, its kind, what is missing, and the reason."""
    from gpukfl.tables import Table

    loaded = load(options, needs_target=False)
    columns = Table.of(loaded.X, columns=kinds_of(options)).columns
    words = loaded.X.attrs.get("missing_words", {})
    lines = [
        (one.name, one.kind, _share(one.missing), _reason(one) + _words(one, words))
        for one in columns
    ]
    if loaded.y is not None:
        lines.append((loaded.target or "y", "target", "", _task(loaded.y)))
    tell(f"{len(loaded.X)} rows, {len(lines)} columns")
    _print([("column", "kind", "missing", "why"), *lines])
    return 0


def _task(y: np.ndarray) -> str:
    """Say what a fit takes the target for, or why it does not take it."""
    from gpukfl.tables._target import read_target

    try:
        target = read_target(y)
    except ValueError as error:
        return f"none that can be predicted: {error}"
    return f"{target.task} ({target.kind})"


def _share(missing: float) -> str:
    return f"{missing:.1%}" if missing else ""


def _reason(column: Column) -> str:
    if not column.used:
        return f"left out: {column.reason}"
    if not column.levels:
        return column.reason
    shown = ", ".join(map(_one_line, column.levels[:_LEVELS]))
    return f"{column.reason}: {shown}{', ...' if len(column.levels) > _LEVELS else ''}"


def _words(column: Column, missing: dict[str, list[str]]) -> str:
    """Say which words are missing values, and which are levels that might be such."""
    found = missing.get(column.name, [])
    said = f"; missing values are written {_quoted(found)}" if found else ""
    levels = [level for level in column.levels if level.strip().casefold() in GAPS]
    if column.kind == "category" and levels:
        options = " ".join(f"--na {shlex.quote(level)}" for level in levels[:_LEVELS])
        said += f"; {_quoted(levels)} is a level ({options} takes it for missing)"
    return said


def _quoted(words: list[str]) -> str:
    return ", ".join(map(repr, words[:_LEVELS])) + (", ..." if len(words) > _LEVELS else "")


def _print(rows: list[tuple[Any, ...]]) -> None:
    """Print columns of text, the last one as long as it is."""
    rows = [tuple(map(_one_line, row)) for row in rows]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        tell("  ".join(["  ", *cells, row[-1]]))


def _one_line(text: str) -> str:
    return " ".join(text.split())
