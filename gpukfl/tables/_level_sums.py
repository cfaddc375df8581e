"""What levels of a column come to: sums over rows by fold, which blocks of rows add up to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_SMOOTH = 10.0  # rows that the mean of all counts for
_LEAST = 1e-300  # that is divided by, where all weights are 0


@dataclass(frozen=True, eq=False)
class LevelSums:
    """Sums over rows by fold and level.

    Attributes
    ----------
    rows : array, shape (folds,)
        How many there are.
    mass : array, shape (folds, size)
        Sums of their weights.
    targets : array, shape (folds, size, t)
        Sums of their targets times weights.
    """

    rows: np.ndarray
    mass: np.ndarray
    targets: np.ndarray

    @classmethod
    def of(
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
        """Weights (size,) of the levels in all folds, which sum to the number of rows."""
        mass = self.mass.sum(axis=0)
        return mass * (self.rows.sum() / max(mass.sum(), _LEAST))

    def means(self, without: int | None = None, /) -> np.ndarray:
        r"""Means (size, t) of the targets by level, over all folds or all but one.

        .. math:: \frac{\sum w y + s\,\overline{w y}}{\sum w + s\,\bar w}

        with sums over the rows of a level, and means over all rows.
        """
        chosen = np.arange(len(self.rows)) != (-1 if without is None else without)
        n = max(self.rows[chosen].sum(), 1)
        mass, targets = self.mass[chosen].sum(axis=0), self.targets[chosen].sum(axis=0)
        top = targets + _SMOOTH / n * targets.sum(axis=0)
        return top / np.maximum(mass + _SMOOTH / n * mass.sum(), _LEAST)[:, None]
