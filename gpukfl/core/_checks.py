"""Checks of parameters, with errors that name the expected and the given value."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Protocol

import numpy as np


def suggest(given: object, known: Iterable[object], /) -> str:
    """Return a question with the closest of the known names, or an empty string."""
    if not isinstance(given, str):
        return ""
    names = {str(name).lower(): str(name) for name in known if isinstance(name, str)}
    close = difflib.get_close_matches(given.lower(), list(names), n=1)
    return f". Did you mean {names[close[0]]!r}?" if close else ""


def check_choice(name: str, value: object, choices: tuple[object, ...], /) -> None:
    """Raise ValueError unless `value` is one of the choices."""
    if not any(value is choice or value == choice for choice in choices):
        known = ", ".join(map(repr, choices))
        msg = f"expected {name} to be one of {known}, got {value!r}{suggest(value, choices)}"
        raise ValueError(msg)


def check_kind(name: str, value: object, kinds: tuple[type, ...], /) -> None:
    """Raise TypeError unless `value` is an instance of one of the classes."""
    if not isinstance(value, kinds):
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
        msg = f"expected {name} to be {names}, got {value!r}"
        raise TypeError(msg)


def check_bool(name: str, value: object, /, *, also: tuple[str, ...] = ()) -> None:
    """Raise TypeError unless `value` is True or False, or one of the words `also` given."""
    if isinstance(value, str) and value in also:
        return
    if not isinstance(value, (bool, np.bool_)):
        known = " or ".join(map(repr, (True, False, *also)))
        msg = f"expected {name} to be {known}, got {value!r}"
        raise TypeError(msg)


def keep_python_numbers(settings: Any, /) -> None:
    """Convert NumPy scalars in a frozen dataclass to Python's, which keep float32 arrays."""
    for one in fields(settings):
        number = getattr(settings, one.name)
        if isinstance(number, np.generic):
            object.__setattr__(settings, one.name, number.item())


def check_number(
    name: str,
    value: object,
    /,
    *,
    kind: type = numbers.Real,
    low: float = -math.inf,
    high: float = math.inf,
    low_allowed: bool = True,
    also: tuple[object, ...] = (),
) -> None:
    """Raise TypeError or ValueError unless `value` is a number of the kind within the limits."""
    if any(value is other or (isinstance(value, str) and value == other) for other in also):
        return
    what = "an integer" if kind is numbers.Integral else "a number"
    if kind is not numbers.Integral and isinstance(value, (float, np.floating)) and np.isinf(value):
        what = "a finite number"  # without limits, the message must say why inf is invalid
    limits = []
    if low > -math.inf:
        limits.append(f"{'of at least' if low_allowed else 'greater than'} {low:g}")
    if high < math.inf:
        limits.append(f"{'at' if limits else 'of at'} most {high:g}")
    bound = f"{what} {' and '.join(limits)}" if limits else what
    if also:
        bound += f", or {' or '.join(map(repr, also))}"
    msg = f"expected {name} to be {bound}, got {value!r}"
    if not isinstance(value, kind) or isinstance(value, (bool, np.bool_)):
        raise TypeError(msg)
    inside = (value >= low if low_allowed else value > low) and value <= high  # type: ignore[operator]
    if not (inside and math.isfinite(value)):  # type: ignore[arg-type]
        raise ValueError(msg)


class StepLimits(Protocol):
    """The limits of an iterative optimiser."""

    @property
    def max_iter(self) -> int:
        """The largest number of steps."""

    @property
    def tol(self) -> float:
        """The smallest relative decrease of the objective in a step."""

    @property
    def max_time(self) -> float | None:
        """The time limit in seconds, or None."""


def check_counts(**counts: int) -> None:
    """Raise ValueError unless every number is at least 1."""
    for name, value in counts.items():
        if not value >= 1:
            msg = f"expected {name} of at least 1, got {value}"
            raise ValueError(msg)


def check_delta(delta: float) -> None:
    """Raise ValueError unless a probability is between 0 and 1."""
    if not 0.0 < delta < 1.0:
        msg = f"expected delta between 0 and 1, got {delta}"
        raise ValueError(msg)


def check_positive(**sizes: float) -> None:
    """Raise ValueError unless every number is positive and finite."""
    for name, value in sizes.items():
        if not 0.0 < value < math.inf:
            msg = f"expected a positive, finite {name}, got {value}"
            raise ValueError(msg)


def check_steps(optimizer: StepLimits, /) -> None:
    """Raise TypeError or ValueError unless the limits of an optimiser are valid."""
    check_number("max_iter", optimizer.max_iter, kind=numbers.Integral, low=0)
    check_number("tol", optimizer.tol, low=0)
    check_number("max_time", optimizer.max_time, low=0, also=(None,))
