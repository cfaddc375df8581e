"""Training of members on shared folds: who is tried, who is left, and what stays.

Of very many rows a `Race` says in which order. Each member passes through `_enter`: `_skip_reason`
says whether it is begun, `Budget` how many rows and steps there is time for, `_compete` fits it
fold by fold, and `_stop_reason` says when it is left. Those that have done all enter the
`Standings`, which stay whatever happens later.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpukfl._accel.trust import prepare_compiled_code
from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.estimators._run import Report, Run, current_report
from gpukfl.portfolio._ahead import Ahead
from gpukfl.portfolio._budget import FURTHER, Affordable, Budget, Clock
from gpukfl.portfolio._fold_fits import FoldFit, FoldFitter, MemberResult
from gpukfl.portfolio._members import Member, clone_with_steps, n_steps
from gpukfl.portfolio._metrics import Metric, metric_weights
from gpukfl.portfolio._race import Race
from gpukfl.portfolio._standings import Standings, find_twin

SETTLED = "skipped: the blend is already as good as it can be"
SAME = "skipped: same settings as"
UNTRIED = "skipped: would exceed max_time"
_COMPARED = 2  # members of ours that have finished, before the best of all goes on
_GOING_ON, _WORTH_IT = 0.8, 2  # share of the time that is left then; times as many rows


@dataclass(eq=False)
class MemberTrainer:
    """A loop that trains members on the same folds, one after the other.

    Attributes
    ----------
    fitter : FoldFitter
        The folds, and what fits a member to them.
    run : Run
        The time that there is.
    standings : Standings
        What the members have come to.
    budget : Budget
        How many rows and steps there is time for.
    ahead : Ahead
        Fits before their turn, beside a GPU.
    race : Race
        Fits to few of very many rows.
    raced : dict
        By the names of members: the seconds of such fits before their turn.
    stopped : bool
        Whether the user stopped a fit.
    cut_short : bool
        Whether time was too short for something.
    went_on : bool
        Whether the best of the first members had its turn to go on.
    metric : Metric, optional
        What weighs the blend in the end, in place of the loss.
    """

    fitter: FoldFitter
    run: Run
    standings: Standings = field(init=False)
    budget: Budget = field(init=False)
    ahead: Ahead = field(init=False)
    race: Race = field(init=False)
    raced: dict[str, float] = field(default_factory=dict)
    stopped: bool = False
    cut_short: bool = False
    went_on: bool = False
    metric: Metric | None = None

    def __post_init__(self) -> None:
        self.standings = Standings(self.fitter.judge)
        self.budget = Budget(self.fitter, self.run)
        self.race = Race(self.fitter, self.standings)
        self.ahead = Ahead(self.fitter, self.run, self._may_go_on, self._report)

    def train(self, members: Sequence[Member], /) -> None:
        """Fit the members until the time is spent or the user interrupts.

        Raises
        ------
        KeyboardInterrupt
            If none has finished by then.
        RuntimeError
            If none was left.
        """
        try:
            self.fitter.first.expected = self.ahead.begin(members)
            for k, member in enumerate(self._in_order(members)):
                if self.stopped:
                    break
                if (k or member.takes_any_library) and not self.budget.is_over:
                    prepare_compiled_code(self.fitter.folds[0].inside.X)
                    self.run.lap("compiled code")
                self._enter(member, self.budget.member_clock(len(members) - k))
                self._continue_fits(_COMPARED)
            self._continue_fits(0)
            self._retry()
        except KeyboardInterrupt:
            self.stopped = True
            if not self.standings.finished:
                raise
        finally:
            self.ahead.end()
        if not self.standings.finished:
            failed = [one for one in self.standings.entries if one.note]  # trees may only be shown
            notes = "; ".join(f"{one.member.name}: {one.note}" for one in failed)
            msg = f"expected a member of the blend that can be fitted, got none ({notes})"
            raise RuntimeError(msg)
        if self.metric is not None:
            self._weigh_by(self.metric)

    def _in_order(self, members: Sequence[Member]) -> Iterator[Member]:
        """Yield members in their order, and those that race by their losses.

        Who loses least with few rows is fitted to all of them first: beside it others are left.
        Under a time limit nobody races before its turn.
        """
        waiting = list(members)
        while waiting and not self._may_race(waiting[0]):
            yield waiting.pop(0)
        for member in waiting:
            if self._may_race(member) and not self.standings.is_of_no_use(member.like):
                self._race(member)
        yield from self.race.rank(waiting)

    def _may_race(self, member: Member) -> bool:
        in_time = self.run.remaining_seconds() is None
        return in_time and self.race.is_worth_it and self._may_leave(member)

    def _race(self, member: Member) -> None:
        """Fit a member to few rows; what fails has its error in its turn."""
        begun = time.perf_counter()
        try:
            with restore_interruptions():
                self.race.run(member)
        except KeyboardInterrupt:
            self.standings.entries.append(MemberResult(member, note="interrupted"))
            raise
        except Exception as error:
            self.run.note(f"{member.name}, few rows: {_error_text(error)}")
        finally:
            self.raced[member.name] = time.perf_counter() - begun
            self.run.lap("folds", [member.name])

    def _weigh_by(self, metric: Metric) -> None:
        """Set the weights of the blend by a metric, unless the user interrupts."""
        outputs = [one.outputs for one in self.standings.finished]
        left = self.run.remaining_seconds
        try:
            found = metric_weights(metric, self.standings.judge, outputs, left)
        except KeyboardInterrupt:
            self.stopped, found = True, None
        if found is not None:
            self.standings.weights = found
        self.run.lap("weights")

    def _enter(self, member: Member, clock: Clock) -> None:
        """Fit a member to the folds, and add what it has come to."""
        standings = self.standings
        self.ahead.enter(member)
        why_not = self._skip_reason(member)
        if why_not:
            standings.entries.append(MemberResult(member, note=why_not))
            self.run.note(f"{member.text}: {why_not}")
            return
        entry = MemberResult(member, transform=self.fitter.transform)
        weights = standings.weights
        try:
            with restore_interruptions():
                with collect_warnings() as entry.warnings:
                    self._compete(entry, clock)
                self.run.lap("folds", [member.name], len(entry.models))
                if not entry.note and member.blended:
                    weights = standings.weigh([*standings.finished, entry])
                    self.run.lap("weights")
        except Exception as error:  # whatever a member does, the others go on
            entry.note = _error_text(error)
            warn(f"the blend drops {member.name}: {entry.note}")
        except KeyboardInterrupt:
            entry.note = "interrupted"
            standings.entries.append(entry)
            self.run.lap("folds", [member.name])
            raise
        self.run.lap("folds", [member.name])
        entry.seconds += time.perf_counter() - clock.begun + self.ahead.seconds[member.name]
        entry.seconds += self.raced.pop(member.name, 0.0)
        if entry.note:
            entry.models.clear()
        standings.add(entry, weights)
        said = entry.note or f"score {standings.judge.score(entry.losses):.4f}"
        self.run.note(f"{member.text}: {said}, {entry.seconds:.1f} s")

    def _retry(self) -> None:
        """Retry members that were too slow for their share, with all remaining time."""
        for entry in [one for one in self.standings.entries if one.note == UNTRIED]:
            left = self.budget.remaining_seconds
            if left is None or self.stopped or self.budget.is_over:
                return
            self.standings.entries.remove(entry)
            self._enter(entry.whole, Clock(left))

    def _continue_fits(self, ours: int) -> None:
        """Continue the best of the first members with more rows or steps.

        That gains the most. Once, when so many of ours have finished, where time is so short that
        it had less than a quarter. The better of both stays.
        """
        left, n = self.budget.remaining_seconds, self.fitter.n_rows
        finished = self.standings.finished
        known = sum(one.member.takes_any_library for one in finished)
        if left is None or self.stopped or self.went_on or known < ours or not finished:
            return
        self.went_on = ours > 0
        few, clock = self.standings.best(), Clock(left * _GOING_ON)
        affordable: Affordable | None = None
        if few.steps is None:
            rows = self.budget.affordable_rows(few.member, clock, few.rows, few.last_seconds)
            if few.rows * FURTHER > n or rows < _WORTH_IT * few.rows:
                return
            affordable = Affordable(clock, rows if rows < n else None)
        elif clock.limit is None or clock.limit < _WORTH_IT * few.seconds:
            return
        more = MemberResult(few.whole, transform=self.fitter.transform)
        try:
            with restore_interruptions(), collect_warnings() as more.warnings:
                self._compete(more, clock, affordable)
        except Exception as error:  # whatever it does, its fits to few rows are there
            more.note = _error_text(error)
            warn(f"the blend keeps {few.member.name} fitted to fewer rows: {more.note}")
        better = not more.note and more.losses.sum() < few.losses.sum()
        stays = more if better else few
        stays.seconds = few.seconds + time.perf_counter() - clock.begun
        self.run.lap("folds", [few.member.name], len(more.models))
        if better:
            self.standings.replace(few, more)

    def _skip_reason(self, member: Member) -> str:
        """Return why a member is skipped, or an empty string."""
        standings = self.standings
        if standings.finished and self.budget.is_late(member):
            self.cut_short = True
            return UNTRIED
        if member.reference:
            return ""
        if standings.is_of_no_use(member.like):
            return f"skipped: {member.like}, which is similar, is clearly worse"
        twin = find_twin(member, standings.finished)
        if twin:
            return f"{SAME} {twin}"
        settled = standings.finished and standings.judge.is_settled(standings.blend)
        return SETTLED if settled else ""

    def _compete(
        self, entry: MemberResult, clock: Clock, affordable: Affordable | None = None
    ) -> None:
        """Fit folds until all are done, or the member is clearly not useful.

        What is `affordable` is found out, unless it is known.
        """
        member = entry.member
        found = affordable or self.budget.affordable(member, clock, self.standings.finished)
        if found.is_too_slow:
            entry.note, self.cut_short = UNTRIED, True
            return
        if found.steps is not None:
            estimator = clone_with_steps(member.estimator, found.steps)
            entry.member, entry.steps = replace(member, estimator=estimator), found.steps
        if affordable is None and found.rows is None:
            entry.note = self._reason_by_few_rows(entry.member, found.clock.limit)
            entry.behind = bool(entry.note)
            if entry.behind:
                return
            start = self.race.start(member)
            entry.member = entry.member if start is None else replace(entry.member, start=start)
        cut = [] if found.rows is None else [f"{found.rows} rows"]
        if entry.steps is not None:
            cut.append(f"{entry.steps} of {n_steps(member.estimator)} steps")
        if cut:
            self.cut_short = True
            entry.remark = f"scored by fits to {' and '.join(cut)}, as time was short"
        self._fit_folds(entry, found)

    def _fit_folds(self, entry: MemberResult, found: Affordable) -> None:
        """Fit a member fold by fold, until it has done all or is left.

        The first one alone: it says how the others are fitted, which may be at once. They are
        judged one after the other.
        """
        rows, probe, clock = found.rows, found.fit, found.clock
        turns = self.fitter.turns(entry.member, rows)
        for k, turn in enumerate(turns):
            start = time.perf_counter() if probe is None or k else clock.begun
            limit = clock.turn_seconds(k, len(turns))
            fits = [probe] if probe and k == 0 else self._fit_turn(entry, turn, rows, limit)
            entry.rows = len(self.fitter.folds[turn[0]].inside) if rows is None else rows
            entry.last_seconds = time.perf_counter() - start
            for fit in fits:
                self.fitter.add_fit(entry, fit)
                self.stopped = self.stopped or fit.is_interrupted
                if len(entry.models) == len(self.fitter):
                    return
                if fit.is_interrupted:
                    raise KeyboardInterrupt
                entry.note = self._stop_reason(entry, len(turns) - k - 1)
                if entry.note:
                    return

    def _fit_turn(
        self, entry: MemberResult, turn: range, rows: int | None, limit: float | None
    ) -> list[FoldFit]:
        """Fit a member to some folds, and report the progress of the first."""
        return self.ahead.fit_turn(entry, turn, rows, limit)

    def _reason_by_few_rows(self, member: Member, limit: float | None) -> str:
        """Return why a member is left after a fit to few rows, or an empty string."""
        if not (self.race.is_worth_it and self._may_leave(member)):
            return ""
        self.race.run(member, limit)
        return self.race.reason_to_leave(member)

    def _stop_reason(self, entry: MemberResult, turns: int) -> str:
        """Return why a member stops before so many turns are done, or an empty string."""
        done = f"dropped after {len(entry.models)} of {len(self.fitter)} folds"
        entry.behind = self._may_leave(entry.member) and self.standings.is_behind(entry)
        if entry.behind:
            return f"{done}: clearly behind"
        if not self.standings.finished or not self.budget.is_too_short(entry, turns):
            return ""
        self.cut_short = True
        return f"{done}: too slow for the time left"

    def _may_go_on(self, trial: MemberResult) -> bool:
        """Whether a member would have its next turn, if this were it."""
        if not self.standings.finished:
            return False
        if not trial.models:
            return not self._skip_reason(trial.member)
        return not (self._may_leave(trial.member) and self.standings.is_behind(trial))

    def _may_leave(self, member: Member) -> bool:
        """Whether a member need not be tried to the end."""
        return bool(self.standings.finished) and member.blended and not member.reference

    def _report(self, member: Member, folds: range) -> Report:
        """Return a function that reports a member's steps, with the fold and the best score."""
        outer = current_report()
        first, last = folds[0] + 1, folds[-1] + 1
        which = f"fold {first}" if first == last else f"folds {first} to {last}"
        place = f"{member.text}, {which} of {len(self.fitter)}{self.standings.lead_text()}"
        return lambda stage, step, history: outer(f"{place}: {stage}", step, history)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
