"""Files that a command reads and writes, and the signals that end it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gpukfl.core._files import atomic_write

# --------------------------------------------------------------------------------- signals

# Signals that end a command: what they let finish, and what they let it keep.


_BEYOND = 128  # exit status of a command that a signal ended, less the signal's number
INTERRUPTED = _BEYOND + signal.SIGINT


@contextlib.contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise an error, so that incomplete files are removed."""
    with _handle_signal(signal.SIGTERM, signal.SIG_DFL, _exit):
        yield


def _exit(number: int, _: Any) -> None:
    raise SystemExit(_BEYOND + number)


@contextlib.contextmanager
def delay_interrupt() -> Iterator[None]:
    """Let Ctrl-C wait until a file is written, and raise it then; a second one does not wait."""
    came = []

    def note(number: int, frame: Any) -> None:
        came.append(number)
        if len(came) > 1:
            signal.default_int_handler(number, frame)

    with _handle_signal(signal.SIGINT, signal.default_int_handler, note):
        yield
    if came:
        raise KeyboardInterrupt


@dataclass
class Stop:
    """The signal that stopped the work."""

    status: int = 0  # that shells expect of it; 0 where nothing did


@contextlib.contextmanager
def interrupt_on_signals() -> Iterator[Stop]:
    """Let SIGTERM interrupt the block as Ctrl-C does; record which signal came."""
    stop = Stop()

    def strike(number: int, _: Any) -> None:
        stop.status = _BEYOND + number
        raise KeyboardInterrupt

    with _handle_signal(signal.SIGINT, None, strike), _handle_signal(signal.SIGTERM, None, strike):
        yield stop


@contextlib.contextmanager
def _handle_signal(number: int, usual: Any, handler: Any) -> Iterator[None]:
    """Handle a signal in the main thread, if its handler is `usual` or `usual` is None."""
    before = signal.getsignal(number)
    here = threading.current_thread() is threading.main_thread()
    if not here or usual not in (None, before):
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


# ----------------------------------------------------------------------------------- files

# Files that a command reads and writes: looked at before the work, written without losing it.


PARQUET = (".parquet", ".pq")
_TEXT = tuple(
    f".{kind}{packed}" for kind in ("csv", "tsv") for packed in ("", ".gz", ".bz2", ".xz")
)
TABLES = (*PARQUET, ".feather", ".arrow", *_TEXT)  # of what lies in a folder


def expand_files(given: Sequence[str], endings: tuple[str, ...], /, *, what: str) -> list[str]:
    """Return the given files, and sorted files of folders with the suffix of `what`."""
    files = list[str]()
    for path in map(Path, given):
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [one for one in inside if one.name.lower().endswith(endings)]
        if path.is_dir() and not found:
            held = ", ".join(sorted({one.suffix or one.name for one in inside})) or "nothing"
            msg = f"expected {what} in the folder {path} ({', '.join(endings)}), got {held}"
            raise ValueError(msg)
        files += [str(one) for one in found] if path.is_dir() else [str(path)]
    return files


def check_writable(option: str, path: str | None, /, *, source: str) -> None:
    """Raise ValueError if `path` cannot be written, or is the input file `source`."""
    if path is None:
        return
    file, msg = Path(path), ""
    if file.is_dir():
        msg = f"expected a file for {option}, got the folder {path}"
    elif not file.parent.is_dir():
        msg = f"expected an existing folder for the file of {option}, got {path}"
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        msg = f"expected a writable file for {option}, got {path}"
    elif file.exists() and Path(source).exists() and file.samefile(source):
        msg = f"expected {option} to differ from the file that is read, got {path}"
    if msg:
        raise ValueError(msg)


def try_to_write(what: str, path: str | None, write: Callable[[str], None], /) -> tuple[bool, str]:
    """Write to `path`, if one is given; return whether that failed, and a message."""
    if path is None:
        return False, ""
    before = _file_identity(path)
    try:
        with delay_interrupt():
            write(path)
    except OSError as error:
        return True, f"{what} not written to {path}: {error.strerror or error}"
    except KeyboardInterrupt as error:
        done = "written" if _file_identity(path) != before else "not written"
        msg = f"{what} {done} to {path}"
        raise KeyboardInterrupt(msg) from error
    return False, f"{what} written to {path}"


def write_whole(path: str, write: Callable[[BinaryIO], object], /) -> None:
    """Write a file atomically; write devices and pipes directly."""
    target = Path(path)
    with (
        target.open("wb")
        if target.exists() and not target.is_file()
        else atomic_write(path) as file
    ):
        write(file)


def _file_identity(path: str) -> tuple[int, int] | None:
    """Return inode and modification time of a file, which change when it is replaced."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
