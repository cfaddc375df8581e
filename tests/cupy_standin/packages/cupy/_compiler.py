"""CUDA sources compiled for the CPU, and the parameters of their kernels."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import pathlib
import re
import subprocess
import tempfile
from dataclasses import dataclass

HEADER = pathlib.Path(__file__).parents[2] / "cuda_on_fibers.h"
_FLAGS = ("-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread")
_LANGUAGE = ("-x", "c++", "-std=c++20")
_OPTION = re.compile(r"-D\w+=\d+|--?std=c\+\+\d+")
_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(\w+)\s*\(([^)]*)\)')
_PARAMETER = re.compile(r"\s*(?:const\s+)?([\w ]+?)\s*(\*?)\s*(\w+)\s*")


class CompileError(RuntimeError):
    """What CuPy raises for a source that does not compile."""


CompileError.__name__ = CompileError.__qualname__ = "CompileException"
CompileError.__module__ = "cupy.cuda.compiler"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel."""

    name: str
    type: str
    is_pointer: bool


def defines(options: tuple[str, ...], /) -> tuple[str, ...]:
    """Options that define macros; others must be known."""
    for option in options:
        if not _OPTION.fullmatch(option):
            msg = f"nvrtc: error: invalid value for --gpu-architecture or option {option!r}"
            raise CompileError(msg)
    return tuple(option for option in options if option.startswith("-D"))


@functools.cache
def parameters(code: str, options: tuple[str, ...], /) -> dict[str, list[Parameter]]:
    """Of each kernel the parameters, from the preprocessed text."""
    command = ["g++", *_LANGUAGE, "-E", "-P", *defines(options), "-"]
    done = subprocess.run(command, input=code, capture_output=True, text=True, check=True)
    return {
        name: [_parameter(declared) for declared in given.split(",")]
        for name, given in _KERNEL.findall(done.stdout)
    }


def _parameter(declared: str) -> Parameter:
    found = _PARAMETER.fullmatch(declared)
    assert found, declared
    return Parameter(found[3], found[1], bool(found[2]))


@functools.cache
def compiled(code: str, options: tuple[str, ...], /) -> ctypes.CDLL:
    """Compile, once for a text and options on this machine."""
    key = repr((code, options, HEADER.read_text("ascii"), _FLAGS))
    folder = pathlib.Path(tempfile.gettempdir()) / f"cupy-standin-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    target = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.so"
    if not target.exists():
        made = target.with_suffix(f".{os.getpid()}")  # other processes may be at it too
        command = ["g++", *_LANGUAGE, *_FLAGS, *defines(options), "-include", str(HEADER)]
        command += ["-o", str(made), "-"]
        done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileError(done.stderr)
        made.rename(target)
    found = ctypes.CDLL(str(target))
    found.launch.restype = ctypes.c_char_p
    return found
