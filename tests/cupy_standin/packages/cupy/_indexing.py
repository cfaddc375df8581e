"""What CuPy takes as an index, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cupy._counts import launched, uploaded, waited

_MASK_LAUNCHES = 5  # counting, a scan of the counts, and the gathering


@dataclass(frozen=True)
class Index:
    """An index for NumPy's memory."""

    host: tuple[Any, ...]
    is_basic: bool
    masked: int  # bytes of masks

    @classmethod
    def of(cls, key: Any, unwrapped: Callable[[Any, str], Any], /) -> Index:
        """Check an index; of arrays of the host the values are copied over, as CuPy does it."""
        parts = [_part(part, unwrapped) for part in (key if isinstance(key, tuple) else (key,))]
        arrays = [part for part in parts if isinstance(part, (np.ndarray, bool, np.bool_))]
        masks = [part for part in arrays if getattr(part, "dtype", None) == np.bool_]
        return cls(tuple(parts), not arrays, sum(mask.nbytes for mask in masks))

    def count(self, name: str, moved: int, /) -> None:
        """Count what an index with arrays costs; a mask is counted before it can be used."""
        if self.masked:
            waited(f"{name} by a mask")
            launched(f"{name} by a mask", self.masked + 2 * moved, launches=_MASK_LAUNCHES)
        else:
            launched(f"{name} by indices", 2 * moved)


def _part(part: Any, unwrapped: Callable[[Any, str], Any]) -> Any:
    if part is None or part is Ellipsis or isinstance(part, (int, np.integer, np.bool_)):
        return part
    if isinstance(part, slice):
        return _slice(part)
    if isinstance(part, (np.ndarray, list)):
        host = np.asarray(part)
        uploaded("index", host.nbytes)
        return _whole(host)
    if type(part).__module__ == "cupy":
        return _whole(unwrapped(part, "index"))
    msg = (
        "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
        f"boolean arrays are valid indices, got {type(part)}"
    )
    raise IndexError(msg)


def _slice(part: slice) -> slice:
    for limit in (part.start, part.stop, part.step):
        if limit is not None and not isinstance(limit, (int, np.integer)):
            msg = f"slice indices must be integers or None, got {type(limit)}"
            raise TypeError(msg)
    return part


def _whole(index: np.ndarray) -> np.ndarray:
    if index.dtype.kind not in "iub":
        msg = "arrays used as indices must be of integer or boolean type"
        raise IndexError(msg)
    return index
