"""The CUDA sources compile without a warning, by NVRTC as CuPy calls it and by nvcc."""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib
import shutil
import subprocess

import pytest
from emulation import source_path

from gpukfl._accel import cuda, cuda_differences, cuda_distances

pytestmark = pytest.mark.slow
SOURCES = [  # and a kernel of each
    pytest.param(cuda.KERNELS, b"ridge_levels_float32_float64", id="brownian"),
    pytest.param(cuda_differences.KERNELS, b"difference_sums_float64", id="differences"),
    pytest.param(cuda_distances.KERNELS, b"sign_sums_float64", id="distances"),
]
ARCHITECTURES = ["sm_80", "sm_90"]


def nvrtc_library() -> ctypes.CDLL:
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        for path in sorted(pathlib.Path(folder).rglob("libnvrtc.so.*")):
            return ctypes.CDLL(str(path))
    pytest.skip("the wheel nvidia-cuda-nvrtc is not installed")


def compile_by_nvrtc(source: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """CUBIN, empty if the source is wrong, and log."""
    nvrtc = nvrtc_library()
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    created = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode("ascii"), b"kernels.cu", 0, None, None
    )
    assert created == 0
    texts = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    failed = nvrtc.nvrtcCompileProgram(program, len(options), texts)

    def fetch(what: str) -> bytes:
        assert getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)) == 0
        buffer = ctypes.create_string_buffer(size.value)
        assert getattr(nvrtc, f"nvrtcGet{what}")(program, buffer) == 0
        return buffer.raw

    log = fetch("ProgramLog").rstrip(b"\0").decode()
    cubin = b"" if failed else fetch("CUBIN")
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return cubin, log


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("kernels", "name"), SOURCES)
def test_nvrtc_compiles_the_kernels(kernels, name, architecture):
    # the last two are what CuPy adds
    options = (
        *kernels.options,
        f"--gpu-architecture={architecture}",
        "--device-as-default-execution-space",
        "-ftz=true",
    )
    cubin, log = compile_by_nvrtc(kernels.source, options)
    assert cubin, log
    assert not log, log  # no warnings either
    assert name in cubin


def test_nvrtc_errors_are_seen():
    cubin, log = compile_by_nvrtc("#include <vector>", ("--gpu-architecture=sm_80",))
    assert not cubin
    assert "vector" in log


@pytest.mark.parametrize(("kernels", "name"), SOURCES)
def test_nvcc_compiles_the_kernels(kernels, name, tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    target = tmp_path / "kernels.cubin"
    command = [
        *(nvcc, "-cubin", f"-arch={ARCHITECTURES[-1]}", "-std=c++17", "-Werror", "all-warnings"),
        *("-o", str(target), str(source_path(kernels))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert name in target.read_bytes()
