"""Fits of members to the folds: in parallel, with held-out predictions and their losses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import numpy as np
from sklearn import config_context, get_config

from gpukfl._accel.threads import free_threads, map_in_shared_threads, n_threads
from gpukfl.core._array import Array, is_host, is_on_gpu, to_host
from gpukfl.core._memory import share_memory
from gpukfl.core._results import History, Status
from gpukfl.estimators._learner import WarmStart
from gpukfl.estimators._run import Report, Run, current_report, use_report
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._workers import (
    BegunCalls,
    Outcome,
    Shared,
    Workers,
    affordable_processes,
    count_processes,
)
from gpukfl.portfolio._attributes import Blended
from gpukfl.portfolio._blend import residual_quantiles
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss, MemberFold
from gpukfl.portfolio._members import Member
from gpukfl.portfolio._monotone import judged_predictor
from gpukfl.predictor import (
    Monotone,
    TargetTransform,
    clip_predictions,
    floor_probabilities,
    member_predictor,
)

# --------------------------------------------------------------------------------- at once

# Fits that do not wait for each other, in threads at the same time.


_MOST_FITS = 4  # more of them wait for the interpreter; what they split fills other threads
_MOST_ROWS, _MOST_ELEMENTS = 20_000, 10**7  # more fill all threads alone, and take memory
_WORTH_PROCESSES = 300  # rows from which fits take longer than processes to begin
_COPIES, _MOST_CENTERS = 4, 3_000  # of a kernel of all rows with so many that one fit holds
_IMPORTED = "gpukfl.portfolio", "gpukfl._accel.cpu_distances", "gpukfl._accel.cpu_differences"

Given = TypeVar("Given")
Found = TypeVar("Found")


def n_parallel_fits(member: Member, samples: Samples, some: int | None = None, /) -> int:
    """Return how many fits of a member run in parallel.

    One on a GPU, whose launches take turns with the interpreter, and of members of others, which
    threads may not suit.
    """
    if not member.takes_any_library or not is_host(samples.X):
        return 1
    n, d = samples.X.shape
    n = n if some is None else min(n, some)
    if uses_gpu(member, samples, n):
        return 1
    apt = member.at_once_from <= n <= _MOST_ROWS and n * d <= _MOST_ELEMENTS
    return min(free_threads(), _MOST_FITS) if apt else 1


def uses_gpu(member: Member, samples: Samples, n: int, /) -> bool:
    """Return whether a fit of a member to n of the samples computes on a GPU."""
    if not member.takes_any_library:
        return False
    try:
        return bool(member.estimator.fits_on_gpu(samples.X, n))
    except (TypeError, ValueError, RuntimeError):  # its fit will say so
        return False


def usual_jobs(estimator: Any, n: int, /) -> dict[str, int]:
    """Return `n_jobs` for a fit to n rows, where an estimator has it and the user did not set it.

    As many as there are threads, from so many rows on that it pays.
    """
    if getattr(estimator, "n_jobs", 0) is not None:
        return {}
    return {"n_jobs": n_threads() if n >= _WORTH_PROCESSES else 1}


def start_workers(n_jobs: int | None, X: Array, reference: Array, /) -> Workers:
    """Return the processes that fit members to rows (n, d).

    One where rows are so many that they would fill memory. Beside a GPU the others fit what does
    not compute there; where rows are many, one process does, with threads.
    """
    on_gpu, (n, d) = is_on_gpu(reference), X.shape
    if isinstance(X, np.memmap) or not (on_gpu or (is_host(X) and is_host(reference))):
        return Workers()
    count, many = count_processes(n_jobs), n > _MOST_ROWS or n * d > _MOST_ELEMENTS
    if many:
        if not on_gpu:
            return Workers()
        count = min(count, 2)
    centers = 0 if many else min(n, _MOST_CENTERS)
    kernels = _COPIES * n * (centers + d) * np.dtype(np.float64).itemsize
    return Workers(affordable_processes(count, np.empty(0), kernels), _IMPORTED)


def fit_in_parallel(
    fit: Callable[[Given], Found], given: Sequence[Given], report: Report | None = None, /
) -> list[Found]:
    """Call `fit` on each argument in parallel threads; the first one reports progress.

    Scikit-learn's settings, which are of a thread, are those of the caller. Where it is
    interrupted, or one fails, the others end at their next step.
    """
    report, settings, wanted = report or current_report(), get_config(), True
    if len(given) == 1:
        with use_report(report):
            return [fit(given[0])]

    def run_one(k: int, one: Given) -> Found:
        def tell(stage: str, step: int, history: History) -> None:
            if not wanted:
                raise KeyboardInterrupt
            if k == 0:
                report(stage, step, history)

        with config_context(**settings), use_report(tell), share_memory(len(given)):
            return fit(one)

    try:
        return map_in_shared_threads(run_one, range(len(given)), given)
    finally:
        wanted = False


# --------------------------------------------------------------------------------- results

# What a fit to a fold came to, and what a member has done so far.


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A member's fit to a fold.

    Attributes
    ----------
    model : estimator
        That was fitted.
    precedent : WarmStart or None
        What its setting came to.
    predicted : array, shape (m, t)
        Of the rows that the fold holds out.
    """

    model: Any
    precedent: WarmStart[Any] | None
    predicted: np.ndarray

    @property
    def is_interrupted(self) -> bool:
        """Whether the user stopped the fit."""
        return is_interrupted(self.model)


def is_interrupted(model: Any, /) -> bool:
    """Whether the user stopped a fit."""
    return getattr(model, "status_", "") == Status.INTERRUPTED.name


def is_limited(model: Any, /) -> bool:
    """Whether the time limit ended a fit."""
    return getattr(model, "status_", "") == Status.TIME_LIMIT.name


@dataclass(eq=False)
class MemberResult:
    """The results of a member so far.

    Attributes
    ----------
    member : Member
        Who.
    models : list
        One for each fold.
    predicted : list of arrays, shape (m_k, t)
        Of the rows that each fold holds out, of transformed targets where they are.
    losses : array, shape (m,)
        Of these rows.
    precedent : WarmStart or None
        What its first fit came to.
    starts : list of WarmStart
        What each of its fits came to.
    seconds : float
        That it took.
    rows : int
        To which each of its fits was.
    steps : int or None
        Of each of its fits, where there was no time for all that it was made with.
    whole : Member
        As it was made, with all of them.
    last_seconds : float
        That the last of them took, with its predictions.
    note : str
        Why it has not done all; empty where it has.
    behind : bool
        Whether it was left because it was clearly behind.
    remark : str
        What else is to be said.
    warnings : list of str
        What its fits warned of.
    transform : TargetTransform or None
        Of the targets that it is fitted to.
    residuals : array, shape (q, t), or None
        Quantiles of what its predictions of transformed targets are short of.
    """

    member: Member
    models: list[Any] = field(default_factory=list)
    predicted: list[np.ndarray] = field(default_factory=list)
    losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    precedent: WarmStart[Any] | None = None
    starts: list[WarmStart[Any]] = field(default_factory=list)
    seconds: float = 0.0
    rows: int = 1
    steps: int | None = None
    last_seconds: float = 0.0
    note: str = ""
    behind: bool = False
    remark: str = ""
    warnings: list[str] = field(default_factory=list)
    transform: TargetTransform | None = None
    residuals: np.ndarray | None = None
    whole: Member = field(init=False)

    def __post_init__(self) -> None:
        self.whole = self.member

    def add(self, fit: FoldFit, /) -> None:
        """Add the result of a fold."""
        self.models.append(fit.model)
        self.predicted.append(fit.predicted)
        if fit.precedent is not None:
            self.starts.append(fit.precedent)
        if self.precedent is None:  # the same for all others, whatever is fitted at once
            self.precedent = fit.precedent

    def expected_seconds(self, n: int, /) -> float:
        """Return the expected seconds of a fit to n rows; 0 for members with a time limit."""
        if self.member.keeps_time:
            return 0.0
        return self.last_seconds * (n / self.rows) ** self.member.power

    @property
    def outputs(self) -> np.ndarray:
        """Held-out predictions so far (m, t), in the targets' units."""
        found = np.concatenate(self.predicted)
        if self.transform is None or self.residuals is None:
            return found
        return to_host(self.transform.mean(found, self.residuals))

    def to_blend_member(self, weight: float, /) -> Blended:
        """Return the result as a member of a blend with a weight."""
        name, sees = self.member.name, self.member.sees
        return Blended(name, weight, self.models, self.residuals, sees)


# ---------------------------------------------------------------------------------- folds

# The folds that all members share, and what a model predicts of the rows that they hold out.


@dataclass(frozen=True, eq=False)
class FoldTask:
    """A fit of a member to a fold: the arguments of `FoldFitter.fit`."""

    member: Member
    k: int
    rows: int | None
    precedent: WarmStart[Any] | None
    limit: float | None


@dataclass(eq=False)
class FirstFits:
    """Fits of members to the first fold, beside those of the members before them.

    Attributes
    ----------
    expected : list of Member
        Who will be fitted, in this order, unless there is a reason against it.
    names : list of str
        Whose fits have been asked for.
    outcomes : iterator of Outcome
        Of these, in their order.
    """

    expected: list[Member] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    outcomes: Iterator[Outcome[FoldFit]] = field(default_factory=lambda: iter(()))

    def choose(self, member: Member, /) -> list[Member]:
        """Return a member and all those after it whose fits need no other's."""
        names = [one.name for one in self.expected]
        place = names.index(member.name) + 1 if member.name in names else len(names)
        return [member, *(one for one in self.expected[place:] if not one.like)]

    def find(self, name: str, /) -> Outcome[FoldFit] | None:
        """Return the outcome of a member whose fit was asked for, or None."""
        while self.names:
            known, outcome = self.names.pop(0), next(self.outcomes)
            if known == name:
                return outcome
        return None


@dataclass(frozen=True, eq=False)
class FoldFitter:
    """What fits a member to folds, and judges its held-out predictions.

    Attributes
    ----------
    folds : sequence of MemberFold
        Rows to fit and rows that judge.
    judge : HeldOutLoss
        Of the rows that are held out, in the order of the folds.
    run : Run
        The random numbers, by which some of the rows are drawn.
    floor : float
        Lowest probability.
    transform : TargetTransform or None
        Of the targets in the folds.
    reach : array, shape (2, t), or None
        Lowest and highest prediction of such targets; None of classes.
    workers : Workers
        Processes that fit folds, and members, at the same time.
    first : FirstFits
        Of the next members.
    monotone : Monotone or None
        What makes predictions of rows rise or fall with columns, before they are judged.
    """

    folds: Sequence[MemberFold]
    judge: HeldOutLoss
    run: Run
    floor: float
    transform: TargetTransform | None = None
    reach: np.ndarray | None = None
    workers: Workers = field(default_factory=Workers)
    first: FirstFits = field(default_factory=FirstFits)
    monotone: Monotone | None = None

    def __len__(self) -> int:
        return len(self.folds)

    @property
    def n_rows(self) -> int:
        """The number of rows that the first fold is fitted to."""
        return len(self.folds[0].inside)

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 in a regression."""
        return self.judge.truth.shape[1] if isinstance(self.judge, LogLoss) else 0

    def turns(self, member: Member, rows: int | None) -> list[range]:
        """Return the groups of folds to fit in parallel: the first one is alone."""
        count = len(self)
        if self.is_sent(member):
            width = self.workers.n_at_once(limited=self.run.remaining_seconds() is not None)
        else:
            width = n_parallel_fits(member, self.folds[0].inside, rows)
        turns = [range(k, min(k + width, count)) for k in range(1, count, width)]
        return [range(1), *turns]

    def fit_turn(
        self,
        entry: MemberResult,
        turn: range,
        rows: int | None,
        limit: float | None,
        report: Report,
    ) -> list[FoldFit]:
        """Fit a member to some folds in parallel; those after an interrupted one are left out."""
        if not self.is_sent(entry.member):
            return fit_in_parallel(
                lambda k: self.fit(entry.member, k, rows, entry.precedent, limit), turn, report
            )
        if turn == range(1) and rows is None and limit is None:
            return [self._fit_first(entry, report)]
        tasks = [FoldTask(entry.member, k, rows, entry.precedent, limit) for k in turn]
        fits = []
        for outcome in self.fit_tasks(tasks, report):
            fits.append(outcome.result())
            if fits[-1].is_interrupted:
                break
        return fits

    def _fit_first(self, entry: MemberResult, report: Report) -> FoldFit:
        """Fit a member to the first fold, while other processes do so with all that follow.

        The first fold learns metrics from nothing: for one member it can take as long as all else.
        Where another process has fitted it already, its seconds are those that it took there.
        """
        begun, name, first = time.perf_counter(), entry.member.name, self.first
        outcome = first.find(name) if name in first.names else None
        if outcome is not None:
            entry.seconds += outcome.seconds - (time.perf_counter() - begun)
            return outcome.result()
        members = first.choose(entry.member)
        tasks = [FoldTask(one, 0, None, None, None) for one in members]
        first.outcomes = self.fit_tasks(tasks, report)
        first.names = [one.name for one in members[1:]]
        return next(first.outcomes).result()

    def fit_tasks(self, tasks: Sequence[FoldTask], report: Report, /) -> Iterator[Outcome[FoldFit]]:
        """Fit any members to any folds in all processes; yield the outcomes in their order."""
        return self.workers.map(partial(_fit_task, self._shared), tasks, report)

    def begin_tasks(self, tasks: Sequence[FoldTask], /) -> BegunCalls[FoldTask, FoldFit]:
        """Begin fits in the other processes, of members that are sent to them."""
        return self.workers.begin(partial(_fit_task, self._shared), tasks)

    def is_sent(self, member: Member, /) -> bool:
        """Whether processes fit a member: none that computes on a GPU, which all would share."""
        return self.workers.count > 1 and not self.uses_gpu(member)

    def uses_gpu(self, member: Member, /) -> bool:
        """Whether fits of a member to folds compute on a GPU."""
        most = max(len(fold.inside) for fold in self.folds)
        return uses_gpu(member, self.folds[0].inside, most)

    @cached_property
    def _shared(self) -> Shared[FoldFitter]:
        folds = self.folds
        if not is_host(folds[0].inside.X):  # tables are on the host
            folds = [fold.host_fold for fold in folds]
        return self.workers.share(replace(self, folds=folds, first=FirstFits()))

    def fit(
        self,
        member: Member,
        k: int,
        rows: int | None,
        precedent: WarmStart[Any] | None,
        limit: float | None,
    ) -> FoldFit:
        """Fit a member to fold k, or to a sample of its rows."""
        data = self.folds[k].member_view(member)
        inside = data.inside
        if rows is not None:
            inside = inside.draw(rows, self.run.again())
        model, precedent = member.in_fold(len(inside)).fit_clone(inside, precedent, limit)
        return FoldFit(model, precedent, self.predict(model, data.outside))

    def predict(self, model: Any, samples: Samples, /) -> np.ndarray:
        """Return the clipped predictions of a member's model on the host."""
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            predictor = judged_predictor(member_predictor(model), self.monotone)
            found = predictor.outputs_by_blocks(samples.X, self.n_classes)
        found = to_host(found)
        if not np.isfinite(found).all():
            msg = "expected finite predictions, got NaN or infinity"
            raise FloatingPointError(msg)
        within = (
            floor_probabilities(found, self.floor)
            if self.n_classes
            else clip_predictions(found, self.reach)
        )
        return to_host(within)

    def add_fit(self, entry: MemberResult, fit: FoldFit, /) -> None:
        """Add a fit to a result, and judge all its predictions so far."""
        entry.add(fit)
        rows = slice(0, sum(map(len, entry.predicted)))
        if self.transform is not None:
            short = self.transform.forward(self.judge.truth[rows]) - np.concatenate(entry.predicted)
            entry.residuals = residual_quantiles(short, self.judge.weights[rows])
        entry.losses = self.judge.losses(entry.outputs, rows)


def _fit_task(shared: Shared[FoldFitter], task: FoldTask) -> FoldFit:
    return shared.value.fit(task.member, task.k, task.rows, task.precedent, task.limit)
