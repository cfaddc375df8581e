"""A model of time on a GPU, from bytes, operations, calls and waits: predictions, not measurements.

The host hands over one call after the other while the device works them off, so that a computation
takes what the slower of the two takes, and the waits on top. Reads at random places cost a sector
of 32 bytes, however little is used of it.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

SECTOR = 32  # bytes
# What a call costs in CuPy before the device has it, and a wait until the host goes on
_CALL, _WAIT = 8e-6, 30e-6
_SHARE = 0.8  # of the bandwidth on the data sheet that long copies reach


@dataclass(frozen=True)
class Work:
    """What a computation asks for; works add up, and may be repeated.

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

    def scaled(self, times: float, /) -> Work:
        """Repeat so many times."""
        return Work(*(times * a for a in astuple(self)))


@dataclass(frozen=True)
class Card:
    """What a data sheet says of a GPU, and what its host costs.

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
        """Predict the time of arithmetic, in that of reads and writes: above 1 memory waits."""
        return self._arithmetic(work) * _SHARE * self.bandwidth / work.moved

    def parts(self, work: Work, /) -> tuple[float, float]:
        """Predict the seconds that the host and that the device have work for."""
        copies = work.moved / (_SHARE * self.bandwidth)
        return self.call * work.calls, max(copies, self._arithmetic(work))

    def _arithmetic(self, work: Work) -> float:
        return work.flops32 / self.flops32 + work.flops64 / self.flops64
