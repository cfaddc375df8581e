"""Training of members on shared folds: which are fitted, which are dropped, and which are kept.

With very many rows a `Race` decides the order. `_train_member` fits each member: `_skip_reason`
decides whether it starts, and `Budget` how many rows and steps it gets. `_fit_within_budget` fits
it fold by fold, and `_stop_reason` decides whether it stops early. `Standings` keeps all results.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from gpukfl._accel.trust import prepare_compiled_code
from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.estimators._run import Report, Run, current_report
from gpukfl.portfolio._budget import PROBE_GROWTH, Allowance, Budget, Clock
from gpukfl.portfolio._early_fits import EarlyFits
from gpukfl.portfolio._fold_fits import FoldFitter, MemberResult
from gpukfl.portfolio._members import Member, clone_with_steps, n_steps
from gpukfl.portfolio._metrics import Metric, metric_weights
from gpukfl.portfolio._race import Race
from gpukfl.portfolio._standings import Standings, find_twin

# Notes of skipped members
SKIP_PERFECT = "skipped: the blend is already as good as it can be"
SKIP_SAME = "skipped: same settings as"
SKIP_NO_TIME = "skipped: would exceed max_time"
_MIN_FINISHED = 2  # members of gpukfl that finish before the best result is continued
_CONTINUE_SHARE = 0.8  # of the time left, for continuing the best result
_CONTINUE_RATIO = 2  # continue only if rows, or seconds, grow by this factor


@dataclass(eq=False)
class MemberTrainer:
    """Trainer of members, one after the other, on the same folds.

    Attributes
    ----------
    fitter : FoldFitter
        Fits members to the folds.
    run : Run
        Time limit, random numbers and progress of the fit.
    standings : Standings
        Results so far.
    budget : Budget
        Number of rows and steps that the time allows.
    early_fits : EarlyFits
        Fits of later members while the current one is waited for.
    race : Race
        Fits to few of very many rows.
    race_seconds : dict
        Seconds of each member's race, by its name, until its own result has them.
    stopped : bool
        Whether the user interrupted a fit.
    cut_short : bool
        Whether some member was skipped or reduced because time was short.
    has_continued : bool
        Whether the best of the first members was continued.
    metric : Metric, optional
        Metric that weights the blend at the end, instead of the loss.
    """

    fitter: FoldFitter
    run: Run
    standings: Standings = field(init=False)
    budget: Budget = field(init=False)
    early_fits: EarlyFits = field(init=False)
    race: Race = field(init=False)
    race_seconds: dict[str, float] = field(default_factory=dict)
    stopped: bool = False
    cut_short: bool = False
    has_continued: bool = False
    metric: Metric | None = None

    def __post_init__(self) -> None:
        self.standings = Standings(self.fitter.judge)
        self.budget = Budget(self.fitter, self.run)
        self.race = Race(self.fitter, self.standings)
        self.early_fits = EarlyFits(self.fitter, self.run, self._would_continue, self._report)

    def train(self, members: Sequence[Member], /) -> None:
        """Fit the members until the time is over or the user interrupts.

        Raises
        ------
        KeyboardInterrupt
            If no member has finished by then.
        RuntimeError
            If no member could be fitted.
        """
        try:
            self.fitter.first_fits.upcoming = self.early_fits.begin(members)
            for k, member in enumerate(self._order_members(members)):
                if self.stopped:
                    break
                if (k or member.takes_any_library) and not self.budget.is_over:
                    prepare_compiled_code(self.fitter.folds[0].inside.X)
                    self.run.lap("compiled code")
                self._train_member(member, self.budget.member_clock(len(members) - k))
                self._continue_best(_MIN_FINISHED)
            self._continue_best(0)
            self._retry()
        except KeyboardInterrupt:
            self.stopped = True
            if not self.standings.finished:
                raise
        finally:
            self.early_fits.end()
        if not self.standings.finished:
            failed = [one for one in self.standings.entries if one.note]  # trees may only be shown
            notes = "; ".join(f"{one.member.name}: {one.note}" for one in failed)
            msg = f"expected a member of the blend that can be fitted, got none ({notes})"
            raise RuntimeError(msg)
        if self.metric is not None:
            self._set_metric_weights(self.metric)

    def _order_members(self, members: Sequence[Member]) -> Iterator[Member]:
        """Yield members as given until one can race, then the others by their losses in the race.

        The best of the race is fitted first, so that the others are compared with it. With a time
        limit there is no race for the order.
        """
        waiting = list(members)
        while waiting and not self._can_race(waiting[0]):
            yield waiting.pop(0)
        for member in waiting:
            if self._can_race(member) and not self.standings.is_useless(member.like):
                self._race(member)
        yield from self.race.rank(waiting)

    def _can_race(self, member: Member) -> bool:
        unlimited = self.run.remaining_seconds() is None
        return unlimited and self.race.is_worth_it and self._can_drop(member)

    def _race(self, member: Member) -> None:
        """Fit a member to few rows; an error is only noted, as the full fit raises it again."""
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
            self.race_seconds[member.name] = time.perf_counter() - begun
            self.run.lap("folds", [member.name])

    def _set_metric_weights(self, metric: Metric) -> None:
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

    def _train_member(self, member: Member, clock: Clock) -> None:
        """Fit a member to the folds, and add its result to the standings."""
        standings = self.standings
        self.early_fits.start_turn(member)
        skipped = self._skip_reason(member)
        if skipped:
            standings.entries.append(MemberResult(member, note=skipped))
            self.run.note(f"{member.text}: {skipped}")
            return
        entry = MemberResult(member, transform=self.fitter.transform)
        weights = standings.weights
        try:
            with restore_interruptions():
                with collect_warnings() as entry.warnings:
                    self._fit_within_budget(entry, clock)
                self.run.lap("folds", [member.name], len(entry.models))
                if not entry.note and member.blended:
                    weights = standings.weigh([*standings.finished, entry])
                    self.run.lap("weights")
        except Exception as error:  # an error of one member does not stop the others
            entry.note = _error_text(error)
            warn(f"the blend drops {member.name}: {entry.note}")
        except KeyboardInterrupt:
            entry.note = "interrupted"
            standings.entries.append(entry)
            self.run.lap("folds", [member.name])
            raise
        self.run.lap("folds", [member.name])
        entry.seconds += time.perf_counter() - clock.started
        entry.seconds += self.early_fits.seconds[member.name]
        entry.seconds += self.race_seconds.pop(member.name, 0.0)
        if entry.note:
            entry.models.clear()
        standings.add(entry, weights)
        said = entry.note or f"score {standings.judge.score(entry.losses):.4f}"
        self.run.note(f"{member.text}: {said}, {entry.seconds:.1f} s")

    def _retry(self) -> None:
        """Retry members that were too slow for their share, with all remaining time."""
        for entry in [one for one in self.standings.entries if one.note == SKIP_NO_TIME]:
            left = self.budget.remaining_seconds
            if left is None or self.stopped or self.budget.is_over:
                return
            self.standings.entries.remove(entry)
            self._train_member(entry.full_member, Clock(left))

    def _continue_best(self, min_finished: int) -> None:
        """Fit the best member so far again, with more rows or steps, if time was short for it.

        This happens once, when enough members of gpukfl have finished. The better of the two
        results is kept.
        """
        left, n = self.budget.remaining_seconds, self.fitter.n_rows
        finished = self.standings.finished
        n_own = sum(one.member.takes_any_library for one in finished)
        if left is None or self.stopped or self.has_continued or n_own < min_finished:
            return
        if not finished:
            return
        self.has_continued = min_finished > 0
        few, clock = self.standings.best(), Clock(left * _CONTINUE_SHARE)
        allowance: Allowance | None = None
        if few.steps is None:
            rows = self.budget.affordable_rows(few.member, clock, few.rows, few.last_seconds)
            if few.rows * PROBE_GROWTH > n or rows < _CONTINUE_RATIO * few.rows:
                return
            allowance = Allowance(clock, rows if rows < n else None)
        elif clock.limit is None or clock.limit < _CONTINUE_RATIO * few.seconds:
            return
        more = MemberResult(few.full_member, transform=self.fitter.transform)
        try:
            with restore_interruptions(), collect_warnings() as more.warnings:
                self._fit_within_budget(more, clock, allowance)
        except Exception as error:  # the fits to fewer rows are kept
            more.note = _error_text(error)
            warn(f"the blend keeps {few.member.name} fitted to fewer rows: {more.note}")
        better = not more.note and more.losses.sum() < few.losses.sum()
        kept = more if better else few
        kept.seconds = few.seconds + time.perf_counter() - clock.started
        self.run.lap("folds", [few.member.name], len(more.models))
        if better:
            self.standings.replace(few, more)

    def _skip_reason(self, member: Member) -> str:
        """Return why a member is skipped, or an empty string."""
        standings = self.standings
        if standings.finished and self.budget.lacks_time_for(member):
            self.cut_short = True
            return SKIP_NO_TIME
        if member.reference:
            return ""
        if standings.is_useless(member.like):
            return f"skipped: {member.like}, which is similar, is clearly worse"
        twin = find_twin(member, standings.finished)
        if twin:
            return f"{SKIP_SAME} {twin}"
        perfect = standings.finished and standings.judge.is_nearly_perfect(standings.blend)
        return SKIP_PERFECT if perfect else ""

    def _fit_within_budget(
        self, entry: MemberResult, clock: Clock, allowance: Allowance | None = None
    ) -> None:
        """Fit all folds, or stop early; without an allowance the budget measures one."""
        member = entry.member
        found = allowance or self.budget.measure_allowance(member, clock, self.standings.finished)
        if found.is_too_slow:
            entry.note, self.cut_short = SKIP_NO_TIME, True
            return
        if found.steps is not None:
            estimator = clone_with_steps(member.estimator, found.steps)
            entry.member, entry.steps = replace(member, estimator=estimator), found.steps
        if allowance is None and found.rows is None:
            entry.note = self._race_drop_reason(entry.member, found.clock.limit)
            entry.is_behind = bool(entry.note)
            if entry.is_behind:
                return
            start = self.race.warm_start(member)
            entry.member = entry.member if start is None else replace(entry.member, start=start)
        cut = [] if found.rows is None else [f"{found.rows} rows"]
        if entry.steps is not None:
            cut.append(f"{entry.steps} of {n_steps(member.estimator)} steps")
        if cut:
            self.cut_short = True
            entry.remark = f"scored by fits to {' and '.join(cut)}, as time was short"
        self._fit_folds(entry, found)

    def _fit_folds(self, entry: MemberResult, found: Allowance) -> None:
        """Fit a member in batches of folds, until all are fitted or it stops early.

        The first batch is one fold, whose fit gives the settings of the others. Folds of a batch
        may be fitted in parallel, and are judged in their order.
        """
        rows, probe, clock = found.rows, found.fit, found.clock
        batches = self.fitter.batches(entry.member, rows)
        for k, batch in enumerate(batches):
            start = time.perf_counter() if probe is None or k else clock.started
            limit = clock.batch_seconds(k, len(batches))
            if probe and k == 0:
                fits = [probe]
            else:
                fits = self.early_fits.fit_batch(entry, batch, rows, limit)
            entry.rows = len(self.fitter.folds[batch[0]].inside) if rows is None else rows
            entry.last_seconds = time.perf_counter() - start
            for fit in fits:
                self.fitter.add_fit(entry, fit)
                self.stopped = self.stopped or fit.is_interrupted
                if len(entry.models) == len(self.fitter):
                    return
                if fit.is_interrupted:
                    raise KeyboardInterrupt
                entry.note = self._stop_reason(entry, len(batches) - k - 1)
                if entry.note:
                    return

    def _race_drop_reason(self, member: Member, limit: float | None) -> str:
        """Return why a member is dropped after a fit to few rows, or an empty string."""
        if not (self.race.is_worth_it and self._can_drop(member)):
            return ""
        self.race.run(member, limit)
        return self.race.drop_reason(member)

    def _stop_reason(self, entry: MemberResult, n_batches: int) -> str:
        """Return why a member stops before its last `n_batches` batches, or an empty string."""
        done = f"dropped after {len(entry.models)} of {len(self.fitter)} folds"
        entry.is_behind = self._can_drop(entry.member) and self.standings.is_behind(entry)
        if entry.is_behind:
            return f"{done}: clearly behind"
        if not self.standings.finished:
            return ""
        if not self.budget.lacks_time_for_batches(entry, n_batches):
            return ""
        self.cut_short = True
        return f"{done}: too slow for the time left"

    def _would_continue(self, result: MemberResult) -> bool:
        """Whether a member's next fold would be fitted if it were its turn now."""
        if not self.standings.finished:
            return False
        if not result.models:
            return not self._skip_reason(result.member)
        return not (self._can_drop(result.member) and self.standings.is_behind(result))

    def _can_drop(self, member: Member) -> bool:
        """Whether a member may be dropped before all its folds are fitted."""
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
