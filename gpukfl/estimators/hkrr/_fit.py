"""HKRR as a method: settings, and the choice of components and ridge, by rows or by evidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from gpukfl.core._array import Array, array_namespace
from gpukfl.core._places import Place
from gpukfl.core._results import History, Status
from gpukfl.estimators._data import HeldOut
from gpukfl.estimators._learner import Choice
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Search, Trial, climbed, is_behind, untried
from gpukfl.estimators.hkrr._data import (
    EXACT_ROWS,
    FINE_RIDGES,
    FIRST_ROWS,
    KEPT_ROWS,
    PATH_CENTERS,
    REFIT_CENTERS,
    RIDGES,
    TUNE_CENTERS,
    Belief,
    HyperKernelProblem,
    Jitter,
    Learned,
    MetricSearch,
    Solved,
    bound,
    by_evidence,
    exact,
    metric_map,
    placed_problem,
)
from gpukfl.estimators.hkrr._settings import (
    Setting,
    Settings,
    Tuned,
    components_grid,
    start_components,
)
from gpukfl.methods import HKRRFit, MetricFit, RidgePath, resized_map
from gpukfl.operators import mapped

# ---------------------------------------------------------------------------------- search

# HKRR as a method: its settings, the choice of components and ridge by held-out rows, the fit.


TUNE_SHARE, FIT_SHARE = 0.4, 0.6  # of max_time spent by then
LEARN_ROWS = 20_000  # that the map is learned on: it has few numbers
_FEW_CENTERS = 200  # after an interruption
_TUNE_ROWS = 10_000  # rows that dimension and ridge are chosen on, at most
_FIRST_STEPS = 10  # of the map, before it is judged by rows held out; then twice as many
_ENOUGH = 1.05  # times the lowest error, with which the learned lengthscale is kept
_GAIN = 5e-3  # share of the unexplained variance that is worth another setting
_NO_RIDGE = 1e-5  # where there are too few samples to choose one
_STEP_WORKS = 30  # of a first step of the map, with its line search
_FEWEST_CENTERS = 100  # that there is time for in any case
# In normal equations: passes of leave-one-out that choose ridge and lengthscale, and the last solve
_TUNE_WORKS, _LAST_WORKS = 8, 2
_SUMS_OF_ALL = 2.0  # a solve with all rows takes as long as two such works with half of them


@dataclass(frozen=True, eq=False)
class HyperKernelFold:
    """Rows to fit, and rows held out.

    Attributes
    ----------
    starts : tuple of Learned
        Where a search begins.
    """

    problem: HyperKernelProblem
    held_out: HeldOut
    starts: tuple[Learned, ...] = ()

    def learn(self, setting: Setting, start: Learned | None, run: Run, /) -> Learned:
        """Go some steps on from the start; from the fold's best one, where none is given."""
        problem, share = self.problem, TUNE_SHARE
        if start is None:
            start, share = self.best_starts(run)[0], 1.0  # of no search: whatever time is left
        name = f"tune {setting.components} components, ridge {setting.ridge:.0e}"
        B = resized_map(start.B, setting.components, rng=problem.rng)
        fit, model = problem.learn(
            B,
            start.lengthscale,
            setting.ridge,
            n_centers=TUNE_CENTERS,
            max_iter=setting.steps,
            max_time=run.left(share),
            watch=lambda k, _, history: run.tell(name, k, history),
        )
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        metric = None if setting.steps else start.metric
        return Learned(fit.B, fit.lengthscale, model, Learned(B, start.lengthscale), metric)

    def predict(self, learned: Learned, /) -> Array:
        """Predict the held-out rows."""
        assert learned.model is not None
        return self.problem.predict(learned.model, self.held_out.X)

    def best_starts(self, run: Run, /) -> tuple[Learned, ...]:
        """Give the evidence's map, and the other start that predicts the held-out rows well.

        With their ridges in their models. Only the better where no search is to compare them.
        """
        problem, settings = self.problem, self.problem.settings
        (sample, weights), Z = problem.sample(problem.rng), problem.centers(TUNE_CENTERS)
        maps = problem.starts(settings.n_components or start_components(problem.d))
        others = [Learned(B, problem.lengthscale(B, sample, weights)) for B in reversed(maps)]
        # Gradients first: another map is taken where it is better beyond chance, as it says less
        best = self._best(others, Z, run)
        if (
            settings.lengthscale is not None
            or settings.start is not None
            or run.is_over(TUNE_SHARE)
        ):
            return (best,)
        own = self._judged(by_evidence(problem, None, run.left(TUNE_SHARE)), Z)
        return (self._best([own, best], Z, run),) if settings.is_given else (own, best)

    def _best(self, starts: Sequence[Learned], Z: Array, run: Run) -> Learned:
        """Give the first of some starts, or one that is better beyond chance."""
        best: Learned | None = None
        losses = np.zeros(0)
        for start in starts:
            judged = self._judged(start, Z)
            found = self.held_out.losses(self.predict(judged))
            if best is None or is_behind(losses, found):
                best, losses = judged, found
            if run.is_over(TUNE_SHARE):
                break
        assert best is not None
        return best

    def _judged(self, start: Learned, Z: Array) -> Learned:
        """Give a start with its model of some centres, at the ridge that is best for it."""
        if start.model is not None:
            return start
        system = self.problem.system(self.problem.kernel, Z, start.B / start.lengthscale)
        ridge = self.problem.settings.ridge or system.path(RIDGES).largest_good()
        alpha, factor = system.solve(ridge)
        model = Solved(start.B, start.lengthscale, Z, alpha, ridge, Jitter.of(factor))
        return replace(start, model=model)

    def begun_at(self, starts: Sequence[Learned], run: Run, /) -> HyperKernelFold:
        """Give the fold that begins at some starts, with the evidence of its own rows."""
        own = tuple(
            start
            if start.metric is None
            else by_evidence(self.problem, start.metric, run.left(TUNE_SHARE))
            for start in starts
        )
        return replace(self, starts=own)

    def errors_outside(self, learned: Learned, stretch: float, /) -> list[float]:
        """Errors on the held-out rows along the ridges of the last fit."""
        assert learned.model is not None
        return self.problem.errors_outside(learned.model, stretch, self.held_out)


Trials = Sequence[Trial[Setting, Learned]]


@dataclass(frozen=True, eq=False)
class Tuner:
    """Goes from the best start to neighbours on the grid while that gains.

    Each fit begins from the best so far, so that the same setting with more steps goes on from
    there: rows held out say when to stop. The start itself, without learning, is the first setting
    tried: on small noisy data learning a map may gain nothing, or no more than chance does.
    """

    settings: Settings
    folds: Sequence[HyperKernelFold]
    starting: Sequence[Learned]  # on the first fold

    def propose(self, trials: Trials, /) -> Setting | None:
        """Give the starts, then the next neighbour of the best; None where all is given."""
        if self.settings.is_given:
            return None
        if len(trials) < len(self.starting):
            return given_start(self.starting, len(trials))
        return untried(self._neighbours(self.choose(trials).setting), trials)

    def starts(self, setting: Setting, trials: Trials, /) -> Sequence[Learned]:
        """Begin every fold from its best map."""
        begun = len(trials) >= len(self.starting)
        best = self.choose(trials).learned if begun else []
        return best or [fold.starts[setting.start] for fold in self.folds]

    def choose(self, trials: Trials, /) -> Trial[Setting, Learned]:
        """Give where the climb has come to; a start, unless that is worse beyond chance."""
        first, *others = trials[: len(self.starting)]
        for other in others:
            if other.learned and (not first.learned or is_behind(first.losses, other.losses)):
                first = other
        steps = [first, *trials[len(self.starting) :]]
        best = climbed(steps, lambda score: _GAIN * (1.0 - score))
        return first if first.learned and not is_behind(first.losses, best.losses) else best

    def described(self, trial: Trial[Setting, Learned], /) -> dict[str, Any]:
        """Name the grid's point, and whether the map was optimised."""
        setting = trial.setting
        return {
            "n_components": setting.components,
            "ridge": setting.ridge,
            "learned": setting.steps > 0,
        }

    def _neighbours(self, at: Setting) -> list[Setting]:
        most = self.settings.optimizer.max_iter
        steps = min(at.steps or _FIRST_STEPS, most)
        around = [replace(at, steps=min(2 * at.steps or steps, most))]
        if self.settings.ridge is None:
            k = RIDGES.index(at.ridge)
            near = RIDGES[max(k - 1, 0) : k + 2]
            around += [replace(at, ridge=r, steps=steps) for r in reversed(near)]
        if self.settings.n_components is None:
            sizes = components_grid(self.folds[0].problem.d)
            k = sizes.index(at.components)
            near = sizes[max(k - 1, 0) : k + 2]
            around += [replace(at, components=size, steps=steps) for size in near]
        return around


@dataclass(frozen=True, eq=False)
class Fitted:
    """The last fit: how the map was optimised, and the model at it."""

    steps: HKRRFit
    model: Solved
    status: Status
    learned: bool  # whether the map is an optimised one
    belief: Belief | None = None
    metric: MetricFit | None = None  # where the evidence gave the map
    ridges: tuple[float, ...] = ()  # of the fits whose gradients gave it


class HKRR(Settings):
    """HKRR with its settings."""

    splits: ClassVar[Splits] = Splits(at_most=_TUNE_ROWS)

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Rows times centres."""
        return n * min(n, self.centers.wanted)

    def problem(self, samples: Samples, place: Place, run: Run, /) -> HyperKernelProblem:
        """Place and scale samples."""
        return placed_problem(self, samples, place, run)

    def given(self, problem: HyperKernelProblem, /) -> Setting:
        """Give what is given; else as many components as there are few features, a small ridge."""
        few = problem.constant or problem.n < self.splits.fewest
        k = self.n_components or (problem.d if few else start_components(problem.d))
        steps = 0 if problem.constant else self.optimizer.max_iter
        return Setting(k, self.ridge or _NO_RIDGE, steps)

    def fold(self, problem: HyperKernelProblem, held_out: HeldOut, /) -> HyperKernelFold:
        """Join rows to fit and rows that judge."""
        return HyperKernelFold(problem, held_out)

    def search(
        self,
        folds: Callable[[], Sequence[HyperKernelFold]],
        problem: HyperKernelProblem,  # noqa: ARG002
        run: Run,
        /,
    ) -> Search[Setting, Learned]:
        """Look for the best start; there is one to choose also where all else is given."""
        found = folds()
        starts = found[0].best_starts(run)
        found = [replace(found[0], starts=starts), *(f.begun_at(starts, run) for f in found[1:])]
        return Search(found, Tuner(self, found, starts), run, TUNE_SHARE, racing=True)

    def learn(
        self, problem: HyperKernelProblem, choice: Choice[Setting, Learned], run: Run, /
    ) -> Fitted:
        """Optimise the map on some rows, and solve with all; from the start, once interrupted."""
        setting, start = self._begun(problem, choice)
        stopped, learned = choice.stopped, setting.steps > 0
        part = problem.part(LEARN_ROWS)
        try:
            if start.metric is not None and not learned and not stopped:
                start = by_evidence(part, start.metric, run.left(FIT_SHARE))
            fit, model = self._optimized(part, setting, start, run, stopped=stopped)
        except KeyboardInterrupt:  # before the first step: the start is there
            stopped, learned = True, False
            fit, model = self._optimized(part, setting, start, run, stopped=True, quick=True)
        refit = self.centers.refit
        if refit is None and part.n != problem.n:
            model = problem.solved(model)
        elif refit is not None and not problem.constant:
            try:
                n_centers = problem.n_refit_centers()
                if stopped:  # nobody waits for more
                    n_centers = min(n_centers, _FEW_CENTERS)
                elif refit == "auto":
                    n_centers = affordable_refit(problem, model, run, n_centers)
                tuned = None if stopped else tuned_by(choice, problem.n)
                model = problem.refit(model, n_centers, tuned)
            except KeyboardInterrupt:  # the model of the optimisation is there
                stopped = True
        return Fitted(fit, model, self._ended(setting, fit, stopped=stopped), learned)

    def _begun(
        self, problem: HyperKernelProblem, choice: Choice[Setting, Learned]
    ) -> tuple[Setting, Learned]:
        """Give what to learn with, and the map to go on from."""
        setting, trial = choice.setting, choice.trial
        known = [
            fold.starts
            for fold in choice.folds
            if isinstance(fold, HyperKernelFold) and fold.starts
        ]
        if trial is not None and trial.learned:
            learned = trial.learned[0]
            # On all rows as many steps from the same map as were best
            begun = learned if choice.stopped else learned.start or learned
            start = replace(begun, metric=learned.metric)
        elif known:
            start = known[0][0]
            setting = replace(given_start(known[0]), steps=setting.steps)
        else:
            k, sample = setting.components, problem.sample(problem.rng)
            B = problem.axes(sample[0], k) if choice.stopped else problem.starts(k)[-1]
            start = Learned(B, problem.lengthscale(B, *sample))
        if choice.stopped:
            return replace(setting, steps=0 if trial is None else setting.steps), start
        if trial is not None and not any(one.setting.steps for one in choice.trials):
            # Nothing says that this gains nothing
            setting = replace(setting, steps=self.optimizer.max_iter)
        return setting, start

    def _optimized(
        self,
        problem: HyperKernelProblem,
        setting: Setting,
        start: Learned,
        run: Run,
        *,
        stopped: bool,
        quick: bool = False,
    ) -> tuple[HKRRFit, Solved]:
        """Go on from the start, with as many of the centres wanted as there is time for."""
        n_centers = _FEW_CENTERS if quick else self.centers.wanted
        if self.centers.fit == "auto" and not stopped:
            n_centers = affordable(problem, start, run, n_centers, _STEP_WORKS)
        return problem.learn(
            start.B,
            start.lengthscale,
            setting.ridge,
            n_centers=n_centers,
            max_iter=0 if stopped else setting.steps,
            max_time=run.left(FIT_SHARE),
            watch=lambda k, _, history: run.tell("fit", k, history),
        )

    def _ended(self, setting: Setting, fit: HKRRFit, *, stopped: bool) -> Status:
        """Say how the fit ended: with as many steps as rows held out asked for, it is done."""
        if stopped:
            return Status.INTERRUPTED
        done = fit.status is Status.MAX_ITER and setting.steps < self.optimizer.max_iter
        return Status.CONVERGED if done or not setting.steps else fit.status


def given_start(starts: Sequence[Learned], k: int = 0, /) -> Setting:
    """Give the setting of one of some starts that have their models."""
    model = starts[k].model
    assert model is not None
    return Setting(starts[k].B.shape[0], model.ridge, start=k)


def affordable(
    problem: HyperKernelProblem,
    at: Learned | Solved,
    run: Run,
    wanted: int,
    times: float | Callable[[int], float],
    /,
) -> int:
    """As many of the centres wanted as there is time for, to form their sums so many times."""
    kernel = problem.kernel.stretched(at.lengthscale)

    def form(q: int) -> None:
        problem.system(kernel, problem.centers(q, at.B), at.B)

    return run.affordable(wanted, form, times=times, few=_FEWEST_CENTERS)


def affordable_refit(problem: HyperKernelProblem, at: Solved, run: Run, wanted: int, /) -> int:
    """As many of the centres wanted as there is time for in the last fit.

    All rows where there is time for a solve with them; else as many as of more rows, at most.
    """
    if wanted == problem.n:
        alike = max(min(wanted, PATH_CENTERS), math.ceil(wanted / _SUMS_OF_ALL))
        if affordable(problem, at, run, alike, _refit_works) == alike:
            return wanted
        wanted = min(wanted, REFIT_CENTERS)
    return affordable(problem, at, run, wanted, _refit_works)


def _refit_works(q: int) -> float:
    """Count the works in a last fit with q centres, of which fewer choose the ridge."""
    return _LAST_WORKS + _TUNE_WORKS * (min(q, PATH_CENTERS) / q) ** 2


def tuned_by(choice: Choice[Setting, Learned], n: int, /) -> Tuned | None:
    """Stretch of the lengthscale and ridges of the last fit, by the folds' rows held out.

    Or those of another fit to about n samples. None where the folds have learned no maps: rows that
    are left out one by one are then as good, and more.
    """
    known = choice.setting.tuned
    if known is not None and known.serves(n):
        return known
    if choice.trial is None or not choice.trial.setting.steps:
        return None
    folds, paths = [fold for fold in choice.folds if isinstance(fold, HyperKernelFold)], {}
    for stretch in folds[0].problem.stretches:
        errors = np.zeros(len(FINE_RIDGES))
        for fold, learned in zip(folds, choice.trial.learned, strict=True):
            errors = errors + fold.errors_outside(learned, stretch)
        paths[stretch] = RidgePath(FINE_RIDGES, errors.tolist())
    enough = _ENOUGH * min(path.lowest for path in paths.values())
    good = [stretch for stretch, path in paths.items() if path.lowest <= enough]
    stretch = min(good, key=lambda stretch: abs(math.log(stretch)))
    return Tuned(stretch, paths[stretch], n)


# ----------------------------------------------------------------------------- by evidence

# HKRR whose map maximises the evidence, or lowers the leave-one-out error.


_STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)


@dataclass(frozen=True, eq=False)
class Believed:
    """A model, and where its map comes from."""

    metric: MetricFit
    model: Solved
    belief: Belief


@dataclass(frozen=True, eq=False)
class EvidenceFold:
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

    def fold(self, problem: HyperKernelProblem, held_out: HeldOut, /) -> EvidenceFold:
        """Join rows to fit and rows that judge."""
        return EvidenceFold(self, problem, held_out)

    def search(
        self,
        folds: Callable[[], Sequence[EvidenceFold]],
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
