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
from gpukfl.portfolio._folds import MANY_ROWS, MIN_ROWS_FOR_FOLDS, REFIT_FROM, MemberFold
from gpukfl.portfolio._members import Member
from gpukfl.portfolio._train import MemberTrainer
from gpukfl.tables._target import label_places

# ------------------------------------------------------------------------ refits in memory

BESIDE: Literal["both"] = "both"
# No refit, a refit in addition to the folds' models, or a refit that replaces them
Refit = Literal["", "both", "instead"]
_SMALL_SHARE = 0.11  # of the rows: holding out no more does not make a model worse


def choose_refit(
    asked: bool | str, trainer: MemberTrainer, n: int, run: Run, /, *, related: bool = False
) -> Refit:
    """Return how members are refitted to all rows, as asked or if it pays and time allows.

    It pays if each fold lacks more than a tenth of the rows, and always for 2000 rows or more. It
    does not pay for fewer than 200 rows, as single fits to so few err about as much. If rows are
    `related` and some are never held out, such as the earliest times, there is always a refit.
    """
    if trainer.stopped:
        return ""
    if n < MIN_ROWS_FOR_FOLDS or not isinstance(asked, str):
        return "instead" if n < MIN_ROWS_FOR_FOLDS or asked else ""
    folds, standings = trainer.fitter.folds, trainer.standings
    several, held_out = len(folds) > 1, len(folds[0].outside) / n
    related = related and several and sum(len(fold.outside) for fold in folds) < n
    if asked == BESIDE or related:
        return BESIDE if asked == BESIDE else "instead"
    pays = held_out > _SMALL_SHARE
    if several:
        pays = n >= MANY_ROWS or (n >= REFIT_FROM and pays)
    if trainer.cut_short or not pays:
        return ""
    pairs = zip(standings.weights.tolist(), standings.finished, strict=True)
    once = sum(entry.seconds for weight, entry in pairs if weight > 0) / len(folds)
    left = run.remaining_seconds()
    if left is not None and once / (1.0 - held_out) >= left:
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
    """Refit each member of a blend to all rows, with its encoding; return None if time is short.

    With `beside`, members keep the folds' models, and a refit may be cut off by the time limit.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts.
    """
    transform = auto.target_transform_
    if transform is not None:
        samples = replace(samples, Y=transform.forward(to_host(samples.Y).astype(np.float64)))
    encodings, whole = auto.encodings_, MemberFold(samples, samples)
    if encodings is not None:
        encodings, whole = encodings.learn_on_all(samples, seed, beside=beside)
    run.lap("encodings")
    models = _fit_all([entry for _, entry in chosen], whole, run, workers, allow_limited=beside)
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
    allow_limited: bool,
) -> list[Any] | None:
    """Fit each member to all rows; return None if time is too short.

    Unless `allow_limited`, a fit that the time limit ended counts as too short. Raises
    KeyboardInterrupt if the user interrupts a fit.
    """
    n = len(whole.inside)
    on_gpu = [one for one in entries if uses_gpu(one.member, whole.inside, n)]
    if on_gpu and workers.count > 1:
        return _fit_beside_gpu(on_gpu, entries, whole, run, workers, allow_limited=allow_limited)
    models: dict[MemberResult, Any] = {}
    shared = workers.share(whole)
    for batch in _batch_members(entries, whole, run, workers):
        left = run.remaining_seconds()
        late = max(one.expected_seconds(n) for one in batch)
        if left is not None and (run.is_over() or late > left):
            return None
        tasks = [_refit_task(one) for one in batch]
        fit = partial(_fit_to_all, shared, left)
        with collect_warnings():
            if workers.count == 1:
                found = fit_in_parallel(fit, tasks)
            else:
                report = current_report()
                found = [outcome.result() for outcome in workers.map(fit, tasks, report)]
        models |= zip(batch, found, strict=True)
        run.lap("last fit", [one.member.name for one in batch], 1)
        if not allow_limited and any(map(is_limited, found)):
            return None
    return [models[entry] for entry in entries]


def _refit_task(entry: MemberResult) -> tuple[Member, WarmStart[Any] | None]:
    """Return a member, and the settings that its refit starts from."""
    return entry.member, mean_start(entry.warm_starts) or entry.warm_start


def _fit_beside_gpu(
    on_gpu: Sequence[MemberResult],
    entries: Sequence[MemberResult],
    whole: MemberFold,
    run: Run,
    workers: Workers,
    /,
    *,
    allow_limited: bool,
) -> list[Any] | None:
    """Fit members on the GPU here, and the others in other processes, as `_fit_all` does."""
    n, left = len(whole.inside), run.remaining_seconds()
    others = [one for one in entries if one not in on_gpu]
    on_host = whole if is_host(whole.inside.X) else whole.host_fold
    fit = partial(_fit_to_all, workers.share(on_host) if others else Shared(on_host, ""), left)
    begun = workers.begin(fit, [_refit_task(one) for one in others])
    try:
        found = _fit_all(on_gpu, whole, run, Workers(), allow_limited=allow_limited)
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
            if not allow_limited and is_limited(models[one]):
                return None
    finally:
        begun.drop()
    return [models[entry] for entry in entries]


def _batch_members(
    entries: Sequence[MemberResult], whole: MemberFold, run: Run, workers: Workers, /
) -> list[list[MemberResult]]:
    """Return groups of members to fit in parallel: with a time limit only in processes."""
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
    """Fit a member to all rows; raise KeyboardInterrupt if the user interrupts."""
    member, warm_start = task
    model, _ = member.fit_clone(whole.value.member_view(member).inside, warm_start, left)
    if is_interrupted(model):
        raise KeyboardInterrupt
    return model


# ----------------------------------------------------------------- refits to rows in parts

_MAX_NAMED = 10  # classes that a warning names


def fit_members_to_all(
    auto: Any, chosen: Sequence[tuple[float, MemberResult]], given: Collections, run: Run, /
) -> tuple[list[Blended], bool, bool]:
    """Fit members of gpukfl to all rows, with the settings chosen on a sample.

    Parameters
    ----------
    auto : AutoRegressor or AutoClassifier
        Blend that was fitted to the sample.
    chosen : sequence of (float, MemberResult)
        Weights, and members of the blend. Members of other libraries keep their models, and so do
        those for which there is no time.
    given : Collections
        All rows.

    Returns
    -------
    list of Blended
        The members.
    bool
        Whether any of them was refitted.
    bool
        Whether the user interrupted.
    """
    found = [entry.to_blend_member(weight) for weight, entry in chosen]
    own = [k for k, (_, entry) in enumerate(chosen) if entry.member.takes_any_library]
    any_fitted = stopped = False
    for view in dict.fromkeys(chosen[k][1].member.sees for k in own):
        if stopped or run.is_over():  # no need to read rows
            continue
        try:
            with _read(auto, given, view) as parts:
                if is_classifier(auto) and _warn_new_classes(auto.classes_, parts):
                    known = given.only(partial(np.isin, test_elements=auto.classes_))
                    break
                y = _member_targets(auto, parts)
                for k in own:
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
    """Open a reader of all rows, encoded as members with this view take them."""
    encodings, read = auto.encodings_, None
    if encodings is not None:
        read = partial(_encode_partition, encodings, view)
    backend, labels = Backend.parse(auto.backend).name, is_classifier(auto)
    return read_partitions(given, find_client(auto), backend, labels=labels, read=read)


def _warn_new_classes(classes: np.ndarray, parts: Parts) -> bool:
    """Warn of classes that have no row in the sample; return whether there are any."""
    found, counts = count_labels(parts.y)
    new = ~np.isin(found, classes)
    if new.any():
        names = ", ".join(map(str, found[new][:_MAX_NAMED]))
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
            model.fit_like(parts.X, y, parts.weights, entry.warm_start, deviations=False)
    except KeyboardInterrupt:
        return None, True
    except ClusterLostError:  # other members cannot be fitted either
        raise
    except Exception as error:  # the member keeps its models of the sample
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
