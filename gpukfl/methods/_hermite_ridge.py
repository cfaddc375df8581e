"""Ridge regression on Hermite features, in the smaller of two views.

Equations (3.7) and (3.8) of Follain and Bach (arXiv:2307.12754), with an intercept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpukfl._array import Array, array_namespace, double_like, in_double
from gpukfl.linalg import add_to_diagonal, on_host_if_small, solve_and_read
from gpukfl.operators import HermiteOperator

Solution = tuple[np.ndarray, np.ndarray, float]


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Sums over the rows, which come in blocks: the normal equations (m, m)."""

    operator: HermiteOperator
    gram: Array  # of the centred features (m, m)
    right: Array  # their products with the centred targets (m, t)
    mean: Array  # of the features (m,)
    y_mean: Array  # (t,)
    y_squares: Array  # about the mean (t,)
    N: float  # sum of the weights

    @classmethod
    def of(cls, operator: HermiteOperator, Y: Array, weights: Array | None, /) -> FeatureSums:
        """One pass over the rows, O(n m²)."""
        t, wide = Y.shape[1], in_double(Y)
        xp = array_namespace(wide)
        beside = xp.concat([wide, xp.ones_like(wide[:, :1])], axis=1)
        found = operator.moments(beside, weights, also=_sums_of(wide, weights))
        gram, moment, *sums = on_host_if_small(*found)
        N, y_mean, squares = _about_means(Y.shape[0], *sums)
        mean = moment[:, t] / N
        gram = gram - N * mean[:, None] * mean[None, :]
        right = moment[:, :t] - N * mean[:, None] * y_mean[None, :]
        return cls(operator, gram, right, mean, y_mean, squares, N)

    def solve(self, ridge: float, stretch: np.ndarray | None = None, /) -> Solution:
        """Coefficients (m, t), intercept (t,) and objective, with `ridge` a sample; O(m³).

        With `stretch` (m,) of the features times these numbers.
        """
        gram, right, mean, xp = self.gram, self.right, self.mean, array_namespace(self.gram)
        if stretch is not None:
            s = xp.asarray(stretch, **double_like(gram))
            gram, right, mean = s[:, None] * gram * s[None, :], s[:, None] * right, s * mean

        def measure(theta: Array) -> tuple[Array, Array]:
            return theta, xp.sum(self.y_squares) - xp.sum(right * theta)

        theta, intercept, left = _solution(self, gram, ridge, right, mean, measure)
        # At the minimum the objective is (y'y - y'Phi theta) / N, both centred
        return theta, intercept, left / self.N


@dataclass(frozen=True, eq=False)
class SampleFeatures:
    """The features of all rows: the kernel equations (n, n)."""

    operator: HermiteOperator
    Phi: Array  # centred, times roots of the weights (n, m)
    right: Array  # centred targets, times these (n, t)
    mean: Array  # of the features (m,)
    y_mean: Array  # (t,)
    N: float  # sum of the weights

    @classmethod
    def of(cls, operator: HermiteOperator, Y: Array, weights: Array | None, /) -> SampleFeatures:
        """Form the features, O(n m s) for s factors each."""
        xp, wide = array_namespace(Y), in_double(Y)
        Phi = xp.astype(operator.dense(), xp.float64, copy=False)
        if weights is None:
            mean, y_mean, N = xp.mean(Phi, axis=0), xp.mean(wide, axis=0), float(Y.shape[0])
            return cls(operator, Phi - mean[None, :], wide - y_mean[None, :], mean, y_mean, N)
        w = in_double(weights)
        root, N = xp.sqrt(w), float(xp.sum(w))
        mean, y_mean = (Phi.T @ w)[:, 0] / N, xp.sum(w * wide, axis=0) / N
        right = root * (wide - y_mean[None, :])
        return cls(operator, root * (Phi - mean[None, :]), right, mean, y_mean, N)

    def solve(self, ridge: float, stretch: np.ndarray | None = None, /) -> Solution:
        """Like that of `FeatureSums`; O(n² m)."""
        xp = array_namespace(self.Phi)
        Phi, mean = self.Phi, self.mean
        if stretch is not None:
            s = xp.asarray(stretch, **double_like(Phi))
            Phi, mean = Phi * s[None, :], s * mean

        def measure(dual: Array) -> tuple[Array, Array]:
            return Phi.T @ dual, xp.sum(self.right * dual)

        K = Phi @ Phi.T
        theta, intercept, product = _solution(self, K, ridge, self.right, mean, measure)
        return theta, intercept, ridge * product  # N times the dual's inner product, over N


def ridge_system(
    operator: HermiteOperator, Y: Array, weights: Array | None, /
) -> FeatureSums | SampleFeatures:
    """Take the view of fewer unknowns; Y (n, t), weights (n, 1). Of rows in parts, their sums."""
    n, m = operator.shape
    by_sums = n > m or operator.rows.partitioning is not None
    return (FeatureSums if by_sums else SampleFeatures).of(operator, Y, weights)


def _solution(
    system: FeatureSums | SampleFeatures,
    K: Array,
    ridge: float,
    right: Array,
    mean: Array,
    measure: Callable[[Array], tuple[Array, Array]],
) -> Solution:
    """Solve with K and a ridge a sample; coefficients and a number are what is measured.

    All that is small is read together, so that a GPU waits once: the rest is done here.
    """
    xp, m, t = array_namespace(K), mean.shape[0], right.shape[1]

    def numbers(x: Array) -> Array:
        theta, number = measure(x)
        return xp.concat([xp.reshape(part, (-1,)) for part in (theta, mean, system.y_mean, number)])

    found = solve_with_room(K, system.N * ridge, right, numbers, system.operator)
    theta, means, y_mean, number = np.split(found, np.cumsum([m * t, m, t]))
    theta = theta.reshape(m, t)
    return theta, y_mean - means @ theta, float(number[0])


def solve_with_room(
    K: Array,
    ridge: float,
    right: Array,
    measure: Callable[[Array], Array],
    operator: HermiteOperator,
) -> np.ndarray:
    """Read a vector that is measured of the solution with K + ridge I.

    There is more on the diagonal where the ridge is below K's rounding.
    """
    with contextlib.suppress(np.linalg.LinAlgError):
        return solve_and_read(add_to_diagonal(K, ridge), right, measure)[1]
    xp = array_namespace(K)
    trace = float(xp.sum(xp.linalg.diagonal(K)))
    if not np.isfinite(trace):
        dtype = operator.rows.reference.dtype
        msg = (
            f"Hermite features of degree {operator.degree} overflow {dtype}: expected data of some "
            "standard deviations; give clip=6, or a smaller degree_decay"
        )
        raise FloatingPointError(msg)
    for jitter in (1e-15, 1e-14, 1e-13):
        with contextlib.suppress(np.linalg.LinAlgError):
            return solve_and_read(add_to_diagonal(K, ridge + jitter * trace), right, measure)[1]
    try:
        return solve_and_read(add_to_diagonal(K, ridge + 1e-12 * trace), right, measure)[1]
    except np.linalg.LinAlgError as error:
        msg = (
            f"Hermite features of degree {operator.degree} are singular beyond rounding: expected "
            "data around 0 of about unit variance; scale them, or give a smaller degree_decay"
        )
        raise FloatingPointError(msg) from error


def _sums_of(Y: Array, weights: Array | None) -> Callable[[int, int], list[Array]]:
    """Sum targets, their squares and the weights, if any, of rows that lie together."""
    xp = array_namespace(Y)

    def part(start: int, stop: int) -> list[Array]:
        y = Y[start:stop, :]
        if weights is None:  # their sum is known without a wait
            return [xp.sum(y, axis=0), xp.sum(y**2, axis=0)]
        w = xp.astype(weights[start:stop, :], xp.float64)
        return [xp.sum(w * y, axis=0), xp.sum(w * y**2, axis=0), xp.sum(w)]

    return part


def _about_means(
    n: int, total: Array, squares: Array, weight: Array | None = None
) -> tuple[float, Array, Array]:
    """Sum of the weights, weighted means of n targets, and their squares about these."""
    N = float(n if weight is None else weight)
    mean = total / N
    return N, mean, squares - N * mean**2
