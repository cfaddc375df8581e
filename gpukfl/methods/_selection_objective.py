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

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_like,
    epsilon,
    index_like,
    is_host,
    is_on_gpu,
    like,
    to_host,
)
from gpukfl.core._lazy import OldName
from gpukfl.kernels import Manhattan, Radial
from gpukfl.linalg import (
    CholeskyFactor,
    SortedColumns,
    add_to_diagonal,
    difference_sums,
    distances,
    eigh,
    factored_difference_sums,
    factored_square_sums,
    move_small_to_host,
    restore_device,
    squared_distances,
)
from gpukfl.methods._centers import choose_centers
from gpukfl.methods._kernel_ridge import DenseSystem
from gpukfl.partitioned._rows import Rows

_AT_ONCE = 2**18  # values of permuted variables: a core's cache holds them


@dataclass(frozen=True, eq=False)
class Point:
    """The objective at one β, with intermediate results for its gradient."""

    beta: np.ndarray  # (p,)
    value: float  # J
    alpha: Array  # (n, t)
    pairs: Array | None = None  # what h is taken of, among all (n, n) or to the centres (n, m)
    kernel: Array | None = None  # h of them; None of both at β = 0, where all are equal
    among: tuple[Array, Array] | None = None  # pairs and kernel among the centres (m, m)
    slopes: tuple[np.ndarray, np.ndarray] | None = None  # columns, and derivatives read with J


class SelectionObjective(ABC):
    r"""The base class of both forms of :math:`J`.

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

    @abstractmethod
    def with_data(self, X: Array, Y: Array, /) -> SelectionObjective:
        """Return J in this form, with the same λ and D, for other X (n, q) and Y (n, t)."""

    def stretch(self, X: Array, beta: np.ndarray, /) -> Array:
        """Return the variables with weight, times the roots of their weights."""
        xp = array_namespace(X)
        active = np.flatnonzero(beta)
        index = xp.asarray(active, **index_like(X))
        return xp.take(X, index, axis=1) * asarray_like(
            (self.scale * beta[active]) ** (1.0 / self.kernel.power), X
        )

    def distances(self, A: Array, B: Array, /) -> Array:
        """Return the distances that are the argument of h."""
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

    def _samples(self, columns: np.ndarray | None, orders: np.ndarray | None, /) -> Array:
        """Return columns of X with permuted rows: (n, k p)."""
        xp, X = array_namespace(self.X), self.X
        if columns is not None:
            X = xp.take(X, xp.asarray(columns, **index_like(X)), axis=1)
        if orders is None:
            return X
        (k, n), index = orders.shape, np.argsort(orders, axis=1).T.ravel()
        taken = xp.take(X, xp.asarray(index, **index_like(X)), axis=0)
        return xp.reshape(taken, (n, k * X.shape[1]))

    @cached_property
    def sorted_columns(self) -> SortedColumns:
        """Columns of X, sorted."""
        return SortedColumns.sort(self.X)

    def evaluate(self, beta: np.ndarray, /, columns: np.ndarray | None = None) -> Point:
        """Evaluate at `beta` (p,), at least 0; the last point is kept.

        Where to wait for a GPU is what takes time, derivatives by `columns` are read with J.
        """
        if self._point is None or not np.array_equal(self._point.beta, beta):
            self._point = self._latest = None  # they hold matrices
            self._point = self._evaluate(beta, columns) if beta.any() else self._evaluate_zero(beta)
        return self._point

    def _evaluate_zero(self, beta: np.ndarray, /) -> Point:
        """Evaluate at β = 0, where the kernel is h(0) for all pairs: O(n)."""
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
        if permutation is None and columns is not None and point.slopes is not None:
            known, slopes = point.slopes
            if np.array_equal(known, columns):
                return slopes.copy()
        orders = None if permutation is None else permutation[None, :]
        scale, sums = self._scaled_sums(point, columns, orders)
        return scale * to_host(sums)

    def gradients(
        self, point: Point, columns: np.ndarray, permutations: Iterable[np.ndarray], /
    ) -> np.ndarray:
        """Return `gradient` with each of several permutations, (k, p): one wait for a GPU."""
        remaining, scale = iter(permutations), 1.0
        together = max(1, _AT_ONCE // (self.X.shape[0] * len(columns)))
        found: list[Array] = []
        while orders := list(itertools.islice(remaining, together)):
            scale, sums = self._scaled_sums(point, columns, np.stack(orders))
            found.append(sums)
        return scale * to_host(array_namespace(*found).concat(found)).reshape(-1, len(columns))

    def _scaled_sums(
        self, point: Point, columns: np.ndarray | None, orders: np.ndarray | None
    ) -> tuple[float, Array]:
        """Return the gradient as a factor and an array, without waiting for the device.

        With `orders` (k, n) it is that in each of them, one after another (k p,).
        """
        if point.pairs is not None:
            return self._weighted_sums(point, columns, orders)
        xp = array_namespace(point.alpha)
        slopes = xp.full((self.X.shape[0], 1), (-self._profile_at_zero[1]) ** 0.5, **like(self.X))
        return self._sums_by_factor(point, slopes, columns, orders)

    def _sums_by_factor(
        self,
        point: Point,
        slopes: Array,  # (n, r), a factor of -h'
        columns: np.ndarray | None,
        orders: np.ndarray | None,
    ) -> tuple[float, Array]:
        xp = array_namespace(slopes)
        total: Array | float = 0.0
        for target in range(point.alpha.shape[1]):
            V = xp.astype(point.alpha[:, target], slopes.dtype)[:, None] * slopes
            total = total + self._factored_sums(V, columns, orders)
        assert not isinstance(total, (float, int))
        return 0.5 * self.ridge * self.scale, total

    def _factored_sums(
        self, V: Array, columns: np.ndarray | None, orders: np.ndarray | None
    ) -> Array:
        if self.kernel.power == 2:
            return factored_square_sums(V, self._samples(columns, orders))
        data = self.sorted_columns if columns is None else self.sorted_columns.take(columns)
        return factored_difference_sums(V, data if orders is None else data.permute_rows(orders))

    def _kept_pair_weights(self, point: Point, /) -> Array:
        """Return the pair weights of `point`; the last ones are cached for permutations."""
        if self._latest is None or self._latest[0] is not point:
            self._latest = point, self._pair_weights(point)
        return self._latest[1]

    @abstractmethod
    def _pair_weights(self, point: Point, /) -> Array:
        """Return the weights of the differences in the gradient, or their factor."""

    def focus(self, beta: np.ndarray, /) -> None:  # noqa: B027
        """Prepare for points near `beta`."""

    @abstractmethod
    def _evaluate(self, beta: np.ndarray, columns: np.ndarray | None, /) -> Point:
        """Evaluate at `beta` (p,), some of it positive."""

    @abstractmethod
    def _weighted_sums(
        self, point: Point, columns: np.ndarray | None, orders: np.ndarray | None, /
    ) -> tuple[float, Array]:
        """Return `_scaled_sums` where some of β is positive."""

    of = OldName("with_data")
    scaled = OldName("stretch")
    at = OldName("evaluate")


# ------------------------------------------------------------------------- selection forms

# The objective of kernel feature selection in two forms: all samples, and centres among them.


_WAITS_UP_TO = 4096  # samples whose gradient a GPU computes in the time of a few waits
_RANK_FLOOR = 1e-10  # eigenvalues among the centres, relative to the largest, that are kept
_FINER = 4  # times as many centres say how far the gradient is off
_TINY = 1e-300


class DenseSelection(SelectionObjective):
    """J by the kernel matrix of all samples: O(n³ + n² p) time and O(n²) memory."""

    def with_data(self, X: Array, Y: Array, /) -> DenseSelection:
        return DenseSelection(self.kernel, X, Y, self.ridge, self.weights)

    def _evaluate(self, beta: np.ndarray, columns: np.ndarray | None, /) -> Point:
        """Evaluate: O(n³)."""
        xp = array_namespace(self.X)
        Z = self.stretch(self.X, beta)
        u = self.distances(Z, Z)
        K = self.kernel.profile(u)
        double = xp.astype(K, xp.float64, copy=False)
        system = DenseSystem.from_kernel(double, self.Y, self.weights)
        if columns is None or not is_on_gpu(K) or K.shape[0] > _WAITS_UP_TO:
            alpha, product = system.solve_and_measure(self.ridge, self._product)
            return Point(beta, self._value(product), alpha, u, K)

        def measure(alpha: Array) -> Array:
            _, sums = self._weighted_sums(Point(beta, 0.0, alpha, u, K), columns, None)
            return xp.concat([self._product(alpha), sums])

        alpha, numbers = system.solve_and_measure(self.ridge, measure)
        slopes = columns, np.asarray(numbers[1:])
        return Point(beta, self._value(numbers), alpha, u, K, slopes=slopes)

    def _weighted_sums(
        self, point: Point, columns: np.ndarray | None, orders: np.ndarray | None, /
    ) -> tuple[float, Array]:
        """Differentiate: O(n²) for each of the `columns`."""
        X = self._samples(columns, orders)
        return 1.0, difference_sums(self._kept_pair_weights(point), X, power=self.kernel.power)

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

    def with_data(self, X: Array, Y: Array, /) -> FactoredSelection:
        given = self.kernel, X, Y, self.ridge, self.weights
        return FactoredSelection(*given, n_centers=self.n_centers, rng=self.rng)

    def focus(self, beta: np.ndarray, /) -> None:
        """Choose the centres by pivoted Cholesky of the kernel at `beta`."""
        Z = self.stretch(self.X, beta)
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
        here, there = (one.gradient(one.evaluate(beta), columns) for one in (self, finer))
        size = max(float(np.linalg.norm(there)), _TINY)
        return float(np.linalg.norm(here - there)) / size

    def _evaluate(self, beta: np.ndarray, _: np.ndarray | None, /) -> Point:
        """Evaluate: O(n m²)."""
        xp = array_namespace(self.X)
        Z = self.stretch(self.X, beta)
        index = xp.asarray(self.centers, **index_like(self.X))
        u = self.distances(Z, xp.take(Z, index, axis=0))
        given = self.kernel.profile(u)
        K = xp.astype(given, xp.float64, copy=False)
        # L = K W is not formed: one product of (n, m) with itself is all that grows with n
        weighted = self._root_shares * K
        moment = K.T @ self._shared_targets
        near = xp.take(u, index, axis=0), xp.take(given, index, axis=0)
        wide = [xp.astype(x, xp.float64, copy=False) for x in near]
        pairs, core, gram, right = move_small_to_host(*wide, weighted.T @ weighted, moment)
        W = _whitener(core, given)
        factor = CholeskyFactor.factor(add_to_diagonal(W.T @ gram @ W, self.ridge))
        a = W @ factor.solve(W.T @ right)
        alpha = self.shares * (self.Y - K @ restore_device(a, self.Y)) / self.ridge
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
        return self._sums_by_factor(point, self._kept_pair_weights(point), columns, orders)

    def _pair_weights(self, point: Point, /) -> Array:
        """Factor (n, r) of the slopes, in the precision of the data."""
        xp = array_namespace(self.X)
        assert point.pairs is not None
        assert point.kernel is not None
        assert point.among is not None
        K = -self.kernel.derivative_from(point.pairs, point.kernel)
        core = -self.kernel.derivative_from(*point.among)
        core = array_namespace(core).astype(core, array_namespace(core).float64, copy=False)
        W = restore_device(_whitener(core, K), K)
        return K @ xp.astype(W, K.dtype)


def _whitener(core: Array, given: Array, /) -> Array:
    """Return W (m, r) with K W the factor of a kernel that is `core` (m, m) among the centres.

    The values were computed in the precision of `given`.
    """
    xp = array_namespace(core)
    floor = max(core.shape[0] * epsilon(given), _RANK_FLOOR)
    s, U = eigh(core)
    kept = int(xp.sum(xp.astype(s > floor * xp.max(s), xp.int64)))
    return U[:, -kept:] / xp.sqrt(s[-kept:])[None, :]
