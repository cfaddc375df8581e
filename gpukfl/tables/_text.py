"""Text as a few numbers: its length, and directions among its hashed n-grams."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

_HASHES, _SAMPLE = 2**10, 10_000
N_COMPONENTS = 4


@cache
def _hashing() -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer

    return HashingVectorizer(n_features=_HASHES, analyzer="char_wb", ngram_range=(3, 3))


def components_of(texts: np.ndarray, /) -> np.ndarray:
    """Learn directions (k, n_hashes) from different texts."""
    from sklearn.decomposition import TruncatedSVD

    counts = _hashing().transform(texts[:_SAMPLE])
    k = min(N_COMPONENTS, counts.shape[0] - 1)
    return TruncatedSVD(k, random_state=0).fit(counts).components_


def text_parts(texts: np.ndarray, components: np.ndarray, /) -> np.ndarray:
    """Length, and shares in the directions: (n, 1 + k)."""
    lengths = np.array([len(text) for text in texts], dtype=np.float64)
    shares = (
        _hashing().transform(texts) @ components.T if len(texts) else np.empty((0, len(components)))
    )
    return np.column_stack([lengths, shares])
