r"""A kernel smoother as the linear map that it is, with unpenalised features.

.. math:: y = f(x) + h(x)^\top \beta + \varepsilon, \qquad f \sim GP(0, \tau^2 k),
          \qquad \mathrm{var}\,\varepsilon_i = \sigma^2 / w_i, \qquad r = \sigma^2 / \tau^2 .
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, qr
from scipy.optimize import minimize_scalar

from gpukfl.linalg import host_eigh

_RATIOS = np.exp(np.linspace(-14.0, 9.0, 70))  # times the mean eigenvalue
_RANK = 1e-7  # relative size below which a column is made of others


@dataclass(frozen=True, eq=False)
class Smoother:
    """The posterior mean of one kernel and noise ratio, given some rows.

    Attributes
    ----------
    ratio : float
        r.
    columns : array of int
        Features that are not made of others.
    hat : array, shape (n, n)
        From targets to fitted values, both times the roots of the weights.
    """

    ratio: float
    columns: np.ndarray
    hat: np.ndarray
    _factor: Any  # of K + r I
    _VH: np.ndarray  # (K + r I)^-1 H
    _middle: np.ndarray  # (H' (K + r I)^-1 H)^-1
    _roots: np.ndarray  # of the weights (n,)

    @classmethod
    def of(
        cls, K: np.ndarray, H: np.ndarray, y: np.ndarray, roots: np.ndarray, /, *, share: float
    ) -> Self:
        """Choose the ratio by the restricted evidence, and take a share of it.

        Kernel (n, n), features (n, p), targets (n,) and roots of the weights (n,); O(n³).
        """
        columns = _independent(roots[:, None] * H)
        K, H = K * np.outer(roots, roots), roots[:, None] * H[:, columns]
        ratio = share * restricted_ratio(K, H, roots * y)
        factor = cho_factor(K + ratio * np.eye(len(K)), lower=True)
        VH = cho_solve(factor, H)
        middle = np.linalg.inv(H.T @ VH)
        found = cls(ratio, columns, K, factor, VH, middle, roots)
        return cls(ratio, columns, found._weighted_map(K, H), factor, VH, middle, roots)

    def map(self, k: np.ndarray, h: np.ndarray, /) -> np.ndarray:
        """Give the map (g, n) from targets to functionals of the fit.

        They are given by their kernels (g, n) with the rows, and their values (g, p) of all
        features.
        """
        found = self._weighted_map(k * self._roots, h[:, self.columns])
        return found * self._roots

    def corrected(self, maps: np.ndarray, /) -> np.ndarray:
        r"""Correct maps (g, n) for smoothing, by a second fit to the residuals: L + L (I - S)."""
        S = self.hat * self._roots[None, :] / self._roots[:, None]
        return maps + maps @ (np.eye(len(S)) - S)

    def fitted(self, y: np.ndarray, /) -> np.ndarray:
        """Smooth targets (n,)."""
        return (self.hat @ (self._roots * y)) / self._roots

    def residual_sums(self, y: np.ndarray, /) -> np.ndarray:
        """Sum of squared residuals, weighted; of unit noise its mean, and half its variance.

        The last two are the trace of :math:`(I - S)^2` and that of its square.
        """
        left = self._roots * (y - self.fitted(y))
        R = np.eye(len(y)) - self.hat
        A = R.T @ R
        return np.array([left @ left, np.trace(A), np.sum(A * A)])

    def _weighted_map(self, k: np.ndarray, h: np.ndarray) -> np.ndarray:
        direct = cho_solve(self._factor, k.T).T
        return direct + (h - k @ self._VH) @ self._middle @ self._VH.T


def restricted_ratio(K: np.ndarray, H: np.ndarray, y: np.ndarray, /) -> float:
    """Noise ratio of the highest restricted likelihood, for a kernel (n, n) and features (n, p)."""
    return _best(K, H, y)[0]


def mixed_share(
    K: np.ndarray,
    other: np.ndarray,
    H: np.ndarray,
    y: np.ndarray,
    roots: np.ndarray,
    shares: Sequence[float],
    /,
) -> float:
    """Share of another kernel (n, n) that gives the highest restricted likelihood; O(n³) each.

    The first of the shares, unless another is better by Schwarz's price of a parameter, log n: a
    share that is chosen freely follows the noise, of which its smoother's variance knows nothing.
    """
    columns = _independent(roots[:, None] * H)
    H, outer = roots[:, None] * H[:, columns], np.outer(roots, roots)
    losses = [_best(outer * (K + share * other), H, roots * y)[1] for share in shares]
    best = int(np.argmin(losses))
    return shares[best if losses[0] - losses[best] > np.log(len(y)) else 0]


def _best(K: np.ndarray, H: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Noise ratio of the highest restricted likelihood, and -2 times its logarithm, shifted."""
    Q = np.linalg.qr(H, mode="complete")[0][:, H.shape[1] :]
    values, vectors = host_eigh(Q.T @ K @ Q)
    values = np.clip(values, 0.0, None)
    squares = (vectors.T @ (Q.T @ y)) ** 2
    scale = float(values.mean())
    if not squares.any():
        return 1.0, 0.0

    def loss(log_ratio: float) -> float:
        spread = values + np.exp(log_ratio)
        return len(squares) * np.log(np.sum(squares / spread)) + np.sum(np.log(spread))

    if scale <= 0.0:
        return 1.0, loss(0.0)
    tried = np.log(scale * _RATIOS)
    best = int(np.argmin([loss(one) for one in tried]))
    around = tried[max(best - 1, 0)], tried[min(best + 1, len(tried) - 1)]
    found = minimize_scalar(loss, bounds=around, method="bounded")
    return float(np.exp(found.x)), float(found.fun)


def _independent(H: np.ndarray) -> np.ndarray:
    """Columns (n, p) of which none is made of the others, in their order."""
    norms = np.linalg.norm(H, axis=0)
    kept = np.flatnonzero(norms > 0)
    _, R, order = qr(H[:, kept] / norms[kept], mode="economic", pivoting=True)
    sizes = np.abs(np.diagonal(R))
    return np.sort(kept[order[: np.count_nonzero(sizes > _RANK * sizes.max())]])
