"""Files that are written atomically."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def atomic_write(path: str | Path, /) -> Iterator[BinaryIO]:
    """Open a temporary file that becomes `path` if the block ends without an error.

    Until then an existing file stays, also if the process is killed. On Linux the temporary file
    has no name, so that nothing is left behind. If `path` is a link, its target is replaced. The
    new file has the mode of the old one.

    Raises
    ------
    FileNotFoundError
        If the folder does not exist.
    PermissionError
        If the folder or an existing file is read-only.
    OSError
        If `path` is no file, or cannot be written; no temporary file is left behind.
    """
    target = Path(path).resolve()
    mode = _file_mode(target)
    beside = target.with_name(f".gpukfl-{secrets.token_hex(8)}.part")
    file = _open_unnamed(target.parent)
    named = file is None
    try:
        with file or beside.open("x+b") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
            if not named:
                _link_name(out, beside)
        if mode is not None:
            beside.chmod(mode)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def check_can_write(path: str | Path, /) -> None:
    """Check that a file can be written, before long work whose result it will hold.

    Raises
    ------
    OSError
        If its folder does not exist, or if it is a folder or read-only.
    """
    file = Path(path).resolve()
    if not file.parent.is_dir():
        msg = f"expected a file in a folder that exists, got {path}"
        raise FileNotFoundError(errno.ENOENT, msg)
    if file.is_dir():
        msg = f"expected a file, got the folder {path}"
        raise IsADirectoryError(errno.EISDIR, msg)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        msg = f"expected a writable file, got {path}"
        raise PermissionError(errno.EACCES, msg)


def _open_unnamed(folder: Path) -> BinaryIO | None:
    """Open a file without a name, which vanishes with the process; None if unsupported."""
    flag = getattr(os, "O_TMPFILE", None)
    if flag is None or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.fdopen(os.open(folder, flag | os.O_RDWR, 0o666), "w+b")
    except OSError:  # the file system does not support such files
        return None


def _link_name(file: BinaryIO, path: Path) -> None:
    """Give an unnamed file a name; copy it if the system cannot link it."""
    descriptor = file.fileno()
    try:
        # `src_dir_fd` has no effect on a full path, but makes `os.link` follow the link in /proc
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor, follow_symlinks=True)
    except OSError:
        file.seek(0)
        with path.open("xb") as named:
            shutil.copyfileobj(file, named)
            named.flush()
            os.fsync(named.fileno())


def _file_mode(target: Path) -> int | None:
    """Return the permissions of an existing file, or None."""
    if not target.parent.is_dir():
        msg = f"expected an existing folder to write {target.name} to, got"
        raise FileNotFoundError(errno.ENOENT, msg, str(target.parent))
    if not os.access(target.parent, os.W_OK | os.X_OK):
        msg = f"expected a writable folder for {target.name}, got a read-only one"
        raise PermissionError(errno.EACCES, msg, str(target.parent))
    if not target.exists():
        return None
    if not target.is_file():
        kind = errno.EISDIR if target.is_dir() else errno.EINVAL
        raise OSError(kind, "expected the name of a file, got something else", str(target))
    if not os.access(target, os.W_OK):
        msg = "expected a writable file, got a read-only one"
        raise PermissionError(errno.EACCES, msg, str(target))
    return stat.S_IMODE(target.stat().st_mode)


def _sync_folder(folder: Path) -> None:
    """Flush the folder to disk, where the system supports it."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
