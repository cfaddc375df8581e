"""A stand-in for CuPy: its surface and its refusals, NumPy's numbers, CUDA kernels on fibers.

Names, signatures and dtypes are those of the wheel that ``regenerate.py`` read. What computes is
NumPy. What runs here shows that the library asks of CuPy only what CuPy has, keeps data on their
device, and costs so many launches, bytes, waits and uploads; not how a GPU rounds, nor how fast it
is.
"""

from __future__ import annotations

from typing import Any

import numpy as _numpy

from cupy import _creation, _functions, _pool, _raw, _ufuncs, cuda, fft, linalg
from cupy._array import ndarray
from cupy._surface import SURFACE, missing

__version__ = SURFACE["version"]
_SAME_AS_NUMPY = (
    *("broadcast_shapes", "can_cast", "common_type", "dtype", "finfo", "iinfo", "isdtype"),
    *("isscalar", "issubdtype", "min_scalar_type", "promote_types", "result_type"),
)


def _of_numpy(name: str, entry: dict[str, Any]) -> bool:
    """Whether CuPy's name stands for NumPy's object: a dtype, a constant, a rule of dtypes."""
    if not hasattr(_numpy, name):
        return False
    if entry["kind"] == "class":
        return entry["module"] in ("numpy", "numpy.dtypes")
    return entry["kind"] == "value" or name in _SAME_AS_NUMPY


_public: dict[str, Any] = {
    name: getattr(_numpy, name) for name, entry in SURFACE["cupy"].items() if _of_numpy(name, entry)
}
_public |= _ufuncs.UFUNCS | _creation.CREATION | _functions.FUNCTIONS
_public |= {"abs": _ufuncs.UFUNCS["absolute"], "bool": _numpy.bool_, "ndarray": ndarray}
_public |= {
    "RawKernel": _raw.RawKernel,
    "RawModule": _raw.RawModule,
    "is_available": cuda.is_available,
}
_public |= {"cuda": cuda, "fft": fft, "linalg": linalg}
_public |= {"get_default_memory_pool": _pool.get_default_memory_pool}
if beyond := sorted(set(_public) - set(SURFACE["cupy"])):
    raise ImportError("CuPy has no " + ", ".join(beyond))
globals().update(_public)
__all__ = sorted(_public)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name in SURFACE["cupy"] and not name.startswith("__"):
        return missing("cupy", name)
    msg = f"module 'cupy' has no attribute '{name}'"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted(SURFACE["cupy"])
