"""The encoding of a text: by its mark, UTF-8 where that fits, and else what is said."""

from __future__ import annotations

import codecs
from collections.abc import Iterator

from gpukfl.core._warnings import warn
from gpukfl.datasets._source import Source

_CHUNK = 1 << 20  # bytes at a time
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before that of UTF-16, which it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NAMES = {
    "cp1252": "Windows-1252",
    "latin-1": "Latin-1",
    "utf-16-le": "UTF-16",
    "utf-16-be": "UTF-16",
}
_MOSTLY = 0.4  # of every other byte that is 0 where each letter has two


def detect_encoding(source: Source, /) -> str:
    """Name the codec of the text, and warn where its bytes leave that in doubt.

    Raises
    ------
    ValueError
        If it holds bytes that are no text.
    """
    head = next(_chunks(source), b"")
    marked = next((codec for mark, codec in _MARKS.items() if head.startswith(mark)), None)
    if marked is not None:
        if _can_decode(source, marked):
            return marked
        msg = f"it begins with the mark of {marked.upper()}, and is none"
        raise ValueError(msg)
    wide = [codec for codec in ("utf-16-le", "utf-16-be") if _is_wide(head, codec)]
    found = next(
        codec for codec in [*wide, "utf-8", "cp1252", "latin-1"] if _can_decode(source, codec)
    )
    if not wide:
        _check_text(source)
    if found in _NAMES:
        warn(f"{source.name} is no UTF-8: it is read as {_NAMES[found]}")
    return found


def _is_wide(head: bytes, codec: str) -> bool:
    """Whether the upper bytes of most letters are 0, as in a text of two bytes a letter."""
    upper, lower = head[1::2], head[::2]
    if codec == "utf-16-be":
        upper, lower = lower, upper
    return upper.count(0) > _MOSTLY * len(upper) and lower.count(0) == 0


def _can_decode(source: Source, codec: str) -> bool:
    decoder = codecs.getincrementaldecoder(codec)()
    try:
        for chunk in _chunks(source):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeError:
        return False
    return True


def _check_text(source: Source) -> None:
    line = 1
    for chunk in _chunks(source):
        place = chunk.find(b"\0")
        line += chunk.count(b"\n", 0, len(chunk) if place < 0 else place)
        if place >= 0:
            msg = f"line {line} holds a NUL byte: it is no text"
            raise ValueError(msg)


def _chunks(source: Source) -> Iterator[bytes]:
    with source.open() as file:
        while chunk := file.read(_CHUNK):
            yield chunk
