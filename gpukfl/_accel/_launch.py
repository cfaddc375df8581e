"""The kernels of a ``.cu`` file: compiled when the first is launched, and launched by name.

Only the compiler call names CuPy, so that the tests can put kernels compiled for the CPU in place.
"""

from __future__ import annotations

import functools
import importlib.resources
import re
from collections.abc import Sequence
from typing import Any

from gpukfl.core._array import Array, array_namespace, is_cupy
from gpukfl.core._cuda import Attribute, device_attribute

# Times: from there on the dozen float32 operations of a pair cost less than one in float64. 2 on
# GPUs for computing centres, 32 and 64 on those for games
_SLOW = 16
_BLOCKS = 32  # to a multiprocessor: the last ends soon after the others
_MULTIPROCESSORS, _SHARED_BYTES = 128, 48 * 1024  # of arrays that lie on no GPU
# What the parameters of kernels point to; states of scans are records of doubles
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "Mass": "float64",
    "Ridge": "float64",
    "int": "int32",
    "long long": "int64",
    "unsigned long long": "int64",
}


class Kernels:
    """The kernels of one file, with the sizes that launches and kernels must agree on."""

    def __init__(self, file: str, /, **sizes: int) -> None:
        self.file = file
        self.options = ("--std=c++17", *(f"-D{name}={size}" for name, size in sizes.items()))
        self._found: dict[str, Any] = {}

    @property
    def source(self) -> str:
        """Text of the file."""
        return importlib.resources.files(__package__).joinpath(self.file).read_text("ascii")

    @functools.cached_property
    def _module(self) -> Any:
        import cupy

        return cupy.RawModule(code=self.source, options=self.options)

    @functools.cached_property
    def parameters(self) -> dict[str, list[tuple[str, str | None]]]:
        """Of each kernel the parameters: their names, and dtypes where they point to arrays."""
        kernel = r'extern "C" __global__ void (\w+)\(([^)]*)\)'
        return {
            name: [_parameter(declared) for declared in given.split(",")]
            for name, given in re.findall(kernel, _expand_macros(self.source))
        }

    def get(self, name: str, /) -> Any:
        """Find a kernel by name."""
        if name not in self._found:
            self._found[name] = self._module.get_function(name)
        return self._found[name]

    def launch(
        self,
        name: str,
        grid: tuple[int, ...],
        threads: int,
        args: tuple[Any, ...],
        shared_bytes: int = 0,
        /,
    ) -> None:
        """Run a kernel on blocks of `threads` threads.

        Raises
        ------
        TypeError
            If an array has another dtype than the kernel reads: CuPy hands over any address.
        """
        _check(name, self.parameters[name], args)
        if 0 not in grid:  # CuPy would round an empty grid up to one block
            self.get(name)(grid, (threads,), args, shared_mem=shared_bytes)


def _check(name: str, parameters: Sequence[tuple[str, str | None]], args: Sequence[Any]) -> None:
    for (parameter, expected), arg in zip(parameters, args, strict=True):
        got = None if isinstance(arg, int) else type_name(arg)
        if got != expected:
            msg = f"{name}: expected {parameter} to be {expected or 'a number'}, got {got}"
            raise TypeError(msg)


def _parameter(declared: str) -> tuple[str, str | None]:
    *words, name = declared.replace("*", " * ").split()
    pointed = " ".join(word for word in words if word not in ("const", "*"))
    return name, _DTYPES[pointed] if "*" in words else None


def _expand_macros(source: str) -> str:
    """Return a file's text with the macros that name its kernels expanded."""
    source = source.replace("\\\n", " ")
    macro = re.compile(r"^#define (KERNELS\w*)\(([^)]*)\)(.*)$", re.MULTILINE)
    macros = {name: (given.split(", "), body) for name, given, body in macro.findall(source)}

    def spelt_out(call: re.Match[str]) -> str:
        names, body = macros[call[1]]
        values = dict(zip(names, call[2].split(", "), strict=True))
        body = re.sub(r"\b\w+\b", lambda word: values.get(word[0], word[0]), body)
        return body.replace("##", "")

    use = re.compile(r"^(KERNELS\w*)\(([^)]*)\)$", re.MULTILINE)
    return use.sub(spelt_out, macro.sub("", source))


# What NumPy and CuPy have beyond the standard


def type_name(x: Any, /) -> str:
    """Return the name of a dtype in the kernels' language."""
    return _dtype_name(x.dtype)


@functools.cache
def _dtype_name(dtype: Any) -> str:
    return dtype.name  # takes NumPy longer than all else that a launch checks


def strides(x: Any, /) -> tuple[int, ...]:
    """Return the strides along each axis, in elements."""
    return tuple(stride // x.itemsize for stride in x.strides)


def double_is_slow(x: Any, /) -> bool:
    """Whether the device of `x` is many times as fast in float32 as in float64."""
    if not is_cupy(x):
        return False
    return device_attribute(Attribute.SINGLE_TO_DOUBLE, x.device.id) >= _SLOW


def n_filling_blocks(x: Any, /) -> int:
    """Return how many blocks keep the device of `x` busy; use it for exact sums only."""
    is_there = is_cupy(x)
    count = (
        device_attribute(Attribute.MULTIPROCESSORS, x.device.id) if is_there else _MULTIPROCESSORS
    )
    return _BLOCKS * count


def shared_bytes(x: Any, /) -> int:
    """Return the bytes of shared memory that a block on the device of `x` may have."""
    return device_attribute(Attribute.SHARED_BYTES, x.device.id) if is_cupy(x) else _SHARED_BYTES


def contiguous(*arrays: Array) -> tuple[Array, ...]:
    """Copy those of the arrays that are not in C order."""
    xp: Any = array_namespace(*arrays)
    return tuple(xp.ascontiguousarray(x) for x in arrays)
