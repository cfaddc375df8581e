"""Special functions, which the array-API standard lacks."""

from __future__ import annotations

from gpukfl._accel.trust import has_compiled_code
from gpukfl.core._array import (
    Array,
    array_namespace,
    clip,
    epsilon,
    is_cupy,
    is_host,
    is_on_gpu,
    is_torch,
)

_SATURATED = 6.0  # erf is 1 to double precision from here on
_MIDDLE = 0.46875  # where one quotient takes over from the other
# Numerators and denominators of quotients of polynomials, highest power first
_NEAR = (
    (
        1.85777706184603153e-1,
        3.16112374387056560,
        1.13864154151050156e2,
        3.77485237685302021e2,
        3.20937758913846947e3,
    ),
    (
        1.0,
        2.36012909523441209e1,
        2.44024637934444173e2,
        1.28261652607737228e3,
        2.84423683343917062e3,
    ),
)
_FAR = (
    (
        2.15311535474403846e-8,
        5.64188496988670089e-1,
        8.88314979438837594,
        6.61191906371416295e1,
        2.98635138197400131e2,
        8.81952221241769090e2,
        1.71204761263407058e3,
        2.05107837782607147e3,
        1.23033935479799725e3,
    ),
    (
        1.0,
        1.57449261107098347e1,
        1.17693950891312499e2,
        5.37181101862009858e2,
        1.62138957456669019e3,
        3.29079923573345963e3,
        4.36261909014324716e3,
        3.43936767414372164e3,
        1.23033935480374942e3,
    ),
)


def erf(x: Array, /) -> Array:
    """Return the error function in the library, device and dtype of `x`."""
    if has_compiled_code(x):
        from scipy.special import erf as twin

        return twin(x)
    if is_cupy(x):
        from cupyx.scipy.special import erf as twin

        return twin(x)
    if is_torch(x):
        import torch

        return torch.special.erf(x)
    return _erf(x)


def _erf(x: Array, /) -> Array:
    r"""Return rational approximations :math:`x R(x^2)` near 0, else :math:`1 - e^{-x^2} R(x)`.

    Of W. J. Cody, "Rational Chebyshev approximations for the error function", Mathematics of
    Computation 23, 1969: relative errors of some units in the last place of float64.
    """
    xp = array_namespace(x)
    size = xp.abs(x)
    inner = clip(x, low=-_MIDDLE, high=_MIDDLE)
    near = inner * _quotient(_NEAR, inner * inner)
    outer = clip(size, low=_MIDDLE, high=_SATURATED)
    far = xp.sign(x) * (1.0 - xp.exp(-outer * outer) * _quotient(_FAR, outer))
    return xp.where(size <= _MIDDLE, near, far)


def _quotient(of: tuple[tuple[float, ...], tuple[float, ...]], x: Array) -> Array:
    above, below = (_polynomial(coefficients, x) for coefficients in of)
    return above / below


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        total = total * x + coefficient
    return total


# ---------------------------------------------------------------------------------- traces

# Values so small that they say nothing, and cost much.


def drop_negligible(values: Array, /) -> Array:
    """Set values of a kernel to 0 below the squared machine epsilon.

    NumPy's in their place. Sums with others cannot tell them from 0; but products of them are below
    the smallest normal number, with which a processor takes up to fifty times as long. GPUs do not.
    """
    if is_on_gpu(values):
        return values
    least = epsilon(values) ** 2
    if is_host(values):
        values[values < least] = 0.0
        return values
    xp = array_namespace(values)
    return xp.where(values < least, xp.zeros_like(values), values)
