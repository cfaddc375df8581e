"""Signals that end a command: both let it keep what is done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

_BEYOND = 128  # exit status of a command that a signal ended, less the signal's number
INTERRUPTED = _BEYOND + signal.SIGINT


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
    """Let SIGTERM interrupt what runs in here as Ctrl-C does, and note which of them did.

    Off the main thread, where Python allows no handlers, nothing is changed.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def strike(number: int, _: FrameType | None) -> None:
        stop.status = _BEYOND + number
        raise KeyboardInterrupt

    before = {one: signal.signal(one, strike) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
