"""Stability selection: how often a variable is selected on halves of the samples."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def selection_frequencies(
    select: Callable[[np.ndarray], np.ndarray],
    n: int,
    n_subsamples: int,
    rng: np.random.RandomState,
    late: Callable[[], bool] = lambda: False,
    /,
) -> tuple[np.ndarray, float, bool]:
    """Select on halves of the samples that come in complementary pairs.

    Parameters
    ----------
    select : callable
        Gives the variables (p,) of bool that are selected on the samples of some indices.
    n : int
        Samples, at least 4.
    n_subsamples : int
        Halves; an odd number is one half of a last pair.
    rng : RandomState
        Draws them on the host.
    late : callable, optional
        Asked after every pair whether to end there.

    Returns
    -------
    tuple of a host array, a float and a bool
        Share of the halves on which each variable was selected (p,), the mean number q of
        variables selected on a half, and whether there were as many halves as asked for.

    References
    ----------
    .. [1] Meinshausen and Bühlmann, "Stability selection", JRSS B, 2010.
    .. [2] Shah and Samworth, "Variable selection with error control", JRSS B, 2013, for the pairs.
    """
    found = []
    order = np.arange(n)
    for k in range(n_subsamples):
        if k % 2 == 0:
            order = rng.permutation(n)
        half = order[: n // 2] if k % 2 == 0 else order[n // 2 : 2 * (n // 2)]
        found.append(select(np.sort(half)))
        if k % 2 and late():
            break
    counts = np.asarray(found, dtype=np.float64)
    return counts.mean(axis=0), float(counts.sum(axis=1).mean()), len(found) == n_subsamples


def stability_threshold(mean_selected: float, p: int, max_false: float, /) -> float:
    r"""Frequency π above which at most `max_false` false variables are expected.

    From the bound :math:`E[V] \le q^2 / ((2\pi - 1) p)` (Meinshausen and Bühlmann, Theorem 1), at
    least just above one half. More than 1 means that so few cannot be promised.

    Parameters
    ----------
    mean_selected : float
        q, mean number of variables selected on a half.
    p : int
        Variables.
    max_false : float
        Bound on the expected number of falsely selected variables, positive.
    """
    return max(0.5 * (1.0 + mean_selected**2 / (p * max_false)), math.nextafter(0.5, 1.0))
