"""Ctrl-C where a library made another error of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def restore_interruptions() -> Iterator[None]:
    """Raise KeyboardInterrupt in place of an error that was made of one in the block.

    NumPy makes a ValueError of Ctrl-C while it reads the format of a buffer, for example.
    """
    try:
        yield
    except Exception as error:
        if _is_made_of_interruption(error):
            raise KeyboardInterrupt from error
        raise


def _is_made_of_interruption(error: BaseException) -> bool:
    """Whether an error, or one that it was raised from or while handling, is Ctrl-C."""
    found: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is not None and one not in found:
            found.append(one)
            left += [one.__cause__, one.__context__]
    return any(isinstance(one, KeyboardInterrupt) for one in found)
