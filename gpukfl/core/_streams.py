"""What is written for people to read: a stream that nobody reads, or that is gone, ends nothing."""

from __future__ import annotations

import contextlib
import os
import sys
import unicodedata
from typing import Any

_PLAIN = str.maketrans({"λ": "lambda", "σ": "sigma", "±": "+/-", "×": "x", "–": "-", "≤": "<="})


def is_terminal(stream: Any, /) -> bool:
    """Whether a stream is a terminal; one that is closed, or None as in services, is none."""
    try:
        return bool(stream.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def try_write_line(text: str, stream: Any, /) -> None:
    """Write a line, or nothing where the stream is closed, full or None."""
    with contextlib.suppress(OSError, ValueError):
        write_line(text, stream)


def write_line(text: str, stream: Any, /) -> None:
    """Write a line, in letters that the stream has; nothing where it is None.

    Raises
    ------
    OSError, ValueError
        If the stream is closed, or full.
    """
    if stream is None:
        return
    try:
        stream.write(f"{text}\n")
    except UnicodeEncodeError:
        code = getattr(stream, "encoding", None) or "ascii"
        letters = unicodedata.normalize("NFKD", text.translate(_PLAIN))  # R² is R2
        stream.write(f"{letters.encode(code, 'replace').decode(code)}\n")


def print_output(text: str, /) -> None:
    """Write lines to standard output at once; to nobody where it was closed from the start.

    Raises
    ------
    BrokenPipeError
        If whoever reads it has had enough.
    OSError
        If it is full, or closed since.
    """
    try:
        write_line(text, sys.stdout)
        flush_output()
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as error:
        close_output()
        why = getattr(error, "strerror", None) or error
        msg = f"standard output cannot be written to: {why}"
        raise OSError(msg) from error


def flush_output() -> None:
    """Write what standard output holds back, where there is one."""
    if hasattr(sys.stdout, "flush"):
        sys.stdout.flush()


def close_output() -> None:
    """Let what is left for standard output go nowhere, so that the end of Python does not fail."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_standard_files() -> None:
    """Open standard files that are closed as empty ones: files made later would get their numbers.

    What libraries print would then be written into a model.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class QuietStream:
    """A stream for a live line: what cannot be written to it is left out."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, as far as that is possible."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush, as far as that is possible."""
        with contextlib.suppress(AttributeError, OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether somebody looks on."""
        return is_terminal(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_stream"], name)
