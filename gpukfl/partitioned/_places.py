"""The place that each worker computes on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from gpukfl._array import Array


def make_place(backend: str, /) -> Callable[[], Array]:
    """Give what makes an empty array of a worker's place, on the worker."""
    return partial(_place, backend)


def _place(backend: str) -> Array:
    if _uses_gpu(backend):
        import cupy

        return cupy.empty(0)
    return np.empty(0)


def _uses_gpu(backend: str) -> bool:
    from gpukfl._cuda import cupy_is_usable

    return backend == "cupy" or (backend == "auto" and cupy_is_usable())


def check_places(client: Any, backend: str, /) -> None:
    """Raise where workers, or without a client this process, cannot compute as is asked for.

    Raises
    ------
    ValueError
        If the backend is one that is not used for rows in parts.
    RuntimeError
        If a GPU is asked for and not there.
    """
    if backend == "torch":
        msg = "expected backend 'auto', 'numpy' or 'cupy' for Dask collections, got 'torch'"
        raise ValueError(msg)
    if backend != "cupy":
        return
    if client is None:
        why = _why_not()
        if why is not None:
            msg = f"backend='cupy' needs a GPU that CuPy can use here, or a client: {why}"
            raise RuntimeError(msg)
        return
    answers = client.run(_why_not)
    without = {address: why for address, why in answers.items() if why is not None}
    if without:
        address, why = next(iter(without.items()))
        msg = (
            f"backend='cupy' needs a GPU on every worker: {len(without)} of {len(answers)} have "
            f"none, such as {address}: {why}"
        )
        raise RuntimeError(msg)


def _why_not() -> str | None:
    from gpukfl._cuda import cupy_is_usable, is_installed, why_not_cupy

    if not is_installed("cupy"):
        return "CuPy is not installed"
    return None if cupy_is_usable() else why_not_cupy()
