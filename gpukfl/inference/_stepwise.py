"""Work item by item, with progress reports and partial results after an interruption."""

from __future__ import annotations

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
    """Apply a function to each item in order; warn if an interruption leaves some out.

    `what` names the items in the progress and the warning. KeyboardInterrupt is raised where the
    first one is not done.
    """
    found = list[Found]()
    try:
        for one in _run_items(what, items, work):
            found.append(one)
    except KeyboardInterrupt:
        if not found:
            raise
        msg = f"{what}: interrupted, {len(found)} of {len(items)} are done and kept"
        warn(msg, ConvergenceWarning)
    return found


def map_all_or_nothing(
    what: str, items: Sequence[Item], work: Callable[[Item], Found], /
) -> list[Found]:
    """Apply a function to each item in order; an interruption discards all results."""
    return list(_run_items(what, items, work))


def _run_items(what: str, items: Sequence[Item], work: Callable[[Item], Found]) -> Iterator[Found]:
    """Report each item, and the fits in it under its number."""
    report = current_report()
    for k, item in enumerate(items):
        place = f"{what}, {k + 1} of {len(items)}"

        def report_fit(stage: str, step: int, history: History, place: str = place) -> None:
            report(f"{place}: {stage}", step, history)

        report(place, k, History())
        with use_report(report_fit):
            found = work(item)
        yield found
