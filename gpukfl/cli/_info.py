"""What this machine offers."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform

import psutil
from rich.console import Console
from rich.table import Table

from gpukfl._cuda import (
    cuda_devices,
    cupy_is_usable,
    driver,
    is_installed,
    torch_cuda_is_usable,
    why_not_cupy,
)
from gpukfl._version import __version__

_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "array-api-compat", "torch", "matplotlib")


def info(_: argparse.Namespace) -> int:
    """Print libraries, devices and active fast paths."""
    from gpukfl._accel import threads

    table = Table("", "", show_header=False, box=None)
    table.add_row("gpukfl", f"{__version__}, Python {platform.python_version()}")
    memory = psutil.virtual_memory()
    table.add_row(
        "CPU",
        f"{threads.n_threads()} of {os.cpu_count()} cores used (GPUKFL_NUM_THREADS sets them), "
        f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free",
    )
    for name in _LIBRARIES:
        table.add_row(name, _version_of(name))
    table.add_row("CuPy", _cupy())
    table.add_row("CUDA devices", " - ".join(filter(None, [str(cuda_devices()), driver().reason])))
    table.add_row("fast path, NumPy", "Numba kernels, threads over particles")
    table.add_row("fast path, CuPy", "CUDA kernels" if cupy_is_usable() else _inactive())
    torch = "not installed"
    if is_installed("torch"):
        torch = "cuda" if torch_cuda_is_usable() else "cpu"
    table.add_row("torch device", torch)
    table.add_row("backend='auto'", "cupy for large data" if cupy_is_usable() else "numpy")
    Console(width=100).print(table)
    return 0


def _version_of(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _inactive() -> str:
    reason = why_not_cupy() if cuda_devices() else "no GPU"
    return f"not active: {reason or 'CuPy is not installed'}"


def _cupy() -> str:
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        version = _version_of(name)
        if version != "not installed":
            return f"{name} {version}"
    return "not installed: pip install 'gpukfl\\[cuda13]' or 'gpukfl\\[cuda12]'"
