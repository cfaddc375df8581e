"""Where the columns of numbers stand that columns of codes become."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpukfl.core._array import array_namespace, is_host
from gpukfl.tables._column import Coded

_STEPS = 2.0**40


class Groups(NamedTuple):
    """Columns of codes by what they are: indices of each sort."""

    numbers: list[int]
    rounds: list[int]  # numbers that go round
    gaps: list[int]  # numbers with an indicator
    levels: list[int]


class Output(NamedTuple):
    """A column of numbers."""

    name: str
    column: int  # of codes
    weighed: bool
    told: bool  # by targets


def waves(angles: Any, /) -> tuple[Any, Any]:
    """Sines and cosines, in whole steps of 2⁻⁴⁰: what is equal in mathematics is equal.

    Ranks would tell apart the cosines of 30 and of 330 degrees, of which libraries and processors
    have other last bits.
    """
    xp = array_namespace(angles)
    # Graphs for ONNX runtimes have the cosine in float32, and the sine in float64
    cosine = xp.cos(angles) if is_host(angles) else xp.sin(angles + 0.5 * np.pi)
    sine, cosine = (xp.floor(wave * _STEPS + 0.5) / _STEPS for wave in (xp.sin(angles), cosine))
    return sine, cosine


def groups_of(coded: Sequence[Coded], /) -> Groups:
    """Sort columns of codes."""
    every = list(enumerate(coded))
    return Groups(
        [j for j, one in every if not one.levels and not one.period],
        [j for j, one in every if one.period],
        [j for j, one in every if one.gaps and not one.levels],
        [j for j, one in every if one.levels],
    )


def places_of(coded: Sequence[Coded], widths: Sequence[int], /) -> list[list[int]]:
    """Return the columns of numbers of each column of codes; `widths` are those of levels.

    A number comes before its indicator, a sine before its cosine.
    """
    groups = groups_of(coded)
    levels = [j for j, width in zip(groups.levels, widths, strict=True) for _ in range(width)]
    places: list[list[int]] = [[] for _ in coded]
    order = (*groups.numbers, *groups.rounds, *groups.rounds, *groups.gaps, *levels)
    for k, j in enumerate(order):
        places[j].append(k)
    return places


def one_by_one(
    columns: Iterable[np.ndarray], coded: Sequence[Coded]
) -> Iterator[tuple[int, np.ndarray, Coded]]:
    """Return columns by their numbers, and hold none while the next is made, as `zip` does.

    Raises ValueError if there are more or fewer than are coded.
    """
    given, nothing = iter(columns), np.empty(0)
    for j, one in enumerate(coded):
        codes = next(given, nothing)
        if codes is nothing:
            msg = f"expected {len(coded)} columns of codes, got {j}"
            raise ValueError(msg)
        yield j, codes, one
        del codes
    if next(given, nothing) is not nothing:
        msg = f"expected {len(coded)} columns of codes, got more"
        raise ValueError(msg)
