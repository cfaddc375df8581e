"""How a fitted model is asked for its errors: the layers above say here what answers.

What infers knows every estimator, so that no estimator can import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_ANSWERS: list[Callable[..., Any]] = []


def register_inference(answer: Callable[..., Any], /) -> None:
    """Register the function that answers for a fitted model, rows, targets and options."""
    _ANSWERS[:] = [answer]


def infer(model: Any, X: Any, y: Any, /, **options: Any) -> Any:
    """Ask for all that may be concluded of a fitted model, by what was said last."""
    return _ANSWERS[0](model, X, y, **options)
