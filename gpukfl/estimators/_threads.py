"""How many threads a fit takes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from gpukfl._accel.limits import one_blas_thread, one_openmp_thread
from gpukfl._places import will_use_torch

_FEW = 2_000  # samples below which the threads of torch wait for each other more than they work


@contextlib.contextmanager
def few_threads(X: Any, n_samples: int, backend: str, /) -> Iterator[None]:
    """Limit threads to those that a fit of `X` can use: one in each product of NumPy.

    On torch, which splits all work itself, one for few samples and as many as it likes for others.
    """
    with contextlib.ExitStack() as limits:
        limits.enter_context(one_blas_thread())
        if n_samples < _FEW and will_use_torch(backend, X):
            limits.enter_context(one_openmp_thread())
        yield
