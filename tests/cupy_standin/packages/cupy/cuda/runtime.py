"""Calls of the CUDA runtime that the library makes."""

from __future__ import annotations

from typing import Any

from cupy._counts import waited
from cupy._devices import N_DEVICES, CUDARuntimeError, Device, current, use_cuda
from cupy._memory import MEMORY

__all__ = ["CUDARuntimeError"]
_VERSION = 13000


def getDeviceCount() -> int:  # noqa: N802
    """Count the devices."""
    return N_DEVICES


def getDevice() -> int:  # noqa: N802
    """Give the number of the current device."""
    return current()


def setDevice(device: int) -> None:  # noqa: N802
    """Make a device the current one."""
    Device(device).use()


def deviceSynchronize() -> None:  # noqa: N802
    """Wait for the current device."""
    waited("deviceSynchronize")


def memGetInfo() -> tuple[int, int]:  # noqa: N802
    """Bytes that are free on the current device, and all."""
    use_cuda()
    return MEMORY.free(current()), MEMORY.limit


def driverGetVersion() -> int:  # noqa: N802
    """Version of CUDA that the driver knows."""
    return _VERSION


def runtimeGetVersion() -> int:  # noqa: N802
    """Version of CUDA's runtime."""
    return _VERSION


def getDeviceProperties(device: int) -> dict[str, Any]:  # noqa: N802
    """Some properties of an H100."""
    return {
        "name": b"stand-in",
        "multiProcessorCount": 132,
        "totalGlobalMem": MEMORY.limit,
        "sharedMemPerBlock": 48 * 1024,
        "major": 9,
        "minor": 0,
    }


# Of an H100, by their numbers in cudaDeviceAttr (driver_types.h): shared memory of a block, clock
# in kHz, multiprocessors, clock and width of the memory, compute capability, speed in float32 over
# that in float64
_ATTRIBUTES = {8: 49152, 13: 1980000, 16: 132, 36: 2619000, 37: 5120, 75: 9, 76: 0, 87: 2}


def deviceGetAttribute(attrib: int, device: int) -> int:  # noqa: N802
    """Give a property of a device."""
    return _ATTRIBUTES[attrib]
