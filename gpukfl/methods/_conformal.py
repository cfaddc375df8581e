"""Conformal quantiles, and jackknife+ intervals of kernel ridge regression in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, like, to_host
from gpukfl.core._checks import check_number
from gpukfl.core._lazy import OldName
from gpukfl.linalg import CholeskyFactor, add_to_diagonal, each_block

# ------------------------------------------------------------------------------- conformal

# The rule of conformal quantiles: how many of the smallest scores a coverage asks for.


_SLACK = 1e-10  # share of all weights that rounding may take


def check_share(name: str, value: float, /) -> None:
    """Raise TypeError or ValueError unless a coverage or level lies between 0 and 1."""
    check_number(name, value)
    if not 0.0 < value < 1.0:
        msg = f"expected {name} to be greater than 0 and less than 1, got {value!r}"
        raise ValueError(msg)


def unit_weights(weights: np.ndarray | None, n: int, /) -> np.ndarray:
    r"""Return host weights (n,) in units of a new row's weight, :math:`\sum w^2 / \sum w`.

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
    """Whether there are enough rows for a coverage in (0, 1)."""
    return (coverage - _SLACK) * (n_effective + 1.0) <= n_effective


def conformal_weight(coverage: float, n_effective: float, /) -> float:
    """Return the minimal total weight of the scores up to a conformal quantile.

    Without weights that are the ``ceil((n + 1) coverage)`` smallest.

    Raises
    ------
    ValueError
        If all rows together weigh less: says how many are needed.
    """
    if not can_cover(coverage, n_effective):
        needed = math.ceil((coverage - _SLACK) / (1.0 - coverage))
        msg = (
            f"expected at least {needed} held-out rows for a coverage of {coverage:g}, got "
            f"{n_effective:.3g}: use a smaller coverage or more rows. Rows of the same group, or "
            "of small weights, count as fewer"
        )
        raise ValueError(msg)
    return (coverage - _SLACK) * (n_effective + 1.0)


def weighted_quantile(values: np.ndarray, weights: np.ndarray, wanted: float, /) -> float:
    """Return the smallest of `values` (n,) up to which the `weights` (n,) sum to `wanted`."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    rank = int(np.searchsorted(reached, wanted))
    return float(values[order[min(rank, len(order) - 1)]])


# ------------------------------------------------------------------------------- jackknife

# Jackknife+ intervals of kernel ridge regression, in closed form.
#
# With the sample weights D, a shift s > 0 that stays as it is,
# :math:`G = (K + s D^{-1})^{-1}` and :math:`\alpha = G Y`, the fit without sample i has
#
# .. math:: r_i = y_i - \mu_{-i}(x_i) = \alpha_i / G_{ii}, \qquad
#           \mu_{-i}(x) = k(x)^\top \alpha - (k(x)^\top G)_i\, r_i,
#
# and the interval at x is
#
# .. math:: \bigl[ -q_{n,\alpha}\{|r_i| - \mu_{-i}(x)\},\;
#           q_{n,\alpha}\{\mu_{-i}(x) + |r_i|\} \bigr]
#
# with the :math:`\lceil (n + 1)(1 - \alpha) \rceil` smallest of n values (Barber, Candès, Ramdas
# and Tibshirani, "Predictive inference with the jackknife+", Annals of Statistics 49, 2021, eq.
# (5)).


@dataclass(frozen=True, eq=False)
class Jackknife:
    """The leave-one-out fits of kernel ridge regression with a fixed kernel.

    Attributes
    ----------
    inverse : array (n, n)
        G.
    alpha : array (n, t)
        Dual coefficients of the fit to all samples.
    residuals : array (n, t)
        Of each sample, by the fit without it.
    weights : array (n,)
        In units of that of a new row.
    """

    inverse: Array
    alpha: Array
    residuals: Array
    weights: Array

    @classmethod
    def from_kernel(
        cls, K: Array, Y: Array, weights: Array | None = None, /, *, shift: float
    ) -> Jackknife:
        r"""Compute the leave-one-out fits: O(n³) time and O(n²) memory.

        Parameters
        ----------
        K : array, shape (n, n)
            Kernel matrix; symmetric positive semidefinite, not checked.
        Y : array, shape (n, t)
            Targets.
        weights : array, shape (n, 1), optional
            Sample weights, positive.
        shift : float
            s, positive: :math:`n \lambda` where the ridge is :math:`\lambda`. It is the same for
            the fits to n - 1 samples.

        Raises
        ------
        ValueError
            If shapes disagree, weights are not positive or `shift` is not.
        numpy.linalg.LinAlgError
            If the matrix is not positive definite in its precision.
        """
        n = K.shape[0]
        if K.shape != (n, n) or Y.ndim != 2 or Y.shape[0] != n or not shift > 0:
            msg = (
                "expected K (n, n), Y (n, t) and a positive shift, "
                f"got {tuple(K.shape)}, {tuple(Y.shape)} and {shift:g}"
            )
            raise ValueError(msg)
        xp = array_namespace(K, Y)
        if weights is None:
            roots, host = xp.ones((n, 1), **like(K)), None
        else:
            if weights.shape != (n, 1) or not bool(xp.all(weights > 0)):
                msg = f"expected positive weights ({n}, 1): drop rows of weight 0"
                raise ValueError(msg)
            roots, host = xp.sqrt(weights), to_host(weights)[:, 0]
        factor = CholeskyFactor.factor(add_to_diagonal(roots * K * roots.T, shift), overwrite=True)
        inverse = roots * factor.solve(xp.eye(n, **like(K))) * roots.T
        alpha = roots * factor.solve(roots * Y)
        residuals = alpha / xp.linalg.diagonal(inverse)[:, None]
        return cls(inverse, alpha, residuals, asarray_like(unit_weights(host, n), K))

    def interval(self, K: Array, /, *, coverage: float) -> Array:
        r"""Return jackknife+ intervals for new rows.

        Parameters
        ----------
        K : array, shape (m, n)
            Kernel between the new rows and the samples.
        coverage : float
            :math:`1 - \alpha`, in (0, 1).

        Returns
        -------
        array, shape (m, t, 2)
            Lower and upper ends. Exchangeable rows are covered with a probability of at least
            :math:`1 - 2\alpha`, in practice of about :math:`1 - \alpha`.

        Raises
        ------
        ValueError
            If `coverage` is outside (0, 1) or n too small for it, which says how many are needed;
            if `K` has another number of columns.

        Notes
        -----
        O(m n (n + t log n)) time, in blocks of rows.
        """
        check_share("coverage", coverage)
        n, t = self.residuals.shape
        if K.ndim != 2 or K.shape[1] != n:
            msg = f"expected K (m, {n}), got {tuple(K.shape)}"
            raise ValueError(msg)
        xp = array_namespace(K)
        wanted = conformal_weight(coverage, float(xp.sum(self.weights, dtype=xp.float64)))
        blocks: list[Array] = []

        def compute(start: int, stop: int) -> Array:
            return xp.stack([self._ends(K[start:stop, :], c, wanted) for c in range(t)], axis=1)

        def take(start: int, stop: int, ends: Array) -> None:  # noqa: ARG001
            blocks.append(ends)

        each_block(K, (0, K.shape[0]), 4 * n, compute, take)
        return xp.concat(blocks, axis=0) if blocks else xp.zeros((0, t, 2), **like(K))

    def _ends(self, K: Array, c: int, wanted: float) -> Array:
        """Return the interval limits (m, 2) of one target."""
        xp = array_namespace(K)
        left = self.residuals[:, c][None, :]
        centers = (K @ self.alpha[:, c])[:, None] - (K @ self.inverse) * left
        ends = [self._quantile(side * centers + xp.abs(left), wanted) for side in (-1.0, 1.0)]
        return xp.stack([-ends[0], ends[1]], axis=1)

    def _quantile(self, values: Array, wanted: float) -> Array:
        """Return the weighted quantile of each row of `values` (m, n)."""
        xp = array_namespace(values)
        order = xp.argsort(values, axis=1)
        sorted_ = xp.take_along_axis(values, order, axis=1)
        weights = xp.reshape(xp.take(self.weights, xp.reshape(order, (-1,)), axis=0), order.shape)
        reached = xp.cumulative_sum(weights, axis=1, dtype=xp.float64)
        before = xp.sum(xp.astype(reached < wanted, order.dtype), axis=1, keepdims=True)
        rank = xp.clip(before, max=values.shape[1] - 1)
        return xp.take_along_axis(sorted_, rank, axis=1)[:, 0]

    of = OldName("from_kernel")
