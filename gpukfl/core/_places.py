"""Places: the array library, device and precision of a computation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral

import numpy as np

from gpukfl.core._array import (
    Array,
    Device,
    Namespace,
    array_namespace,
    asarray_like,
    get_device,
    is_host,
    library_name,
    lies_in_parts,
    small_reference,
    to_host,
    writable,
)
from gpukfl.core._checks import check_choice, check_number
from gpukfl.core._cuda import (
    cuda_devices,
    cupy_is_usable,
    cupy_problem,
    is_installed,
    torch_cuda_is_usable,
)
from gpukfl.core._lazy import OldName

BACKENDS = ("auto", "numpy", "cupy", "torch")

# Kernel elements per product (samples x particles) from which a GPU is faster. With fewer, copies
# and launches take longer than the CPU. BKerNN with 100 particles took three times as long on an
# H100 as on two cores for 10 000 samples, and less time for 100 000.
GPU_PAYS_FROM = 10_000_000


@dataclass(frozen=True)
class Backend:
    """A library, device and precision; a string stands for a library.

    Parameters
    ----------
    name : {"auto", "numpy", "cupy", "torch"}
        "auto" follows X, and moves large NumPy data to a usable GPU.
    dtype : {"auto", "float32", "float64"}
        Precision; "auto" is that of X.
    devices : int or None
        GPUs of this machine, the first of them, that the rows of NumPy data are divided among, a
        thread each; None computes on one. Of CuPy, for fits of single methods.

    Examples
    --------
    >>> import gpukfl
    >>> gpukfl.BKerNNRegressor(backend=gpukfl.Backend("numpy", dtype="float32"))
    BKerNNRegressor(backend=Backend(name='numpy', dtype='float32', devices=None))
    """

    name: str = "auto"
    dtype: str = "auto"
    devices: int | None = None

    def __post_init__(self) -> None:
        check_choice("backend", self.name, BACKENDS)
        check_choice("dtype", self.dtype, ("auto", "float32", "float64"))
        check_number("devices", self.devices, kind=Integral, low=1, also=(None,))
        if self.devices is not None and self.name != "cupy":
            msg = f"expected backend 'cupy' with a number of devices, got {self.name!r}"
            raise ValueError(msg)

    @classmethod
    def parse(cls, given: str | Backend, /) -> Backend:
        """Return the `Backend` of a parameter `backend`.

        Raises
        ------
        TypeError, ValueError
            If it is neither a known library nor a `Backend`.
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
        """Return the precision to compute in: the chosen one, or that of `X`."""
        if self.dtype != "auto":
            return self.dtype
        return "float32" if X.dtype == array_namespace(X).float32 else "float64"

    of = OldName("parse")


@dataclass(frozen=True)
class Place:
    """An array library, a device of it, and a precision."""

    xp: Namespace
    device: Device
    dtype: str  # "float32" or "float64"

    @property
    def reference(self) -> Array:
        """An empty array of this library, device and precision."""
        return self.xp.empty((0,), dtype=getattr(self.xp, self.dtype), device=self.device)

    def put(self, x: Array, /) -> Array:
        """Copy `x` to this place, through the host between libraries.

        Partitioned rows stay where they are, and get this precision.
        """
        if lies_in_parts(x):
            return asarray_like(x, self.reference)
        if library_name(x) != library_name(self.reference):
            x = to_host(x) if not isinstance(x, np.ndarray) else x
        x = writable(x, self.reference)
        return self.xp.asarray(x, dtype=getattr(self.xp, self.dtype), device=self.device)


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
    backend = _backend_name(backend)
    if lies_in_parts(X):  # the parts have their own places; this is the place of small arrays
        reference = small_reference(X)
        return Place(array_namespace(reference), get_device(reference), dtype)
    if backend not in BACKENDS:
        msg = f"expected backend to be one of {', '.join(BACKENDS)}, got {backend!r}"
        raise ValueError(msg)
    if backend == "auto":
        if not is_host(X):
            return Place(array_namespace(X), get_device(X), dtype)
        backend = "cupy" if work >= GPU_PAYS_FROM and cupy_is_usable() else "numpy"
    if backend == library_name(X):
        return Place(array_namespace(X), get_device(X), dtype)
    return {"numpy": _numpy_place, "cupy": _cupy_place, "torch": _torch_place}[backend](dtype)


def will_use_torch(backend: str, X: object, /) -> bool:
    """Whether `resolve_place` returns a place of torch."""
    name = _backend_name(backend)
    return is_installed("torch") and (name if name != "auto" else library_name(X)) == "torch"


def _backend_name(backend: str) -> str:
    """Return a backend, with the environment's choice for "auto"."""
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
            f"{cupy_problem()}; backend='numpy' works on this machine"
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
