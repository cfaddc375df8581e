r"""Titsias' lower bound on the evidence from q centres, for many samples.

With the whitened sums of `NystromSystem`, :math:`H = L^{-1} K_{qn} D K_{nq} L^{-\top}` and
:math:`b = L^{-1} K_{qn} D Y` where :math:`K_{qq} = L L^\top`,

.. math:: F = -\tfrac n2 \log a_c^2 - \tfrac12 \log |rI + H| - \tfrac{n - q}2 \log r
              + \tfrac12 \log |D| - \tfrac n2 (1 + \log 2\pi)
              - \tfrac1{2r} \Big(\sum_i w_i k(x_i, x_i) - \mathrm{tr}\, H\Big)

for each target, with :math:`a_c^2 = (y_c^\top D y_c - b_c^\top (rI + H)^{-1} b_c) / n r`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, like, to_double, to_host
from gpukfl.core._lazy import OldName
from gpukfl.kernels import Kernel, sum_terms
from gpukfl.linalg import CholeskyFactor, add_to_diagonal
from gpukfl.methods._evidence import LOG_2PI, Slopes, pull_terms
from gpukfl.methods._kernel_ridge import DenseSystem
from gpukfl.methods._nystrom import NystromFactor, NystromSystem
from gpukfl.methods._ridge_path import Fold
from gpukfl.operators import KernelOperator, map_gradient
from gpukfl.partitioned._rows import Rows

# ----------------------------------------------------------------------------- lengthscale

# A kernel's lengthscale, by leaving out each of some samples.


STRETCHES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # of the typical distance
_START = 2.0  # where the climb begins: the median distance is seldom too long
_GAIN = 2e-3  # share of the error that is worth another lengthscale, and more than rounding


def leave_one_out_lengthscale(
    kernel: Kernel,
    X: Array,
    Y: Array,
    weights: Array | None,
    /,
    *,
    typical: float,
    ridges: Sequence[float],
    left_out: Sequence[Fold] | None = None,
) -> float:
    """Choose a lengthscale by leave-one-out, with the best ridge at each.

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
    left_out : sequence of host arrays, optional
        Samples that are left out together; None is each alone.

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
        system = DenseSystem.from_kernel(K, Y, weights).near_spectrum()
        if left_out is not None:
            return system.held_out(left_out, ridges).lowest
        return system.leave_one_out(ridges).lowest

    return typical * lowest_nearby(error, STRETCHES, _START)


def lowest_nearby(
    error: Callable[[float], float],
    grid: Sequence[float],
    start: float,
    /,
    *,
    gain: float = _GAIN,
) -> float:
    """Walk up, or else down, an ascending grid while the error falls by a share."""
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


_SHARES = (1.0, 0.1, 0.01, 1e-3)  # of the noise that rounding may stay below
_FACTORS = tuple(4.0**k for k in range(-14, 15))  # of a ratio, that are tried one after the other
_RAISED = tuple(10.0**k for k in range(7))  # times a ratio that is below the rounding
# Nats of a sample and target. With less, errors on other rows did not fall (four sets of 4800 to
# 8000 samples)
_ENOUGH = 3e-4
_CHUNK = 64  # rows whose pairs are taken, for the slopes of the kernel's diagonal


@dataclass(frozen=True, eq=False)
class BoundPosterior:
    """The posterior of f through centres at a map and a noise ratio."""

    ratio: float
    factor: NystromFactor  # of the kernel among the centres
    H: Array  # (q, q)
    b: Array  # (q, t)
    inner: CholeskyFactor  # of rI + H
    squares: Array  # squared amplitudes (t,); 1 where a target is 0
    count: float  # of the targets that vary: of others there is nothing to say

    @classmethod
    def from_system(cls, system: NystromSystem, ratio: float, count: float, /) -> BoundPosterior:
        """Compute the posterior from the sums of one pass: O(q³).

        Raises
        ------
        numpy.linalg.LinAlgError
            If a matrix is not positive definite in float64.
        """
        xp = array_namespace(system.gram)
        n = system.operator.shape[0]
        factor, H, b, inner = _factor_definite(system, ratio)
        missed = system.squares - xp.sum(b * inner.solve(b), axis=0)
        squares = xp.where(missed > 0, missed / (n * ratio), xp.ones_like(missed))
        return cls(ratio, factor, H, b, inner, squares, count)

    @property
    def g(self) -> Array:
        """Coefficients (q, t) of the whitened centres."""
        return self.inner.solve(self.b)

    @property
    def dual_coef(self) -> Array:
        """Coefficients α (q, t) of the posterior mean, a sum of kernels of the centres."""
        return self.factor.L.solve_upper(self.g)

    @property
    def factors(self) -> tuple[Array, Array]:
        """The factors (q, q) of the centres' kernel and of I + H / r, for `variances`."""
        return self.factor.L.L, self.inner.L / math.sqrt(self.ratio)

    def evidence(self, n: int, log_weight: float, diagonal: float, /) -> float:
        """Return the bound in nats, summed over targets.

        For n rows, by the sum of the logarithms of their weights and of the weighted diagonal.
        """
        xp = array_namespace(self.H)
        q, t = self.b.shape[0], self.count
        logs = float(xp.sum(xp.log(self.squares)))
        volume = 2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(self.inner.L))))
        each = volume + (n - q) * math.log(self.ratio) - log_weight
        each += (diagonal - _trace(self.H)) / self.ratio
        return -0.5 * (n * logs + t * each + n * t * (1.0 + LOG_2PI))

    of = OldName("from_system")


class BoundCriterion:
    r"""The bound as a function of map and noise ratio, by row blocks.

    Parameters
    ----------
    kernel : Kernel
        The function k, at lengthscale 1.
    rows : Rows
        Data (n, d), which may be a memory map.
    Z : array, shape (q, d)
        Centres.
    Y : array, shape (n, t)
        Targets of mean 0.
    weights : array, shape (n, 1), optional
        Sample weights w, positive, of mean 1: sample i has noise of variance :math:`a^2 r / w_i`.
    count : int, optional
        How many of the targets vary, where some are 0.

    Notes
    -----
    In float64. Two passes over the rows and O(n q² + q³) for a value with its gradient; with all
    rows for centres it is the evidence.

    References
    ----------
    .. [1] Titsias, "Variational learning of inducing variables in sparse Gaussian processes",
       AISTATS 2009, eq. (9).
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        Z: Array,
        Y: Array,
        /,
        *,
        weights: Array | None = None,
        count: int | None = None,
    ) -> None:
        self.count = float(Y.shape[1] if count is None else count)
        self.kernel, self.Z = kernel, to_double(Z)
        self.rows = replace(rows, reference=self.Z[:0, 0]).materialize()
        self.Y = to_double(Y)
        self.weights = None if weights is None else to_double(weights)

    @property
    def scale(self) -> float:
        """The number of samples times that of targets, the scale of the values."""
        return float(self.Y.shape[0]) * max(self.count, 1.0)

    def enough(self, *, diagonal: bool) -> float:  # noqa: ARG002
        """Return the minimal gain of a step, in nats per sample and target."""
        return _ENOUGH

    def with_kernel(self, kernel: Kernel, /) -> Self:
        """Return the same criterion of another kernel."""
        other = copy(self)
        other.kernel = kernel
        return other

    def system(self, C: Array, /) -> NystromSystem:
        """Compute the sums at a map (k, d), a diagonal one (d,), or several (s, 1, d)."""
        B = array_namespace(self.Z).astype(C, self.Z.dtype)
        operator = KernelOperator(self.kernel, self.rows, self.Z, B, keep=True)
        return NystromSystem.from_rows(operator, self.Y, self.weights)

    def evaluate(self, C: Array, ratio: float, /) -> tuple[BoundPosterior, float]:
        """Return the posterior and the bound at a map: two passes.

        A ratio below the rounding of the sums is raised by tens; the posterior has the one taken.

        Raises
        ------
        numpy.linalg.LinAlgError
            If a matrix is not positive definite in float64 even so.
        """
        solved = self._make_solver(C)
        for raised in _RAISED[:-1]:
            try:
                return solved(raised * ratio)
            except np.linalg.LinAlgError:
                continue
        return solved(_RAISED[-1] * ratio)

    def ratio_nearby(self, C: Array, ratio: float, /) -> float:
        """Return a nearby noise ratio with a higher bound at a map: two passes.

        A ratio of fewer rows, or of other centres, may be orders of magnitude too small, and a
        descent of all numbers would take many steps to come from there.
        """
        evaluated = self._make_solver(C)

        def error(at: float) -> float:
            try:
                return -evaluated(at)[1]
            except np.linalg.LinAlgError:
                return math.inf

        return lowest_nearby(error, [ratio * factor for factor in _FACTORS], ratio, gain=0.0)

    def _make_solver(self, C: Array) -> Callable[[float], tuple[BoundPosterior, float]]:
        """Pass over the rows at a map; return a function from ratios to posterior and bound."""
        system = self.system(C)
        operator, log_weight = system.operator, self.log_weight

        def compute(start: int, stop: int) -> tuple[Array, ...]:
            U = operator.project(self.rows.block(start, stop))
            return (self._diagonal(U, start, stop),)

        (diagonal,) = operator.sum_over_blocks(compute)

        def evaluate(ratio: float) -> tuple[BoundPosterior, float]:
            posterior = BoundPosterior.from_system(system, ratio, self.count)
            return posterior, posterior.evidence(operator.shape[0], log_weight, float(diagonal))

        return evaluate

    def _diagonal(self, U: Array, start: int, stop: int) -> Array:
        """Sum the weighted diagonal of the kernel over a block."""
        own = self.kernel.diagonal(U)
        w = self.weights
        return array_namespace(U).sum(own if w is None else w[start:stop, 0] * own)

    def __call__(self, C: Array, ratio: float, /) -> Slopes:
        """Evaluate with the gradient at a map (k, d), a diagonal one (d,), or several (s, 1, d)."""
        system = self.system(C)
        posterior = BoundPosterior.from_system(system, ratio, self.count)
        xp, operator = array_namespace(self.Z), system.operator
        (n, q), t, r = operator.shape, self.count, ratio
        g, one = posterior.g, xp.eye(q, **like(self.Z))
        of_M = -0.5 / r * ((g / posterior.squares[None, :]) @ g.T) - 0.5 * t * (
            posterior.inner.inverse()
        )
        L = posterior.factor.L
        of_gram = L.unwhiten(of_M + 0.5 * t / r * one)
        of_core = L.unwhiten(r * of_M + 0.5 * t * one - 0.5 * t / r * posterior.H)
        of_moment = L.solve_upper(g) / (r * posterior.squares[None, :])
        diagonal, metric, dV, factors = self._slopes(operator, C, of_gram, of_moment, -0.5 * t / r)
        V, kernels = operator.centers, sum_terms(self.kernel)
        parts = _evaluate_terms(kernels, V, V, operator.core)
        here, there, sums = pull_terms(kernels, V, V, of_core, parts)
        metric = metric + map_gradient(dV + here + there, self.Z, C)
        factors = factors + xp.sum(sums, axis=0)
        trace = _trace(posterior.H)
        log_ratio = r * _trace(of_M) + 0.5 * t * q
        log_ratio += 0.5 * t / r * (float(diagonal) - trace)
        value = posterior.evidence(n, self.log_weight, float(diagonal))
        return Slopes(value, to_host(metric), log_ratio, to_host(factors))

    @property
    def log_weight(self) -> float:
        """Sum of the logarithms of the weights."""
        xp = array_namespace(self.Y)
        return 0.0 if self.weights is None else float(xp.sum(xp.log(self.weights)))

    def _slopes(
        self,
        operator: KernelOperator,
        C: Array,
        of_gram: Array,
        of_moment: Array,
        of_diagonal: float,
    ) -> list[Array]:
        """Return the weighted diagonal, and derivatives in map, centres and factors of terms."""
        xp, kernels = array_namespace(self.Z), sum_terms(self.kernel)

        def compute(start: int, stop: int) -> tuple[Array, ...]:
            X = self.rows.block(start, stop)
            U = operator.project(X)
            K = operator.values(start, stop, U)
            P = 2.0 * (K @ of_gram) + self.Y[start:stop, :] @ of_moment.T
            w = xp.ones_like(U[:, :1]) if self.weights is None else self.weights[start:stop, :]
            parts = _evaluate_terms(kernels, U, operator.centers, K)
            dU, dV, sums = pull_terms(kernels, U, operator.centers, w * P, parts)
            dU = dU + of_diagonal * _diagonal_slopes(self.kernel, U, w)
            factors = xp.sum(sums, axis=0)
            if len(kernels) > 1:
                own = [xp.sum(w[:, 0] * one.diagonal(U)) for one in kernels]
                factors = factors + of_diagonal * xp.stack(own)
            return self._diagonal(U, start, stop), map_gradient(dU, X, C), dV, factors

        return operator.sum_over_blocks(compute)

    evaluated = OldName("evaluate")


def _factor_definite(
    system: NystromSystem, ratio: float
) -> tuple[NystromFactor, Array, Array, CholeskyFactor]:
    """Factor the centres' kernel and the residual, with as much jitter as needed.

    Rounding of sums over many rows, divided by the jitter, may exceed the noise ratio.
    """
    for share in _SHARES:
        factor = system.factor(share * ratio / system.operator.shape[0])
        H, b = system.whiten(factor)
        try:
            return factor, H, b, CholeskyFactor.factor(add_to_diagonal(H, ratio), overwrite=True)
        except np.linalg.LinAlgError:
            if share == _SHARES[-1]:
                raise
    raise AssertionError


def _evaluate_terms(kernels: Sequence[Kernel], U: Array, V: Array, K: Array) -> list[Array]:
    """Return the values (n, q) of the terms of a sum, which are `K` together."""
    return [K] if len(kernels) == 1 else [one._evaluate(U, V) for one in kernels]


def _trace(A: Array) -> float:
    xp = array_namespace(A)
    return float(xp.sum(xp.linalg.diagonal(A)))


def _diagonal_slopes(kernel: Kernel, U: Array, w: Array) -> Array:
    """Differentiate the sum of w_i k(u_i, u_i) with respect to the rows of U (n, k)."""
    xp, parts = array_namespace(U), []
    for start in range(0, U.shape[0], _CHUNK):
        stop = min(start + _CHUNK, U.shape[0])
        part, one = U[start:stop, :], xp.eye(stop - start, **like(U))
        here, there = kernel._pullback(part, part, w[start:stop, :] * one, None)
        parts.append(here + there)
    return xp.concat(parts, axis=0)
