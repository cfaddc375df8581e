"""HKRR whose map maximises the evidence, or lowers the leave-one-out error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from gpukfl._array import Array, array_namespace
from gpukfl._places import Place
from gpukfl._results import History, Status
from gpukfl.estimators._held_out import HeldOut
from gpukfl.estimators._learner import Choice
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Search
from gpukfl.estimators.hkrr._metric import (
    EXACT_ROWS,
    FIRST_ROWS,
    KEPT_ROWS,
    MetricSearch,
    bound,
    exact,
    metric_map,
)
from gpukfl.estimators.hkrr._problem import (
    Belief,
    HyperKernelProblem,
    Jitter,
    Solved,
    placed_problem,
)
from gpukfl.estimators.hkrr._search import LEARN_ROWS, Fitted
from gpukfl.estimators.hkrr._settings import Settings
from gpukfl.methods import HKRRFit, MetricFit
from gpukfl.operators import mapped

_STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)


@dataclass(frozen=True, eq=False)
class Believed:
    """A model, and where its map comes from."""

    metric: MetricFit
    model: Solved
    belief: Belief


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit, and rows held out."""

    settings: ByEvidence
    problem: HyperKernelProblem
    held_out: HeldOut

    def learn(self, known: MetricFit | None, start: None, run: Run, /) -> Believed:  # noqa: ARG002
        """Learn the map, or begin with one of about the same rows, and solve."""
        found = self.settings.fit(self.problem, run, known)
        if found.metric.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return found

    def predict(self, learned: Believed, /) -> Array:
        """Predict the held-out rows."""
        return self.problem.predict(learned.model, self.held_out.X)


class ByEvidence(Settings):
    """HKRR with its settings, where nothing is chosen by held-out rows."""

    splits: ClassVar[Splits] = Splits(fewest=2)

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Rows times centres."""
        return n * min(n, EXACT_ROWS)

    def problem(self, samples: Samples, place: Place, run: Run, /) -> HyperKernelProblem:
        """Place and scale samples."""
        return placed_problem(self, samples, place, run)

    def given(self, problem: HyperKernelProblem, /) -> None:
        """Give nothing: all is learned, or fixed."""

    def fold(self, problem: HyperKernelProblem, held_out: HeldOut, /) -> Fold:
        """Join rows to fit and rows that judge."""
        return Fold(self, problem, held_out)

    def search(
        self,
        folds: Callable[[], Sequence[Fold]],
        problem: HyperKernelProblem,
        run: Run,
        /,
    ) -> Search[MetricFit | None, Believed] | None:
        """Give no search."""

    def learn(
        self,
        problem: HyperKernelProblem,
        choice: Choice[MetricFit | None, Believed],
        run: Run,
        /,
    ) -> Fitted:
        """Learn the map on some rows, and solve with all."""
        found = self.fit(problem, run, choice.setting)
        metric, model = found.metric, found.model
        steps = HKRRFit(model.B, model.lengthscale, metric.status, metric.value, metric.history)
        return Fitted(
            steps,
            model,
            metric.status,
            learned=not problem.constant,
            belief=found.belief,
            metric=metric,
        )

    def fit(
        self, problem: HyperKernelProblem, run: Run, known: MetricFit | None = None, /
    ) -> Believed:
        """Learn a metric on some rows, or begin with a known one; solve with all that count."""
        together = problem.rows.partitioning is None
        problem = problem.part(problem.n) if together else problem
        metric = self.metric(problem, run, known)
        count = problem.n_refit_centers()
        if together and problem.n <= max(EXACT_ROWS, count):
            return solved(problem, metric)
        return solved_by_centers(problem, metric, count)

    def metric(
        self, problem: HyperKernelProblem, run: Run, known: MetricFit | None = None, /
    ) -> MetricFit:
        """Learn a metric on some rows, and go on from there with more.

        From one of about the same rows, where it is `known`: of many rows a diagonal one is kept,
        and a map goes on from there.
        """
        # The bound takes what its centres do not tell apart for noise: some rows say more, unless
        # somebody asks for centres. The error of leaving out has no bound
        by_centers = self.criterion == "evidence" and self.centers.are_given
        most = LEARN_ROWS if by_centers else EXACT_ROWS
        search = MetricSearch(
            self.criterion,
            None if self.ridge is None else problem.weight * self.ridge,
            self.centers.wanted,
            run.left,
            lambda k, _, history: run.tell("fit", k, history),
        )
        if problem.constant:
            C, ratio = search.first(problem)[-1]
            return MetricFit(C, ratio, 0.0, Status.CONVERGED, History())
        if known is not None and known.C.ndim > 1 and problem.n >= KEPT_ROWS:
            return search.again(problem, most, known)
        found = self._diagonal(search, problem, most, known)
        if self.structure == "diagonal" or found.status in _STOPPED:
            return found
        k = problem.d if self.structure == "full" else self.n_components
        return search.mapped(problem, most, k, found)

    def _diagonal(
        self, search: MetricSearch, problem: HyperKernelProblem, most: int, known: MetricFit | None
    ) -> MetricFit:
        found = None
        if known is not None and known.C.ndim == 1:
            found = search.begun_from(known, problem)
            if problem.n >= KEPT_ROWS and self.structure == "diagonal":
                return found
        if found is None or problem.n <= FIRST_ROWS:
            found = search.diagonal(problem, FIRST_ROWS, found)
            if found.status in _STOPPED:
                return found
        return found if problem.n <= FIRST_ROWS else search.diagonal(problem, most, found)


def solved(problem: HyperKernelProblem, metric: MetricFit, /) -> Believed:
    """Solve with all pairs of rows."""
    posterior = exact(problem, "evidence").posterior(metric.C, metric.ratio)
    Z = problem.rows.whole()
    xp = array_namespace(Z)
    own = float(xp.mean(problem.kernel.diagonal(mapped(Z, xp.astype(metric.C, Z.dtype)))))
    jitter = Jitter(metric.ratio / own, raised=False)
    model = model_at(problem, metric, Z, posterior.dual_coef, jitter)
    value = float(posterior.evidence())
    belief = Belief(value, metric.ratio, posterior.squares, posterior.factors)
    return Believed(metric, model, belief)


def solved_by_centers(problem: HyperKernelProblem, metric: MetricFit, count: int, /) -> Believed:
    """Solve with all rows, through some of them."""
    criterion = bound(problem, count, metric.C)
    posterior, value = criterion.evaluated(metric.C, metric.ratio)
    jitter, taken = Jitter.of(posterior.factor), replace(metric, ratio=posterior.ratio)
    model = model_at(problem, taken, criterion.Z, posterior.dual_coef, jitter)
    belief = Belief(value, taken.ratio, posterior.squares, posterior.factors)
    return Believed(metric, model, belief)


def model_at(
    problem: HyperKernelProblem, metric: MetricFit, Z: Array, alpha: Array, jitter: Jitter
) -> Solved:
    """Give the model at a metric, with its ridge in the words of HKRR."""
    B, lengthscale = metric_map(problem, metric, problem.d)
    ridge = metric.ratio / problem.weight
    return Solved(B, lengthscale, Z, alpha, ridge, jitter)
