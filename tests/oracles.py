"""Dense float64 formulas on the host, and the data that find mistakes in fast ones."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as processes
from sklearn.metrics import pairwise

KINDS = ("random", "tied", "constant row", "duplicated columns")


def projections(rng, kind, m, n):
    """Rows of projections (m, n), of a kind that is hard on sorted sums."""
    A = rng.standard_normal((m, n))
    if kind == "tied":
        A = np.round(A)
    elif kind == "constant row":
        A[0, :] = 0.7
    elif kind == "duplicated columns":
        A = np.take(A, rng.integers(0, max(1, n // 3), n), axis=1)
    return A


def zero_sum(rng, n, t):
    """Weights (n, t) whose columns sum to zero exactly: numbers and their negatives, mixed."""
    half = rng.standard_normal((n // 2, t)).astype(np.float32).astype(np.float64)
    return rng.permuted(np.concatenate([half, -half, np.zeros((n % 2, t))]), axis=0)


def centered(V, s=None):
    """Project the columns of V on the complement of the root weights s (n, 1), or of ones."""
    s = np.ones((V.shape[0], 1)) if s is None else s
    return V - s @ (s.T @ V) / np.sum(s**2)


def gaps(A):
    """Signed differences ``a_ji - a_ji'`` (m, n, n)."""
    return A[:, :, None] - A[:, None, :]


def ridge_curves(A, V):
    """Each row's u at the samples (m, n, t), 0 at its smallest projection."""
    u = -0.5 * np.abs(gaps(A)) @ V
    first = np.argmin(A, axis=1)
    return u - u[np.arange(len(A)), first, :][:, None, :]


def sign_products(A, Z):
    """Signed sums times own weights (m, n)."""
    return np.sum(Z * (np.sign(gaps(A)) @ Z), axis=2)


def brownian(X, W):
    """Ridge-sum kernel (n, n), without what vanishes on centred vectors."""
    return -0.5 * np.mean(np.abs(gaps(W.T @ X.T)), axis=0)


def brownian_gradient(X, W, alpha):
    """Derivative of ``sum_c alpha_c^T brownian(X, W) alpha_c`` in W (d, m)."""
    return -(sign_products(W.T @ X.T, alpha) @ X).T / W.shape[1]


def interpolation(codes, shift, n_knots):
    """Matrices B (m, n, q) of linear interpolation at positions ``codes / 2**shift``."""
    cell, share = codes >> shift, (codes % 2**shift) / 2.0**shift
    knots = np.arange(n_knots)
    left = knots == cell[:, :, None]
    return left * (1 - share[:, :, None]) + (knots == cell[:, :, None] + 1) * share[:, :, None]


def binned_gradient(X, B, alpha):
    """`brownian_gradient` with sign interpolated between knots both ways, B (m, n, q)."""
    knots = np.arange(B.shape[2])
    signs = np.sign(knots[:, None] - knots)
    signed = B @ (signs @ (B.swapaxes(1, 2) @ alpha))
    return -(np.sum(alpha * signed, axis=2) @ X).T / len(B)


def piecewise_linear(a, knots, values):
    """Interpolate (q,) values linearly, constant beyond the end knots."""
    last = np.flatnonzero(np.append(np.diff(knots) > 0, True))  # of equal knots, the last
    return np.interp(a, knots[last], values[last])


def gaussian(X, Z, lengthscale):
    """scikit-learn's RBF kernel."""
    return pairwise.rbf_kernel(X, Z, gamma=0.5 / lengthscale**2)


def laplace(X, Z, lengthscale):
    """scikit-learn's Matérn kernel of smoothness 1/2."""
    return processes.Matern(lengthscale, nu=0.5)(X, Z)


def power_exponential(X, Z, lengthscale, order, exponent):
    """SciPy's Minkowski distance."""
    r = cdist(X, Z, "minkowski", p=order) / lengthscale
    return np.exp(-(r**exponent))


def matern32(X, Z, lengthscale):
    """scikit-learn's Matérn kernel of smoothness 3/2."""
    return processes.Matern(lengthscale, nu=1.5)(X, Z)


def matern52(X, Z, lengthscale):
    """scikit-learn's Matérn kernel of smoothness 5/2."""
    return processes.Matern(lengthscale, nu=2.5)(X, Z)


def rational_quadratic(X, Z, lengthscale, mixture):
    """scikit-learn's rational quadratic kernel."""
    return processes.RationalQuadratic(lengthscale, mixture)(X, Z)


def manhattan_laplace(X, Z, lengthscale):
    """scikit-learn's Laplacian kernel."""
    return pairwise.laplacian_kernel(X, Z, gamma=1.0 / lengthscale)


def polynomial(X, Z, lengthscale, degree, offset):
    """scikit-learn's polynomial kernel."""
    return pairwise.polynomial_kernel(X, Z, degree, 1.0 / lengthscale**2, offset)


def inverse_multiquadric(X, Z, lengthscale):
    """Textbook formula."""
    return 1.0 / np.sqrt(1.0 + np.sum((X[:, None] - Z[None]) ** 2, axis=2) / lengthscale**2)


def brownian_motion(X, Z, lengthscale):
    """Covariance of Lévy's Brownian motion."""
    norms = np.linalg.norm(X, axis=1)[:, None] + np.linalg.norm(Z, axis=1)[None]
    return 0.5 * (norms - np.linalg.norm(X[:, None] - Z[None], axis=2)) / lengthscale


def slopes(function, x, step=1e-5):
    """Central differences of a function of an array: an array like x."""
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        there, back = x.copy(), x.copy()
        there[index] += step
        back[index] -= step
        out[index] = (function(there) - function(back)) / (2 * step)
    return out


def left_out_errors(K, Y, weights, shift):
    """Mean square error of kernel ridge regression that never saw the sample it predicts.

    K (n, q) maps coefficients to predictions with the penalty's matrix `core`; a sample is taken
    away with all of its weight.
    """
    K, core = K
    total = 0.0
    for i, w in enumerate(weights[:, 0]):
        rest = weights.copy()
        rest[i] = 0.0
        coef = np.linalg.lstsq(K.T @ (rest * K) + shift * core, K.T @ (rest * Y), rcond=None)[0]
        total += w * np.sum((Y[i] - K[i] @ coef) ** 2)
    return total / np.sum(weights)
