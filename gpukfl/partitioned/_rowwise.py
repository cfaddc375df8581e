"""What is done to each row by itself, put off until the next pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace, lies_in_parts
from gpukfl.partitioned._program import Window


class Rowwise:
    """Work on each row by itself: a function of windows and of small arrays."""

    def __init__(
        self, function: Callable[..., Array], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self.function, self.args, self.options = function, args, options

    def __call__(self, start: int, stop: int) -> Array:  # noqa: ARG002
        args = (x.block if isinstance(x, Window) else x for x in self.args)
        return self.function(*args, **self.options)


def rowwise(function: Callable[..., Array], /, *args: Any, **options: Any) -> Any:
    """Put off what a function does to each row by itself, with its operands in their order."""
    whole = [x for x in args if lies_in_parts(x)]
    partitioning = whole[0].partitioning
    if any(x.partitioning is not partitioning for x in whole):
        msg = "expected arrays whose rows lie in the same parts, got some of two partitionings"
        raise ValueError(msg)
    if any(x.shape[:1] == (len(whole[0]),) and x.ndim >= whole[0].ndim for x in _small(args)):
        msg = f"expected small arrays beside {len(whole[0])} rows in parts, got one of as many rows"
        raise ValueError(msg)
    like = partitioning.reference
    xp: Any = array_namespace(like)
    empty = [
        xp.empty((0, *x.columns), dtype=_dtype(xp, x.dtype), device=like.device)
        if lies_in_parts(x)
        else x
        for x in args
    ]
    result = function(*empty, **options)
    recipe = Rowwise(function, args, options)
    return whole[0].of_parts(recipe, tuple(result.shape[1:]), _host_dtype(result))


def _small(args: tuple[Any, ...]) -> list[Any]:
    return [x for x in args if hasattr(x, "shape") and not lies_in_parts(x)]


def _dtype(xp: Any, dtype: np.dtype[Any]) -> Any:
    return getattr(xp, "bool" if dtype == np.bool_ else dtype.name)


def _host_dtype(x: Array) -> np.dtype[Any]:
    return np.dtype(name_of(x.dtype))


def name_of(dtype: Any, /) -> str:
    """Name of a dtype of any library, as the array-API standard has it."""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return str(dtype).rsplit(".", maxsplit=1)[-1]
