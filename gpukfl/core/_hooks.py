"""How estimators are saved and asked for their errors: the layers above say here how they do it.

What writes files of any method, and what infers, knows every estimator, so that no estimator can
import it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Writer = Callable[[Any, str | Path, bool], None]
_WRITERS: list[Writer] = []
_ANSWERS: list[Callable[..., Any]] = []


def register_writer(writer: Writer, /) -> None:
    """Register the function that writes a fitted estimator to a file."""
    _WRITERS[:] = [writer]


def save(estimator: Any, path: str | Path, /, *, record: bool) -> None:
    """Write a fitted estimator to a file by the registered function."""
    _WRITERS[0](estimator, path, record)


def register_inference(answer: Callable[..., Any], /) -> None:
    """Register the function that infers from a fitted model, rows, targets and options."""
    _ANSWERS[:] = [answer]


def infer(model: Any, X: Any, y: Any, /, **options: Any) -> Any:
    """Call the registered inference function."""
    return _ANSWERS[0](model, X, y, **options)
