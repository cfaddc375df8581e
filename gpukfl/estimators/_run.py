"""The state of one running fit: time limit, random numbers and progress report."""

from __future__ import annotations

import bisect
import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Annotated, Any, Self, TypedDict

import numpy as np
from sklearn.utils import check_random_state

from gpukfl.core._annotations import Count
from gpukfl.core._random import preserve_rng_state
from gpukfl.core._results import History
from gpukfl.core._streams import try_write_line

_NO_TIME = 1e-9  # remaining seconds when the limit is spent: less than any step takes
_FACTOR = 4  # factor between two timed works
_FEW = 300  # centres, features or rows that are always taken
_ELEMENTS_PER_SECOND = 100_000  # of the limit: larger folds are fitted alone

Report = Callable[[str, int, History], None]  # takes a stage, a step, and the stage's history
_reports: ContextVar[Report | None] = ContextVar("gpukfl_reports", default=None)
_start_times: ContextVar[float | None] = ContextVar("gpukfl_beginnings", default=None)


@contextlib.contextmanager
def count_time_from(begun: float, /) -> Iterator[None]:
    """Count the time of the first fit in the block from an earlier moment.

    Its limit then includes earlier work, such as imports. Fits inside it have their own time.
    """
    before = _start_times.set(begun)
    try:
        yield
    finally:
        _start_times.reset(before)


@contextlib.contextmanager
def use_report(report: Report, /) -> Iterator[None]:
    """Report every step of the fits that start in the block to `report`."""
    before = _reports.set(report)
    try:
        yield
    finally:
        _reports.reset(before)


def current_report() -> Report:
    """Return the function to which fits report their progress."""
    return _reports.get() or ignore_step


def has_report() -> bool:
    """Return whether fits report their progress."""
    return _reports.get() is not None


def ignore_step(stage: str, k: int, history: History) -> None:
    """Ignore a step."""


class FitTime(TypedDict):
    """How long a part of a fit took."""

    part: str
    member: str
    fits: Annotated[int, Count()]
    seconds: float


class Run:
    """The state that all parts of one fit share.

    Attributes
    ----------
    rng : RandomState
        Draws on the host, in the order of the fit.
    """

    def __init__(self, max_time: float | None, random_state: Any, verbose: int, /) -> None:
        self.rng = check_random_state(random_state)
        self._first_state = self.rng.get_state()
        begun = _start_times.get()
        _start_times.set(None)
        self._max_time, self._begun = max_time, time.perf_counter() if begun is None else begun
        self._verbose, self._report = verbose, _reports.get()
        self._lap_begun, self._laps = self._begun, dict[tuple[str, str], FitTime]()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_report": None}  # reports stay in their process

    @classmethod
    def from_settings(cls, settings: Any, /) -> Self:
        """Start a fit by an estimator's parameters, perhaps without `max_time` and `verbose`."""
        limit, verbose = getattr(settings, "max_time", None), getattr(settings, "verbose", 0)
        return cls(limit, settings.random_state, verbose)

    def again(self) -> np.random.RandomState:
        """Return a generator in the fit's initial state, for equal draws."""
        rng = np.random.RandomState(0)
        rng.set_state(self._first_state)
        return rng

    def rewind(self) -> None:
        """Reset `rng` to the fit's initial state, for equal draws."""
        self.rng.set_state(self._first_state)

    def remaining_seconds(self, share: float = 1.0) -> float | None:
        """Return the seconds until a share of the time is spent; None without a limit."""
        if self._max_time is None:
            return None
        return max(share * self._max_time - (time.perf_counter() - self._begun), _NO_TIME)

    def is_over(self, share: float = 1.0) -> bool:
        """Whether a share of the time limit is spent."""
        return self.remaining_seconds(share) == _NO_TIME

    def has_time_for_folds(self, n_elements: int, /) -> bool:
        """Whether there is time for fits to more than one fold of that many elements.

        This depends on the limit alone, not on the load of the machine.
        """
        return self._max_time is None or n_elements <= _ELEMENTS_PER_SECOND * self._max_time

    def reserve(self, seconds: float, /) -> None:
        """Shorten the limit, to reserve time for work at the end."""
        if self._max_time is not None:
            self._max_time = max(self._max_time - seconds, _NO_TIME)

    def affordable(
        self,
        wanted: int,
        work: Callable[[int], Any],
        /,
        *,
        times: float | Callable[[int], float],
        few: int = _FEW,
    ) -> int:
        """Return how many of the wanted centres, features or rows there is time for.

        `work(q)` is timed with a `few` and perhaps with more; its time grows at most with q². The
        fit does it `times` times, a number or a function of q. At least `few` are returned.
        The state of `rng` is restored, so that an ample limit changes nothing.
        """
        if self._max_time is None:
            return wanted
        works = times if callable(times) else lambda _: times
        count = few
        for tried in (few, _FACTOR * few):
            if not tried <= count < wanted:
                break
            begun = time.perf_counter()
            with preserve_rng_state(self.rng):
                work(tried)
            took, left = (
                max(time.perf_counter() - begun, 1e-9),
                self.remaining_seconds() or _NO_TIME,
            )
            squares = left / took * tried**2  # square of the count that takes the time left
            cost = lambda q: works(q) * q**2  # noqa: E731
            fits = bisect.bisect_right(range(1, wanted + 1), squares, key=cost)
            count = max(tried, fits)
        return min(wanted, count)

    def lap(self, part: str, /, members: Sequence[str] = ("",), fits: int = 0) -> None:
        """Record the time since the last lap, or the beginning, for a part of the fit.

        Members that were fitted together share the time equally, with `fits` fits each.
        """
        now = time.perf_counter()
        seconds, self._lap_begun = (now - self._lap_begun) / len(members), now
        for member in members:
            new = FitTime(part=part, member=member, fits=0, seconds=0.0)
            one = self._laps.setdefault((part, member), new)
            one["fits"] += fits
            one["seconds"] += seconds

    @property
    def times(self) -> list[FitTime]:
        """The parts with their times, in the order in which they began."""
        return list(self._laps.values())

    def note(self, message: str) -> None:
        """Report a note on the fit, if fits are reported."""
        if self._verbose:
            try_write_line(message, sys.stderr)

    def tell(self, stage: str, k: int, history: History) -> None:
        """Report that step `k` of a stage is done."""
        if self._verbose:
            try_write_line(
                f"{stage}: iteration {k + 1:4d}  objective {history.objective[-1]:.6g}  "
                f"{history.seconds[-1]:.1f} s",
                sys.stderr,
            )
        if self._report is not None:
            self._report(stage, k, history)
