"""Maps by evidence of one data set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpukfl._array import Array, array_namespace, beside, double_like, double_reference, to_host
from gpukfl._results import History, Status
from gpukfl._rows import Rows
from gpukfl.estimators.hkrr._problem import HyperKernelProblem, Solved
from gpukfl.estimators.hkrr._settings import largest_size
from gpukfl.kernels import median_distance
from gpukfl.methods import (
    BoundCriterion,
    ExactCriterion,
    MetricFit,
    MetricPrior,
    fit_metric,
    principal_gradients,
    resized_map,
)
from gpukfl.operators import KernelOperator, diagonal_map, mapped
from gpukfl.solvers import LBFGS

FIRST_ROWS = 500  # that a metric is learned on to begin with
KEPT_ROWS = 2_000  # from which a map says nothing of single rows: that of another fit is as good
EXACT_ROWS = 2_500  # up to which all pairs of rows are taken
_STRETCHES, _RATIO = (1.0, 3.0), 0.1  # of the typical distance, and of the noise, to begin with
_STEPS = 100
_MOST_DIRECTIONS, _SHARE = 20, 0.99  # of the average gradients, that a map of few rows begins with

Watch = Callable[[int, Array, History], Status | None]


@dataclass(frozen=True, eq=False)
class Learned:
    """What a fold gives: the map, and a model of it."""

    B: Array  # (k, d)
    lengthscale: float
    model: Solved | None = None
    start: Learned | None = None  # what it went on from
    metric: MetricFit | None = None  # whose map it is, where the evidence gave it


@dataclass(frozen=True)
class MetricSearch:
    """How a metric is learned.

    Attributes
    ----------
    criterion : {"evidence", "loo"}
        What is maximised.
    ratio : float or None
        Noise ratio that is kept; None is learned.
    n_centers : int
        Of the bound, where rows are too many for all pairs.
    left : callable
        Gives the seconds that are left, None without a limit.
    watch : callable
        Of `fit_metric`.
    """

    criterion: str = "evidence"
    ratio: float | None = None
    n_centers: int = 500
    left: Callable[[], float | None] = lambda: None
    watch: Watch = lambda *_: None

    def diagonal(
        self, problem: HyperKernelProblem, at_most: int, at: MetricFit | None = None, /
    ) -> MetricFit:
        """Learn a lengthscale for each feature on some rows; from another metric, or anew."""
        part = problem.part(at_most)
        starts = [(at.C, at.ratio)] if at is not None else self.first(part)
        return self._fit(part, starts)

    def begun_from(self, known: MetricFit, problem: HyperKernelProblem, /) -> MetricFit:
        """Give where to begin, by the diagonal metric of a fit to about the same rows.

        Which features matter would tell of samples that were among those rows and are held out now:
        of few rows only the mean lengthscale and the noise are taken.
        """
        xp, C = array_namespace(problem.reference), _placed(known.C, problem)
        if problem.n <= FIRST_ROWS:
            C = xp.exp(xp.zeros_like(C) + xp.mean(xp.log(C)))
        return replace(known, C=C, ratio=self._ratio_of(known))

    def _ratio_of(self, known: MetricFit) -> float:
        return known.ratio if self.ratio is None else self.ratio

    def again(self, problem: HyperKernelProblem, at_most: int, known: MetricFit, /) -> MetricFit:
        """Learn a map from that of a fit to about the same rows: it ends where these ask for.

        Kept as it is, a map of many numbers would tell of samples that are held out now.
        """
        start = _placed(known.C, problem)
        return self._fit(problem.part(at_most), [(start, self._ratio_of(known))])

    def first(self, part: HyperKernelProblem) -> Sequence[tuple[Array, float]]:
        """Give equal lengthscales, short and long."""
        typical = metric_prior(part).lengthscale
        ones = array_namespace(part.reference).ones(part.d, **double_like(part.reference))
        ratio = _RATIO if self.ratio is None else self.ratio
        return [(ones / (stretch * typical), ratio) for stretch in _STRETCHES]

    def _fit(self, part: HyperKernelProblem, starts: Sequence[tuple[Array, float]]) -> MetricFit:
        by_pairs = part.n <= EXACT_ROWS
        criterion = exact(part, self.criterion) if by_pairs else bound(part, self.n_centers)
        if self.ratio is None and isinstance(criterion, BoundCriterion):
            starts = [(C, criterion.ratio_nearby(C, ratio)) for C, ratio in starts]
        return fit_metric(
            criterion,
            starts,
            prior=metric_prior(part),
            learn_ratio=self.ratio is None,
            optimizer=LBFGS(max_iter=_STEPS, max_time=self.left()),
            watch=self.watch,
        )

    def mapped(
        self, problem: HyperKernelProblem, at_most: int, k: int | None, at: MetricFit, /
    ) -> MetricFit:
        """Learn a map of k rows on some rows, from a diagonal one; None are chosen, `d` is all."""
        part = problem.part(at_most)
        if k != part.d:
            C = turned(part if part.n <= EXACT_ROWS else problem.part(EXACT_ROWS), at)
        else:
            C = diagonal_map(at.C)
        if k is None:
            k = effective_rows(to_host(C))
        start = resized_map(C, k, rng=part.rng) if k < part.d else C
        return self._fit(part, [(start, at.ratio)])


def _placed(C: Array, problem: HyperKernelProblem) -> Array:
    """Put a map of another fit beside a problem, in float64."""
    there = double_reference(problem.reference)
    return beside(to_host(C), there)


def exact(part: HyperKernelProblem, criterion: str, /) -> ExactCriterion:
    """Give the criterion of all pairs of rows."""
    X = part.rows.whole()
    w, count = part.weights, part.n_varying
    return ExactCriterion(part.kernel, X, part.Y, criterion=criterion, weights=w, count=count)


def bound(part: HyperKernelProblem, n_centers: int, B: Array | None = None, /) -> BoundCriterion:
    """Give the bound on the evidence by some rows as centres."""
    Z = part.centers(n_centers, B)
    w, count = part.weights, part.n_varying
    return BoundCriterion(part.kernel, part.rows, Z, part.Y, weights=w, count=count)


def metric_prior(problem: HyperKernelProblem, /) -> MetricPrior:
    """Expect lengthscales with which rows are as far apart as they typically are."""
    sample, weights = problem.sample(problem.rng)
    return MetricPrior(median_distance(sample, norm=problem.kernel.norm, weights=weights))


def turned(part: HyperKernelProblem, at: MetricFit, /) -> Array:
    """Give the map of the average gradients of the fit at a diagonal one, in units of distance."""
    xp, C = array_namespace(at.C), at.C
    X = xp.astype(part.rows.whole(), xp.float64)
    coef = exact(part, "evidence").posterior(at.C, at.ratio).dual_coef
    operator = KernelOperator(part.kernel, Rows(X, X[:0, 0]), X, C)
    w = None if part.weights is None else xp.astype(part.weights, xp.float64)
    values, rows = map(to_host, principal_gradients(operator, coef, w))
    start = np.sqrt(values)[:, None] * rows
    # As far apart as they are at the diagonal one, which knows the lengthscale
    sample = X[: min(part.n, FIRST_ROWS), :]
    norm = part.kernel.norm
    known = median_distance(mapped(sample, C), norm=norm)
    own = median_distance(sample @ beside(start, sample).T, norm=norm)
    return beside(start * (known / own), at.C)


def effective_rows(C: np.ndarray, /) -> int:
    """Directions that hold nearly all of the squares of a map's singular values."""
    squares = np.linalg.svd(C, compute_uv=False) ** 2
    share = np.cumsum(squares) / max(float(squares.sum()), 1e-300)
    return min(int(np.searchsorted(share, _SHARE)) + 1, _MOST_DIRECTIONS, len(squares))


def metric_map(problem: HyperKernelProblem, metric: MetricFit, k: int, /) -> tuple[Array, float]:
    """Give a map of norm 1 and at most k rows, or a diagonal one, and its lengthscale."""
    C = to_host(metric.C)
    lengthscale = 1.0 / (float(np.max(C)) if C.ndim == 1 else float(np.linalg.norm(C, 2)))
    B = beside(C * lengthscale, problem.reference)
    return B if k >= B.shape[0] else resized_map(B, k, rng=problem.rng), lengthscale


def by_evidence(
    problem: HyperKernelProblem, at: MetricFit | None, max_time: float | None, /
) -> Learned:
    """Give the map of the highest evidence of some rows, beginning where another ended.

    KeyboardInterrupt where the user stops it.
    """
    metric = MetricSearch(left=lambda: max_time).diagonal(problem, FIRST_ROWS, at)
    if metric.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    k = problem.settings.n_components or largest_size(problem.d)
    B, lengthscale = metric_map(problem, metric, k)
    return Learned(diagonal_map(B), lengthscale, metric=metric)
