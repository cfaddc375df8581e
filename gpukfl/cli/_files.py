"""Files that a command writes: looked at before the work, and written without losing it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def check_writable(option: str, path: str | None, /, *, source: str) -> None:
    """Raise ValueError where `path` cannot be written, or is the file `source` that is read."""
    if path is None:
        return
    file = Path(path)
    if file.is_dir():
        msg = f"expected a file for {option}, got the folder {path}"
        raise ValueError(msg)
    if not file.parent.is_dir():
        msg = f"expected a file in a folder that exists for {option}, got {path}"
        raise ValueError(msg)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        msg = f"expected a file that may be written for {option}, got {path}"
        raise ValueError(msg)
    if file.exists() and Path(source).exists() and file.samefile(source):
        msg = f"expected another file than the one that is read for {option}, got {path}"
        raise ValueError(msg)


def try_to_write(what: str, path: str | None, write: Callable[[str], None], /) -> tuple[bool, str]:
    """Write to `path`, if one is given; returns whether that failed, and what to say of it."""
    if path is None:
        return False, ""
    try:
        write(path)
    except OSError as error:
        return True, f"{what} not written to {path}: {error.strerror or error}"
    return False, f"{what} written to {path}"
