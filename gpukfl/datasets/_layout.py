"""How a text holds a table: which separator, which line is the header, and what it names."""

from __future__ import annotations

import io
import re
from collections import Counter
from itertools import islice
from statistics import median_low

from gpukfl.core._warnings import warn
from gpukfl.datasets._lines import BLANKS, Layout, Text, iterate_rows
from gpukfl.datasets._names import warn_titles

_HEAD = 1 << 20  # letters that the layout is read from ...
_ROWS = 200  # ... and rows
_REGULAR = 0.9  # share of the rows that blanks split into equally many fields
_MARKS = (",", ";", "\t", "|")
_STATED = re.compile(r"sep=([^\r\n])\r?\n")  # a first line that Excel reads
_NUMBER = re.compile(r"[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d+)?")

_Row = list[str]


def detect_layout(text: Text, /) -> Layout:
    """Find the separator and the header of a text.

    The separator is the mark that splits most rows into equally many fields, outside quotes.
    Where commas and something else do, the commas are decimal. Rows above the header that have
    fewer fields are titles, also where separators make them as long.

    Raises
    ------
    ValueError
        If there are no rows of values.
    """
    head = _read_head(text)
    if not head.strip():
        msg = "it is empty"
        raise ValueError(msg)
    stated = _STATED.match(head)
    separator = (
        stated[1] if stated else _detect_separator(head, tabbed=text.source.suffix in _TABBED)
    )
    rows = _split_head(head, separator)
    titles = int(stated is not None)
    return _find_header(text.source.name, separator, rows, titles)


_TABBED = (".tsv", ".tab")


def _read_head(text: Text) -> str:
    """Read whole lines, at least three where there are so many."""
    with text.open() as file:
        head = more = file.read(_HEAD)
        while more and head.count("\n") < 3:
            more = file.read(_HEAD)
            head += more
        cut = bool(file.read(1))
    return head[: head.rindex("\n") + 1] if cut else head


def _split_head(head: str, separator: str) -> list[_Row]:
    lines = io.StringIO(head, newline="")
    return [fields for _, fields in islice(iterate_rows(lines, separator), _ROWS)]


def _detect_separator(head: str, *, tabbed: bool) -> str:
    """Find what splits the rows best."""
    first = next(line for line in head.splitlines() if line.strip())
    found = {}
    for mark in _MARKS:
        width, share = _regularity(_split_head(head, mark))
        if width > 1:
            found[mark] = share, tabbed and mark == "\t", mark != ",", width
    header, *values = [fields for fields in _split_head(head, BLANKS) if fields]
    width, share = _regularity(values or [header])
    named = width - len(header) in (0, 1)  # the column of the rows' names may have none
    if width > 1 and named and share > _REGULAR and not set(found) & set(first):
        return BLANKS
    return max(found, key=lambda mark: found[mark], default=",")


def _regularity(rows: list[_Row]) -> tuple[int, float]:
    """Find the commonest number of fields, and the share of the rows that have it."""
    counts = Counter(len(fields) for fields in rows if fields)
    width = max(counts, key=lambda count: (counts[count], count), default=0)
    return width, counts[width] / max(counts.total(), 1)


def _find_header(name: str, separator: str, rows: list[_Row], begin: int) -> Layout:
    """Find the header, below titles if there are any, and the names in it."""
    width, _ = _regularity(rows[begin:])
    filled = median_low([len(_strip_empty_fields(fields)) or 1 for fields in rows[begin:]])
    places = (k for k in range(begin, len(rows)) if _may_be_header(rows, k, width, filled))
    place = next(places, begin)  # where no row holds anything
    titles = list(
        filter(None, (separator.join(_strip_empty_fields(row)) for row in rows[begin:place]))
    )
    if titles:
        warn_titles(name, titles[0])
    header, values = rows[place], [fields for fields in rows[place + 1 :] if fields]
    if _is_headless([header, *values]):
        warn(f"the first line of {name} is a row of values: columns are named x0, x1, ...")
        return Layout(separator, place, tuple(f"x{k}" for k in range(len(header))))
    if not values:
        msg = "it has a header and no rows below it"
        raise ValueError(msg)
    return Layout(separator, place + 1, _header_names(header, values, width))


def _strip_empty_fields(fields: _Row) -> _Row:
    """Fields up to the last that is not empty: spreadsheets make all rows equally long."""
    count = max((k + 1 for k, field in enumerate(fields) if field.strip()), default=0)
    return fields[:count]


def _may_be_header(rows: list[_Row], place: int, width: int, filled: int) -> bool:
    """Whether a row has a name for each column, or for each but that of the rows' names.

    Columns at the end may have none, up to half of those that hold something in a middling row.
    """
    if len(rows[place]) >= width:
        return 2 * len(_strip_empty_fields(rows[place])) >= filled
    below = next((fields for fields in rows[place + 1 :] if fields), [])
    return 1 < len(rows[place]) == width - 1 == len(below) - 1 and _has_number(below)


def _has_number(fields: _Row) -> bool:
    return any(_NUMBER.fullmatch(field.strip()) for field in fields)


def _header_names(header: _Row, values: list[_Row], width: int) -> tuple[str, ...]:
    """Names of the columns: those of the rows come first, and separators may end each row."""
    names = [name.strip() for name in header]
    if len(names) == width - 1:
        ended = all(not fields[-1] for fields in values if len(fields) == width)
        return (*names, "") if ended else ("", *names)
    while len(names) > width and not names[-1]:
        names.pop()
    return tuple(names)


def _is_headless(rows: list[_Row]) -> bool:
    """Whether the first row holds values: numbers, and perhaps texts that come again below it.

    0, 1, 2, ... are names.
    """
    first, *below = ([field.strip() for field in fields] for fields in rows)
    numbers = [bool(_NUMBER.fullmatch(field)) for field in first]
    if first == [str(k) for k in range(len(first))] or not any(numbers):
        return False
    if all(numbers):
        return True
    texts = [k for k, is_number in enumerate(numbers) if not is_number and first[k]]
    known = [{fields[k] for fields in below if k < len(fields)} for k in texts]
    return any(first[k] in values for k, values in zip(texts, known, strict=True)) and not any(
        values and all(map(_NUMBER.fullmatch, values)) for values in known
    )
