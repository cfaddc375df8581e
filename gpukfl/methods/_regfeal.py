r"""RegFeaL: regularised feature learning with Hermite polynomials.

.. math:: \min_{f, \Lambda}\ \frac1n \sum_i (y_i - f(x_i))^2 + \sum_{\alpha \ne 0}
          \frac{\hat f(\alpha)^2}{c_{|\alpha|}} (\lambda + \mu\, \alpha^\top \eta^{-1}), \qquad
          f = \sum_\alpha \hat f(\alpha) H_\alpha(R^\top x), \quad
          \Lambda = R\, \mathrm{Diag}(\eta) R^\top

(eqs. (3.4) and (3.5) of Follain and Bach, arXiv:2307.12754), by turns: a ridge regression on
random Hermite features for fixed R and η, and R and η in closed form for fixed f.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from numbers import Integral

import numpy as np
from scipy import sparse

from gpukfl.core._array import Array, array_namespace, double_like, like, to_double
from gpukfl.core._checks import check_bool, check_number
from gpukfl.core._lazy import OldName
from gpukfl.core._results import History, Status
from gpukfl.linalg import add_to_diagonal, host_eigh, move_small_to_host, solve_and_measure
from gpukfl.methods._multi_indices import (
    DegreeLaw,
    DerivativePenalty,
    MultiIndices,
    draw_tuples,
    equal_eta,
    hash_tuples,
)
from gpukfl.operators import HermiteOperator
from gpukfl.partitioned._rows import Rows

# --------------------------------------------------------------------------- hermite ridge

# Ridge regression on Hermite features, in the smaller of two views.
#
# Equations (3.7) and (3.8) of Follain and Bach (arXiv:2307.12754), with an intercept.


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
    def from_operator(
        cls, operator: HermiteOperator, Y: Array, weights: Array | None, /
    ) -> FeatureSums:
        """One pass over the rows, O(n m²)."""
        t, wide = Y.shape[1], to_double(Y)
        xp = array_namespace(wide)
        beside = xp.concat([wide, xp.ones_like(wide[:, :1])], axis=1)
        found = operator.moments(beside, weights, also=_make_target_sums(wide, weights))
        gram, moment, *sums = move_small_to_host(*found)
        N, y_mean, squares = _center_sums(Y.shape[0], *sums)
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
    """The features of all rows, for the kernel equations (n, n)."""

    operator: HermiteOperator
    Phi: Array  # centred, times roots of the weights (n, m)
    right: Array  # centred targets, times these (n, t)
    mean: Array  # of the features (m,)
    y_mean: Array  # (t,)
    N: float  # sum of the weights

    @classmethod
    def from_operator(
        cls, operator: HermiteOperator, Y: Array, weights: Array | None, /
    ) -> SampleFeatures:
        """Form the features, O(n m s) for s factors each."""
        xp, wide = array_namespace(Y), to_double(Y)
        Phi = xp.astype(operator.dense(), xp.float64, copy=False)
        if weights is None:
            mean, y_mean, N = xp.mean(Phi, axis=0), xp.mean(wide, axis=0), float(Y.shape[0])
            return cls(operator, Phi - mean[None, :], wide - y_mean[None, :], mean, y_mean, N)
        w = to_double(weights)
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


def make_ridge_system(
    operator: HermiteOperator, Y: Array, weights: Array | None, /
) -> FeatureSums | SampleFeatures:
    """Return the system of fewer unknowns for Y (n, t) and weights (n, 1)."""
    n, m = operator.shape
    by_sums = n > m or operator.rows.partitioning is not None
    return (FeatureSums if by_sums else SampleFeatures).from_operator(operator, Y, weights)


def _solution(
    system: FeatureSums | SampleFeatures,
    K: Array,
    ridge: float,
    right: Array,
    mean: Array,
    measure: Callable[[Array], tuple[Array, Array]],
) -> Solution:
    """Solve with K and a ridge per sample.

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
    """Return a host vector measured on the solution with K + ridge I.

    There is more on the diagonal where the ridge is below K's rounding.
    """
    with contextlib.suppress(np.linalg.LinAlgError):
        return solve_and_measure(add_to_diagonal(K, ridge), right, measure)[1]
    xp = array_namespace(K)
    trace = float(xp.sum(xp.linalg.diagonal(K)))
    if not np.isfinite(trace):
        dtype = operator.rows.reference.dtype
        msg = (
            f"Hermite features of degree {operator.degree} overflow {dtype}: expected data within "
            "a few standard deviations; use clip=6, or a smaller degree_decay"
        )
        raise FloatingPointError(msg)
    for jitter in (1e-15, 1e-14, 1e-13):
        with contextlib.suppress(np.linalg.LinAlgError):
            return solve_and_measure(add_to_diagonal(K, ridge + jitter * trace), right, measure)[1]
    try:
        return solve_and_measure(add_to_diagonal(K, ridge + 1e-12 * trace), right, measure)[1]
    except np.linalg.LinAlgError as error:
        msg = (
            f"Hermite features of degree {operator.degree} are singular beyond rounding: expected "
            "data around 0 of about unit variance; scale them, or use a smaller degree_decay"
        )
        raise FloatingPointError(msg) from error


def _make_target_sums(Y: Array, weights: Array | None) -> Callable[[int, int], list[Array]]:
    """Sum targets, their squares and the weights, if any, of rows that lie together."""
    xp = array_namespace(Y)

    def part(start: int, stop: int) -> list[Array]:
        y = Y[start:stop, :]
        if weights is None:  # their sum is known without a wait
            return [xp.sum(y, axis=0), xp.sum(y**2, axis=0)]
        w = xp.astype(weights[start:stop, :], xp.float64)
        return [xp.sum(w * y, axis=0), xp.sum(w * y**2, axis=0), xp.sum(w)]

    return part


def _center_sums(
    n: int, total: Array, squares: Array, weight: Array | None = None
) -> tuple[float, Array, Array]:
    """Sum of the weights, weighted means of n targets, and their squares about these."""
    N = float(n if weight is None else weight)
    mean = total / N
    return N, mean, squares - N * mean**2


_FLOOR = 1e-8  # added to squared derivatives of targets of unit variance
_TIES = 1e-10  # by which coordinates differ where squared derivatives do not
_EXPONENT_RANGE = 280.0  # decimal orders that the smallest η may lie below 1


@dataclass(frozen=True)
class RegFeaL:
    r"""Settings of Algorithm 1.

    Parameters
    ----------
    n_random_features : int
        Tuples drawn in each iteration, m.
    law : DegreeLaw
        The sequence c.
    strength : float
        μ, positive, in units of :math:`d^{-(2-r)/r}`.
    ridge : float
        λ, positive, in the same units.
    exponent : float
        r, between 0 and 2. η is that of the squared derivatives plus 1e-8, of targets of unit
        variance: a direction without derivatives keeps :math:`10^{-4r}` of the share of one whose
        squared derivative is 1, and for r next to 0 all directions have about the same.
    rotate : bool
        Learn features, with a rotation R; else select variables.
    over_c : bool
        Divide the squared derivatives by c, as the paper's :math:`M_f` does, eq. (2.10). Without,
        it is :math:`E[\nabla f \nabla f^\top]`, eq. (2.9), and noise in high degrees is not
        multiplied by :math:`\rho^{-|\alpha|}`.
    n_iter : int
        Ridge regressions.
    max_time : float, optional
        Seconds.
    """

    n_random_features: int
    law: DegreeLaw
    strength: float
    ridge: float = 1e-8
    exponent: float = 0.33
    rotate: bool = True
    over_c: bool = False
    n_iter: int = 5
    max_time: float | None = None

    def with_effort(self, n_random_features: int, n_iter: int, /) -> RegFeaL:
        """Return the same settings with other numbers of features and iterations."""
        return replace(self, n_random_features=n_random_features, n_iter=n_iter)

    def run(
        self,
        rows: Rows,
        Y: Array,
        weights: Array | None,
        rng: np.random.RandomState,
        /,
        watch: Callable[[int, RegFeaLFit], None] = lambda *_: None,
        first: FirstTurn | None = None,
    ) -> RegFeaLFit:
        """Alternate between regressions and directions.

        Parameters
        ----------
        rows : Rows
            Data (n, d), centred and of unit variance.
        Y : array, shape (n, t)
            Targets, centred and of unit variance.
        weights : array, shape (n, 1), or None
            Sample weights.
        rng : RandomState
            Draws tuples.
        watch : callable
            Called with the iteration and the fit so far.
        first : FirstTurn, optional
            Of another fit, of equal settings but μ and with `rng` in the same state; or an empty
            one, to be set.

        Returns
        -------
        RegFeaLFit
            After the last iteration, or that at which time was up or Ctrl-C.

        Raises
        ------
        ValueError
            If r is so small that η underflows.
        FloatingPointError
            If Hermite features overflow.

        Notes
        -----
        An iteration is O(n m' s) for features with s factors, O(n m' min(n, m')) for the ridge
        regression on the m' distinct tuples, and O(m' s d) for the derivatives. Where n is above
        m' rows come in blocks. Budget on a GPU, an iteration: 450 launches, 16 waits, 56
        uploads of 90 kB, 55 MB read and written, for some ten settings that are tried.
        """
        begun = time.perf_counter()
        d = rows.shape[1]
        smallest = 2.0 / (_EXPONENT_RANGE / max(math.log10(d), 1e-9) + 1.0)
        if self.exponent < smallest:
            msg = (
                f"expected an exponent of at least {smallest:.2g} with {d} features, below "
                f"which η underflows, got {self.exponent}"
            )
            raise ValueError(msg)
        fit = RegFeaLFit(rows, None, equal_eta(d, self.exponent))
        weights = None if weights is None else to_double(weights)
        turn = turned = 0.0  # seconds that finding directions takes, and when they were found
        try:
            for k in range(self.n_iter):
                R, eta = fit.turn or (fit.rotation, fit.eta)
                new = self._regression(rows, R, eta, Y, weights, rng, None if k else first)
                # Together: coefficients belong to the directions of their own iteration
                fit.rotation, fit.eta, fit.turn = R, eta, None
                (fit.indices, fit.f_hat, fit.intercept, objective) = new
                fit.etas.append(eta)
                fit.history.append(objective, float(len(fit.indices.tuples)), 0.0, begun)
                watch(k, fit)
                if k + 1 == self.n_iter:
                    break
                # Another iteration, as long as the last; the directions it asks for are found, too
                now = fit.history.seconds[-1]
                regression = now - turned
                if not self._is_late(now + turn + regression + turn):
                    fit.turn = self._turn(fit)
                    turned = time.perf_counter() - begun
                    turn = turned - now
                if fit.turn is None or self._is_late(turned + regression + turn):
                    fit.status = Status.TIME_LIMIT
                    break
        except KeyboardInterrupt:
            if not len(fit.history):
                raise
            fit.status = Status.INTERRUPTED
        return fit

    def _is_late(self, seconds: float) -> bool:
        return self.max_time is not None and seconds > self.max_time

    def operator(self, fit: RegFeaLFit, rows: Rows, scales: np.ndarray) -> HermiteOperator:
        """Features of the fit's tuples at some rows."""
        assert fit.indices is not None
        return HermiteOperator(rows, fit.indices.tuples, scales, fit.placed_rotation())

    def _regression(
        self,
        rows: Rows,
        R: np.ndarray | None,
        eta: np.ndarray,
        Y: Array,
        weights: Array | None,
        rng: np.random.RandomState,
        first: FirstTurn | None,
    ) -> tuple[MultiIndices, np.ndarray, np.ndarray, float]:
        """Draw tuples and solve (3.8), or (3.7) where there are fewer rows than tuples."""
        unit = float(rows.shape[1]) ** (-(2.0 - self.exponent) / self.exponent)
        penalty = DerivativePenalty(self.ridge * unit, self.strength * unit)
        if first is not None and first.system is not None:
            return first.solve(penalty, eta, rng)
        indices = draw_tuples(self.n_random_features, eta, self.law, penalty, self.exponent, rng)
        scales, ridge = _normalise_scales(indices.scales)
        rotation = _place_rotation(R, rows.reference)
        operator = HermiteOperator(rows, indices.tuples, scales, rotation)
        system = make_ridge_system(operator, Y, weights)
        if first is not None:
            first.keep(penalty, indices, system, rng)
        theta, intercept, objective = system.solve(ridge)
        return indices, scales[:, None] * theta, intercept, objective

    def directions(self, fit: RegFeaLFit) -> tuple[np.ndarray, np.ndarray]:
        """Minimise over R and η for fixed f: eq. (3.3), or (3.1) for variables."""
        R, eta = fit.turn or self._turn(fit)
        return _identity(len(eta)) if R is None else R, eta

    def _turn(self, fit: RegFeaLFit) -> tuple[np.ndarray | None, np.ndarray]:
        """Find these directions, None for the identity.

        Coordinates that no tuples couple are eigenvectors by themselves. Where d is large most are:
        O(b³ + d b²) for the b largest number that are coupled, beside O(d²).
        """
        M = self._derivatives(fit)
        squares, d = M.diagonal(), len(fit.eta)
        if not self.rotate:
            return None, optimal_eta(squares + _FLOOR, self.exponent)
        # Any basis would do for directions along which f is constant: rounding shall not choose it
        ties = _TIES * np.arange(d) / d
        values, turns = squares + ties, []
        for own in _coupled_coordinates(M):
            block = M[own][:, own].toarray()
            values[own], U = host_eigh(block + np.diag(ties[own]))
            squares[own] = np.sum(U * (block @ U), axis=0)
            turns.append((own, U))
        squares[squares < _TIES] = 0.0
        # Nor the order of equal ones: those of a tuple that meets no other are equal
        descending = np.argsort(values, kind="stable")[::-1]
        order = descending[np.argsort(-np.round(squares[descending] / _TIES), kind="stable")]
        return fit.rotate(turns, order), optimal_eta(squares[order] + _FLOOR, self.exponent)

    def derivatives(self, fit: RegFeaLFit) -> np.ndarray:
        r"""Return :math:`E[\nabla f \nabla f^\top]` under N(0, I), in rotated coordinates."""
        return self._derivatives(fit).toarray()

    def _derivatives(self, fit: RegFeaLFit) -> sparse.csr_array:
        assert fit.indices is not None
        f_hat = fit.f_hat
        if self.over_c:
            f_hat = f_hat * np.exp(-0.5 * self.law.log_c(fit.indices.degrees))[:, None]
        return _sparse_derivative_products(fit.indices.tuples, f_hat)


def _coupled_coordinates(pattern: sparse.sparray, at_least: int = 2, /) -> list[np.ndarray]:
    """Return the sets of so many coordinates that a matrix couples, each in ascending order."""
    _, label = sparse.csgraph.connected_components(pattern, directed=False)
    sizes = np.bincount(label)
    sets = np.split(np.argsort(label, kind="stable"), np.cumsum(sizes)[:-1])
    return [own for own, size in zip(sets, sizes, strict=True) if size >= at_least]


@dataclass(eq=False)
class FirstTurn:
    """Tuples and ridge system of the first regression, shared by fits that differ in μ.

    R is the identity and η is equal then, so that another μ only stretches the features.
    """

    penalty: DerivativePenalty | None = None
    indices: MultiIndices | None = None
    system: FeatureSums | SampleFeatures | None = None
    _state: tuple[str, np.ndarray, int, int, float] | dict[str, object] | None = None

    def keep(
        self,
        penalty: DerivativePenalty,
        indices: MultiIndices,
        system: FeatureSums | SampleFeatures,
        rng: np.random.RandomState,
    ) -> None:
        """Set the system of a fit, and the state of its generator."""
        self.penalty, self.indices, self.system = penalty, indices, system
        self._state = rng.get_state()

    def solve(
        self, penalty: DerivativePenalty, eta: np.ndarray, rng: np.random.RandomState
    ) -> tuple[MultiIndices, np.ndarray, np.ndarray, float]:
        """Tuples, coefficients, intercept and objective with another penalty."""
        assert self.penalty is not None
        assert self.indices is not None
        assert self.system is not None
        assert self._state is not None
        rng.set_state(self._state)
        weighted = self.indices.tuples @ (1.0 / eta)
        change = np.exp(0.5 * (self.penalty.log_values(weighted) - penalty.log_values(weighted)))
        indices = replace(self.indices, scales=self.indices.scales * change)
        scales, ridge = _normalise_scales(indices.scales)
        before, _ = _normalise_scales(self.indices.scales)
        theta, intercept, objective = self.system.solve(ridge, scales / before)
        return indices, scales[:, None] * theta, intercept, objective


def _normalise_scales(scales: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the scales relative to the largest, and the rescaled ridge.

    In many dimensions scales are beyond float32.
    """
    top = max(1.0, float(scales.max()))
    return scales / top, top**-2


@dataclass(eq=False)
class RegFeaLFit:
    """The state of a fit."""

    rows: Rows
    rotation: np.ndarray | None  # R (d, d), most important directions first; None: the identity
    eta: np.ndarray  # (d,), of the columns of R
    indices: MultiIndices | None = None
    f_hat: np.ndarray = field(default_factory=lambda: np.zeros((0, 1)))  # (m', t)
    intercept: np.ndarray = field(default_factory=lambda: np.zeros(1))  # (t,)
    status: Status = Status.CONVERGED
    history: History = field(default_factory=History)
    etas: list[np.ndarray] = field(default_factory=list)
    # R, or None, and η that the last regression asks for, where they are known
    turn: tuple[np.ndarray | None, np.ndarray] | None = None

    @property
    def R(self) -> np.ndarray:  # noqa: N802 - the name in the paper
        """The rotation (d, d)."""
        return _identity(len(self.eta)) if self.rotation is None else self.rotation

    def placed_rotation(self) -> Array | None:
        """Return R beside the rows, or None for the identity."""
        return _place_rotation(self.rotation, self.rows.reference)

    def rotate(self, turns: list[tuple[np.ndarray, np.ndarray]], order: np.ndarray) -> np.ndarray:
        """Return R times a rotation, its columns in some order.

        The rotation turns some sets of coordinates among themselves, and leaves the others.
        """
        place, before = np.argsort(order), self.rotation
        R = _identity(len(order), order) if before is None else before[:, order]
        for own, U in turns:
            rows = own if before is None else np.flatnonzero(before[:, own].any(axis=1))
            turned = U if before is None else before[np.ix_(rows, own)] @ U
            R[np.ix_(rows, place[own])] = turned
        return R

    def to_feature_coordinates(self, M: np.ndarray, /) -> np.ndarray:
        """Return a matrix in rotated coordinates (d, d) in those of the features."""
        if self.rotation is None:
            return M
        d, R = len(M), self.rotation
        found = np.diag(R**2 @ np.diag(M))  # of what is coupled to nothing else
        nothing = sparse.csr_array((d, d))
        couples = [[nothing, sparse.csr_array(R)], [nothing, sparse.csr_array(M)]]
        for own in _coupled_coordinates(sparse.block_array(couples), 3):
            features, directions = own[own < d], own[own >= d] - d
            turn = R[np.ix_(features, directions)]
            found[np.ix_(features, features)] = turn @ M[np.ix_(directions, directions)] @ turn.T
        return found

    def predict(self, rows: Rows, /) -> Array:
        """Fitted functions at rows (n, t)."""
        assert self.indices is not None
        ones = np.ones(len(self.indices.tuples))
        operator = HermiteOperator(rows, self.indices.tuples, ones, self.placed_rotation())
        xp = array_namespace(rows.reference)
        f_hat = xp.asarray(self.f_hat, **like(rows.reference))
        return xp.asarray(self.intercept, **double_like(rows.reference)) + operator @ f_hat

    of_features = OldName("to_feature_coordinates")


def _identity(d: int, order: np.ndarray | None = None) -> np.ndarray:
    """Return the identity (d, d), or its columns in some order."""
    R = np.zeros((d, d))
    R[np.arange(d) if order is None else order, np.arange(d)] = 1.0
    return R


def _place_rotation(R: np.ndarray | None, reference: Array) -> Array | None:
    """Return R beside `reference`, or None for the identity."""
    if R is None:
        return None
    return array_namespace(reference).asarray(R, **double_like(reference))


def eta_shares(eta: np.ndarray, exponent: float, /) -> np.ndarray:
    r"""Return the importances :math:`\eta_a^{r/(2-r)}`, which sum to 1."""
    values = eta ** (exponent / (2.0 - exponent))
    return values / values.sum()


def derivative_weights(eta: np.ndarray, exponent: float, power: float, /) -> np.ndarray:
    """Return squared derivatives along the directions to a power, over the largest (d,).

    η is optimal for these: it is theirs to the power (2 - r) / 2, but for a factor.
    """
    return (eta / eta.max()) ** (2.0 * power / (2.0 - exponent))


def optimal_eta(u: np.ndarray, exponent: float, /) -> np.ndarray:
    r"""Minimise :math:`\sum_a u_a / \eta_a` where :math:`\sum_a \eta_a^{r/(2-r)} = 1`.

    .. math:: \eta_a = u_a^{(2-r)/2} \Big/ \Big( \sum_b u_b^{r/2} \Big)^{(2-r)/r}

    Parameters
    ----------
    u : host array (d,)
        Squared derivatives, positive.
    exponent : float
        r, between 0 and 2.

    Returns
    -------
    host array (d,)
        η of Lemma 3.1. In logarithms: exponents may be large.
    """
    r = exponent
    logs = np.log(u)
    top = 0.5 * r * logs.max()
    total = top + math.log(np.sum(np.exp(0.5 * r * logs - top)))
    return np.exp(0.5 * (2.0 - r) * logs - (2.0 - r) / r * total)


def derivative_products(tuples: np.ndarray, f_hat: np.ndarray, /) -> np.ndarray:
    r"""Compute expected products of partial derivatives under N(0, I): (d, d).

    .. math:: M_{st} = \sum_{\alpha - e_s = \alpha' - e_t} \sqrt{\alpha_s \alpha'_t}\,
              \hat f(\alpha) \hat f(\alpha')

    summed over targets, eq. (2.9): :math:`\partial_s H_\alpha = \sqrt{\alpha_s} H_{\alpha - e_s}`.

    Parameters
    ----------
    tuples : host array of int, shape (m, d)
        Distinct tuples α.
    f_hat : host array, shape (m, t)
        Coefficients.

    Notes
    -----
    Tuples that differ by a step in one coordinate meet at the tuple between them, which is found
    by a random 64-bit hash that is linear in the tuple: O(m s + d² · tuples met) for s positive
    entries a tuple. The matrix is positive semidefinite by construction.
    """
    return _sparse_derivative_products(tuples, f_hat).toarray()


def _sparse_derivative_products(tuples: np.ndarray, f_hat: np.ndarray) -> sparse.csr_array:
    d = tuples.shape[1]
    keys, words = hash_tuples(tuples)
    rows, coordinates = np.nonzero(tuples)
    below = keys[rows] - words[coordinates]  # of the tuple one step down; wraps around
    _, met = np.unique(below, return_inverse=True)
    values = np.sqrt(tuples[rows, coordinates])[:, None] * f_hat[rows]
    M = sparse.csr_array((d, d))
    for target in range(f_hat.shape[1]):
        G = sparse.coo_array(
            (values[:, target], (met.ravel(), coordinates)), shape=(met.max(initial=0) + 1, d)
        )
        M = M + (G.T @ G.tocsr())
    return M


# ----------------------------------------------------------------------------- reweighting

# How RegFeaL weighs directions anew.


@dataclass(frozen=True)
class Reweighting:
    """The settings by which the directions of RegFeaL are reweighted.

    Parameters
    ----------
    n_iter : int
        Ridge regressions, with new directions before each but the first.
    exponent : float
        r, between 0 and 2: the smaller, the fewer directions.
    over_c : bool
        Divide squared derivatives by c, as the paper's M_f does; noise in high degrees is then
        multiplied by ρ^-k, and no features are learned where it is strong.
    """

    n_iter: int = 5
    exponent: float = 0.33
    over_c: bool = False

    def __post_init__(self) -> None:
        check_number("n_iter", self.n_iter, kind=Integral, low=1)
        check_number("exponent", self.exponent, low=0, high=2, low_allowed=False)
        if self.exponent >= 2:
            msg = f"expected an exponent between 0 and 2, got {self.exponent}"
            raise ValueError(msg)
        check_bool("over_c", self.over_c)
