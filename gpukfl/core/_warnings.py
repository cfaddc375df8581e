"""Warnings that point at the user's line, from any depth of the package."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
Fitted = TypeVar("Fitted", bound=Any)

_PACKAGE = __name__.split(".", maxsplit=1)[0]
# Packages between the user's line and a warning: cross-validation, its workers, decorators
_SKIPPED_PACKAGES = {
    _PACKAGE,
    "concurrent",
    "contextlib",
    "functools",
    "joblib",
    "multiprocessing",
    "sklearn",
    "threading",
}
_MAX_KEPT, _MAX_LENGTH = 20, 500  # warnings that a fit keeps, and characters of each


@dataclass(eq=False)
class _Listener:
    """A list of collected warnings, and whether they are hidden from outer listeners."""

    hides: bool
    found: list[str] = field(default_factory=list)


_listening: ContextVar[tuple[_Listener, ...]] = ContextVar("gpukfl_listening", default=())


@contextlib.contextmanager
def _listen(*, hides: bool) -> Iterator[list[str]]:
    listener = _Listener(hides)
    before = _listening.set((*_listening.get(), listener))
    try:
        yield listener.found
    finally:
        _listening.reset(before)


def collect_warnings() -> contextlib.AbstractContextManager[list[str]]:
    """Collect the warnings of this thread in a list instead of issuing them."""
    return _listen(hides=True)


def keep_warnings(fit: Callable[P, Fitted], /) -> Callable[P, Fitted]:
    """Decorate a fit, so that `warnings_` of the model keeps its first 20 distinct warnings."""

    @functools.wraps(fit)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Fitted:
        with _listen(hides=False) as found:
            fitted = fit(*args, **kwargs)
        fitted.warnings_ = _summarize(found)
        return fitted

    return wrapper


def _summarize(messages: list[str]) -> list[str]:
    """Return distinct messages, shortened, and the number of others."""
    cut = [one if len(one) <= _MAX_LENGTH else f"{one[: _MAX_LENGTH - 1]}…" for one in messages]
    distinct = list(dict.fromkeys(cut))
    left = len(distinct) - _MAX_KEPT
    return [*distinct[:_MAX_KEPT], *([f"{left} more warnings"] if left > 0 else [])]


def record_warning(message: str, /) -> bool:
    """Add a message to the current listeners; return whether one hides it from the user."""
    for listener in reversed(_listening.get()):
        listener.found.append(message)
        if listener.hides:
            return True
    return False


def warn(message: str, category: type[Warning] = UserWarning, /) -> None:
    """Warn at the innermost line outside this package and libraries that call it.

    A worker process has no such line. There the warning is at the caller of the package.
    """
    if record_warning(message):
        return
    packages = [_package_name(frame) for frame in _frames_above(sys._getframe())]
    outside = [k for k, package in enumerate(packages) if package not in _SKIPPED_PACKAGES]
    callers = [k for k, package in enumerate(packages) if package != _PACKAGE]
    level = (outside or callers or [0])[0]
    warnings.warn(message, category, stacklevel=level + 2)  # 1 is this function, 2 its caller


def _frames_above(frame: FrameType) -> list[FrameType]:
    frames = []
    while frame.f_back is not None:
        frame = frame.f_back
        frames.append(frame)
    return frames


def _package_name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".", maxsplit=1)[0]
