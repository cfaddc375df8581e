"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any


def imported_when_used(
    package: str, homes: Mapping[str, str], /, modules: Collection[str] = ()
) -> Callable[[str], Any]:
    """Give the `__getattr__` of a package, of whose modules `homes` names one for each name.

    Some `modules` are names themselves.
    """

    def found(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        msg = f"module {package!r} has no attribute {name!r}"
        raise AttributeError(msg)

    return found
