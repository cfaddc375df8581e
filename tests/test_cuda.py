"""What is said where there is no GPU to use: of the driver, and of CuPy where it fails."""

import ctypes
import glob
import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from gpukfl.core import _cuda
from gpukfl.core._cuda import (
    ask_driver,
    check_not_forked,
    cuda_devices,
    cupy_is_usable,
    cupy_problem,
)
from gpukfl.core._places import resolve_place

FORKED = 3  # CUDA_ERROR_NOT_INITIALIZED, cuda.h


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    """Ask anew in every test, and afterwards."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("GPUKFL_BACKEND", raising=False)
    kept = (_cuda._cached_driver, _cuda._cached_cupy_problem, _cuda._warn_once)
    for cached in kept:
        cached.cache_clear()
    yield
    for cached in kept:
        cached.cache_clear()


def driver(*, starts=0, devices=2):
    def count(pointer):
        pointer._obj.value = devices
        return 0

    return SimpleNamespace(cuInit=lambda _: starts, cuDeviceGetCount=count)


def no_driver():
    raise OSError


@pytest.fixture
def load(monkeypatch):
    """Pretend what the driver's library is."""

    def pretend(make, files=()):
        monkeypatch.setattr(ctypes, "CDLL", lambda _: make())
        monkeypatch.setattr(glob, "glob", lambda _: list(files))

    return pretend


@pytest.mark.parametrize(
    ("make", "visible", "devices", "reason"),
    [
        (driver, None, 2, ""),
        (driver, "0", 2, ""),
        (driver, "", 0, "CUDA_VISIBLE_DEVICES='' hides all GPUs"),
        (driver, "-1", 0, "CUDA_VISIBLE_DEVICES='-1' hides all GPUs"),
        (lambda: driver(starts=100), None, 0, "the driver sees no device"),
        (lambda: driver(devices=0), None, 0, "the driver sees no device"),
        (lambda: driver(starts=804), None, 0, "driver is too old"),
        (lambda: driver(starts=803), None, 0, "restart the machine"),
        (lambda: driver(starts=FORKED), None, 0, "before this process was forked"),
        (lambda: driver(starts=999), None, 0, "cuInit failed with code 999"),
        (no_driver, None, 0, "there is no NVIDIA driver"),
        (SimpleNamespace, None, 0, "there is no NVIDIA driver"),  # a library without the functions
    ],
)
def test_the_driver_is_asked_and_never_raises(monkeypatch, load, make, visible, devices, reason):
    load(make)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    answer = ask_driver()
    assert answer.devices == devices
    assert reason in answer.reason
    assert bool(reason) == bool(answer.reason)


def test_a_device_without_permission_is_named(monkeypatch, load):
    load(lambda: driver(starts=100), ["/dev/nvidia1", "/dev/nvidia0"])
    monkeypatch.setattr(os, "access", lambda file, _: file == "/dev/nvidia0")
    assert (
        ask_driver().reason
        == "this user has no permission to read and write /dev/nvidia1: join its group"
    )


def test_a_forked_process_asks_anew(monkeypatch, load):
    load(driver)
    assert cuda_devices() == 2
    check_not_forked()
    load(lambda: driver(starts=FORKED))
    assert cuda_devices() == 2  # still the same process
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    assert cuda_devices() == 0
    with pytest.raises(RuntimeError, match=r"before this process was forked.*'spawn'"):
        check_not_forked()


def test_a_forked_process_computes_on_the_processor(monkeypatch, load):
    load(lambda: driver(starts=FORKED))
    monkeypatch.setattr(_cuda, "is_installed", lambda _: True)
    monkeypatch.setattr("gpukfl.core._places.is_installed", lambda _: True)
    monkeypatch.setitem(sys.modules, "cupy", None)  # importing it would raise
    place = resolve_place("auto", np.ones((2, 2)), dtype="float64", work=10**12)
    assert place.xp.__name__.endswith("numpy")
    with pytest.raises(RuntimeError, match=r"before this process was forked.*'numpy' works"):
        resolve_place("cupy", np.ones((2, 2)), dtype="float64", work=0)


# ---------------------------------------------------------------------- CuPy


def raising(error):
    def fails(*_):
        raise error

    return fails


def broken(text):
    """An error as CuPy's runtime raises it."""
    return type("CUDARuntimeError", (RuntimeError,), {})(text)


@pytest.fixture
def cupy(monkeypatch, load):
    """Put a CuPy on NumPy in place, with other functions."""

    def pretend(**changed):
        load(driver)
        linalg = SimpleNamespace(cholesky=changed.pop("cholesky", np.linalg.cholesky))
        given = {"is_available": lambda: True, "asarray": np.asarray, "abs": np.abs, **changed}
        given["ndarray"] = type("ndarray", (), {})  # that no array is one of
        monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(linalg=linalg, **given))
        monkeypatch.setattr(_cuda, "is_installed", lambda _: True)
        monkeypatch.setattr("gpukfl.core._places.is_installed", lambda _: True)

    return pretend


def test_cupy_that_multiplies_and_factors_is_usable(cupy):
    cupy()
    assert cupy_is_usable()
    assert cupy_problem() == ""


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"cholesky": np.zeros_like}, "its results are wrong: run `gpukfl selftest` for details"),
        ({"cholesky": raising(ImportError("no CUDA libraries"))}, "ImportError: no CUDA libraries"),
        ({"is_available": lambda: False}, "CuPy sees no device"),
        (
            {"asarray": raising(broken("cudaErrorInsufficientDriver: CUDA driver version is ..."))},
            r"driver is too old for CuPy's CUDA: update it, or install 'gpukfl\[cuda12\]'",
        ),
        (
            {"abs": raising(broken("CUDA_ERROR_UNSUPPORTED_PTX_VERSION: unsupported PTX"))},
            "driver is too old for CuPy's compiler",
        ),
        (
            {"abs": raising(RuntimeError("CuPy failed to load libnvrtc.so.13: OSError"))},
            r"compiler NVRTC is missing or broken: install .*cuda13",
        ),
        (
            {"asarray": raising(broken("cudaErrorDevicesUnavailable: device is busy"))},
            "another process has exclusive use of the GPU",
        ),
    ],
)
def test_what_is_wrong_with_cupy_is_said(cupy, changed, reason):
    cupy(**changed)
    with pytest.warns(RuntimeWarning, match=f"a GPU was found but CuPy cannot use it: .*{reason}"):
        assert not cupy_is_usable()
    assert not cupy_is_usable()  # and warns once
    with pytest.raises(RuntimeError, match=f"{reason}.*backend='numpy' works on this machine"):
        resolve_place("cupy", np.ones((2, 2)), dtype="float64", work=0)


@pytest.mark.parametrize(
    "error",
    [
        broken("cudaErrorMemoryAllocation: out of memory"),
        type("OutOfMemoryError", (MemoryError,), {})("Out of memory allocating 512 bytes"),
        RuntimeError("CUBLAS_STATUS_ALLOC_FAILED"),
    ],
)
def test_a_full_memory_is_said_and_tried_again(cupy, error):
    cupy(asarray=raising(error))
    with pytest.warns(RuntimeWarning, match="memory is full: nvidia-smi shows which process"):
        assert not cupy_is_usable()
    cupy()  # the other process has ended
    assert cupy_is_usable()


@pytest.mark.parametrize("library", ["cupy", "torch"])
def test_nothing_is_imported_without_a_gpu(monkeypatch, load, library):
    load(no_driver)
    monkeypatch.setattr(_cuda, "is_installed", lambda _: True)
    monkeypatch.setitem(sys.modules, library, None)  # importing it would raise
    detect = {"cupy": cupy_is_usable, "torch": _cuda.torch_cuda_is_usable.__wrapped__}[library]
    assert not detect()
