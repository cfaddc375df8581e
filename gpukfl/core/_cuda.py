"""The state of the driver, the GPUs and CuPy, with advice where something is missing."""

from __future__ import annotations

import ctypes
import enum
import functools
import glob
import importlib.util
import os
import sys
from dataclasses import dataclass

from gpukfl.core._memory import is_out_of_memory
from gpukfl.core._warnings import warn


class Attribute(enum.IntEnum):
    """Numbers of properties of a device (cudaDeviceAttr, driver_types.h)."""

    SHARED_BYTES = 8  # of a block, without an opt-in
    CLOCK_KHZ = 13
    MULTIPROCESSORS = 16
    MEMORY_CLOCK_KHZ = 36
    MEMORY_BITS = 37
    MAJOR = 75
    MINOR = 76
    SINGLE_TO_DOUBLE = 87  # ratio of the speeds of float32 and float64


_FORKED = (
    "CUDA was used before this process was forked, so it cannot be used here: start processes "
    "with 'spawn' or 'forkserver', as joblib does by default"
)
# Advice by error codes of cuInit (cuda.h)
_REASONS = {
    3: _FORKED,
    100: "the driver sees no device: check it with nvidia-smi",
    802: "the GPUs are not ready yet: check nvidia-fabricmanager",
    803: "the driver's parts are of different versions: restart the machine",
    804: "the driver is too old for the CUDA libraries beside it: update the NVIDIA driver",
}
# Advice by words in CuPy's errors
_COMPLAINTS = {
    "cudaErrorInsufficientDriver": "the NVIDIA driver is too old for CuPy's CUDA: update it, or "
    "install 'gpukfl[cuda12]' instead of 'gpukfl[cuda13]'",
    "unsupported PTX": "the NVIDIA driver is too old for CuPy's compiler: update it, or install "
    "'gpukfl[cuda12]' instead of 'gpukfl[cuda13]'",
    "nvrtc": "CuPy's compiler NVRTC is missing or broken: install CuPy with its CUDA libraries, as "
    "`pip install 'gpukfl[cuda13]'` does",
    "cudaErrorInitializationError": _FORKED,
    "cudaErrorDevicesUnavailable": "another process has exclusive use of the GPU: check it with "
    "nvidia-smi",
}


@dataclass(frozen=True)
class Driver:
    """The number of devices, and the reason if there is none."""

    devices: int
    reason: str = ""


def ask_driver() -> Driver:
    """Count the CUDA devices, 0 without a driver, without raising or making a context."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible in ("", "-1"):
        return Driver(0, f"CUDA_VISIBLE_DEVICES={visible!r} hides all GPUs")
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int(0)
        code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError):  # no driver, or another library with its name
        return Driver(0, "there is no NVIDIA driver: check it with nvidia-smi")
    if code == 0 and count.value:
        return Driver(count.value)
    closed = _closed_devices()
    if closed:
        return Driver(0, f"this user has no permission to read and write {closed}: join its group")
    known = _REASONS.get(code or 100)
    return Driver(0, known or f"cuInit failed with code {code}: check the driver with nvidia-smi")


def _closed_devices() -> str | None:
    """Return the device file of a GPU that this user may not open, or None."""
    files = sorted(glob.glob("/dev/nvidia[0-9]*"))
    return next((file for file in files if not os.access(file, os.R_OK | os.W_OK)), None)


def driver() -> Driver:
    """Return the state of the driver, which is cached per process.

    Forked children of a process that called ``cuInit`` cannot use CUDA. So imports never call this;
    the first ``fit`` that could gain from a GPU does.
    """
    return _cached_driver(os.getpid())


@functools.lru_cache(maxsize=1)
def _cached_driver(process: int) -> Driver:  # noqa: ARG001
    return ask_driver()


def cuda_devices() -> int:
    """Count the CUDA devices that this process can use."""
    return driver().devices


def check_not_forked() -> None:
    """Raise RuntimeError if this process was forked after its parent used CUDA."""
    if driver().reason == _FORKED:
        raise RuntimeError(_FORKED)


def is_installed(library: str, /) -> bool:
    """Whether `library` could be imported, without importing it."""
    return importlib.util.find_spec(library) is not None


def cupy_is_usable() -> bool:
    """Whether CuPy is installed, sees a GPU, and can compile, multiply and factor on it.

    This warns once if there is a GPU that CuPy cannot use.
    """
    if not is_installed("cupy"):
        return False
    reason = cupy_problem()
    if reason and cuda_devices():
        _warn_once(os.getpid(), reason)
    return not reason


@functools.cache
def _warn_once(process: int, reason: str) -> None:  # noqa: ARG001
    warn(f"a GPU was found but CuPy cannot use it: {reason}", RuntimeWarning)


def cupy_problem() -> str:
    """Return why an installed CuPy cannot be used and what to do, or an empty string."""
    try:
        return driver().reason or _cached_cupy_problem(os.getpid())
    except MemoryError as error:  # not cached, as another process may release its memory
        return str(error)


@functools.lru_cache(maxsize=1)
def _cached_cupy_problem(process: int) -> str:  # noqa: ARG001
    try:
        return _try_cupy()
    except Exception as error:  # a broken CUDA set-up may raise anything here
        text, is_full = f"{type(error).__name__}: {error}", is_out_of_memory(error)
    if is_full:
        msg = "the GPU's memory is full: nvidia-smi shows which process uses it"
        raise MemoryError(msg)
    known = [advice for word, advice in _COMPLAINTS.items() if word.lower() in text.lower()]
    return known[0] if known else " ".join(text.split())[:300]


def _try_cupy() -> str:
    import cupy

    # This needs cuSOLVER, cuBLAS and the compiler, libraries that may be missing
    A = cupy.asarray([[4.0, 2.0], [2.0, 2.0]])
    L = cupy.linalg.cholesky(A)
    if not cupy.is_available():
        return "CuPy sees no device: check the NVIDIA driver with nvidia-smi"
    is_right = float(cupy.abs(L @ L.T - A).max()) < 1e-9
    return "" if is_right else "its results are wrong: run `gpukfl selftest` for details"


@functools.cache
def device_attribute(which: Attribute, device: int, /) -> int:
    """Look up a property of a device of CuPy."""
    import cupy

    return int(cupy.cuda.runtime.deviceGetAttribute(int(which), device))


@functools.cache
def torch_cuda_is_usable() -> bool:
    """Whether torch is installed and can run on a GPU."""
    if not is_installed("torch") or cuda_devices() == 0:
        return False
    import torch

    return bool(torch.cuda.is_available())
