"""Correlations that a sampler can invert, however few rows there are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpukfl._array import to_host
from gpukfl.linalg import eigh

_SMALLEST = 1e-3  # eigenvalue of a correlation matrix that leaves room for copies
_ROUNDING = 1e-6  # a sum of squared correlations below is none
# Categories exclude each other: their mean correlation, given to all pairs, would leave the sum of
# all columns hardly any variance, and so no room. Of the variance 1 it may take so much
_ROOM = 0.2
_EQUAL = 1.0 - 1e-6  # correlation from which two columns are the same
_NOISE = 3.0  # standard errors that a correlation may be off by


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
        By how much of their distance from one for all pairs correlations are moved, as far as
        it may be noise.
    equal : list of (int, int)
        Pairs of columns that are the same up to their units, each with its first like. The later
        say nothing beyond these, and have no correlations in `matrix`: no copy of either could be
        told from the other, and copies of all others are right without them.
    """

    mean: np.ndarray
    deviation: np.ndarray
    matrix: np.ndarray
    shrinkage: float
    equal: list[tuple[int, int]]

    @classmethod
    def of(cls, X: np.ndarray, rounding: float = 1e-13, /) -> Correlation:
        """Estimate from rows (n, p), shrunk to one correlation for all pairs: O(n p² + p³).

        Columns that share a factor have one correlation, nearly; shrunk to none they would keep
        eigenvalues that are far too small, which leave no room for copies. Correlations that are
        far from it stay: a copy that lacks one is beaten by a column that matters by it alone. A
        column is constant if its values differ by less than `rounding` of the largest.

        References
        ----------
        .. [1] Ledoit and Wolf, "Honey, I shrunk the sample covariance matrix", J. Portfolio
           Management, 2004.
        """
        mean, deviation = X.mean(axis=0), X.std(axis=0)
        # By the range: of many equal values the mean is rounded, and so the deviation is not 0
        deviation = np.where(np.ptp(X, axis=0) > rounding * np.abs(X).max(axis=0), deviation, 0.0)
        Z = _units(X, mean, deviation)
        raw = Z.T @ Z / len(Z)
        np.fill_diagonal(raw, 1.0)
        target, share = _common(Z[:, deviation > 0])
        varying = (deviation > 0).astype(np.float64)
        matrix = raw + share * _noise(raw, target * np.outer(varying, varying), len(Z))
        equal = _equal_pairs(raw)
        for _, later in equal:
            matrix[later] = matrix[:, later] = np.arange(len(matrix)) == later
        return cls(mean, deviation, _with_room(matrix), share, equal)

    def units(self, X: np.ndarray, /) -> np.ndarray:
        """Give columns (n, p) of mean 0 and variance 1; constant ones are 0."""
        return _units(X, self.mean, self.deviation)


def _units(X: np.ndarray, mean: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    return (X - mean) * (deviation > 0) / np.where(deviation > 0, deviation, 1.0)


def _common(Z: np.ndarray) -> tuple[float, float]:
    """Give the mean correlation of columns (n, p) of variance 1, and the share to take of it.

    The share is the estimated variance of the correlations' differences from their mean, among
    all that is seen of these differences.
    """
    n, p = Z.shape
    pairs = p * (p - 1)
    if pairs == 0:
        return 0.0, 1.0
    squares = Z * Z
    sizes = squares.sum(axis=1)
    of_rows = (Z.sum(axis=1) ** 2 - sizes) / pairs  # mean product of two columns
    mean = float(of_rows.mean())
    error = float(of_rows.var()) / n
    mean *= max(1.0 - error / mean**2, 0.0) if mean else 0.0  # one that may be chance takes room
    mean = max(mean, -_ROOM / (p - 1))
    S = Z.T @ Z / n
    seen = float(np.sum(S * S)) - p - pairs * float(of_rows.mean()) ** 2
    if seen <= _ROUNDING:
        return mean, 1.0
    products = sizes**2 - np.sum(squares * squares, axis=1) - pairs * of_rows**2
    noise = float(products.mean()) - seen
    return mean, min(max(noise / (n * seen), 0.0), 1.0)


def _noise(raw: np.ndarray, target: np.ndarray, n: int) -> np.ndarray:
    """Give how far correlations of n rows are from a target, as far as that may be noise."""
    bound = _NOISE * (1.0 - raw**2) / n**0.5
    return np.clip(target - raw, -bound, bound)


def _with_room(matrix: np.ndarray) -> np.ndarray:
    """Give the correlation matrix whose smallest eigenvalues are raised."""
    values, vectors = map(to_host, eigh(matrix))
    if values[0] >= _SMALLEST:
        return matrix
    raised = (vectors * np.maximum(values, _SMALLEST)) @ vectors.T
    sizes = np.sqrt(np.diag(raised))
    raised /= np.outer(sizes, sizes)
    np.fill_diagonal(raised, 1.0)
    return raised


def _equal_pairs(raw: np.ndarray) -> list[tuple[int, int]]:
    same = np.triu(np.abs(raw) >= _EQUAL, 1)
    later = np.flatnonzero(same.any(axis=0))
    return [(int(np.argmax(same[:, j])), int(j)) for j in later]
