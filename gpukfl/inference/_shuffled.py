"""What a model makes of columns that are shuffled."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np


def moved(
    predict: Callable[[np.ndarray], np.ndarray],
    X: np.ndarray,
    columns: Sequence[int] | np.ndarray,
    weights: np.ndarray,
    rng: np.random.RandomState,
    /,
) -> float:
    """Mean square by which predictions of rows (n, d) move where columns are shuffled together."""
    shuffled = X.copy()
    shuffled[:, columns] = X[rng.permutation(len(X))][:, columns]
    moves = np.sum((predict(shuffled) - predict(X)) ** 2, axis=1)
    return float(np.average(moves, weights=weights))
