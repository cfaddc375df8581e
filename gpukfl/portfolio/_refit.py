"""One model a member, fitted to all rows in the end, in place of those of the folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpukfl._array import to_host
from gpukfl._results import Status
from gpukfl._warnings import collected
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._attributes import Blended
from gpukfl.portfolio._contest import Contest
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._folds import FEW, Fold

_FEW_HELD_OUT = 0.1  # of the samples: without these a fit is as good


def is_worth_a_refit(asked: bool | str, contest: Contest, n: int, run: Run, /) -> bool:
    """Whether members are fitted to all rows: where that is asked for, or pays and time is left."""
    if contest.stopped:
        return False
    if n < FEW or not isinstance(asked, str):
        return n < FEW or bool(asked)
    share = sum(len(fold.outside) for fold in contest.folds) / n
    if len(contest.folds) > 1 or share <= _FEW_HELD_OUT or contest.cut_short:
        return False
    left, pairs = run.left(), zip(contest.weights.tolist(), contest.finished, strict=True)
    again = sum(entry.seconds for weight, entry in pairs if weight > 0) / (1.0 - share)
    return left is None or again < left


def refitted(
    auto: Any, chosen: Sequence[tuple[float, Any]], samples: Samples, run: Run, seed: int, /
) -> tuple[list[Blended], Encodings | None] | None:
    """Fit each member of a blend to all rows: members and their encodings; None without time.

    Raises
    ------
    KeyboardInterrupt
        If it is interrupted, or a member was.
    """
    found, transform = [], auto.target_transform_
    if transform is not None:
        samples = replace(samples, Y=transform.forward(to_host(samples.Y).astype(np.float64)))
    encodings, whole = auto.encodings_, Fold(samples, samples)
    if encodings is not None:
        encodings, whole = encodings.on_all(samples, seed)
    for weight, entry in chosen:
        left = run.left()
        if left is not None and run.is_over():
            return None
        with collected():
            inside = whole.seen_by(entry.member).inside
            model, _ = entry.member.fitted(inside, entry.precedent, left)
        if getattr(model, "status_", "") == Status.INTERRUPTED.name:
            raise KeyboardInterrupt
        found.append(replace(entry.blended(weight), models=[model]))
    return found, encodings
