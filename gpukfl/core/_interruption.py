"""Recovery of Ctrl-C from libraries that raise another error for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def restore_interruptions() -> Iterator[None]:
    """Raise KeyboardInterrupt in place of an error in the block that Ctrl-C caused.

    For example, NumPy raises ValueError for a Ctrl-C while it reads the format of a buffer.
    """
    try:
        yield
    except Exception as error:
        if _has_interruption(error):
            raise KeyboardInterrupt from error
        raise


def _has_interruption(error: BaseException) -> bool:
    """Whether an error, a cause of it or a context of it is Ctrl-C."""
    found: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        one = left.pop()
        if one is not None and one not in found:
            found.append(one)
            left += [one.__cause__, one.__context__]
    return any(isinstance(one, KeyboardInterrupt) for one in found)
