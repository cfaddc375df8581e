"""The kernels of a ``.cu`` file: compiled when the first is launched, and launched by name.

Only the compiler call names CuPy, so that the tests can put kernels compiled for the CPU in place.
"""

from __future__ import annotations

import functools
import importlib.resources
from typing import Any

from gpukfl._array import Array, array_namespace


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
        """Run a kernel on blocks of `threads` threads."""
        if 0 not in grid:  # CuPy would round an empty grid up to one block
            self.get(name)(grid, (threads,), args, shared_mem=shared_bytes)


# What NumPy and CuPy have beyond the standard


def type_name(x: Any, /) -> str:
    """Name of the dtype, as kernels spell it."""
    return x.dtype.name


def strides(x: Any, /) -> tuple[int, ...]:
    """Elements from one entry to the next, along each axis."""
    return tuple(stride // x.itemsize for stride in x.strides)


def contiguous(*arrays: Array) -> tuple[Array, ...]:
    """Copy those of the arrays that are not in C order."""
    xp: Any = array_namespace(*arrays)
    return tuple(xp.ascontiguousarray(x) for x in arrays)
