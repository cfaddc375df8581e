"""Names of a package that are imported on first use, and old names."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Mapping
from typing import Any

from gpukfl.core._warnings import warn


def lazy_getattr(
    package: str, homes: Mapping[str, str], /, modules: Collection[str] = ()
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose names are imported from `homes` on first use.

    `modules` are submodules that are names of the package too.
    """

    def look_up(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        msg = f"module {package!r} has no attribute {name!r}"
        raise AttributeError(msg)

    return look_up


def deprecated_names(package: str, renamed: Mapping[str, str], /) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package whose old names work, and warn of the new ones."""

    def look_up(name: str) -> Any:
        if name in renamed:
            warn(f"{package}.{name} is now called {renamed[name]}", DeprecationWarning)
            return getattr(importlib.import_module(package), renamed[name])
        msg = f"module {package!r} has no attribute {name!r}"
        raise AttributeError(msg)

    return look_up


class OldName:
    """An old name of a method or property, which works and warns of the new one."""

    def __init__(self, new: str) -> None:
        self._new = new

    def __set_name__(self, owner: type, name: str) -> None:
        self._old = name

    def __get__(self, instance: Any, owner: type) -> Any:
        warn(f"{owner.__name__}.{self._old} is now called {self._new}", DeprecationWarning)
        return getattr(owner if instance is None else instance, self._new)
