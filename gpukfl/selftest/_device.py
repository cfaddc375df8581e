"""The current CUDA device: what it is, what runs it, and what its data sheet promises."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
from typing import Any

from gpukfl._cuda import Attribute, attribute
from gpukfl._version import __version__
from gpukfl.selftest._model import Card

# Cores for float32 of a multiprocessor, by compute capability; 128 of those not named
_CORES = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}


def facts() -> dict[str, Any]:
    """Name what results may depend on: device, driver, libraries and kernels."""
    import cupy

    runtime = cupy.cuda.runtime
    number = runtime.getDevice()
    name = runtime.getDeviceProperties(number)["name"]
    return {
        "gpu": name.decode() if isinstance(name, bytes) else str(name),
        "compute_capability": cupy.cuda.Device(number).compute_capability,
        "driver": runtime.driverGetVersion(),
        "runtime": runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "gpukfl": __version__,
        "kernels": kernels_digest(),
    }


@functools.cache
def kernels_digest() -> str:
    """Digest of the sources of all kernels."""
    folder = importlib.resources.files("gpukfl._accel")
    texts = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(".cu")}
    return hashlib.sha256(b"".join(texts[name] for name in sorted(texts))).hexdigest()[:16]


def card() -> Card:
    """Describe the current device by its own account."""
    import cupy

    device = cupy.cuda.runtime.getDevice()
    given = {which: attribute(which, device) for which in Attribute}
    capability = given[Attribute.MAJOR], given[Attribute.MINOR]
    cores = _CORES.get(capability, 128) * given[Attribute.MULTIPROCESSORS]
    flops = 2e3 * given[Attribute.CLOCK_KHZ] * cores  # a fused product and sum a core and cycle
    return Card(
        facts()["gpu"],
        bandwidth=2e3 * given[Attribute.MEMORY_CLOCK_KHZ] * given[Attribute.MEMORY_BITS] / 8,
        flops32=flops,
        flops64=flops / max(given[Attribute.SINGLE_TO_DOUBLE], 1),
    )


def memory() -> dict[str, int]:
    """Bytes of the device that are free, and all."""
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return {"free": int(free), "total": int(total)}
