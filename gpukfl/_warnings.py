"""Warnings that point at the line of the caller, however deep in the package they arise."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from contextvars import ContextVar
from types import FrameType

_OURS = __name__.split(".", maxsplit=1)[0]
# What may lie between the caller and us: cross-validation, its workers, decorators
_BETWEEN = {
    _OURS,
    "concurrent",
    "contextlib",
    "functools",
    "joblib",
    "multiprocessing",
    "sklearn",
    "threading",
}
_collected: ContextVar[list[str] | None] = ContextVar("gpukfl_collected", default=None)


@contextlib.contextmanager
def collected() -> Iterator[list[str]]:
    """Keep our warnings in a list, in place of giving them; of this thread only."""
    found: list[str] = []
    before = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(before)


def warn(message: str, category: type[Warning] = UserWarning, /) -> None:
    """Warn at the innermost line that is neither ours nor of what calls us on someone's behalf.

    In a worker process no such line is left: there the warning is at whatever called the package.
    """
    kept = _collected.get()
    if kept is not None:
        kept.append(message)
        return
    packages = [_package_of(frame) for frame in _frames_above(sys._getframe())]
    outside = [k for k, package in enumerate(packages) if package not in _BETWEEN]
    strangers = [k for k, package in enumerate(packages) if package != _OURS]
    level = (outside or strangers or [0])[0]
    warnings.warn(message, category, stacklevel=level + 2)  # 1 is this function, 2 its caller


def _frames_above(frame: FrameType) -> list[FrameType]:
    frames = []
    while frame.f_back is not None:
        frame = frame.f_back
        frames.append(frame)
    return frames


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".", maxsplit=1)[0]
