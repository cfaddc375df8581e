"""Text as a few numbers: its length, and directions among its hashed words."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gpukfl._accel.trust import only_numpy
from gpukfl.tables._hashed import shares_of

_HASHES, _SAMPLE = 2**10, 10_000
_ROWS = 2**15  # looked at together, for the memory that it takes
_COMPONENTS = 3


@cache
def _hashing() -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(n_features=_HASHES)


def components_of(texts: np.ndarray, /) -> np.ndarray | None:
    """Learn directions (k, n_hashes) from different texts; None from fewer than three."""
    from sklearn.decomposition import TruncatedSVD

    if len(texts) < 3:
        return None
    counts = _hashing().transform(texts[:_SAMPLE])
    k = min(_COMPONENTS, len(texts) - 1)
    with np.errstate(invalid="ignore"):  # shares of no variance at all, which are not looked at
        return TruncatedSVD(k, random_state=0).fit(counts).components_


def text_parts(texts: np.ndarray, components: np.ndarray | None, /) -> np.ndarray:
    """Give the lengths, and the shares in the directions: (n, 1 + k)."""
    lengths = np.array([len(text) for text in texts], dtype=np.float64)
    if components is None:
        return lengths[:, None]
    if not len(texts):
        return np.empty((0, 1 + len(components)))
    if only_numpy():
        return np.column_stack([lengths, shares_of(texts, components)])
    parts = [
        _hashing().transform(texts[start : start + _ROWS]) @ components.T
        for start in range(0, len(texts), _ROWS)
    ]
    return np.column_stack([lengths, np.concatenate(parts)])
