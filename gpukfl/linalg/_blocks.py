"""Work on row blocks, in parallel on several cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from gpukfl.core._array import Array, is_host
from gpukfl.core._memory import block_size, run_in_blocks

_CACHED = 2**19  # elements of a block that stay in a core's cache between elementwise steps
# Elements for each thread: those of few wait for one another, and for the interpreter's lock
_WORTH_A_THREAD = 2**18
_COPIES = 4  # arrays of the size of a block that are held at once
_FEWEST = 256  # rows with which a matrix product still runs at full speed

T = TypeVar("T")


def each_block(
    reference: Array,
    rows: tuple[int, int],
    width: int,
    compute: Callable[[int, int], T],
    take: Callable[[int, int, T], None],
    /,
    *,
    fewest: int = _FEWEST,
) -> None:
    """Call ``take(start, stop, compute(start, stop))`` over blocks of rows, in order.

    `compute` runs in several threads on NumPy, `take` in the caller's only, so that sums do not
    depend on timing. Where memory runs out the blocks are halved and tried again.

    Parameters
    ----------
    reference : array
        Lives where the work is done.
    rows : tuple of int
        From which row up to which.
    width : int
        Elements that a row needs.
    compute : callable
        Work on the rows from start to stop; changes nothing.
    take : callable
        Takes up a result; must not run out of memory.
    fewest : int
        Rows in a block at least, on NumPy, unless memory is short: where taking up a result costs
        as much as computing it for some rows.
    """
    first, n = rows[0], rows[1] - rows[0]
    at_most, threads = n, 1
    if is_host(reference):
        from gpukfl._accel import threads as pool

        at_most = max(fewest, _CACHED // max(width, 1))
        if (worth := n * width // _WORTH_A_THREAD) > 1:
            threads = min(pool.n_parts(), worth)
    size = block_size(
        reference,
        bytes_each=8 * _COPIES * width * threads,
        elements_each=width,
        at_most=min(at_most, n),
    )

    def body(start: int, stop: int) -> None:
        each = max(1, -(-(stop - start) // threads))
        edges = [*range(first + start, first + stop, each), first + stop]
        starts, stops = edges[:-1], edges[1:]
        if len(starts) > 1:
            results = pool.map_in_pool(compute, starts, stops)
        else:
            results = [compute(edges[0], edges[1])]
        for a, b, result in zip(starts, stops, results, strict=True):
            take(a, b, result)

    run_in_blocks(n, size * threads, body)
