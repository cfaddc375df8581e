"""Text as a few numbers: its length, and directions among its hashed words."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache, lru_cache
from typing import Any

import numpy as np

from gpukfl._accel.trust import is_numpy_only

_WORD = re.compile(r"\b\w\w+\b")
_ALL, _LEAST = 0xFFFFFFFF, -(2**31)
_KEPT = 2**16  # words whose hashes are kept
_HASHES, _SAMPLE = 2**10, 10_000
_ROWS = 2**15  # looked at together, for the memory that it takes
_COMPONENTS = 3


def shares_of(texts: np.ndarray, components: np.ndarray, /) -> np.ndarray:
    """Return what texts (n,) have in directions (k, n_hashes): counts of unit length, (n, k).

    Sums are in the order of sparse products, to the last bit: trees may split between texts that
    differ in nothing else.
    """
    found = np.zeros((len(texts), len(components)))
    for i, text in enumerate(texts):
        counts = sorted(_counts(text, components.shape[1]).items())
        values = np.array([count for _, count in counts], dtype=np.float64)
        norm = np.sqrt(values @ values)  # of integers, without rounding
        if norm > 0.0:
            parts = (values / norm)[:, None] * components[:, [place for place, _ in counts]].T
            found[i] = np.cumsum(parts, axis=0)[-1]
    return found


def _counts(text: str, n_hashes: int) -> Counter[int]:
    """Count the words of a text by their places; the hash's sign is that of the count."""
    counts: Counter[int] = Counter()
    for word in _WORD.findall(text.lower()):
        place, sign = _place(word, n_hashes)
        counts[place] += sign
    return counts


@lru_cache(_KEPT)
def _place(word: str, n_hashes: int) -> tuple[int, int]:
    hashed = murmur3(word.encode())
    if hashed == _LEAST:  # whose size is no 32-bit number
        return (2**31 - n_hashes) % n_hashes, -1
    return abs(hashed) % n_hashes, 1 if hashed >= 0 else -1


def murmur3(data: bytes, /) -> int:
    """MurmurHash3 of 32 bits with the seed 0, as a signed number.

    References
    ----------
    .. [1] Appleby, "MurmurHash3", function MurmurHash3_x86_32, 2011; in the public domain.
    """
    h, whole = 0, len(data) - len(data) % 4
    for start in range(0, whole, 4):
        h = _turned(h ^ _mixed(int.from_bytes(data[start : start + 4], "little")), 13)
        h = (5 * h + 0xE6546B64) & _ALL
    h ^= _mixed(int.from_bytes(data[whole:], "little")) if len(data) > whole else 0
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = ((h ^ (h >> shift)) * factor) & _ALL
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


def _mixed(word: int) -> int:
    return (_turned((word * 0xCC9E2D51) & _ALL, 15) * 0x1B873593) & _ALL


def _turned(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _ALL


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
    """Return the lengths, and the shares in the directions: (n, 1 + k)."""
    lengths = np.array([len(text) for text in texts], dtype=np.float64)
    if components is None:
        return lengths[:, None]
    if not len(texts):
        return np.empty((0, 1 + len(components)))
    if is_numpy_only():
        return np.column_stack([lengths, shares_of(texts, components)])
    parts = [
        _hashing().transform(texts[start : start + _ROWS]) @ components.T
        for start in range(0, len(texts), _ROWS)
    ]
    return np.column_stack([lengths, np.concatenate(parts)])
