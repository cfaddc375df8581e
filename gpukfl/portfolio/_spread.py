r"""How large residuals are expected to be, from row to row.

The square roots of absolute residuals, which are close to normal where the residuals are, are
smoothed over the rows by kernel ridge regression; the spread is the square of what comes out. The
ridge is the largest of those that leave-one-out errors can hardly tell apart: where nothing says
that some rows are rougher than others, the spread is nearly constant.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpukfl._rows import Rows
from gpukfl.kernels import ManhattanLaplace, median_distance
from gpukfl.methods import KernelRidge, KernelRidgeFit

_CENTERS = 300
_SAMPLE = 500  # rows from which the lengthscale is taken
_WIDTH = 3.0  # interquartile ranges from which a column counts less and less
_LEAST = 0.2  # of the mean root, below which no root is believed


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns brought to one scale: less their median, in interquartile ranges, far ones nearer."""

    center: np.ndarray  # (d,)
    scale: np.ndarray  # (d,), positive

    @classmethod
    def of(cls, X: np.ndarray, /) -> Columns:
        """Take the quartiles of `X` (n, d); the standard deviation where they are one."""
        low, middle, high = np.quantile(X, [0.25, 0.5, 0.75], axis=0)
        scale = np.where(high > low, high - low, X.std(axis=0))
        return cls(middle, np.where(scale > 0, scale, 1.0))

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        """Scale rows (m, d)."""
        Z = (X - self.center) / self.scale
        return Z / np.hypot(1.0, Z / _WIDTH)


@dataclass(frozen=True, eq=False)
class Spread:
    """Expected size of residuals, up to a factor.

    Attributes
    ----------
    columns : Columns
        How rows are scaled.
    fit : KernelRidgeFit
        Of the roots, less their mean and divided by it.
    size : array (t,)
        Mean root of each target's absolute residuals, squared; positive.
    """

    columns: Columns
    fit: KernelRidgeFit
    size: np.ndarray

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        residuals: np.ndarray,
        weights: np.ndarray | None = None,
        /,
        *,
        rng: np.random.RandomState,
    ) -> Spread:
        """Learn it from rows and their residuals.

        Parameters
        ----------
        X : host array, shape (n, d)
            Anything that may tell where residuals are large; finite. n at least 2.
        residuals : host array, shape (n, t)
            Of rows that the fits have not seen.
        weights : host array, shape (n,), optional
            Sample weights.
        rng : RandomState
            Draws centres.

        Returns
        -------
        Spread
            O(n q² + q³) with at most q = 300 centres.
        """
        columns = Columns.of(X)
        Z, roots = columns(X), np.sqrt(np.abs(residuals))
        w = None if weights is None else weights / weights.mean()
        mean = np.average(roots, axis=0, weights=w)
        unit = np.where(mean > 0, mean, 1.0)
        sample = Z[rng.permutation(len(Z))[:_SAMPLE]]
        kernel = ManhattanLaplace(median_distance(sample, norm="manhattan"))
        method = KernelRidge(kernel, n_centers=min(_CENTERS, len(Z)), cautious=True)
        targets = (roots - mean) / unit
        fit = method.fit(Rows(Z, np.empty(0)), targets, None if w is None else w[:, None], rng)
        return cls(columns, fit, unit**2)

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        """Give the expected size of residuals (m, t) at rows (m, d), positive."""
        roots = 1.0 + self.fit.predict(Rows(self.columns(X), np.empty(0)))
        return self.size * np.maximum(roots, _LEAST) ** 2
