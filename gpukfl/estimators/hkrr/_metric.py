"""Metrics of HKRR by evidence, leave-one-out or average gradients, and their models."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    double_like,
    double_reference,
    to_double,
    to_host,
)
from gpukfl.core._results import History, Status
from gpukfl.core._warnings import warn
from gpukfl.estimators.hkrr._data import (
    REFIT_CENTERS,
    GPPosterior,
    HyperKernelProblem,
    Jitter,
    SolvedModel,
    is_late,
)
from gpukfl.estimators.hkrr._settings import (
    LOGISTIC,
    largest_n_components,
)
from gpukfl.kernels import KernelTerms, median_distance
from gpukfl.methods import (
    BoundCriterion,
    ExactCriterion,
    LogisticCriterion,
    LogisticFit,
    MetricFit,
    MetricPrior,
    NystromSystem,
    fit_by_least_squares,
    fit_metric,
    principal_gradients,
    prior_means,
    resized_map,
    total_weight,
)
from gpukfl.operators import KernelOperator, apply_map, diagonal_map
from gpukfl.partitioned._rows import Rows
from gpukfl.solvers import LBFGS

FIRST_ROWS = 500  # on which a metric is learned first
KEPT_ROWS = 2_000  # from so many rows on, another fit's map reveals no held-out row
EXACT_ROWS = 2_500  # most rows of which all pairs are used
LOGISTIC_ROWS = 1_000  # the same for classes, whose evidence takes ten times as long
LOGISTIC_CENTERS = 1_000
_METRIC_STRETCHES = (1.0, 3.0)  # first lengthscales, in typical distances
_FIRST_RATIO = 0.1  # first noise ratio
_MAX_STEPS = 100
# Starting directions of a low-rank map: at most so many, or with this share of squared lengths
_MOST_DIRECTIONS, _DIRECTION_SHARE = 20, 0.99

Watch = Callable[[int, Array, History], Status | None]


@dataclass(frozen=True, eq=False)
class LearnedMap:
    """The result of a fold: a map and its model."""

    B: Array  # (k, d)
    lengthscale: float
    model: SolvedModel | None = None
    start: LearnedMap | None = None  # where it started
    metric: MetricFit | None = None  # if the map maximises the evidence


@dataclass(frozen=True)
class MetricSearch:
    """The settings of the optimisation of a metric."""

    criterion: str = "evidence"  # or "loo" or "logistic"
    ratio: float | None = None  # a given noise ratio; None is learned
    n_centers: int = 500  # of the bound, for too many rows for all pairs
    left: Callable[[], float | None] = lambda: None  # remaining seconds; None without a limit
    watch: Watch = lambda *_: None  # for `fit_metric`
    n_steps: int = _MAX_STEPS  # at most

    def diagonal(
        self, problem: HyperKernelProblem, at_most: int, at: MetricFit | None = None, /
    ) -> MetricFit:
        """Learn a lengthscale for each feature on some rows, perhaps from another metric."""
        part = problem.part(at_most)
        if at is None:
            return self._fit(part, self.first(part))
        return self._fit(part, [(at.C, at.ratio)], at.terms)

    def start_metric(self, known: MetricFit, problem: HyperKernelProblem, /) -> MetricFit:
        """Return a starting metric from the diagonal one of a fit to similar rows.

        With few rows it has only the mean lengthscale, the noise and the kernel's terms. More would
        reveal rows of that fit that are held out now.
        """
        xp, C = array_namespace(problem.reference), place_map(known.C, problem)
        if problem.n <= FIRST_ROWS:
            C = xp.exp(xp.zeros_like(C) + xp.mean(xp.log(C), axis=-1, keepdims=True))
        return replace(known, C=C, ratio=self._noise_ratio(known))

    def _noise_ratio(self, known: MetricFit) -> float:
        return known.ratio if self.ratio is None else self.ratio

    def again(self, problem: HyperKernelProblem, at_most: int, known: MetricFit, /) -> MetricFit:
        """Learn a map that starts from the map of a fit to similar rows.

        That map itself would reveal rows that are held out now.
        """
        start = place_map(known.C, problem)
        return self._fit(problem.part(at_most), [(start, self._noise_ratio(known))], known.terms)

    def first(self, part: HyperKernelProblem) -> Sequence[tuple[Array, float]]:
        """Return equal lengthscales, short and long."""
        xp, there = array_namespace(part.reference), double_like(part.reference)
        shape: tuple[int, ...] = (part.d,)
        if part.settings.structure == "diagonals":
            terms = KernelTerms.from_kernel(part.kernel)
            shape = len(terms), 1, part.d // part.n_scalings
        typical = xp.asarray(make_metric_prior(part).lengthscale, **there)
        ones = xp.ones(shape, **there)
        ratio = _FIRST_RATIO if self.ratio is None else self.ratio
        return [(ones / (stretch * typical), ratio) for stretch in _METRIC_STRETCHES]

    def _fit(
        self,
        part: HyperKernelProblem,
        starts: Sequence[tuple[Array, float]],
        terms: KernelTerms | None = None,
    ) -> MetricFit:
        by_pairs = part.n <= EXACT_ROWS or self.criterion == LOGISTIC
        criterion = (
            exact_criterion(part, self.criterion)
            if by_pairs
            else bound_criterion(part, part.centers(self.n_centers))
        )
        if self.ratio is None and isinstance(criterion, BoundCriterion):
            starts = [(C, criterion.ratio_nearby(C, ratio)) for C, ratio in starts]
        return fit_metric(
            criterion,
            starts,
            prior=make_metric_prior(part),
            terms=initial_terms(part) if terms is None else terms,
            learn_ratio=self.ratio is None,
            optimizer=LBFGS(max_iter=self.n_steps, max_time=self.left()),
            watch=self.watch,
        )

    def learn_map(
        self, problem: HyperKernelProblem, at_most: int, k: int | None, at: MetricFit, /
    ) -> MetricFit:
        """Learn a map of k rows on some rows, from a diagonal one; k = None is chosen."""
        part = problem.part(at_most)
        if k != part.d:
            some = part if part.n <= EXACT_ROWS else problem.part(EXACT_ROWS)
            C = average_gradient_map(some.with_kernel(at.kernel(some.kernel)), at)
        else:
            C = diagonal_map(at.C)
        if k is None:
            k = n_leading_directions(to_host(C))
        start = resized_map(C, k, rng=part.rng) if k < part.d else C
        return self._fit(part, [(start, at.ratio)], at.terms)


def initial_terms(part: HyperKernelProblem, /) -> KernelTerms | None:
    """Return the terms of a kernel whose shares are learned; None if there are none."""
    if part.settings.criterion == "hold_out":
        return None
    terms = KernelTerms.from_kernel(part.kernel)
    return terms if len(terms) > 1 else None


def place_map(C: Array, problem: HyperKernelProblem) -> Array:
    """Return the map of another fit on the place of a problem, in float64."""
    there = double_reference(problem.reference)
    return asarray_like(to_host(C), there)


def exact_criterion(part: HyperKernelProblem, criterion: str, /) -> ExactCriterion:
    """Return the criterion of all pairs of rows."""
    X = part.rows.whole()
    if criterion == LOGISTIC:
        return logistic_criterion(part)
    w, count = part.weights, part.n_varying
    return ExactCriterion(part.kernel, X, part.Y, criterion=criterion, weights=w, count=count)


def logistic_criterion(part: HyperKernelProblem, /) -> LogisticCriterion:
    """Return the evidence of the log odds of classes."""
    return LogisticCriterion(part.kernel, part.rows.whole(), part.Y, weights=part.weights)


def bound_criterion(part: HyperKernelProblem, Z: Array, /) -> BoundCriterion:
    """Return the bound on the evidence by some rows as centres."""
    w, count = part.weights, part.n_varying
    return BoundCriterion(part.kernel, part.rows, Z, part.Y, weights=w, count=count)


def make_metric_prior(problem: HyperKernelProblem, /) -> MetricPrior:
    """Return the prior of metrics, centred at the typical distances between rows."""
    sample, weights = problem.sample()
    norm, count = problem.kernel.norm, problem.n_scalings
    if count == 1:
        return MetricPrior(median_distance(sample, norm=norm, weights=weights))
    width = problem.d // count
    each = (sample[:, t * width : (t + 1) * width] for t in range(count))
    typical = [median_distance(part, norm=norm, weights=weights) for part in each]
    return MetricPrior(np.reshape(typical, (count, 1, 1)))


def average_gradient_map(part: HyperKernelProblem, at: MetricFit, /) -> Array:
    """Return the map of the average gradients of the fit at a diagonal one."""
    xp, C = array_namespace(at.C), at.C
    X = xp.astype(part.rows.whole(), xp.float64)
    criterion = exact_criterion(part, part.settings.criterion)
    if isinstance(criterion, LogisticCriterion):
        coef = criterion.fit(at.C, at.ratio).dual_coef
    else:
        coef = criterion.posterior(at.C, at.ratio).dual_coef
    operator = KernelOperator(part.kernel, Rows(X, X[:0, 0]), X, C)
    w = None if part.weights is None else xp.astype(part.weights, xp.float64)
    values, rows = map(to_host, principal_gradients(operator, coef, w))
    start = np.sqrt(values)[:, None] * rows
    # With the lengthscale of the diagonal map
    sample = X[: min(part.n, FIRST_ROWS), :]
    norm = part.kernel.norm
    known = median_distance(apply_map(sample, C), norm=norm)
    own = median_distance(sample @ asarray_like(start, sample).T, norm=norm)
    return asarray_like(start * (known / own), at.C)


def n_leading_directions(C: np.ndarray, /) -> int:
    """Return the number of directions with nearly all of a map's squared singular values."""
    squares = np.linalg.svd(C, compute_uv=False) ** 2
    share = np.cumsum(squares) / max(float(squares.sum()), 1e-300)
    return min(int(np.searchsorted(share, _DIRECTION_SHARE)) + 1, _MOST_DIRECTIONS, len(squares))


def normalise_metric(
    problem: HyperKernelProblem, metric: MetricFit, k: int, /
) -> tuple[Array, float]:
    """Return a metric as a map of norm 1 with a lengthscale.

    The map has at most k rows, or is diagonal. The maps of a kernel's terms are stacked; if terms
    have their own scaled columns, they are one diagonal of all columns.
    """
    apart = metric.C.ndim == 3
    if problem.n_scalings > 1:
        C = to_host(metric.C).reshape(-1)
    else:
        C = to_host(diagonal_map(metric.C) if apart else metric.C)
    lengthscale = 1.0 / (float(np.max(C)) if C.ndim == 1 else float(np.linalg.norm(C, 2)))
    B = asarray_like(C * lengthscale, problem.reference)
    kept = apart or k >= B.shape[0]
    return B if kept else resized_map(B, k, rng=problem.rng), lengthscale


def learn_map_by_evidence(
    problem: HyperKernelProblem, at: MetricFit | None, max_time: float | None, /
) -> LearnedMap:
    """Learn the map of highest evidence on some rows, perhaps from another map.

    Raises KeyboardInterrupt on Ctrl-C.
    """
    metric = MetricSearch(left=lambda: max_time).diagonal(problem, FIRST_ROWS, at)
    if metric.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    k = problem.settings.n_components or largest_n_components(problem.d)
    B, lengthscale = normalise_metric(problem, metric, k)
    return LearnedMap(diagonal_map(B), lengthscale, metric=metric)


@dataclass(frozen=True, eq=False)
class EvidenceModel:
    """A model and its metric."""

    metric: MetricFit
    model: SolvedModel
    belief: GPPosterior | None = None
    latent: LogisticFit | None = None  # the log odds of classes


def solve_exactly(problem: HyperKernelProblem, metric: MetricFit, /) -> EvidenceModel:
    """Solve with all pairs of rows."""
    problem = problem.with_kernel(metric.kernel(problem.kernel))
    posterior = exact_criterion(problem, "evidence").posterior(metric.C, metric.ratio)
    Z = problem.rows.whole()
    xp = array_namespace(Z)
    own = float(xp.mean(problem.kernel.diagonal(apply_map(Z, xp.astype(metric.C, Z.dtype)))))
    jitter = Jitter(metric.ratio / own, raised=False)
    model = model_from_metric(problem, metric, Z, posterior.dual_coef, jitter)
    value = float(posterior.evidence())
    belief = GPPosterior(value, metric.ratio, posterior.squares, posterior.factors)
    return EvidenceModel(metric, model, belief)


def solve_by_centers(
    problem: HyperKernelProblem, metric: MetricFit, count: int, left: Callable[[], float | None], /
) -> EvidenceModel:
    """Solve with some rows as centres, and with all rows if there is time.

    Variances are those with the centres.
    """
    problem = problem.with_kernel(metric.kernel(problem.kernel))
    begun = time.perf_counter()
    index = problem.center_index(count if count < problem.n else REFIT_CENTERS, metric.C)
    criterion = bound_criterion(problem, problem.rows.gather(index))
    posterior, value = criterion.evaluate(metric.C, metric.ratio)
    jitter, taken = Jitter.from_factor(posterior.factor), replace(metric, ratio=posterior.ratio)
    belief = GPPosterior(value, taken.ratio, posterior.squares, posterior.factors)
    model = model_from_metric(problem, taken, criterion.Z, posterior.dual_coef, jitter)
    if not problem.takes_all_rows or is_late(left(), time.perf_counter() - begun):
        return EvidenceModel(metric, model, belief)
    factors = posterior.factor.L, posterior.inner
    try:
        found = problem.solve_from_centers(index, metric.C, factors, taken.ratio, left())
    except KeyboardInterrupt:  # the centres' model is used
        return EvidenceModel(replace(metric, status=Status.INTERRUPTED), model, belief)
    if found is None:
        return EvidenceModel(metric, model, belief)
    if found.solution.status is Status.INTERRUPTED:
        metric = replace(metric, status=Status.INTERRUPTED)
    xp = array_namespace(found.squares)
    squares = xp.where(found.squares > 0, found.squares, xp.ones_like(found.squares))
    return EvidenceModel(metric, model.with_all_rows(found), replace(belief, squares=squares))


def solve_logistic(problem: HyperKernelProblem, metric: MetricFit, /) -> EvidenceModel:
    """Fit the log odds of classes at a metric, with all rows as centres."""
    problem = problem.with_kernel(metric.kernel(problem.kernel))
    fit = logistic_criterion(problem).fit(metric.C, metric.ratio)
    return _logistic_model(problem, metric, problem.rows.whole(), fit)


def solve_logistic_by_centers(
    problem: HyperKernelProblem, metric: MetricFit, count: int, /
) -> EvidenceModel:
    """Fit the log odds of classes through some centres, by reweighted least squares."""
    problem = problem.with_kernel(metric.kernel(problem.kernel))
    Z = problem.centers(count, metric.C)
    Y, weights = problem._wide_targets()
    xp, B = array_namespace(Y), to_double(metric.C)
    w = xp.ones_like(Y[:, 0]) if weights is None else weights[:, 0]
    offsets = prior_means(Y, w)
    centers = xp.astype(Z, xp.float64)
    rows = replace(problem.rows, reference=centers[:0, 0])
    operator = KernelOperator(problem.kernel, rows, centers, B, keep=True)

    def solve(z: Array, W: Array) -> tuple[Array, Array]:
        system = NystromSystem.from_rows(operator, z, W)
        alpha, _ = system.solve(metric.ratio / total_weight(z, W))
        return alpha[:, 0], (operator @ alpha)[:, 0]

    columns = []
    for c, mean in enumerate(offsets):
        coef, status = fit_by_least_squares(solve, Y[:, c], w, float(mean))
        if status is not Status.CONVERGED:
            warn("the log odds of a class have not converged", ConvergenceWarning)
        columns.append(coef)
    coef = xp.stack(columns, axis=1)
    amplitudes = xp.full_like(coef[0, :], metric.ratio**-0.5)
    fit = LogisticFit(coef, offsets, amplitudes, metric.value)
    return _logistic_model(problem, metric, Z, fit)


def _logistic_model(
    problem: HyperKernelProblem, metric: MetricFit, Z: Array, fit: LogisticFit
) -> EvidenceModel:
    model = model_from_metric(problem, metric, Z, fit.dual_coef, Jitter(0.0, raised=False))
    offsets = asarray_like(fit.offsets, fit.dual_coef)
    return EvidenceModel(metric, replace(model, offsets=offsets), latent=fit)


def model_from_metric(
    problem: HyperKernelProblem, metric: MetricFit, Z: Array, alpha: Array, jitter: Jitter
) -> SolvedModel:
    """Return the model at a metric, with the ridge of HKRR."""
    B, lengthscale = normalise_metric(problem, metric, problem.d)
    ridge = metric.ratio / problem.weight
    return SolvedModel(B, lengthscale, Z, alpha, ridge, jitter, kernel=problem.kernel)
