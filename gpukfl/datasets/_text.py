"""Tables in text files: which separator, which decimal point, whether there is a header."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpukfl._warnings import warn

_HEAD = 1 << 20  # bytes that the separator is read from
_SEPARATORS = (",", ";", "\t", "|")
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_NUMBER = re.compile(r"[-+]?(?:\d+[.,]?\d*|[.,]\d+)(?:[eE][-+]?\d+)?")
_COMMA = re.compile(r"\s*[-+]?\d*(?:,\d+)?(?:[eE][-+]?\d+)?\s*")
_THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*|\s*[-+]?\d{1,3}\s*")
_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


def read_text_table(path: Path, /) -> Any:
    """Read a text table, plain or compressed, into a pandas frame.

    The separator is what splits the first two lines, outside quotes. Where it is not the comma,
    numbers may have decimal commas.

    Raises
    ------
    ValueError
        If the file is no text in UTF-8, or its rows are no table.
    """
    import pandas as pd

    head = _head(path)
    options: dict[str, Any] = {
        "sep": _separator(head, path),
        "encoding": "utf-8-sig",
        "skipinitialspace": True,
        "low_memory": False,  # so that a column has one type
    }
    headless = _is_headless(head, options["sep"])
    if headless:
        options["header"] = None
        warn(f"the first line of {path.name} holds numbers only: columns are named x0, x1, ...")
    try:
        frame = pd.read_csv(path, **options)
        if options["sep"] != "," and _has_decimal_commas(frame):
            frame = pd.read_csv(path, decimal=",", **options)
    except UnicodeDecodeError as error:
        msg = "it is no text in UTF-8 (if it is in Latin-1, `iconv -f latin1 -t utf8` converts it)"
        raise ValueError(msg) from error
    frame.columns = [f"x{name}" if headless else str(name).strip() for name in frame.columns]
    return _without_nameless(frame)


def _head(path: Path) -> list[str]:
    """First two lines, with one mark for what is quoted."""
    raw = _first_bytes(path)
    if b"\0" in raw:
        msg = "it is no text in UTF-8"
        raise ValueError(msg)
    lines = _QUOTED.sub('"', raw.decode("utf-8-sig", errors="ignore")).splitlines()
    return [line for line in lines if line.strip()][:2]


def _first_bytes(path: Path) -> bytes:
    suffix = path.suffix.lower()
    if suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if len(names) != 1:
                msg = f"expected one file in the archive, got {len(names)}"
                raise ValueError(msg)
            return archive.read(names[0])[:_HEAD]
    with _OPENERS.get(suffix, open)(path, "rb") as file:
        return file.read(_HEAD)


def _separator(head: list[str], path: Path) -> str:
    """Find what splits the first lines, best into equally many fields.

    Where commas and something else do, the commas are decimal.
    """
    counts = {mark: [line.count(mark) for line in head] for mark in _SEPARATORS}
    found = [mark for mark in _SEPARATORS if head and counts[mark][0]]
    if not found:
        columns = {len(line.split()) for line in head}
        return r"\s+" if len(columns) == 1 and max(columns) > 1 else ","
    tabbed = {".tsv", ".tab"} & {suffix.lower() for suffix in path.suffixes}
    return max(
        found,
        key=lambda mark: (
            len(set(counts[mark])) == 1,
            bool(tabbed) and mark == "\t",
            mark != ",",
            counts[mark][0],
        ),
    )


def _is_headless(head: list[str], separator: str) -> bool:
    """Whether the first line is a row of numbers, which 0, 1, 2, ... are not."""
    if not head:
        return False
    fields = head[0].split() if separator == r"\s+" else head[0].split(separator)
    fields = [field.strip() for field in fields]
    numbered = fields == [str(k) for k in range(len(fields))]
    return all(map(_NUMBER.fullmatch, fields)) and not numbered


def _has_decimal_commas(frame: Any) -> bool:
    """Whether columns that were read as text are numbers with commas for points."""
    texts = [_commas(frame[name]) for name in frame if frame[name].dtype.kind not in "iufb"]
    texts = [text for text in texts if text]
    floats = [frame[name].dropna() for name in frame if frame[name].dtype.kind == "f"]
    points = any((column % 1 != 0).any() for column in floats)
    thousands = all(_THOUSANDS.fullmatch(value) for text in texts for value in text)
    return bool(texts) and not points and not thousands


def _commas(column: Any) -> list[str]:
    """Values of a column, if all are numbers and some have commas."""
    values = column.dropna().tolist()
    if not all(isinstance(value, str) and _COMMA.fullmatch(value) for value in values):
        return []
    return values if any("," in value for value in values) else []


def _without_nameless(frame: Any) -> Any:
    """Leave out columns without a name that are empty, or a first one that numbers the rows."""
    nameless = [name for name in frame if name.startswith("Unnamed: ")]
    empty = [name for name in nameless if frame[name].isna().all()]
    numbers = [
        name
        for name in nameless
        if name == "Unnamed: 0" and frame[name].dtype.kind == "i" and frame[name].is_unique
    ]
    if numbers:
        warn("the first column has no name and another number in every row: it is left out")
    return frame.drop(columns=empty + numbers)
