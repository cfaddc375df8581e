r"""The objective of kernel feature selection, and its exact gradient.

Ruan, Liu and Jordan, "Taming Nonconvexity in Kernel Feature Selection: Favorable Properties of the
Laplace Kernel", equation (5.1): with a weight :math:`\beta_l \ge 0` for every variable,

.. math:: J(\beta) = \min_f \frac{1}{2N} \sum_i D_i (y_i - f(x_i))^2 + \frac{\lambda}{2} \|f\|^2,
          \qquad k_\beta(x, z) = h\big(\textstyle\sum_l \beta_l |x_l - z_l|^q\big).

The best f has coefficients :math:`\alpha = (K_\beta + N \lambda D^{-1})^{-1} y`, so that
:math:`J = \frac{\lambda}{2} \alpha^\top y` and

.. math:: \partial_l J = -\frac{\lambda}{2} \sum_{ij} \alpha_i \alpha_j
          h'(u_{ij})\, |x_{il} - x_{jl}|^q,

from the right where :math:`\beta_l = 0`. Proposition 4 has this without the factor one half.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpukfl._array import (
    Array,
    array_namespace,
    beside,
    double_like,
    epsilon,
    index_like,
    is_host,
    like,
    to_host,
)
from gpukfl._rows import Rows
from gpukfl.kernels import Manhattan, Radial
from gpukfl.linalg import (
    CholeskyFactor,
    SortedColumns,
    add_to_diagonal,
    back_beside,
    difference_sums,
    distances,
    eigh,
    factored_difference_sums,
    factored_square_sums,
    on_host_if_small,
    squared_distances,
)
from gpukfl.methods._centers import choose_centers
from gpukfl.methods._kernel_ridge import DenseSystem

_RANK_FLOOR = 1e-10  # eigenvalues among the centres, relative to the largest, that are kept


@dataclass(frozen=True, eq=False)
class Point:
    """The objective at one β, with what its gradient needs."""

    beta: np.ndarray  # (p,)
    value: float  # J
    alpha: Array  # (n, t)
    pairs: Array | None = None  # what h is taken of, among all (n, n) or to the centres (n, m)
    kernel: Array | None = None  # h of them; None of both at β = 0, where all are equal
    among: tuple[Array, Array] | None = None  # pairs and kernel among the centres (m, m)


class SelectionObjective(ABC):
    r"""What both forms of :math:`J` share.

    Parameters
    ----------
    kernel : Kernel
        With a `profile` h and its `derivative` in the sum of differences to the `power` q.
    X : array (n, p)
        Data.
    Y : array (n, t)
        Targets, less their weighted means: at β = 0 the kernel fits a constant.
    ridge : float
        λ, positive.
    weights : array (n, 1), optional
        D, positive.
    """

    def __init__(
        self,
        kernel: Radial | Manhattan,
        X: Array,
        Y: Array,
        ridge: float,
        weights: Array | None = None,
        /,
    ) -> None:
        xp = array_namespace(X, Y)
        self.kernel, self.X, self.ridge = kernel, X, float(ridge)
        self.Y = xp.astype(Y, xp.float64)
        self.weights = None if weights is None else xp.astype(weights, xp.float64)
        self.scale = kernel.lengthscale ** -float(kernel.power)
        D = xp.ones((X.shape[0], 1), **double_like(X)) if self.weights is None else self.weights
        self.shares = D / xp.sum(D)
        self._point: Point | None = None
        self._latest: tuple[Point, Array] | None = None

    def scaled(self, X: Array, beta: np.ndarray, /) -> Array:
        """Variables that have weight, times the root of it."""
        xp = array_namespace(X)
        active = np.flatnonzero(beta)
        index = xp.asarray(active, **index_like(X))
        return xp.take(X, index, axis=1) * beside(
            (self.scale * beta[active]) ** (1.0 / self.kernel.power), X
        )

    def distances(self, A: Array, B: Array, /) -> Array:
        """Sum the differences of points from `scaled`: what h is taken of."""
        xp = array_namespace(A)
        if A.shape[1] == 0:
            return xp.zeros((A.shape[0], B.shape[0]), **like(A))
        if self.kernel.power == 1:
            return distances(A, B, norm="manhattan")
        return squared_distances(A, B)

    @property
    def n_variables(self) -> int:
        """Number of variables p."""
        return self.X.shape[1]

    def _product(self, alpha: Array, /) -> Array:
        """Inner product of `alpha` and the targets (1,)."""
        xp = array_namespace(alpha)
        return xp.reshape(xp.sum(alpha * self.Y), (1,))

    def _value(self, product: Array, /) -> float:
        return 0.5 * self.ridge * float(product[0])

    def _samples(self, columns: np.ndarray | None, permutation: np.ndarray | None, /) -> Array:
        """Take columns of X, and its rows to where a permutation takes what they meet from."""
        xp, X = array_namespace(self.X), self.X
        if columns is not None:
            X = xp.take(X, xp.asarray(columns, **index_like(X)), axis=1)
        if permutation is None:
            return X
        return xp.take(X, xp.asarray(np.argsort(permutation), **index_like(X)), axis=0)

    @cached_property
    def sorted_columns(self) -> SortedColumns:
        """Columns of X, sorted."""
        return SortedColumns.of(self.X)

    def at(self, beta: np.ndarray, /) -> Point:
        """Evaluate at `beta` (p,), at least 0; the last point is kept."""
        if self._point is None or not np.array_equal(self._point.beta, beta):
            self._point = self._latest = None  # they hold matrices
            self._point = self._evaluate(beta) if beta.any() else self._at_zero(beta)
        return self._point

    def _at_zero(self, beta: np.ndarray, /) -> Point:
        """Evaluate where the kernel is h(0) for all pairs: O(n)."""
        xp = array_namespace(self.Y)
        total = xp.sum(self.shares * self.Y, axis=0) / (self.ridge + self._profile_at_zero[0])
        alpha = self.shares * (self.Y - self._profile_at_zero[0] * total) / self.ridge
        return Point(beta, self._value(self._product(alpha)), alpha)

    @cached_property
    def _profile_at_zero(self) -> tuple[float, float]:
        """h(0) and h'(0)."""
        zero = array_namespace(self.X).zeros((1,), **like(self.X))
        return float(self.kernel.profile(zero)[0]), float(self.kernel.derivative(zero)[0])

    def gradient(
        self,
        point: Point,
        /,
        columns: np.ndarray | None = None,
        permutation: np.ndarray | None = None,
    ) -> np.ndarray:
        """Differentiate: O(n t) for each of the columns at β = 0.

        Parameters
        ----------
        point : Point
            Where.
        columns : host array of indices, optional
            Variables to differentiate by; all by default.
        permutation : host array of indices (n,), optional
            Order of the samples in which the variables meet residuals and kernel: a draw from
            the gradient's law for variables that are independent of everything.

        Returns
        -------
        host array of float64
            Derivatives of J, from the right at 0.
        """
        if point.pairs is not None:
            return self._gradient(point, columns, permutation)
        xp = array_namespace(point.alpha)
        slopes = xp.full((self.X.shape[0], 1), (-self._profile_at_zero[1]) ** 0.5, **like(self.X))
        return self._factored_gradient(point, slopes, columns, permutation)

    def _factored_gradient(
        self,
        point: Point,
        slopes: Array,  # (n, r), a factor of -h'
        columns: np.ndarray | None,
        permutation: np.ndarray | None,
    ) -> np.ndarray:
        xp = array_namespace(slopes)
        total: Array | float = 0.0
        for target in range(point.alpha.shape[1]):
            V = xp.astype(point.alpha[:, target], slopes.dtype)[:, None] * slopes
            total = total + self._factored_sums(V, columns, permutation)
        assert not isinstance(total, (float, int))
        return 0.5 * self.ridge * self.scale * to_host(total)

    def _factored_sums(
        self, V: Array, columns: np.ndarray | None, permutation: np.ndarray | None
    ) -> Array:
        if self.kernel.power == 2:
            return factored_square_sums(V, self._samples(columns, permutation))
        data = self.sorted_columns if columns is None else self.sorted_columns.at(columns)
        return factored_difference_sums(
            V, data if permutation is None else data.permuted(permutation)
        )

    def _of(self, point: Point, /) -> Array:
        """Give the pair weights of `point`, those of the latest kept: permutations ask again."""
        if self._latest is None or self._latest[0] is not point:
            self._latest = point, self._pair_weights(point)
        return self._latest[1]

    @abstractmethod
    def _pair_weights(self, point: Point, /) -> Array:
        """Weights of the differences in the gradient, or what they are made of."""

    def focus(self, beta: np.ndarray, /) -> None:  # noqa: B027
        """Prepare for points near `beta`."""

    @abstractmethod
    def _evaluate(self, beta: np.ndarray, /) -> Point:
        """Evaluate at `beta` (p,), some of it positive."""

    @abstractmethod
    def _gradient(
        self, point: Point, columns: np.ndarray | None, permutation: np.ndarray | None, /
    ) -> np.ndarray:
        """Differentiate where some of β is positive."""


class DenseSelection(SelectionObjective):
    """J by the kernel matrix of all samples: O(n³ + n² p) time and O(n²) memory."""

    def _evaluate(self, beta: np.ndarray, /) -> Point:
        """Evaluate: O(n³)."""
        xp = array_namespace(self.X)
        Z = self.scaled(self.X, beta)
        u = self.distances(Z, Z)
        K = self.kernel.profile(u)
        double = xp.astype(K, xp.float64, copy=False)
        system = DenseSystem.of(double, self.Y, self.weights)
        alpha, product = system.coefficients_and(self.ridge, self._product)
        return Point(beta, self._value(product), alpha, u, K)

    def _gradient(
        self, point: Point, columns: np.ndarray | None, permutation: np.ndarray | None, /
    ) -> np.ndarray:
        """Differentiate: O(n²) for each of the `columns`."""
        X = self._samples(columns, permutation)
        return to_host(difference_sums(self._of(point), X, power=self.kernel.power))

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

    def focus(self, beta: np.ndarray, /) -> None:
        """Choose the centres by pivoted Cholesky of the kernel at `beta`."""
        Z = self.scaled(self.X, beta)
        kernel = self.kernel.stretched(1.0 / self.kernel.lengthscale)
        self.centers = choose_centers(
            "pivoted", kernel, Rows(Z, Z[:0, :]), self.n_centers, ridge=self.ridge, rng=self.rng
        )
        self._point = self._latest = None

    def _evaluate(self, beta: np.ndarray, /) -> Point:
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

    def _gradient(
        self, point: Point, columns: np.ndarray | None, permutation: np.ndarray | None, /
    ) -> np.ndarray:
        """Differentiate: O(n m) for each of the `columns`."""
        return self._factored_gradient(point, self._of(point), columns, permutation)

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
