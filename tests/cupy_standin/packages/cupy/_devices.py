"""Two devices, of which one is current, and what their errors are called."""

from __future__ import annotations

import os
import threading
from typing import Any

from cupy._counts import waited

N_DEVICES = 2
_state = {"used": False, "forked": False}
_local = threading.local()  # each thread has a current device, at first device 0


class CUDARuntimeError(RuntimeError):
    """What calls of the CUDA runtime raise."""


CUDARuntimeError.__module__ = "cupy_backends.cuda.api.runtime"


def _after_fork() -> None:
    _state["forked"] = _state["used"]


os.register_at_fork(after_in_child=_after_fork)


def use_cuda() -> None:
    """Take note that CUDA is used, which a child forked afterwards cannot do."""
    if _state["forked"]:
        msg = "cudaErrorInitializationError: initialization error"
        raise CUDARuntimeError(msg)
    _state["used"] = True


def current() -> int:
    """Number of the current device."""
    return getattr(_local, "current", 0)


class Device:
    """A device, and the context in which it is the current one."""

    def __init__(self, device: Any = None) -> None:
        self.id = current() if device is None else int(device)
        if not 0 <= self.id < N_DEVICES:
            msg = "cudaErrorInvalidDevice: invalid device ordinal"
            raise CUDARuntimeError(msg)
        self._before: list[int] = []

    def __enter__(self) -> Device:
        self._before.append(current())
        _local.current = self.id
        return self

    def __exit__(self, *_: object) -> None:
        _local.current = self._before.pop()

    def use(self) -> None:
        """Make it the current device."""
        _local.current = self.id

    def synchronize(self) -> None:
        """Wait for the device."""
        waited("Device.synchronize")

    @property
    def compute_capability(self) -> str:
        """That of an H100."""
        return "90"

    @property
    def mem_info(self) -> tuple[int, int]:
        """Bytes that are free, and all."""
        from cupy._memory import MEMORY

        return MEMORY.free(self.id), MEMORY.limit

    def __int__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<CUDA Device {self.id}>"


class Stream:
    """A stream; work is done at once, in whichever it is launched."""

    null: Stream

    def __init__(self, *_: Any, **__: Any) -> None:
        self.ptr = 0

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        """Wait for the device."""
        waited("Stream.synchronize")


Stream.null = Stream()
Device.__module__ = "cupy.cuda.device"
Stream.__module__ = "cupy.cuda.stream"
