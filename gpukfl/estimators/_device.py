"""Work on the device of the data, whichever device is the current one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from gpukfl._array import library_of, on_device_of
from gpukfl._cuda import check_not_forked

Given = ParamSpec("Given")
Result = TypeVar("Result")


def on_its_device(
    method: Callable[Concatenate[Any, Any, Given], Result], /
) -> Callable[Concatenate[Any, Any, Given], Result]:
    """Decorate a method whose first argument is data X."""

    @functools.wraps(method)
    def wrapped(self: Any, X: Any, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        if library_of(X) == "cupy":
            check_not_forked()
        with on_device_of(X):
            return method(self, X, *args, **kwargs)

    return wrapped
