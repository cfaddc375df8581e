r"""Selection with a bounded false discovery rate from weights of variables and their copies.

Candès and others (2018) compare a variable with one copy, Gimenez and Zou (2019) with κ of them;
Ren and Barber (2024) make e-values of each draw of copies, whose means depend less on the draw.
"""

from __future__ import annotations

import math

import numpy as np

_ROUNDING = 1e-9  # relative, of sums of e-values


def contest(weights: np.ndarray, /) -> np.ndarray:
    r"""Compare variables with their copies.

    .. math:: W_j = \beta_j - \max_k \tilde\beta_{jk}

    where the variable weighs most. Where a copy does, W is the second largest weight less that
    of the copy; 0 where the two largest are equal, which says nothing.

    Parameters
    ----------
    weights : host array (κ + 1, p)
        Weights of the variables, at least 0, and of their κ copies.

    Returns
    -------
    host array (p,)
        W. Of variables that tell nothing of the target, the signs are independent given the
        absolute values, and positive with probability 1 / (κ + 1).
    """
    ordered = np.sort(weights, axis=0)
    lead = ordered[-1] - ordered[-2]
    return np.where(weights[0] == ordered[-1], lead, -lead)


def combine_weights(*weights: np.ndarray) -> np.ndarray:
    r"""Combine weights of several fits by root sums of squares, each scaled to maximum 1.

    Parameters
    ----------
    *weights : host arrays (κ + 1, p)
        At least 0, of fits to the same variables and copies.

    Returns
    -------
    host array (κ + 1, p)
        Weights that `contest` takes. If a variable and one of its copies change places, so do
        their weights in every fit, and so here; no more is asked of a statistic [1]_.

    References
    ----------
    .. [1] Candès, Fan, Janson and Lv, "Panning for gold: model-X knockoffs for high dimensional
       controlled variable selection", JRSS B, 2018, Section 3.2.
    """
    units = [each / (each.max(initial=0.0) or 1.0) for each in weights]
    return np.linalg.norm(units, axis=0)


def smallest_level(p: int, copies: int, /) -> float:
    r"""Return the lowest level at which a discovery is possible: :math:`1 / (κ p)`."""
    return 1.0 / (copies * p)


def min_discoveries(level: float, copies: int, /) -> int:
    r"""Return the minimal number of discoveries: :math:`1 / (κ α)`, rounded up."""
    return max(1, math.ceil((1.0 - _ROUNDING) / (copies * level)))


def e_values(W: np.ndarray, /, *, level: float, copies: int = 1) -> np.ndarray:
    r"""Return e-values of variables from one draw of copies.

    With V(t) and R(t) the numbers of :math:`W_j \le -t` and of :math:`W_j \ge t`,

    .. math:: e_j = \frac{κ p\, 1\{W_j \ge T\}}{1 + V(T)}, \qquad
              T = \min \Big\{ t > 0: \frac{1 + V(t)}{κ\, R(t)} \le \alpha
              \ \text{or}\ V(t) = 0 \Big\} .

    The mean of their sum over variables that tell nothing is at most p, because T is a stopping
    time as t grows: what it looks at is symmetric in those that were not yet passed.

    Parameters
    ----------
    W : host array (p,)
        From `contest`.
    level : float
        α, in (0, 1). Where several draws are averaged, half of the level that is meant.
    copies : int
        κ.

    Returns
    -------
    host array (p,)
        At least 0.

    References
    ----------
    .. [1] Ren and Barber, "Derandomised knockoffs: leveraging e-values for false discovery rate
       control", JRSS B, 2024, eq. (6); here for κ copies, and with ones also of few variables.
    """
    sizes = np.unique(np.abs(W[W != 0]))
    ascending = np.sort(W)
    lost = np.searchsorted(ascending, -sizes, side="right")
    won = len(W) - np.searchsorted(ascending, sizes, side="left")
    stops = (lost == 0) | (1 + lost <= (1 + _ROUNDING) * level * copies * won)
    if not stops.any():
        return np.zeros(len(W))
    first = int(np.argmax(stops))
    return np.where(sizes[first] <= W, copies * len(W) / (1.0 + lost[first]), 0.0)


def select_by_e_values(values: np.ndarray, level: float, /) -> np.ndarray:
    r"""Select by e-values (e-BH): the largest k with :math:`e_{(k)} \ge p / (\alpha k)`.

    Parameters
    ----------
    values : host array (p,)
        e-values, at least 0, which may depend on each other in any way.
    level : float
        α, in (0, 1).

    Returns
    -------
    host array of bool (p,)
        Of which the expected share of false ones is at most α.

    References
    ----------
    .. [1] Wang and Ramdas, "False discovery rate control with e-values", JRSS B, 2022.
    """
    ordered = np.sort(values)[::-1]
    enough = ordered * np.arange(1, len(values) + 1) * level >= (1 - _ROUNDING) * len(values)
    if not enough.any():
        return np.zeros(len(values), dtype=bool)
    return values >= ordered[np.flatnonzero(enough)[-1]]


def selection_level(values: np.ndarray, found: np.ndarray, /) -> float:
    """Return the lowest level at which e-values (p,) select the same; 0 for none."""
    count = int(found.sum())
    return float(len(values) / (count * values[found].min())) if count else 0.0
