"""Work on the device of the data, whichever device is the current one."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from gpukfl._array import on_device_of

Given = ParamSpec("Given")
Result = TypeVar("Result")


def on_its_device(
    method: Callable[Concatenate[Any, Any, Given], Result], /
) -> Callable[Concatenate[Any, Any, Given], Result]:
    """Decorate a method whose first argument is data X."""

    @functools.wraps(method)
    def wrapped(self: Any, X: Any, *args: Given.args, **kwargs: Given.kwargs) -> Result:
        with on_device_of(X):
            return method(self, X, *args, **kwargs)

    return wrapped
