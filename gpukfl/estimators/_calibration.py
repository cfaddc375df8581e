"""Probabilities from scores: one temperature, so that the largest score stays the most likely."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from gpukfl._array import Array, array_namespace

_LOGS = (-3.0, 4.0)  # of the inverse temperature: what scores of the order of 1 can need


def fit_inverse_temperature(scores: np.ndarray, codes: np.ndarray, weights: np.ndarray, /) -> float:
    """Choose s so that softmax(s · scores) has the highest likelihood.

    Parameters
    ----------
    scores : host array, shape (m, k)
        One column for each class, by models that have not seen the row.
    codes : host array of int, shape (m,)
        The classes.
    weights : host array, shape (m,)
        Sample weights.

    Returns
    -------
    float
        s, positive.
    """
    size = np.sqrt(np.mean(scores**2)) or 1.0
    rows = np.arange(len(codes))

    def loss(log: float) -> float:
        return -float(weights @ log_softmax(np.exp(log) / size * scores, axis=1)[rows, codes])

    return float(np.exp(minimize_scalar(loss, bounds=_LOGS, method="bounded").x) / size)


def softmax(scores: Array, /) -> Array:
    """Exponentials of the rows of `scores` (n, k), over their sums."""
    xp = array_namespace(scores)
    powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)
