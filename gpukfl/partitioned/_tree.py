"""Sums in an order that the parts fix, whoever holds them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

Known = dict[tuple[int, int], T]  # totals of consecutive parts, from one up to another


def add_up(known: Known[T], start: int, stop: int, combine: Callable[[T, T], T], /) -> None:
    """Put the totals of two halves together where both are known, in place.

    The halves of `start` to `stop` are fixed by these numbers, so that the order of a sum is the
    same whoever knows what. They are even, so that who holds half of the parts knows one total.
    """
    if (start, stop) in known or stop - start < 2:
        return
    middle = (start + stop) // 2
    add_up(known, start, middle, combine)
    add_up(known, middle, stop, combine)
    left, right = (start, middle), (middle, stop)
    if left in known and right in known:
        known[start, stop] = combine(known.pop(left), known.pop(right))


def add_in(known: Known[T], part: int, count: int, combine: Callable[[T, T], T], /) -> None:
    """Put totals together that the total of one part of `count` completes, as `add_up` does.

    In place, and at once: totals may be large.
    """
    start, stop, halves = 0, count, []
    while stop - start > 1:
        middle = (start + stop) // 2
        halves.append((start, middle, stop))
        start, stop = (start, middle) if part < middle else (middle, stop)
    for first, middle, last in reversed(halves):
        left, right = (first, middle), (middle, last)
        if left not in known or right not in known:
            return
        known[first, last] = combine(known.pop(left), known.pop(right))
