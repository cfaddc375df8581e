"""Rows and steps of a member that the time limit allows, measured by fits to few rows."""

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

PROBE_GROWTH = 4  # a larger probe has at least this many times the rows of the last one
_TIME_SHARE = 0.9  # of max_time, that the members may use
_FIRST_PROBE, _MAX_PROBE, _MIN_PROBE = 800, 2_000, 200  # rows of fits that measure the time
_PROBE_SHARE = 0.3  # of a member's time, that its probe may use
_MIN_SECONDS = 1e-3  # smallest time limit of a fit
_MIN_MEMBER_SHARE = 0.25  # of the time left, for the next member: the first ones gain the most
_LIMITED_FACTOR = 4.0  # members that keep a time limit get rows for this multiple of the time left
_SEARCH_FACTOR = 2  # the first fit searches settings, and takes this many times as long


@dataclass(frozen=True)
class Clock:
    """The time limit of a member in seconds, None without one, and its start."""

    limit: float | None
    started: float = field(default_factory=lambda: time.perf_counter())  # noqa: PLW0108 - looked up at each call

    @property
    def remaining_seconds(self) -> float:
        """The remaining seconds of the limit."""
        assert self.limit is not None
        return self.limit - (time.perf_counter() - self.started)

    def batch_seconds(self, k: int, count: int) -> float | None:
        """Return the limit of batch k of `count`; the first one gets more for its search."""
        if self.limit is None:
            return None
        first = _SEARCH_FACTOR if k == 0 and count > 1 else 1
        return max(self.remaining_seconds, _MIN_SECONDS) * first / (count - k + first - 1)


@dataclass(frozen=True, eq=False)
class Allowance:
    """Rows and steps that the time of a member allows.

    Attributes
    ----------
    clock : Clock
        Time of the member.
    rows : int or None
        Rows of each fold; None is all.
    fit : FoldFit or None
        The fit to these rows of the first fold, if a probe already made it.
    steps : int or None
        Steps of each fit; None is all.
    is_too_slow : bool
        Whether the time does not allow even the smallest fit.
    """

    clock: Clock
    rows: int | None = None
    fit: FoldFit | None = None
    steps: int | None = None
    is_too_slow: bool = False


@dataclass(eq=False)
class Budget:
    """The time of a run, and the allowances of its members.

    Attributes
    ----------
    fitter : FoldFitter
        Fits members to some rows of the first fold, to measure their time.
    run : Run
        Time limit of the whole fit.
    least_seconds : float
        Seconds of the last member's first probe. Members are ordered by cost, so that later ones
        take at least about as long.
    """

    fitter: FoldFitter
    run: Run
    least_seconds: float = 0.0

    @property
    def remaining_seconds(self) -> float | None:
        """The seconds left for members; None without a limit."""
        return self.run.remaining_seconds(_TIME_SHARE)

    @property
    def is_over(self) -> bool:
        """Whether the time for members is over."""
        return self.run.is_over(_TIME_SHARE)

    def member_clock(self, n_left: int) -> Clock:
        """Return the clock of the next of `n_left` members."""
        left = self.remaining_seconds
        return Clock(None if left is None else left * max(1.0 / n_left, _MIN_MEMBER_SHARE))

    def lacks_time_for(self, member: Member) -> bool:
        """Whether time is over, or too short for a member that the user did not name."""
        left = self.remaining_seconds
        if left is None or self.is_over:
            return left is not None
        return not member.reference and left < self.least_seconds

    def lacks_time_for_batches(self, entry: MemberResult, n_batches: int) -> bool:
        """Whether `n_batches` more batches of folds would take longer than the time left.

        The first fit of a member with a time limit does not count: it may search until its limit.
        """
        left, is_first = self.remaining_seconds, len(entry.models) == 1
        if left is None or (is_first and entry.member.keeps_time):
            return False
        factor = _SEARCH_FACTOR if is_first and entry.member.takes_any_library else 1
        return entry.last_seconds / factor * n_batches >= left

    def measure_allowance(
        self, member: Member, clock: Clock, finished: Sequence[MemberResult]
    ) -> Allowance:
        """Return the rows and steps that the time allows, by timing fits to few rows."""
        if clock.limit is None:
            return Allowance(clock)
        longest = clock
        if member.keeps_time and not any(one.member.keeps_time for one in finished):
            longest = Clock(self.remaining_seconds)  # later members take longer
        n = self.fitter.n_rows
        pace = self._measure_pace(member, longest)
        if pace is not None:
            all_rows = n <= _MAX_PROBE
            first = n if all_rows else min(_FIRST_PROBE, n // PROBE_GROWTH)
            share = 1.0 / len(self.fitter) if all_rows else _PROBE_SHARE
            least = pace.seconds(replace(pace.full, rows=first))
            if least > share * clock.remaining_seconds:
                clock = longest
            if least > share * clock.remaining_seconds:
                return self._reduce(pace, clock, may_skip=bool(finished))
        return self._probe(member, clock)

    def affordable_rows(self, member: Member, clock: Clock, few: int, seconds: float) -> int:
        """Return the rows of each fold that time allows, by the seconds of a fit to few rows."""
        left = clock.remaining_seconds * (_LIMITED_FACTOR if member.keeps_time else 1.0)
        times = max(left, 0.0) / (seconds * len(self.fitter))
        return max(few, int(few * times ** (1.0 / member.power)))

    def _probe(self, member: Member, clock: Clock) -> Allowance:
        """Time fits to some rows of the first fold, and to more rows while time allows."""
        n = self.fitter.n_rows
        most = min(_MAX_PROBE, n // PROBE_GROWTH)
        if most < _MIN_PROBE:
            return Allowance(clock)
        probed, count = 0, most
        while probed < most and count >= PROBE_GROWTH * probed:
            probed, start = min(max(_FIRST_PROBE, PROBE_GROWTH * probed), most), time.perf_counter()
            fit = self.fitter.fit(member, 0, probed, None, clock.limit)
            if fit.is_interrupted:
                return Allowance(clock, probed, fit)
            took = time.perf_counter() - start
            if probed <= _FIRST_PROBE:
                self.least_seconds = took
            count = self.affordable_rows(member, clock, probed, took)
        if count >= n:
            return Allowance(clock)
        return Allowance(clock, count, fit if count == probed else None)

    def _measure_pace(self, member: Member, clock: Clock) -> Pace | None:
        """Time a member on few rows and columns of the first fold; None if it needs all columns.

        A member that keeps a time limit gets the smallest one, which times its least work.
        """
        if not takes_any_columns(member.estimator):
            return None
        inside = self.fitter.folds[0].member_view(member).inside
        n, d = inside.X.shape
        full = Size(n, d, n_steps(member.estimator))
        least = _MIN_SECONDS if member.keeps_time else None

        def time_fit(size: Size) -> float:
            few = replace(member, estimator=clone_with_steps(member.estimator, size.steps))
            some = inside.draw(size.rows, self.run.again())
            some = replace(some, X=some.X[:, : size.columns])
            start = time.perf_counter()
            with collect_warnings():  # this fit is not kept
                model, _ = few.fit_clone(some, None, least)
            if is_interrupted(model):
                raise KeyboardInterrupt
            return time.perf_counter() - start

        def work(size: Size) -> float:
            return member_work(member.estimator, member.power, size)

        try:
            with restore_interruptions():
                return Pace.measure(full, work, time_fit, lambda: clock.remaining_seconds)
        except Exception:  # the member may fail on few rows or columns alone
            return None

    def _reduce(self, pace: Pace, clock: Clock, *, may_skip: bool) -> Allowance:
        """Return fewer steps or rows for the remaining time; the least fit unless it `may_skip`."""
        found = pace.affordable(max(clock.remaining_seconds, 0.0) / len(self.fitter))
        if found is None and may_skip:
            return Allowance(clock, is_too_slow=True)
        found = found or replace(pace.full, rows=min(pace.full.rows, pace.size.rows), steps=1)
        rows = found.rows if found.rows < pace.full.rows else None
        return Allowance(clock, rows, steps=found.steps if found.steps < pace.full.steps else None)
