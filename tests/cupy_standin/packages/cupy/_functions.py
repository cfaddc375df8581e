"""CuPy's functions that are NumPy's on other arrays: checked, counted, computed by NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cupy._array import n_bytes, ndarray, new, unwrapped, view
from cupy._counts import launched, uploaded, waited
from cupy._surface import missing, signature

# Of each: kernels launched, or how many for an operand or a part; and whether the host waits.
# Sorting is thrust's, on more than one row by comparisons; see cupy/_core/_routines_sorting.pyx
_REDUCTIONS = ("sum", "mean", "max", "min", "any", "all", "prod", "std", "var", "argmax", "argmin")
_LAUNCHES = dict.fromkeys(_REDUCTIONS, 1) | {
    "argsort": 12,
    "count_nonzero": 1,
    "cumprod": 4,
    "cumsum": 4,
    "diff": 1,
    "dot": 1,
    "flip": 0,
    "matmul": 1,
    "nonzero": 5,
    "repeat": 1,
    "searchsorted": 1,
    "sort": 12,
    "take_along_axis": 6,
    "tensordot": 1,
    "tril": 1,
    "triu": 1,
    "unique": 20,
    "where": 1,
}
_WAITING = {"argsort", "sort", "nonzero", "unique"}
_VIEWS = (
    "broadcast_to",
    "diagonal",
    "expand_dims",
    "moveaxis",
    "ravel",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
)
_BY_PARTS = ("concatenate", "stack", "vstack", "hstack")
_MAX_ELEMENTS = 2**31


def _operands(x: Any, name: str) -> Any:
    """NumPy's arguments for CuPy's; of lists, those of their items."""
    if isinstance(x, (list, tuple)):
        return type(x)(_operands(item, name) for item in x)
    if isinstance(x, (ndarray, np.ndarray)):
        return unwrapped(x, name)
    return x


def _bound(name: str) -> Callable[..., tuple[tuple[Any, ...], dict[str, Any]]]:
    """Check arguments by CuPy's signature; the first must be an array of CuPy, or several."""
    known = signature("cupy", name)

    def bind(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if known is not None:
            bound = known.bind(*args, **kwargs)
            args, kwargs = bound.args, bound.kwargs
        if kwargs.get("out") is not None:
            missing("cupy", f"{name} with out")()
        if not isinstance(args[0], (ndarray, list, tuple)):
            msg = f"expected cupy.{name} to get a cupy.ndarray, got {type(args[0])}"
            raise TypeError(msg)
        with_host = {key: _operands(value, name) for key, value in kwargs.items()}
        return tuple(_operands(x, name) for x in args), with_host

    return bind


def _computed(name: str) -> Callable[..., Any]:
    """A function with a result in new memory."""
    bind, twin = _bound(name), getattr(np, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = bind(*args, **kwargs)
        if name in ("argsort", "sort"):
            kwargs, args = {"axis": -1} | kwargs | {"kind": _kind(args, kwargs)}, args[:2]
            kwargs, args = (
                (kwargs | {"axis": args[1]}, args[:1]) if len(args) > 1 else (kwargs, args)
            )
        with np.errstate(all="ignore"):
            result = twin(*args, **kwargs)
        if name in _WAITING:
            waited(name)
        results = result if isinstance(result, tuple) else (result,)
        moved = n_bytes(*args) + sum(np.asarray(r).nbytes for r in results)
        launched(name, moved, launches=_LAUNCHES[name])
        given = tuple(new(r) for r in results)
        return given if isinstance(result, tuple) else given[0]

    function.__name__ = name
    return function


def _kind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Sorting is stable whatever is asked for, and nothing else may be asked for."""
    asked = kwargs.get("kind", args[2] if len(args) > 2 else None)
    if asked not in (None, "stable"):
        msg = "kind can only be None or 'stable'"
        raise ValueError(msg)
    return "stable"


def _viewed(name: str) -> Callable[..., Any]:
    """A function whose result shares memory where it can."""
    bind, twin = _bound(name), getattr(np, name)

    def function(*args: Any, **kwargs: Any) -> ndarray:
        of = args[0] if args else next(iter(kwargs.values()))
        args, kwargs = bind(*args, **kwargs)
        result = twin(*args, **kwargs)
        if result.size == 0 or np.may_share_memory(result, args[0]):
            return view(result, of)
        launched(name, 2 * result.nbytes)
        return new(result)

    function.__name__ = name
    return function


def _joined(name: str) -> Callable[..., ndarray]:
    """A function of a list of arrays, each of which a kernel copies."""
    bind, twin = _bound(name), getattr(np, name)

    def function(*args: Any, **kwargs: Any) -> ndarray:
        if any(not isinstance(part, ndarray) for part in args[0]):
            msg = "Only cupy arrays can be concatenated"
            raise TypeError(msg)
        args, kwargs = bind(*args, **kwargs)
        result = twin(*args, **kwargs)
        if result.size >= _MAX_ELEMENTS:
            msg = f"cupy.{name}: {result.size} elements, of which CuPy would compute some wrongly"
            raise AssertionError(msg)
        launched(name, 2 * result.nbytes, launches=len(args[0]))
        return new(result)

    function.__name__ = name
    return function


def take(a: Any, indices: Any, axis: int | None = None, out: Any = None) -> ndarray:
    """Gather; CuPy wraps indices that are out of range without a word, here they are an error."""
    if out is not None:
        missing("cupy", "take with out")()
    memory = unwrapped(a, "take")
    if isinstance(indices, (np.ndarray, list)):
        indices = np.asarray(indices)
        uploaded("take", indices.nbytes)
    else:
        indices = unwrapped(indices, "take")
    result = np.take(memory, _inside(indices, memory, axis), axis=axis)
    launched("take", 2 * np.asarray(result).nbytes + n_bytes(indices))
    return new(result)


def _inside(indices: Any, memory: np.ndarray, axis: int | None) -> Any:
    size = memory.size if axis is None else memory.shape[axis]
    if np.size(indices) and not (-size <= np.min(indices) and np.max(indices) < size):
        msg = f"indices out of range for {size} elements: CuPy would wrap them around"
        raise AssertionError(msg)
    return indices


def clip(a: Any, a_min: Any, a_max: Any, out: Any = None) -> ndarray:
    """Limit."""
    operands = [None if x is None else unwrapped(x, "clip") for x in (a, a_min, a_max)]
    result = np.clip(*operands)
    launched("clip", 2 * result.nbytes)
    return new(result)


def where(condition: Any, x: Any = None, y: Any = None) -> ndarray:
    """Choose."""
    if x is None or y is None:
        missing("cupy", "where without x and y")()
    operands = [unwrapped(each, "where") for each in (condition, x, y)]
    result = np.where(*operands)
    launched("where", n_bytes(*operands, result))
    return new(result)


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> ndarray:
    """Compare."""
    launched("array_equal", a1.nbytes + a2.nbytes, launches=2)
    return new(np.array_equal(unwrapped(a1, "a"), unwrapped(a2, "a"), equal_nan))


def broadcast_arrays(*args: Any) -> tuple[ndarray, ...]:
    """View with one shape."""
    wide = np.broadcast_arrays(*(unwrapped(x, "broadcast_arrays") for x in args))
    return tuple(view(memory, x) for memory, x in zip(wide, args, strict=True))


FUNCTIONS: dict[str, Any] = {name: _computed(name) for name in _LAUNCHES if name != "where"}
FUNCTIONS |= {name: _viewed(name) for name in _VIEWS}
FUNCTIONS |= {name: _joined(name) for name in _BY_PARTS}
FUNCTIONS |= {"take": take, "clip": clip, "where": where}
FUNCTIONS |= {"array_equal": array_equal, "broadcast_arrays": broadcast_arrays}
FUNCTIONS |= {"amax": FUNCTIONS["max"], "amin": FUNCTIONS["min"]}

_METHODS = (
    *_REDUCTIONS,
    *("argsort", "clip", "cumprod", "cumsum", "diagonal", "dot", "nonzero", "ravel", "repeat"),
    *("searchsorted", "squeeze", "swapaxes", "take"),
)
for _name in _METHODS:
    setattr(
        ndarray, _name, lambda self, *args, _f=FUNCTIONS[_name], **kwargs: _f(self, *args, **kwargs)
    )


def _matmul(self: Any, other: Any) -> Any:
    if not isinstance(other, (ndarray, np.ndarray)):
        return NotImplemented
    return FUNCTIONS["matmul"](self, other)


ndarray.__matmul__ = _matmul
