"""The rule of conformal quantiles: how many of the smallest scores a coverage asks for."""

from __future__ import annotations

import math

import numpy as np

from gpukfl._checks import check_number

_SLACK = 1e-10  # share of all weights that rounding may take


def check_share(name: str, value: float, /) -> None:
    """Raise TypeError or ValueError unless a coverage or level lies between 0 and 1."""
    check_number(name, value)
    if not 0.0 < value < 1.0:
        msg = f"expected {name} to be greater than 0 and less than 1, got {value!r}"
        raise ValueError(msg)


def unit_weights(weights: np.ndarray | None, n: int, /) -> np.ndarray:
    r"""Host weights (n,) in units of that of a new row, which is :math:`\sum w^2 / \sum w`.

    The sum of those that are given back is Kish's effective number of rows; n without weights.

    Raises
    ------
    ValueError
        If they are not n finite numbers of at least 0, some of them positive.
    """
    if weights is None:
        return np.ones(n)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or not w.any():
        msg = (
            f"expected weights ({n},), finite, at least 0 and not all 0, got shape {w.shape} "
            f"from {w.min(initial=math.inf):g} to {w.max(initial=-math.inf):g}"
        )
        raise ValueError(msg)
    w = w / w.max()  # so that squares do not overflow
    return w / (float(w @ w) / float(w.sum()))


def can_cover(coverage: float, n_effective: float, /) -> bool:
    """Whether there are rows enough for a coverage in (0, 1)."""
    return (coverage - _SLACK) * (n_effective + 1.0) <= n_effective


def conformal_weight(coverage: float, n_effective: float, /) -> float:
    """Weight that the scores up to a conformal quantile have at least.

    Without weights that are the ``ceil((n + 1) coverage)`` smallest.

    Raises
    ------
    ValueError
        If all rows together weigh less: says how many are needed.
    """
    if not can_cover(coverage, n_effective):
        needed = math.ceil((coverage - _SLACK) / (1.0 - coverage))
        msg = (
            f"expected at least {needed} rows that were held out for a coverage of {coverage:g}, "
            f"got {n_effective:.10g}: take a smaller coverage or more rows"
        )
        raise ValueError(msg)
    return (coverage - _SLACK) * (n_effective + 1.0)


def weighted_quantile(values: np.ndarray, weights: np.ndarray, wanted: float, /) -> float:
    """Smallest of `values` (n,) at or below which the `weights` (n,) sum to `wanted`."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    rank = int(np.searchsorted(reached, wanted))
    return float(values[order[min(rank, len(order) - 1)]])
