"""How many rows and steps of a member there is time for, by the time that a few take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._warnings import collect_warnings
from gpukfl.estimators._pace import Pace, Size
from gpukfl.estimators._run import Run
from gpukfl.portfolio._fold_fits import FoldFit, FoldFitter, MemberResult, is_interrupted
from gpukfl.portfolio._members import (
    Member,
    clone_with_steps,
    member_work,
    n_steps,
    takes_any_columns,
)

FURTHER = 4  # times as many rows say better how long all take, where there is time for so many
_SHARE = 0.9  # of max_time spent by the end
_PROBED, _FIRST_PROBED, _FEWEST_PROBED = 2_000, 800, 200  # rows that say how long all take
_PROBE_SHARE = 0.3  # of a member's time, for a fit that says how many rows there is time for
_NO_TIME = 1e-3
_LEAST_SHARE = 0.25  # of the time that is left, for the next member: the first ones say the most
_PATIENCE = 4.0  # times the limit that may be expected of members that keep to it
_SEARCHING = 2  # times as long as another fit is the first one, which searches


@dataclass(frozen=True)
class Clock:
    """The time limit of a member, None without one, and its start."""

    limit: float | None
    begun: float = field(default_factory=lambda: time.perf_counter())  # noqa: PLW0108 - as in `remaining_seconds`

    @property
    def remaining_seconds(self) -> float:
        """The remaining seconds of the limit."""
        assert self.limit is not None
        return self.limit - (time.perf_counter() - self.begun)

    def turn_seconds(self, k: int, count: int) -> float | None:
        """Return the limit of turn k of so many; the first one gets more for its search."""
        if self.limit is None:
            return None
        first = _SEARCHING if k == 0 and count > 1 else 1
        return max(self.remaining_seconds, _NO_TIME) * first / (count - k + first - 1)


@dataclass(frozen=True, eq=False)
class Affordable:
    """What there is time for.

    Attributes
    ----------
    clock : Clock
        The member's time.
    rows : int or None
        Of each fold; None is all.
    fit : FoldFit or None
        The fit of the first fold, where it was to so many rows.
    steps : int or None
        Of each fit; None is all.
    is_too_slow : bool
        Whether there is no time for the least fit.
    """

    clock: Clock
    rows: int | None = None
    fit: FoldFit | None = None
    steps: int | None = None
    is_too_slow: bool = False


@dataclass(eq=False)
class Budget:
    """The time of a run, and what of a member it is enough for.

    Attributes
    ----------
    fitter : FoldFitter
        What fits a member to some rows of the first fold, to see how long that takes.
    run : Run
        The time that there is.
    least_seconds : float
        That the last member took for a few rows, where it was limited: those that are left take
        about as long at least, as members stand in the order of their costs.
    """

    fitter: FoldFitter
    run: Run
    least_seconds: float = 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """The seconds left for members; None without a limit."""
        return self.run.remaining_seconds(_SHARE)

    @property
    def is_over(self) -> bool:
        """Whether the time for members is spent."""
        return self.run.is_over(_SHARE)

    def member_clock(self, n_left: int) -> Clock:
        """Return the clock of the next of the members that are left."""
        left = self.remaining_seconds
        return Clock(None if left is None else left * max(1.0 / n_left, _LEAST_SHARE))

    def is_late(self, member: Member) -> bool:
        """Whether time is over, or too short for a default member."""
        left = self.remaining_seconds
        if left is None or self.is_over:
            return left is not None
        return not member.reference and left < self.least_seconds

    def is_too_short(self, entry: MemberResult, turns: int) -> bool:
        """Whether so many more turns would take longer than the time that is left.

        The first fit searches, so that the next ones say whether a member keeps its time.
        """
        left, is_first = self.remaining_seconds, len(entry.models) == 1
        if left is None or (is_first and entry.member.keeps_time):
            return False
        searched = _SEARCHING if is_first and entry.member.takes_any_library else 1
        return entry.last_seconds / searched * turns >= left

    def affordable(
        self, member: Member, clock: Clock, finished: Sequence[MemberResult]
    ) -> Affordable:
        """Return what there is time for, by how long some rows take.

        Where even a few take too long these are fewer steps, or nothing.
        """
        if clock.limit is None:
            return Affordable(clock)
        longest = clock
        if member.keeps_time and not any(one.member.keeps_time for one in finished):
            longest = Clock(self.remaining_seconds)  # those that follow take longer
        n = self.fitter.n_rows
        pace = self._measure_pace(member, longest)
        if pace is not None:
            all_rows = n <= _PROBED
            first = n if all_rows else min(_FIRST_PROBED, n // FURTHER)
            share = 1.0 / len(self.fitter) if all_rows else _PROBE_SHARE
            least = pace.seconds(replace(pace.full, rows=first))
            if least > share * clock.remaining_seconds:
                clock = longest
            if least > share * clock.remaining_seconds:
                return self._cut(pace, clock, may_be_left=bool(finished))
        return self._probe(member, clock)

    def affordable_rows(self, member: Member, clock: Clock, few: int, took: float) -> int:
        """Return how many rows of each fold there is time for, by a timed fit."""
        left = clock.remaining_seconds * (_PATIENCE if member.keeps_time else 1.0)
        times = max(left, 0.0) / (took * len(self.fitter))
        return max(few, int(few * times ** (1.0 / member.power)))

    def _probe(self, member: Member, clock: Clock) -> Affordable:
        """Fit some rows of the first fold, and more while there is time, to time them."""
        n = self.fitter.n_rows
        most = min(_PROBED, n // FURTHER)
        if most < _FEWEST_PROBED:
            return Affordable(clock)
        probed, count = 0, most
        while probed < most and count >= FURTHER * probed:
            probed, start = min(max(_FIRST_PROBED, FURTHER * probed), most), time.perf_counter()
            fit = self.fitter.fit(member, 0, probed, None, clock.limit)
            if fit.is_interrupted:
                return Affordable(clock, probed, fit)
            took = time.perf_counter() - start
            if probed <= _FIRST_PROBED:
                self.least_seconds = took
            count = self.affordable_rows(member, clock, probed, took)
        if count >= n:
            return Affordable(clock)
        return Affordable(clock, count, fit if count == probed else None)

    def _measure_pace(self, member: Member, clock: Clock) -> Pace | None:
        """Time a member on a small part of the first fold; None if it needs all columns.

        Of one that ends when it is told to, how long the least takes that it does.
        """
        if not takes_any_columns(member.estimator):
            return None
        inside = self.fitter.folds[0].member_view(member).inside
        n, d = inside.X.shape
        full = Size(n, d, n_steps(member.estimator))
        least = _NO_TIME if member.keeps_time else None

        def time_fit(size: Size) -> float:
            few = replace(member, estimator=clone_with_steps(member.estimator, size.steps))
            some = inside.draw(size.rows, self.run.again())
            some = replace(some, X=some.X[:, : size.columns])
            start = time.perf_counter()
            with collect_warnings():  # what it warns of is not of a fit that stays
                model, _ = few.fit_clone(some, None, least)
            if is_interrupted(model):
                raise KeyboardInterrupt
            return time.perf_counter() - start

        def work(size: Size) -> float:
            return member_work(member.estimator, member.power, size)

        try:
            with restore_interruptions():
                return Pace.measure(full, work, time_fit, lambda: clock.remaining_seconds)
        except Exception:  # few rows or columns may not suit it: then nothing is known
            return None

    def _cut(self, pace: Pace, clock: Clock, *, may_be_left: bool) -> Affordable:
        """Reduce the steps or rows of a member to the remaining time."""
        found = pace.affordable(max(clock.remaining_seconds, 0.0) / len(self.fitter))
        if found is None and may_be_left:
            return Affordable(clock, is_too_slow=True)
        found = found or replace(pace.full, rows=min(pace.full.rows, pace.size.rows), steps=1)
        rows = found.rows if found.rows < pace.full.rows else None
        return Affordable(clock, rows, steps=found.steps if found.steps < pace.full.steps else None)
