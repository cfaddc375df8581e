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
from gpukfl.portfolio._monotone import project_predictor
from gpukfl.predictor import (
    Monotone,
    TargetTransform,
    clip_predictions,
    floor_probabilities,
    member_predictor,
)

# -------------------------------------------------------------------- fits at the same time

_MAX_PARALLEL_FITS = 4  # threads of fits: more would wait for the interpreter
_MAX_ROWS, _MAX_ELEMENTS = 20_000, 10**7  # of parallel fits: a larger fit fills all threads alone
_MIN_ROWS_FOR_PROCESSES = 300  # below, starting processes takes longer than the fits
_KERNEL_COPIES, _MAX_KERNEL_CENTERS = 4, 3_000  # that one fit holds in memory
# Modules that worker processes import when they start
_PRELOADED = "gpukfl.portfolio", "gpukfl._accel.cpu_distances", "gpukfl._accel.cpu_differences"

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def n_parallel_fits(member: Member, samples: Samples, some: int | None = None, /) -> int:
    """Return how many fits of a member to `some` of the samples run in parallel threads.

    It is 1 on a GPU, whose launches wait for the interpreter. It is also 1 for members of other
    libraries, which may not be thread-safe.
    """
    if not member.takes_any_library or not is_host(samples.X):
        return 1
    n, d = samples.X.shape
    n = n if some is None else min(n, some)
    if uses_gpu(member, samples, n):
        return 1
    suits = member.at_once_from <= n <= _MAX_ROWS and n * d <= _MAX_ELEMENTS
    return min(free_threads(), _MAX_PARALLEL_FITS) if suits else 1


def uses_gpu(member: Member, samples: Samples, n: int, /) -> bool:
    """Return whether a fit of a member to n of the samples computes on a GPU."""
    if not member.takes_any_library:
        return False
    try:
        return bool(member.estimator.fits_on_gpu(samples.X, n))
    except (TypeError, ValueError, RuntimeError):  # the fit raises it again
        return False


def default_jobs(estimator: Any, n: int, /) -> dict[str, int]:
    """Return `n_jobs` for a fit to n rows, if the estimator has it and the user did not set it.

    All threads, or 1 for few rows.
    """
    if getattr(estimator, "n_jobs", 0) is not None:
        return {}
    return {"n_jobs": n_threads() if n >= _MIN_ROWS_FOR_PROCESSES else 1}


def start_workers(n_jobs: int | None, X: Array, reference: Array, /) -> Workers:
    """Return the processes that fit members to rows (n, d).

    For many rows on the host there is only this process, as others would fill the memory. With a
    GPU, other processes fit the members that do not use it: for many rows one with threads.
    """
    on_gpu, (n, d) = is_on_gpu(reference), X.shape
    if isinstance(X, np.memmap) or not (on_gpu or (is_host(X) and is_host(reference))):
        return Workers()
    count, many = count_processes(n_jobs), n > _MAX_ROWS or n * d > _MAX_ELEMENTS
    if many:
        if not on_gpu:
            return Workers()
        count = min(count, 2)
    centers = 0 if many else min(n, _MAX_KERNEL_CENTERS)
    kernels = _KERNEL_COPIES * n * (centers + d) * np.dtype(np.float64).itemsize
    return Workers(affordable_processes(count, np.empty(0), kernels), _PRELOADED)


def fit_in_parallel(
    fit: Callable[[Argument], Result], given: Sequence[Argument], report: Report | None = None, /
) -> list[Result]:
    """Call `fit` on each argument in parallel threads; the first one reports progress.

    All threads use the caller's scikit-learn settings. After an interruption or an error, the
    other fits end at their next step.
    """
    report, settings, wanted = report or current_report(), get_config(), True
    if len(given) == 1:
        with use_report(report):
            return [fit(given[0])]

    def run_one(k: int, one: Argument) -> Result:
        def report_step(stage: str, step: int, history: History) -> None:
            if not wanted:
                raise KeyboardInterrupt
            if k == 0:
                report(stage, step, history)

        with config_context(**settings), use_report(report_step), share_memory(len(given)):
            return fit(one)

    try:
        return map_in_shared_threads(run_one, range(len(given)), given)
    finally:
        wanted = False


# --------------------------------------------------------------------------------- results


@dataclass(frozen=True, eq=False)
class FoldFit:
    """A member's fit to a fold.

    Attributes
    ----------
    model : estimator
        The fitted model.
    warm_start : WarmStart or None
        Settings of the fit, for later fits.
    predicted : array, shape (m, t)
        Predictions for the held-out rows of the fold.
    """

    model: Any
    warm_start: WarmStart[Any] | None
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
        The member, perhaps with fewer steps.
    models : list
        The model of each fitted fold.
    predicted : list of arrays, shape (m_k, t)
        Predictions for the held-out rows of each fold, on the scale of `transform`.
    losses : array, shape (m,)
        Losses of these rows.
    warm_start : WarmStart or None
        Settings of the first fit, which all later ones start from.
    warm_starts : list of WarmStart
        Settings of all fits.
    seconds : float
        Time of all fits.
    rows : int
        Number of rows of each fit.
    steps : int or None
        Number of steps of each fit, if time was too short for all.
    full_member : Member
        The member as given, with all steps.
    last_seconds : float
        Time of the last batch of folds, with its predictions.
    note : str
        Why the member was skipped or dropped; empty if all folds were fitted.
    is_behind : bool
        Whether it was dropped because it is clearly behind.
    remark : str
        What else the leaderboard notes.
    warnings : list of str
        Warnings of the fits.
    transform : TargetTransform or None
        The transform of the targets.
    residuals : array, shape (q, t), or None
        Quantiles of the held-out residuals of transformed targets.
    """

    member: Member
    models: list[Any] = field(default_factory=list)
    predicted: list[np.ndarray] = field(default_factory=list)
    losses: np.ndarray = field(default_factory=lambda: np.zeros(0))
    warm_start: WarmStart[Any] | None = None
    warm_starts: list[WarmStart[Any]] = field(default_factory=list)
    seconds: float = 0.0
    rows: int = 1
    steps: int | None = None
    last_seconds: float = 0.0
    note: str = ""
    is_behind: bool = False
    remark: str = ""
    warnings: list[str] = field(default_factory=list)
    transform: TargetTransform | None = None
    residuals: np.ndarray | None = None
    full_member: Member = field(init=False)

    def __post_init__(self) -> None:
        self.full_member = self.member

    def add(self, fit: FoldFit, /) -> None:
        """Add the result of a fold."""
        self.models.append(fit.model)
        self.predicted.append(fit.predicted)
        if fit.warm_start is not None:
            self.warm_starts.append(fit.warm_start)
        if self.warm_start is None:
            self.warm_start = fit.warm_start

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


@dataclass(frozen=True, eq=False)
class FoldTask:
    """A fit of a member to a fold: the arguments of `FoldFitter.fit`."""

    member: Member
    k: int
    rows: int | None
    warm_start: WarmStart[Any] | None
    limit: float | None


@dataclass(eq=False)
class FirstFits:
    """Fits of later members to the first fold, in other processes.

    Attributes
    ----------
    upcoming : list of Member
        Members that workers will fit, in this order, unless they are skipped.
    requested : list of str
        Names of the members whose fits have begun.
    outcomes : iterator of Outcome
        Outcomes of these fits, in their order.
    """

    upcoming: list[Member] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)
    outcomes: Iterator[Outcome[FoldFit]] = field(default_factory=lambda: iter(()))

    def list_from(self, member: Member, /) -> list[Member]:
        """Return a member and all later ones that are not skipped because of another one."""
        names = [one.name for one in self.upcoming]
        place = names.index(member.name) + 1 if member.name in names else len(names)
        return [member, *(one for one in self.upcoming[place:] if not one.like)]

    def take(self, name: str, /) -> Outcome[FoldFit] | None:
        """Return the outcome of a requested member, and drop those before it; else None."""
        while name in self.requested:
            known, outcome = self.requested.pop(0), next(self.outcomes)
            if known == name:
                return outcome
        return None


@dataclass(frozen=True, eq=False)
class FoldFitter:
    """Fits of members to folds, with the losses of their held-out predictions.

    Attributes
    ----------
    folds : sequence of MemberFold
        Rows to fit and held-out rows.
    judge : HeldOutLoss
        Loss on all held-out rows, in the order of the folds.
    run : Run
        Random numbers and time limit of the fit.
    floor : float
        Lowest probability.
    transform : TargetTransform or None
        The transform of the targets.
    reach : array, shape (2, t), or None
        Lowest and highest prediction of transformed targets; None for classes.
    workers : Workers
        Processes that fit folds and members in parallel.
    first_fits : FirstFits
        Fits of later members to the first fold.
    monotone : Monotone or None
        Projection that makes predictions monotone before they are judged.
    """

    folds: Sequence[MemberFold]
    judge: HeldOutLoss
    run: Run
    floor: float
    transform: TargetTransform | None = None
    reach: np.ndarray | None = None
    workers: Workers = field(default_factory=Workers)
    first_fits: FirstFits = field(default_factory=FirstFits)
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

    def batches(self, member: Member, rows: int | None) -> list[range]:
        """Return the batches of folds to fit in parallel; the first batch is one fold."""
        count = len(self)
        if self.runs_in_workers(member):
            width = self.workers.n_at_once(limited=self.run.remaining_seconds() is not None)
        else:
            width = n_parallel_fits(member, self.folds[0].inside, rows)
        batches = [range(k, min(k + width, count)) for k in range(1, count, width)]
        return [range(1), *batches]

    def fit_batch(
        self,
        entry: MemberResult,
        batch: range,
        rows: int | None,
        limit: float | None,
        report: Report,
    ) -> list[FoldFit]:
        """Fit a member to some folds in parallel, up to the first interrupted one."""
        if not self.runs_in_workers(entry.member):
            return fit_in_parallel(
                lambda k: self.fit(entry.member, k, rows, entry.warm_start, limit), batch, report
            )
        if batch == range(1) and rows is None and limit is None:
            return [self._fit_first(entry, report)]
        tasks = [FoldTask(entry.member, k, rows, entry.warm_start, limit) for k in batch]
        fits = []
        for outcome in self.fit_tasks(tasks, report):
            fits.append(outcome.result())
            if fits[-1].is_interrupted:
                break
        return fits

    def _fit_first(self, entry: MemberResult, report: Report) -> FoldFit:
        """Fit a member to the first fold, while other processes fit later members to it.

        The first fit searches its settings. For one member it can take as long as all other fits.
        A fit in another process counts with its seconds there.
        """
        begun, first = time.perf_counter(), self.first_fits
        outcome = first.take(entry.member.name)
        if outcome is not None:
            entry.seconds += outcome.seconds - (time.perf_counter() - begun)
            return outcome.result()
        members = first.list_from(entry.member)
        tasks = [FoldTask(one, 0, None, None, None) for one in members]
        first.outcomes = self.fit_tasks(tasks, report)
        first.requested = [one.name for one in members[1:]]
        return next(first.outcomes).result()

    def fit_tasks(self, tasks: Sequence[FoldTask], report: Report, /) -> Iterator[Outcome[FoldFit]]:
        """Fit any members to any folds in all processes; yield the outcomes in their order."""
        return self.workers.map(partial(_fit_task, self._shared), tasks, report)

    def begin_tasks(self, tasks: Sequence[FoldTask], /) -> BegunCalls[FoldTask, FoldFit]:
        """Begin fits in the other processes."""
        return self.workers.begin(partial(_fit_task, self._shared), tasks)

    def runs_in_workers(self, member: Member, /) -> bool:
        """Whether worker processes fit a member: not on a GPU, which all would share."""
        return self.workers.count > 1 and not self.uses_gpu(member)

    def uses_gpu(self, member: Member, /) -> bool:
        """Whether fits of a member to folds compute on a GPU."""
        most = max(len(fold.inside) for fold in self.folds)
        return uses_gpu(member, self.folds[0].inside, most)

    @cached_property
    def _shared(self) -> Shared[FoldFitter]:
        folds = self.folds
        if not is_host(folds[0].inside.X):  # folds of tables always are
            folds = [fold.host_fold for fold in folds]
        return self.workers.share(replace(self, folds=folds, first_fits=FirstFits()))

    def fit(
        self,
        member: Member,
        k: int,
        rows: int | None,
        warm_start: WarmStart[Any] | None,
        limit: float | None,
    ) -> FoldFit:
        """Fit a member to fold k, or to a sample of its rows."""
        data = self.folds[k].member_view(member)
        inside = data.inside
        if rows is not None:
            inside = inside.draw(rows, self.run.again())
        model, warm_start = member.limit_centers(len(inside)).fit_clone(inside, warm_start, limit)
        return FoldFit(model, warm_start, self.predict(model, data.outside))

    def predict(self, model: Any, samples: Samples, /) -> np.ndarray:
        """Return the clipped predictions of a member's model on the host."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            predictor = project_predictor(member_predictor(model), self.monotone)
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
        """Add a fit to a result, and set the losses of all its predictions so far."""
        entry.add(fit)
        rows = slice(0, sum(map(len, entry.predicted)))
        if self.transform is not None:
            residuals = self.transform.forward(self.judge.truth[rows]) - np.concatenate(
                entry.predicted
            )
            entry.residuals = residual_quantiles(residuals, self.judge.weights[rows])
        entry.losses = self.judge.losses(entry.outputs, rows)


def _fit_task(shared: Shared[FoldFitter], task: FoldTask) -> FoldFit:
    return shared.value.fit(task.member, task.k, task.rows, task.warm_start, task.limit)
