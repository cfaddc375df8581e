"""Work item by item, with progress, within a time limit, and as far as an interruption let it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sklearn.exceptions import ConvergenceWarning

from gpukfl.core._results import History
from gpukfl.core._warnings import warn
from gpukfl.estimators._run import current_report, use_report

Item = TypeVar("Item")
Found = TypeVar("Found")
_MOMENT = 0.1  # seconds that a part has in any case


class TimeLimit:
    """A time limit that begins when it is made.

    Parameters
    ----------
    seconds : float or None
        The limit; None for as long as it takes.
    """

    def __init__(self, seconds: float | None, /) -> None:
        self.seconds, self._begun = seconds, time.perf_counter()

    @property
    def remaining(self) -> float:
        """The seconds that are left, infinite without a limit."""
        if self.seconds is None:
            return math.inf
        return max(self.seconds - (time.perf_counter() - self._begun), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.remaining <= 0.0

    def share(self, part: float, /) -> float | None:
        """Return a part of the seconds that are left; None without a limit."""
        return None if self.seconds is None else max(part * self.remaining, _MOMENT)

    def affordable(self, per_second: float, most: int, /, *, least: int, power: int = 1) -> int:
        """Return how many items there is time for, at most and at least so many.

        By the limit alone, so that results do not depend on the load of a machine: with a power p
        the work of n items is that of n**p.
        """
        if self.seconds is None:
            return most
        return max(min(int((per_second * self.seconds) ** (1.0 / power)), most), least)

    def check(self) -> None:
        """Raise TimeIsOverError if no time is left."""
        if self.is_over:
            raise TimeIsOverError


class TimeIsOverError(Exception):
    """The time is over in the middle of an item, which is left out."""


NO_LIMIT = TimeLimit(None)


def map_with_progress(
    what: str,
    items: Sequence[Item],
    work: Callable[[Item], Found],
    /,
    limit: TimeLimit = NO_LIMIT,
) -> list[Found]:
    """Apply a function to each item in order; warn if an interruption or a limit leaves some out.

    `what` names the items in the progress and the warning. KeyboardInterrupt is raised where the
    first one is not done, which a limit leaves time for. A later one may raise TimeIsOverError.
    """
    found = list[Found]()
    try:
        for one in _run_items(what, items, work):
            found.append(one)
            if len(found) < len(items):
                limit.check()
    except TimeIsOverError:
        done = f"{len(found)} of {len(items)} are complete"
        msg = f"{what}: the time limit was reached (max_time, --inference-time), {done}"
        warn(msg, ConvergenceWarning)
    except KeyboardInterrupt:
        if not found:
            raise
        msg = f"{what}: interrupted, {len(found)} of {len(items)} are complete"
        warn(msg, ConvergenceWarning)
    return found


def map_all_or_nothing(
    what: str, items: Sequence[Item], work: Callable[[Item], Found], /
) -> list[Found]:
    """Apply a function to each item in order; an interruption discards all results."""
    return list(_run_items(what, items, work))


def _run_items(what: str, items: Sequence[Item], work: Callable[[Item], Found]) -> Iterator[Found]:
    """Report each item, and the fits in it under its number."""
    report = current_report()
    for k, item in enumerate(items):
        place = f"{what}, {k + 1} of {len(items)}"

        def report_fit(stage: str, step: int, history: History, place: str = place) -> None:
            report(f"{place}: {stage}", step, history)

        report(place, k, History())
        with use_report(report_fit):
            found = work(item)
        yield found
