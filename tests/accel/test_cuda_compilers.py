"""The CUDA sources compile without a warning, by NVRTC as CuPy calls it and by nvcc."""

from __future__ import annotations

import ctypes
import importlib.util
import pathlib
import shutil
import subprocess

import pytest
from emulation import source_path

from gpukfl._accel import (
    cuda,
    cuda_differences,
    cuda_distances,
    cuda_hermite,
    cuda_knots,
    cuda_vectors,
)

pytestmark = pytest.mark.slow
SOURCES = [  # and a kernel of each
    pytest.param(cuda.KERNELS, b"ridge_levels_float32_float64", id="brownian"),
    pytest.param(cuda_differences.KERNELS, b"difference_sums_float64", id="differences"),
    pytest.param(cuda_distances.KERNELS, b"sign_sums_float64", id="distances"),
    pytest.param(cuda_hermite.KERNELS, b"hermite_table", id="hermite"),
    pytest.param(cuda_knots.KERNELS, b"interpolate_knots_float32", id="knots"),
    pytest.param(cuda_vectors.KERNELS, b"conjugate_step_float32", id="vectors"),
]
ARCHITECTURES = ["sm_75", "sm_80", "sm_90", "sm_120"]  # the first, the last, what data centres have
VERSIONS = [12, 13]


def nvrtc_library(version: int) -> ctypes.CDLL:
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else ():
        for path in sorted(pathlib.Path(folder).rglob(f"libnvrtc.so.{version}")):
            return ctypes.CDLL(str(path))
    pytest.skip(f"no wheel of NVRTC {version} is installed")


def compile_by_nvrtc(version: int, source: str, options: tuple[str, ...]) -> tuple[bytes, str]:
    """CUBIN, empty if the source is wrong, and log."""
    nvrtc = nvrtc_library(version)
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


@pytest.mark.each
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("kernels", "name"), SOURCES)
def test_nvrtc_compiles_the_kernels(kernels, name, architecture, version):
    # the last two are what CuPy adds
    options = (
        *kernels.options,
        f"--gpu-architecture={architecture}",
        "--ptxas-options=--warn-on-spills",
        "--device-as-default-execution-space",
        "-ftz=true",
    )
    cubin, log = compile_by_nvrtc(version, kernels.source, options)
    assert cubin, log
    assert not log, log  # no warnings either, and no registers spilled
    assert name in cubin


@pytest.mark.parametrize("version", VERSIONS)
def test_spilled_registers_are_seen(version):
    sums = " + ".join(f"x[{k}] * x[{k} + n]" for k in range(64))
    held = "".join(f"const double a{k} = x[{k} * n]; " for k in range(64))
    used = " + ".join(f"a{k} * x[a{k} > 0]" for k in range(64))
    source = f"""extern "C" __global__ void __launch_bounds__(1024, 2) f(double *x, int n) {{
        {held} __syncthreads(); x[0] = {sums}; __syncthreads(); x[1] = {used};
    }}"""
    options = ("--gpu-architecture=sm_80", "--ptxas-options=--warn-on-spills")
    _, log = compile_by_nvrtc(version, source, options)
    assert "spill" in log.lower()


@pytest.mark.parametrize("version", VERSIONS)
def test_nvrtc_errors_are_seen(version):
    cubin, log = compile_by_nvrtc(version, "#include <vector>", ("--gpu-architecture=sm_80",))
    assert not cubin
    assert "vector" in log


@pytest.mark.parametrize(("kernels", "name"), SOURCES)
def test_nvcc_compiles_the_kernels(kernels, name, tmp_path):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not installed")
    target = tmp_path / "kernels.cubin"
    command = [
        *(nvcc, "-cubin", "-arch=sm_90", "-std=c++17", "-Werror", "all-warnings"),
        *("-o", str(target), str(source_path(kernels))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert name in target.read_bytes()
