"""Simulated data of Follain and Bach (arXiv:2407.17280), Section 5."""

from __future__ import annotations

import numpy as np
from scipy.stats import ortho_group


def random_directions(d: int, k: int, seed: int) -> np.ndarray:
    """Draw k orthonormal directions (d, k), uniform."""
    return ortho_group.rvs(d, random_state=seed)[:, :k] if d > 1 else np.ones((1, k))


def make_sine_features(
    n: int, d: int, k: int = 3, *, noise: float = 0.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Draw :math:`y = |\sum_{a \le k} \sin((P^\top x)_a)| + noise` (Experiment 5).

    Returns
    -------
    X : ndarray, shape (n, d)
        Uniform on [-1, 1].
    y : ndarray, shape (n,)
        Targets.
    P : ndarray, shape (d, k)
        The directions.

    Examples
    --------
    >>> from gpukfl.datasets import make_sine_features
    >>> X, y, P = make_sine_features(100, 5)
    >>> X.shape, y.shape, P.shape
    ((100, 5), (100,), (5, 3))
    """
    rng = np.random.default_rng(seed)
    P = random_directions(d, k, seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, np.abs(np.sin(X @ P).sum(axis=1)) + noise * rng.standard_normal(n), P


def make_single_direction(
    n: int, d: int, k: int = 5, *, noise: float = 0.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Draw :math:`y = 2\pi |\sum_{a \le k} (P^\top x)_a| + noise` (Experiment 1).

    A function of one direction, the sum of the columns of P. Returns as `make_sine_features`.
    """
    rng = np.random.default_rng(seed)
    P = random_directions(d, k, seed)
    X = rng.uniform(-1, 1, (n, d))
    return X, 2 * np.pi * np.abs((X @ P).sum(axis=1)) + noise * rng.standard_normal(n), P
