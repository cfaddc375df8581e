"""Exponential decay, the most expensive part of kernels."""

from __future__ import annotations

from gpukfl._accel.trust import has_compiled_code
from gpukfl.core._array import Array, array_namespace


def decay(
    s: Array, coefficients: tuple[float, ...] = (1.0,), /, *, rate: float = 1.0, root: bool = False
) -> Array:
    r"""Return a polynomial times an exponential, :math:`(c_0 + c_1 a + c_2 a^2)\, e^{-a}`.

    Parameters
    ----------
    s : array
        Numbers of at least 0, of any shape.
    coefficients : tuple of at most three floats
        :math:`c_0, c_1, c_2`.
    rate : float
        a is `rate` times s.
    root : bool
        Whether a is the square root of that.

    Returns
    -------
    array
        Of the shape and dtype of `s`.

    Notes
    -----
    Relative errors of about a eps, because a is rounded; of a few eps where it is not. Below the
    smallest normal number results are 0, or have fewer digits, and `s` may count as 0, as it does
    in float32 on a GPU. NaN stays NaN.

    Examples
    --------
    >>> import numpy as np
    >>> decay(np.array([0.0, 4.0]), (1.0, 1.0), root=True)
    array([1.        , 0.40600585])
    """
    if has_compiled_code(s):
        from gpukfl._accel import cpu_decay

        return cpu_decay.decay(s, coefficients, rate, root)
    return _decay(s, coefficients, rate, root)


def _decay(s: Array, coefficients: tuple[float, ...], rate: float, root: bool) -> Array:
    xp = array_namespace(s)
    if not root and len(coefficients) == 1:  # without a, which takes a pass of its own
        fallen = xp.exp(-rate * s)
        return fallen if coefficients == (1.0,) else coefficients[0] * fallen
    a = s if rate == 1.0 else rate * s
    a = xp.sqrt(a) if root else a
    fallen = xp.exp(-a)
    return fallen if coefficients == (1.0,) else _polynomial(coefficients, a) * fallen


def _polynomial(coefficients: tuple[float, ...], a: Array) -> Array | float:
    highest, *others = reversed(coefficients)
    if not others:
        return highest
    total = (a if highest == 1.0 else highest * a) + others[0]
    for coefficient in others[1:]:
        total = total * a + coefficient
    return total
