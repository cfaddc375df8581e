"""Predicted duration of a fit, from timed smaller fits on the same machine.

It is needed for fits that nothing can stop once they have begun.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

_LEAST_ROWS, _LEAST_COLUMNS = 50, 2  # of the smallest fit, which measures the fixed cost
_ROWS, _COLUMNS, _STEPS = 200, 50, 4  # of the second fit
_MOST_GROWTH, _LEAST_GROWTH = 8.0, 2.0  # factors of work from one timed fit to the next
_TRIAL_SHARE = 0.1  # share of the time for one timed fit
_SURE_SHARE = 0.1  # if the whole fit takes less of the time, no more fits are timed
_SHORT_SHARE = 0.01  # a fit that takes less of the time is timed twice
_BUDGET_SHARE = 0.75  # share of the time that a predicted fit may take
_ENOUGH_STEPS = 20  # of boosting, after which more rows are preferred
_LEAST_SECONDS = 1e-9


@dataclass(frozen=True)
class Size:
    """The rows, columns and steps of a fit."""

    rows: int
    columns: int
    steps: int = 1


def fit_work(size: Size, /) -> float:
    """Return rows times columns times steps, to which the time of most fits is proportional."""
    return float(size.rows) * size.columns * size.steps


@dataclass(frozen=True)
class Pace:
    """A model of fit times, by the largest fits that were timed."""

    full: Size  # of the whole fit
    work: Callable[[Size], float]  # to which time is proportional
    size: Size  # of the largest fit that was timed
    took: float  # its seconds
    rate: float  # seconds for each unit of work beyond it

    @classmethod
    def measure(
        cls,
        full: Size,
        work: Callable[[Size], float],
        timed: Callable[[Size], float],
        left: Callable[[], float],
        /,
    ) -> Self:
        """Time fits of growing sizes, each within a small share of the remaining time.

        The first one measures the fixed cost. Timing ends if the whole fit takes a small share of
        the time, or one more timed fit would take a larger one.
        """
        least = Size(min(full.rows, _LEAST_ROWS), min(full.columns, _LEAST_COLUMNS))
        first = Size(min(full.rows, _ROWS), min(full.columns, _COLUMNS), min(full.steps, _STEPS))
        took = _time_fit(timed, least, left())
        found = cls(full, work, least, took, took / work(least))
        if first != least:
            found = found._add_fit(first, _time_fit(timed, first, left()))
        while found.size != full and found.seconds(full) > _SURE_SHARE * left():
            size = found._next_size(_TRIAL_SHARE * left())
            if size == found.size:
                break
            found = found._add_fit(size, _time_fit(timed, size, left()))
        return found

    def seconds(self, size: Size, /) -> float:
        """Return how long a fit takes."""
        more = self.work(size) - self.work(self.size)
        return self.took + self.rate * more if more > 0 else self.took

    def affordable_rows(self, seconds: float, /) -> int:
        """Return how many rows, with all columns, can be fitted in some seconds."""
        rows = range(1, self.full.rows + 1)
        took = lambda n: self.seconds(replace(self.full, rows=n))  # noqa: E731
        return bisect.bisect_right(rows, seconds, key=took)

    def affordable(self, seconds: float, /) -> Size | None:
        """Return the size of a fit that takes some seconds at most, or None.

        It has all rows, or the largest of a half, a quarter, ... with enough steps.
        """
        budget, full = _BUDGET_SHARE * seconds, self.full
        enough = min(full.steps, _ENOUGH_STEPS)
        halves = range(max(full.rows // self.size.rows, 1).bit_length())
        sizes = [replace(full, rows=full.rows >> k) for k in halves]
        sizes = [replace(one, steps=self._affordable_steps(one, budget)) for one in sizes]
        best = next((one for one in sizes if one.steps >= enough), sizes[-1])
        return best if best.steps else None

    def _affordable_steps(self, size: Size, budget: float) -> int:
        """Return how many steps there is time for."""
        fits = range(1, size.steps + 1)
        return bisect.bisect_right(fits, budget, key=lambda k: self.seconds(replace(size, steps=k)))

    def _add_fit(self, size: Size, took: float) -> Self:
        """Return the model with one more, larger fit."""
        mean = took / self.work(size)
        rate = (took - self.took) / (self.work(size) - self.work(self.size))
        return replace(self, size=size, took=took, rate=max(rate, mean / _MOST_GROWTH))

    def _next_size(self, seconds: float) -> Size:
        """Return the next size to time in some seconds: more columns first, then more rows."""
        size, most = self.size, _MOST_GROWTH * self.work(self.size)
        for name in ("columns", "rows", "steps"):
            among = range(getattr(size, name), getattr(self.full, name) + 1)

            def fits(value: int, name: str = name, size: Size = size) -> bool:
                one = replace(size, **{name: value})
                return self.work(one) > most or self.seconds(one) > seconds

            count = bisect.bisect_left(among, True, key=fits)
            size = replace(size, **{name: among[max(count, 1) - 1]})
        enough = size == self.full or self.work(size) >= _LEAST_GROWTH * self.work(self.size)
        return size if enough else self.size


def _time_fit(timed: Callable[[Size], float], size: Size, left: float) -> float:
    """Time a fit; repeat a very short one, which other processes may have delayed."""
    took = timed(size)
    return max(took if took > _SHORT_SHARE * left else min(took, timed(size)), _LEAST_SECONDS)
