"""The evidence of a Gaussian process and its leave-one-out error, and maps that maximise them."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, clip, to_host
from gpukfl.core._results import History, Status
from gpukfl.kernels import Kernel, KernelTerms, sum_terms
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
    log_factors: np.ndarray  # of the terms of a sum of kernels (s,), none of one kernel


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

    def with_kernel(self, kernel: Kernel, /) -> Self:
        """Return the same criterion of another kernel."""
        other = copy(self)
        other.kernel = kernel
        return other

    def posterior(self, C: Array, ratio: float, /) -> Posterior:
        """Return the posterior at a map (k, d), a diagonal one (d,), or several (s, 1, d).

        Raises
        ------
        numpy.linalg.LinAlgError
            If S is not positive definite in float64.
        """
        U = apply_map(self.X, self._wide(C))
        return self._posterior(_kernel_operator(self.kernel, U).dense(), ratio)

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
        """Evaluate with the gradient at a map (k, d), a diagonal one (d,), or several (s, 1, d).

        A GPU is waited for once.
        """
        xp, C = array_namespace(C), self._wide(C)
        U, kernels = apply_map(self.X, C), sum_terms(self.kernel)
        parts = [_kernel_operator(one, U).dense() for one in kernels]
        K, count = functools.reduce(operator.add, parts), len(parts) if len(parts) > 1 else 0

        def measure(factor: CholeskyFactor) -> Array:
            value, pull = self.criterion(self._make_posterior(factor, ratio), factor.inverse())
            factors, metric = pull_back(self, kernels, parts, U, C, pull)
            scalars = xp.stack([value, (0.5 * ratio) * pull.trace])
            return xp.concat([scalars, factors, xp.reshape(metric, (-1,))])

        numbers = factor_and_measure(self._matrix(K, ratio), measure)
        factors, metric = numbers[2 : 2 + count], numbers[2 + count :]
        return Slopes(float(numbers[0]), metric.reshape(tuple(C.shape)), float(numbers[1]), factors)


def pull_back(
    criterion: ExactCriterion,
    kernels: Sequence[Kernel],
    parts: Sequence[Array],
    U: Array,
    C: Array,
    pull: Pull,
    /,
) -> tuple[Array, Array]:
    """Return the derivatives in the factors of s terms (none of one), and in a map C.

    `kernels` are the terms, `parts` their matrices (n, n) at the mapped samples U (n, k).
    """
    xp, roots = array_namespace(U), criterion.roots
    columns, count = U.shape[1], len(parts) if len(parts) > 1 else 0

    def pull_rows(start: int, stop: int) -> Array:
        P, V = pull.rows(start, stop), U[start:stop, :]
        if roots is not None:
            P = roots[start:stop, :] * P * roots.T
        known = [part[start:stop, :] for part in parts]
        dV, sums = pull_terms(kernels, V, U, P, known)[::2]
        return xp.concat([dV, sums], axis=1)

    each = _kernel_operator(criterion.kernel, U).map_blocks(
        pull_rows, columns=(columns + count,), dtype=U.dtype
    )
    metric = map_gradient(each[:, :columns], criterion.X, C)
    return 0.5 * xp.sum(each[:, columns:], axis=0), metric


def _kernel_operator(kernel: Kernel, U: Array) -> KernelOperator:
    return KernelMatrix(kernel, U).cross_operator(U)


def pull_terms(
    kernels: Sequence[Kernel], U: Array, V: Array, P: Array, parts: Sequence[Array], /
) -> tuple[Array, Array, Array]:
    """Differentiate a sum of kernels between U (n, k) and V (q, k), where it is pulled by P (n, q).

    Parameters
    ----------
    kernels : sequence of Kernel
        The terms.
    U, V, P : arrays, shapes (n, k), (q, k) and (n, q)
        Points, and the derivative in the kernel's values.
    parts : sequence of arrays, shape (n, q)
        Values of the terms.

    Returns
    -------
    tuple of arrays, shapes (n, k), (q, k) and (n, s)
        Derivatives in U and V, and in the logarithms of the factors of s terms, by rows of U; of
        one term, whose factor nobody learns, s is 0.
    """
    xp = array_namespace(U)
    slopes = [one._pullback(U, V, P, part) for one, part in zip(kernels, parts, strict=True)]
    dU, dV = (functools.reduce(operator.add, each) for each in zip(*slopes, strict=True))
    if len(parts) == 1:
        return dU, dV, dU[:, :0]
    return dU, dV, xp.stack([xp.sum(P * part, axis=1) for part in parts], axis=1)


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

    kernel: Kernel

    @property
    def scale(self) -> float:
        """The number of samples times that of targets."""

    def enough(self, *, diagonal: bool) -> float:
        """Return the minimal gain of a step, in nats per sample and target."""

    def with_kernel(self, kernel: Kernel, /) -> Self:
        """Return the same criterion of another kernel."""

    def __call__(self, C: Array, ratio: float, /) -> Slopes:
        """Evaluate with the gradient."""


@dataclass(frozen=True)
class MetricPrior:
    r"""The prior of lengthscales and noise ratio.

    Normal densities of the logarithms, so weak that they say little where the data say anything:
    lengthscales of features that do not matter stay finite, and noise is not taken for structure.

    Attributes
    ----------
    lengthscale : float or host array, shape (s, 1, 1)
        Typical one of a feature, or that of the columns of each term.
    length_spread : float
        Standard deviation of its logarithm.
    ratio, ratio_spread : float
        The same of the noise ratio.
    stretch_spread, share_spread : float
        Standard deviations of the logarithms of what the lengthscale and the share of a term, in
        units of those of the first one, are multiplied by: those of the kernel that is given are
        typical.
    """

    lengthscale: float | np.ndarray
    length_spread: float = 1.0
    ratio: float = 0.05
    ratio_spread: float = 2.0
    stretch_spread: float = 1.0
    share_spread: float = 2.0

    def __call__(
        self, logs: np.ndarray, /, *, lengths: bool, terms: TermLogs | None = None
    ) -> tuple[float, np.ndarray]:
        """Return the log density up to a constant, and its gradient.

        Of the logarithms of inverse lengthscales, unless `lengths` is false, of the stretches and
        shares of `terms`, and of the ratio.
        """
        typical = -np.log(np.ravel(self.lengthscale))
        size = len(logs) - 1 if terms is None else terms.stretches.start
        center = np.zeros(len(logs))
        center[:size] = np.repeat(typical, size // len(typical))
        spread = np.full(len(logs), self.length_spread if lengths else math.inf)
        if terms is not None:
            center[terms.stretches], spread[terms.stretches] = 0.0, self.stretch_spread
            center[terms.shares], spread[terms.shares] = terms.typical, self.share_spread
        center[-1], spread[-1] = math.log(self.ratio), self.ratio_spread
        away = (logs - center) / spread
        return -0.5 * float(away @ away), -away / spread


@dataclass(frozen=True, eq=False)
class TermLogs:
    """Which of the numbers that are learned are of the terms of a sum of kernels."""

    stretches: slice
    shares: slice
    typical: np.ndarray  # logarithms of shares over the first, (s - 1,)


@dataclass(frozen=True, eq=False)
class MetricFit:
    """A map, a noise ratio, and the record of their fit."""

    C: Array  # (k, d), the diagonal (d,), or those of each term of the kernel (s, 1, d)
    ratio: float
    value: float  # of the criterion and the log prior
    status: Status
    history: History
    terms: KernelTerms | None = None  # of the kernel, where they were learned
    n_fits: int = 1  # whose mean it is

    @property
    def is_diagonal(self) -> bool:
        """Whether it has a lengthscale for each feature, of each term of a kernel perhaps."""
        return self.C.ndim != 2

    def mean_with(self, others: Sequence[Any], /) -> MetricFit:
        """Return the geometric mean of diagonal metrics, or this one where any is another map."""
        every = [self, *others]
        alike = all(isinstance(one, MetricFit) and one.C.shape == self.C.shape for one in every)
        if not (alike and self.is_diagonal):
            return self
        xp = array_namespace(self.C)
        C = xp.exp(xp.mean(xp.stack([xp.log(one.C) for one in every]), axis=0))
        ratio = float(np.exp(np.mean([np.log(one.ratio) for one in every])))
        return replace(self, C=C, ratio=ratio, n_fits=len(every))

    def kernel(self, given: Kernel, /) -> Kernel:
        """Return the kernel that goes with the map, where one was given."""
        if self.terms is None:
            return given
        return self.terms.side_by_side(self.C.shape[-1]) if self.C.ndim == 3 else self.terms.join()


def fit_metric(
    criterion: MetricCriterion,
    starts: Sequence[tuple[Array, float]],
    /,
    *,
    prior: MetricPrior,
    terms: KernelTerms | None = None,
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
        several the best after a few steps goes on. Diagonals (s, 1, d) are of s `terms`, of the
        same columns, or, of samples (n, s d), of each its own.
    prior : MetricPrior
        Of lengthscales, where maps are diagonal, of the noise ratio, and of what is learned of
        `terms`.
    terms : KernelTerms, optional
        Terms of the criterion's kernel, a sum, with what is known of them: their shares are learned
        with the map. So are, of maps that they have in common, their lengthscales in units of the
        first; where each has its diagonal, the stretches given are 1.
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
    descents = [_Descent(criterion, prior, C, ratio, learn_ratio, terms) for C, ratio in starts]
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
    """A criterion as a function of host numbers, starting at a map.

    The numbers are the map, by rows, the logarithms of what is learned of the terms of a kernel,
    and that of the noise ratio.
    """

    def __init__(
        self,
        criterion: MetricCriterion,
        prior: MetricPrior,
        C: Array,
        ratio: float,
        learn_ratio: bool,
        terms: KernelTerms | None = None,
    ) -> None:
        self.criterion, self.prior, self.C = criterion, prior, C
        self.diagonal, self.learn_ratio = C.ndim != 2, learn_ratio
        host = to_host(C).astype(np.float64)
        # Lengthscales of features differ by orders of magnitude, and so would slopes in entries
        self.units = np.ones(1) if self.diagonal else _column_norms(host)
        metric = np.log(host) if self.diagonal else host / self.units
        # Of a longer metric squares are so large that small distances are their rounding
        self.most = _LOG_SHARPEST - np.log(prior.lengthscale) if self.diagonal else math.inf
        self.terms = _LearnedTerms(criterion.kernel, terms, C) if terms is not None else None
        own = np.zeros(0) if self.terms is None else self.terms.start
        self.start = np.concatenate([metric.ravel(), own, [math.log(ratio)]])

    def unpack(self, x: np.ndarray, /) -> tuple[Array, float]:
        """Return map and noise ratio."""
        entries = x[: self._size].reshape(tuple(self.C.shape))
        host = self._inverse_lengths(entries) if self.diagonal else entries * self.units
        return asarray_like(host, self.C), math.exp(np.clip(x[-1], *_LOG_RATIOS))

    @property
    def _size(self) -> int:
        return math.prod(self.C.shape)

    def _inverse_lengths(self, logs: np.ndarray) -> np.ndarray:
        return np.exp(np.minimum(logs, self.most))

    def fit(self, descent: Descent, /) -> MetricFit:
        """Return the result of a descent."""
        x = to_host(descent.x)
        C, ratio = self.unpack(x)
        value = -descent.value * self.criterion.scale
        terms = None if self.terms is None else self.terms.unpack(x[self._size : -1])
        return MetricFit(C, ratio, value, descent.status, descent.history, terms)

    def function(self, at: Array, /) -> tuple[float, Array]:
        """Return the negative criterion per sample and target, with its gradient."""
        x = to_host(at)
        with np.errstate(over="ignore", invalid="ignore"):  # the line search turns back
            C, ratio = self.unpack(x)
            try:
                value, metric, of_terms, of_ratio = self._evaluate(C, ratio, x[self._size : -1])
            except np.linalg.LinAlgError:
                return math.inf, np.zeros_like(x)
        if self.diagonal:
            logs = x[: self._size].reshape(metric.shape)
            metric = metric * self._inverse_lengths(logs) * (logs <= self.most)
        else:
            metric = metric * self.units
        slope = np.concatenate([metric.ravel(), of_terms, [of_ratio]])
        logs_of = None if self.terms is None else self.terms.logs(self._size)
        more, pull = self.prior(x, lengths=self.diagonal, terms=logs_of)
        low, high = _LOG_RATIOS
        slope[-1] *= low <= x[-1] <= high
        slope = slope + pull
        slope[-1] *= self.learn_ratio
        return -(value + more) / self.criterion.scale, -slope / self.criterion.scale

    def _evaluate(
        self, C: Array, ratio: float, logs: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray, float]:
        """Return the criterion with its derivatives in the map, the terms and the noise ratio."""
        if self.terms is None:
            found = self.criterion(C, ratio)
            return found.value, to_host(found.metric), np.zeros(0), found.log_ratio
        kernel, maps = self.terms.side_by_side(C, logs)
        found = self.criterion.with_kernel(kernel)(maps, ratio)
        metric, of_terms = self.terms.slopes(found, to_host(C), logs)
        return found.value, metric, of_terms, found.log_ratio


class _LearnedTerms:
    """The terms of a kernel as a function of logarithms: stretches and shares over the first ones.

    Without the former where each term has its own map.
    """

    def __init__(self, given: Kernel, known: KernelTerms, C: Array) -> None:
        self.known, self.apart = known, C.ndim == 3
        shares = np.log(KernelTerms.from_kernel(given).shares)
        self.typical = shares[1:] - shares[0]
        known_shares = np.log(known.shares)
        stretches = np.zeros(0) if self.apart else np.log(known.stretches[1:])
        self.start = np.concatenate([stretches, known_shares[1:] - known_shares[0]])

    def logs(self, begin: int) -> TermLogs:
        """Return which numbers are learned, from the first of them."""
        middle, end = begin + len(self.start) - len(self.typical), begin + len(self.start)
        return TermLogs(slice(begin, middle), slice(middle, end), self.typical)

    def unpack(self, logs: np.ndarray, /) -> KernelTerms:
        """Return the terms."""
        count = len(self.known) - 1
        heights = np.append(0.0, logs[len(logs) - count :])
        shares = np.exp(heights - heights.max())
        stretches = np.exp(np.append(0.0, np.zeros(count) if self.apart else logs[:count]))
        return KernelTerms(
            self.known.kernels, tuple((shares / shares.sum()).tolist()), tuple(stretches.tolist())
        )

    def side_by_side(self, C: Array, logs: np.ndarray, /) -> tuple[Kernel, Array]:
        """Return the kernel whose terms each have their map, and these."""
        terms = self.unpack(logs)
        kernel = terms.side_by_side(C.shape[0] if C.ndim == 2 else C.shape[-1])
        if self.apart:
            return kernel, C
        xp = array_namespace(C)
        maps = [C / length for length in terms.stretches]
        if C.ndim == 2:
            return kernel, xp.concat(maps, axis=0)
        return kernel, xp.stack(maps, axis=0)[:, None, :]

    def slopes(
        self, found: Slopes, C: np.ndarray, logs: np.ndarray, /
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives in the map, and in the logarithms."""
        terms, metric = self.unpack(logs), to_host(found.metric)
        shares = found.log_factors - np.asarray(terms.shares) * found.log_factors.sum()
        if self.apart:
            return metric, shares[1:]
        each = metric.reshape(len(terms), *C.shape) / np.expand_dims(
            terms.stretches, tuple(range(1, C.ndim + 1))
        )
        stretches = [-float(np.sum(part * C)) for part in each[1:]]
        return each.sum(axis=0), np.concatenate([stretches, shares[1:]])


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
