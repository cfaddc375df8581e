"""Instantiation 1: Gaussian parameters and kernel, sign of a linear function."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gpukfl._array import Array, array_namespace
from gpukfl._checks import keep_python_numbers
from gpukfl.instantiations._base import Features, Instantiation
from gpukfl.kernels import Gaussian
from gpukfl.kernels._base import check_positive
from gpukfl.linalg import erf

_OF = ("theta", "feature")


@dataclass(frozen=True)
class GaussianSign(Instantiation):
    r""":math:`w \sim N(0, \sigma^2 I)`, :math:`\varphi = \mathrm{sign}\langle w, x \rangle`.

    With :math:`K = e^{-\|u - w\|^2 / 2\gamma^2}`: Instantiation 1 of Table 1. Where γ is not
    given, it follows from a constant c and the dimension n, the column of ones included.

    Parameters
    ----------
    sigma : float
        σ, positive. Only γ/σ and the scale of the parameters depend on it.
    gamma : float, optional
        γ, positive.
    constant : float
        c, between 0 and 1, of which γ is a function where it is not given: the smaller, the
        narrower the kernel.
    constant_of : {"theta", "feature"}
        What c is: the bound :math:`(1 + 2\sigma^2/\gamma^2)^{-n/4}` on θ, as in the paper's
        experiments, or the constant :math:`(1 + \sigma^2/\gamma^2)^{-n/2}` of the features,
        eq. (99).

    Raises
    ------
    ValueError
        If a parameter is out of its range.

    Examples
    --------
    >>> round(GaussianSign(constant=0.1).resolved(4).gamma, 4)
    0.4714
    """

    sigma: float = 1.0
    gamma: float | None = None
    constant: float = 0.5
    constant_of: str = "theta"

    def __post_init__(self) -> None:
        keep_python_numbers(self)
        check_positive("sigma", self.sigma)
        if self.gamma is not None:
            check_positive("gamma", self.gamma)
        if not 0.0 < self.constant < 1.0:
            msg = f"expected a constant between 0 and 1, got {self.constant}"
            raise ValueError(msg)
        if self.constant_of not in _OF:
            msg = f"expected constant_of to be one of {', '.join(_OF)}, got {self.constant_of!r}"
            raise ValueError(msg)

    @property
    def kappa(self) -> float:
        """κ of Table 1."""
        return 1.0

    def resolved(self, n_features: int, /) -> GaussianSign:
        """Give the instantiation with γ in numbers."""
        if self.gamma is not None:
            return self
        power, double = (4.0, 2.0) if self.constant_of == "theta" else (2.0, 1.0)
        # c^(-power/n) - 1, without cancellation where n is large
        excess = math.expm1(-power / n_features * math.log(self.constant))
        return replace(self, gamma=self.sigma * math.sqrt(double / excess))

    def _widths(self, n_features: int) -> tuple[float, float]:
        gamma = self.resolved(n_features).gamma
        assert gamma is not None
        return self.sigma**2, gamma**2

    def draw(self, count: int, n_features: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Draw parameters (count, n_features)."""
        return self.sigma * rng.standard_normal((count, n_features))

    def kernel(self, U: Array, W: Array, /) -> Array:
        """Gaussian kernel of lengthscale γ."""
        gamma = self.resolved(U.shape[1]).gamma
        assert gamma is not None
        return Gaussian(gamma)(U, W)

    def base(self, W: Array, X: Array, /) -> Array:
        """Signs of the inner products; 0 where they are 0."""
        return array_namespace(X).sign(X @ W.T)

    def log_theta(self, n_features: int, /) -> float:
        r"""Logarithm of θ, exactly.

        :math:`\theta^2 = (1 + 2\sigma^2/\gamma^2)^{-n/2}\, \frac2\pi
        \arcsin\frac{\sigma^2}{\sigma^2 + \gamma^2}`, the same for every x: under the density
        proportional to K(u, w) p(u) p(w) the correlation of ⟨u, x⟩ and ⟨w, x⟩ is
        :math:`\sigma^2 / (\sigma^2 + \gamma^2)`.
        """
        s2, g2 = self._widths(n_features)
        signs = 2.0 / math.pi * math.asin(s2 / (s2 + g2))
        return self.log_theta_bound(n_features) + 0.5 * math.log(signs)

    def log_theta_bound(self, n_features: int, /) -> float:
        """Logarithm of the bound on θ in Table 1, eq. (97)."""
        s2, g2 = self._widths(n_features)
        return -0.25 * n_features * math.log1p(2.0 * s2 / g2)

    def features(self, W: Array, n_features: int, /) -> Features:
        """Give the features in closed form, Theorem 19."""
        s2, g2 = self._widths(n_features)
        return _SignFeatures(W, s2, g2)


class _SignFeatures(Features):
    r"""Shapes :math:`\mathrm{erf}(\langle v_t, x \rangle / \|x\|)`."""

    def __init__(self, W: Array, s2: float, g2: float, /) -> None:
        xp = array_namespace(W)
        n = W.shape[1]
        # u' / (sqrt(2) zeta), with u' = u s2 / (s2 + g2) and zeta^2 = s2 g2 / (s2 + g2)
        self.V = W * math.sqrt(s2 / (2.0 * g2 * (s2 + g2)))
        W64 = xp.astype(W, xp.float64)
        squares = xp.sum(W64 * W64, axis=1)
        self.log_constants = -0.5 * n * math.log1p(s2 / g2) - squares / (2.0 * (s2 + g2))

    def shapes(self, X: Array, /) -> Array:
        """Shapes at the rows of `X`; 0 at x = 0."""
        return erf(_unit_rows(X)[0] @ self.V.T)

    def pullback(self, X: Array, P: Array, /) -> Array:
        """Differentiate: along the sphere, over the norm of x."""
        xp = array_namespace(X)
        U, norms = _unit_rows(X)
        Z = U @ self.V.T
        along = (P * (2.0 / math.sqrt(math.pi)) * xp.exp(-Z * Z)) @ self.V
        return (along - xp.sum(along * U, axis=1)[:, None] * U) / norms


def _unit_rows(X: Array, /) -> tuple[Array, Array]:
    """Rows over their norms, and the norms (n, 1); a row of zeros stays, with norm 1."""
    xp = array_namespace(X)
    sizes = xp.max(xp.abs(X), axis=1, keepdims=True)
    sizes = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    U = X / sizes  # squares of large or small entries would be beyond the precision
    norms = xp.sqrt(xp.sum(U * U, axis=1, keepdims=True))
    norms = xp.where(norms > 0, norms, xp.ones_like(norms))
    return U / norms, norms * sizes
