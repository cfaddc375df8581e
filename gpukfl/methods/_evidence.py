"""The evidence of a Gaussian process and its leave-one-out error, and maps that maximise them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, clip, to_host
from gpukfl.core._results import History, Status
from gpukfl.kernels import Kernel
from gpukfl.linalg import CholeskyFactor, add_to_diagonal, factor_and_measure
from gpukfl.operators import KernelMatrix, KernelOperator, apply_map, map_gradient
from gpukfl.solvers import LBFGS, Descent

# -------------------------------------------------------------------------------- evidence

# Marginal likelihood and leave-one-out error of a Gaussian process, with their gradients.
#
# Targets are :math:`y_c = a_c (f_c(Cx) + \sqrt{r / w}\, \varepsilon)` with f of kernel k: all
# share the map C and the noise ratio r, each has its amplitude a. With the weights D the matrix is
#
# .. math:: S = D^{1/2} K_C D^{1/2} + r I, \qquad \tilde y_c = D^{1/2} y_c,
#           \qquad \beta_c = S^{-1} \tilde y_c .


LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False)
class Slopes:
    """A value and its gradient on the host."""

    value: float
    metric: Array  # in the map that it was asked at, of its shape
    log_ratio: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of f at a map and a noise ratio."""

    ratio: float
    factor: CholeskyFactor  # of S
    targets: Array  # D^(1/2) Y (n, t)
    beta: Array  # (n, t)
    roots: Array | None  # of the weights (n, 1)
    count: float  # of the targets that vary: of others there is nothing to say

    @property
    def squares(self) -> Array:
        """Squared amplitudes (t,) of the highest evidence; 1 if a target is 0."""
        xp = array_namespace(self.beta)
        found = xp.sum(self.targets * self.beta, axis=0) / self.beta.shape[0]
        return xp.where(found > 0, found, xp.ones_like(found))

    def evidence(self) -> Array:
        r"""Return the log marginal likelihood at the best amplitudes, summed over targets, in nats.

        .. math:: -\tfrac n2 \log a_c^2 - \tfrac12 \log |S| + \tfrac12 \log |D|
                  - \tfrac n2 (1 + \log 2\pi), \qquad a_c^2 = \tilde y_c^\top \beta_c / n
        """
        xp = array_namespace(self.beta)
        n, t = self.beta.shape[0], self.count
        logs = xp.sum(xp.log(self.squares))
        each = xp.sum(xp.log(xp.linalg.diagonal(self.factor.L)))
        if self.roots is not None:
            each = each - xp.sum(xp.log(self.roots))
        return -0.5 * n * logs - t * each - 0.5 * n * t * (1.0 + LOG_2PI)

    @property
    def dual_coef(self) -> Array:
        """Coefficients α (n, t) of the posterior mean, a sum of kernels of the samples."""
        return self.beta if self.roots is None else self.roots * self.beta

    @property
    def factors(self) -> tuple[Array, None]:
        """The factor (n, n) of K + r / D, for `variances`."""
        L = self.factor.L
        return (L if self.roots is None else L / self.roots), None


def variances(own: Array, K: Array, factor: Array, inner: Array | None = None, /) -> Array:
    r"""Return the posterior variances (m,) of f, in units of its squared amplitude.

    .. math:: k(x, x) - \|h\|^2 + \|N^{-1} h\|^2, \qquad h = L^{-1} k_x

    By factors: where there is hardly any noise nearly all of k(x, x) cancels, and an inverse of
    what L is the factor of would be rounded by more than is left.

    Parameters
    ----------
    own : array, shape (m,)
        k(x, x).
    K : array, shape (m, n)
        Rows k_x, of the kernel to the samples, or to the centres.
    factor : array, shape (n, n)
        L, lower triangular.
    inner : array, shape (n, n), optional
        N, lower triangular; all samples are centres without one.

    Notes
    -----
    In the dtype of all arrays, float64. O(m n²).
    """
    xp = array_namespace(K)
    white = CholeskyFactor(factor).solve_lower(K.T)
    left = own - xp.sum(white * white, axis=0)
    if inner is not None:
        unseen = CholeskyFactor(inner).solve_lower(white)
        left = left + xp.sum(unseen * unseen, axis=0)
    return clip(left, low=0.0)


@dataclass(frozen=True, eq=False)
class Pull:
    """Twice the symmetric derivative with respect to S (n, n), by blocks of rows.

    Twice, as rows and columns pull at samples alike: the one half does for both.
    """

    rows: Callable[[int, int], Array]  # from which to which: (stop - start, n)
    trace: Array


def evidence(posterior: Posterior, inverse: Array, /) -> tuple[Array, Pull]:
    r"""Return the log marginal likelihood, and its derivative with respect to S.

    .. math:: \tfrac12 \sum_c (\beta_c \beta_c^\top / a_c^2 - S^{-1})
    """
    xp, beta, t = array_namespace(inverse), posterior.beta, posterior.count
    scaled = beta / posterior.squares[None, :]

    def rows(start: int, stop: int) -> Array:
        return scaled[start:stop, :] @ beta.T - t * inverse[start:stop, :]

    trace = xp.sum(scaled * beta) - t * xp.sum(xp.linalg.diagonal(inverse))
    return posterior.evidence(), Pull(rows, trace)


def leave_one_out(posterior: Posterior, inverse: Array, /) -> tuple[Array, Pull]:
    r"""Return -n / 2 times the log leave-one-out error, and its derivative with respect to S.

    A sample that is left out is missed by :math:`\beta_i / (\sqrt{w_i} A_{ii})`, with A the inverse
    of S; the error is the weighted mean of the squares, over all targets. On the scale of the
    evidence, which for noise alone it is.
    """
    xp, beta = array_namespace(inverse), posterior.beta
    n, t = beta.shape[0], max(posterior.count, 1.0)
    own = xp.linalg.diagonal(inverse)[:, None]
    missed = beta / own
    error = xp.sum(missed * missed)
    # With dA = -A dS A: the misses move with beta, and with the diagonal of A
    pull = inverse @ (missed / own)
    turned = inverse * (xp.sum(missed * missed, axis=1)[:, None] / own)
    slope = inverse @ turned - 0.5 * (pull @ beta.T + beta @ pull.T)
    scale = -0.5 * n * t
    slope = (4.0 * scale / error) * slope
    trace = xp.sum(xp.linalg.diagonal(slope))
    value = scale * xp.log(error / (n * t))
    return value, Pull(lambda start, stop: slope[start:stop, :], trace)


Criterion = Callable[[Posterior, Array], tuple[Array, Pull]]
CRITERIA: dict[str, Criterion] = {"evidence": evidence, "loo": leave_one_out}
# Nats of a target that a step of lengthscales must gain. Held-out parts of 400 rows of 17 sets say
# that to go on is no better by the evidence, and by the error of leaving out 1.6 % worse, which
# many lengthscales can fit too well. Of more samples that many count for each: rows to fit of nine
# tables of 2600 to 7500 took three quarters of the evaluations, with the same errors on others
_ENOUGH = {"evidence": 0.2, "loo": 2.0}
_ALIKE = 400
_PLATEAU = 1e-5  # the same of a map, for each sample: where features come in, it gains little first


class ExactCriterion:
    r"""A criterion of map and noise ratio from all pairs of samples.

    Parameters
    ----------
    kernel : Kernel
        The function k, at lengthscale 1.
    X : array, shape (n, d)
        Samples.
    Y : array, shape (n, t)
        Targets of mean 0.
    criterion : {"evidence", "loo"}
        Log marginal likelihood, or leave-one-out error; see `evidence` and `leave_one_out`.
    weights : array, shape (n, 1), optional
        Sample weights w, positive, of mean 1: sample i has noise of variance :math:`a^2 r / w_i`.
    count : int, optional
        How many of the targets vary, where some are 0.

    Notes
    -----
    In float64. O(n³ + n² k) for a value with its gradient, by matrix products: no matrix is
    differentiated entry by entry.

    References
    ----------
    .. [1] Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, eqs. (2.30),
       (5.9) and (5.12).
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        Y: Array,
        /,
        *,
        criterion: str = "evidence",
        weights: Array | None = None,
        count: int | None = None,
    ) -> None:
        xp = array_namespace(X, Y)
        self.kernel, self.criterion = kernel, CRITERIA[criterion]
        self._enough = _ENOUGH[criterion] / min(X.shape[0], _ALIKE)
        self.X, self.Y = xp.astype(X, xp.float64), xp.astype(Y, xp.float64)
        self.roots = None if weights is None else xp.sqrt(xp.astype(weights, xp.float64))
        self.count = float(Y.shape[1] if count is None else count)

    @property
    def scale(self) -> float:
        """The number of samples times that of targets, the scale of the values."""
        return float(self.Y.shape[0]) * max(self.count, 1.0)

    def enough(self, *, diagonal: bool) -> float:
        """Return the minimal gain of a step, in nats per sample and target."""
        return self._enough if diagonal else _PLATEAU

    def posterior(self, C: Array, ratio: float, /) -> Posterior:
        """Return the posterior at a map (k, d), or a diagonal one (d,).

        Raises
        ------
        numpy.linalg.LinAlgError
            If S is not positive definite in float64.
        """
        return self._posterior(
            self._kernel_operator(apply_map(self.X, self._wide(C))).dense(), ratio
        )

    def _kernel_operator(self, U: Array) -> KernelOperator:
        return KernelMatrix(self.kernel, U).cross_operator(U)

    def _wide(self, C: Array) -> Array:
        return array_namespace(C).astype(C, self.X.dtype)

    def _posterior(self, K: Array, ratio: float) -> Posterior:
        return self._make_posterior(
            CholeskyFactor.factor(self._matrix(K, ratio), overwrite=True), ratio
        )

    def _matrix(self, K: Array, ratio: float) -> Array:
        """Return S (n, n)."""
        return add_to_diagonal(self._weigh_pairs(K), ratio)

    def _make_posterior(self, factor: CholeskyFactor, ratio: float) -> Posterior:
        targets = self.Y if self.roots is None else self.roots * self.Y
        return Posterior(ratio, factor, targets, factor.solve(targets), self.roots, self.count)

    def _weigh_pairs(self, P: Array) -> Array:
        return P if self.roots is None else self.roots * P * self.roots.T

    def __call__(self, C: Array, ratio: float, /) -> Slopes:
        """Evaluate with the gradient at a map (k, d), or a diagonal one (d,).

        A GPU is waited for once.
        """
        xp, C = array_namespace(C), self._wide(C)
        U = apply_map(self.X, C)
        among = self._kernel_operator(U)
        K = among.dense()

        def measure(factor: CholeskyFactor) -> Array:
            value, pull = self.criterion(self._make_posterior(factor, ratio), factor.inverse())

            def pull_rows(start: int, stop: int) -> Array:
                P, part, K_part = pull.rows(start, stop), U[start:stop, :], K[start:stop, :]
                if self.roots is not None:
                    P = self.roots[start:stop, :] * P * self.roots.T
                return self.kernel._pullback(part, U, P, K_part)[0]

            each = among.map_blocks(pull_rows, columns=U.shape[1:], dtype=U.dtype)
            metric = map_gradient(each, self.X, C)
            scalars = xp.stack([value, (0.5 * ratio) * pull.trace])
            return xp.concat([scalars, xp.reshape(metric, (-1,))])

        numbers = factor_and_measure(self._matrix(K, ratio), measure)
        return Slopes(float(numbers[0]), numbers[2:].reshape(tuple(C.shape)), float(numbers[1]))


# ---------------------------------------------------------------------------- evidence fit

# The map and the noise ratio that maximise the evidence, or another criterion of them.


_FIRST_STEPS = 8  # after which the best start goes on alone
_SHORTEST = 1e-3  # norm of a column, beside the longest, in units of which its entries are counted
_STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)
_LOG_RATIOS = (
    math.log(1e-8),
    math.log(1e8),
)  # the first is that below which rounding is mistaken for structure
_LOG_SHARPEST = math.log(1e3)  # typical lengthscales in one: of shorter ones distances are rounded


class MetricCriterion(Protocol):
    """A function of map and noise ratio to maximise."""

    @property
    def scale(self) -> float:
        """The number of samples times that of targets."""

    def enough(self, *, diagonal: bool) -> float:
        """Return the minimal gain of a step, in nats per sample and target."""

    def __call__(self, C: Array, ratio: float, /) -> Slopes:
        """Evaluate with the gradient."""


@dataclass(frozen=True)
class MetricPrior:
    r"""The prior of lengthscales and noise ratio.

    Normal densities of the logarithms, so weak that they say little where the data say anything:
    lengthscales of features that do not matter stay finite, and noise is not taken for structure.

    Attributes
    ----------
    lengthscale : float
        Typical one of a feature.
    length_spread : float
        Standard deviation of its logarithm.
    ratio, ratio_spread : float
        The same of the noise ratio.
    """

    lengthscale: float
    length_spread: float = 1.0
    ratio: float = 0.05
    ratio_spread: float = 2.0

    def __call__(self, logs: np.ndarray, /, *, lengths: bool) -> tuple[float, np.ndarray]:
        """Return the log density up to a constant, and its gradient.

        Of the logarithms of inverse lengthscales, unless `lengths` is false, and of the ratio.
        """
        center = np.full(len(logs), -math.log(self.lengthscale))
        spread = np.full(len(logs), self.length_spread if lengths else math.inf)
        center[-1], spread[-1] = math.log(self.ratio), self.ratio_spread
        away = (logs - center) / spread
        return -0.5 * float(away @ away), -away / spread


@dataclass(frozen=True, eq=False)
class MetricFit:
    """A map, a noise ratio, and the record of their fit."""

    C: Array  # (k, d), or the diagonal (d,)
    ratio: float
    value: float  # of the criterion and the log prior
    status: Status
    history: History


def fit_metric(
    criterion: MetricCriterion,
    starts: Sequence[tuple[Array, float]],
    /,
    *,
    prior: MetricPrior,
    learn_ratio: bool = True,
    optimizer: LBFGS,
    watch: Callable[[int, Array, History], Status | None] = lambda *_: None,
) -> MetricFit:
    r"""Maximise a criterion of the map and the noise ratio.

    Parameters
    ----------
    criterion : MetricCriterion
        `ExactCriterion` or `BoundCriterion`.
    starts : sequence of (array, float)
        Maps (k, d) with noise ratios, or diagonals (d,) of maps, which then stay diagonal and
        positive: a lengthscale for each feature, of at least a thousandth of the prior's. Of
        several the best after a few steps goes on.
    prior : MetricPrior
        Of lengthscales, where maps are diagonal, and of the noise ratio.
    learn_ratio : bool
        Whether the noise ratio is learned, or kept.
    optimizer : LBFGS
        Steps and time; it also ends where two steps gain less than is `enough` for the criterion.
    watch : callable
        ``watch(k, x, history)`` after each step, with the logarithms that are optimised, or the
        entries of the map, each in units of its column at the start.

    Returns
    -------
    MetricFit
        The best that was met.

    Raises
    ------
    FloatingPointError
        If the criterion is not finite at a start.
    """
    descents = [_Descent(criterion, prior, C, ratio, learn_ratio) for C, ratio in starts]
    best, begun = descents[0], descents[0].start
    enough = criterion.enough(diagonal=best.diagonal)
    solver, watch = replace(optimizer, tol=0.0), _stop_at_plateau(watch, enough)
    if len(descents) > 1:
        short = replace(solver, max_iter=min(_FIRST_STEPS, solver.max_iter))
        tried = []
        for one in descents:
            tried.append((short.minimize(one.function, one.start, watch=watch), one))
            if tried[-1][0].status in _STOPPED:
                return replace(_lowest_fit(tried), status=tried[-1][0].status)
        first, best = min(tried, key=_value)
        begun = to_host(first.x)
    return best.fit(solver.minimize(best.function, begun, watch=watch))


def _lowest_fit(tried: Sequence[tuple[Descent, _Descent]]) -> MetricFit:
    found, one = min(tried, key=_value)
    return one.fit(found)


def _value(tried: tuple[Descent, _Descent]) -> float:
    return tried[0].value


class _Descent:
    """A criterion as a function of host numbers, starting at a map."""

    def __init__(
        self,
        criterion: MetricCriterion,
        prior: MetricPrior,
        C: Array,
        ratio: float,
        learn_ratio: bool,
    ) -> None:
        self.criterion, self.prior, self.C = criterion, prior, C
        self.diagonal, self.learn_ratio = C.ndim == 1, learn_ratio
        host = to_host(C).astype(np.float64)
        # Lengthscales of features differ by orders of magnitude, and so would slopes in entries
        self.units = np.ones(1) if self.diagonal else _column_norms(host)
        metric = np.log(host) if self.diagonal else host / self.units
        # Of a longer metric squares are so large that small distances are their rounding
        self.most = _LOG_SHARPEST - math.log(prior.lengthscale) if self.diagonal else math.inf
        self.start = np.append(metric, math.log(ratio))

    def unpack(self, x: np.ndarray, /) -> tuple[Array, float]:
        """Return map and noise ratio."""
        entries = x[:-1].reshape(tuple(self.C.shape))
        host = self._inverse_lengths(entries) if self.diagonal else entries * self.units
        return asarray_like(host, self.C), math.exp(np.clip(x[-1], *_LOG_RATIOS))

    def _inverse_lengths(self, logs: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(logs, self.most))

    def fit(self, descent: Descent, /) -> MetricFit:
        """Return the result of a descent."""
        C, ratio = self.unpack(to_host(descent.x))
        value = -descent.value * self.criterion.scale
        return MetricFit(C, ratio, value, descent.status, descent.history)

    def function(self, at: Array, /) -> tuple[float, Array]:
        """Return the negative criterion per sample and target, with its gradient."""
        x = to_host(at)
        with np.errstate(over="ignore", invalid="ignore"):  # the line search turns back
            C, ratio = self.unpack(x)
            try:
                found = self.criterion(C, ratio)
            except np.linalg.LinAlgError:
                return math.inf, np.zeros_like(x)
        metric = to_host(found.metric)
        if self.diagonal:
            metric = metric * self._inverse_lengths(x[:-1]) * (x[:-1] <= self.most)
        else:
            metric = metric * self.units
        slope = np.append(metric, found.log_ratio)
        more, pull = self.prior(x, lengths=self.diagonal)
        low, high = _LOG_RATIOS
        slope[-1] *= low <= x[-1] <= high
        slope = slope + pull
        slope[-1] *= self.learn_ratio
        return -(found.value + more) / self.criterion.scale, -slope / self.criterion.scale


def _column_norms(C: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(C, axis=0)
    return np.maximum(norms, _SHORTEST * norms.max()) if norms.any() else np.ones_like(norms)


def _stop_at_plateau(
    watch: Callable[[int, Array, History], Status | None], enough: float
) -> Callable[[int, Array, History], Status | None]:
    """Return a callback that stops a descent after two steps with little gain."""

    def stop(k: int, x: Array, history: History) -> Status | None:
        asked, values = watch(k, x, history), history.objective
        if asked is None and len(values) > 2 and values[-3] - values[-1] <= 2.0 * enough:
            return Status.CONVERGED
        return asked

    return stop
