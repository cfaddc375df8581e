"""Text files that hold a table: bytes, encoding, separator, header, rows.

pandas parses the rows. This module detects the encoding, the separator and the header, and finds
the line of an error.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median_low
from typing import IO, Any

from gpukfl.core._warnings import warn

# ----------------------------------------------------------------------------------- bytes


STANDARD_INPUT = "-"
_GetFile = Callable[[], Path | io.BytesIO]


@dataclass(frozen=True)
class Source:
    """Bytes that can be read repeatedly.

    Attributes
    ----------
    name : str
        Name in messages.
    suffix : str
        Suffix of the table's format, such as ".csv", or "".
    open : callable
        Opens the decompressed bytes.
    """

    name: str
    suffix: str
    open: Callable[[], IO[bytes]]

    @classmethod
    def from_path(cls, path: str, /) -> Source:
        """Open the file `path`; read a pipe, or standard input for ``"-"``, to its end.

        The format is that of the name's suffix, or else of the first bytes, as on standard input.
        Raises FileNotFoundError if there is no such file.
        """
        if path == STANDARD_INPUT:
            return _read_once("standard input", sys.stdin.buffer)
        file = Path(path)
        if file.is_fifo():
            with file.open("rb") as pipe:
                return _read_once(file.name, pipe)
        if not file.is_file():
            raise FileNotFoundError(path)
        suffixes = [suffix.lower() for suffix in file.suffixes]
        return _open_source(file.name, suffixes, lambda: file)


def _read_once(name: str, stream: IO[bytes]) -> Source:
    raw = stream.read()
    return _open_source(name, [], lambda: io.BytesIO(raw))


def _open_source(name: str, suffixes: list[str], place: _GetFile) -> Source:
    *rest, last = ["", *suffixes]
    if last in _DECOMPRESSORS:
        return Source(name, rest[-1] if rest else "", lambda: _DECOMPRESSORS[last](place()))
    if last in _BINARY_SUFFIXES:
        return Source(name, last, lambda: _open_binary(place()))
    with _open_binary(place()) as file:
        begin = file.read(8)
    kind = next((kind for magic, kind in _MAGIC.items() if begin.startswith(magic)), "")
    kind = _zip_suffix(place()) if kind == ".zip" else kind
    if kind in _DECOMPRESSORS:
        return Source(name, last, lambda: _DECOMPRESSORS[kind](place()))
    return Source(name, kind or last, lambda: _open_binary(place()))


def _open_binary(place: Path | io.BytesIO) -> IO[bytes]:
    return place.open("rb") if isinstance(place, Path) else place


def _zip_suffix(place: Path | io.BytesIO) -> str:
    """Return the suffix of the table inside a zip archive."""
    with zipfile.ZipFile(place) as archive:
        names = archive.namelist()
    if "xl/workbook.xml" in names:
        return ".xlsx"
    return ".npz" if names and all(name.endswith(".npy") for name in names) else ".zip"


def _open_zip_member(place: Path | io.BytesIO) -> IO[bytes]:
    with zipfile.ZipFile(place) as archive:
        names = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
        if len(names) != 1:
            msg = f"expected one file in the archive, got {len(names)}"
            raise ValueError(msg)
        return archive.open(names[0])


_BINARY_SUFFIXES = (".npz", ".xlsx", ".xlsm", ".parquet", ".pq", ".feather")
_DECOMPRESSORS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": _open_zip_member,
}
_MAGIC = {
    b"\x1f\x8b": ".gz",
    b"BZh": ".bz2",
    b"\xfd7zXZ\0": ".xz",
    b"PK\x03\x04": ".zip",
    b"PAR1": ".parquet",
    b"ARROW1": ".feather",
    b"FEA1": ".feather",
}


# -------------------------------------------------------------------------------- encoding


_CHUNK = 1 << 20  # bytes at a time
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16, whose mark it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CODEC_NAMES = {
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
}
_ZERO_SHARE = 0.4  # least share of upper bytes that are 0 in UTF-16


def _detect_encoding(source: Source) -> str:
    """Return the codec of a text: of its byte-order mark, UTF-8, or another with a warning.

    Raises ValueError if its bytes are no text.
    """
    head = next(_chunks(source), b"")
    marked = next((codec for mark, codec in _MARKS.items() if head.startswith(mark)), None)
    if marked is not None:
        if _can_decode(source, marked):
            return marked
        msg = f"it begins with the byte-order mark of {marked.upper()}, but is not {marked.upper()}"
        raise ValueError(msg)
    wide = [codec for codec in ("utf-16-le", "utf-16-be") if _is_utf16(head, codec)]
    found = next(
        codec for codec in [*wide, "utf-8", "cp1252", "latin-1"] if _can_decode(source, codec)
    )
    if not wide:
        _refuse_nul(source)
    if found in _CODEC_NAMES:
        warn(f"{source.name} is not UTF-8: it is read as {_CODEC_NAMES[found]}")
    return found


def _is_utf16(head: bytes, codec: str) -> bool:
    """Whether the upper bytes of most letters are 0, as in UTF-16."""
    upper, lower = head[1::2], head[::2]
    if codec == "utf-16-be":
        upper, lower = lower, upper
    return upper.count(0) > _ZERO_SHARE * len(upper) and lower.count(0) == 0


def _can_decode(source: Source, codec: str) -> bool:
    decoder = codecs.getincrementaldecoder(codec)()
    try:
        for chunk in _chunks(source):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def _refuse_nul(source: Source) -> None:
    line = 1
    for chunk in _chunks(source):
        place = chunk.find(b"\0")
        line += chunk.count(b"\n", 0, len(chunk) if place < 0 else place)
        if place >= 0:
            msg = f"line {line} has a NUL byte: the file is not text"
            raise ValueError(msg)


def _chunks(source: Source) -> Iterator[bytes]:
    with source.open() as file:
        while chunk := file.read(_CHUNK):
            yield chunk


# ------------------------------------------------------------------------ separator, header


BLANKS = " "  # the separator of columns with any number of blanks between them
_HEAD_LETTERS = 1 << 20  # letters from which the layout is detected ...
_HEAD_ROWS = 200  # ... and rows
_REGULAR = 0.9  # least share of rows with equally many fields, for blanks as separators
_SEPARATORS = (",", ";", "\t", "|")
_SEPARATOR_LINE = re.compile(r"sep=([^\r\n])\r?\n")  # first line of a file for Excel
_NUMBER = re.compile(r"[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d+)?")
_TAB_SUFFIXES = (".tsv", ".tab")

_Row = list[str]
_Layout = tuple[str, int, tuple[str, ...]]  # separator, rows above the values, names of columns


def _detect_layout(head: str, source: Source) -> _Layout:
    """Find the separator and the header in the first lines of a text.

    The separator splits most rows into equally many fields, outside quotes. Commas lose ties, as
    they may be decimal. Rows above the header with fewer nonempty fields are titles. Raises
    ValueError if there are no rows of values.
    """
    if not head.strip():
        msg = "the file is empty"
        raise ValueError(msg)
    stated = _SEPARATOR_LINE.match(head)
    tabbed = source.suffix in _TAB_SUFFIXES
    separator = stated[1] if stated else _detect_separator(head, tabbed=tabbed)
    rows, begin = _split_head(head, separator), int(stated is not None)
    return _find_header(source.name, separator, rows, begin)


def _split_head(head: str, separator: str) -> list[_Row]:
    lines = io.StringIO(head, newline="")
    return [fields for _, fields in islice(_iterate_rows(lines, separator), _HEAD_ROWS)]


def _detect_separator(head: str, *, tabbed: bool) -> str:
    """Return the separator that splits the rows best."""
    first = next(line for line in head.splitlines() if line.strip())
    found = {}
    for mark in _SEPARATORS:
        width, share = _common_width(_split_head(head, mark))
        if width > 1:
            found[mark] = share, tabbed and mark == "\t", mark != ",", width
    header, *values = [fields for fields in _split_head(head, BLANKS) if fields]
    width, share = _common_width(values or [header])
    named = width - len(header) in (0, 1)  # an index column may have no name
    if width > 1 and named and share > _REGULAR and not set(found) & set(first):
        return BLANKS
    return max(found, key=lambda mark: found[mark], default=",")


def _common_width(rows: list[_Row]) -> tuple[int, float]:
    """Return the most common number of fields, and the share of rows with it."""
    counts = Counter(len(fields) for fields in rows if fields)
    width = max(counts, key=lambda count: (counts[count], count), default=0)
    return width, counts[width] / max(counts.total(), 1)


def _find_header(name: str, separator: str, rows: list[_Row], begin: int) -> _Layout:
    """Find the header, below any titles, and its names."""
    width, _ = _common_width(rows[begin:])
    filled = median_low([len(_strip_empty_fields(fields)) or 1 for fields in rows[begin:]])
    places = (k for k in range(begin, len(rows)) if _may_be_header(rows, k, width, filled))
    place = next(places, begin)  # if all rows are empty
    titles = [separator.join(_strip_empty_fields(row)) for row in rows[begin:place]]
    first = next(filter(None, titles), None)
    if first is not None:
        warn_titles(name, first)
    header, values = rows[place], [fields for fields in rows[place + 1 :] if fields]
    if _is_headless([header, *values]):
        warn(f"the first line of {name} has values, not names: columns are named x0, x1, ...")
        return separator, place, tuple(f"x{k}" for k in range(len(header)))
    if not values:
        msg = "the file has a header and no rows"
        raise ValueError(msg)
    return separator, place + 1, _header_names(header, values, width)


def warn_titles(name: str, first: str, /) -> None:
    """Warn of text above the header of the table called `name`."""
    warn(f"lines above the header of {name} are ignored: {first!r}")


def _strip_empty_fields(fields: _Row) -> _Row:
    """Drop empty fields at the end, which spreadsheets add."""
    count = max((k + 1 for k, field in enumerate(fields) if field.strip()), default=0)
    return fields[:count]


def _may_be_header(rows: list[_Row], place: int, width: int, filled: int) -> bool:
    """Whether a row has a name for each column, perhaps without the index.

    Columns at the end may lack names, up to half of the median row's nonempty fields.
    """
    if len(rows[place]) >= width:
        return 2 * len(_strip_empty_fields(rows[place])) >= filled
    below = next((fields for fields in rows[place + 1 :] if fields), [])
    has_number = any(_NUMBER.fullmatch(field.strip()) for field in below)
    return 1 < len(rows[place]) == width - 1 == len(below) - 1 and has_number


def _header_names(header: _Row, values: list[_Row], width: int) -> tuple[str, ...]:
    """Return the names of the columns; "" for an index or a trailing empty column."""
    names = [name.strip() for name in header]
    if len(names) == width - 1:
        ended = all(not fields[-1] for fields in values if len(fields) == width)
        return (*names, "") if ended else ("", *names)
    while len(names) > width and not names[-1]:
        names.pop()
    return tuple(names)


def _is_headless(rows: list[_Row]) -> bool:
    """Whether the first row holds values; 0, 1, 2, ... are names."""
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


# ------------------------------------------------------------------------------------ rows


_MOST_LETTERS = 60  # of a row in a message


def _iterate_rows(lines: Iterable[str], separator: str) -> Iterator[tuple[int, _Row]]:
    """Yield the line number, from 1, and the fields of each row; skip blank lines."""
    if separator == BLANKS:
        lines = (line.strip().replace("\t", " ") + "\n" for line in lines)
    reader = csv.reader(iter(lines), delimiter=separator, skipinitialspace=True)
    begin = 1
    while (fields := _next_row(reader)) is not None:
        yield begin, fields if any(map(str.strip, fields)) or len(fields) > 1 else []
        begin = reader.line_num + 1


def _next_row(reader: Iterator[_Row]) -> _Row | None:
    """Return the next row, with fields of any length."""
    limit = csv.field_size_limit(sys.maxsize)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


@dataclass(frozen=True)
class TextTable:
    """A text that holds a table, and its layout.

    Attributes
    ----------
    source : Source
        Its bytes.
    encoding : str
        Its codec.
    separator : str
        The separator of fields.
    above : int
        Rows above the first row of values, with blank rows.
    names : tuple of str
        The column names in the header; "" for a column without one.
    """

    source: Source
    encoding: str
    separator: str = ","
    above: int = 0
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Source, /) -> TextTable:
        """Find the encoding, the separator and the header of a text.

        Raises ValueError if it is no text, or has no rows of values.
        """
        encoding = _detect_encoding(source)
        head = cls(source, encoding)._read_head()
        return cls(source, encoding, *_detect_layout(head, source))

    def _open(self) -> io.TextIOWrapper:
        """Open the text, with line ends as they are."""
        return io.TextIOWrapper(self.source.open(), encoding=self.encoding, newline="")

    def _read_head(self) -> str:
        """Read whole lines from the beginning, at least three."""
        with self._open() as file:
            head = more = file.read(_HEAD_LETTERS)
            while more and head.count("\n") < 3:
                more = file.read(_HEAD_LETTERS)
                head += more
            cut = bool(file.read(1))
        return head[: head.rindex("\n") + 1] if cut else head

    def read(self, names: list[str], as_text: Iterable[str], na_values: Any, **options: Any) -> Any:
        """Read rows into a pandas frame with these names, columns in `as_text` as text.

        Raises ValueError with the line if a row has another number of fields or a quote no end.
        """
        import pandas as pd

        try:
            with self._open() as file:
                return pd.read_csv(
                    file,
                    sep=r"\s+" if self.separator == BLANKS else self.separator,
                    header=None,
                    names=names,
                    skiprows=self.above,
                    skipinitialspace=True,
                    low_memory=False,  # so that a column has one type
                    dtype=dict.fromkeys(as_text, str),
                    keep_default_na=False,
                    na_values=na_values,
                    **options,
                )
        except pd.errors.ParserError as error:
            if "EOF inside string" in str(error):
                with self._open() as lines:
                    rows = _iterate_rows(lines, self.separator)
                    last = max((line for line, _ in rows), default=1)
                msg = f"a quote that opens in line {last} is never closed"
                raise ValueError(msg) from error
            self.check_field_counts()
            raise

    def _value_rows(self) -> Iterator[tuple[int, _Row]]:
        """Yield the line and the fields of each row of values that is not blank."""
        with self._open() as lines:
            for k, (line, fields) in enumerate(_iterate_rows(lines, self.separator)):
                if k >= self.above and fields:
                    yield line, fields

    def find_line(self, row: int, /) -> int:
        """Return the line where a row of values begins; rows count from 0."""
        return next(line for k, (line, _) in enumerate(self._value_rows()) if k == row)

    def check_field_counts(self) -> None:
        """Raise ValueError at the first row with another number of fields than columns.

        Fields of columns at the end that have no name may be missing.
        """
        most = len(self.names)
        least = max((k + 1 for k, name in enumerate(self.names) if name), default=1)
        for line, fields in self._value_rows():
            if not least <= len(fields) <= most:
                shown = self.separator.join(fields)
                shown = shown if len(shown) <= _MOST_LETTERS else shown[:_MOST_LETTERS] + "..."
                msg = f"expected {most} fields, got {len(fields)} in line {line}: {shown!r}"
                raise ValueError(msg)

    def has_padded_digits(self) -> bool:
        """Whether some field has digits with a leading zero, as codes have."""
        mark = r"[ \t]" if self.separator == BLANKS else re.escape(self.separator)
        field = re.compile(rf'(?:^|{mark})[ "]*[-+]?0\d+[ "]*(?:{mark}|$)')
        with self._open() as lines:
            return any(field.search(line.rstrip("\r\n")) for line in lines)
