"""CuPy's names, signatures and loops, as ``regenerate.py`` read them."""

from __future__ import annotations

import inspect
import json
import pathlib
from typing import Any

_FILE = pathlib.Path(__file__).parents[2] / "surface.json"
SURFACE: dict[str, Any] = json.loads(_FILE.read_text(encoding="ascii"))


class MissingError(NotImplementedError):
    """CuPy has it, the stand-in does not: write it, or do without."""


def signature(module: str, name: str, /) -> inspect.Signature | None:
    """Signature of a function, None where CuPy does not tell it."""
    given = SURFACE[module][name].get("parameters")
    if given is None:
        return None
    return inspect.Signature(
        [
            inspect.Parameter(
                parameter,
                inspect._ParameterKind(kind),
                default=None if has_default else inspect.Parameter.empty,
            )
            for parameter, kind, has_default in given
        ]
    )


def missing(module: str, name: str, /) -> Any:
    """Stand where something of CuPy would."""

    def raising(*_: Any, **__: Any) -> Any:
        msg = f"{module}.{name}"
        raise MissingError(msg)

    raising.__name__ = name
    return raising
