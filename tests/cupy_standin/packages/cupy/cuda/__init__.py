"""Devices, streams, memory and the runtime."""

from cupy._devices import Device, Stream
from cupy._memory import OutOfMemoryError
from cupy.cuda import device, memory, runtime

__all__ = [
    "Device",
    "ExternalStream",
    "OutOfMemoryError",
    "Stream",
    "device",
    "get_current_stream",
    "is_available",
    "memory",
    "runtime",
]
ExternalStream = Stream


def is_available() -> bool:
    """Whether there is a GPU: there is."""
    return True


def get_current_stream() -> Stream:
    """Give the only stream."""
    return Stream.null
