"""The division of rows into parts, and passes over them."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from gpukfl.core._array import Array, array_namespace, like, take_rows, to_host
from gpukfl.partitioned._program import (
    Combine,
    Part,
    Partitioned,
    Pass,
    Totals,
    add_halves,
    combine_tuples,
    dumps,
)


class Holders(Protocol):
    """The holders of the parts of some rows, in threads or on a cluster."""

    sizes: list[int]  # rows of each part

    def run(self, work: Pass, freed: frozenset[int], /) -> Totals[Any]:
        """Run a pass over all parts, and free values; return totals of consecutive parts."""


class Partitioning:
    """The parts that rows are divided into, and passes over them.

    A pass computes all lazy values that are still referenced.

    Parameters
    ----------
    holders : Holders
        The holders of the parts, which have at least one row each.
    reference : array
        An empty array of the library and device of small arrays.
    """

    def __init__(self, holders: Holders, reference: Array) -> None:
        self.edges = [0, *itertools.accumulate(holders.sizes)]
        self.holders, self.reference = holders, reference
        self.n_passes = 0
        self._keys = itertools.count()
        self._pending_values: dict[int, weakref.ref[Described]] = {}
        self._recomputed: dict[int, weakref.ref[Described]] = {}
        self._freed: set[int] = set()
        self._replaced: set[int] = set()

    def __len__(self) -> int:
        return len(self.edges) - 1

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return self.edges[-1]

    def reduce(self, part: Part, /, *, combine: Combine = operator.add) -> list[Any]:
        """Combine ``part(start, stop)``, a tuple of small values, over all parts.

        Returned arrays have the library and device of the reference.
        """
        known = self._pass(part, combine)
        add_halves(known, 0, len(self.edges) - 1, partial(combine_tuples, combine))
        ((_, total),) = known.items()
        return [_place_numbers(x, self.reference) for x in total]

    def keep(self, part: Part, /, *, instead_of: Described | None = None) -> Described:
        """Return a lazy value ``part(start, stop)`` of each part, which stays there.

        `instead_of` is a value to `replace`.
        """
        self.replace(instead_of)
        return Described(self, part)

    def replace(self, value: Described | None, /) -> None:
        """Mark a value as last read by the next pass.

        The pass frees it part by part, so that it needs no memory beside values made of it.
        """
        if value is not None:
            self._replaced.add(value.key)

    def make_anew(self, value: Described, /) -> None:
        """Mark a lazy value to be computed in every pass that reads it, instead of kept."""
        if (ref := self._pending_values.pop(value.key, None)) is None:
            return  # computed already
        self._recomputed[value.key] = ref
        for key in _serialise(ref)[2]:
            if (read := self._pending_values.get(key)) is not None and (
                other := read()
            ) is not None:
                self.make_anew(other)

    def gather(self, values: Any, index: np.ndarray, /) -> np.ndarray:
        """Gather rows at host indices, in any order, on the host."""
        return self.gather_together([values], index)[0]

    def gather_together(self, values: Sequence[Any], index: np.ndarray, /) -> list[np.ndarray]:
        """Gather rows of several arrays on the host, in one pass."""
        order = np.argsort(index, kind="stable")
        ascending = index[order]

        def gather_rows(start: int, stop: int) -> list[list[np.ndarray]]:
            low, high = np.searchsorted(ascending, [start, stop])
            here = ascending[low:high] - start
            return [[to_host(take_rows(x[start:stop], here))] for x in values]

        found = [np.concatenate(blocks, axis=0) for blocks in self.reduce(gather_rows)]
        results = [np.empty_like(x) for x in found]
        for result, x in zip(results, found, strict=True):
            result[order] = x
        return results

    def new_key(self) -> int:
        """Return a new key for a value."""
        return next(self._keys)

    def put_off(self, value: Described, /) -> None:
        """Record that a value is not computed yet."""
        self._pending_values[value.key] = weakref.ref(value)

    def forget(self, key: int, /) -> None:
        """Record that a value is not needed again."""
        if (self._pending_values.pop(key, None) or self._recomputed.pop(key, None)) is None:
            self._freed.add(key)

    def _pass(self, part: Part, combine: Combine) -> Totals[Any]:
        asked, reads = dumps((part, combine))
        freed, self._freed = frozenset(self._freed), set()  # before values die during this pass
        replaced, self._replaced = frozenset(self._replaced), set()
        refs = [ref for _, ref in sorted(self._pending_values.items()) if ref() is not None]
        steps = [_serialise(ref) for ref in refs]
        reads = reads.union(*(needs for _, _, needs in steps))
        # Before recipes are dropped, which may be the only references to these values
        recomputed, reads = self._find_recomputed(reads)
        self._pending_values.clear()
        kept = self._live_keys(refs)
        made = sorted((key, step) for key, step, _ in steps + recomputed)  # in order of dependence
        self.n_passes += 1
        work = Pass(tuple(made), asked, kept, frozenset(reads), replaced)
        return self.holders.run(work, freed)

    def _find_recomputed(
        self, reads: set[int]
    ) -> tuple[list[tuple[int, bytes, set[int]]], set[int]]:
        """Return the recomputed values that a pass reads, and all keys that it reads."""
        found: list[tuple[int, bytes, set[int]]] = []
        for key in sorted(self._recomputed, reverse=True):
            if key in reads:
                found.append(_serialise(self._recomputed[key]))
                reads = reads | found[-1][2]
        return found, reads

    @staticmethod
    def _live_keys(refs: list[weakref.ref[Described]]) -> frozenset[int]:
        """Drop all recipes, and return the keys of values that are still referenced.

        Values that only recipes referenced die with them.
        """
        for ref in refs:
            if (value := ref()) is not None:
                value.recipe = None
            value = None
        return frozenset(value.key for ref in refs if (value := ref()) is not None)


class Described(Partitioned):
    """A lazy value of each part, computed in the next pass.

    Parameters
    ----------
    partitioning : Partitioning
        The partitioning of the rows.
    recipe : callable
        ``recipe(start, stop)`` returns the value of the part with these rows.
    """

    def __init__(self, partitioning: Partitioning, recipe: Part | None) -> None:
        self.partitioning, self.recipe = partitioning, recipe
        self.key = partitioning.new_key()
        if recipe is not None:
            partitioning.put_off(self)

    def __del__(self) -> None:
        self.partitioning.forget(self.key)


def _serialise(ref: weakref.ref[Described], /) -> tuple[int, bytes, set[int]]:
    """Return a value's key, its recipe as bytes, and the keys that the recipe reads."""
    value = ref()
    assert value is not None  # a variable or another recipe references it
    return value.key, *dumps(value.recipe)


def _place_numbers(x: Any, reference: Array, /) -> Any:
    """Copy numbers to the library and device of the reference; their precision stays."""
    if not isinstance(x, (np.ndarray, np.generic)) or x.dtype.kind not in "fiub":
        return x
    return array_namespace(reference).asarray(np.asarray(x), device=like(reference)["device"])
