"""Few mixtures of many targets, which stand for all of them in sums over targets."""

from __future__ import annotations

import math

from gpukfl._array import Array, array_namespace, beside, small_beside
from gpukfl._draws import orthonormal

MOST = 10  # targets up to which all are taken; with more, as many mixtures
JUDGING = 20  # the same where numbers are chosen by errors, which are cheaper than gradients


def mixtures_of(Y: Array, /, at_most: int = MOST) -> Array:
    r"""Mix many targets: :math:`Y \Omega` with :math:`E[\Omega \Omega^\top] = I`.

    What adds up over targets a form that is quadratic in each, as errors, ridge objectives and
    average gradient outer products do, has of the mixtures the value of all targets on average.

    Parameters
    ----------
    Y : array, shape (n, t)
        Targets, or coefficients of functions that predict them.
    at_most : int
        s, at least 1.

    Returns
    -------
    array, shape (n, min(t, s))
        `Y` itself where t is at most s. The mixtures are the same at every call.

    Notes
    -----
    Columns of Ω are orthogonal, :math:`t / s` is their squared length, and their directions are
    uniform: a form of one target in t varies by about :math:`\sqrt{2 / s}` of itself, and the sum
    over many alike by :math:`\sqrt{2 / s t}`.

    References
    ----------
    .. [1] Johnson and Lindenstrauss, "Extensions of Lipschitz mappings into a Hilbert space",
       1984, Lemma 1.
    """
    t = Y.shape[1]
    if t <= at_most:
        return Y
    omega = math.sqrt(t / at_most) * orthonormal(t, at_most, 0)
    placed = beside(omega, small_beside(Y))
    return array_namespace(Y).astype(Y @ placed, Y.dtype, copy=False)
