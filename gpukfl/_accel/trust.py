"""Which CUDA kernels may run: those whose results the self-test has not found wrong here."""

from __future__ import annotations

from typing import TypeGuard

from gpukfl._array import is_cupy
from gpukfl._types import Array

_distrusted: set[str] = set()  # files of kernels, by their names without the ending


def has_kernels(x: object, file: str, /) -> TypeGuard[Array]:
    """Whether kernels of a ``.cu`` file compute what concerns `x`, in place of array operations."""
    return is_cupy(x) and file not in _distrusted


def distrust(file: str, /) -> None:
    """Let array operations do what the kernels of `file` would, in this process."""
    _distrusted.add(file)
