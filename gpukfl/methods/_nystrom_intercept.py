r"""Nyström kernel ridge regression with an unpenalised intercept.

.. math:: \min_{\alpha, c} \frac1N \|D^{1/2} (K_{nq} \alpha + c - Y)\|^2
          + \lambda\, \alpha^\top K_{qq}\, \alpha

from sums over the rows: at the best c columns of :math:`K_{nq}` and Y are less their means.
"""

from __future__ import annotations

from gpukfl._array import Array, array_namespace
from gpukfl.methods._nystrom import NystromFactor, NystromSystem
from gpukfl.operators import KernelOperator


def solve_with_intercept(
    operator: KernelOperator, Y: Array, weights: Array | None, /, *, ridge: float
) -> tuple[Array, Array, NystromFactor]:
    """Solve for the coefficients of the centres, and the intercept: one pass, O(n q² + q³).

    Parameters
    ----------
    operator : KernelOperator
        Kernel between data and centres.
    Y : array, shape (n, t)
        Targets.
    weights : array, shape (n, 1), optional
        Sample weights.
    ridge : float
        λ, positive.

    Returns
    -------
    tuple
        Dual coefficients (q, t) and intercept (t,) in float64, and the factor of the centres.
    """
    t, of_targets = Y.shape[1], array_namespace(Y)
    beside = of_targets.concat([Y, of_targets.ones_like(Y[:, :1])], axis=1)
    weighted = beside if weights is None else weights * beside
    gram, moment, sums = operator.moments(
        beside, weights, also=lambda start, stop: [_sums(weighted[start:stop, :])]
    )
    xp, N = array_namespace(gram), float(sums[t])
    mean, y_mean = moment[:, t:] / N, sums[:t] / N
    right = moment[:, :t] - N * mean * y_mean[None, :]
    centred = NystromSystem(operator, gram - N * mean @ mean.T, right, xp.zeros_like(y_mean), N)
    alpha, factor = centred.solve(ridge)
    return alpha, y_mean - (mean.T @ alpha)[0, :], factor


def _sums(Y: Array) -> Array:
    xp = array_namespace(Y)
    return xp.sum(Y, axis=0, dtype=xp.float64)
