r"""Probabilities :math:`p_k^{1/T} / \sum_l p_l^{1/T}` of a temperature T, by rows held out.

A mean of models that have seen different rows is less sure than it may be, and members may be too
sure; one number mends what is common to all rows, and leaves the order of the classes as it is.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from gpukfl._array import to_host
from gpukfl.portfolio._judges import LogLoss
from gpukfl.prediction import tempered

_MOST = 4.0  # and one over it the least: so that no probability becomes 0 in float32
_SPREAD = 0.3  # expected of the temperature's logarithm, which few rows say little of


def temperature_of(probabilities: np.ndarray, judge: LogLoss, /) -> float:
    """Choose the temperature of the lowest log loss.

    Parameters
    ----------
    probabilities : host array, shape (n, k)
        Positive, for the rows of the judge, by models that have not seen them.
    judge : LogLoss
        The truth, and weights.

    Returns
    -------
    float
        From 1/4 to 4; of few rows near 1, by a normal prior of its logarithm. O(n k) a trial.
    """

    def loss(log: float) -> float:
        found = to_host(tempered(probabilities, math.exp(log)))
        return float(judge.losses(found).sum()) + 0.5 * (log / _SPREAD) ** 2

    most = math.log(_MOST)
    found = minimize_scalar(loss, bounds=(-most, most), method="bounded")
    return math.exp(found.x) if found.fun < loss(0.0) else 1.0
