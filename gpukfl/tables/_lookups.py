"""Encodings of levels: indicators, or frequencies and target means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, index_like, is_host
from gpukfl.tables._column import Coded, TupleFields

_PRIOR_ROWS = 10.0  # weight of the overall mean in a level's mean, in rows
FEW = 8  # at most so many levels have an indicator each
FOLDS = 5
_TINY = 1e-300  # divisor in place of a sum of weights that is 0


@dataclass(frozen=True, eq=False)
class LevelSums:
    """Sums over rows by fold and level.

    Attributes
    ----------
    rows : array, shape (folds,)
        Numbers of rows.
    mass : array, shape (folds, size)
        Sums of weights.
    targets : array, shape (folds, size, t)
        Sums of targets times weights.
    """

    rows: np.ndarray
    mass: np.ndarray
    targets: np.ndarray

    @classmethod
    def from_rows(
        cls,
        levels: np.ndarray,
        size: int,
        Y: np.ndarray | None,
        weights: np.ndarray | None,
        fold: np.ndarray,
        n_folds: int,
        /,
    ) -> LevelSums:
        """Sum over rows: levels 0, ..., size - 1 (n,), targets (n, t), weights and folds (n,)."""
        place, count = fold * np.int64(size) + levels, n_folds * size
        mass = np.bincount(place, weights, count).reshape(n_folds, size)
        sums = [
            np.bincount(place, y if weights is None else weights * y, count).reshape(n_folds, size)
            for y in (() if Y is None else Y.T)
        ]
        targets = np.stack(sums, axis=2) if sums else np.zeros((n_folds, size, 0))
        return cls(np.bincount(fold, minlength=n_folds), mass.astype(np.float64), targets)

    def __add__(self, other: LevelSums, /) -> LevelSums:
        return LevelSums(
            self.rows + other.rows, self.mass + other.mass, self.targets + other.targets
        )

    @property
    def total(self) -> np.ndarray:
        """The weights (size,) of the levels over all folds, scaled to sum to the rows."""
        mass = self.mass.sum(axis=0)
        return mass * (self.rows.sum() / max(mass.sum(), _TINY))

    def means(self, without: int | None = None, /) -> np.ndarray:
        r"""Return the target means (size, t) by level, over all folds or all but one.

        .. math:: \frac{\sum w y + s\,\overline{w y}}{\sum w + s\,\bar w}

        with sums over the rows of a level, and means over all rows.
        """
        chosen = np.arange(len(self.rows)) != (-1 if without is None else without)
        n = max(self.rows[chosen].sum(), 1)
        mass, targets = self.mass[chosen].sum(axis=0), self.targets[chosen].sum(axis=0)
        top = targets + _PRIOR_ROWS / n * targets.sum(axis=0)
        return top / np.maximum(mass + _PRIOR_ROWS / n * mass.sum(), _TINY)[:, None]


@dataclass(frozen=True, eq=False)
class Lookup(TupleFields):
    """Numbers for each level.

    Attributes
    ----------
    values : array, shape (levels + 2, width)
        Numbers for each level, for a new level, and for a missing value.
    names : tuple of str
        Suffixes of the encoded columns' names.
    weighed : bool
        Whether the columns are scaled to a total variance of 1.
    """

    values: np.ndarray
    names: tuple[str, ...]
    weighed: bool

    def __call__(self, codes: Array, /) -> Any:
        """Look up codes (n,): (n, width)."""
        rows = look_up_rows(codes, len(self.values))
        return array_namespace(codes).take(asarray_like(self.values, codes), rows, axis=0)


def look_up_rows(codes: Array, size: int, /) -> Any:
    """Return the rows of a lookup, the last one for NaN."""
    xp = array_namespace(codes)
    last = asarray_like(np.asarray(size - 1.0), codes)
    return xp.astype(xp.where(xp.isnan(codes), last, codes), xp.int64)


def select_columns(X: Array, columns: list[int], /) -> Array:
    """Return the columns of X (n, d) at indices."""
    if is_host(X):
        return np.asarray(X[:, columns])
    xp = array_namespace(X)
    return xp.take(X, xp.asarray(columns, **index_like(X)), axis=1)


def lookup_width(coded: Coded, t: int, /) -> int:
    """Return the width of a level's encoding with t targets."""
    return coded.levels + coded.gaps if coded.levels <= FEW else 1 + t


def learn_lookup(
    codes: np.ndarray,
    coded: Coded,
    Y: np.ndarray | None,
    weights: np.ndarray | None,
    random_state: int,
    blocks: np.ndarray | None = None,
    /,
) -> tuple[Lookup, np.ndarray | None]:
    """Learn the lookup of a column's levels, and cross-fitted target means (n, t) of the rows.

    A row's means are learned on other folds; None if levels have indicators. Folds are `blocks`
    (n,), or drawn at random.
    """
    n = len(codes)
    cross = coded.levels > FEW and Y is not None
    fold, n_folds = np.zeros(n, dtype=np.int8), 1
    if cross and blocks is not None:
        fold, n_folds = blocks, int(blocks.max()) + 1
    elif cross:
        fold, n_folds = _draw_folds(n, random_state), min(FOLDS, n)
    levels = look_up_rows(codes, coded.levels + 2)
    sums = LevelSums.from_rows(
        levels, coded.levels + 2, Y if cross else None, weights, fold, n_folds
    )
    own = None
    if Y is not None and cross:
        own = np.tile(np.average(Y, axis=0, weights=weights), (n, 1))
        for k in range(n_folds if n > 1 else 0):
            outside = fold == k
            own[outside] = sums.means(k)[levels[outside]]
    return make_lookup(coded, sums), own


def make_lookup(coded: Coded, sums: LevelSums, /, *, without: int | None = None) -> Lookup:
    """Return the lookup of a column's levels, perhaps without a fold."""
    if coded.levels <= FEW:
        return _one_hot(coded, sums.total)
    frequencies, t = np.log1p(sums.total)[:, None], sums.targets.shape[2]
    values = np.column_stack([frequencies, sums.means(without)])
    names = {0: [], 1: [" mean"]}.get(t, [f" mean {k}" for k in range(t)])
    return Lookup(values, (" frequency", *names), False)


def _one_hot(coded: Coded, mass: np.ndarray) -> Lookup:
    """Return the one-hot lookup, scaled to unit total variance."""
    columns = [*range(coded.levels), *[coded.levels + 1] * coded.gaps]  # no column for new levels
    values = np.eye(coded.levels + 2)[:, columns]
    shares = mass @ values / max(mass.sum(), _TINY)
    spread = float(np.sum(shares * (1.0 - shares)))
    names = [*(f"={' '.join(label.split())}" for label in coded.labels), *[" missing"] * coded.gaps]
    return Lookup(values / np.sqrt(spread) if spread > 0 else values, tuple(names), True)


def _draw_folds(n: int, random_state: int) -> np.ndarray:
    """Return the fold (n,) of each row, as `KFold` draws it."""
    from sklearn.utils import check_random_state

    order, fold = np.arange(n), np.empty(n, dtype=np.int8)
    check_random_state(random_state).shuffle(order)
    for k, held_out in enumerate(np.array_split(order, min(FOLDS, n))):
        fold[held_out] = k
    return fold
