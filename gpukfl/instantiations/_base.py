"""What an instantiation of the model is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from gpukfl._array import Array, array_namespace, beside, clipped, double_like, like

_DRAWS = 4096  # of the parameter, behind an expectation without a closed form
_STEP = 0.25  # of a standardised feature, behind a derivative without a closed form


class Features(ABC):
    r"""Expected features of T parameters as functions of x.

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
        """Root mean square of the errors at `X`, relative to that of the features: 0 if exact."""
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
        """Evaluate the features of `W` (T, e) at `X` (n, d): (n, T); here by draws of w."""
        return MonteCarlo(self, W, X.shape[1]).shapes(X)

    def resolved(self, n_features: int, /) -> Instantiation:  # noqa: ARG002
        """Settle what depends on the number of features."""
        return self

    def log_theta(self, n_features: int, /) -> float:  # noqa: ARG002
        r"""Logarithm of a bound on θ, eq. (26), the norm of Λ: without a better one that of κ."""
        return math.log(self.kappa)

    def features(self, W: Array, n_features: int, /) -> Features:
        """Give the features of the parameters `W` (T, e) at data of `n_features` columns."""
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
    """Expected features as a user gives them."""

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
        self.draws = beside(draws, W)
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
        variance = xp.mean(clipped(square - mean * mean, low=0.0)) / _DRAWS
        size = float(xp.mean(mean * mean))
        return math.sqrt(float(variance) / size) if size > 0 else math.inf


def check_shape(
    instantiation: Instantiation, name: str, values: Array, expected: tuple[int, int], /
) -> None:
    """Raise ValueError unless a method of a user's instantiation gave the expected shape."""
    if tuple(values.shape) != expected:
        msg = (
            f"expected {type(instantiation).__name__}.{name} to give shape {expected}, got "
            f"{tuple(values.shape)}"
        )
        raise ValueError(msg)
