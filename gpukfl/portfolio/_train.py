"""Training of members on shared folds, with out-of-fold predictions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from sklearn import config_context, get_config

from gpukfl._accel.threads import free_threads, map_in_shared_threads
from gpukfl._accel.trust import prepare_compiled_code
from gpukfl.core._array import is_host, to_host
from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._memory import share_memory
from gpukfl.core._results import History, Status
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.estimators._learner import WarmStart
from gpukfl.estimators._pace import Pace, Size
from gpukfl.estimators._run import Report, Run, current_report, use_report
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._search import is_clearly_worse
from gpukfl.estimators.scaling import SCALINGS
from gpukfl.portfolio._attributes import Blended
from gpukfl.portfolio._blend import blend_weights, choose_temperature, residual_quantiles
from gpukfl.portfolio._folds import HeldOutLoss, LogLoss, MemberFold
from gpukfl.portfolio._members import (
    Member,
    clone_with_steps,
    member_work,
    n_steps,
    takes_any_columns,
)
from gpukfl.predictor import (
    TargetTransform,
    apply_temperature,
    clip_predictions,
    floor_probabilities,
    member_predictor,
)

# --------------------------------------------------------------------------------- at once

# Fits that do not wait for each other, in threads at the same time.


_MOST_FITS = 4  # more of them wait for the interpreter; what they split fills other threads
_MOST_ROWS, _MOST_ELEMENTS = 20_000, 10**7  # more fill all threads alone, and take memory

Given = TypeVar("Given")
Found = TypeVar("Found")


def n_parallel_fits(member: Member, samples: Samples, some: int | None = None, /) -> int:
    """Return how many fits of a member run in parallel.

    One on a GPU, which they would share, and of members of others, which threads may not suit.
    """
    if not member.takes_any_library or not is_host(samples.X):
        return 1
    n, d = samples.X.shape
    n = n if some is None else min(n, some)
    apt = member.at_once_from <= n <= _MOST_ROWS and n * d <= _MOST_ELEMENTS
    return min(free_threads(), _MOST_FITS) if apt else 1


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


# ----------------------------------------------------------------------------------- twins

# Members that would be what one before them is already.


def find_twin(member: Member, finished: Iterable[MemberResult], /) -> str:
    """Return the name of the member that chose the same scaling, or an empty string.

    "auto" scales features as it finds them, so that what else they have in common is known only
    after a fit.
    """
    asked = member.estimator
    for one in finished:
        if type(one.member.estimator) is not type(asked) or not hasattr(asked, "scaling"):
            continue
        own = one.member.estimator.get_params()
        alike = own | {"scaling": asked.scaling} == asked.get_params()
        found = {type(getattr(model, "scaling_", None)) for model in one.models}
        if alike and own["scaling"] == "auto" and found == {SCALINGS.get(asked.scaling)}:
            return one.member.name
    return ""


# -------------------------------------------------------------------------------- training

# Members fitted one after the other. Each passes through `_enter`: `_skip_reason` says whether it
# is begun, `_affordable` how many rows and steps there is time for, `_compete` fits it fold by
# fold, and `_stop_reason` says when it is left. Those that have done all enter the blend.


SHARE = 0.9  # of max_time spent by the end
SETTLED = "not begun: those before leave nothing to explain"
_PROBED, _FIRST_PROBED, _FEWEST_PROBED = 2_000, 800, 200  # rows that say how long all take
_FURTHER = 4  # times as many rows say it better, where there is time for so many
_JUDGES = 200  # rows that must have judged a member before it is left: fewer often are wrong
_SHARES = (0.05, 0.15, 0.3, 0.5)  # of a blend, with one of which a member should help
_NO_TIME = 1e-3
_COMPARED = 2  # members of ours that have finished, before the best of all goes on
_GOING_ON, _WORTH_IT = 0.8, 2  # share of the time that is left then; times as many rows
_LEAST_SHARE = 0.25  # of the time that is left, for the next member: the first ones say the most
_PATIENCE = 4.0  # times the limit that may be expected of members that keep to it
# So few of so many rows are fitted first: where these lose twice as much as the best, more rows of
# what is clearly behind, and no help, would gain nothing
_TRIED, _TRIED_FROM, _HOPELESS = 20_000, 400_000, 2.0
_SEARCHING = 2  # times as long as another fit is the first one, which searches
_TOO_SLOW = "not begun: too slow for the time left"
_TOO_LATE = "not begun: no time is left"
UNTRIED = _TOO_SLOW, _TOO_LATE  # notes of members that there was no time to try
_PROBE_SHARE = 0.3  # of a member's time, for a fit that says how many rows there is time for


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
    """

    clock: Clock
    rows: int | None = None
    fit: FoldFit | None = None


@dataclass(eq=False)
class MemberTrainer:
    """A loop that trains members on the same folds, one after the other.

    Attributes
    ----------
    folds : sequence of MemberFold
        Rows to fit and rows that judge.
    judge : HeldOutLoss
        Of the rows that are held out, in the order of the folds.
    run : Run
        The time that there is.
    floor : float
        Lowest probability.
    transform : TargetTransform or None
        Of the targets in the folds.
    reach : array, shape (2, t), or None
        Lowest and highest prediction of such targets; None of classes.
    entries : list of MemberResult
        What was tried, in this order.
    weights : array, shape (n_finished,)
        Of the blend of those that have finished and may be in it.
    stopped : bool
        Whether the user stopped a fit.
    cut_short : bool
        Whether time was too short for something.
    went_on : bool
        Whether the best of the first members had its turn to go on.
    least_seconds : float
        That the last member took for a few rows, where it was limited: those that are left take
        about as long at least, as members stand in the order of their costs.
    """

    folds: Sequence[MemberFold]
    judge: HeldOutLoss
    run: Run
    floor: float
    transform: TargetTransform | None = None
    reach: np.ndarray | None = None
    entries: list[MemberResult] = field(default_factory=list)
    weights: np.ndarray = field(default_factory=lambda: np.zeros(0))
    stopped: bool = False
    cut_short: bool = False
    least_seconds: float = 0.0
    went_on: bool = False

    @property
    def n_classes(self) -> int:
        """The number of classes; 0 in a regression."""
        return self.judge.truth.shape[1] if isinstance(self.judge, LogLoss) else 0

    @property
    def finished_results(self) -> list[MemberResult]:
        """The results of members with predictions of all rows."""
        return [one for one in self.entries if not one.note and one.member.blended]

    @property
    def blend(self) -> np.ndarray:
        """Out-of-fold predictions of the current blend (m, t)."""
        pairs = zip(self.weights, self.finished_results, strict=True)
        return sum(w * entry.outputs for w, entry in pairs if w > 0)

    @cached_property
    def temperature(self) -> float:
        """The temperature of the final blend of classes."""
        return (
            choose_temperature(self.blend, self.judge) if isinstance(self.judge, LogLoss) else 1.0
        )

    @property
    def final_blend(self) -> np.ndarray:
        """Calibrated out-of-fold predictions of the final blend (m, t)."""
        return (
            to_host(apply_temperature(self.blend, self.temperature))
            if self.n_classes
            else self.blend
        )

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
            for k, member in enumerate(members):
                if self.stopped:
                    break
                if (k or member.takes_any_library) and not self.run.is_over(SHARE):
                    prepare_compiled_code(self.folds[0].inside.X)
                left = self.run.remaining_seconds(SHARE)
                share = max(1.0 / (len(members) - k), _LEAST_SHARE)
                self._enter(member, Clock(None if left is None else left * share))
                self._continue_fits(_COMPARED)
            self._continue_fits(0)
            self._retry()
        except KeyboardInterrupt:
            self.stopped = True
            if not self.finished_results:
                raise
        if not self.finished_results:
            failed = [one for one in self.entries if one.note]  # trees may only be shown
            notes = "; ".join(f"{one.member.name}: {one.note}" for one in failed)
            msg = f"expected a member that can be fitted, got none ({notes})"
            raise RuntimeError(msg)

    def _enter(self, member: Member, clock: Clock) -> None:
        why_not = self._skip_reason(member)
        if why_not:
            self.entries.append(MemberResult(member, note=why_not))
            self.run.note(f"{member.name}: {why_not}")
            return
        entry, weights = MemberResult(member, transform=self.transform), self.weights
        try:
            with restore_interruptions():
                with collect_warnings() as entry.warnings:
                    self._compete(entry, clock)
                if not entry.note and member.blended:
                    weights = self._blend_weights([*self.finished_results, entry])
        except Exception as error:  # whatever a member does, the others go on
            entry.note = _error_text(error)
            warn(f"the member {member.name} is left out: {entry.note}")
        except KeyboardInterrupt:
            entry.note = "interrupted"
            self.entries.append(entry)
            raise
        entry.seconds = time.perf_counter() - clock.begun
        if entry.note:
            entry.models.clear()
        self.entries.append(entry)
        self.weights = weights
        said = entry.note or f"score {self.judge.score(entry.losses):.4f}"
        self.run.note(f"{member.name}: {said}, {entry.seconds:.1f} s")

    def _retry(self) -> None:
        """Retry members that were too slow for their share, with all remaining time."""
        for entry in [one for one in self.entries if one.note == _TOO_SLOW]:
            left = self.run.remaining_seconds(SHARE)
            if left is None or self.stopped or self.run.is_over(SHARE):
                return
            self.entries.remove(entry)
            self._enter(entry.whole, Clock(left))

    def _continue_fits(self, ours: int) -> None:
        """Continue the best of the first members with more rows or steps.

        That gains the most. Once, when so many of ours have finished, where time is so short that
        it had less than a quarter. The better of both stays.
        """
        left, n = self.run.remaining_seconds(SHARE), len(self.folds[0].inside)
        known = sum(one.member.takes_any_library for one in self.finished_results)
        if (
            left is None
            or self.stopped
            or self.went_on
            or known < ours
            or not self.finished_results
        ):
            return
        self.went_on = ours > 0
        few = min(self.finished_results, key=lambda one: one.losses.sum())
        clock, more = Clock(left * _GOING_ON), MemberResult(few.whole, transform=self.transform)
        affordable: Affordable | None = None
        if few.steps is None:
            rows = self._affordable_rows(few.member, clock, few.rows, few.last_seconds)
            if few.rows * _FURTHER > n or rows < _WORTH_IT * few.rows:
                return
            affordable = Affordable(clock, rows if rows < n else None)
        elif clock.limit is None or clock.limit < _WORTH_IT * few.seconds:
            return
        try:
            with restore_interruptions(), collect_warnings() as more.warnings:
                self._compete(more, clock, affordable)
        except Exception as error:  # whatever it does, its fits to few rows are there
            more.note = _error_text(error)
            warn(f"the member {few.member.name} stays with few rows: {more.note}")
        better = not more.note and more.losses.sum() < few.losses.sum()
        stays = more if better else few
        stays.seconds = few.seconds + time.perf_counter() - clock.begun
        if better:
            self.entries[self.entries.index(few)] = more
            self.weights = self._blend_weights(self.finished_results)

    def _blend_weights(self, entries: Sequence[MemberResult]) -> np.ndarray:
        parts = [self.judge.part(one.outputs) for one in entries]
        loss, n = lambda mean: self.judge.row_losses(mean).sum(), self.judge.n_effective
        return blend_weights(parts, loss, n)

    def _skip_reason(self, member: Member) -> str:
        """Return why a member is skipped, or an empty string."""
        if self.finished_results and self._is_late(member):
            self.cut_short = True
            return _TOO_LATE
        if member.reference:
            return ""
        if self._is_of_no_use(member.like):
            return f"not begun: {member.like} is clearly behind"
        twin = find_twin(member, self.finished_results)
        if twin:
            return f"not begun: {twin} is the same"
        return SETTLED if self.finished_results and self.judge.is_settled(self.blend) else ""

    def _is_late(self, member: Member) -> bool:
        """Whether time is over, or too short for a default member."""
        left = self.run.remaining_seconds(SHARE)
        if left is None or self.run.is_over(SHARE):
            return left is not None
        return not member.reference and left < self.least_seconds

    def _compete(
        self, entry: MemberResult, clock: Clock, affordable: Affordable | None = None
    ) -> None:
        """Fit folds until all are done, or the member is clearly not useful.

        The first one alone: it says how the others are fitted, which may be at once. They are
        judged one after the other. What is `affordable` is found out, unless it is known.
        """
        member = entry.member
        found = affordable or self._affordable(entry, clock)
        rows, probe, clock = found.rows, found.fit, found.clock
        if entry.note:
            return
        if affordable is None and rows is None:
            entry.note = self._subsample_reason(entry.member, clock)
            entry.behind = bool(entry.note)
            if entry.behind:
                return
        cut = [] if rows is None else [f"{rows} rows"]
        cut += (
            [] if entry.steps is None else [f"{entry.steps} of {n_steps(member.estimator)} steps"]
        )
        if cut:
            self.cut_short = True
            entry.remark = f"scored by fits to {' and '.join(cut)} for want of time"
        turns = self._turns(member, rows)
        for k, folds in enumerate(turns):
            start = time.perf_counter() if probe is None or k else clock.begun
            left = (
                None
                if clock.limit is None
                else _fold_seconds(clock.remaining_seconds, k, len(turns))
            )
            fits = [probe] if probe and k == 0 else self._fits(entry, folds, rows, left)
            entry.rows = len(self.folds[folds[0]].inside) if rows is None else rows
            entry.last_seconds = time.perf_counter() - start
            for fit in fits:
                entry.add(fit)
                self._judge(entry)
                self.stopped = self.stopped or fit.is_interrupted
                if len(entry.models) == len(self.folds):
                    return
                if fit.is_interrupted:
                    raise KeyboardInterrupt
                entry.note = self._stop_reason(entry, len(turns) - k - 1)
                if entry.note:
                    return

    def _turns(self, member: Member, rows: int | None) -> list[range]:
        """Return the groups of folds to fit in parallel."""
        count, width = len(self.folds), n_parallel_fits(member, self.folds[0].inside, rows)
        turns = [range(k, min(k + width, count)) for k in range(1, count, width)]
        return [range(1), *turns]

    def _fits(
        self, entry: MemberResult, folds: range, rows: int | None, limit: float | None
    ) -> list[FoldFit]:
        """Fit a member to folds, and report the progress of the first."""

        def fit(k: int) -> FoldFit:
            return self._fit(entry.member, self.folds[k], rows, entry.precedent, limit)

        return fit_in_parallel(fit, folds, self._report(entry.member, folds))

    def _fit(
        self,
        member: Member,
        fold: MemberFold,
        rows: int | None,
        precedent: WarmStart[Any] | None,
        limit: float | None,
    ) -> FoldFit:
        """Fit a member to a fold, or to a sample of its rows."""
        data = fold.member_view(member)
        inside = data.inside
        if rows is not None:
            inside = inside.draw(rows, self.run.again())
        model, precedent = member.fit_clone(inside, precedent, limit)
        return FoldFit(model, precedent, self.outputs(model, data.outside))

    def _subsample_reason(self, member: Member, clock: Clock) -> str:
        """Return why a member is fitted to fewer rows, or an empty string."""
        if len(self.folds[0].inside) < _TRIED_FROM or not self._may_leave(member):
            return ""
        trial = MemberResult(member, transform=self.transform)
        with collect_warnings():  # what it warns of is not of the fit that stays
            fit = self._fit(member, self.folds[0], _TRIED, None, clock.limit)
        if fit.is_interrupted:
            raise KeyboardInterrupt
        trial.add(fit)
        self._judge(trial)
        least = min(one.losses[: len(trial.losses)].sum() for one in self.finished_results)
        if trial.losses.sum() < _HOPELESS * least or not self._is_behind(trial):
            return ""
        return f"left after a fit to {_TRIED} rows: clearly behind"

    def _stop_reason(self, entry: MemberResult, turns: int) -> str:
        """Return why a member stops after some folds, or an empty string."""
        done, left = len(entry.models), self.run.remaining_seconds(SHARE)
        entry.behind = self._may_leave(entry.member) and self._is_behind(entry)
        if entry.behind:
            return f"left after {done} of {len(self.folds)} folds: clearly behind"
        if left is None or not self.finished_results or (done == 1 and entry.member.keeps_time):
            return ""  # the first fit searches, the next ones say whether time is kept
        searched = _SEARCHING if done == 1 and entry.member.takes_any_library else 1
        if entry.last_seconds / searched * turns < left:
            return ""
        self.cut_short = True
        return f"left after {done} of {len(self.folds)} folds: too slow for the time left"

    def outputs(self, model: Any, samples: Samples, /) -> np.ndarray:
        """Return the clipped predictions of a member's model on the host."""
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            found = member_predictor(model).outputs_by_blocks(samples.X, self.n_classes)
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

    def _judge(self, entry: MemberResult) -> None:
        rows = slice(0, sum(map(len, entry.predicted)))
        if self.transform is not None:
            short = self.transform.forward(self.judge.truth[rows]) - np.concatenate(entry.predicted)
            entry.residuals = residual_quantiles(short, self.judge.weights[rows])
        entry.losses = self.judge.losses(entry.outputs, rows)

    def _may_leave(self, member: Member) -> bool:
        """Whether a member need not be tried to the end."""
        return bool(self.finished_results) and member.blended and not member.reference

    def _is_of_no_use(self, name: str) -> bool:
        """Whether a member with this name was dropped, or is clearly behind."""
        pairs = zip(self.weights, self.finished_results, strict=True)
        own = [entry for weight, entry in pairs if weight == 0 and entry.member.name == name]
        left = [entry for entry in self.entries if entry.behind and entry.member.name == name]
        return bool(left) or any(map(self._is_behind, own))

    def _is_behind(self, entry: MemberResult) -> bool:
        """Whether a member is significantly worse than the best, and does not help the blend."""
        if len(entry.losses) < _JUDGES:
            return False
        seen = slice(0, len(entry.losses))
        best = min((one.losses[seen] for one in self.finished_results), key=np.sum)
        if not is_clearly_worse(entry.losses, best):
            return False
        blend, own = self.blend[seen], entry.outputs
        least = self.judge.losses(blend, seen).sum()
        mixes = ((1.0 - share) * blend + share * own for share in _SHARES)
        return all(self.judge.losses(mix, seen).sum() >= least for mix in mixes)

    def _affordable(self, entry: MemberResult, clock: Clock) -> Affordable:
        """Return what there is time for, by how long some rows take.

        A member for which even a few take too long is given fewer steps, or a note that it is not
        begun.
        """
        member = entry.member
        inside = self.folds[0].member_view(member).inside
        n = len(inside)
        most = min(_PROBED, n // _FURTHER)
        if clock.limit is None:
            return Affordable(clock)
        longest = clock
        if member.keeps_time and not any(one.member.keeps_time for one in self.finished_results):
            longest = Clock(self.run.remaining_seconds(SHARE))  # those that follow take longer
        pace = self._pace(member, longest)
        if pace is not None:
            all_rows = n <= _PROBED
            first = n if all_rows else min(_FIRST_PROBED, most)
            share = 1.0 / len(self.folds) if all_rows else _PROBE_SHARE
            least = pace.seconds(replace(pace.full, rows=first))
            if least > share * clock.remaining_seconds:
                clock = longest
            if least > share * clock.remaining_seconds:
                return self._cut(entry, pace, clock)
        if most < _FEWEST_PROBED:
            return Affordable(clock)
        probed, count = 0, most
        while probed < most and count >= _FURTHER * probed:
            probed, start = min(max(_FIRST_PROBED, _FURTHER * probed), most), time.perf_counter()
            fit = self._fit(member, self.folds[0], probed, None, clock.limit)
            if fit.is_interrupted:
                return Affordable(clock, probed, fit)
            took = time.perf_counter() - start
            if probed <= _FIRST_PROBED:
                self.least_seconds = took
            count = self._affordable_rows(member, clock, probed, took)
        if count >= n:
            return Affordable(clock)
        return Affordable(clock, count, fit if count == probed else None)

    def _pace(self, member: Member, clock: Clock) -> Pace | None:
        """Time a member on a small part of the first fold; None if it needs all columns.

        Of one that ends when it is told to, how long the least takes that it does.
        """
        if not takes_any_columns(member.estimator):
            return None
        inside = self.folds[0].member_view(member).inside
        n, d = inside.X.shape
        full, least = (
            Size(n, d, n_steps(member.estimator)),
            _NO_TIME if member.keeps_time else None,
        )

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

    def _cut(self, entry: MemberResult, pace: Pace, clock: Clock) -> Affordable:
        """Reduce the steps or rows of a member to the remaining time."""
        found = pace.affordable(max(clock.remaining_seconds, 0.0) / len(self.folds))
        if found is None and self.finished_results:
            entry.note, self.cut_short = _TOO_SLOW, True
            return Affordable(clock)
        least = replace(pace.full, rows=min(pace.full.rows, pace.size.rows), steps=1)
        found = found or least
        if found.steps < pace.full.steps:
            estimator = clone_with_steps(entry.member.estimator, found.steps)
            entry.member, entry.steps = replace(entry.member, estimator=estimator), found.steps
        return Affordable(clock, found.rows if found.rows < pace.full.rows else None)

    def _affordable_rows(self, member: Member, clock: Clock, few: int, took: float) -> int:
        """Return how many rows of each fold there is time for, by a timed fit."""
        left = clock.remaining_seconds * (_PATIENCE if member.keeps_time else 1.0)
        times = max(left, 0.0) / (took * len(self.folds))
        return max(few, int(few * times ** (1.0 / member.power)))

    def _report(self, member: Member, folds: range) -> Report:
        """Return a function that reports a member's steps, with the fold and the best score."""
        outer = current_report()
        lead = ""
        if self.finished_results:
            best = max(self.finished_results, key=lambda one: self.judge.score(one.losses))
            score = self.judge.score(self.judge.losses(self.blend))
            lead = (
                f"blend {score:.3f}, best {best.member.name} {self.judge.score(best.losses):.3f}; "
            )
        first, last = folds[0] + 1, folds[-1] + 1
        which = f"fold {first}" if first == last else f"folds {first} to {last}"
        place = f"{lead}{member.name}, {which} of {len(self.folds)}"
        return lambda stage, step, history: outer(f"{place}: {stage}", step, history)


def _error_text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _fold_seconds(left: float, k: int, count: int) -> float:
    """Return the seconds for a fold; the first one gets more for its search."""
    first = _SEARCHING if k == 0 and count > 1 else 1
    return max(left, _NO_TIME) * first / (count - k + first - 1)
