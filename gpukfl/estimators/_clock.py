"""How much of `max_time` is left."""

from __future__ import annotations

import time

_NO_TIME = 1e-3  # seconds that are left when all are spent


class Clock:
    """The time of a fit, of which its parts may spend shares."""

    def __init__(self, max_time: float | None, /) -> None:
        self._max_time, self._begun = max_time, time.perf_counter()

    def left(self, share: float = 1.0) -> float | None:
        """Seconds until a share of the time is spent, or a moment; None where there is no limit."""
        if self._max_time is None:
            return None
        return max(share * self._max_time - (time.perf_counter() - self._begun), _NO_TIME)

    def is_over(self, share: float = 1.0) -> bool:
        """Whether a share of the time is spent."""
        return self.left(share) == _NO_TIME
