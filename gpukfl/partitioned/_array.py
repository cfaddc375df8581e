"""Arrays whose rows lie in parts: what an algorithm computes with, as with any other array."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace
from gpukfl.partitioned._partitioning import Described, Partitioning
from gpukfl.partitioned._program import Part, Window


class PartitionedArray(Described):
    """An array (n,) or (n, t) whose rows lie in parts.

    What is done to each row by itself is put off until the next pass over the rows, and is then
    done where they lie. Sums and extremes over the rows are passes. Small arrays, without an axis
    of rows, may be operands everywhere.

    Parameters
    ----------
    partitioning : Partitioning
        Of its rows.
    recipe : callable or None
        ``recipe(start, stop)`` gives those rows; None where the parts have them already.
    columns : tuple of int
        Shape without the rows.
    dtype : dtype
        Of NumPy.
    """

    __array_priority__ = 1000.0
    __array_ufunc__ = None  # operators of NumPy leave the work to these here

    def __init__(
        self, partitioning: Partitioning, recipe: Part | None, columns: tuple[int, ...], dtype: Any
    ) -> None:
        super().__init__(partitioning, recipe)
        self.columns, self.dtype = columns, np.dtype(dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole."""
        return (self.partitioning.n_rows, *self.columns)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return 1 + len(self.columns)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    @property
    def device(self) -> str:
        """Where small arrays beside it are."""
        return self.partitioning.reference.device

    def __len__(self) -> int:
        return self.partitioning.n_rows

    def __repr__(self) -> str:
        parts = len(self.partitioning.edges) - 1
        return f"PartitionedArray(shape={self.shape}, dtype={self.dtype}, parts={parts})"

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        from gpukfl.partitioned._namespace import PartitionedNamespace

        return PartitionedNamespace(self.partitioning.reference)

    def __array__(self, *_: Any, **__: Any) -> Any:
        msg = f"expected an array in one place, got one of {len(self)} rows that lie in parts"
        raise TypeError(msg)

    def __bool__(self) -> bool:
        msg = f"expected one number, got an array of shape {self.shape}"
        raise TypeError(msg)

    def to_device(self, device: Any, /, **_: Any) -> PartitionedArray:  # noqa: ARG002
        """Stay where it lies."""
        return self

    def __getitem__(self, key: Any) -> PartitionedArray:
        """Give columns of all rows."""
        rows, *columns = key if isinstance(key, tuple) else (key,)
        whole = rows is Ellipsis or (isinstance(rows, slice) and rows == slice(None))
        if not whole:
            msg = f"expected columns of all rows, got the rows {rows!r}: gather brings some here"
            raise TypeError(msg)
        return rowwise(_Columns(tuple(columns)), self)

    def __neg__(self) -> PartitionedArray:
        return rowwise(operator.neg, self)

    def __abs__(self) -> PartitionedArray:
        return rowwise(operator.abs, self)

    def __invert__(self) -> PartitionedArray:
        return rowwise(operator.invert, self)


def _operators(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    function = getattr(operator, name)
    return (
        lambda self, other: rowwise(function, self, other),
        lambda self, other: rowwise(function, other, self),
    )


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and_", "or_"):
    _forward, _backward = _operators(_name)
    setattr(PartitionedArray, f"__{_name.strip('_')}__", _forward)
    setattr(PartitionedArray, f"__r{_name.strip('_')}__", _backward)
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "matmul"):
    setattr(PartitionedArray, f"__{_name}__", _operators(_name)[0])
PartitionedArray.__hash__ = object.__hash__  # type: ignore[method-assign]


class _Columns:
    """Index all rows of an array by what follows them."""

    def __init__(self, columns: tuple[Any, ...]) -> None:
        self.columns = columns

    def __call__(self, x: Array, /) -> Array:
        return x[(slice(None), *self.columns)]


class Rowwise:
    """Work on each row by itself: a function of windows and of small arrays."""

    def __init__(
        self, function: Callable[..., Array], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self.function, self.args, self.options = function, args, options

    def __call__(self, start: int, stop: int) -> Array:  # noqa: ARG002
        args = (x.block if isinstance(x, Window) else x for x in self.args)
        return self.function(*args, **self.options)


def rowwise(function: Callable[..., Array], /, *args: Any, **options: Any) -> PartitionedArray:
    """Put off what a function does to each row by itself, with its operands in their order."""
    whole = [x for x in args if isinstance(x, PartitionedArray)]
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
        if isinstance(x, PartitionedArray)
        else x
        for x in args
    ]
    result = function(*empty, **options)
    recipe = Rowwise(function, args, options)
    return PartitionedArray(partitioning, recipe, tuple(result.shape[1:]), _host_dtype(result))


def _small(args: tuple[Any, ...]) -> list[Any]:
    return [x for x in args if hasattr(x, "shape") and not isinstance(x, PartitionedArray)]


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
