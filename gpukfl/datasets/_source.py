"""Where a table's bytes come from: a file or standard input, plain or compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

STANDARD_INPUT = "-"

_Place = Callable[[], Path | io.BytesIO]


@dataclass(frozen=True)
class Source:
    """Bytes that can be read from the beginning any number of times.

    Attributes
    ----------
    name : str
        What messages call it.
    suffix : str
        Of the table's format, such as ".csv"; "" where there is none.
    open : callable
        Opens the bytes, no longer compressed.
    """

    name: str
    suffix: str
    open: Callable[[], IO[bytes]]

    @classmethod
    def of(cls, path: str, /) -> Source:
        """Look at the file `path`, or read a pipe, or standard input for ``"-"``, to its end.

        Names say what a file is. Where they do not, as on standard input, its first bytes do.

        Raises
        ------
        FileNotFoundError
            If there is none.
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


def _open_source(name: str, suffixes: list[str], place: _Place) -> Source:
    *rest, last = ["", *suffixes]
    if last in _PACKED:
        return Source(name, rest[-1] if rest else "", lambda: _PACKED[last](place()))
    if last in _BINARY:
        return Source(name, last, lambda: _open_binary(place()))
    with _open_binary(place()) as file:
        begin = file.read(8)
    kind = next((kind for magic, kind in _MAGIC.items() if begin.startswith(magic)), "")
    kind = _zip_suffix(place()) if kind == ".zip" else kind
    if kind in _PACKED:
        return Source(name, last, lambda: _PACKED[kind](place()))
    return Source(name, kind or last, lambda: _open_binary(place()))


def _open_binary(place: Path | io.BytesIO) -> IO[bytes]:
    return place.open("rb") if isinstance(place, Path) else place


def _zip_suffix(place: Path | io.BytesIO) -> str:
    """Return the suffix of a zip: workbooks and arrays are archives themselves."""
    with zipfile.ZipFile(place) as archive:
        names = archive.namelist()
    if "xl/workbook.xml" in names:
        return ".xlsx"
    return ".npz" if names and all(name.endswith(".npy") for name in names) else ".zip"


def _open_zipped(place: Path | io.BytesIO) -> IO[bytes]:
    with zipfile.ZipFile(place) as archive:
        names = [name for name in archive.namelist() if not name.startswith("__MACOSX/")]
        if len(names) != 1:
            msg = f"expected one file in the archive, got {len(names)}"
            raise ValueError(msg)
        return archive.open(names[0])


_BINARY = (".npz", ".xlsx", ".xlsm", ".parquet", ".pq", ".feather")
_PACKED: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zip": _open_zipped,
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
