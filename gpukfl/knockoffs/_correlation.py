"""Correlations that a sampler can invert, however few rows there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpukfl.linalg import eigvalsh

_SMALLEST = 1e-3  # eigenvalue of a correlation matrix that leaves room for copies
_ROUNDING = 1e-6  # of the largest value: a deviation below is none
_EQUAL = 1.0 - 1e-6  # correlation from which two columns are the same


@dataclass(frozen=True, eq=False)
class Correlation:
    """Means, deviations and the shrunk correlation of some columns.

    Attributes
    ----------
    mean, deviation : host array (p,)
        Of the columns; a constant one has deviation 0.
    matrix : host array (p, p)
        Positive definite, with ones on its diagonal.
    shrinkage : float
        Share of the identity in it.
    equal : list of (int, int)
        Pairs of columns that are the same up to their units, each with its first like.
    """

    mean: np.ndarray
    deviation: np.ndarray
    matrix: np.ndarray
    shrinkage: float
    equal: list[tuple[int, int]]

    @classmethod
    def of(cls, X: np.ndarray, /) -> Correlation:
        """Estimate from rows (n, p), shrunk as Ledoit and Wolf do, and to be invertible: O(n p²).

        References
        ----------
        .. [1] Ledoit and Wolf, "A well-conditioned estimator for large-dimensional covariance
           matrices", J. Multivariate Analysis, 2004.
        """
        from sklearn.covariance import ledoit_wolf_shrinkage

        mean, deviation = X.mean(axis=0), X.std(axis=0)
        deviation = np.where(deviation > _ROUNDING * np.abs(X).max(axis=0), deviation, 0.0)
        Z = _units(X, mean, deviation)
        raw = Z.T @ Z / len(Z)
        np.fill_diagonal(raw, 1.0)
        share = _enough(raw, float(ledoit_wolf_shrinkage(Z, assume_centered=True)))
        matrix = (1.0 - share) * raw
        np.fill_diagonal(matrix, 1.0)
        return cls(mean, deviation, matrix, share, _equal_pairs(raw))

    def units(self, X: np.ndarray, /) -> np.ndarray:
        """Give columns (n, p) of mean 0 and variance 1; constant ones are 0."""
        return _units(X, self.mean, self.deviation)


def _units(X: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    return (X - mean) * (deviation > 0) / np.where(deviation > 0, deviation, 1.0)


def _enough(raw: np.ndarray, share: float) -> float:
    """Give the share of the identity that leaves the smallest eigenvalue large enough."""
    lowest = float(eigvalsh(raw)[0])
    needed = (_SMALLEST - lowest) / (1.0 - lowest) if lowest < _SMALLEST else 0.0
    return max(share, needed)


def _equal_pairs(raw: np.ndarray) -> list[tuple[int, int]]:
    same = np.triu(np.abs(raw) >= _EQUAL, 1)
    later = np.flatnonzero(same.any(axis=0))
    return [(int(np.argmax(same[:, j])), int(j)) for j in later]
