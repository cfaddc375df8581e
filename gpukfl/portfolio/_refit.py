"""Final fits of members to all rows, in memory or in parts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from sklearn.base import clone, is_classifier

from gpukfl.core._array import Array, is_host, to_host
from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._places import Backend
from gpukfl.core._warnings import collect_warnings, warn
from gpukfl.estimators._classifier import count_labels
from gpukfl.estimators._dask import find_client
from gpukfl.estimators._learner import WarmStart, mean_start
from gpukfl.estimators._run import Run, current_report
from gpukfl.estimators._samples import Samples
from gpukfl.estimators._workers import Shared, Workers
from gpukfl.partitioned import ClusterLostError, Collections, Parts, read_partitions
from gpukfl.partitioned._rows import map_rows
from gpukfl.portfolio._attributes import Blended
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._fold_fits import (
    MemberResult,
    fit_in_parallel,
    is_interrupted,
    is_limited,
    n_parallel_fits,
    uses_gpu,
)
from gpukfl.portfolio._folds import FEW, MANY, REFITTED, MemberFold
from gpukfl.portfolio._members import Member
from gpukfl.portfolio._train import MemberTrainer
from gpukfl.tables._target import label_places

# ----------------------------------------------------------------------------------- refit

# Members that are fitted to all rows in the end, beside those of the folds or in their place.


BESIDE: Literal["both"] = "both"
Refit = Literal["", "both", "instead"]  # none; one to all rows beside the folds' models; it alone
_FEW_HELD_OUT = 0.11  # of the samples: without these a fit is as good


def choose_refit(
    asked: bool | str, trainer: MemberTrainer, n: int, run: Run, /, *, related: bool = False
) -> Refit:
    """Return whether members are refitted to all rows, as chosen or if time allows.

    It pays where folds lack an eighth of the rows, or half: a blend of their models alone errs by
    more. Fits to all of very few rows err in their own ways by as much. Where rows are `related`
    and some are never held out, as the first of all times, folds have seen too little.
    """
    if trainer.stopped:
        return ""
    if n < FEW or not isinstance(asked, str):
        return "instead" if n < FEW or asked else ""
    folds, standings = trainer.fitter.folds, trainer.standings
    several, lacking = len(folds) > 1, len(folds[0].outside) / n
    related = related and several and sum(len(fold.outside) for fold in folds) < n
    if asked == BESIDE or related:
        return BESIDE if asked == BESIDE else "instead"
    pays = lacking > _FEW_HELD_OUT
    if several:
        pays = n >= MANY or (n >= REFITTED and pays)
    if trainer.cut_short or not pays:
        return ""
    pairs = zip(standings.weights.tolist(), standings.finished, strict=True)
    once = sum(entry.seconds for weight, entry in pairs if weight > 0) / len(folds)
    left = run.remaining_seconds()
    if left is not None and once / (1.0 - lacking) >= left:
        return ""
    return BESIDE if several else "instead"


def refit_members(
    auto: Any,
    chosen: Sequence[tuple[float, Any]],
    samples: Samples,
    run: Run,
    seed: int,
    workers: Workers,
    /,
    *,
    beside: bool,
) -> tuple[list[Blended], Encodings | None] | None:
    """Refit each member of a blend to all rows, with its encoding, if there is time.

    So it is also where a fit that stands alone would be cut off, or one is known to take longer.
    Where some compute on a GPU, other processes fit the others beside them.

    Raises
    ------
    KeyboardInterrupt
        If it is interrupted, or a member was.
    """
    transform = auto.target_transform_
    if transform is not None:
        samples = replace(samples, Y=transform.forward(to_host(samples.Y).astype(np.float64)))
    encodings, whole = auto.encodings_, MemberFold(samples, samples)
    if encodings is not None:
        encodings, whole = encodings.learn_on_all(samples, seed, beside=beside)
    run.lap("encodings")
    models = _fit_all([entry for _, entry in chosen], whole, run, workers, may_be_cut=beside)
    if models is None:
        return None
    found = []
    for (weight, entry), model in zip(chosen, models, strict=True):
        kept = [*entry.models, model] if beside else [model]
        found.append(replace(entry.to_blend_member(weight), models=kept))
    return found, encodings


def _fit_all(
    entries: Sequence[MemberResult],
    whole: MemberFold,
    run: Run,
    workers: Workers,
    /,
    *,
    may_be_cut: bool,
) -> list[Any] | None:
    """Fit each member to all rows; return None if time is too short.

    Raises KeyboardInterrupt if a fit was interrupted.
    """
    n = len(whole.inside)
    on_gpu = [one for one in entries if uses_gpu(one.member, whole.inside, n)]
    if on_gpu and workers.count > 1:
        return _fit_beside_gpu(on_gpu, entries, whole, run, workers, may_be_cut=may_be_cut)
    models: dict[MemberResult, Any] = {}
    shared = workers.share(whole)
    for turn in _fit_turns(entries, whole, run, workers):
        left = run.remaining_seconds()
        late = max(one.expected_seconds(n) for one in turn)
        if left is not None and (run.is_over() or late > left):
            return None
        tasks = [_refit_task(one) for one in turn]
        fit = partial(_fit_to_all, shared, left)
        with collect_warnings():
            if workers.count == 1:
                found = fit_in_parallel(fit, tasks)
            else:
                report = current_report()
                found = [outcome.result() for outcome in workers.map(fit, tasks, report)]
        models |= zip(turn, found, strict=True)
        run.lap("last fit", [one.member.name for one in turn], 1)
        if not may_be_cut and any(map(is_limited, found)):
            return None
    return [models[entry] for entry in entries]


def _refit_task(entry: MemberResult) -> tuple[Member, WarmStart[Any] | None]:
    """Return a member, and what its last fit begins from."""
    return entry.member, mean_start(entry.starts) or entry.precedent


def _fit_beside_gpu(
    on_gpu: Sequence[MemberResult],
    entries: Sequence[MemberResult],
    whole: MemberFold,
    run: Run,
    workers: Workers,
    /,
    *,
    may_be_cut: bool,
) -> list[Any] | None:
    """Fit as `_fit_all` does: other processes the members that do not compute on a GPU."""
    n, left = len(whole.inside), run.remaining_seconds()
    others = [one for one in entries if one not in on_gpu]
    on_host = whole if is_host(whole.inside.X) else whole.host_fold
    fit = partial(_fit_to_all, workers.share(on_host) if others else Shared(on_host, ""), left)
    begun = workers.begin(fit, [_refit_task(one) for one in others])
    try:
        found = _fit_all(on_gpu, whole, run, Workers(), may_be_cut=may_be_cut)
        if found is None:
            return None
        models = dict(zip(on_gpu, found, strict=True))
        for number, one in enumerate(others):
            left = run.remaining_seconds()
            late = left is not None and (run.is_over() or one.expected_seconds(n) > left)
            if late and not begun.is_made(number):
                return None
            with collect_warnings():
                models[one] = begun.outcome(number).result()
            run.lap("last fit", [one.member.name], 1)
            if not may_be_cut and is_limited(models[one]):
                return None
    finally:
        begun.drop()
    return [models[entry] for entry in entries]


def _fit_turns(
    entries: Sequence[MemberResult], whole: MemberFold, run: Run, workers: Workers, /
) -> list[list[MemberResult]]:
    """Return groups of members to fit in parallel; under a time limit in processes alone."""
    limited = run.remaining_seconds() is not None
    if limited or workers.count > 1:
        width = workers.n_at_once(limited=True) if limited else len(entries)
        return [list(entries[k : k + width]) for k in range(0, len(entries), width)]
    widths = {
        one: n_parallel_fits(one.member, whole.member_view(one.member).inside) for one in entries
    }
    several = [one for one in entries if widths[one] > 1]
    width = max(widths.values(), default=1)
    alone = [[one] for one in entries if widths[one] == 1]
    return [*alone, *(several[k : k + width] for k in range(0, len(several), width))]


def _fit_to_all(
    whole: Shared[MemberFold], left: float | None, task: tuple[Member, WarmStart[Any] | None]
) -> Any:
    """Fit a member to all rows; KeyboardInterrupt if that was interrupted."""
    member, precedent = task
    model, _ = member.fit_clone(whole.value.member_view(member).inside, precedent, left)
    if is_interrupted(model):
        raise KeyboardInterrupt
    return model


# -------------------------------------------------------------------------------- in parts

# Members of a blend, fitted to all rows where these lie in parts.


_NAMED = 10  # classes that a warning names


def fit_members_to_all(
    auto: Any, chosen: Sequence[tuple[float, MemberResult]], given: Collections, run: Run, /
) -> tuple[list[Blended], bool, bool]:
    """Fit members that support rows in parts to all rows, each with its setting.

    Gives members, whether any of them was fitted so, and whether the user stopped it.

    Parameters
    ----------
    auto : AutoRegressor or AutoClassifier
        That has chosen on some of the rows.
    chosen : sequence of (float, MemberResult)
        Weights, and members of the blend. Those of other libraries stay as they are, and so do all
        that there is no time left for.
    given : Collections
        All rows.
    """
    found = [entry.to_blend_member(weight) for weight, entry in chosen]
    ours = [k for k, (_, entry) in enumerate(chosen) if entry.member.takes_any_library]
    any_fitted = stopped = False
    for view in dict.fromkeys(chosen[k][1].member.sees for k in ours):
        if stopped or run.is_over():  # rows are not read for nothing
            continue
        try:
            with _read(auto, given, view) as parts:
                if is_classifier(auto) and _warn_new_classes(auto.classes_, parts):
                    known = given.only(partial(np.isin, test_elements=auto.classes_))
                    break
                y = _member_targets(auto, parts)
                for k in ours:
                    entry = chosen[k][1]
                    if entry.member.sees == view and not stopped and _has_time(entry, given, run):
                        model, stopped = _fit_in_parts(entry, parts, y, run)
                        if model is not None:
                            found[k], any_fitted = replace(found[k], models=[model]), True
        except ClusterLostError as error:
            warn(f"members of the blend are not refitted to all rows: {error}")
            return found, any_fitted, stopped
    else:
        return found, any_fitted, stopped
    return fit_members_to_all(auto, chosen, known, run)


def _has_time(entry: MemberResult, given: Collections, run: Run) -> bool:
    left = run.remaining_seconds()
    return left is None or not (run.is_over() or entry.expected_seconds(given.n_rows) > left)


def _read(auto: Any, given: Collections, view: str) -> AbstractContextManager[Parts]:
    """Read rows in the view of some members."""
    encodings, read = auto.encodings_, None
    if encodings is not None:
        read = partial(_encode_partition, encodings, view)
    backend, labels = Backend.parse(auto.backend).name, is_classifier(auto)
    return read_partitions(given, find_client(auto), backend, labels=labels, read=read)


def _warn_new_classes(classes: np.ndarray, parts: Parts) -> bool:
    """Warn of classes missing in the sample; return whether there are any."""
    found, counts = count_labels(parts.y)
    new = ~np.isin(found, classes)
    if new.any():
        names = ", ".join(map(str, found[new][:_NAMED]))
        warn(
            "classes are dropped that have no row in the sample that chose the blend: "
            f"{names}, {counts[new].sum()} of {counts.sum()} rows; single methods keep all classes"
        )
    return bool(new.any())


def _fit_in_parts(entry: MemberResult, parts: Parts, y: Array, run: Run) -> tuple[Any | None, bool]:
    """Fit a member to rows in parts; also return whether the user stopped it."""
    model = clone(entry.member.estimator)
    if entry.member.keeps_time:
        model.set_params(max_time=run.remaining_seconds())
    try:
        with restore_interruptions(), collect_warnings():
            model.fit_like(parts.X, y, parts.weights, entry.precedent, deviations=False)
    except KeyboardInterrupt:
        return None, True
    except ClusterLostError:  # nor will the others be
        raise
    except Exception as error:  # whatever a member does, it was fitted to some rows
        why = f"{type(error).__name__}: {error}"
        warn(f"the blend's member {entry.member.name} is not refitted to all rows: {why}")
        return None, False
    if entry.member.keeps_time:
        model.set_params(max_time=None)
    stopped = is_interrupted(model)
    return None if stopped else model, stopped


def _encode_partition(encodings: Encodings, view: str, partition: Any) -> np.ndarray:
    codes = encodings.table.codes(partition, seen=True)
    rows: np.ndarray = encodings.folds.view_rows(codes).rows(0, view)
    return rows


def _member_targets(auto: Any, parts: Parts) -> Array:
    """Return class codes, or transformed targets, for the members."""
    y: Any = parts.y
    if is_classifier(auto):
        classes = auto.classes_
        return map_rows(
            y,
            lambda start, stop: label_places(classes, y[start:stop]),
            columns=(),
            dtype=np.int64,
        )
    transform = auto.target_transform_
    if transform is None:
        return y

    def forward(start: int, stop: int) -> Array:
        rows = y[start:stop]
        return transform.forward(rows.reshape(len(rows), -1)).reshape(rows.shape)

    return map_rows(y, forward, columns=tuple(y.shape[1:]), dtype=np.float64)
