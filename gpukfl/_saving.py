"""How an estimator is saved: the layers above write files, and say here how they do it.

Files hold models of any method, so that what writes them knows every estimator; no estimator can
import it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Writer = Callable[[Any, str | Path], None]
_WRITERS: list[Writer] = []


def register_writer(writer: Writer, /) -> None:
    """Register the function that writes a fitted estimator to a file."""
    _WRITERS[:] = [writer]


def save(estimator: Any, path: str | Path, /) -> None:
    """Write a fitted estimator to a file, by what was said last."""
    _WRITERS[0](estimator, path)
