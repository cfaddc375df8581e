"""The objective of kernel feature selection in two forms: all samples, and centres among them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from gpukfl._array import (
    Array,
    array_namespace,
    epsilon,
    index_like,
    is_host,
    on_gpu,
)
from gpukfl._rows import Rows
from gpukfl.kernels import Manhattan, Radial
from gpukfl.linalg import (
    CholeskyFactor,
    add_to_diagonal,
    back_beside,
    difference_sums,
    eigh,
    on_host_if_small,
)
from gpukfl.methods._centers import choose_centers
from gpukfl.methods._kernel_ridge import DenseSystem
from gpukfl.methods._selection_objective import Point, SelectionObjective

_WAITS_UP_TO = 4096  # samples whose gradient a GPU computes in the time of a few waits
_RANK_FLOOR = 1e-10  # eigenvalues among the centres, relative to the largest, that are kept
_FINER = 4  # times as many centres say how far the gradient is off
_TINY = 1e-300


class DenseSelection(SelectionObjective):
    """J by the kernel matrix of all samples: O(n³ + n² p) time and O(n²) memory."""

    def of(self, X: Array, Y: Array, /) -> DenseSelection:
        return DenseSelection(self.kernel, X, Y, self.ridge, self.weights)

    def _evaluate(self, beta: np.ndarray, columns: np.ndarray | None, /) -> Point:
        """Evaluate: O(n³)."""
        xp = array_namespace(self.X)
        Z = self.scaled(self.X, beta)
        u = self.distances(Z, Z)
        K = self.kernel.profile(u)
        double = xp.astype(K, xp.float64, copy=False)
        system = DenseSystem.of(double, self.Y, self.weights)
        if columns is None or not on_gpu(K) or K.shape[0] > _WAITS_UP_TO:
            alpha, product = system.coefficients_and(self.ridge, self._product)
            return Point(beta, self._value(product), alpha, u, K)

        def measure(alpha: Array) -> Array:
            _, sums = self._weighted_sums(Point(beta, 0.0, alpha, u, K), columns, None)
            return xp.concat([self._product(alpha), sums])

        alpha, numbers = system.coefficients_and(self.ridge, measure)
        slopes = columns, np.asarray(numbers[1:])
        return Point(beta, self._value(numbers), alpha, u, K, slopes=slopes)

    def _weighted_sums(
        self, point: Point, columns: np.ndarray | None, orders: np.ndarray | None, /
    ) -> tuple[float, Array]:
        """Differentiate: O(n²) for each of the `columns`."""
        X = self._samples(columns, orders)
        return 1.0, difference_sums(self._of(point), X, power=self.kernel.power)

    def _pair_weights(self, point: Point, /) -> Array:
        """Weights A (n, n) of the differences in the gradient."""
        xp = array_namespace(self.X)
        assert point.pairs is not None
        assert point.kernel is not None
        slopes = self.kernel.derivative_from(point.pairs, point.kernel)
        pairs = (-0.5 * self.ridge * self.scale * point.alpha) @ point.alpha.T
        return pairs * xp.astype(slopes, xp.float64, copy=False)


class FactoredSelection(SelectionObjective):
    r"""J with :math:`K \approx L L^\top` by m centres: O(n m² + n m p) time, O(n (m + p)) memory.

    The slopes :math:`-h'(u)`, a kernel too, are factored by the same centres, and the columns of
    X are sorted once. At β = 0 both have rank one, and the gradient is exact.

    Parameters
    ----------
    kernel, X, Y, ridge, weights
        As of `SelectionObjective`.
    n_centers : int
        m.
    rng : RandomState
        Draws the centres.
    """

    def __init__(
        self,
        kernel: Radial | Manhattan,
        X: Array,
        Y: Array,
        ridge: float,
        weights: Array | None = None,
        /,
        *,
        n_centers: int,
        rng: np.random.RandomState,
    ) -> None:
        super().__init__(kernel, X, Y, ridge, weights)
        n = X.shape[0]
        self.n_centers, self.rng = min(n_centers, n), rng
        self.centers = np.sort(rng.choice(n, self.n_centers, replace=False))

    def of(self, X: Array, Y: Array, /) -> FactoredSelection:
        given = self.kernel, X, Y, self.ridge, self.weights
        return FactoredSelection(*given, n_centers=self.n_centers, rng=self.rng)

    def focus(self, beta: np.ndarray, /) -> None:
        """Choose the centres by pivoted Cholesky of the kernel at `beta`."""
        Z = self.scaled(self.X, beta)
        kernel = self.kernel.stretched(1.0 / self.kernel.lengthscale)
        self.centers = choose_centers(
            "pivoted", kernel, Rows(Z, Z[:0, :]), self.n_centers, ridge=self.ridge, rng=self.rng
        )
        self._point = self._latest = None

    def gradient_error(self, beta: np.ndarray, /) -> float:
        """Estimate how far the gradient is off at `beta` (p,), relative to its norm.

        It is compared with that through four times as many centres, in the variables whose weights
        are not 0: O(n m²). Draws as `focus` does.
        """
        columns = np.flatnonzero(beta)
        if not len(columns) or self.n_centers >= self.X.shape[0]:
            return 0.0
        given = self.kernel, self.X, self.Y, self.ridge, self.weights
        finer = FactoredSelection(*given, n_centers=_FINER * self.n_centers, rng=self.rng)
        finer.focus(beta)
        here, there = (one.gradient(one.at(beta), columns) for one in (self, finer))
        size = max(float(np.linalg.norm(there)), _TINY)
        return float(np.linalg.norm(here - there)) / size

    def _evaluate(self, beta: np.ndarray, _: np.ndarray | None, /) -> Point:
        """Evaluate: O(n m²)."""
        xp = array_namespace(self.X)
        Z = self.scaled(self.X, beta)
        index = xp.asarray(self.centers, **index_like(self.X))
        u = self.distances(Z, xp.take(Z, index, axis=0))
        given = self.kernel.profile(u)
        K = xp.astype(given, xp.float64, copy=False)
        # L = K W is not formed: one product of (n, m) with itself is all that grows with n
        weighted = self._root_shares * K
        moment = K.T @ self._shared_targets
        near = xp.take(u, index, axis=0), xp.take(given, index, axis=0)
        wide = [xp.astype(x, xp.float64, copy=False) for x in near]
        pairs, core, gram, right = on_host_if_small(*wide, weighted.T @ weighted, moment)
        W = _whitener(core, given)
        factor = CholeskyFactor.of(add_to_diagonal(W.T @ gram @ W, self.ridge))
        a = W @ factor.solve(W.T @ right)
        alpha = self.shares * (self.Y - K @ back_beside(a, self.Y)) / self.ridge
        if is_host(core) and not is_host(u):  # no more is waited for
            value = 0.5 * (self._squares - float(array_namespace(a).sum(right * a)))
            return Point(beta, value, alpha, u, given, (pairs, core))
        return Point(beta, self._value(self._product(alpha)), alpha, u, given, near)

    @cached_property
    def _root_shares(self) -> Array:
        return array_namespace(self.shares).sqrt(self.shares)

    @cached_property
    def _shared_targets(self) -> Array:
        return self.shares * self.Y

    @cached_property
    def _squares(self) -> float:
        """Weighted mean of the squared targets."""
        return float(array_namespace(self.Y).sum(self._shared_targets * self.Y))

    def _weighted_sums(
        self, point: Point, columns: np.ndarray | None, orders: np.ndarray | None, /
    ) -> tuple[float, Array]:
        """Differentiate: O(n m) for each of the `columns`."""
        return self._sums_by_factor(point, self._of(point), columns, orders)

    def _pair_weights(self, point: Point, /) -> Array:
        """Factor (n, r) of the slopes, in the precision of the data."""
        xp = array_namespace(self.X)
        assert point.pairs is not None
        assert point.kernel is not None
        assert point.among is not None
        K = -self.kernel.derivative_from(point.pairs, point.kernel)
        core = -self.kernel.derivative_from(*point.among)
        core = array_namespace(core).astype(core, array_namespace(core).float64, copy=False)
        W = back_beside(_whitener(core, K), K)
        return K @ xp.astype(W, K.dtype)


def _whitener(core: Array, given: Array, /) -> Array:
    """Give W (m, r) with K W the factor of a kernel that is `core` (m, m) among the centres.

    The values were computed in the precision of `given`.
    """
    xp = array_namespace(core)
    floor = max(core.shape[0] * epsilon(given), _RANK_FLOOR)
    s, U = eigh(core)
    kept = int(xp.sum(xp.astype(s > floor * xp.max(s), xp.int64)))
    return U[:, -kept:] / xp.sqrt(s[-kept:])[None, :]
