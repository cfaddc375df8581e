"""Run CUDA kernels on NumPy arrays: compiled by g++, with ``cuda_on_cpu.h`` in CUDA's place.

Only the kernels change: the launches of `gpukfl._accel` stay as they are, but for sizes so small
that short rows have several blocks.
"""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import subprocess

import numpy as np
import pytest

import gpukfl._accel
from gpukfl._accel._launch import Kernels

HEADER = pathlib.Path(__file__).with_name("cuda_on_cpu.h")
N_WORDS = 12  # MAX_ARGUMENTS of the header


def source_path(kernels: Kernels) -> pathlib.Path:
    """Where the kernels' file is."""
    return pathlib.Path(gpukfl._accel.__file__).with_name(kernels.file)


def emulate(kernels: Kernels, folder: pathlib.Path, **sizes: int) -> ctypes.CDLL:
    """Compile kernels for the CPU, with other sizes."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("g++ is not installed")
    target = folder / "kernels.so"
    command = [
        *(compiler, "-x", "c++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror"),
        # Each library has block sizes of its own, though the header's variables have one name
        *("-shared", "-fPIC", "-pthread", "-fno-gnu-unique"),
        *(f"-D{name}={size}" for name, size in sizes.items()),
        *("-include", str(HEADER), "-o", str(target), str(source_path(kernels))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(target))


def emulated_kernel(library: ctypes.CDLL, name: str):
    """Stand in for a `cupy.RawKernel`, on NumPy arrays."""

    def run(grid, block, args, *, shared_mem=0):
        assert all(0 < size <= limit for size, limit in zip(grid, (2**31 - 1, 65535), strict=False))
        assert shared_mem <= 48 * 1024
        words = [x.ctypes.data if isinstance(x, np.ndarray) else x for x in args]
        assert all(type(word) is int for word in words)
        assert len(words) <= N_WORDS
        library.launch(
            ctypes.cast(getattr(library, name), ctypes.c_void_p),
            *(ctypes.c_longlong(size) for size in (*grid, 1)[:2]),
            ctypes.c_longlong(block[0]),
            ctypes.c_longlong(shared_mem),
            (ctypes.c_longlong * N_WORDS)(*words),
        )

    return run


def replace_kernels(monkeypatch, kernels: Kernels, library: ctypes.CDLL) -> None:
    """Let launches of `kernels` run the emulation, on NumPy arrays."""
    monkeypatch.setattr(kernels, "get", lambda name: emulated_kernel(library, name))
