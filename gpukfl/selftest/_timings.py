"""Timings of a device on the primitives of fits, with a performance model."""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np

from gpukfl._accel import cuda, cuda_distances
from gpukfl._version import __version__
from gpukfl.core._array import Namespace, to_host
from gpukfl.core._cuda import Attribute, device_attribute

# ----------------------------------------------------------------------------------- model

# A model of time on a GPU, from bytes, operations, calls and waits: predictions, not measurements.
#
# The host hands over one call after the other while the device works them off, so that a
# computation takes what the slower of the two takes, and the waits on top. Reads at random places
# cost a sector of 32 bytes, however little is used of it.


SECTOR = 32  # bytes
# What a call costs in CuPy before the device has it, and a wait until the host goes on
_CALL, _WAIT = 8e-6, 30e-6
_SHARE = 0.8  # of the bandwidth on the data sheet that long copies reach


@dataclass(frozen=True)
class Work:
    """The work of a computation: launches, bytes and operations.

    Attributes
    ----------
    moved : float
        Bytes that the device reads and writes.
    flops32, flops64 : float
        Operations in either precision.
    calls, waits : float
        Calls of CuPy, and times that the host waits for the device.
    uploaded : float
        Bytes between host and device.
    """

    moved: float = 0.0
    flops32: float = 0.0
    flops64: float = 0.0
    calls: float = 0.0
    waits: float = 0.0
    uploaded: float = 0.0

    def __add__(self, other: Work) -> Work:
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Work(*(a + b for a, b in pairs))

    def repeat(self, times: float, /) -> Work:
        """Return the work of so many repetitions."""
        return Work(*(times * a for a in astuple(self)))


@dataclass(frozen=True)
class Card:
    """The properties of a GPU from its data sheet, and the costs of its host.

    Attributes
    ----------
    name : str
        Of the GPU.
    bandwidth : float
        Of its memory, bytes a second.
    flops32, flops64 : float
        Operations a second in either precision.
    link : float
        Bytes a second between host and device, from ordinary memory.
    call, wait : float
        Seconds of a call and of a wait.
    """

    name: str
    bandwidth: float
    flops32: float
    flops64: float
    link: float = 6e9
    call: float = _CALL
    wait: float = _WAIT

    def seconds(self, work: Work, /) -> float:
        """Predict the time of a computation."""
        host, device = self.parts(work)
        return max(host, device) + work.waits * self.wait + work.uploaded / self.link

    def arithmetic_share(self, work: Work, /) -> float:
        """Return the predicted ratio of arithmetic to memory time."""
        return self._arithmetic(work) * _SHARE * self.bandwidth / work.moved

    def parts(self, work: Work, /) -> tuple[float, float]:
        """Return the predicted seconds of host and device."""
        copies = work.moved / (_SHARE * self.bandwidth)
        return self.call * work.calls, max(copies, self._arithmetic(work))

    def _arithmetic(self, work: Work) -> float:
        return work.flops32 / self.flops32 + work.flops64 / self.flops64


# ---------------------------------------------------------------------------------- device

# The current CUDA device: what it is, what runs it, and what its data sheet promises.


# Cores for float32 of a multiprocessor, by compute capability; 128 of those not named
_CORES = {(7, 0): 64, (7, 2): 64, (7, 5): 64, (8, 0): 64}


def environment_facts() -> dict[str, Any]:
    """Return the facts that results may depend on: device, driver, libraries and kernels."""
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
    """Return the digest of the sources of all kernels."""
    folder = importlib.resources.files("gpukfl._accel")
    texts = {file.name: file.read_bytes() for file in folder.iterdir() if file.name.endswith(".cu")}
    return hashlib.sha256(b"".join(texts[name] for name in sorted(texts))).hexdigest()[:16]


def card() -> Card:
    """Return the properties of the current device."""
    import cupy

    device = cupy.cuda.runtime.getDevice()
    given = {which: device_attribute(which, device) for which in Attribute}
    capability = given[Attribute.MAJOR], given[Attribute.MINOR]
    cores = _CORES.get(capability, 128) * given[Attribute.MULTIPROCESSORS]
    flops = 2e3 * given[Attribute.CLOCK_KHZ] * cores  # a fused product and sum a core and cycle
    return Card(
        environment_facts()["gpu"],
        bandwidth=2e3 * given[Attribute.MEMORY_CLOCK_KHZ] * given[Attribute.MEMORY_BITS] / 8,
        flops32=flops,
        flops64=flops / max(given[Attribute.SINGLE_TO_DOUBLE], 1),
    )


def device_memory() -> dict[str, int]:
    """Return the free and total bytes of the device."""
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return {"free": int(free), "total": int(total)}


# --------------------------------------------------------------------------------- timings

# How long this device takes for what fits are made of, beside what the model predicts.


_ROWS_EACH = 4  # of projections
_KNOTS, _SHIFT = 2048, 20
_CENTERS, _FEATURES = 256, 20
_REPEATS = 3


@dataclass(frozen=True)
class Timed:
    """A computation and its work."""

    what: str
    run: Callable[[], Any]
    work: Work


def timings(xp: Namespace, device: Any, card: Card, n: int, /) -> list[dict[str, Any]]:
    """Time all computations for `n` samples; return median and predicted seconds."""
    return [
        {
            "what": timed.what,
            "n": n,
            "seconds": _seconds(timed.run, xp, device),
            "predicted_seconds": card.seconds(timed.work),
        }
        for timed in (*_simple_timings(xp, device, n), *_kernel_timings(xp, device, n))
    ]


def _seconds(run: Callable[[], Any], xp: Namespace, device: Any) -> float:
    flag = xp.zeros(1, dtype=xp.float64, device=device)

    def wait() -> None:
        to_host(flag)  # the copy is behind all that was asked for before

    run()
    wait()
    found = []
    for _ in range(_REPEATS):
        begun = time.perf_counter()
        run()
        wait()
        found.append(time.perf_counter() - begun)
    return statistics.median(found)


def _simple_timings(xp: Namespace, device: Any, n: int) -> list[Timed]:
    rng = np.random.RandomState(0)
    host = rng.standard_normal(n)
    x, little = (xp.asarray(a, device=device) for a in (host, host[:1]))
    side = math.isqrt(n)
    A = xp.reshape(x[: side * side], (side, side))

    def many() -> None:
        for _ in range(100):
            little + 1.0

    return [
        Timed("100 calls", many, Work(calls=100)),
        Timed("copy on the device", lambda: x + 0.0, Work(moved=16 * n, calls=1)),
        Timed("copy to the device", lambda: xp.asarray(host, device=device), Work(uploaded=8 * n)),
        Timed("copy to the host", lambda: to_host(x), Work(uploaded=8 * n, waits=1)),
        Timed("sum", lambda: xp.sum(x), Work(moved=8 * n, calls=1)),
        Timed("running sum", lambda: xp.cumulative_sum(x), Work(moved=16 * n, calls=2)),
        # Eight digits of a key, each read and written with its index
        Timed("argsort", lambda: xp.argsort(x), Work(moved=8 * 32 * n, calls=12)),
        Timed("product", lambda: A @ A, Work(moved=24 * side**2, flops64=2 * side**3, calls=1)),
    ]


def _kernel_timings(xp: Namespace, device: Any, n: int) -> list[Timed]:
    rng, m = np.random.RandomState(0), _ROWS_EACH
    A, v, X = (
        xp.asarray(rng.standard_normal(shape), device=device)
        for shape in ((m, n), (n, 1), (n, _FEATURES))
    )
    rows = cuda.sort_rows(A)
    drawn = rng.randint(0, (_KNOTS - 1) << _SHIFT, (m, n)).astype(np.int32)
    codes = xp.asarray(drawn, device=device)
    U = xp.zeros((m, _KNOTS, 1), dtype=xp.float64, device=device)
    each = m * n
    # Two passes over values, order and gathered weights, levels out, and levels gathered by rank
    ridge = 2 * (12 + SECTOR) + 8 + 4 + SECTOR
    signs = 2 * (4 + SECTOR) + 8 + 8 + 4 + 3 * SECTOR + 8
    pairs = n * _CENTERS * _FEATURES
    return [
        Timed("ridge_sums", lambda: cuda.ridge_sums(*rows, v), Work(ridge * each, calls=6)),
        Timed("sign_products", lambda: cuda.sign_products(*rows, v), Work(signs * each, calls=5)),
        Timed(
            "bin_sums",
            lambda: cuda.bin_sums(codes, _SHIFT, _KNOTS, v),
            Work(12 * each, calls=8),
        ),
        Timed(
            "interpolate_bins",
            lambda: cuda.interpolate_bins(codes, _SHIFT, U),
            Work(4 * each + 8 * n, calls=2),
        ),
        Timed(
            "distances",
            lambda: cuda_distances.distances(X, X[:_CENTERS, :], "euclidean"),
            Work(8 * n * (_CENTERS + _FEATURES), flops64=3 * pairs, calls=2),
        ),
    ]
