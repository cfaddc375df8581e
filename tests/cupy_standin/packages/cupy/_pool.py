"""The memory pool, which keeps nothing that is not used."""

from __future__ import annotations

from cupy._devices import current
from cupy._memory import MEMORY


class MemoryPool:
    """Bytes of the current device."""

    _limit = 0

    def used_bytes(self) -> int:
        """Bytes in arrays."""
        return MEMORY.used[current()]

    def total_bytes(self) -> int:
        """Bytes taken of the device."""
        return MEMORY.used[current()]

    def free_bytes(self) -> int:
        """Bytes taken of the device that no array uses."""
        return 0

    def get_limit(self) -> int:
        """Bytes that may be taken, 0 without a limit."""
        return self._limit

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        """Limit the bytes that may be taken."""
        self._limit = int(size or 0)

    def free_all_blocks(self, stream: object = None) -> None:
        """Give back what no array uses."""


_POOL = MemoryPool()


def get_default_memory_pool() -> MemoryPool:
    """Give the only pool."""
    return _POOL
