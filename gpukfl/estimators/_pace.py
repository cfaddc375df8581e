"""Predicted duration of a fit, by timing smaller ones.

Times of another machine say nothing of this one. A fit that nothing stops is begun when smaller
ones have said what it takes.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

_LEAST_ROWS, _LEAST_COLUMNS = 50, 2  # of a fit that says what each takes in any case
_ROWS, _COLUMNS, _STEPS = 200, 50, 4  # of the first fit that says more
_GROWTH, _LEAST_GROWTH = 8.0, 2.0  # of the work from one such fit to the next
_TRIAL, _SURE = 0.1, 0.1  # of the time: for one such fit; and what all may take, to look no further
_MOMENT = 0.01  # of the time, which a fit may take to be timed again
_MARGIN = 0.75  # of the time, for what is begun by an estimate
_ENOUGH_STEPS = 20  # of boosting, before more rows are of use
_LEAST = 1e-9  # seconds


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
    work: Callable[[Size], float]  # what the time goes with
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

        The first one says what a fit takes in any case. It ends where the whole fit takes a small
        share, or one more fit would not.
        """
        least = Size(min(full.rows, _LEAST_ROWS), min(full.columns, _LEAST_COLUMNS))
        first = Size(min(full.rows, _ROWS), min(full.columns, _COLUMNS), min(full.steps, _STEPS))
        took = _time_fit(timed, least, left())
        found = cls(full, work, least, took, took / work(least))
        if first != least:
            found = found._add_fit(first, _time_fit(timed, first, left()))
        while found.size != full and found.seconds(full) > _SURE * left():
            size = found._next(_TRIAL * left())
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
        """Return rows and steps of a fit that takes some seconds at most, or None.

        All rows, or half, a quarter, ... where only so many have steps enough.
        """
        budget, full = _MARGIN * seconds, self.full
        enough = min(full.steps, _ENOUGH_STEPS)
        halves = range(max(full.rows // self.size.rows, 1).bit_length())
        sizes = [replace(full, rows=full.rows >> k) for k in halves]
        sizes = [replace(one, steps=self._steps(one, budget)) for one in sizes]
        best = next((one for one in sizes if one.steps >= enough), sizes[-1])
        return best if best.steps else None

    def _steps(self, size: Size, budget: float) -> int:
        """Return how many steps there is time for."""
        fits = range(1, size.steps + 1)
        return bisect.bisect_right(fits, budget, key=lambda k: self.seconds(replace(size, steps=k)))

    def _add_fit(self, size: Size, took: float) -> Self:
        """Return the model with one more, larger fit."""
        mean = took / self.work(size)
        rate = (took - self.took) / (self.work(size) - self.work(self.size))
        return replace(self, size=size, took=took, rate=max(rate, mean / _GROWTH))

    def _next(self, seconds: float) -> Size:
        """Return the next size to time in some seconds: more columns first, then more rows."""
        size, most = self.size, _GROWTH * self.work(self.size)
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
    return max(took if took > _MOMENT * left else min(took, timed(size)), _LEAST)
