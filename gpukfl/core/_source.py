"""Import statements that representations of values need as Python source."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Any


def import_lines(values: Iterable[Any], /) -> str:
    """Return lines that import the classes of values and of the values inside them.

    Parameters
    ----------
    values : iterable
        Parameters: plain values, dataclasses and estimators, also in lists, tuples and dicts.

    Returns
    -------
    str
        A line for each module, then an empty line; an empty string without imports.
    """
    names: dict[str, set[str]] = {}
    for kind in _iterate_classes(list(values)):
        names.setdefault(_import_module(kind), set()).add(kind.__name__)
    lines = [f"from {home} import {', '.join(sorted(names[home]))}" for home in sorted(names)]
    return "\n".join(lines) + "\n\n" if lines else ""


def _iterate_classes(value: Any) -> Iterator[type]:
    if isinstance(value, (list, tuple, dict)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _iterate_classes(one)
    elif not isinstance(value, type) and type(value).__module__ not in ("builtins", "numpy"):
        yield type(value)
        yield from _iterate_classes([inside for _, inside in _constructor_values(value)])


def _constructor_values(value: Any) -> list[tuple[str, Any]]:
    """Return the parameters of a dataclass or an estimator."""
    if dataclasses.is_dataclass(value):
        return [(one.name, getattr(value, one.name)) for one in dataclasses.fields(value)]
    return list(value.get_params(deep=False).items()) if hasattr(value, "get_params") else []


def _import_module(kind: type) -> str:
    """Return the public module to import a class from."""
    parts = kind.__module__.split(".")
    top = parts[0]
    if getattr(sys.modules.get(top), kind.__name__, None) is kind:
        return top
    return ".".join(takewhile(lambda part: not part.startswith("_"), parts))
