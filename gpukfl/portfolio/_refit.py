"""Members that are fitted to all rows in the end, beside those of the folds or in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from gpukfl._array import to_host
from gpukfl._warnings import collected
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._at_once import at_once, fits_at_once
from gpukfl.portfolio._attributes import Blended
from gpukfl.portfolio._contest import Contest
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._entry import Entry, is_interrupted, is_limited
from gpukfl.portfolio._folds import FEW, HALF_ENOUGH, MANY, Fold

BESIDE: Literal["both"] = "both"
Refit = Literal["", "both", "instead"]  # none; one to all rows beside the folds' models; it alone
_FEW_HELD_OUT = 0.1  # of the samples: without these a fit is as good
_SOME_HELD_OUT = 0.15  # without these several fits are


def refit_of(asked: bool | str, contest: Contest, n: int, run: Run, /) -> Refit:
    """Say whether members are fitted to all rows: as is asked for, or where it pays and time is.

    It pays where folds lack a fifth of the rows, or half: a blend of their models alone errs by
    more. Where there are few rows, of which they lack an eighth, fits to all of them err in their
    own ways by as much.
    """
    if contest.stopped:
        return ""
    if n < FEW or not isinstance(asked, str):
        return "instead" if n < FEW or asked else ""
    if asked == BESIDE:
        return BESIDE
    lacking = len(contest.folds[0].outside) / n
    several = len(contest.folds) > 1
    if several:
        pays = n >= MANY or (n >= HALF_ENOUGH and lacking > _SOME_HELD_OUT)
    else:
        pays = lacking > _FEW_HELD_OUT
    if contest.cut_short or not pays:
        return ""
    pairs = zip(contest.weights.tolist(), contest.finished, strict=True)
    once = sum(entry.seconds for weight, entry in pairs if weight > 0) / len(contest.folds)
    left = run.left()
    if left is not None and once / (1.0 - lacking) >= left:
        return ""
    return BESIDE if several else "instead"


def refitted(
    auto: Any,
    chosen: Sequence[tuple[float, Any]],
    samples: Samples,
    run: Run,
    seed: int,
    /,
    *,
    beside: bool,
) -> tuple[list[Blended], Encodings | None] | None:
    """Fit each member of a blend to all rows: members and their encodings; None without time.

    So it is also where a fit that stands alone would be cut off, or one is known to take longer.

    Raises
    ------
    KeyboardInterrupt
        If it is interrupted, or a member was.
    """
    transform = auto.target_transform_
    if transform is not None:
        samples = replace(samples, Y=transform.forward(to_host(samples.Y).astype(np.float64)))
    encodings, whole = auto.encodings_, Fold(samples, samples)
    if encodings is not None:
        encodings, whole = encodings.on_all(samples, seed, beside=beside)
    models = _all_fitted([entry for _, entry in chosen], whole, run, may_be_cut=beside)
    if models is None:
        return None
    found = []
    for (weight, entry), model in zip(chosen, models, strict=True):
        kept = [*entry.models, model] if beside else [model]
        found.append(replace(entry.blended(weight), models=kept))
    return found, encodings


def _all_fitted(
    entries: Sequence[Entry], whole: Fold, run: Run, /, *, may_be_cut: bool
) -> list[Any] | None:
    """Fit each to all rows; None where time is too short.

    Raises KeyboardInterrupt if a fit was interrupted.
    """
    models: dict[Entry, Any] = {}
    for turn in _turns(entries, whole, run):
        left = run.left()
        late = turn[0].seconds_for(len(whole.inside))
        if left is not None and (run.is_over() or late > left):
            return None
        with collected():
            found = at_once(partial(_fitted, whole=whole, left=left), turn)
        models |= zip(turn, found, strict=True)
        if any(map(is_interrupted, found)):
            raise KeyboardInterrupt
        if not may_be_cut and any(map(is_limited, found)):
            return None
    return [models[entry] for entry in entries]


def _turns(entries: Sequence[Entry], whole: Fold, run: Run, /) -> list[list[Entry]]:
    """Those that are fitted at once, turn after turn; one each where time has a limit."""
    if run.left() is not None:
        return [[one] for one in entries]
    widths = {one: fits_at_once(one.member, whole.seen_by(one.member).inside) for one in entries}
    several, width = [one for one in entries if widths[one] > 1], max(widths.values())
    alone = [[one] for one in entries if widths[one] == 1]
    return [*alone, *(several[k : k + width] for k in range(0, len(several), width))]


def _fitted(entry: Entry, whole: Fold, left: float | None) -> Any:
    inside = whole.seen_by(entry.member).inside
    return entry.member.fitted(inside, entry.precedent, left)[0]
