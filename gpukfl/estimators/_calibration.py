"""Probabilities from scores: one temperature, so that the largest score stays the most likely."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from gpukfl._array import Array, array_namespace


class HeldOutScores(NamedTuple):
    """Predictions for rows that their fits have not seen, on the host."""

    F: np.ndarray  # (m, t)
    Y: np.ndarray  # (m, t), indicators of classes
    weights: np.ndarray  # (m,)


_LOGS = (-3.0, 4.0)  # of the inverse temperature: what scores of the order of 1 can need
_SUCCESSION = (
    1.0  # Laplace's rule: of m rows that are right without exception the next may be wrong
)


def fit_inverse_temperature(scores: np.ndarray, codes: np.ndarray, weights: np.ndarray, /) -> float:
    """Choose s so that softmax(s · scores) has the highest likelihood.

    Parameters
    ----------
    scores : host array, shape (m, k)
        One column for each of at least two classes, by models that have not seen the row.
    codes : host array of int, shape (m,)
        The classes.
    weights : host array, shape (m,)
        Sample weights.

    Returns
    -------
    float
        s, positive.
    """
    m, k = scores.shape
    size = np.sqrt(np.mean(scores**2)) or 1.0
    truth = np.full((m, k), _SUCCESSION / (m + 2.0) / (k - 1.0))
    truth[np.arange(m), codes] = 1.0 - _SUCCESSION / (m + 2.0)

    def loss(log: float) -> float:
        return -float(weights @ np.sum(truth * log_softmax(np.exp(log) / size * scores), axis=1))

    return float(np.exp(minimize_scalar(loss, bounds=_LOGS, method="bounded").x) / size)


def log_softmax(scores: Array, /) -> Array:
    """Logarithms of the exponentials of the rows of `scores` (n, k), over their sums."""
    xp = array_namespace(scores)
    less = scores - xp.max(scores, axis=1, keepdims=True)
    return less - xp.log(xp.sum(xp.exp(less), axis=1, keepdims=True))


def softmax(scores: Array, /) -> Array:
    """Exponentials of the rows of `scores` (n, k), over their sums."""
    return array_namespace(scores).exp(log_softmax(scores))
