r"""Kernel ridge regression with all samples as centres.

With N the sum of the weights D,

.. math:: \min_f \frac1N \sum_i D_i (f(x_i) - y_i)^2 + \lambda \|f\|^2, \qquad
          f = \sum_i \alpha_i k(\cdot, x_i), \qquad
          \alpha = D^{1/2} (D^{1/2} K D^{1/2} + N \lambda I)^{-1} D^{1/2} Y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpukfl._array import (
    Array,
    array_namespace,
    clipped,
    epsilon,
    index_like,
    like,
    sample_norm,
    to_host,
)
from gpukfl._draws import others
from gpukfl._results import Solution
from gpukfl.linalg import (
    add_to_diagonal,
    back_beside,
    eigh,
    eigh_and_read,
    mean_diagonal,
    on_host_if_small,
    solve_and_read,
)
from gpukfl.methods._mixtures import JUDGING, mixtures_of
from gpukfl.methods._nystrom import NystromSystem, indefinite
from gpukfl.methods._ridge_path import Fold, RidgePath
from gpukfl.operators import KernelMatrix
from gpukfl.solvers import ConjugateGradient, NystromPreconditioner

_RAISE, _LARGEST_JITTER = 100.0, 1e-2


@dataclass(frozen=True, eq=False)
class DenseSystem:
    """The system of all samples, with the kernel matrix in memory: O(n²) memory, O(n³) time."""

    K: Array  # (n, n), weighted on both sides
    Y: Array  # (n, t), weighted
    root_weights: Array | None  # (n, 1)
    weight: float  # N
    place: Array  # of no rows, where what is found goes

    @classmethod
    def of(cls, K: Array, Y: Array, weights: Array | None, /) -> DenseSystem:
        """Weigh `K` (n, n) and `Y` (n, t)."""
        xp, place = array_namespace(K), Y[:0, :]
        if weights is None:
            return cls(K, Y, None, float(K.shape[0]), place)
        s = xp.sqrt(weights)
        return cls(s * K * s.T, s * Y, s, float(xp.sum(weights, dtype=xp.float64)), place)

    def near_spectrum(self) -> DenseSystem:
        """Give the same where its eigenvalues are found: of few samples of a GPU on the host.

        There errors of all ridges, and the solution, are made without a launch or a wait.
        """
        roots = () if self.root_weights is None else (self.root_weights,)
        K, Y, *rest = on_host_if_small(self.K, self.Y, *roots)
        return replace(self, K=K, Y=Y, root_weights=rest[0] if rest else None)

    def variation(self) -> float:
        """Variance of the samples in the kernel's feature space."""
        K, n = self.K, self.K.shape[0]
        xp, N = array_namespace(K), self.weight
        s = xp.ones((n, 1), **like(K)) if self.root_weights is None else self.root_weights
        return float(mean_diagonal(K) * (n / N) - xp.sum(s * (K @ s)) / N**2)

    def _found(self, beta: Array) -> Array:
        """Coefficients of the kernel itself, in their place."""
        alpha = beta if self.root_weights is None else self.root_weights * beta
        return back_beside(alpha, self.place)

    def solve(self, ridge: float, /) -> tuple[Array, float, Array]:
        """Solve by a Cholesky factor: a GPU is waited for once.

        Returns
        -------
        tuple
            α (n, t), the jitter that had to be added relative to the mean diagonal (0 where the
            matrix is positive definite as it is), and on the host relative residuals (t,).

        Raises
        ------
        numpy.linalg.LinAlgError
            If no small jitter makes the matrix positive definite.
        """
        xp, size = array_namespace(self.K), sample_norm(self.Y)
        size = xp.where(size > 0, size, xp.ones_like(size))

        def residuals(beta: Array, shift: Array | float) -> Array:
            return sample_norm(self.Y - self.K @ beta - shift * beta) / size

        beta, found, jitter = self._solved(ridge, residuals)
        return self._found(beta), jitter, found

    def coefficients_and(
        self, ridge: float, measure: Callable[[Array], Array], /
    ) -> tuple[Array, Array]:
        """Give the α of `solve` alone, and on the host the vector ``measure(α)``: one wait."""
        beta, numbers, _ = self._solved(ridge, lambda beta, _: measure(self._found(beta)))
        return self._found(beta), numbers

    def _solved(
        self, ridge: float, measure: Callable[[Array, Array | float], Array]
    ) -> tuple[Array, Array, float]:
        """Give β, what is measured of it and of the whole shift, and the jitter."""
        jitter = 0.0
        shift: Array | float = self.weight * ridge
        while True:
            try:
                return *self._shifted(shift, measure), jitter
            except np.linalg.LinAlgError as error:
                if jitter > _LARGEST_JITTER:
                    raise indefinite(self.K.shape[0], jitter) from error
                jitter = max(jitter * _RAISE, self.K.shape[0] * epsilon(self.K))
                shift = self.weight * ridge + jitter * mean_diagonal(self.K)

    def _shifted(
        self, shift: Array | float, measure: Callable[[Array, Array | float], Array]
    ) -> tuple[Array, Array]:
        A = add_to_diagonal(self.K, shift)
        return solve_and_read(A, self.Y, lambda beta: measure(beta, shift))

    @cached_property
    def _spectrum(self) -> tuple[Array, Array]:
        s, Q = eigh(self.K)
        return clipped(s, low=0.0), Q

    def leave_one_out(self, ridges: Sequence[float], /) -> RidgePath:
        r"""Leave-one-out error over all ridges from one eigendecomposition.

        The residual without sample i is :math:`\alpha_i / [(K + N \lambda I)^{-1}]_{ii}`: a sample
        is left out with all of its weight. Of many targets, mixtures stand for them.
        """

        def errors(s: Array, Q: Array) -> Array:
            return self._errors_left_out(ridges, clipped(s, low=0.0), Q)

        if "_spectrum" in self.__dict__:
            scores = to_host(self._errors_left_out(ridges, *self._spectrum))
        else:  # what is measured is read with whether there is a spectrum
            s, Q, scores = eigh_and_read(self.K, errors)
            self.__dict__["_spectrum"] = clipped(s, low=0.0), Q
        return RidgePath(list(ridges), [float(score) for score in scores])

    def _errors_left_out(self, ridges: Sequence[float], s: Array, Q: Array) -> Array:
        xp, Y = array_namespace(self.K), mixtures_of(self.Y, JUDGING)
        shifts = self.weight * xp.asarray(list(ridges), **like(self.K))
        shrunk = 1.0 / (s[:, None] + shifts[None, :])  # (n, ridges)
        inverse, turned = (Q * Q) @ shrunk, Q.T @ Y
        total = xp.zeros_like(shifts)
        for c in range(Y.shape[1]):
            left = Q @ (shrunk * turned[:, c][:, None]) / inverse
            total = total + xp.sum(left * left, axis=0)
        return total / self.weight

    def left_out(self, ridge: float, /) -> Array:
        """Predict each sample by the others, (n, t): from the same eigendecomposition."""
        s, Q = self._spectrum
        shrunk = (1.0 / (s + self.weight * ridge))[:, None]
        predicted = self.Y - Q @ (shrunk * (Q.T @ self.Y)) / ((Q * Q) @ shrunk)
        if self.root_weights is not None:
            xp = array_namespace(self.K)
            nothing = self.root_weights == 0  # whose predictions nobody weighs
            ones = xp.ones_like(self.root_weights)
            predicted = predicted / xp.where(nothing, ones, self.root_weights)
        return back_beside(predicted, self.place)

    def held_out(self, folds: Sequence[Fold], ridges: Sequence[float], /) -> RidgePath:
        """Error on the samples at each fold's host indices by the fit to the others: O(n³) each."""
        totals, total = [0.0] * len(ridges), 0.0
        for fold in folds:
            *errors, weight = self._errors_on(fold, ridges)
            totals = [a + b for a, b in zip(totals, errors, strict=True)]
            total += self.weight - weight
        return RidgePath(list(ridges), [error / total for error in totals])

    def _errors_on(self, fold: Fold, ridges: Sequence[float]) -> list[float]:
        """Sum of squared errors on a fold for each ridge, and the weight of the others."""
        xp, inside = array_namespace(self.K), others(fold, self.K.shape[0])
        known, unknown = (xp.asarray(index, **index_like(self.K)) for index in (inside, fold))
        K, Y = xp.take(self.K, known, axis=1), xp.take(self.Y, known, axis=0)
        across, target = xp.take(K, unknown, axis=0), xp.take(self.Y, unknown, axis=0)
        roots = xp.ones_like(self.Y[:, :1]) if self.root_weights is None else self.root_weights
        weight = sample_norm(xp.take(roots, known, axis=0)) ** 2

        def errors(s: Array, Q: Array) -> Array:
            s, turned, T, sums = clipped(s, low=0.0), Q.T @ Y, across @ Q, []
            own = xp.astype(weight, s.dtype)
            for ridge in ridges:
                left = target - T @ (turned / (s + own * ridge)[:, None])
                sums.append(xp.sum(left * left, dtype=xp.float64))
            return xp.concat([xp.stack(sums), weight])

        return eigh_and_read(xp.take(K, known, axis=0), errors)[2].tolist()


def solve_by_conjugate_gradients(
    kernel: KernelMatrix,
    Y: Array,
    weights: Array | None,
    /,
    *,
    ridge: float,
    preconditioner: Callable[[Array], Array],
    solver: ConjugateGradient,
) -> tuple[Array, Solution]:
    """Solve for α (n, t) without storing the kernel matrix: O(n² d) for each iteration."""
    xp = array_namespace(Y)
    s = None if weights is None else xp.sqrt(weights)
    weight = float(Y.shape[0]) if weights is None else float(xp.sum(weights, dtype=xp.float64))

    def apply(V: Array) -> Array:
        product = kernel @ (V if s is None else s * V)
        return (product if s is None else s * product) + weight * ridge * V

    solution = solver.solve(apply, Y if s is None else s * Y, precondition=preconditioner)
    return (solution.x if s is None else s * solution.x), solution


def nystrom_preconditioner(
    system: NystromSystem, weights: Array | None, ridge: float, /
) -> NystromPreconditioner:
    """Approximate inverse of the weighted kernel matrix plus Nλ from its centres: O(n q²)."""
    operator = system.operator
    xp = array_namespace(operator.Z)
    factor = system.factor(ridge)
    inner, _ = system.whitened(factor)
    squares, V = eigh(inner)
    squares, V = xp.flip(squares), xp.flip(V, axis=1)
    floor = max(float(squares[0]), 1e-300) * squares.shape[0] * epsilon(operator.Z)
    back = factor.L.solve_upper(V) / xp.sqrt(clipped(squares, low=floor))[None, :]
    U = operator @ xp.astype(back, operator.Z.dtype)
    if weights is not None:
        U = xp.sqrt(weights) * U
    eigenvalues = xp.astype(clipped(squares, low=0.0), U.dtype)
    return NystromPreconditioner(U, eigenvalues, system.weight * ridge)
