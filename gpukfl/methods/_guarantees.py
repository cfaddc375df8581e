r"""Hyperparameters by the theorems on BKerNN, RegFeaL and HKRR.

All numbers are Python floats. n is the number of samples, d that of variables, and δ the
probability with which a guarantee may fail. The theorems hold for every distribution, so that
these values are larger than those which cross-validation finds.
"""

from __future__ import annotations

import math

from gpukfl.core._checks import check_choice, check_counts, check_delta


def gaussian_complexity(
    n: int, d: int, *, mean_norm: float, mean_squared_maximum: float, sphere: str = "l2"
) -> float:
    r"""Bound the Gaussian complexity of BKerNN's functions, Theorems 12 and 14 of [1]_.

    .. math:: G_n \le \min\Big( \frac{3 u}{n^{1/6}} \,
              \big(\mathbb{E} \max_i (\|X_i\|^*)^2 \big)^{1/4},\;
              8 \sqrt{\frac{d \log(n + 1)}{n} \, \mathbb{E} \|X\|^*} \Big)

    with u = 1 on the ℓ2 sphere and :math:`u = (\log 2d)^{1/4}` on the ℓ1 sphere.

    Parameters
    ----------
    n, d : int
        Numbers of samples and of variables.
    mean_norm : float
        :math:`\mathbb{E} \|X\|^*` of one sample, in the dual norm of the sphere.
    mean_squared_maximum : float
        :math:`\mathbb{E} \max_i (\|X_i\|^*)^2` over n samples.
    sphere : {"l2", "l1"}
        Norm of the particles. The dual norm is ℓ2 or the largest absolute entry.

    Returns
    -------
    float
        The bound; it scales as the square root of the data.

    Raises
    ------
    ValueError
        If a number is out of its range or the sphere is unknown.

    References
    ----------
    .. [1] Follain and Bach, "Enhanced Feature Learning via Regularisation", arXiv:2407.17280.
    """
    check_choice("sphere", sphere, ("l2", "l1"))
    check_counts(n=n, d=d)
    _check_sizes(mean_norm=mean_norm, mean_squared_maximum=mean_squared_maximum)
    spread = math.log(2.0 * d) ** 0.25 if sphere == "l1" else 1.0
    free_of_dimension = 3.0 * spread * mean_squared_maximum**0.25 / n ** (1.0 / 6.0)
    of_dimension = 8.0 * math.sqrt(d * math.log(n + 1.0) / n) * math.sqrt(mean_norm)
    return min(free_of_dimension, of_dimension)


def guaranteed_ridge(
    n: int, *, complexity: float, lipschitz: float, variance_proxy: float, delta: float
) -> float:
    r"""Return the λ of BKerNN's risk bound, Theorem 16 of [1]_.

    .. math:: \lambda = 12 L \left( \frac{1}{\sqrt n} + G_n \right)
              + \frac{288 L \sigma}{\sqrt n} \sqrt{\log \frac1\delta}

    With it the risk exceeds that of the best function :math:`f^*` by at most
    :math:`2 \lambda \Omega(f^*)`, with probability at least 1 - δ.

    Parameters
    ----------
    n : int
        Number of samples, independent of each other.
    complexity : float
        :math:`G_n` or a bound on it, such as `gaussian_complexity`.
    lipschitz : float
        L: slope of the loss in the prediction.
    variance_proxy : float
        :math:`\sigma^2`, of the subgaussian :math:`1 + \sqrt{\|X\|^*}`.
    delta : float
        δ, between 0 and 1.

    Returns
    -------
    float
        λ of the mean loss plus :math:`\lambda \Omega(f)`. For half the squared error it is the
        `ridge` of `BKerNNRegressor`.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    .. [1] Follain and Bach, "Enhanced Feature Learning via Regularisation", arXiv:2407.17280.
    """
    check_counts(n=n)
    check_delta(delta)
    _check_sizes(complexity=complexity, lipschitz=lipschitz, variance_proxy=variance_proxy)
    tail = math.sqrt(-variance_proxy * math.log(delta) / n)
    return lipschitz * (12.0 * (1.0 / math.sqrt(n) + complexity) + 288.0 * tail)


def guaranteed_strength(
    n: int, d: int, *, radius: float, degree_decay: float, lipschitz: float, delta: float
) -> float:
    r"""Return the μ of RegFeaL's risk bound for bounded data, Corollary 4.1 of [1]_.

    .. math:: \mu = \frac{G}{\sqrt n} \sqrt{1 + \frac{e^{R^2/2}}{(1 - \rho)^d}}
              \left( 8 \sqrt{\frac{\pi}{2}} + 2 \sqrt{2 \log\frac2\delta} \right)

    With it the risk exceeds that of the best function :math:`f^*` by at most
    :math:`2 \mu \Omega(f^*)`, with probability at least 1 - δ.

    Parameters
    ----------
    n, d : int
        Numbers of samples, independent of each other, and of variables.
    radius : float
        R: no sample is longer.
    degree_decay : float
        ρ of :math:`c_k = \rho^k`, between 0 and 1.
    lipschitz : float
        G: slope of the loss in the prediction.
    delta : float
        δ, between 0 and 1.

    Returns
    -------
    float
        μ of the mean loss plus :math:`\mu \Omega(f)`, infinite where it is beyond float64. The
        `strength` of `RegFeaLRegressor` multiplies :math:`\Omega^2`, so it is not this number.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    .. [1] Follain and Bach, "Nonparametric Linear Feature Learning in Regression Through
       Regularisation", arXiv:2307.12754.
    """
    check_counts(n=n, d=d)
    check_delta(delta)
    _check_sizes(radius=radius, lipschitz=lipschitz)
    if not 0.0 < degree_decay < 1.0:
        msg = f"expected degree_decay between 0 and 1, got {degree_decay}"
        raise ValueError(msg)
    # The exponential alone is soon beyond float64, its root later
    log_growth = radius * radius / 2.0 - d * math.log1p(-degree_decay)
    log_root = 0.5 * (max(log_growth, 0.0) + math.log1p(math.exp(-abs(log_growth))))
    spread = 8.0 * math.sqrt(math.pi / 2.0) + 2.0 * math.sqrt(2.0 * math.log(2.0 / delta))
    try:
        root = math.exp(log_root)
    except OverflowError:
        root = math.inf
    return 0.0 if lipschitz == 0.0 else lipschitz * spread / math.sqrt(n) * root


def sufficient_centers(
    ridge: float, delta: float, *, largest: float = 1.0, dimension: float | None = None
) -> int:
    r"""Return how many uniform centres keep HKRR's rate, Theorem 2 of [1]_.

    .. math:: \tilde m \ge \max\big( 67,\; 5\, \mathcal{N}_{B_*, \infty}(\lambda) \big)
              \log \frac{4 \kappa}{\lambda \delta}

    Parameters
    ----------
    ridge : float
        λ, positive.
    delta : float
        δ, between 0 and 1.
    largest : float
        κ: the largest :math:`k(x, x)`, 1 for the library's radial kernels.
    dimension : float, optional
        :math:`\mathcal{N}_{B_*, \infty}(\lambda)`, the largest leverage of any point. By default
        its bound κ / λ (Remark 5). n times the largest of `leverage_scores` estimates it.

    Returns
    -------
    int
        Number of centres, at least 1. It may exceed the number of samples, which then suffice.

    Raises
    ------
    ValueError
        If a number is out of its range.

    References
    ----------
    .. [1] Huang, Labarrière, De Vito, Poggio and Rosasco, "Learning Multi-Index Models with
       Hyper-Kernel Ridge Regression", 2025.
    """
    check_delta(delta)
    for name, value in (("ridge", ridge), ("largest", largest)):
        if not 0.0 < value < math.inf:
            msg = f"expected a positive, finite {name}, got {value}"
            raise ValueError(msg)
    if dimension is None:
        dimension = largest / ridge
    _check_sizes(dimension=dimension)
    log_ratio = math.log(4.0) + math.log(largest) - math.log(ridge) - math.log(delta)
    wanted = max(67.0, 5.0 * dimension) * log_ratio
    if wanted == math.inf:
        msg = f"expected a number of centres within float64, got ridge {ridge}"
        raise ValueError(msg)
    return max(math.ceil(wanted), 1)


def _check_sizes(**sizes: float) -> None:
    for name, value in sizes.items():
        if not 0.0 <= value < math.inf:
            msg = f"expected {name} of at least 0 and finite, got {value}"
            raise ValueError(msg)
