"""Fits to folds before a member's turn, where members of gpukfl compute on a GPU.

Worker processes fit the members of other libraries from the beginning. If the turn comes to a fold
that no worker has finished, this process meanwhile fits folds of later members on the GPU. A fit
depends on its arguments alone, and members are judged in their order. Results are therefore the
same as without early fits.
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


class EarlyFits:
    """Fits to all rows of folds that are made before their turn.

    Parameters
    ----------
    fitter : FoldFitter
        The folds and the processes.
    run : Run
        Counts the time.
    would_continue : callable
        Whether a member's next fold would be fitted now, by its result so far.
    make_report : callable
        Returns a function that reports the steps of a member's fits to some folds.

    Attributes
    ----------
    seconds : defaultdict
        Corrections of each member's time, by its name: plus its own early fits, minus early fits
        of others during its turn.
    """

    def __init__(
        self,
        fitter: FoldFitter,
        run: Run,
        would_continue: Callable[[MemberResult], bool],
        make_report: Callable[[Member, range], Report],
        /,
    ) -> None:
        self._fitter, self._run = fitter, run
        self._would_continue, self._make_report = would_continue, make_report
        self._calls: BegunCalls[FoldTask, FoldFit] | None = None  # in worker processes
        self._numbers: dict[tuple[str, int], int] = {}  # of these calls, by member and fold
        self._later: list[Member] = []  # members on the GPU whose turn has not come
        self._results: dict[str, MemberResult] = {}  # of their early fits
        self._outcomes: dict[tuple[str, int], Outcome[FoldFit]] = {}  # by member and fold
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def begin(self, members: Sequence[Member], /) -> list[Member]:
        """Begin fits in worker processes; return the members that workers fit in their turn.

        With a time limit nothing begins early, as the time left decides what is fitted.
        """
        fitter, limited = self._fitter, self._run.remaining_seconds() is not None
        in_workers = [one for one in members if fitter.runs_in_workers(one)]
        others = [one for one in in_workers if not one.takes_any_library]
        on_gpu = [one for one in members if fitter.uses_gpu(one)]
        if limited or not (others and on_gpu):
            return in_workers
        tasks = [FoldTask(one, k, None, None, None) for one in others for k in range(len(fitter))]
        self._numbers = {(task.member.name, task.k): k for k, task in enumerate(tasks)}
        self._later = on_gpu
        self._calls = fitter.begin_tasks(tasks)
        return [one for one in in_workers if one.takes_any_library]

    def end(self) -> None:
        """Drop all fits whose result is no longer needed."""
        if self._calls is not None:
            self._calls.drop()
        self._outcomes.clear()
        self._results.clear()

    def start_turn(self, member: Member, /) -> None:
        """Note that the turn of a member has come."""
        self._later = [one for one in self._later if one is not member]
        self._results.pop(member.name, None)

    def fit_batch(
        self, entry: MemberResult, batch: range, rows: int | None, limit: float | None
    ) -> list[FoldFit]:
        """Fit a member to some folds as `FoldFitter.fit_batch` does, or take its early fits."""
        report, name = self._make_report(entry.member, batch), entry.member.name
        is_early = any((name, batch[0]) in known for known in (self._numbers, self._outcomes))
        if self._calls is None or rows is not None or not is_early:
            return self._fitter.fit_batch(entry, batch, rows, limit, report)
        fits: list[FoldFit] = []
        for k in batch:
            outcome, number = self._outcomes.pop((name, k), None), self._numbers.get((name, k))
            if outcome is None:
                assert number is not None  # batches of members on the GPU have one fold
                while not self._calls.is_made(number) and self._fit_next(entry):
                    pass
                outcome = self._calls.outcome(number, report)
            fits.append(outcome.result())
            if fits[-1].is_interrupted:
                break
        return fits

    def _fit_next(self, current: MemberResult) -> bool:
        """Fit the next fold of the next member on the GPU; return whether there was one.

        Raises
        ------
        KeyboardInterrupt
            If the user interrupts.
        """
        for member in self._later:
            early = self._results.setdefault(
                member.name, MemberResult(member, transform=self._fitter.transform)
            )
            fold = len(early.models)
            has_failed = (member.name, fold) in self._outcomes  # the error is raised in its turn
            if fold < len(self._fitter) and not has_failed and self._would_continue(early):
                self._fit_fold(early, current)
                return True
        return False

    def _fit_fold(self, early: MemberResult, current: MemberResult) -> None:
        """Fit the next fold of a member during the turn of the current one."""
        member, k, run = early.member, len(early.models), self._run
        run.lap("folds", [current.member.name])
        begun = time.perf_counter()
        report = self._make_report(member, range(k, k + 1))
        outcome = call_here(partial(self._fit_or_raise, early), k, report)
        self._outcomes[member.name, k] = outcome
        if outcome.error is None:
            with collect_warnings():  # they come again in its turn
                self._fitter.add_fit(early, outcome.found)
        took = time.perf_counter() - begun
        self.seconds[member.name] += took
        self.seconds[current.member.name] -= took
        run.lap("folds", [member.name])

    def _fit_or_raise(self, early: MemberResult, k: int) -> FoldFit:
        """Fit a fold; raise KeyboardInterrupt if the user interrupted the fit."""
        with restore_interruptions():
            found = self._fitter.fit(early.member, k, None, early.warm_start, None)
        if found.is_interrupted:
            raise KeyboardInterrupt
        return found
