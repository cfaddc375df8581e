"""The array library of partitioned arrays: what is put off, what is a pass, and all else."""

from __future__ import annotations

import operator
from typing import Any

from gpukfl._array import Array, array_namespace, lies_in_parts, to_host
from gpukfl.partitioned._rowwise import name_of, rowwise

_ROWWISE = {
    *("abs", "sqrt", "exp", "expm1", "log", "log1p", "sign", "floor", "ceil", "round", "square"),
    *("sin", "cos", "tanh", "isfinite", "isnan", "isinf", "where", "minimum", "maximum", "clip"),
    *("add", "subtract", "multiply", "divide", "pow", "negative", "positive", "equal", "less"),
    *("not_equal", "less_equal", "greater", "greater_equal", "logical_and", "logical_or"),
    *("logical_not", "zeros_like", "ones_like", "full_like", "matmul", "atan", "logaddexp"),
}
_ALONG = ("sum", "max", "min", "mean", "any", "all", "argmax", "argmin", "cumulative_sum", "prod")
_OVER_ROWS = ("sum", "max", "min", "any", "all")


class PartitionedNamespace:
    """Functions of the array-API standard, where an operand's rows may lie in parts.

    Whatever has no such operand is done by the library of the reference, as are dtypes.

    Parameters
    ----------
    reference : array
        Small arrays are made beside it.
    """

    __name__ = "gpukfl.partitioned"  # by which a program on its way knows it

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
            if not any(lies_in_parts(x) for x in _flat(args)):
                return given(*args, **options)
            if name in _ROWWISE:
                return rowwise(Named(name), *args, **options)
            if name in _ALONG:
                return _along(name, *args, **options)
            msg = f"{name} is not defined for arrays whose rows lie in parts"
            raise TypeError(msg)

        return function

    def astype(self, x: Any, dtype: Any, /, *, copy: bool = True, **options: Any) -> Any:
        """Convert; what is of that precision already stays as it is."""
        if not lies_in_parts(x):
            return self._xp.astype(x, dtype, copy=copy, **options)
        return x if x.dtype == dtype else rowwise(_AsType(dtype), x)

    def reshape(self, x: Any, shape: Any, /, **options: Any) -> Any:
        """Change the shape of what follows the rows."""
        if not lies_in_parts(x):
            return self._xp.reshape(x, shape, **options)
        rows, *columns = shape if isinstance(shape, tuple) else (shape,)
        if rows not in (-1, len(x)):
            msg = f"expected to keep {len(x)} rows, which lie in parts, got {rows}"
            raise ValueError(msg)
        return x if tuple(columns) == x.columns else rowwise(_Reshape(tuple(columns)), x)

    def concat(self, arrays: Any, /, *, axis: int | None = 0) -> Any:
        """Join columns."""
        if not any(lies_in_parts(x) for x in arrays):
            return self._xp.concat(arrays, axis=axis)
        if axis not in (1, -1):
            msg = f"expected arrays whose rows lie in parts to be joined by columns, got {axis=}"
            raise TypeError(msg)
        return rowwise(_Together("concat", axis), *arrays)

    def stack(self, arrays: Any, /, *, axis: int = 0) -> Any:
        """Join as columns."""
        if not any(lies_in_parts(x) for x in arrays):
            return self._xp.stack(arrays, axis=axis)
        if axis not in (1, -1):
            msg = f"expected arrays whose rows lie in parts to be stacked by columns, got {axis=}"
            raise TypeError(msg)
        return rowwise(_Together("stack", axis), *arrays)

    def take(self, x: Any, index: Any, /, *, axis: int | None = None) -> Any:
        """Bring some rows here, or take columns."""
        if not lies_in_parts(x):
            return self._xp.take(x, index, axis=axis)
        if axis != 0:
            return rowwise(Named("take"), x, index, axis=axis)

        found = x.partitioning.gather(x, to_host(index))
        return self._xp.asarray(found, device=x.device)

    def asarray(self, x: Any, /, **options: Any) -> Any:
        """Make an array; one whose rows lie in parts stays one."""
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
        """Euclidean norm of rows, or of columns in a pass."""
        if not lies_in_parts(x):
            return self._xp.linalg.vector_norm(x, axis=axis, keepdims=keepdims)
        if axis in (1, -1):
            return rowwise(_Norm(), x, axis=axis, keepdims=keepdims)
        return self._xp.sqrt(_along("sum", x * x, axis=axis, keepdims=keepdims))


class Named:
    """A function of the library of the place that it is called on."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any, **options: Any) -> Array:
        xp = array_namespace(*(x for x in args if hasattr(x, "shape") and hasattr(x, "dtype")))
        return getattr(xp, self.name)(*args, **options)


class _Together(Named):
    """One that takes its arrays in a list."""

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
        self.name = name_of(dtype)

    def __call__(self, x: Array, /) -> Array:
        xp = array_namespace(x)
        return xp.astype(x, getattr(xp, self.name))


class _OverRows:
    """A function of each part's rows, for a pass."""

    def __init__(self, name: str, x: Any, options: dict[str, Any]) -> None:
        self.name, self.x, self.options = name, x, options

    def __call__(self, start: int, stop: int) -> tuple[Array]:
        block = self.x[start:stop]
        return (getattr(array_namespace(block), self.name)(block, **self.options),)


_COMBINED = {
    "sum": operator.add,
    "max": Named("maximum"),
    "min": Named("minimum"),
    "any": operator.or_,
    "all": operator.and_,
}


def _along(name: str, x: Any, /, *, axis: Any = None, **options: Any) -> Any:
    """Reduce over axes: over columns put off, over rows in a pass."""
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    axes = tuple(a % x.ndim for a in axes)
    if 0 not in axes:
        return rowwise(Named(name), x, axis=axis, **options)
    if name == "mean":
        total = _along("sum", x, axis=axis, **options)
        count = 1
        for a in axes:
            count *= x.shape[a]
        return total / count
    if name not in _OVER_ROWS:
        msg = f"{name} over rows that lie in parts is not defined"
        raise TypeError(msg)
    part = _OverRows(name, x, {"axis": axis, **options})
    (total,) = x.partitioning.reduce(part, combine=_COMBINED[name])
    return total


def _flat(args: tuple[Any, ...]) -> list[Any]:
    return [y for x in args for y in (x if isinstance(x, (list, tuple)) else (x,))]
