"""Arrays with rows in parts, and their array namespace."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gpukfl.core._array import Array, array_namespace, lies_in_parts, to_host
from gpukfl.core._lazy import OldName
from gpukfl.partitioned._partitioning import Described, Partitioning
from gpukfl.partitioned._program import Part, Window

# --------------------------------------------------------------------------------- rowwise

# Lazy operations on each row, which the next pass computes.


class Rowwise:
    """A lazy operation on each row: a function of windows and small arrays."""

    def __init__(
        self, function: Callable[..., Array], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self.function, self.args, self.options = function, args, options

    def __call__(self, start: int, stop: int) -> Array:  # noqa: ARG002
        args = (x.block if isinstance(x, Window) else x for x in self.args)
        return self.function(*args, **self.options)


def rowwise(function: Callable[..., Array], /, *args: Any, **options: Any) -> Any:
    """Return the lazy result of a function on each row, with operands in order."""
    partitioned = [x for x in args if lies_in_parts(x)]
    first = partitioned[0]
    partitioning, n = first.partitioning, len(first)
    if any(x.partitioning is not partitioning for x in partitioned):
        msg = "expected arrays with the same partitions, got different ones"
        raise ValueError(msg)
    small = [x for x in args if hasattr(x, "shape") and not lies_in_parts(x)]
    if any(x.shape[:1] == (n,) and x.ndim >= first.ndim for x in small):
        msg = f"expected small arrays beside {n} partitioned rows, got one of as many rows"
        raise ValueError(msg)
    like = partitioning.reference
    xp: Any = array_namespace(like)
    empty = [
        xp.empty((0, *x.columns), dtype=_library_dtype(xp, x.dtype), device=like.device)
        if lies_in_parts(x)
        else x
        for x in args
    ]
    result = function(*empty, **options)
    recipe = Rowwise(function, args, options)
    return first.derive(recipe, tuple(result.shape[1:]), np.dtype(dtype_name(result.dtype)))


def _library_dtype(xp: Any, dtype: np.dtype[Any]) -> Any:
    return getattr(xp, "bool" if dtype == np.bool_ else dtype.name)


def dtype_name(dtype: Any, /) -> str:
    """Return the name in the array-API standard of a dtype of any library."""
    try:
        return np.dtype(dtype).name
    except TypeError:
        return str(dtype).rsplit(".", maxsplit=1)[-1]


# ------------------------------------------------------------------------------- namespace

# The array library of partitioned arrays: lazy functions, passes over the rows, and others.


_ROWWISE = {
    *("abs", "sqrt", "exp", "expm1", "log", "log1p", "sign", "floor", "ceil", "round", "square"),
    *("sin", "cos", "tanh", "isfinite", "isnan", "isinf", "where", "minimum", "maximum", "clip"),
    *("add", "subtract", "multiply", "divide", "pow", "negative", "positive", "equal", "less"),
    *("not_equal", "less_equal", "greater", "greater_equal", "logical_and", "logical_or"),
    *("logical_not", "zeros_like", "ones_like", "full_like", "matmul", "atan", "logaddexp"),
}
_REDUCTIONS = (
    "sum",
    "max",
    "min",
    "mean",
    "any",
    "all",
    "argmax",
    "argmin",
    "cumulative_sum",
    "prod",
)
_ROW_REDUCTIONS = ("sum", "max", "min", "any", "all")


class PartitionedNamespace:
    """Functions of the array-API standard for operands with rows in parts.

    The library of the reference has all other functions, and the dtypes.

    Parameters
    ----------
    reference : array
        An array with the library and device of small arrays.
    """

    __name__ = "gpukfl.partitioned"  # by which `dumps` recognises it

    def __init__(self, reference: Array) -> None:
        self._xp: Any = array_namespace(reference)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionedNamespace) and other._xp is self._xp

    def __hash__(self) -> int:
        return hash(self.__name__)

    def __getattr__(self, name: str) -> Any:
        if name == "linalg":
            return _Linalg(self._xp)
        given = getattr(self._xp, name)
        if not callable(given) or isinstance(given, type):
            return given

        def function(*args: Any, **options: Any) -> Any:
            if not any(lies_in_parts(x) for x in _flatten(args)):
                return given(*args, **options)
            if name in _ROWWISE:
                return rowwise(NamedFunction(name), *args, **options)
            if name in _REDUCTIONS:
                return _reduce(name, *args, **options)
            msg = f"{name} is not defined for partitioned arrays"
            raise TypeError(msg)

        return function

    def astype(self, x: Any, dtype: Any, /, *, copy: bool = True, **options: Any) -> Any:
        """Convert the dtype, if it differs."""
        if not lies_in_parts(x):
            return self._xp.astype(x, dtype, copy=copy, **options)
        return x if x.dtype == dtype else rowwise(_AsType(dtype), x)

    def reshape(self, x: Any, shape: Any, /, **options: Any) -> Any:
        """Reshape the axes after the rows."""
        if not lies_in_parts(x):
            return self._xp.reshape(x, shape, **options)
        rows, *columns = shape if isinstance(shape, tuple) else (shape,)
        if rows not in (-1, len(x)):
            msg = f"expected to keep {len(x)} partitioned rows, got {rows}"
            raise ValueError(msg)
        return x if tuple(columns) == x.columns else rowwise(_Reshape(tuple(columns)), x)

    def concat(self, arrays: Any, /, *, axis: int | None = 0) -> Any:
        """Join columns."""
        if not any(lies_in_parts(x) for x in arrays):
            return self._xp.concat(arrays, axis=axis)
        if axis not in (1, -1):
            msg = f"expected partitioned arrays to be joined by columns, got {axis=}"
            raise TypeError(msg)
        return rowwise(_ListFunction("concat", axis), *arrays)

    def stack(self, arrays: Any, /, *, axis: int = 0) -> Any:
        """Stack as columns."""
        if not any(lies_in_parts(x) for x in arrays):
            return self._xp.stack(arrays, axis=axis)
        if axis not in (1, -1):
            msg = f"expected partitioned arrays to be stacked by columns, got {axis=}"
            raise TypeError(msg)
        return rowwise(_ListFunction("stack", axis), *arrays)

    def take(self, x: Any, index: Any, /, *, axis: int | None = None) -> Any:
        """Gather some rows here, or take columns."""
        if not lies_in_parts(x):
            return self._xp.take(x, index, axis=axis)
        if axis != 0:
            return rowwise(NamedFunction("take"), x, index, axis=axis)

        found = x.partitioning.gather(x, to_host(index))
        return self._xp.asarray(found, device=x.device)

    def asarray(self, x: Any, /, **options: Any) -> Any:
        """Convert to an array; arrays with rows in parts are unchanged."""
        if not lies_in_parts(x):
            return self._xp.asarray(x, **options)
        return x if options.get("dtype") is None else self.astype(x, options["dtype"])


class _Linalg:
    """Functions of ``xp.linalg``."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp.linalg, name)

    def vector_norm(self, x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        """Return the Euclidean norms of rows lazily, or of columns in a pass."""
        if not lies_in_parts(x):
            return self._xp.linalg.vector_norm(x, axis=axis, keepdims=keepdims)
        if axis in (1, -1):
            return rowwise(_Norm(), x, axis=axis, keepdims=keepdims)
        return self._xp.sqrt(_reduce("sum", x * x, axis=axis, keepdims=keepdims))


class NamedFunction:
    """A function by its name in the array library of its arguments."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **options: Any) -> Array:
        xp = array_namespace(*(x for x in args if hasattr(x, "shape") and hasattr(x, "dtype")))
        return getattr(xp, self.name)(*args, **options)


class _ListFunction(NamedFunction):
    """A function by its name, which takes arrays in a list."""

    def __init__(self, name: str, axis: int) -> None:
        super().__init__(name)
        self.axis = axis

    def __call__(self, *args: Any, **options: Any) -> Array:  # noqa: ARG002
        return getattr(array_namespace(*args), self.name)(list(args), axis=self.axis)


class _Norm:
    def __call__(self, x: Array, **options: Any) -> Array:
        return array_namespace(x).linalg.vector_norm(x, **options)


class _Reshape:
    def __init__(self, columns: tuple[int, ...]) -> None:
        self.columns = columns

    def __call__(self, x: Array, /) -> Array:
        return array_namespace(x).reshape(x, (x.shape[0], *self.columns))


class _AsType:
    def __init__(self, dtype: Any) -> None:
        self.name = dtype_name(dtype)

    def __call__(self, x: Array, /) -> Array:
        xp = array_namespace(x)
        return xp.astype(x, getattr(xp, self.name))


class _PartReduction:
    """A reduction over each part's rows, for a pass."""

    def __init__(self, name: str, x: Any, options: dict[str, Any]) -> None:
        self.name, self.x, self.options = name, x, options

    def __call__(self, start: int, stop: int) -> tuple[Array]:
        block = self.x[start:stop]
        return (getattr(array_namespace(block), self.name)(block, **self.options),)


_COMBINE = {
    "sum": operator.add,
    "max": NamedFunction("maximum"),
    "min": NamedFunction("minimum"),
    "any": operator.or_,
    "all": operator.and_,
}


def _reduce(name: str, x: Any, /, *, axis: Any = None, **options: Any) -> Any:
    """Reduce over axes: lazily over columns, in a pass over rows."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(a % x.ndim for a in axes)
    if 0 not in axes:
        return rowwise(NamedFunction(name), x, axis=axis, **options)
    if name == "mean":
        total = _reduce("sum", x, axis=axis, **options)
        count = 1
        for a in axes:
            count *= x.shape[a]
        return total / count
    if name not in _ROW_REDUCTIONS:
        msg = f"{name} over partitioned rows is not defined"
        raise TypeError(msg)
    part = _PartReduction(name, x, {"axis": axis, **options})
    (total,) = x.partitioning.reduce(part, combine=_COMBINE[name])
    return total


def _flatten(args: tuple[Any, ...]) -> list[Any]:
    return [y for x in args for y in (x if isinstance(x, (list, tuple)) else (x,))]


# ----------------------------------------------------------------------------------- array

# Arrays with partitioned rows, with which algorithms compute as with any other array.


class PartitionedArray(Described):
    """An array (n,) or (n, t) with partitioned rows.

    Operations on each row are lazy: the next pass over the rows computes them, where the rows are.
    Sums and extremes over the rows are passes. Small arrays, without an axis of rows, can be
    operands everywhere.

    Parameters
    ----------
    partitioning : Partitioning
        The partitioning of its rows.
    recipe : callable or None
        ``recipe(start, stop)`` returns these rows; None if the parts have them already.
    columns : tuple of int
        Shape without the rows.
    dtype : dtype
        A dtype of NumPy.
    """

    __array_priority__ = 1000.0
    __array_ufunc__ = None  # NumPy arrays defer to the operators of this class

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
        """The device of small arrays that are operands with it."""
        return self.partitioning.reference.device

    def __len__(self) -> int:
        return self.partitioning.n_rows

    def __repr__(self) -> str:
        parts = len(self.partitioning.edges) - 1
        return f"PartitionedArray(shape={self.shape}, dtype={self.dtype}, parts={parts})"

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return PartitionedNamespace(self.partitioning.reference)

    def __array__(self, *_: Any, **__: Any) -> Any:
        msg = f"expected an array in memory, got one of {len(self)} partitioned rows"
        raise TypeError(msg)

    def __bool__(self) -> bool:
        msg = f"expected one number, got an array of shape {self.shape}"
        raise TypeError(msg)

    def derive(self, recipe: Part, columns: tuple[int, ...], dtype: Any, /) -> PartitionedArray:
        """Return another lazy array with the same parts."""
        return PartitionedArray(self.partitioning, recipe, columns, dtype)

    def to_device(self, device: Any, /, **_: Any) -> PartitionedArray:  # noqa: ARG002
        """Return the array unchanged."""
        return self

    def __getitem__(self, key: Any) -> PartitionedArray:
        """Return columns of all rows."""
        rows, *columns = key if isinstance(key, tuple) else (key,)
        whole = rows is Ellipsis or (isinstance(rows, slice) and rows == slice(None))
        if not whole:
            msg = f"expected columns of all rows, got the rows {rows!r}: use gather for some rows"
            raise TypeError(msg)
        return rowwise(_Columns(tuple(columns)), self)

    def __neg__(self) -> PartitionedArray:
        return rowwise(operator.neg, self)

    def __abs__(self) -> PartitionedArray:
        return rowwise(operator.abs, self)

    def __invert__(self) -> PartitionedArray:
        return rowwise(operator.invert, self)

    of_parts = OldName("derive")


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
    """The columns of all rows of an array."""

    def __init__(self, columns: tuple[Any, ...]) -> None:
        self.columns = columns

    def __call__(self, x: Array, /) -> Array:
        return x[(slice(None), *self.columns)]
