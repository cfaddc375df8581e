r"""Guarantees of an RKHS weighting, Sections 6 and 7 of Dubé and Marchand (hal-04236058).

All numbers are Python floats. A *capacity* is θ times a norm: the norm alone may be beyond
float64 where θ is below it. ρ is the Lipschitz constant of the loss, n the number of samples,
δ the probability with which a bound may fail.
"""

from __future__ import annotations

import math

from gpukfl.core._checks import check_counts, check_delta, check_positive

_WEIGHTS = math.pi**2 / 3.0 - 1.0  # sum of (1 + |j|)^-2 over all integers j
_LEAST = -64  # no smaller power of 2 is tried, so that a norm of 0 has a radius


def generalization_gap(capacity: float, rho: float, largest: float, n: int, delta: float) -> float:
    r"""Bound how much the risk exceeds the empirical one, Theorem 10.

    .. math:: \frac{2 \rho \theta B}{\sqrt n} + M \sqrt{\frac{\log(1/\delta)}{2n}}

    It holds at once for all weightings of norm at most B, where B was fixed before the samples
    were seen; `doubling` gives a B for a norm that was not.

    Parameters
    ----------
    capacity : float
        θB.
    rho, largest : float
        ρ and M: the loss's slope and value are at most this for predictions up to θB.
    n : int
        Number of samples, independent of each other.
    delta : float
        δ, between 0 and 1.

    Returns
    -------
    float
        The gap, in units of the loss.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    _check(n, delta, capacity=capacity, rho=rho, largest=largest)
    return 2.0 * rho * capacity / math.sqrt(n) + largest * math.sqrt(-math.log(delta) / (2.0 * n))


def doubling(log_norm: float, delta: float) -> tuple[float, float]:
    r"""Return the logarithm of a radius for an observed norm, and its share of δ.

    Theorem 10 is applied to every radius :math:`2^j`, each with a share
    :math:`\delta_j = \delta\, (1 + |j|)^{-2} / (\pi^2/3 - 1)` of δ. The shares sum to δ over all
    integers j, so that all these bounds hold at once, and the one of the smallest radius that
    covers the norm may be chosen afterwards. (The paper takes the norm itself for B.)

    Parameters
    ----------
    log_norm : float
        Logarithm of the norm of the weighting; ``-inf`` for 0.
    delta : float
        δ, between 0 and 1.

    Returns
    -------
    tuple of floats
        The logarithm of the radius, at least `log_norm` and less than ``log(2)`` above it unless
        that is below :math:`2^{-64}`, and the share of δ.

    Raises
    ------
    ValueError
        If the norm is not finite or δ is out of its range.
    """
    check_delta(delta)
    if not log_norm < math.inf:
        msg = f"expected the logarithm of a finite norm, got {log_norm}"
        raise ValueError(msg)
    two = math.log(2.0)
    j = math.ceil(max(log_norm / two, _LEAST))
    j += j * two < log_norm  # by rounding
    return j * two, delta / (_WEIGHTS * (1.0 + abs(j)) ** 2)


def degradation(capacity_of_difference: float, rho: float) -> float:
    r"""Bound the difference of two weightings' risks, :math:`\rho\theta \|\alpha - \beta\|`.

    Lemma 7, eq. (56); certain, of the risks on any samples too.

    Parameters
    ----------
    capacity_of_difference : float
        :math:`\theta \|\alpha - \beta\|`.
    rho : float
        ρ, for the predictions of both.

    Returns
    -------
    float
        The bound, in units of the loss.

    Raises
    ------
    ValueError
        If a number is negative.
    """
    _check_sizes(capacity_of_difference=capacity_of_difference, rho=rho)
    return rho * capacity_of_difference


def degradation_on_sample(
    risk_change: float, capacity_of_difference: float, rho: float, n: int, delta: float
) -> float:
    r"""Bound how much more risk β has than α, from their risks on a sample: Theorem 8.

    .. math:: L_S(\beta) - L_S(\alpha)
              + \frac{\rho\theta C}{\sqrt n} \left(2 + \sqrt{2 \log(1/\delta)}\right)

    It holds at once for all β with :math:`\|\alpha - \beta\| \le C`. α and C must not depend on
    the sample: of one that α was fitted to it promises nothing.

    Parameters
    ----------
    risk_change : float
        :math:`L_S(\beta) - L_S(\alpha)`, negative where β is better on the sample.
    capacity_of_difference : float
        θC.
    rho : float
        ρ, for the predictions of both.
    n : int
        Number of samples, independent of each other.
    delta : float
        δ, between 0 and 1.

    Returns
    -------
    float
        The bound, in units of the loss.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    _check(n, delta, capacity_of_difference=capacity_of_difference, rho=rho)
    spread = 2.0 + math.sqrt(-2.0 * math.log(delta))
    return risk_change + rho * capacity_of_difference / math.sqrt(n) * spread


def convergence_gap(
    n: int,
    n_steps: int,
    ridge: float,
    radius: float,
    rho: float,
    theta: float,
    kappa: float,
) -> float:
    r"""Bound the expected excess risk of stochastic functional gradient descent, eq. (74).

    .. math:: \frac{2\rho\theta B}{\sqrt n} + \lambda B^2 + \frac{8\rho^2}{\lambda n}
              + \frac{(\rho\kappa + \lambda B)^2}{2\lambda T} (1 + \log T)

    Over the best weighting of norm at most B; of the average of the iterates, Theorem 11.

    Parameters
    ----------
    n, n_steps : int
        Numbers of samples and of steps, T.
    ridge : float
        λ, positive.
    radius : float
        B, on whose ball the iterates are projected.
    rho : float
        ρ, for predictions up to θB.
    theta, kappa : float
        Of the instantiation, eqs. (25) and (26).

    Returns
    -------
    float
        The bound, in units of the loss; infinite where it is beyond float64.

    Raises
    ------
    ValueError
        If a number is out of its range.

    Notes
    -----
    The loss is ρθ-Lipschitz in the weighting. The paper's third term says ρ, which is less where
    θ is above 1 (it is not for Table 1): there the term has ρθ.
    """
    check_counts(n=n)
    check_counts(n_steps=n_steps)
    _check_sizes(radius=radius, rho=rho, theta=theta, kappa=kappa)
    check_positive(ridge=ridge)
    slope = rho * max(theta, 1.0)
    step = rho * kappa + ridge * radius
    # Products, not powers: those raise where they are beyond float64
    return (
        2.0 * rho * theta * radius / math.sqrt(n)
        + ridge * radius * radius
        + 8.0 * slope * slope / (ridge * n)
        + step * step / (2.0 * ridge * n_steps) * (1.0 + math.log(n_steps))
    )


def convergence_ridge(n: int, radius: float, rho: float) -> float:
    r"""Return the λ that makes `convergence_gap` the bound of eq. (75).

    .. math:: \lambda = \sqrt{\frac{8 \rho^2}{B^2 n}}

    It balances the two terms of eq. (74) that do not fall with the number of steps:
    :math:`\lambda B^2` and :math:`8 \rho^2 / \lambda n`.

    Parameters
    ----------
    n : int
        Number of samples.
    radius : float
        B, on whose ball the iterates are projected, positive.
    rho : float
        ρ, for predictions up to θB.

    Returns
    -------
    float
        λ.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    check_counts(n=n)
    _check_sizes(rho=rho)
    check_positive(radius=radius)
    return rho / radius * math.sqrt(8.0 / n)


def pruning_penalty(
    tolerance: float, n_parameters: int, *, rho: float, theta: float, coefficient_sum: float
) -> float:
    r"""Return the Lasso's penalty under which pruning costs less than ε, eq. (62).

    .. math:: \lambda_{Lasso} = \frac{\varepsilon^2}{12\, T \rho^2 \theta^2 \|a\|_1}

    It is the penalty of eq. (60), in the units of the coefficients, at which Algorithm 5 may start.
    By eq. (61) the minimiser then differs by at most :math:`\varepsilon / \rho\theta` in norm, and
    by Lemma 7 the risk by at most ε.

    Parameters
    ----------
    tolerance : float
        ε: how much the risk may change, positive.
    n_parameters : int
        T.
    rho : float
        ρ, for the predictions of both weightings, positive.
    theta : float
        θ of the instantiation, positive.
    coefficient_sum : float
        :math:`\|a\|_1`, positive.

    Returns
    -------
    float
        λ of eq. (60); infinite where it is beyond float64.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """
    check_counts(n_parameters=n_parameters)
    check_positive(tolerance=tolerance, rho=rho, theta=theta, coefficient_sum=coefficient_sum)
    # Logarithms: coefficients may be as large as θ is small, and both far from 1
    log_penalty = 2.0 * (math.log(tolerance) - math.log(rho) - math.log(theta))
    log_penalty -= math.log(12.0 * n_parameters) + math.log(coefficient_sum)
    try:
        return math.exp(log_penalty)
    except OverflowError:
        return math.inf


def _check(n: int, delta: float, **sizes: float) -> None:
    check_counts(n=n)
    check_delta(delta)
    _check_sizes(**sizes)


def _check_sizes(**sizes: float) -> None:
    for name, value in sizes.items():
        if not value >= 0.0:
            msg = f"expected {name} of at least 0, got {value}"
            raise ValueError(msg)
