"""Signals that end a command: what they let finish, and what they let it keep."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_BEYOND = 128  # exit status of a command that a signal ended, less the signal's number
INTERRUPTED = _BEYOND + signal.SIGINT


@contextlib.contextmanager
def ends_at_sigterm() -> Iterator[None]:
    """Let SIGTERM end the process as an error does, so that half a file is taken away."""
    with _handled(signal.SIGTERM, signal.SIG_DFL, _end):
        yield


def _end(number: int, _: Any) -> None:
    raise SystemExit(_BEYOND + number)


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


@dataclass
class Stop:
    """What stopped the work.

    Attributes
    ----------
    status : int
        Exit status that shells expect of it; 0 where nothing did.
    """

    status: int = 0


@contextlib.contextmanager
def stopped_by_signals() -> Iterator[Stop]:
    """Let SIGTERM interrupt what runs in here as Ctrl-C does, and note which of them did."""
    stop = Stop()

    def strike(number: int, _: Any) -> None:
        stop.status = _BEYOND + number
        raise KeyboardInterrupt

    with _handled(signal.SIGINT, None, strike), _handled(signal.SIGTERM, None, strike):
        yield stop


@contextlib.contextmanager
def _handled(number: int, usual: Any, handler: Any) -> Iterator[None]:
    """Handle a signal in the main thread, where nobody but `usual` does; None: whoever does."""
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
