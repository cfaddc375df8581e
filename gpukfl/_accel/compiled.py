"""Numba's compiler, also where nothing may be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def njit(*, cache: bool, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Do what `numba.njit` does; with `cache`, keep the compiled code if there is a place for it.

    Numba itself refuses to define a function where neither the folder of the package nor the
    home can be written to.
    """

    def compiled(function: Callable[..., Any]) -> Any:
        if cache:
            try:
                return numba.njit(cache=True, **options)(function)
            except RuntimeError as error:
                if "no locator" not in str(error):
                    raise
        return numba.njit(**options)(function)  # anew in each process

    return compiled
