"""Fits to folds before their turn, where members of ours compute on a GPU and the host is idle.

Other processes fit the members of other libraries from the beginning. Where the turn comes to one
that is not done, folds of the members on the GPU that follow are fitted meanwhile. What a fit finds
hangs on its arguments alone: members are judged in their order, by the same models, whenever these
were fitted.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial

from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._warnings import collect_warnings
from gpukfl.estimators._run import Report, Run
from gpukfl.estimators._workers import BegunCalls, Outcome, call_here
from gpukfl.portfolio._fold_fits import FoldFit, FoldFitter, FoldTask, MemberResult
from gpukfl.portfolio._members import Member


class Ahead:
    """Fits to all rows of folds that are made before their turn.

    Parameters
    ----------
    fitter : FoldFitter
        The folds, and the processes.
    run : Run
        Where its time is counted.
    may_go_on : callable
        Whether a member would have its next turn, by its result so far and all that is known.
    report : callable
        What reports the steps of a member's fits to some folds.

    Attributes
    ----------
    seconds : defaultdict
        By the names of members: spent in this process before their turn, less what was spent on
        others in it.
    """

    def __init__(
        self,
        fitter: FoldFitter,
        run: Run,
        may_go_on: Callable[[MemberResult], bool],
        report: Callable[[Member, range], Report],
        /,
    ) -> None:
        self._fitter, self._run = fitter, run
        self._may_go_on, self._report = may_go_on, report
        self._numbers: dict[tuple[str, int], int] = {}  # of the calls, by member and fold
        self._begun: BegunCalls[FoldTask, FoldFit] | None = None
        self._waiting: list[Member] = []  # on the GPU
        self._trials: dict[str, MemberResult] = {}
        self._made: dict[tuple[str, int], Outcome[FoldFit]] = {}
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def begin(self, members: Sequence[Member], /) -> list[Member]:
        """Begin fits in other processes; return the members that these fit in their turn.

        Under a time limit nothing is begun: then the time says what is fitted.
        """
        fitter, limited = self._fitter, self._run.remaining_seconds() is not None
        sent = [one for one in members if fitter.is_sent(one)]
        others = [one for one in sent if not one.takes_any_library]
        waiting = [one for one in members if fitter.uses_gpu(one)]
        if limited or not (others and waiting):
            return sent
        tasks = [FoldTask(one, k, None, None, None) for one in others for k in range(len(fitter))]
        self._numbers = {(task.member.name, task.k): k for k, task in enumerate(tasks)}
        self._waiting = waiting
        self._begun = fitter.begin_tasks(tasks)
        return [one for one in sent if one.takes_any_library]

    def end(self) -> None:
        """Drop what is not asked for any more."""
        if self._begun is not None:
            self._begun.drop()
        self._made.clear()
        self._trials.clear()

    def enter(self, member: Member, /) -> None:
        """Note that the turn of a member has come."""
        self._waiting = [one for one in self._waiting if one is not member]
        self._trials.pop(member.name, None)

    def fit_turn(
        self, entry: MemberResult, turn: range, rows: int | None, limit: float | None
    ) -> list[FoldFit]:
        """Fit a member to some folds as `FoldFitter.fit_turn` does, or take what is made."""
        report, name = self._report(entry.member, turn), entry.member.name
        is_known = any((name, turn[0]) in known for known in (self._numbers, self._made))
        if self._begun is None or rows is not None or not is_known:
            return self._fitter.fit_turn(entry, turn, rows, limit, report)
        fits: list[FoldFit] = []
        for k in turn:
            made, number = self._made.pop((name, k), None), self._numbers.get((name, k))
            if made is None:
                assert number is not None  # turns of members on the GPU are of one fold
                while not self._begun.is_made(number) and self._fit_next(entry):
                    pass
                made = self._begun.outcome(number, report)
            fits.append(made.result())
            if fits[-1].is_interrupted:
                break
        return fits

    def _fit_next(self, current: MemberResult) -> bool:
        """Fit the next fold of the next member on the GPU; return whether there was one.

        Raises
        ------
        KeyboardInterrupt
            Where the user stops it.
        """
        for member in self._waiting:
            trial = self._trials.setdefault(
                member.name, MemberResult(member, transform=self._fitter.transform)
            )
            if self._may_have_another(trial):
                self._fit_fold(trial, current)
                return True
        return False

    def _may_have_another(self, trial: MemberResult) -> bool:
        name, done = trial.member.name, len(trial.models)
        has_failed = (name, done) in self._made  # which its turn will say
        return done < len(self._fitter) and not has_failed and self._may_go_on(trial)

    def _fit_fold(self, trial: MemberResult, current: MemberResult) -> None:
        member, k, run = trial.member, len(trial.models), self._run
        run.lap("folds", [current.member.name])
        begun = time.perf_counter()
        fit = partial(self._fit_watched, member, trial)
        made = self._made[member.name, k] = call_here(fit, k, self._report(member, range(k, k + 1)))
        if made.error is None:
            with collect_warnings():  # they come again in its turn
                self._fitter.add_fit(trial, made.found)
        took = time.perf_counter() - begun
        self.seconds[member.name] += took
        self.seconds[current.member.name] -= took
        run.lap("folds", [member.name])

    def _fit_watched(self, member: Member, trial: MemberResult, k: int) -> FoldFit:
        with restore_interruptions():
            found = self._fitter.fit(member, k, None, trial.precedent, None)
        if found.is_interrupted:
            raise KeyboardInterrupt
        return found
