"""Peers that estimate directions: small versions of four methods.

Sliced inverse regression (Li 1991), principal Hessian directions (Li 1992, of the residuals of a
linear fit), and outer product of gradients and minimum average variance estimation (Xia, Tong, Li
and Zhu 2002). All are told the number of directions, and work on whitened rows.

The last two are plain versions: Gaussian weights, no trimming of poor points, the bandwidth rule of
the paper, and a small ridge in every local fit, so that they also run with fewer rows than 2 d.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SLICES = 10
WIDTH = 1.06  # of Gaussian weights, times n^(-1/(dimension + 6))
ROUNDS, SHRINK = 12, 0.6  # of refinement, and what each leaves of the dimension
TURNS = 5  # of MAVE after these
RIDGE = 1e-3  # of a local fit, in units of its mean squared coordinate


def sliced_inverse_regression(X: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """Directions (d, k): principal axes of the slices' means of whitened rows."""
    Z, back = whitened(X)
    slices = np.array_split(np.argsort(y, kind="stable"), max(min(SLICES, len(y) // 5), k + 1))
    means = np.stack([Z[rows].mean(axis=0) for rows in slices])
    shares = np.array([len(rows) for rows in slices]) / len(y)
    return back @ leading(means.T @ (shares[:, None] * means), k)


def principal_hessian_directions(X: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """Directions (d, k): axes of the mean of r z z' with the largest absolute eigenvalues."""
    Z, back = whitened(X)
    r = y - y.mean()
    r = r - Z @ (Z.T @ r) / len(y)
    return back @ leading(Z.T @ (r[:, None] * Z) / len(y), k)


def outer_product_of_gradients(X: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """Directions (d, k): principal axes of gradients of local linear fits, refined."""
    Z, back = whitened(X)
    return back @ _refined_gradients(Z, y, k)


def minimum_average_variance(X: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """Directions (d, k): from those of gradients, B and local linear fits along it by turns."""
    Z, back = whitened(X)
    d = Z.shape[1]
    B = _refined_gradients(Z, y, k)
    for _ in range(TURNS):
        W = _weights(Z @ B, _width(len(y), k))
        levels, slopes = _local_fits(Z @ B, y, W)
        normal, right = np.zeros((d, k, d, k)), np.zeros((d, k))
        for j in range(len(y)):
            U = Z - Z[j]
            S = U.T @ (W[j][:, None] * U)
            normal += S[:, None, :, None] * np.outer(slopes[j], slopes[j])[None, :, None, :]
            right += np.outer(U.T @ (W[j] * (y - levels[j])), slopes[j])
        flat = normal.reshape(d * k, d * k)
        flat = flat + RIDGE * np.trace(flat) / (d * k) * np.eye(d * k)
        B = np.linalg.qr(np.linalg.solve(flat, right.ravel()).reshape(d, k))[0]
    return back @ B


PEERS: dict[str, Callable[[np.ndarray, np.ndarray, int], np.ndarray]] = {
    "SIR": sliced_inverse_regression,
    "pHd": principal_hessian_directions,
    "OPG": outer_product_of_gradients,
    "MAVE": minimum_average_variance,
}


def whitened(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of mean 0 and covariance I, and the map of their directions to those of X."""
    centred = X - X.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred / len(X))
    back = axes @ np.diag(1.0 / np.sqrt(np.maximum(values, 1e-8 * values[-1]))) @ axes.T
    return centred @ back, back


def leading(S: np.ndarray, k: int) -> np.ndarray:
    """Eigenvectors (d, k) of the largest absolute eigenvalues."""
    values, axes = np.linalg.eigh(S)
    return axes[:, np.argsort(-np.abs(values), kind="stable")[:k]]


def _width(n: int, k: int) -> float:
    return WIDTH * n ** (-1.0 / (k + 6))


def _refined_gradients(Z: np.ndarray, y: np.ndarray, k: int) -> np.ndarray:
    """Directions (d, k) of gradients; each round weighs rows along fewer of the last directions."""
    n, d = Z.shape
    B = np.eye(d)
    for count in (d, *(max(int(d * SHRINK**t), k) for t in range(1, ROUNDS))):
        gradients = _local_fits(Z, y, _weights(Z @ B[:, :count], _width(n, count)))[1]
        B = leading(gradients.T @ gradients, d)
    return B[:, :k]


def _weights(Z: np.ndarray, width: float) -> np.ndarray:
    """Gaussian weights (n, n), rows summing to 1."""
    squares = np.sum(Z**2, axis=1)
    gaps = np.maximum(squares[:, None] + squares[None, :] - 2.0 * Z @ Z.T, 0.0)
    W = np.exp(-gaps / (2.0 * width**2))
    return W / W.sum(axis=1, keepdims=True)


def _local_fits(Z: np.ndarray, y: np.ndarray, W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Levels (n,) and slopes (n, d) of local linear fits at every row."""
    n, d = Z.shape
    levels, slopes = np.empty(n), np.empty((n, d))
    means, heights = W @ Z, W @ y
    for j in range(n):
        U = Z - means[j]
        S = U.T @ (W[j][:, None] * U)
        S[np.diag_indices(d)] += RIDGE * np.trace(S) / d + 1e-12
        slopes[j] = np.linalg.solve(S, U.T @ (W[j] * y))
        levels[j] = heights[j] + (Z[j] - means[j]) @ slopes[j]
    return levels, slopes
