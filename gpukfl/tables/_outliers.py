"""Gross outliers of a target: rows whose units or codes are not those of all others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

_FEWEST = 20  # rows from which a target has a bulk
_SHARE = 0.1  # of the rows that may be outliers
_FAR = 1_000.0  # times the robust scale, that outliers are from the median by their own median
_DECADES = 4.0  # that the outliers are beyond the bulk, summed over them; each at least 1
_LIGHT, _LIGHT_DECADES = 20.0, 2.5  # of a bulk whose last row is within so many times the scale
_BEYOND = 0.8  # share of the outliers that are so far from the bulk
_ROUNDING = 1e-9  # share of the median that is no distance from it
_NAMED = 5  # rows that a warning names


def find_outliers(y: np.ndarray, /) -> np.ndarray:
    """Find rows whose target is orders of magnitude from all others.

    Parameters
    ----------
    y : array of shape (n,) or (n, t)
        Finite targets.

    Returns
    -------
    array of bool, shape (n,)
        Rows with an outlier in any target.

    Notes
    -----
    Let m be the median, and s the median of those distances from m that are more than rounding.
    The k rows farthest from m are outliers where k is at most a tenth of the rows, their median
    distance is at least 1000 s, and a gap divides them from the bulk: four fifths of them are more
    than 10^max(1, 4/k) times as far from m as the bulk's last row, or 10^max(1, 2.5/k) times where
    that row is within 20 s. Heavy tails, even Pareto's of index 1, have more rows in such a gap
    than beyond it. The rule is applied again to the rows that are left until it finds none.
    O(n log n).
    """
    found = np.zeros(len(y), dtype=bool)
    for column in np.asarray(y, dtype=np.float64).reshape(len(y), -1).T:
        rest = np.arange(len(column))
        while len(rest):
            far = _farthest(column[rest])
            found[rest[far]] = True
            rest = rest[~far] if far.any() else rest[:0]
    return found


def _farthest(y: np.ndarray) -> np.ndarray:
    """Rows (n,) that the rule of `find_outliers` finds at once."""
    n, none = len(y), np.zeros(len(y), dtype=bool)
    if n < _FEWEST:
        return none
    center = float(np.median(y))
    distances = np.abs(y - center)
    apart = distances > _ROUNDING * abs(center)
    if not apart.any():
        return none
    scale = float(np.median(distances[apart]))
    ordered = np.sort(distances)
    if ordered[-1] < _FAR * scale:
        return none
    count = np.arange(1, int(_SHARE * n) + 1)  # of outliers
    edge = np.maximum(ordered[n - count - 1], scale)  # of the bulk
    decades = np.where(edge <= _LIGHT * scale, _LIGHT_DECADES, _DECADES)
    gap = 10.0 ** np.maximum(decades / count, 1.0)
    beyond = (n - np.searchsorted(ordered, gap * edge, side="right")) / count
    middle = ordered[n - 1 - count // 2]
    fit = (beyond >= _BEYOND) & (middle >= _FAR * scale)
    if not fit.any():
        return none
    best = np.flatnonzero(fit & (beyond == beyond[fit].max()))[-1]
    return distances > edge[best]


@dataclass(frozen=True, eq=False)
class Range:
    """Targets that are no gross outliers, by rows that have none: their range, twice as wide.

    Attributes
    ----------
    low, high : array (t,)
        Its ends.
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, y: Any, /) -> Range:
        """Return the range of targets (n,) or (n, t)."""
        values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        low, high = values.min(axis=0), values.max(axis=0)
        slack = 0.5 * (high - low)
        return cls(low - slack, high + slack)

    def __call__(self, y: np.ndarray, /) -> np.ndarray:
        """Return rows (m,) that are within the range in every target."""
        values = np.asarray(y, dtype=np.float64).reshape(len(y), len(self.low))
        return np.all((self.low <= values) & (values <= self.high), axis=1)


def outliers_text(values: np.ndarray, rows: np.ndarray, kept: np.ndarray, labels: Any, /) -> str:
    """Return in words which targets (n, t) are left out, by the labels of their rows."""
    names = [str(row if labels is None else labels[row]) for row in rows[:_NAMED]]
    names += ["..."] if len(rows) > _NAMED else []
    column = int(np.argmax([find_outliers(one[np.r_[kept, rows]]).sum() for one in values.T]))
    y = values[:, column]
    low, high = np.quantile(y[kept], [0.05, 0.95])
    which = f"target {column} of y" if values.shape[1] > 1 else "y"
    unit = max(float(np.median(np.abs(y[kept] - np.median(y[kept])))), 1e-300)
    return (
        f"{which} has gross outliers: {len(rows)} of {len(rows) + len(kept)} rows are from "
        f"{y[rows].min():.4g} to {y[rows].max():.4g}, while 90 % of the others are from {low:.4g} "
        f"to {high:.4g}. Rows {', '.join(names)} are left out of the fit. Correct or drop them, or "
        f"keep them by fitting a scale that holds them all, such as numpy.arcsinh(y / {unit:.3g})"
    )
