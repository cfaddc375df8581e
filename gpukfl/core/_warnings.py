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
_MOST, _LONGEST = 20, 500  # warnings that a fit keeps, and characters of each


@dataclass(eq=False)
class _Listener:
    """A list that collects warnings, and whether it hides them from outer ones."""

    keeps: bool
    found: list[str] = field(default_factory=list)


_listening: ContextVar[tuple[_Listener, ...]] = ContextVar("gpukfl_listening", default=())


@contextlib.contextmanager
def _listen(*, keeps: bool) -> Iterator[list[str]]:
    one = _Listener(keeps)
    before = _listening.set((*_listening.get(), one))
    try:
        yield one.found
    finally:
        _listening.reset(before)


def collect_warnings() -> contextlib.AbstractContextManager[list[str]]:
    """Collect the warnings of this thread in a list instead of issuing them."""
    return _listen(keeps=True)


def keep_warnings(fit: Callable[P, Fitted], /) -> Callable[P, Fitted]:
    """Decorate a fit, so that the model also keeps its warnings in `warnings_`.

    At most 20 different ones, in the order in which they came.
    """

    @functools.wraps(fit)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> Fitted:
        with _listen(keeps=False) as found:
            fitted = fit(*args, **kwargs)
        fitted.warnings_ = _summarize(found)
        return fitted

    return wrapper


def _summarize(messages: list[str]) -> list[str]:
    """Return distinct messages, shortened, and how many more there are."""
    cut = [one if len(one) <= _LONGEST else f"{one[: _LONGEST - 1]}…" for one in messages]
    different = list(dict.fromkeys(cut))
    left = len(different) - _MOST
    return [*different[:_MOST], *([f"{left} more warnings"] if left > 0 else [])]


def record_warning(message: str, /) -> bool:
    """Record a message in the current fit; return whether it replaces a warning."""
    for one in reversed(_listening.get()):
        one.found.append(message)
        if one.keeps:
            return True
    return False


def warn(message: str, category: type[Warning] = UserWarning, /) -> None:
    """Warn at the innermost line outside this package and libraries that call it.

    In a worker process no such line is left: there the warning is at whatever called the package.
    """
    if record_warning(message):
        return
    packages = [_package_name(frame) for frame in _frames_above(sys._getframe())]
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


def _package_name(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).split(".", maxsplit=1)[0]
