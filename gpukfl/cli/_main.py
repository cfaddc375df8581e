"""The entry point of the command line, and its exit status."""

from __future__ import annotations

import functools
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from gpukfl.cli._files import exit_on_sigterm
from gpukfl.core._streams import close_output, flush_output, open_standard_files, try_write_line

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
        from gpukfl.cli._options import make_parser  # seconds, in which Ctrl-C may come too

        arguments = sys.argv[1:] if arguments is None else list(arguments)
        options = make_parser().parse_args(arguments)
        options.command = shlex.join(["gpukfl", *map(str, arguments)])
        with exit_on_sigterm(), warnings.catch_warnings():
            warnings.showwarning = functools.partial(_show_warning, set())
            status = options.run(options)
            flush_output()
            return status
    except BrokenPipeError:  # whoever reads the output has had enough
        close_output()
        return 141
    except _EXPECTED as error:
        try_write_line(f"gpukfl: {' '.join(_error_text(error).split())}", sys.stderr)
        return 2
    except KeyboardInterrupt as error:
        try_write_line(f"gpukfl: interrupted; {str(error) or 'nothing was written'}", sys.stderr)
        return 130


def _error_text(error: Exception) -> str:
    """Return the message of an error, without the errno of a file error."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.strerror}: {error.filename}"
    return str(error)


def _show_warning(said: set[str], message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning that was not printed before."""
    if str(message) not in said:
        try_write_line(f"gpukfl: warning: {message}", sys.stderr)
    said.add(str(message))
