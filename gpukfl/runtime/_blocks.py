"""Blocks of rows that stay near the processor while many numbers are made of each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

_NEAR = 2**16  # elements, of which a few arrays fit in a cache


def near_blocks(n: int, width: int, /) -> Iterator[slice]:
    """Divide n rows, of each of which arrays of `width` elements are made."""
    size = max(_NEAR // max(width, 1), 1)
    return (slice(start, start + size) for start in range(0, n, size))


@contextlib.contextmanager
def unbuffered() -> Iterator[None]:
    """Let NumPy read what is broadcast where it lies.

    It copies it into its buffer where that holds two rows of the result, which takes five times as
    long as the differences of these.
    """
    before = np.setbufsize(16)  # elements, the fewest there may be
    try:
        yield
    finally:
        np.setbufsize(before)
