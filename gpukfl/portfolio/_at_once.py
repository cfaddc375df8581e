"""Fits that do not wait for each other, in threads at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sklearn import config_context, get_config

from gpukfl._accel.threads import apart, free_threads
from gpukfl._array import library_of
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._members import Member

_MOST_FITS = 4  # more of them wait for the interpreter; what they split fills other threads
_MOST_ROWS = 20_000  # above which a fit fills all threads by itself, and takes memory

Given = TypeVar("Given")
Found = TypeVar("Found")


def fits_at_once(member: Member, samples: Samples, /) -> int:
    """Say how many fits of a member to about so many samples are best made at once.

    One on a GPU, which they would share, and of members of others, which threads may not suit.
    """
    if not member.takes_any_library or library_of(samples.X) != "numpy":
        return 1
    apt = member.at_once_from <= len(samples) <= _MOST_ROWS
    return min(free_threads(), _MOST_FITS) if apt else 1


def at_once(fit: Callable[[Given], Found], given: Sequence[Given], /) -> list[Found]:
    """Call `fit` on all that is given, in a thread each; results in order.

    Scikit-learn's settings, which are of a thread, are those of the caller.
    """
    if len(given) == 1:
        return [fit(given[0])]
    settings: dict[str, Any] = get_config()

    def configured(one: Given) -> Found:
        with config_context(**settings):
            return fit(one)

    return apart(configured, given)
