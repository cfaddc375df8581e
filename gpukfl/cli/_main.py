"""What runs a command, and how it ends."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from gpukfl.cli._files import ends_at_sigterm
from gpukfl.core._streams import close_output, flush_output, open_standard_files, say

_EXPECTED = (
    ValueError,
    TypeError,
    RuntimeError,
    ImportError,
    OSError,
    ArithmeticError,
    MemoryError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    open_standard_files()
    try:
        from gpukfl.cli._options import parser  # seconds, in which Ctrl-C may come too

        options = parser().parse_args(arguments)
        with ends_at_sigterm(), warnings.catch_warnings():
            warnings.showwarning = functools.partial(_show_warning, set())
            status = options.run(options)
            flush_output()
            return status
    except BrokenPipeError:  # whoever reads the output has had enough
        close_output()
        return 141
    except _EXPECTED as error:
        say(f"gpukfl: {' '.join(_text(error).split())}", sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        say(f"gpukfl: interrupted; {str(error) or 'nothing was written'}", sys.stderr)
        return 130


def _text(error: Exception) -> str:
    """Say what went wrong, of files without the number that the system has for it."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error)


def _show_warning(said: set[str], message: Warning | str, *_: Any, **__: Any) -> None:
    """Print what has not been said before, of another file or fit."""
    if str(message) not in said:
        say(f"gpukfl: warning: {message}", sys.stderr)
    said.add(str(message))
