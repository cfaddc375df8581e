"""What the library uses of CuPy's second package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from cupyx._state import STATE

__all__ = ["errstate", "geterr"]


def geterr() -> dict[str, Any]:
    """How errors are handled now."""
    return dict(STATE)


@contextlib.contextmanager
def errstate(
    *,
    divide: Any = None,
    over: Any = None,
    under: Any = None,
    invalid: Any = None,
    linalg: str | None = None,
) -> Iterator[None]:
    """Handle errors of factorisations in another way (cupyx/_ufunc_config.py)."""
    if any(x is not None for x in (divide, over, under, invalid)):
        msg = "the stand-in knows errors of linalg only"
        raise ValueError(msg)
    if linalg not in (None, "ignore", "raise"):
        msg = f"expected linalg to be 'ignore' or 'raise', got {linalg!r}"
        raise ValueError(msg)
    before = dict(STATE)
    STATE["linalg"] = linalg or before["linalg"]
    try:
        yield
    finally:
        STATE.update(before)
