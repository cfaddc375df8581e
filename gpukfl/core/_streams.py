"""Output to terminals and files, which may be closed or missing."""

from __future__ import annotations

import contextlib
import os
import sys
import unicodedata
from typing import Any

_PLAIN = str.maketrans({"λ": "lambda", "σ": "sigma", "±": "+/-", "×": "x", "–": "-", "≤": "<="})


def is_terminal(stream: Any, /) -> bool:
    """Whether a stream is a terminal; False for closed streams and None."""
    try:
        return bool(stream.isatty())
    except (AttributeError, OSError, ValueError):
        return False


def try_write_line(text: str, stream: Any, /) -> None:
    """Write a line; ignore a stream that is closed, full or None."""
    with contextlib.suppress(OSError, ValueError):
        write_line(text, stream)


def write_line(text: str, stream: Any, /) -> None:
    """Write a line in the stream's encoding; ignore a stream that is None.

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
    """Write lines to standard output and flush it; ignore an output that is closed.

    Raises
    ------
    BrokenPipeError
        If the reader of the output has closed it.
    OSError
        If the output is full, or was closed.
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
    """Flush standard output, if there is one."""
    if hasattr(sys.stdout, "flush"):
        sys.stdout.flush()


def close_output() -> None:
    """Discard pending output, so that Python's exit does not fail."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_standard_files() -> None:
    """Open closed standard files on the null device.

    Otherwise a model file could get the number of standard output, and with it the output of
    libraries.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


class QuietStream:
    """A stream for a progress line, which ignores errors."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text; ignore errors."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush; ignore errors."""
        with contextlib.suppress(AttributeError, OSError, ValueError):
            self._stream.flush()

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return is_terminal(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_stream"], name)
