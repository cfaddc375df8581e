"""What stands for each level of a column: tables of scikit-learn's encoders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace, beside, index_like, is_host
from gpukfl.tables._column import Coded, Listed

_FEW = 8  # levels up to which each has a column
_SMOOTH = 10.0  # rows that the mean of all counts for
_FOLDS = 5
_LEAST = 1e-300  # that is divided by, where all weights are 0


@dataclass(frozen=True, eq=False)
class Lookup(Listed):
    """Numbers for each level.

    Attributes
    ----------
    values : array, shape (levels + 2, width)
        For each level, for another one, and for none.
    names : tuple of str
        Of its columns, to be put behind the name of what is looked up.
    weighed : bool
        Whether the columns are scaled so that together they weigh like one of unit variance.
    """

    values: np.ndarray
    names: tuple[str, ...]
    weighed: bool

    def __call__(self, codes: Array, /) -> Any:
        """Look up codes (n,): (n, width)."""
        rows = rows_of(codes, len(self.values))
        return array_namespace(codes).take(beside(self.values, codes), rows, axis=0)


def rows_of(codes: Array, size: int, /) -> Any:
    """Rows of a lookup: the last one for NaN."""
    xp = array_namespace(codes)
    last = beside(np.asarray(size - 1.0), codes)
    return xp.astype(xp.where(xp.isnan(codes), last, codes), xp.int64)


def columns_of(X: Array, columns: list[int], /) -> Array:
    """Columns of X (n, d) at indices."""
    if is_host(X):
        return np.asarray(X[:, columns])
    xp = array_namespace(X)
    return xp.take(X, xp.asarray(columns, **index_like(X)), axis=1)


def width_of(coded: Coded, t: int, /) -> int:
    """Say how many numbers stand for a level of a column, where there are t targets."""
    return coded.levels + coded.gaps if coded.levels <= _FEW else 1 + t


def learn_lookup(
    codes: np.ndarray,
    coded: Coded,
    Y: np.ndarray | None,
    weights: np.ndarray | None,
    random_state: int,
    /,
) -> tuple[Lookup, np.ndarray | None]:
    """Learn what stands for the levels of a column, and means (n, t) that training rows have."""
    if coded.levels <= _FEW:
        return _one_hot(codes, coded, weights), None
    return _statistics(codes, coded, Y, weights, random_state)


def _every(coded: Coded) -> np.ndarray:
    """All codes (levels + 2, 1) there are."""
    return np.append(np.arange(coded.levels + 1.0), np.nan)[:, None]


def _one_hot(codes: np.ndarray, coded: Coded, weights: np.ndarray | None) -> Lookup:
    """Make a column for each level, which together have unit variance."""
    from sklearn.preprocessing import OneHotEncoder

    known = np.arange(float(coded.levels))
    known = np.append(known, np.nan) if coded.gaps else known
    encoder = OneHotEncoder(categories=[known], handle_unknown="ignore", sparse_output=False)
    values = encoder.fit(known[:, None]).transform(_every(coded))
    mass = np.bincount(rows_of(codes, len(values)), weights, len(values))
    shares = mass @ values / max(mass.sum(), _LEAST)
    spread = float(np.sum(shares * (1.0 - shares)))
    names = [*(f"={' '.join(label.split())}" for label in coded.labels), *[" missing"] * coded.gaps]
    return Lookup(values / np.sqrt(spread) if spread > 0 else values, tuple(names), True)


def _statistics(
    codes: np.ndarray,
    coded: Coded,
    Y: np.ndarray | None,
    weights: np.ndarray | None,
    random_state: int,
) -> tuple[Lookup, np.ndarray | None]:
    """Frequencies of levels, and means of the targets; of training rows means by other rows."""
    size = coded.levels + 2
    rows = rows_of(codes, size).astype(np.int32)
    mass = np.bincount(rows, weights, size)
    counts = np.log1p(mass * (len(codes) / max(mass.sum(), _LEAST)))[:, None]
    if Y is None:
        return Lookup(counts, (" frequency",), False), None
    w = None if weights is None else weights / weights.mean()
    own = _cross_fitted(rows[:, None], Y, w, random_state)
    every = np.arange(size)[:, None]
    values = np.column_stack([counts, _means(rows[:, None], Y, w, every)])
    t = Y.shape[1]
    names = (" frequency", *([" mean"] if t == 1 else [f" mean {k}" for k in range(t)]))
    return Lookup(values, names, False), own


def _cross_fitted(
    X: np.ndarray, Y: np.ndarray, w: np.ndarray | None, random_state: int
) -> np.ndarray:
    """Give means (n, t) of targets by level, each row's by rows of other folds."""
    out = np.tile(np.average(Y, axis=0, weights=w), (len(X), 1))
    if len(X) >= 2:
        fold = _folds(len(X), random_state)
        for k in range(min(_FOLDS, len(X))):
            inside, outside = fold != k, fold == k
            some = None if w is None else w[inside]
            out[outside] = _means(X[inside], Y[inside], some, X[outside])
    return out


def _folds(n: int, random_state: int) -> np.ndarray:
    """Give the fold (n,) of each row, as `KFold` draws it, whose splits take four times as much."""
    from sklearn.utils import check_random_state

    order, fold = np.arange(n), np.empty(n, dtype=np.int8)
    check_random_state(random_state).shuffle(order)
    for k, held_out in enumerate(np.array_split(order, min(_FOLDS, n))):
        fold[held_out] = k
    return fold


def _means(X: np.ndarray, Y: np.ndarray, w: np.ndarray | None, at: np.ndarray) -> np.ndarray:
    r"""Means of targets by level: :math:`(\sum w y + s\,\overline{wy}) / (\sum w + s\,\bar w)`.

    The encoder knows no weights: it is asked for the smoothed means of w y and of w.
    """
    if w is None:
        return np.column_stack([_smoothed(X, y, at) for y in Y.T])
    sums = np.column_stack([_smoothed(X, w * y, at) for y in Y.T])
    return sums / _smoothed(X, w, at)[:, None]


def _smoothed(X: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    from sklearn.preprocessing import TargetEncoder

    encoder = TargetEncoder(target_type="continuous", smooth=_SMOOTH)
    return encoder.fit(X, y).transform(at)[:, 0]
