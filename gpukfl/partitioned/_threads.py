"""Parts held by this process: on one place, or on several devices, a thread each."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from gpukfl.partitioned._holder import Holder, Pass
from gpukfl.partitioned._tree import Known


class ThreadHolders:
    """Holders in this process, which work side by side.

    Parameters
    ----------
    holders : sequence of Holder
        Each with its place.
    sizes : sequence of int
        Rows of each part; consecutive parts are divided among the holders.
    """

    def __init__(self, holders: Sequence[Holder], sizes: Sequence[int]) -> None:
        self.holders, self.sizes, n_parts = holders, list(sizes), len(sizes)
        self._edges = [0, *itertools.accumulate(sizes)]
        each = -(-n_parts // len(holders))
        self.parts = [range(n_parts)[i * each : (i + 1) * each] for i in range(len(holders))]

    def put(self, part: int, key: int, value: Any, /) -> None:
        """Keep a value of one part where that part is held."""
        (holder,) = (h for h, parts in zip(self.holders, self.parts, strict=True) if part in parts)
        holder.put(part, key, value)

    def close(self) -> None:
        """Forget everything."""
        for holder in self.holders:
            holder.values.clear()

    def run(self, work: Pass, freed: frozenset[int], /) -> Known[Any]:
        """Do a pass over all parts, and forget what was freed; give totals of consecutive parts."""
        from gpukfl._accel.pool import map_in_threads

        def one(holder: Holder, parts: Sequence[int]) -> Known[Any]:
            holder.free(freed)
            return holder.run(work, parts, self._edges) if parts else {}

        if len(self.holders) == 1:
            return one(self.holders[0], self.parts[0])
        known: Known[Any] = {}
        for found in map_in_threads(len(self.holders), one, self.holders, self.parts):
            known |= found
        return known
