"""Random draws on the host, so that all libraries and devices use the same numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

_MAX_SHUFFLED = 2**22  # up to so many numbers, all are shuffled to draw some of them


@contextlib.contextmanager
def preserve_rng_state(rng: np.random.RandomState, /) -> Iterator[None]:
    """Restore the state of `rng` at the end of the block."""
    state = rng.get_state()
    try:
        yield
    finally:
        rng.set_state(state)


def draw_indices(rng: np.random.RandomState, n: int, count: int, /) -> np.ndarray:
    """Draw `count` different numbers below `n` uniformly.

    For large `n`, the memory is proportional to `count`.
    """
    if n <= _MAX_SHUFFLED:
        return rng.choice(n, count, replace=False)
    from sklearn.utils.random import sample_without_replacement

    return sample_without_replacement(n, count, random_state=rng).astype(np.int64)


def hash_folds(start: int, stop: int, count: int, seed: int, /) -> np.ndarray:
    """Return a random number below `count` for each integer of a range, int8.

    Each is a hash of its integer (SplitMix64), and does not depend on the range.
    """
    first = np.asarray([seed], dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # wraps around
    x: np.ndarray = first + np.arange(start, stop, dtype=np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return ((x ^ (x >> np.uint64(31))) % np.uint64(count)).astype(np.int8)


def remaining_indices(index: np.ndarray, n: int, /) -> np.ndarray:
    """Return the numbers below `n` that are not in `index`, ascending."""
    return np.setdiff1d(np.arange(n), index)


def draw_orthonormal(n: int, count: int, seed: int, /) -> np.ndarray:
    """Draw at most n uniform orthonormal columns (n, count)."""
    Q, R = np.linalg.qr(np.random.RandomState(seed).standard_normal((n, count)))
    return Q * np.sign(np.diagonal(R))  # the signs make the distribution uniform
