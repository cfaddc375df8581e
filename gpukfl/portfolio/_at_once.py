"""Fits that do not wait for each other, in threads at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from sklearn import config_context, get_config

from gpukfl._accel.threads import apart, free_threads
from gpukfl._array import is_host
from gpukfl._memory import memory_shared
from gpukfl._results import History
from gpukfl.estimators._run import Report, current_report, reported_to
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._members import Member

_MOST_FITS = 4  # more of them wait for the interpreter; what they split fills other threads
_MOST_ROWS, _MOST_ELEMENTS = 20_000, 10**7  # more fill all threads alone, and take memory

Given = TypeVar("Given")
Found = TypeVar("Found")


def fits_at_once(member: Member, samples: Samples, some: int | None = None, /) -> int:
    """Say how many fits of a member to about such samples, or some of them, are best made at once.

    One on a GPU, which they would share, and of members of others, which threads may not suit.
    """
    if not member.takes_any_library or not is_host(samples.X):
        return 1
    n, d = samples.X.shape
    n = n if some is None else min(n, some)
    apt = member.at_once_from <= n <= _MOST_ROWS and n * d <= _MOST_ELEMENTS
    return min(free_threads(), _MOST_FITS) if apt else 1


def at_once(
    fit: Callable[[Given], Found], given: Sequence[Given], report: Report | None = None, /
) -> list[Found]:
    """Call `fit` on all that is given, in a thread each; results in order, reports of the first.

    Scikit-learn's settings, which are of a thread, are those of the caller. Where it is
    interrupted, or one fails, the others end at their next step.
    """
    report, settings, wanted = report or current_report(), get_config(), True
    if len(given) == 1:
        with reported_to(report):
            return [fit(given[0])]

    def told(k: int, one: Given) -> Found:
        def tell(stage: str, step: int, history: History) -> None:
            if not wanted:
                raise KeyboardInterrupt
            if k == 0:
                report(stage, step, history)

        with config_context(**settings), reported_to(tell), memory_shared(len(given)):
            return fit(one)

    try:
        return apart(told, range(len(given)), given)
    finally:
        wanted = False
