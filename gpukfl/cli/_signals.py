"""What ends a command from outside, and what is finished before it ends."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def ends_at_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process as an error does, so that half a file is taken away."""
    with _handled(signal.SIGTERM, signal.SIG_DFL, _end):
        yield


def _end(number: int, _: Any) -> None:
    raise SystemExit(128 + number)


@contextlib.contextmanager
def finished_before_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C wait until a file is written; a second one does not wait.

    Raises
    ------
    KeyboardInterrupt
        At the end, if it came.
    """
    came = []

    def note(number: int, frame: Any) -> None:
        came.append(number)
        if len(came) > 1:
            signal.default_int_handler(number, frame)

    with _handled(signal.SIGINT, signal.default_int_handler, note):
        yield
    if came:
        raise KeyboardInterrupt


@contextlib.contextmanager
def _handled(number: int, usual: Any, handler: Any) -> Iterator[None]:
    """Handle a signal in the main thread, where nobody else does."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(number) is not usual:
        yield
        return
    signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, usual)
