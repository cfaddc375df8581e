r"""How large residuals are expected to be, from row to row.

The square roots of absolute residuals, which are close to normal where the residuals are, are
smoothed over the rows by kernel ridge regression; the spread is the square of what comes out. The
ridge is the largest of those that leave-one-out errors can hardly tell apart: where nothing says
that some rows are rougher than others, the spread is nearly constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gpukfl._array import to_host
from gpukfl._rows import Rows
from gpukfl.estimators._declared import DOUBLE, Declared, Number, Numbers
from gpukfl.estimators.scaling import RobustScaling
from gpukfl.kernels import ManhattanLaplace, median_distance
from gpukfl.methods import KernelRidge, KernelRidgeFit

CENTERS = 300
_SAMPLE = 500  # rows from which the lengthscale is taken
_MOST = 5_000  # rows that a smooth function of them needs
_LEAST = 0.2  # of the mean root, below which no root is believed


@dataclass(frozen=True, eq=False)
class Spread:
    """Expected size of residuals, up to a factor.

    Attributes
    ----------
    scaling : array (3, d)
        Median, factor and bound of the columns; see `RobustScaling`.
    lengthscale : float
        Of the kernel, a product of Laplace kernels.
    Z : array (q, d)
        Its centres.
    alpha : array (q, t)
        Dual coefficients of the roots, less their mean and divided by it.
    size : array (t,)
        Mean root of each target's absolute residuals, squared; positive.
    """

    scaling: np.ndarray
    lengthscale: float
    Z: np.ndarray
    alpha: np.ndarray
    size: np.ndarray
    fields: ClassVar[Mapping[str, Declared]] = {
        "scaling": Numbers(DOUBLE, (3, "n_spread_columns")),
        "lengthscale": Number(),
        "Z": Numbers(DOUBLE, ("n_spread_centers", "n_spread_columns")),
        "alpha": Numbers(DOUBLE, ("n_spread_centers", "n_targets")),
        "size": Numbers(DOUBLE, ("n_targets",)),
    }

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        residuals: np.ndarray,
        weights: np.ndarray | None = None,
        /,
        *,
        rng: np.random.RandomState,
        n_centers: int = CENTERS,
    ) -> Spread:
        """Learn it from rows and their residuals.

        Parameters
        ----------
        X : host array, shape (n, d)
            Anything that may tell where residuals are large; finite. n at least 2.
        residuals : host array, shape (n, t)
            Of rows that the fits have not seen.
        weights : host array, shape (n,), optional
            Sample weights, positive.
        rng : RandomState
            Draws centres.
        n_centers : int
            q; all rows where they are fewer.

        Returns
        -------
        Spread
            O(n q² + q³) for n up to 5000; of more rows so many are drawn.
        """
        if len(X) > _MOST:
            rows = np.sort(rng.choice(len(X), _MOST, replace=False))
            X, residuals = X[rows], residuals[rows]
            weights = None if weights is None else weights[rows]
        w = None if weights is None else weights / weights.mean()
        scaling = RobustScaling.of(Rows(X, np.empty(0)), w)
        Z, roots = to_host(scaling(X)), np.sqrt(np.abs(residuals))
        mean = np.average(roots, axis=0, weights=w)
        unit = np.where(mean > 0, mean, 1.0)
        sample = Z[rng.permutation(len(Z))[:_SAMPLE]]
        lengthscale = median_distance(sample, norm="manhattan")
        method = KernelRidge(
            ManhattanLaplace(lengthscale), n_centers=min(n_centers, len(Z)), cautious=True
        )
        fit = method.fit(
            Rows(Z, np.empty(0)), (roots - mean) / unit, None if w is None else w[:, None], rng
        )
        columns = np.stack([to_host(a) for a in (scaling.median, scaling.factor, scaling.bound)])
        # In the order of model files: products round by it
        centers, alpha = (np.ascontiguousarray(to_host(one)) for one in (fit.Z, fit.alpha))
        return cls(columns, lengthscale, centers, alpha, unit**2)

    @property
    def is_sound(self) -> bool:
        """Whether its values are such as `of` makes."""
        arrays = (self.scaling, self.Z, self.alpha, self.size)
        finite = all(bool(np.isfinite(array).all()) for array in arrays)
        return finite and self.lengthscale > 0 and bool((self.size > 0).all())

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        """Give the expected size of residuals (m, t) at rows (m, d), positive."""
        fit = KernelRidgeFit(ManhattanLaplace(self.lengthscale), self.Z, self.alpha, "direct")
        Z = to_host(RobustScaling(*self.scaling)(X))
        roots = 1.0 + to_host(fit.predict(Rows(Z, np.empty(0))))
        return self.size * np.maximum(roots, _LEAST) ** 2
