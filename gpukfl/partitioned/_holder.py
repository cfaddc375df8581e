"""Who holds parts of the rows: runs programs on them, and keeps what they leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace, is_array, like, on_device_of, to_host
from gpukfl.partitioned._program import loads
from gpukfl.partitioned._tree import Known, add_in

Combine = Callable[[Any, Any], Any]


class NotHereError(LookupError):
    """Who held some rows is gone, and with it what it held."""


@dataclass(frozen=True)
class Pass:
    """What is to be done on each part of the rows, as bytes.

    Attributes
    ----------
    made : tuple of (int, bytes)
        Values to compute, with their keys, in an order in which each finds what it reads.
    asked : bytes or None
        A pair: what gives a tuple of values of a part, and what combines two of such values.
    kept : frozenset of int
        Keys of those values that stay with the parts.
    reads : frozenset of int
        Keys of what it reads, made before it or in it.
    replaced : frozenset of int
        Keys of what a part has no use for once its own work is done.
    """

    made: tuple[tuple[int, bytes], ...]
    asked: bytes | None
    kept: frozenset[int]
    reads: frozenset[int]
    replaced: frozenset[int] = frozenset()

    @property
    def n_bytes(self) -> int:
        """Bytes of what is to be done."""
        return sum(len(step) for _, step in self.made) + len(self.asked or b"")


class Holder:
    """Holds some of the parts on one place.

    Parameters
    ----------
    place : array
        An empty array of the place to work on.
    n_threads : int
        Parts that are worked on at once.
    """

    def __init__(self, place: Array, n_threads: int = 1) -> None:
        self.place, self.n_threads = place, n_threads
        self.values: dict[int, dict[int, Any]] = {}  # of each part, by key

    def put(self, part: int, key: int, value: Any, /) -> None:
        """Keep a value of one part: on the place, if it is of numbers."""
        self.values.setdefault(part, {})[key] = self._placed(value)

    def _placed(self, value: Any) -> Any:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
            return value
        return array_namespace(self.place).asarray(value, device=like(self.place)["device"])

    def drop(self, parts: Iterable[int], /) -> None:
        """Forget parts."""
        for part in parts:
            self.values.pop(part, None)

    def free(self, keys: Iterable[int], /) -> None:
        """Forget values that nobody will ask for again."""
        for part in self.values:
            self._free(part, keys)

    def _free(self, part: int, keys: Iterable[int]) -> None:
        values = self.values[part]
        self.let_go(sum(n_bytes(values.pop(key, None)) for key in keys))

    def let_go(self, count: int, /) -> None:
        """Be told that so many bytes were forgotten."""

    def run(self, work: Pass, parts: Sequence[int], edges: Sequence[int], /) -> Known[Any]:
        """Do a pass over parts that are held here, and give totals over them.

        `edges` are the first rows of all parts there are, and the number of rows. What fails
        leaves values that nobody knows of, until they are freed.
        """
        from gpukfl._accel.pool import map_in_threads
        from gpukfl._accel.threads import alone

        if missing := [part for part in parts if part not in self.values]:
            msg = f"the parts {missing} are not held here"
            raise NotHereError(msg)

        def one(part: int) -> tuple[dict[int, Any], tuple[Any, ...] | None, Combine]:
            with alone(), on_device_of(self.place):
                return self._run_on(work, part, edges)

        known: Known[Any] = {}
        results = map_in_threads(self.n_threads, one, parts)
        for part, (made, result, combine) in zip(parts, results, strict=True):
            self.values[part].update(made)
            self._free(part, work.replaced)
            if result is not None:
                known[part, part + 1] = result
                add_in(known, part, len(edges) - 1, partial(_combined_by, combine))
        return known

    def _run_on(
        self, work: Pass, part: int, edges: Sequence[int]
    ) -> tuple[dict[int, Any], tuple[Any, ...] | None, Combine]:
        values, rows = dict(self.values[part]), (edges[part], edges[part + 1], edges[-1])
        for key, step in work.made:
            values[key] = self._placed(loads(step, values, self.place, rows)(*rows[:2]))
        made = {key: values[key] for key in work.kept}
        if work.asked is None:
            return made, None, _first
        ask, combine = loads(work.asked, values, self.place, rows)
        result = tuple(to_host(x) if is_array(x) else x for x in ask(*rows[:2]))
        return made, result, combine


def _combined_by(combine: Combine, a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    return combined(a, b, combine)


def combined(a: tuple[Any, ...], b: tuple[Any, ...], combine: Combine, /) -> tuple[Any, ...]:
    """Combine two tuples, one by one."""
    return tuple(combine(x, y) for x, y in zip(a, b, strict=True))


def _first(a: Any, _: Any) -> Any:
    return a


def n_bytes(value: Any, /) -> int:
    """Bytes of an array, or of those in a tuple, list or dictionary, however deep."""
    if isinstance(value, dict):
        return sum(map(n_bytes, value.values()))
    if isinstance(value, (tuple, list)):
        return sum(map(n_bytes, value))
    return int(getattr(value, "nbytes", 0))
