"""Work that goes item by item: it reports where it is, and an interruption keeps what is done."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sklearn.exceptions import ConvergenceWarning

from gpukfl.core._results import History
from gpukfl.core._warnings import warn
from gpukfl.estimators._run import current_report, use_report

Item = TypeVar("Item")
Found = TypeVar("Found")


def map_with_progress(
    what: str, items: Sequence[Item], work: Callable[[Item], Found], /
) -> list[Found]:
    """Do the work of each item in order, and warn where an interruption leaves some out.

    Parameters
    ----------
    what : str
        What the items are, for the progress and the warning.
    items : sequence
        In their order.
    work : callable
        What is done with one. Fits in it report under its number.

    Returns
    -------
    list
        One result for each item; fewer where it was interrupted.

    Raises
    ------
    KeyboardInterrupt
        If it is interrupted before the first one is done.
    """
    found = list[Found]()
    try:
        for k, item in enumerate(items):
            with _report_step(what, k, len(items)):
                found.append(work(item))
    except KeyboardInterrupt:
        if not found:
            raise
        msg = f"{what}: interrupted, {len(found)} of {len(items)} are done and kept"
        warn(msg, ConvergenceWarning)
    return found


def map_all_or_nothing(
    what: str, items: Sequence[Item], work: Callable[[Item], Found], /
) -> list[Found]:
    """Do the work of each item in order, where a part of the results is of no use.

    Raises
    ------
    KeyboardInterrupt
        If it is interrupted, also where a fit in it ends with its best step so far.
    """
    found = list[Found]()
    for k, item in enumerate(items):
        with _report_step(what, k, len(items)):
            found.append(work(item))
    return found


@contextlib.contextmanager
def _report_step(what: str, k: int, count: int) -> Iterator[None]:
    """Report an item, and the fits in it under its number."""
    report, place = current_report(), f"{what}, {k + 1} of {count}"

    def told(stage: str, step: int, history: History) -> None:
        report(f"{place}: {stage}", step, history)

    report(place, k, History())
    with use_report(told):
        yield
