"""The learned kernel and directions of a fit, and its smoother."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, qr
from scipy.optimize import minimize_scalar
from scipy.spatial.distance import cdist

from gpukfl.core._array import to_host
from gpukfl.estimators._base import HostStored
from gpukfl.linalg import host_eigh
from gpukfl.methods import average_gradient_outer_product
from gpukfl.operators import KernelOperator, apply_map
from gpukfl.partitioned._rows import Rows
from gpukfl.predictor import KernelSum, ShapeSum

# ------------------------------------------------------------------------- learned kernels

# The kernel that a fitted estimator has learned, as a function of host rows.


Map = Callable[[np.ndarray], np.ndarray]
_STEP = 0.15  # of a scaled coordinate, for derivatives


@dataclass(frozen=True, eq=False)
class LearnedKernel:
    """A learned kernel, with importances, directions and slopes.

    Attributes
    ----------
    scale : callable
        Rows (n, d) as the fit scales them: (n, s d) by s scalings side by side.
    project : callable
        What of scaled rows the kernel compares: (n, k).
    compare : callable
        Kernel between projections (n, k) and (q, k): (n, q).
    functions : callable
        Fitted functions (n, t) at scaled rows.
    directions : array, shape (k, d)
        Orthonormal learned directions of scaled rows, most important first; none of selected or
        weighed features.
    importances : array, shape (d,)
        Of the features.
    """

    scale: Map
    project: Map
    compare: Callable[[np.ndarray, np.ndarray], np.ndarray]
    functions: Map
    directions: np.ndarray
    importances: np.ndarray

    def __call__(self, X: np.ndarray, Z: np.ndarray, /) -> np.ndarray:
        """Evaluate between rows (n, d) and (q, d): (n, q)."""
        U, V = (self.project(self.scale(rows)) for rows in (X, Z))
        return np.asarray(self.compare(U, V), dtype=np.float64)

    @property
    def has_lengthscale(self) -> bool:
        """Whether `shortened` changes more than the kernel's size."""
        return self.compare is not _mean_brownian_kernel

    def additive(
        self, X: np.ndarray, Z: np.ndarray, columns: list[int] | None = None, /
    ) -> np.ndarray:
        """Evaluate the additive Brownian kernel of all features, or its terms of some: (n, q)."""
        U, V = self.scale(X), self.scale(Z)
        if columns is None:
            return _mean_brownian_kernel(U, V)
        share = len(columns) / U.shape[1]
        return share * _mean_brownian_kernel(U[:, columns], V[:, columns])

    def shorten(self, share: float, /) -> Self:
        """Return the kernel at a multiple of the lengthscale, or else of the size."""
        project = self.project
        return replace(self, project=lambda Z: project(Z) / share)

    def slopes(self, scaled: np.ndarray, /) -> np.ndarray:
        """Differentiate the fitted functions along the directions: (n, k, t)."""
        found = [
            (self.functions(scaled + _STEP * u) - self.functions(scaled - _STEP * u)) / (2 * _STEP)
            for u in self.directions
        ]
        return np.stack(found, axis=1)


def learned_kernel(estimator: Any, /) -> LearnedKernel | None:
    """Return the kernel of a fitted estimator, or None if it has none."""
    if not isinstance(estimator, HostStored):
        return None
    e = estimator.to_host()
    function = e.predictor_.values
    found = _projection_and_kernel(function)
    if found is None:
        return None
    of_scaled, d = replace(function, scaling=None), e.n_features_in_
    importances = getattr(e, "feature_importances_", None)
    # Of a feature that has several scalings nobody moves one alone
    components = getattr(e, "components_", None) if _n_scalings(e.scaling_) == 1 else None
    return LearnedKernel(
        _scale_on_host(e.scaling_),
        *found,
        lambda Z: np.asarray(of_scaled.evaluate_in_blocks(Z), dtype=np.float64),
        _rotated_directions(components, d),
        np.ones(d) if importances is None else _to_float64(importances),
    )


def make_scaler(estimator: Any, /) -> Map:
    """Return the function by which a fitted estimator scales host rows (n, d).

    Of several scalings of each feature it is their mean.
    """
    scaling = estimator.to_host().scaling_
    scale, count = _scale_on_host(scaling), _n_scalings(scaling)
    if count == 1:
        return scale
    return lambda X: scale(X).reshape(len(X), count, -1).mean(axis=1)


def _scale_on_host(scaling: Any) -> Map:
    return (lambda X: X) if scaling is None else (lambda X: np.asarray(scaling(X)))


def _n_scalings(scaling: Any) -> int:
    return 1 if scaling is None else len(scaling.parts)


def default_kernel(X: np.ndarray, n_outputs: int, /) -> LearnedKernel:
    """Return the additive kernel of standardised rows, for a fit that found nothing."""
    middle, spread = X.mean(axis=0), X.std(axis=0)
    return LearnedKernel(
        lambda rows: (rows - middle) / np.where(spread > 0, spread, 1.0),
        lambda Z: Z,
        _mean_brownian_kernel,
        lambda Z: np.zeros((len(Z), n_outputs)),
        np.zeros((0, X.shape[1])),
        np.ones(X.shape[1]),
    )


def _projection_and_kernel(
    function: Any,
) -> tuple[Map, Callable[[np.ndarray, np.ndarray], np.ndarray]] | None:
    """Return projection and kernel of a fitted function with NumPy arrays."""
    if isinstance(function, ShapeSum):  # a sum of Brownian kernels along particles
        W = _to_float64(function.W)
        return (lambda Z: Z @ W, _mean_brownian_kernel) if W.any() else None
    if not isinstance(function, KernelSum) or function.coef is None:
        return None
    used, stretch, B = function.columns, function.factors, function.components
    kernel: Any = function.kernel
    if used is not None:
        return lambda Z: Z[:, used] * stretch, kernel
    if B is None:
        return lambda Z: Z, kernel
    return (lambda Z: to_host(apply_map(Z, B))), kernel


def _mean_brownian_kernel(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Return the mean of the Brownian kernels of projections (n, m) and (q, m)."""
    here, there = np.abs(U).sum(axis=1), np.abs(V).sum(axis=1)
    return 0.5 * (here[:, None] + there - cdist(U, V, "cityblock")) / U.shape[1]


def _rotated_directions(components: Any, d: int) -> np.ndarray:
    """Return the learned directions (k, d), or none if each is a feature."""
    if components is None:
        return np.zeros((0, d))
    found = _to_float64(components)
    single = np.count_nonzero(np.abs(found) > 1e-6, axis=1) <= 1
    return np.zeros((0, d)) if single.all() else found


def _to_float64(x: Any) -> np.ndarray:
    return np.asarray(to_host(x), dtype=np.float64)


# -------------------------------------------------------------------------------- smoother

# A kernel smoother as the linear map that it is, with unpenalised features.
#
# .. math:: y = f(x) + h(x)^\top \beta + \varepsilon, \qquad f \sim GP(0, \tau^2 k),
#           \qquad \mathrm{var}\,\varepsilon_i = \sigma^2 / w_i, \qquad r = \sigma^2 / \tau^2 .


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
    def fit(
        cls, K: np.ndarray, H: np.ndarray, y: np.ndarray, roots: np.ndarray, /, *, share: float
    ) -> Self:
        """Fit the noise ratio by restricted likelihood, and multiply it by a share.

        Kernel (n, n), features (n, p), targets (n,) and roots of the weights (n,); O(n³).
        """
        columns = _independent_columns(roots[:, None] * H)
        K, H = K * np.outer(roots, roots), roots[:, None] * H[:, columns]
        ratio = share * reml_noise_ratio(K, H, roots * y)
        factor = cho_factor(K + ratio * np.eye(len(K)), lower=True)
        VH = cho_solve(factor, H)
        middle = np.linalg.inv(H.T @ VH)
        found = cls(ratio, columns, K, factor, VH, middle, roots)
        return cls(ratio, columns, found._weighted_map(K, H), factor, VH, middle, roots)

    def map(self, k: np.ndarray, h: np.ndarray, /) -> np.ndarray:
        """Return the map (g, n) from targets to functionals of the fit.

        They are given by their kernels (g, n) with the rows, and their values (g, p) of all
        features.
        """
        found = self._weighted_map(k * self._roots, h[:, self.columns])
        return found * self._roots

    def correct_bias(self, maps: np.ndarray, /) -> np.ndarray:
        r"""Correct maps (g, n) for smoothing, by a second fit to the residuals: L + L (I - S)."""
        S = self.hat * self._roots[None, :] / self._roots[:, None]
        return maps + maps @ (np.eye(len(S)) - S)

    def smooth(self, y: np.ndarray, /) -> np.ndarray:
        """Smooth targets (n,)."""
        return (self.hat @ (self._roots * y)) / self._roots

    def residual_sums(self, y: np.ndarray, /) -> np.ndarray:
        """Return the weighted sum of squared residuals, and its moments for unit noise.

        The last two are the trace of :math:`(I - S)^2` and that of its square.
        """
        left = self._roots * (y - self.smooth(y))
        R = np.eye(len(y)) - self.hat
        A = R.T @ R
        return np.array([left @ left, np.trace(A), np.sum(A * A)])

    def _weighted_map(self, k: np.ndarray, h: np.ndarray) -> np.ndarray:
        direct = cho_solve(self._factor, k.T).T
        return direct + (h - k @ self._VH) @ self._middle @ self._VH.T


def reml_noise_ratio(K: np.ndarray, H: np.ndarray, y: np.ndarray, /) -> float:
    """Return the noise ratio of highest restricted likelihood, for K (n, n) and H (n, p)."""
    Q = _complement(H)
    return _maximise_reml(Q.T @ K @ Q, Q.T @ y)[0]


def best_kernel_share(
    K: np.ndarray,
    other: np.ndarray,
    H: np.ndarray,
    y: np.ndarray,
    roots: np.ndarray,
    shares: Sequence[float],
    /,
) -> float:
    """Return the share of another kernel (n, n) with the highest restricted likelihood.

    The first of the shares, unless another is better by Schwarz's price of a parameter, log n: a
    share that is chosen freely follows the noise, of which its smoother's variance knows nothing.
    """
    columns = _independent_columns(roots[:, None] * H)
    Q, outer = _complement(roots[:, None] * H[:, columns]), np.outer(roots, roots)
    first, second, z = Q.T @ (outer * K) @ Q, Q.T @ (outer * other) @ Q, Q.T @ (roots * y)
    losses = [_maximise_reml(first + share * second, z)[1] for share in shares]
    best = int(np.argmin(losses))
    return shares[best if losses[0] - losses[best] > np.log(len(y)) else 0]


def _complement(H: np.ndarray) -> np.ndarray:
    """Return an orthonormal basis (n, n - p) of what is orthogonal to features (n, p)."""
    return np.linalg.qr(H, mode="complete")[0][:, H.shape[1] :]


def _maximise_reml(K: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the noise ratio of highest restricted likelihood, and its shifted -2 log.

    Of a kernel (m, m) and targets (m,) without the features.
    """
    values, vectors = host_eigh(K)
    values = np.clip(values, 0.0, None)
    squares = (vectors.T @ y) ** 2
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


def _independent_columns(H: np.ndarray) -> np.ndarray:
    """Return linearly independent columns (n, p), in their order."""
    norms = np.linalg.norm(H, axis=0)
    kept = np.flatnonzero(norms > 0)
    _, R, order = qr(H[:, kept] / norms[kept], mode="economic", pivoting=True)
    sizes = np.abs(np.diagonal(R))
    return np.sort(kept[order[: np.count_nonzero(sizes > _RANK * sizes.max())]])


# ------------------------------------------------------------------------------ directions

# Learned directions of a fitted estimator, and those that would come next.


_LEAST = 1e-6  # of all variation: what is less is rounding


def has_directions(estimator: Any, /) -> bool:
    """Whether a fitted estimator of this library has learned directions."""
    return isinstance(estimator, HostStored) and len(getattr(estimator, "components_", ())) > 0


def complete_directions(estimator: Any, /) -> np.ndarray:
    """Return a basis of directions (k, d) of scaled features, the learned ones first.

    The others are orthogonal to them, in the order of how much the function varies there; those of
    selected variables are no others.
    """
    known = _to_float64(estimator.components_)
    M = _direction_variation(estimator)
    total = 0.0 if M is None else float(np.trace(M))
    if M is None or total <= 0:
        return known
    rest = np.eye(len(M)) - known.T @ known
    values, vectors = host_eigh(rest @ (M / total) @ rest)
    count = min(int(np.sum(values > _LEAST)), len(M) - len(known))
    return np.concatenate([known, vectors[:, ::-1][:, :count].T])


def _direction_variation(estimator: Any) -> np.ndarray | None:
    """Return the variation of the function along directions (d, d), or None for selections.

    Of HKRR the average gradient outer product at its centres. The map says which directions tell
    rows apart, and a diagonal one has the features for eigenvectors whatever the function is.
    """
    if not hasattr(estimator, "map_"):
        M = getattr(estimator, "feature_matrix_", None)
        return None if M is None else _to_float64(M)
    e = estimator.to_host()
    Z = _to_float64(e.centers_)
    scale = np.where(e.bound_ > 0, e.bound_, 1.0)  # of the targets
    operator = KernelOperator(e.kernel_, Rows(Z, Z[:0, 0]), Z, _to_float64(e.map_))
    found = average_gradient_outer_product(operator, _to_float64(e.dual_coef_) / scale)
    count, d = _n_scalings(e.scaling_), e.n_features_in_
    # All scalings of a feature move with it
    return np.asarray(found).reshape(count, d, count, d).sum(axis=(0, 2))
