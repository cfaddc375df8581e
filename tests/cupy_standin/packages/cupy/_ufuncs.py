"""CuPy's ufuncs: NumPy's values, in the dtypes of CuPy's loops, on CuPy's operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cupy._array import SCALARS, n_bytes, ndarray, new, unwrapped
from cupy._counts import launched
from cupy._surface import SURFACE, MissingError

_KINDS = {bool: "?biufc", int: "iufc", float: "fc", complex: "c"}  # that Python's scalars fit


class Ufunc:
    """One ufunc."""

    def __init__(self, module: str, name: str, twin: Callable[..., Any]) -> None:
        self.__name__, self.twin = name, twin
        entry = SURFACE[module][name]
        self.nin, self.nout = entry["nin"], entry["nout"]
        self.loops = [tuple(loop.split("->")) for loop in entry["loops"]]

    def __call__(
        self, *args: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind"
    ) -> Any:
        if len(args) == self.nin + 1 and out is None:
            *args, out = args
        if len(args) != self.nin:
            msg = f"Wrong number of arguments for cupy.{self.__name__}: {len(args)}"
            raise TypeError(msg)
        operands = [unwrapped(x, self.__name__) for x in args]
        loop = self._loop(operands)
        with np.errstate(all="ignore"):
            kwargs = {} if dtype is None else {"dtype": dtype}
            results = self.twin(*operands, **kwargs)
        results = results if self.nout > 1 else (results,)
        if dtype is None:
            self._check(operands, results, loop)
        launched(self.__name__, n_bytes(*operands) + sum(np.asarray(r).nbytes for r in results))
        if out is not None:
            return self._into(out, np.asarray(results[0]), casting)
        given = tuple(new(result, _order(operands)) for result in results)
        return given if self.nout > 1 else given[0]

    def __getattr__(self, name: str) -> Any:
        msg = f"cupy.{self.__name__}.{name}"
        raise MissingError(msg) if not name.startswith("__") else AttributeError(msg)

    def _loop(self, operands: list[Any]) -> list[np.dtype]:
        """Outputs of the first loop that takes the operands, Python's scalars being weak."""
        for ins, outs in self.loops:
            if "." in ins:
                continue
            if all(_fits(x, np.dtype(t)) for x, t in zip(operands, ins, strict=True)):
                return [np.dtype(t) for t in outs]
        given = [getattr(x, "dtype", type(x)) for x in operands]
        msg = f"Wrong type ({given}) of arguments for cupy_{self.__name__}"
        raise TypeError(msg)

    def _check(self, operands: list[Any], results: Any, loop: list[np.dtype]) -> None:
        """NumPy's numbers stand in for CuPy's only in the dtype that CuPy would give."""
        got = [np.asarray(result).dtype for result in results]
        if got != loop and not all(type(x) in SCALARS for x in operands):
            given = [getattr(x, "dtype", type(x)) for x in operands]
            msg = f"cupy.{self.__name__} of {given} gives {loop}, NumPy {got}"
            raise AssertionError(msg)

    def _into(self, out: Any, result: np.ndarray, casting: str) -> ndarray:
        if not isinstance(out, ndarray):
            msg = "return arrays must be of ArrayType"
            raise TypeError(msg)
        if out.shape != result.shape:
            msg = "Out shape is mismatched"
            raise ValueError(msg)
        if not np.can_cast(result.dtype, out.dtype, casting):
            msg = f"output (typecode '{result.dtype.char}') could not be coerced to {out.dtype}"
            raise TypeError(msg)
        unwrapped(out, self.__name__)[...] = result
        return out


def _fits(x: Any, dtype: np.dtype) -> bool:
    if type(x) in SCALARS:
        return dtype.kind in _KINDS[type(x)]
    return np.can_cast(x.dtype, dtype, "safe")


def _order(operands: list[Any]) -> str:
    """F where all arrays are (cupy/_core/_kernel.pyx, order K), else C."""
    arrays = [x for x in operands if isinstance(x, np.ndarray) and x.ndim > 1]
    kept = arrays and all(x.flags.f_contiguous and not x.flags.c_contiguous for x in arrays)
    return "F" if kept else "C"


UFUNCS: dict[str, Ufunc] = {
    name: Ufunc("cupy", name, getattr(np, name))
    for name, entry in SURFACE["cupy"].items()
    if entry["kind"] == "ufunc" and isinstance(getattr(np, name, None), np.ufunc)
}


def _binary(name: str, *, reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (*SCALARS, np.generic, np.ndarray, ndarray)):
            return NotImplemented
        return UFUNCS[name](other, self) if reflected else UFUNCS[name](self, other)

    return method


def _in_place(name: str) -> Callable[[Any, Any], Any]:
    return lambda self, other: UFUNCS[name](self, other, out=self)


_ARITHMETIC = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARISONS = {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "eq": "equal",
    "ne": "not_equal",
}
for _short, _name in _ARITHMETIC.items():
    setattr(ndarray, f"__{_short}__", _binary(_name))
    setattr(ndarray, f"__r{_short}__", _binary(_name, reflected=True))
    setattr(ndarray, f"__i{_short}__", _in_place(_name))
for _short, _name in _COMPARISONS.items():
    setattr(ndarray, f"__{_short}__", _binary(_name))
for _short, _name in {"neg": "negative", "abs": "absolute", "invert": "invert"}.items():
    setattr(ndarray, f"__{_short}__", lambda self, _name=_name: UFUNCS[_name](self))
ndarray.__pos__ = lambda self: self.copy()
