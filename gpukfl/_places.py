"""Places: which array library and device a computation runs on, found without starting CUDA."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import sys
from dataclasses import dataclass

import numpy as np

from gpukfl._array import (
    Array,
    Device,
    Namespace,
    array_namespace,
    device_of,
    is_host,
    library_of,
    to_host,
    writable,
)
from gpukfl._checks import check_choice
from gpukfl._warnings import warn

BACKENDS = ("auto", "numpy", "cupy", "torch")

# Below this many kernel elements per product (samples x particles) the copies to the GPU and its
# launch latency cost more than the CPU needs: on an H100 BKerNN with 10 000 samples and 100
# particles took three times as long as on two cores, with 100 000 samples it was faster.
GPU_PAYS_FROM = 10_000_000


@dataclass(frozen=True)
class Backend:
    """Where to compute, and how precisely; a string stands for a library.

    Parameters
    ----------
    name : {"auto", "numpy", "cupy", "torch"}
        "auto" follows X, and moves large NumPy data to a usable GPU.
    dtype : {"auto", "float32", "float64"}
        Precision; "auto" is that of X.

    Examples
    --------
    >>> import gpukfl
    >>> gpukfl.BKerNNRegressor(backend=gpukfl.Backend("numpy", dtype="float32"))
    BKerNNRegressor(backend=Backend(name='numpy', dtype='float32'))
    """

    name: str = "auto"
    dtype: str = "auto"

    def __post_init__(self) -> None:
        check_choice("backend", self.name, BACKENDS)
        check_choice("dtype", self.dtype, ("auto", "float32", "float64"))

    @classmethod
    def of(cls, given: str | Backend, /) -> Backend:
        """Give the value that a parameter `backend` stands for.

        Raises
        ------
        TypeError, ValueError
            If it is no known library and no `Backend`.
        """
        if isinstance(given, Backend):
            return given
        if not isinstance(given, str):
            msg = (
                f"expected backend to be one of {', '.join(BACKENDS)}, or a Backend, got {given!r}"
            )
            raise TypeError(msg)
        return cls(given)

    def precision(self, X: Array, /) -> str:
        """Precision to compute in: the one that is asked for, or that of `X`."""
        if self.dtype != "auto":
            return self.dtype
        return "float32" if X.dtype == array_namespace(X).float32 else "float64"


@dataclass(frozen=True)
class Place:
    """An array library, a device of it, and a precision."""

    xp: Namespace
    device: Device
    dtype: str  # "float32" or "float64"

    @property
    def reference(self) -> Array:
        """An empty array that lives here: what other code places its arrays beside."""
        return self.xp.empty((0,), dtype=getattr(self.xp, self.dtype), device=self.device)

    def put(self, x: Array, /) -> Array:
        """Copy `x` here, unless it is here already; moving between libraries goes by the host."""
        if library_of(x) != library_of(self.reference):
            x = to_host(x) if not isinstance(x, np.ndarray) else x
        x = writable(x, self.reference)
        return self.xp.asarray(x, dtype=getattr(self.xp, self.dtype), device=self.device)


@functools.cache
def cuda_devices() -> int:
    """Count the CUDA devices the driver sees, 0 without a driver; never raises, makes no context.

    Forked children of a process that called ``cuInit`` cannot use CUDA, so this runs at the
    first ``fit`` that could gain from a GPU, never at import.
    """
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return 0
    try:
        driver = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
        count = ctypes.c_int(0)
        works = driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    except (OSError, AttributeError):  # no driver, or a library that is none
        return 0
    return count.value if works else 0


def is_installed(library: str, /) -> bool:
    """Whether `library` could be imported, without importing it."""
    return importlib.util.find_spec(library) is not None


@functools.cache
def cupy_is_usable() -> bool:
    """Whether CuPy is installed, sees a GPU, and can compile, multiply and factor on it."""
    if not is_installed("cupy") or cuda_devices() == 0:
        return False
    with contextlib.suppress(Exception):  # a broken CUDA set-up may raise anything here
        import cupy

        # By cuSOLVER, cuBLAS and the compiler: each is a library that may be missing
        A = cupy.asarray([[4.0, 2.0], [2.0, 2.0]])
        L = cupy.linalg.cholesky(A)
        if cupy.is_available() and float(cupy.abs(L @ L.T - A).max()) < 1e-9:
            return True
    warn(
        "a GPU was found but CuPy cannot use it; `gpukfl info` says more",
        RuntimeWarning,
    )
    return False


@functools.cache
def torch_cuda_is_usable() -> bool:
    """Whether torch is installed and can run on a GPU."""
    if not is_installed("torch") or cuda_devices() == 0:
        return False
    import torch

    return bool(torch.cuda.is_available())


def resolve_place(backend: str, X: Array, *, dtype: str, work: int) -> Place:
    """Choose where to compute.

    Parameters
    ----------
    backend : {"auto", "numpy", "cupy", "torch"}
        "auto" stays with the library of `X`, except that NumPy input goes to a usable GPU
        when `work` is at least `GPU_PAYS_FROM`. ``GPUKFL_BACKEND`` overrides "auto".
    X : array
        The input.
    dtype : {"float32", "float64"}
        The precision to compute in.
    work : int
        Kernel elements touched per product: samples times particles.

    Raises
    ------
    ValueError
        If `backend` is unknown.
    RuntimeError
        If the backend is not installed or has no usable device; says what to install.
    """
    backend = _asked(backend)
    if backend not in BACKENDS:
        msg = f"expected backend to be one of {', '.join(BACKENDS)}, got {backend!r}"
        raise ValueError(msg)
    if backend == "auto":
        if not is_host(X):
            return Place(array_namespace(X), device_of(X), dtype)
        backend = "cupy" if work >= GPU_PAYS_FROM and cupy_is_usable() else "numpy"
    if backend == library_of(X):
        return Place(array_namespace(X), device_of(X), dtype)
    return {"numpy": _numpy_place, "cupy": _cupy_place, "torch": _torch_place}[backend](dtype)


def will_use_torch(backend: str, X: object, /) -> bool:
    """Whether `resolve_place` gives a place of torch."""
    asked = _asked(backend)
    return is_installed("torch") and (asked if asked != "auto" else library_of(X)) == "torch"


def _asked(backend: str) -> str:
    return (os.environ.get("GPUKFL_BACKEND") or "auto") if backend == "auto" else backend


def _numpy_place(dtype: str) -> Place:
    return Place(array_namespace(np.empty(0)), "cpu", dtype)


def _cupy_place(dtype: str) -> Place:
    if not is_installed("cupy"):
        msg = (
            "backend='cupy' needs CuPy: `pip install 'gpukfl[cuda13]'` (or cuda12); "
            "backend='numpy' works on this machine"
        )
        raise RuntimeError(msg)
    if not cupy_is_usable():
        msg = (
            f"backend='cupy' needs a GPU that CuPy can use ({cuda_devices()} CUDA devices found): "
            "check the NVIDIA driver with nvidia-smi; backend='numpy' works on this machine"
        )
        raise RuntimeError(msg)
    import cupy

    return Place(array_namespace(cupy.empty(0)), None, dtype)


def _torch_place(dtype: str) -> Place:
    if not is_installed("torch"):
        msg = (
            "backend='torch' needs torch: `pip install 'gpukfl[torch]'`; "
            "backend='numpy' works on this machine"
        )
        raise RuntimeError(msg)
    import torch

    device = torch.device("cuda" if torch_cuda_is_usable() else "cpu")
    return Place(array_namespace(torch.empty(0)), device, dtype)
