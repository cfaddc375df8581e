"""A kernel's lengthscale, by leaving out each of some samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpukfl._array import Array, array_namespace
from gpukfl.kernels import Kernel
from gpukfl.methods._kernel_ridge import DenseSystem

STRETCHES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the typical distance
_START = 2.0  # where the climb begins: the median distance is seldom too long
_GAIN = 2e-3  # share of the error that is worth another lengthscale, and more than rounding


def lengthscale_left_out(
    kernel: Kernel,
    X: Array,
    Y: Array,
    weights: Array | None,
    /,
    *,
    typical: float,
    ridges: Sequence[float],
) -> float:
    """Choose a lengthscale by leave-one-out, the ridge chosen anew at each.

    Parameters
    ----------
    kernel : Kernel
        At lengthscale 1.
    X, Y : arrays, shapes (n, d) and (n, t)
        Samples, some hundred of them, and targets of mean 0.
    weights : array, shape (n, 1), or None
        Sample weights.
    typical : float
        A typical distance; powers of two times it are tried, from a quarter to eight.
    ridges : sequence of float
        Among which to choose.

    Returns
    -------
    float
        Where the way from twice the typical distance has come to: three or four lengthscales are
        tried, O(n³) each.
    """
    xp = array_namespace(X)
    X, Y = xp.astype(X, xp.float64), xp.astype(Y, xp.float64)
    weights = None if weights is None else xp.astype(weights, xp.float64)

    def error(stretch: float) -> float:
        K = kernel.stretched(stretch * typical)._evaluate(X, X)
        return DenseSystem.of(K, Y, weights).near_spectrum().leave_one_out(ridges).lowest

    return typical * lowest_nearby(error, STRETCHES, _START)


def lowest_nearby(
    error: Callable[[float], float],
    grid: Sequence[float],
    start: float,
    /,
    *,
    gain: float = _GAIN,
) -> float:
    """Go up an ascending grid while that lowers the error by a share of it; or else down."""
    first = at = grid.index(start)
    lowest = error(start)
    for step in (1, -1):
        while 0 <= at + step < len(grid):
            found = error(grid[at + step])
            if not found < (1.0 - gain) * lowest:
                break
            at, lowest = at + step, found
        if at != first:
            break
    return grid[at]
