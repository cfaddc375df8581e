"""Draws on the host, so that every place sees the same."""

from __future__ import annotations

import numpy as np

_SHUFFLED = 2**26  # numbers that may be shuffled as a whole to draw some of them


def drawn(rng: np.random.RandomState, n: int, count: int, /) -> np.ndarray:
    """Draw `count` different numbers below `n`, each as likely, in any order.

    In memory of the order of `count` where `n` is large.
    """
    if n <= _SHUFFLED:
        return rng.choice(n, count, replace=False)
    from sklearn.utils.random import sample_without_replacement

    return sample_without_replacement(n, count, random_state=rng).astype(np.int64)
