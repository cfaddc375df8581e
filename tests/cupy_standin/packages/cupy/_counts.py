"""What a computation costs: launches, bytes, waits for the device, and uploads.

A launch is one kernel, or one call of a library that launches kernels. Bytes are those of the
operands and the result. Counted is what CuPy 14.2 would do; nothing here takes time.
"""

from __future__ import annotations

import collections
import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

_SOURCES = f"{os.sep}gpukfl{os.sep}"
_DEPTH = 3  # innermost lines of the library that a site names


@dataclass
class Counts:
    """The costs of what ran inside a ``with counted()``."""

    launches: int = 0
    moved: int = 0  # bytes read and written on the device
    waits: int = 0  # synchronisations
    uploads: int = 0
    uploaded: int = 0  # bytes from the host
    sites: collections.Counter[tuple[str, str, str]] | None = field(default=None, repr=False)


_open: list[Counts] = []


@contextlib.contextmanager
def counted(*, sites: bool = False) -> Iterator[Counts]:
    """Count what runs inside; with `sites`, also where in the library: slow."""
    counts = Counts(sites=collections.Counter() if sites else None)
    _open.append(counts)
    try:
        yield counts
    finally:
        _open.remove(counts)


def launched(name: str, moved: int, /, *, launches: int = 1) -> None:
    """Count kernels."""
    for counts in _open:
        counts.launches += launches
        counts.moved += moved
        _at_site(counts, "launch", name, launches)


def waited(name: str, /) -> None:
    """Count a wait of the host for the device."""
    for counts in _open:
        counts.waits += 1
        _at_site(counts, "wait", name, 1)


def uploaded(name: str, n_bytes: int, /) -> None:
    """Count a copy from the host."""
    for counts in _open:
        counts.uploads += 1
        counts.uploaded += n_bytes
        _at_site(counts, "upload", name, 1)


def _at_site(counts: Counts, kind: str, name: str, times: int) -> None:
    if counts.sites is None:
        return
    lines = []
    frame = sys._getframe(2)
    while frame is not None and len(lines) < _DEPTH:
        if _SOURCES in (path := frame.f_code.co_filename):
            lines.append(f"{path.split(_SOURCES)[-1]}:{frame.f_lineno}")
        frame = frame.f_back
    counts.sites[kind, name, " < ".join(lines)] += times
