"""Names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from gpukfl.core._warnings import warn


def lazy_getattr(
    package: str, homes: Mapping[str, str], /, modules: Collection[str] = ()
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names are imported from `homes` on first use.

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


def deprecated_names(package: str, renamed: Mapping[str, str], /) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose old names work, and warn of the new ones."""

    def found(name: str) -> Any:
        if name in renamed:
            warn(f"{package}.{name} is now called {renamed[name]}", DeprecationWarning)
            return getattr(importlib.import_module(package), renamed[name])
        msg = f"module {package!r} has no attribute {name!r}"
        raise AttributeError(msg)

    return found
