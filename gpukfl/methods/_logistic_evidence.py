r"""The evidence of a Gaussian process classifier, by Laplace's approximation.

Each class c has a latent function :math:`f_c = m_c + g_c`, whose logistic :math:`p_c = 1 / (1 +
e^{-f_c})` is the probability of the class against all others; two classes have one. The functions g
have the covariance :math:`K = k_C / r`: all share the map C and the ratio r, the inverse of their
variance, which stands where regressions have that of the noise. With weights w of the samples the
mode maximises

.. math:: \psi(g) = \sum_i w_i \log p(y_i \mid m + g_i) - \tfrac12 g^\top K^{-1} g,

where :math:`g = K a` and :math:`a = w (y - p)`; with :math:`W = w\, p (1 - p)` on the diagonal,

.. math:: \log q(y) = \psi(\hat g) - \tfrac12 \log |B|, \qquad B = I + W^{1/2} K W^{1/2}.

References
----------
.. [1] Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, Sections 3.4 and
   5.5.1, Algorithms 3.1 and 5.1.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpukfl.core._array import Array, array_namespace, to_host
from gpukfl.core._results import Status
from gpukfl.kernels import Kernel, sum_terms
from gpukfl.linalg import CholeskyFactor, add_to_diagonal
from gpukfl.methods._evidence import _ALIKE, ExactCriterion, Pull, Slopes, pull_back
from gpukfl.operators import KernelMatrix, apply_map

_MOST_STEPS = 60  # of Newton's method, which takes 5 to 10 where classes overlap
_SAME = 1e-9  # largest change of a latent value with which Newton's method ends
_HALVINGS = 20
_DOUBT = 0.5  # rows of either class that a prior mean knows beside the samples
_ENOUGH = 1e-6  # largest change with which reweighted least squares end
# Nats that a step of lengthscales must gain, of up to so many samples. Classes tell less of a map
# than targets do: german credit's errors fell by 2 % beside a regression's .2, breast cancer's and
# churn's stayed as they were
_PLATEAU_NATS = 0.05
_LEAST = 1e-6  # of a weight of reweighted least squares, in units of the sample's


@dataclass(frozen=True, eq=False)
class Mode:
    """The mode of a latent function at the samples."""

    shift: Array  # g (n,)
    coef: Array  # a (n,)
    roots: Array  # W^(1/2) (n,)
    factor: CholeskyFactor  # of B
    value: float  # of ψ


@dataclass(frozen=True, eq=False)
class LogisticFit:
    r"""Latent functions :math:`m_c + \sum_i \alpha_{ic} k(Cx, Cz_i)`, and their evidence."""

    dual_coef: Array  # α (q, t)
    offsets: np.ndarray  # m (t,)
    amplitudes: Array  # standard deviations of g (t,)
    evidence: float  # nats, summed over classes


class LogisticCriterion(ExactCriterion):
    r"""Laplace's approximation of the evidence of classes, at a map and a ratio.

    Parameters
    ----------
    kernel : Kernel
        The function k, at lengthscale 1.
    X : array, shape (n, d)
        Samples.
    Y : array, shape (n, t)
        1 where a sample is of the class, 0 elsewhere. A class that all samples have, or none, says
        nothing.
    weights : array, shape (n, 1), optional
        Sample weights w, positive: a sample counts as so many.

    Notes
    -----
    In float64. About ten times n³ / 3 operations for each class, of which five to ten
    factorisations find the mode.
    """

    def __init__(
        self, kernel: Kernel, X: Array, Y: Array, /, *, weights: Array | None = None
    ) -> None:
        super().__init__(kernel, X, Y)
        xp = array_namespace(self.Y)
        ones = xp.ones_like(self.Y[:, 0])
        self.w = ones if weights is None else xp.astype(weights[:, 0], self.Y.dtype)
        self._enough = _PLATEAU_NATS / min(self.X.shape[0], _ALIKE)
        self.offsets = prior_means(self.Y, self.w)
        self._means = self.offsets.tolist()
        of_class = to_host(xp.sum(self.Y, axis=0))
        self._varying = [c for c, m in enumerate(of_class) if 0 < m < self.Y.shape[0]]
        self.count = float(len(self._varying))
        self._near: dict[int, Array] = {}  # coefficients of the last mode of each class

    def __call__(self, C: Array, ratio: float, /) -> Slopes:
        """Evaluate with the gradient at a map (k, d), a diagonal one (d,), or several (s, 1, d)."""
        C = self._wide(C)
        xp, U, kernels = array_namespace(C), apply_map(self.X, C), sum_terms(self.kernel)
        parts = [KernelMatrix(one, U).cross_operator(U).dense() for one in kernels]
        K = functools.reduce(operator.add, parts) / ratio
        value, slope = 0.0, xp.zeros_like(K)
        for c in self._varying:
            mode = self.mode(K, c)
            evidence, turn = _evidence_of_class(K, self._means[c], mode)
            value, slope = value + evidence, slope + turn
        pulled = slope / ratio
        pull = Pull(lambda start, stop: pulled[start:stop, :], xp.sum(xp.linalg.diagonal(pulled)))
        factors, metric = pull_back(self, kernels, parts, U, C, pull)
        log_ratio = -0.5 * float(xp.sum(slope * K))
        return Slopes(value, to_host(metric).reshape(tuple(C.shape)), log_ratio, to_host(factors))

    def mode(self, K: Array, c: int, /) -> Mode:
        """Return the mode of the latent function of class c, where g has the covariance K."""
        found = find_mode(K, self.Y[:, c], self.w, self._means[c], self._near.get(c))
        self._near[c] = found.coef
        return found

    def fit(self, C: Array, ratio: float, /) -> LogisticFit:
        """Return the latent functions at a map and a ratio, with all samples as centres.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a mode is not found.
        """
        xp = array_namespace(self.X)
        U = apply_map(self.X, self._wide(C))
        K = KernelMatrix(self.kernel, U).cross_operator(U).dense() / ratio
        columns, value = [xp.zeros_like(self.Y[:, 0]) for _ in self.offsets], 0.0
        for c in self._varying:
            mode = self.mode(K, c)
            columns[c] = mode.coef / ratio
            value += mode.value - float(_half_log_determinant(mode.factor))
        coef = xp.stack(columns, axis=1)
        return LogisticFit(coef, self.offsets, xp.full_like(coef[0, :], ratio**-0.5), value)


def prior_means(Y: Array, w: Array, /) -> np.ndarray:
    """Return log odds (t,) of the classes, from indicators (n, t) with weights (n,)."""
    of_class, total = to_host(w @ Y), float(array_namespace(w).sum(w))
    return np.log((of_class + _DOUBT) / (total - of_class + _DOUBT))


def log_sigmoid(f: Array, /) -> Array:
    """Return the logarithm of the logistic function, without overflow."""
    xp = array_namespace(f)
    return xp.minimum(f, xp.zeros_like(f)) - xp.log1p(xp.exp(-abs(f)))


def log_likelihood(f: Array, y: Array, w: Array, /) -> float:
    """Return the weighted log likelihood of classes y (n,), 0 or 1, at log odds f (n,)."""
    xp = array_namespace(f)
    return float(xp.sum(w * log_sigmoid((2.0 * y - 1.0) * f)))


def find_mode(K: Array, y: Array, w: Array, mean: float, start: Array | None = None, /) -> Mode:
    """Find the mode of a latent function by Newton's method (Algorithm 3.1), with shorter steps.

    Parameters
    ----------
    K : array, shape (n, n)
        Covariance of g, float64.
    y, w : arrays, shape (n,)
        Classes, 0 or 1, and weights.
    mean : float
        m.
    start : array, shape (n,), optional
        a to begin with, as of a similar K; by default 0.

    Raises
    ------
    numpy.linalg.LinAlgError
        If it does not converge.
    """
    xp = array_namespace(K)
    a = xp.zeros_like(y) if start is None else start
    g = K @ a
    value = log_likelihood(mean + g, y, w) - 0.5 * float(xp.sum(a * g))
    for _ in range(_MOST_STEPS):
        roots, gradient = _curvature(mean + g, y, w)
        factor = _factor(K, roots)
        b = roots * roots * g + gradient
        wanted = b - roots * factor.solve((roots * (K @ b))[:, None])[:, 0]
        moved = K @ wanted - g
        length = 1.0
        for _ in range(_HALVINGS):
            new_a, new_g = a + length * (wanted - a), g + length * moved
            new = log_likelihood(mean + new_g, y, w) - 0.5 * float(xp.sum(new_a * new_g))
            if new >= value - _SAME * abs(value):
                break
            length *= 0.5
        g, a, value = new_g, new_a, new
        if float(xp.max(abs(moved))) <= _SAME * (1.0 + float(xp.max(abs(g)))):
            roots, _ = _curvature(mean + g, y, w)
            return Mode(g, a, roots, _factor(K, roots), value)
    msg = f"the mode of a latent function was not found in {_MOST_STEPS} steps"
    raise np.linalg.LinAlgError(msg)


def _curvature(f: Array, y: Array, w: Array) -> tuple[Array, Array]:
    """Return W^(1/2), and the gradient of the log likelihood."""
    xp = array_namespace(f)
    p = xp.exp(log_sigmoid(f))
    return xp.sqrt(w) * xp.exp(0.5 * (log_sigmoid(f) + log_sigmoid(-f))), w * (y - p)


def _factor(K: Array, roots: Array) -> CholeskyFactor:
    return CholeskyFactor.factor(
        add_to_diagonal(roots[:, None] * K * roots[None, :], 1.0), overwrite=True
    )


def _half_log_determinant(factor: CholeskyFactor) -> Array:
    xp = array_namespace(factor.L)
    return xp.sum(xp.log(xp.linalg.diagonal(factor.L)))


def _evidence_of_class(K: Array, mean: float, mode: Mode) -> tuple[float, Array]:
    r"""Return the evidence, and twice its symmetric derivative (n, n) with respect to K.

    .. math:: a a^\top - R + u a^\top + a u^\top, \qquad R = W^{1/2} B^{-1} W^{1/2}

    The last two terms are of the mode, which moves with K: :math:`u = (I - R K) s`, where s is the
    derivative of :math:`-\tfrac12 \log |B|` by f, :math:`-\tfrac12 (1 - B^{-1}_{ii}) (1 - 2 p_i)`.
    """
    xp, a, roots = array_namespace(K), mode.coef, mode.roots
    inverse, p = mode.factor.inverse(), xp.exp(log_sigmoid(mean + mode.shift))
    s = -0.5 * (1.0 - xp.linalg.diagonal(inverse)) * (1.0 - 2.0 * p)
    R = roots[:, None] * inverse * roots[None, :]
    u = s - R @ (K @ s)
    value = mode.value - float(_half_log_determinant(mode.factor))
    turned = u[:, None] * a[None, :]
    return value, a[:, None] * a[None, :] - R + turned + turned.T


# ---------------------------------------------------------------------------- by centres


def fit_by_least_squares(
    solve: Callable[[Array, Array], tuple[Array, Array]], y: Array, w: Array, mean: float, /
) -> tuple[Array, Status]:
    """Fit a latent function by reweighted least squares, on any centres.

    Where steps grow, weights are those of the steepest point of the logistic function, w / 4, with
    which no step goes too far.

    Parameters
    ----------
    solve : callable
        Return coefficients (q,) and values (n,) of the ridge regression of targets (n, 1) with
        weights (n, 1), whose penalty is that of g.
    y, w : arrays, shape (n,)
        Classes, 0 or 1, and weights.
    mean : float
        m.

    Returns
    -------
    tuple of array, shape (q,), and Status
        Coefficients of g, and whether they converged.
    """
    xp = array_namespace(y)
    g, moved, bounded = xp.zeros_like(y), np.inf, False
    for _ in range(_MOST_STEPS):
        roots, gradient = _curvature(mean + g, y, w)
        W = 0.25 * w if bounded else xp.maximum(roots * roots, _LEAST * w)
        coef, new = solve((g + gradient / W)[:, None], W[:, None])
        before, moved, g = moved, float(xp.max(abs(new - g))), new
        bounded = bounded or moved > before
        if moved <= _ENOUGH * (1.0 + float(xp.max(abs(g)))):
            return coef, Status.CONVERGED
    return coef, Status.MAX_ITER
