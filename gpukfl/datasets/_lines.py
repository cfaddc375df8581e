"""Rows of a text table with the lines they begin at: what is wrong with a row, and where."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpukfl.datasets._source import Source

BLANKS = " "  # the separator of columns that any number of blanks keep apart
_SHOWN = 60  # letters of a row that a message shows


@dataclass(frozen=True)
class Text:
    """A text, and where it comes from."""

    source: Source
    encoding: str

    def open(self) -> io.TextIOWrapper:
        """Open it, with line ends as they are."""
        return io.TextIOWrapper(self.source.open(), encoding=self.encoding, newline="")


@dataclass(frozen=True)
class Layout:
    """How a text holds a table.

    Attributes
    ----------
    separator : str
        Between the fields of a row.
    above : int
        Rows above the first one of values, blank ones included.
    names : tuple of str
        One for each column, as the header has them; "" where it has none.
    """

    separator: str
    above: int
    names: tuple[str, ...]


def iterate_rows(lines: Iterable[str], separator: str, /) -> Iterator[tuple[int, list[str]]]:
    """Yield the line that each row begins at, from 1, and its fields; none of a blank line."""
    if separator == BLANKS:
        lines = (line.strip().replace("\t", " ") + "\n" for line in lines)
    reader = csv.reader(iter(lines), delimiter=separator, skipinitialspace=True)
    begin = 1
    while (fields := _next_row(reader)) is not None:
        yield begin, fields if any(map(str.strip, fields)) or len(fields) > 1 else []
        begin = reader.line_num + 1


def _next_row(reader: Iterator[list[str]]) -> list[str] | None:
    """Return the next row, however long its fields are, as of a whole line or of documents."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


def unclosed_quote_text(line: int, /) -> str:
    """Return in words that the row that begins at `line` has a quote without an end."""
    return f"a quote that opens in line {line} is never closed"


def find_last_line(text: Text, layout: Layout, /) -> int:
    """Find the line that the last row begins at."""
    with text.open() as lines:
        return max((line for line, _ in iterate_rows(lines, layout.separator)), default=1)


def find_line(text: Text, layout: Layout, row: int, /) -> int:
    """Find the line that a row of values begins at; the first is row 0."""
    with text.open() as lines:
        rows = enumerate(iterate_rows(lines, layout.separator))
        begins = (line for k, (line, fields) in rows if k >= layout.above and fields)
        return next(line for k, line in enumerate(begins) if k == row)


def check_field_counts(text: Text, layout: Layout, /) -> None:
    """Raise ValueError at the first row of values with another number of fields than columns.

    Fields of columns at the end that have no name may be missing.
    """
    names = layout.names
    least = max((k + 1 for k, name in enumerate(names) if name), default=1)
    with text.open() as lines:
        for k, (line, fields) in enumerate(iterate_rows(lines, layout.separator)):
            if k >= layout.above and fields and not least <= len(fields) <= len(names):
                shown = layout.separator.join(fields)
                shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "..."
                msg = f"expected {len(names)} fields, got {len(fields)} in line {line}: {shown!r}"
                raise ValueError(msg)
