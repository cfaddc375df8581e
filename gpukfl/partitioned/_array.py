"""Arrays whose rows lie in parts: what an algorithm computes with, as with any other array."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gpukfl._array import Array
from gpukfl.partitioned._namespace import PartitionedNamespace
from gpukfl.partitioned._partitioning import Described, Partitioning
from gpukfl.partitioned._program import Part
from gpukfl.partitioned._rowwise import rowwise


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
    def device(self) -> Any:
        """Where small arrays beside it are."""
        return self.partitioning.reference.device

    def __len__(self) -> int:
        return self.partitioning.n_rows

    def __repr__(self) -> str:
        parts = len(self.partitioning.edges) - 1
        return f"PartitionedArray(shape={self.shape}, dtype={self.dtype}, parts={parts})"

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return PartitionedNamespace(self.partitioning.reference)

    def __array__(self, *_: Any, **__: Any) -> Any:
        msg = f"expected an array in one place, got one of {len(self)} rows that lie in parts"
        raise TypeError(msg)

    def __bool__(self) -> bool:
        msg = f"expected one number, got an array of shape {self.shape}"
        raise TypeError(msg)

    def of_parts(self, recipe: Part, columns: tuple[int, ...], dtype: Any, /) -> PartitionedArray:
        """Describe another array whose rows lie in the same parts."""
        return PartitionedArray(self.partitioning, recipe, columns, dtype)

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
