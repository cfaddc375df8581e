"""Blocks of rows that stay near the processor while many numbers are made of each."""

from __future__ import annotations

from collections.abc import Iterator

_NEAR = 2**17  # elements, of which a few arrays fit in a cache


def near_blocks(n: int, width: int, /) -> Iterator[slice]:
    """Divide n rows, of each of which arrays of `width` elements are made."""
    size = max(_NEAR // max(width, 1), 1)
    return (slice(start, start + size) for start in range(0, n, size))
