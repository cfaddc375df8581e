"""What tables are read from: columns with names, one at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpukfl.tables._values import Values

_NAMED = 10  # columns that a message names


@dataclass(frozen=True, eq=False)
class Frame:
    """Columns that are read one at a time.

    Attributes
    ----------
    names : tuple of str
        All different.
    named : bool
        Whether the data say so, or the names only count.
    n_rows : int
        Rows.
    read : callable
        Gives the values of the column at an index.
    read_blocks : callable
        Gives them in parts, one after the other, where they are text, which takes much memory.
    """

    names: tuple[str, ...]
    named: bool
    n_rows: int
    read: Callable[[int], Values]
    read_blocks: Callable[[int], Iterator[Values]]


def read_column(frame: Frame, k: int, /) -> Values:
    """Read a column.

    Raises
    ------
    ValueError
        If it holds complex numbers; names it.
    """
    with told_of(frame.names[k]):
        return frame.read(k)


def read_whole(frame: Frame, k: int, /) -> Iterator[Values]:
    """Read a column as one part."""
    yield read_column(frame, k)


def read_blocks(frame: Frame, k: int, /) -> Iterator[Values]:
    """Read a column in parts, where it is text; raises what `read_column` does."""
    with told_of(frame.names[k]):
        yield from frame.read_blocks(k)


@contextlib.contextmanager
def told_of(name: str, /) -> Iterator[None]:
    """Say of which column an error is."""
    try:
        yield
    except ValueError as error:
        msg = f"column {name!r}: {error}"
        raise ValueError(msg) from error


def listed(names: Sequence[str], /) -> str:
    """List names, or the first of many."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")
