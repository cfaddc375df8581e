"""Instantiation 2: decision stumps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from gpukfl._array import Array, array_namespace, like
from gpukfl._checks import keep_python_numbers
from gpukfl.instantiations._base import Features, Instantiation
from gpukfl.kernels._base import check_positive
from gpukfl.linalg import erf


@dataclass(frozen=True)
class Stumps(Instantiation):
    r"""A uniform feature and a threshold :math:`N(0, \sigma^2)`, :math:`\mathrm{sign}(x_i - w)`.

    With a Gaussian kernel of width γ between thresholds of one feature: Instantiation 2 of
    Table 1. The model is a sum of functions of one feature each. A parameter is a pair of index
    and threshold.

    Parameters
    ----------
    sigma, gamma : float
        σ and γ, positive, in standard deviations of the features where these are standardised.

    Raises
    ------
    ValueError
        If one is not positive.
    """

    sigma: float = 1.0
    gamma: float = 1.0

    def __post_init__(self) -> None:
        keep_python_numbers(self)
        check_positive("sigma", self.sigma)
        check_positive("gamma", self.gamma)

    @property
    def kappa(self) -> float:
        """κ of Table 1."""
        return 1.0

    def draw(self, count: int, n_features: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Draw indices and thresholds (count, 2)."""
        index = rng.randint(n_features, size=count)
        return np.stack([index, self.sigma * rng.standard_normal(count)], axis=1)

    def kernel(self, U: Array, W: Array, /) -> Array:
        """Gaussian in the thresholds where the features are the same, else 0."""
        xp = array_namespace(U, W)
        gaps = (U[:, 1][:, None] - W[:, 1][None, :]) / self.gamma
        values = xp.exp(-0.5 * gaps * gaps)
        return xp.where(U[:, 0][:, None] == W[:, 0][None, :], values, xp.zeros_like(values))

    def base(self, W: Array, X: Array, /) -> Array:
        """Side of the threshold: 1 above, -1 below, 0 on it."""
        return array_namespace(X).sign(_columns(W, X) - W[:, 1][None, :])

    def log_theta(self, n_features: int, /) -> float:
        """Logarithm of θ: the bound of Table 1 is reached where all features go to infinity."""
        return -0.5 * math.log(n_features) - 0.25 * math.log1p(2.0 * self.sigma**2 / self.gamma**2)

    def features(self, W: Array, n_features: int, /) -> Features:
        """Give the features in closed form, Lemma 23."""
        return _StumpFeatures(self, W, n_features)


class _StumpFeatures(Features):
    r"""Shapes :math:`\mathrm{erf}((x_{u_1} - u_2') / (\sqrt2 \zeta))`."""

    def __init__(self, stumps: Stumps, W: Array, n_features: int, /) -> None:
        xp = array_namespace(W)
        s2, g2 = stumps.sigma**2, stumps.gamma**2
        self.W = W
        self.centers = W[:, 1] * (s2 / (s2 + g2))  # u_2'
        self.span = math.sqrt(2.0 * s2 * g2 / (s2 + g2))  # sqrt(2) zeta
        thresholds = xp.astype(W[:, 1], xp.float64)
        constant = -0.5 * math.log1p(s2 / g2) - math.log(n_features)
        self.log_constants = constant - thresholds * thresholds / (2.0 * (s2 + g2))

    def _arguments(self, X: Array, /) -> Array:
        return (_columns(self.W, X) - self.centers[None, :]) / self.span

    def shapes(self, X: Array, /) -> Array:
        """Shapes at the rows of `X`."""
        return erf(self._arguments(X))

    def pullback(self, X: Array, P: Array, /) -> Array:
        """Differentiate: each stump belongs to one feature."""
        xp = array_namespace(X)
        Z = self._arguments(X)
        slopes = P * (2.0 / math.sqrt(math.pi) / self.span) * xp.exp(-Z * Z)
        features = xp.arange(X.shape[1], **like(X))
        belongs = xp.astype(self.W[:, 0][:, None] == features[None, :], X.dtype)
        return slopes @ belongs


def _columns(W: Array, X: Array, /) -> Array:
    """Column of `X` that each parameter looks at: (n, T)."""
    xp = array_namespace(X)
    return xp.take(X, xp.astype(W[:, 0], xp.int64), axis=1)
