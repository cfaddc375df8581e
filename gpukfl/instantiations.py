r"""Instantiations :math:`(\mathcal W, K, p, \varphi)` of RKHS weightings, as frozen values.

`GaussianSign` and `Stumps` are those of the paper's Table 1. `RandomKitchenSinks` is its peer.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, clip, double_like, like
from gpukfl.core._checks import keep_python_numbers
from gpukfl.kernels import Gaussian
from gpukfl.kernels._base import check_positive_number
from gpukfl.linalg import erf

# ------------------------------------------------------------------------------------ base

# What an instantiation of the model is.


_DRAWS = 4096  # of the parameter, behind an expectation without a closed form
_STEP = 0.25  # of a standardised feature, behind a derivative without a closed form


class Features(ABC):
    r"""The expected features of T parameters as functions of x.

    .. math:: \bar\varphi_t(x) = E_w[K(w_t, w)\, \varphi(w, x)] = e^{c_t} s_t(x)

    The shapes s are of moderate size; the constants are kept as logarithms, because they vanish
    in high dimension.
    """

    log_constants: Array  # (T,), float64
    differentiable: bool = True  # `pullback` is as cheap as the shapes
    width: int = 0  # elements that a row of X needs, beside its features

    @abstractmethod
    def shapes(self, X: Array, /) -> Array:
        """Shapes at the rows of `X` (n, d): (n, T)."""

    @abstractmethod
    def pullback(self, X: Array, P: Array, /) -> Array:
        r"""Differentiate :math:`\sum_{it} P_{it} s_t(x_i)` with respect to X: (n, d)."""

    def standard_error(self, X: Array, /) -> float:  # noqa: ARG002
        """Return the root mean square error at `X`, relative to the features; 0 if exact."""
        return 0.0


class Instantiation(ABC):
    r"""A choice of :math:`(\mathcal W, K, p, \varphi)`, Section 4.1, as a frozen value.

    A new one gives `draw`, `kernel`, `base` and `kappa`. With `expected` it also gives the
    expectation in closed form; without, it is estimated from draws of w, and the error reported.
    """

    @property
    @abstractmethod
    def kappa(self) -> float:
        r""":math:`\kappa = \sup_x (E_w[K(w, w)\, \varphi(w, x)^2])^{1/2}`, eq. (25)."""

    @abstractmethod
    def draw(self, count: int, n_features: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Draw parameters from p: host float64 (count, number of a parameter's entries)."""

    @abstractmethod
    def kernel(self, U: Array, W: Array, /) -> Array:
        """Kernel K between parameters `U` (q, e) and `W` (r, e): (q, r)."""

    @abstractmethod
    def base(self, W: Array, X: Array, /) -> Array:
        """Evaluate the base predictors φ(w, x) of `W` (T, e) at `X` (n, d): (n, T)."""

    def expected(self, W: Array, X: Array, /) -> Array:
        """Evaluate the features of `W` (T, e) at `X` (n, d): (n, T), by draws of w."""
        return MonteCarlo(self, W, X.shape[1]).shapes(X)

    def resolved(self, n_features: int, /) -> Instantiation:  # noqa: ARG002
        """Return the instantiation with settings that depend on the number of features."""
        return self

    def log_theta(self, n_features: int, /) -> float:  # noqa: ARG002
        r"""Return the logarithm of a bound on θ, eq. (26), the norm of Λ; by default that of κ."""
        return math.log(self.kappa)

    def features(self, W: Array, n_features: int, /) -> Features:
        """Return the features of the parameters `W` (T, e) at data of `n_features` columns."""
        if type(self).expected is not Instantiation.expected:
            return ClosedForm(self, W)
        return MonteCarlo(self, W, n_features)


class Differences(Features):
    """Features without a derivative of their own."""

    differentiable = False

    def pullback(self, X: Array, P: Array, /) -> Array:
        """Differentiate by central differences over a quarter of a standard deviation."""
        xp = array_namespace(X)
        columns = []
        for k in range(X.shape[1]):
            step = _STEP * xp.astype(xp.arange(X.shape[1], **like(X)) == k, X.dtype)
            change = self.shapes(X + step) - self.shapes(X - step)
            columns.append(xp.sum(P * change, axis=1) / (2.0 * _STEP))
        return xp.stack(columns, axis=1)


class ClosedForm(Differences):
    """Expected features by a user's method."""

    def __init__(self, instantiation: Instantiation, W: Array, /) -> None:
        self.instantiation, self.W = instantiation, W
        self.log_constants = array_namespace(W).zeros(W.shape[0], **double_like(W))

    def shapes(self, X: Array, /) -> Array:
        """Values at the rows of `X`.

        Raises
        ------
        ValueError
            If `expected` gives another shape than one row for each x, one column for each w.
        """
        values = self.instantiation.expected(self.W, X)
        check_shape(self.instantiation, "expected", values, (X.shape[0], self.W.shape[0]))
        return values


class MonteCarlo(Differences):
    r"""Expected features estimated as :math:`\frac1S \sum_s \varphi(w_s, x)\, K(w_s, w_t)`.

    The same draws serve every x and every parameter, so that the features are fixed functions.
    """

    def __init__(self, instantiation: Instantiation, W: Array, n_features: int, /) -> None:
        xp = array_namespace(W)
        self.instantiation, self.width = instantiation, _DRAWS
        draws = instantiation.draw(_DRAWS, n_features, np.random.RandomState(0))
        self.draws = asarray_like(draws, W)
        self.K = instantiation.kernel(self.draws, W)
        check_shape(instantiation, "kernel", self.K, (_DRAWS, W.shape[0]))
        self.log_constants = xp.zeros(W.shape[0], **double_like(W))

    def shapes(self, X: Array, /) -> Array:
        """Estimates at the rows of `X`.

        Raises
        ------
        ValueError
            If the base predictor gives another shape than one column for each w.
        """
        return self._base(X) @ self.K / _DRAWS

    def _base(self, X: Array, /) -> Array:
        values = self.instantiation.base(self.draws, X)
        check_shape(self.instantiation, "base", values, (X.shape[0], _DRAWS))
        return values

    def standard_error(self, X: Array, /) -> float:
        """Root mean square of the standard errors at `X`, relative to that of the features."""
        xp = array_namespace(X)
        P = self._base(X)
        mean = P @ self.K / _DRAWS
        square = (P * P) @ (self.K * self.K) / _DRAWS
        variance = xp.mean(clip(square - mean * mean, low=0.0)) / _DRAWS
        size = float(xp.mean(mean * mean))
        return math.sqrt(float(variance) / size) if size > 0 else math.inf


def check_shape(
    instantiation: Instantiation, name: str, values: Array, expected: tuple[int, int], /
) -> None:
    """Raise ValueError unless a user's method returned the expected shape."""
    if tuple(values.shape) != expected:
        msg = (
            f"expected {type(instantiation).__name__}.{name} to give shape {expected}, got "
            f"{tuple(values.shape)}"
        )
        raise ValueError(msg)


# --------------------------------------------------------------------------- gaussian sign

# Instantiation 1: Gaussian parameters and kernel, sign of a linear function.


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
        check_positive_number("sigma", self.sigma)
        if self.gamma is not None:
            check_positive_number("gamma", self.gamma)
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
        """Return the instantiation with γ in numbers."""
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
        """Return the signs of the inner products."""
        return array_namespace(X).sign(X @ W.T)

    def log_theta(self, n_features: int, /) -> float:
        r"""Return the exact logarithm of θ.

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
        """Return the features in closed form, Theorem 19."""
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
        """Differentiate along the sphere, over the norm of x."""
        xp = array_namespace(X)
        U, norms = _unit_rows(X)
        Z = U @ self.V.T
        along = (P * (2.0 / math.sqrt(math.pi)) * xp.exp(-Z * Z)) @ self.V
        return (along - xp.sum(along * U, axis=1)[:, None] * U) / norms


def _unit_rows(X: Array, /) -> tuple[Array, Array]:
    """Return rows divided by their norms, and the norms (n, 1); zero rows have norm 1."""
    xp = array_namespace(X)
    sizes = xp.max(xp.abs(X), axis=1, keepdims=True)
    sizes = xp.where(sizes > 0, sizes, xp.ones_like(sizes))
    U = X / sizes  # squares of large or small entries would be beyond the precision
    norms = xp.sqrt(xp.sum(U * U, axis=1, keepdims=True))
    norms = xp.where(norms > 0, norms, xp.ones_like(norms))
    return U / norms, norms * sizes


# ---------------------------------------------------------------------------------- stumps

# Instantiation 2: decision stumps.


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
        check_positive_number("sigma", self.sigma)
        check_positive_number("gamma", self.gamma)

    @property
    def kappa(self) -> float:
        """κ of Table 1."""
        return 1.0

    def draw(self, count: int, n_features: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Draw indices and thresholds (count, 2)."""
        index = rng.randint(n_features, size=count)
        return np.stack([index, self.sigma * rng.standard_normal(count)], axis=1)

    def kernel(self, U: Array, W: Array, /) -> Array:
        """Return a Gaussian of the thresholds if the features are equal, and 0 elsewhere."""
        xp = array_namespace(U, W)
        gaps = (U[:, 1][:, None] - W[:, 1][None, :]) / self.gamma
        values = xp.exp(-0.5 * gaps * gaps)
        return xp.where(U[:, 0][:, None] == W[:, 0][None, :], values, xp.zeros_like(values))

    def base(self, W: Array, X: Array, /) -> Array:
        """Return the side of the threshold: 1 above, -1 below, 0 on it."""
        return array_namespace(X).sign(_columns(W, X) - W[:, 1][None, :])

    def log_theta(self, n_features: int, /) -> float:
        """Return the logarithm of θ: the bound of Table 1, which is tight."""
        return -0.5 * math.log(n_features) - 0.25 * math.log1p(2.0 * self.sigma**2 / self.gamma**2)

    def features(self, W: Array, n_features: int, /) -> Features:
        """Return the features in closed form, Lemma 23."""
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
        """Differentiate; each stump belongs to one feature."""
        xp = array_namespace(X)
        Z = self._arguments(X)
        slopes = P * (2.0 / math.sqrt(math.pi) / self.span) * xp.exp(-Z * Z)
        features = xp.arange(X.shape[1], **like(X))
        belongs = xp.astype(self.W[:, 0][:, None] == features[None, :], X.dtype)
        return slopes @ belongs


def _columns(W: Array, X: Array, /) -> Array:
    """Return the column of `X` that each parameter uses: (n, T)."""
    xp = array_namespace(X)
    return xp.take(X, xp.astype(W[:, 0], xp.int64), axis=1)


# --------------------------------------------------------------------------- kitchen sinks

# Random kitchen sinks: the base predictors themselves, as the paper's peer has them.


@dataclass(frozen=True)
class RandomKitchenSinks(Instantiation):
    r"""Base predictors of another instantiation instead of their expectations.

    With the kernel 1 on equal parameters and else 0, so that the ridge is that of the
    coefficients: the peer that Section 7.3 compares with (Rahimi and Recht, 2009), with the same
    draws. That kernel has no θ: there are no bounds.

    Parameters
    ----------
    of : Instantiation
        What draws the parameters.
    """

    of: Instantiation = Stumps()  # a frozen value

    @property
    def kappa(self) -> float:
        """Not defined.

        Raises
        ------
        ValueError
            Always.
        """
        msg = "random kitchen sinks have no bound: expected an instantiation with a kernel"
        raise ValueError(msg)

    def resolved(self, n_features: int, /) -> RandomKitchenSinks:
        """Return the instantiation with settings that depend on the number of features."""
        return RandomKitchenSinks(self.of.resolved(n_features))

    def draw(self, count: int, n_features: int, rng: np.random.RandomState, /) -> np.ndarray:
        """Draw parameters of the instantiation `of`."""
        return self.of.draw(count, n_features, rng)

    def kernel(self, U: Array, W: Array, /) -> Array:
        """Return 1 where the parameters are equal, and 0 elsewhere."""
        xp = array_namespace(U, W)
        rows = [xp.all(U[k, :][None, :] == W, axis=1) for k in range(U.shape[0])]
        return xp.astype(xp.stack(rows), U.dtype)

    def base(self, W: Array, X: Array, /) -> Array:
        """Evaluate the base predictors of `of`."""
        return self.of.base(W, X)

    def features(self, W: Array, n_features: int, /) -> Features:  # noqa: ARG002
        """Return the base predictors."""
        return _BaseFeatures(self.of, W)


class _BaseFeatures(Differences):
    def __init__(self, of: Instantiation, W: Array, /) -> None:
        self.of, self.W = of, W
        self.log_constants = array_namespace(W).zeros(W.shape[0], **double_like(W))

    def shapes(self, X: Array, /) -> Array:
        """Values at the rows of `X`."""
        return self.of.base(self.W, X)


INSTANTIATIONS: dict[str, type[Instantiation]] = {
    "gaussian_sign": GaussianSign,
    "stumps": Stumps,
}

__all__ = [
    "INSTANTIATIONS",
    "Features",
    "GaussianSign",
    "Instantiation",
    "RandomKitchenSinks",
    "Stumps",
]
