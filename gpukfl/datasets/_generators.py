"""Simulated data of Follain and Bach (arXiv:2407.17280), and of Huang et al. (HKRR)."""

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


def make_multi_index(
    n_samples: int,
    n_features: int = 50,
    n_directions: int = 3,
    *,
    kind: str = "sines",
    noise: float = 0.1,
    random_state: int | np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r"""Draw a multi-index model of Huang et al. (HKRR), Appendix D.1: a function of Bx plus noise.

    With d directions, u = Bx, and the indices of u modulo d,

    .. math:: z = \sum_{j=1}^d \sin\big((1 + \tfrac jd) \pi u_j\big), \quad x \in [-1, 1]^D
              \qquad\text{("sines", eq. (51))}

    .. math:: z = \sum_{j=1}^d \sin(0.5 u_j - j) + \tfrac12 u_{j+1} \cos(0.4 u_{j+2} - j + 1),
              \quad x \in [-10, 10]^D \qquad\text{("mixed", eq. (52))}

    Parameters
    ----------
    n_samples, n_features, n_directions : int
        Samples n, features D and directions d.
    kind : {"sines", "mixed"}
        Dataset 1 or 2.
    noise : float
        Standard deviation of the noise, in units of that of z; 0.1 is the paper's.
    random_state : int, Generator or None
        Draws B, then x, then the noise.

    Returns
    -------
    X : ndarray, shape (n_samples, n_features)
        Uniform.
    y : ndarray, shape (n_samples,)
        Targets.
    B : ndarray, shape (n_directions, n_features)
        The linear map.

    Notes
    -----
    The paper draws B "in the unit spectral ball" and its entries uniform on [0, 1], which is
    outside the ball for D > 1. Here the drawn matrix is divided by its spectral norm. Its rows
    then share their mean direction and the other directions are shorter, about 0.3 for d = 3 and
    D = 50. (Clipping the singular values instead would make all of them 1: a harder function.)

    Examples
    --------
    >>> from gpukfl.datasets import make_multi_index
    >>> X, y, B = make_multi_index(100, 20, random_state=0)
    >>> X.shape, y.shape, B.shape
    ((100, 20), (100,), (3, 20))
    """
    if kind not in ("sines", "mixed"):
        msg = f'expected kind to be "sines" or "mixed", got {kind!r}'
        raise ValueError(msg)
    rng = np.random.default_rng(random_state)
    B = rng.uniform(0, 1, (n_directions, n_features))
    B /= np.linalg.norm(B, 2)
    half_width = 1.0 if kind == "sines" else 10.0
    X = rng.uniform(-half_width, half_width, (n_samples, n_features))
    U, j = X @ B.T, np.arange(1, n_directions + 1)
    if kind == "sines":
        terms = np.sin((1 + j / n_directions) * np.pi * U)
    else:
        after, second = np.roll(U, -1, axis=1), np.roll(U, -2, axis=1)
        terms = np.sin(0.5 * U - j) + 0.5 * after * np.cos(0.4 * second - j + 1)
    z = terms.sum(axis=1)
    return X, z + noise * z.std() * rng.standard_normal(n_samples), B
