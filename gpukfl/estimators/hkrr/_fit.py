"""HKRR as a method: settings, and the choice of components and ridge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from gpukfl.core._array import Array, array_namespace, like
from gpukfl.core._places import Place
from gpukfl.core._results import History, Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._data import HeldOut, truncate
from gpukfl.estimators._learner import SearchResult
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import (
    Fold,
    Search,
    Trial,
    Tuner,
    first_untried_setting,
    hill_climb,
    is_clearly_worse,
)
from gpukfl.estimators.hkrr._data import (
    FINE_RIDGES,
    PATH_CENTERS,
    REFIT_CENTERS,
    RIDGES,
    TUNE_CENTERS,
    GPPosterior,
    HyperKernelProblem,
    Jitter,
    SolvedModel,
)
from gpukfl.estimators.hkrr._metric import (
    EXACT_ROWS,
    FIRST_ROWS,
    KEPT_ROWS,
    LOGISTIC_CENTERS,
    LOGISTIC_ROWS,
    EvidenceModel,
    LearnedMap,
    MetricSearch,
    initial_terms,
    learn_map_by_evidence,
    place_map,
    solve_by_centers,
    solve_exactly,
    solve_logistic,
    solve_logistic_by_centers,
)
from gpukfl.estimators.hkrr._settings import (
    GradientSetting,
    HKRRSettings,
    HyperKernelSetting,
    TunedRefit,
    n_components_grid,
    start_n_components,
)
from gpukfl.kernels import PowerExponential
from gpukfl.methods import (
    STRETCHES,
    AverageGradientOuterProduct,
    GradientFit,
    HKRRFit,
    LogisticFit,
    MappedProblem,
    MappedRidge,
    MetricFit,
    RidgePath,
    fit_gradient_maps,
    resized_map,
)

# ---------------------------------------------------------------------------------- search

TUNE_SHARE, FIT_SHARE = 0.4, 0.6  # of max_time, at which the search and the optimisation end
LEARN_ROWS = 20_000  # most rows on which the map is learned
_FEW_CENTERS = 200  # after an interruption
_TUNE_ROWS = 10_000  # most rows on which dimension and ridge are chosen
_FIRST_STEPS = 10  # of the map before its held-out error is computed; then twice as many
_ENOUGH = 1.05  # the learned lengthscale is kept up to this multiple of the lowest error
_GAIN = 5e-3  # least gain of another setting, as a share of the unexplained variance
_NO_RIDGE = 1e-5  # ridge for too few samples to choose one
_FEWEST_CENTERS = 100  # used under any time limit
# Work in units of forming the normal equations: a first step of the map with its line search, the
# choice of ridge and lengthscale by leave-one-out, and the last solve
_STEP_WORK, _TUNING_WORK, _LAST_WORK = 30, 8, 2
_ALL_ROWS_WORK = 2.0  # a solve with all n rows takes as long as two works with n / 2 centres


HyperKernelFold = Fold[HyperKernelProblem]  # `reached` holds its starting maps


def best_starts(fold: HyperKernelFold, run: Run, /) -> tuple[LearnedMap, ...]:
    """Return the map by evidence, and the best other start on the held-out rows, with models.

    Only the better one if components and ridge are given, so that there is no search.
    """
    problem, settings = fold.problem, fold.problem.settings
    (sample, weights), Z = problem.sample(), problem.centers(TUNE_CENTERS)
    maps = problem.starts(settings.n_components or start_n_components(problem.d))
    others = [LearnedMap(B, problem.lengthscale(B, sample, weights)) for B in reversed(maps)]
    # Gradients come first: another map must be significantly better
    best = _best_start(fold, others, Z, run)
    given = settings.lengthscale is not None or settings.start is not None
    if given or run.is_over(TUNE_SHARE):
        return (best,)
    own = learn_map_by_evidence(problem, None, run.remaining_seconds(TUNE_SHARE))
    own = _add_model(problem, own, Z)
    return (_best_start(fold, [own, best], Z, run),) if settings.is_given else (own, best)


def _best_start(
    fold: HyperKernelFold, starts: Sequence[LearnedMap], Z: Array, run: Run
) -> LearnedMap:
    """Return the first start, or another one that is significantly better."""
    best: LearnedMap | None = None
    losses = np.zeros(0)
    for start in starts:
        judged = _add_model(fold.problem, start, Z)
        assert judged.model is not None
        found = fold.held_out.losses(fold.problem.predict(judged.model, fold.held_out.X))
        if best is None or is_clearly_worse(losses, found, fold.held_out.groups):
            best, losses = judged, found
        if run.is_over(TUNE_SHARE):
            break
    assert best is not None
    return best


def _add_model(problem: HyperKernelProblem, start: LearnedMap, Z: Array) -> LearnedMap:
    """Return a start with its model of some centres at the best ridge."""
    if start.model is not None:
        return start
    system = problem.system(problem.kernel, Z, start.B / start.lengthscale)
    ridge = problem.settings.ridge or system.path(RIDGES).largest_good()
    alpha, factor = system.solve(ridge)
    model = SolvedModel(start.B, start.lengthscale, Z, alpha, ridge, Jitter.from_factor(factor))
    return replace(start, model=model)


Trials = Sequence[Trial[HyperKernelSetting, LearnedMap]]


@dataclass(frozen=True, eq=False)
class HyperKernelTuner(Tuner[HyperKernelSetting, LearnedMap]):
    """A tuner that climbs from the best start to better neighbours on the grid.

    Each fit begins from the best map so far, so that more steps continue it until the held-out
    error stops falling. The starts without any steps are tried first: on small noisy data, learning
    a map may gain nothing.
    """

    settings: HKRRSettings
    folds: Sequence[HyperKernelFold]
    starting: Sequence[LearnedMap]  # on the first fold

    def propose(self, trials: Trials, /) -> HyperKernelSetting | None:
        """Return the starts, then the next neighbour of the best setting."""
        if self.settings.is_given:
            return None
        if len(trials) < len(self.starting):
            return fixed_start_setting(self.starting, len(trials))
        return first_untried_setting(self._neighbours(self.choose(trials).setting), trials)

    def starts(self, setting: HyperKernelSetting, trials: Trials, /) -> Sequence[LearnedMap]:
        """Return each fold's best map."""
        begun = len(trials) >= len(self.starting)
        best = self.choose(trials).learned if begun else []
        return best or [fold.reached[setting.start] for fold in self.folds]

    def choose(self, trials: Trials, /) -> Trial[HyperKernelSetting, LearnedMap]:
        """Return the trial that the climb reached, or a start unless it is significantly worse."""
        first, *others = trials[: len(self.starting)]
        for other in others:
            if other.learned and (
                not first.learned or is_clearly_worse(first.losses, other.losses, first.groups)
            ):
                first = other
        steps = [first, *trials[len(self.starting) :]]
        best = hill_climb(steps, lambda score: _GAIN * (1.0 - score))
        if first.learned and not is_clearly_worse(first.losses, best.losses, first.groups):
            return first
        return best

    def describe_trial(self, trial: Trial[HyperKernelSetting, LearnedMap], /) -> dict[str, Any]:
        """Return the grid point by names, and whether the map was optimised."""
        setting = trial.setting
        return {
            "n_components": setting.components,
            "ridge": setting.ridge,
            "learned": setting.steps > 0,
        }

    def _neighbours(self, at: HyperKernelSetting) -> list[HyperKernelSetting]:
        most = self.settings.optimizer.max_iter
        steps = min(at.steps or _FIRST_STEPS, most)
        around = [replace(at, steps=min(2 * at.steps or steps, most))]
        if self.settings.ridge is None:
            k = RIDGES.index(at.ridge)
            near = RIDGES[max(k - 1, 0) : k + 2]
            around += [replace(at, ridge=r, steps=steps) for r in reversed(near)]
        if self.settings.n_components is None:
            sizes = n_components_grid(self.folds[0].problem.d)
            k = sizes.index(at.components)
            near = sizes[max(k - 1, 0) : k + 2]
            around += [replace(at, components=size, steps=steps) for size in near]
        return around


@dataclass(frozen=True, eq=False)
class HKRRResult:
    """The final fit: the optimised map and its model."""

    steps: HKRRFit
    model: SolvedModel
    status: Status
    learned: bool  # whether the map was optimised
    belief: GPPosterior | None = None
    metric: MetricFit | None = None  # if the map maximises the evidence
    ridges: tuple[float, ...] = ()  # of successive fits, if the map comes from gradients
    latent: LogisticFit | None = None  # the log odds of classes


class HKRRMethod(HKRRSettings):
    """The base of HKRR's methods, one for each way to learn the map."""

    splits: ClassVar[Splits] = Splits(at_most=_TUNE_ROWS)

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Return the number of rows times that of centres."""
        return n * min(n, self.centers.n_while_learning)

    def problem(self, samples: Samples, place: Place, run: Run, /) -> HyperKernelProblem:
        """Place and scale samples."""
        return HyperKernelProblem(self, samples, place, run)


class HKRR(HKRRMethod):
    """HKRR whose map minimises the objective, with a search on held-out rows."""

    def default_setting(self, problem: HyperKernelProblem, /) -> HyperKernelSetting:
        """Return the given setting; the default has few components and a small ridge."""
        few = problem.constant or problem.n < self.splits.fewest
        k = self.n_components or (problem.d if few else start_n_components(problem.d))
        steps = 0 if problem.constant else self.optimizer.max_iter
        return HyperKernelSetting(k, self.ridge or _NO_RIDGE, steps)

    def fit_fold(
        self,
        fold: HyperKernelFold,
        setting: HyperKernelSetting,
        start: LearnedMap | None,
        run: Run,
        /,
    ) -> LearnedMap:
        """Take some steps from a start, by default the fold's best one."""
        problem, share = fold.problem, TUNE_SHARE
        if start is None:
            start = known_start(problem, setting)
        if start is None:
            start, share = best_starts(fold, run)[0], 1.0  # without a search, all time is left
        name = f"tune {setting.components} components, ridge {setting.ridge:.0e}"
        B = resized_map(start.B, setting.components, rng=problem.rng)
        fit, model = problem.learn(
            B,
            start.lengthscale,
            setting.ridge,
            n_centers=TUNE_CENTERS,
            max_iter=setting.steps,
            max_time=run.remaining_seconds(share),
            watch=lambda k, _, history: run.tell(name, k, history),
        )
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        metric = None if setting.steps else start.metric
        return LearnedMap(fit.B, fit.lengthscale, model, LearnedMap(B, start.lengthscale), metric)

    def predict_fold(self, fold: HyperKernelFold, learned: LearnedMap, /) -> Array:
        """Predict the held-out rows."""
        assert learned.model is not None
        return fold.problem.predict(learned.model, fold.held_out.X)

    def search(
        self,
        folds: Callable[[], Sequence[HyperKernelFold]],
        problem: HyperKernelProblem,  # noqa: ARG002
        run: Run,
        /,
    ) -> Search[HyperKernelSetting, LearnedMap]:
        """Return a search for start, components and ridge."""
        found = folds()
        starts = found[0].reached = best_starts(found[0], run)
        for fold in found[1:]:  # the same starts, with the fold's own evidence
            fold.reached = tuple(
                start
                if start.metric is None
                else learn_map_by_evidence(
                    fold.problem, start.metric, run.remaining_seconds(TUNE_SHARE)
                )
                for start in starts
            )
        tuner = HyperKernelTuner(self, found, starts)
        return Search(self, found, tuner, run, TUNE_SHARE, racing=True)

    def learn(
        self,
        problem: HyperKernelProblem,
        choice: SearchResult[HyperKernelSetting, LearnedMap],
        run: Run,
        /,
    ) -> HKRRResult:
        """Optimise the map on some rows, and solve with all rows."""
        setting, start = self._starting_point(problem, choice)
        stopped, learned = choice.stopped, setting.steps > 0
        part = problem.part(LEARN_ROWS)
        try:
            if start.metric is not None and not learned and not stopped:
                start = learn_map_by_evidence(part, start.metric, run.remaining_seconds(FIT_SHARE))
            fit, model = self._optimize(part, setting, start, run, stopped=stopped)
        except KeyboardInterrupt:  # before the first step: the start is used
            stopped, learned = True, False
            fit, model = self._optimize(part, setting, start, run, stopped=True, quick=True)
        refit = self.centers.refit
        if refit is None and part.n != problem.n:
            model = problem.solve_all_rows(model)
        elif refit is not None and not problem.constant:
            try:
                n_centers = problem.n_refit_centers()
                if stopped:  # quickly
                    n_centers = min(n_centers, _FEW_CENTERS)
                elif refit == "auto":
                    n_centers = affordable_refit_centers(problem, model, run, n_centers)
                tuned = None if stopped else tuned_settings(choice, problem.n)
                model = problem.refit(model, n_centers, tuned, run.remaining_seconds)
                note_all_rows(model, run)
                stopped = stopped or is_interrupted(model)
            except KeyboardInterrupt:  # the optimisation's model is used
                stopped = True
        return HKRRResult(fit, model, self._final_status(setting, fit, stopped=stopped), learned)

    def _starting_point(
        self, problem: HyperKernelProblem, choice: SearchResult[HyperKernelSetting, LearnedMap]
    ) -> tuple[HyperKernelSetting, LearnedMap]:
        """Return the setting, and the map to start from."""
        setting, trial = choice.setting, choice.trial
        known = [fold.reached for fold in choice.folds if fold.reached]
        if trial is not None and trial.learned:
            learned = trial.learned[0]
            # All rows take the best number of steps from the same map
            begun = learned if choice.stopped else learned.start or learned
            start = replace(begun, metric=learned.metric)
        elif known:
            start = known[0][0]
            setting = replace(fixed_start_setting(known[0]), steps=setting.steps)
        elif (earlier := known_start(problem, setting)) is not None:
            start = earlier
        else:
            k, sample = setting.components, problem.sample()
            B = problem.axes(sample[0], k) if choice.stopped else problem.starts(k)[-1]
            start = LearnedMap(B, problem.lengthscale(B, *sample))
        if choice.stopped:
            return replace(setting, steps=0 if trial is None else setting.steps), start
        if trial is not None and not any(one.setting.steps for one in choice.trials):
            # The search had no time for steps, which may help
            setting = replace(setting, steps=self.optimizer.max_iter)
        return setting, start

    def _optimize(
        self,
        problem: HyperKernelProblem,
        setting: HyperKernelSetting,
        start: LearnedMap,
        run: Run,
        *,
        stopped: bool,
        quick: bool = False,
    ) -> tuple[HKRRFit, SolvedModel]:
        """Optimise from the start, with as many centres as there is time for."""
        n_centers = _FEW_CENTERS if quick else self.centers.n_while_learning
        if self.centers.fit == "auto" and not stopped:
            n_centers = affordable_centers(problem, start, run, n_centers, _STEP_WORK)
        return problem.learn(
            start.B,
            start.lengthscale,
            setting.ridge,
            n_centers=n_centers,
            max_iter=0 if stopped else setting.steps,
            max_time=run.remaining_seconds(FIT_SHARE),
            watch=lambda k, _, history: run.tell("fit", k, history),
        )

    def _final_status(self, setting: HyperKernelSetting, fit: HKRRFit, *, stopped: bool) -> Status:
        """Return the final status; the number of steps chosen by hold-out counts as converged."""
        if stopped:
            return Status.INTERRUPTED
        done = fit.status is Status.MAX_ITER and setting.steps < self.optimizer.max_iter
        return Status.CONVERGED if done or not setting.steps else fit.status


def known_start(problem: HyperKernelProblem, setting: HyperKernelSetting, /) -> LearnedMap | None:
    """Return the map of an earlier fit to other rows, if the setting has one."""
    if setting.map is None:
        return None
    return LearnedMap(place_map(setting.map, problem), setting.lengthscale)


def fixed_start_setting(starts: Sequence[LearnedMap], k: int = 0, /) -> HyperKernelSetting:
    """Return the setting of one of some starts that have their models."""
    model = starts[k].model
    assert model is not None
    return HyperKernelSetting(starts[k].B.shape[0], model.ridge, start=k)


def affordable_centers(
    problem: HyperKernelProblem,
    at: LearnedMap | SolvedModel,
    run: Run,
    wanted: int,
    times: float | Callable[[int], float],
    /,
) -> int:
    """Return how many of the wanted centres there is time for, with so many passes."""
    kernel = problem.kernel.stretched(at.lengthscale)

    def form(q: int) -> None:
        problem.system(kernel, problem.centers(q, at.B), at.B)

    return run.affordable(wanted, form, times=times, few=_FEWEST_CENTERS)


def affordable_refit_centers(
    problem: HyperKernelProblem, at: SolvedModel, run: Run, wanted: int, /
) -> int:
    """Return how many of the wanted centres there is time for in the final fit.

    All rows if there is time for a solve with them; else at most `REFIT_CENTERS`.
    """
    if wanted == problem.n:
        alike = max(min(wanted, PATH_CENTERS), math.ceil(wanted / _ALL_ROWS_WORK))
        if affordable_centers(problem, at, run, alike, _n_refit_works) == alike:
            return wanted
        wanted = min(wanted, REFIT_CENTERS)
    return affordable_centers(problem, at, run, wanted, _n_refit_works)


def _n_refit_works(q: int) -> float:
    """Return the work of a final fit with q centres."""
    return _LAST_WORK + _TUNING_WORK * (min(q, PATH_CENTERS) / q) ** 2


def tuned_settings(
    choice: SearchResult[HyperKernelSetting, LearnedMap], n: int, /
) -> TunedRefit | None:
    """Return lengthscale and ridges of the final fit, as tuned on the folds.

    Or those of another fit to about n samples. None if the folds have learned no maps: then
    leave-one-out on all rows is as good.
    """
    known = choice.setting.tuned
    if known is not None and known.serves(n):
        return known
    if choice.trial is None or not choice.trial.setting.steps:
        return None
    paths = {}
    for stretch in choice.folds[0].problem.stretches:
        errors = np.zeros(len(FINE_RIDGES))
        for fold, learned in zip(choice.folds, choice.trial.learned, strict=True):
            errors += fold.problem.errors_outside(learned.model, stretch, fold.held_out)
        paths[stretch] = RidgePath(FINE_RIDGES, errors.tolist())
    enough = _ENOUGH * min(path.lowest for path in paths.values())
    good = [stretch for stretch, path in paths.items() if path.lowest <= enough]
    stretch = min(good, key=lambda stretch: abs(math.log(stretch)))
    return TunedRefit(stretch, paths[stretch], n)


def note_all_rows(model: SolvedModel, run: Run, /) -> None:
    """Report how a last fit with all rows as centres ended."""
    found = model.solution
    if found is None:
        return
    text = (
        f"all {model.Z.shape[0]} rows as centres: {found.status.value}, residual "
        f"{found.residual:.1e} after {found.n_iter} products"
    )
    if found.errors and found.centers_error:
        ratio = math.sqrt(min(found.errors) / found.centers_error)
        text += f", errors on rows held out {ratio:.3f} times those by centres"
    run.note(text)


def is_interrupted(model: SolvedModel, /) -> bool:
    """Return whether Ctrl-C ended the last fit with all rows as centres."""
    return model.solution is not None and model.solution.status is Status.INTERRUPTED


# ----------------------------------------------------------------------------- by evidence

_STOPPED = (Status.INTERRUPTED, Status.TIME_LIMIT)
_DIAGONAL = ("diagonal", "diagonals")  # structures of maps
_FEW_STEPS = 3  # from the mean metric of folds


class EvidenceHKRR(HKRRMethod):
    """HKRR by maximal evidence, without a search."""

    splits: ClassVar[Splits] = Splits(fewest=2)

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Return the number of rows times that of centres."""
        return n * min(n, EXACT_ROWS)

    def default_setting(self, problem: HyperKernelProblem, /) -> None:
        """Return None: everything is learned or fixed."""

    def fit_fold(
        self,
        fold: HyperKernelFold,
        known: MetricFit | None,
        start: EvidenceModel | None,  # noqa: ARG002
        run: Run,
        /,
    ) -> EvidenceModel:
        """Learn the map, perhaps from one of similar rows, and solve."""
        found = self.fit(fold.problem, run, known)
        if found.metric.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return found

    def predict_fold(self, fold: HyperKernelFold, learned: EvidenceModel, /) -> Array:
        """Predict the held-out rows."""
        return fold.problem.predict(learned.model, fold.held_out.X)

    def search(self, *_: Any) -> None:
        """Return None: there is no search."""

    def learn(
        self,
        problem: HyperKernelProblem,
        choice: SearchResult[MetricFit | None, EvidenceModel],
        run: Run,
        /,
    ) -> HKRRResult:
        """Learn the map on some rows, and solve with all rows."""
        found = self.fit(problem, run, choice.setting)
        metric, model = found.metric, found.model
        steps = HKRRFit(model.B, model.lengthscale, metric.status, metric.value, metric.history)
        return HKRRResult(
            steps,
            model,
            metric.status,
            learned=not problem.constant,
            belief=found.belief,
            latent=found.latent,
            metric=metric,
        )

    def fit(
        self, problem: HyperKernelProblem, run: Run, known: MetricFit | None = None, /
    ) -> EvidenceModel:
        """Learn a metric on some rows, perhaps from a known one, and solve with all rows."""
        together = problem.rows.partitioning is None
        problem = problem.part(problem.n) if together else problem
        if self.is_logistic and not together:
            n, problem = problem.n, problem.part(LEARN_ROWS)
            warn(
                f"log odds of classes are fitted to a sample: {problem.n} of the {n} partitioned "
                "rows"
            )
        metric = self.metric(problem, run, known)
        count = problem.n_refit_centers()
        if self.is_logistic:
            if problem.n <= EXACT_ROWS:
                return solve_logistic(problem, metric)
            return solve_logistic_by_centers(problem, metric, min(LOGISTIC_CENTERS, count))
        if together and problem.n <= max(EXACT_ROWS, min(count, problem.n_dense_rows)):
            return solve_exactly(problem, metric)
        found = solve_by_centers(problem, metric, count, run.remaining_seconds)
        note_all_rows(found.model, run)
        return found

    def metric(
        self, problem: HyperKernelProblem, run: Run, known: MetricFit | None = None, /
    ) -> MetricFit:
        """Learn a metric on some rows, and refine it with more.

        `known` is a metric of about the same rows. With many rows a diagonal one is kept, and a map
        is refined.
        """
        # The bound treats unresolved variation as noise, so all pairs of some rows are better. It
        # is used for the evidence if the user gave a number of centres
        by_centers = self.criterion == "evidence" and self.centers.are_given
        most = LEARN_ROWS if by_centers else EXACT_ROWS
        most = LOGISTIC_ROWS if self.is_logistic else most
        # The mean of folds' metrics is better than any of them. Iterating it to convergence takes
        # three times as long, for the same error
        is_mean = known is not None and known.n_fits > 1 and problem.n > FIRST_ROWS
        is_settled = is_mean and self.criterion == "evidence" and self.structure in _DIAGONAL
        search = MetricSearch(
            self.criterion,
            None if self.ridge is None else problem.weight * self.ridge,
            self.centers.n_while_learning,
            run.remaining_seconds,
            lambda k, _, history: run.tell("fit", k, history),
            *([_FEW_STEPS] if is_settled else []),
        )
        if problem.constant:
            C, ratio = search.first(problem)[-1]
            terms = initial_terms(problem)
            return MetricFit(C, ratio, 0.0, Status.CONVERGED, History(), terms)
        if known is not None and not known.is_diagonal and problem.n >= KEPT_ROWS:
            return search.again(problem, most, known)
        found = self._learn_diagonal(search, problem, most, known)
        if self.structure in _DIAGONAL or found.status in _STOPPED:
            return found
        k = problem.d if self.structure == "full" else self.n_components
        return search.learn_map(problem, most, k, found)

    def _learn_diagonal(
        self, search: MetricSearch, problem: HyperKernelProblem, most: int, known: MetricFit | None
    ) -> MetricFit:
        found = None
        if known is not None and known.is_diagonal:
            found = search.start_metric(known, problem)
            if problem.n >= KEPT_ROWS and self.structure in _DIAGONAL:
                return found
        if found is None or problem.n <= FIRST_ROWS:
            found = search.diagonal(problem, FIRST_ROWS, found)
            if found.status in _STOPPED:
                return found
        return found if problem.n <= FIRST_ROWS else search.diagonal(problem, most, found)


# --------------------------------------------------------------------- by average gradients

_KERNELS = {  # by structure: for the given coordinates, and rotation invariant
    "diagonal": PowerExponential(order=1.5),
    "full": PowerExponential(order=2.0, exponent=1.4),
}
_STRETCH = 8.0  # lengthscale in median distances; long ones are best for these kernels with a kink
_ALL_GRADIENT_CENTERS = 1_000  # at most so many rows are all centres, for an exact fit
_MAP_WORK = 4  # work at a map in normal equations: these, leave-one-out and gradients

GradientTrials = Sequence[Trial[GradientSetting, GradientFit]]


@dataclass(frozen=True, eq=False)
class GradientTuner(Tuner[GradientSetting, GradientFit]):
    """A tuner that climbs from a lengthscale to better neighbours."""

    stretches: Sequence[float]  # ascending

    @property
    def first(self) -> GradientSetting:
        """Return the first setting, in the middle of the grid."""
        return GradientSetting(self.stretches[len(self.stretches) // 2])

    def propose(self, trials: GradientTrials, /) -> GradientSetting | None:
        """Return the next neighbour of the best setting."""
        if not trials:
            return self.first
        at = self.stretches.index(self.choose(trials).setting.stretch)
        near = self.stretches[max(at - 1, 0) : at + 2]
        return first_untried_setting([GradientSetting(stretch) for stretch in near], trials)

    def describe_trial(self, trial: Trial[GradientSetting, GradientFit], /) -> dict[str, Any]:
        """Return the map's size, the ridge by leave-one-out, and whether the map was learned."""
        if not trial.learned:  # it overflowed
            return {"n_components": 0, "ridge": 1.0, "learned": False}
        best = trial.learned[0].best
        return {
            "n_components": best.B.shape[0],
            "ridge": best.ridge,
            "learned": trial.learned[0].n_steps > 0,
        }


@dataclass(frozen=True)
class GradientHKRR(HKRRMethod):
    """HKRR with a map from the gradients of its fits."""

    stretches: tuple[float, ...] = STRETCHES  # to try, in median distances of the mapped rows

    @classmethod
    def from_settings(cls, settings: HKRR, /, *, any_kernel: bool) -> Self:
        """Make the method, with the default kernel for gradients if any kernel will do."""
        if any_kernel:
            assert isinstance(settings.optimizer, AverageGradientOuterProduct)
            settings = replace(settings, kernel=_KERNELS[settings.optimizer.structure])
            return cls(**vars(settings), stretches=(_STRETCH,))
        stretches = STRETCHES if settings.lengthscale is None else (1.0,)
        return cls(**vars(settings), stretches=stretches)

    def default_setting(self, problem: HyperKernelProblem, /) -> GradientSetting:  # noqa: ARG002
        """Return the lengthscale in the middle of the grid."""
        return GradientTuner(self.stretches).first

    def fit_fold(
        self,
        fold: HyperKernelFold,
        setting: GradientSetting,
        start: GradientFit | None,  # noqa: ARG002
        run: Run,
        /,
    ) -> GradientFit:
        """Fit maps until the time is spent."""
        return self.maps(fold.problem, setting, run)

    def predict_fold(self, fold: HyperKernelFold, learned: GradientFit, /) -> Array:
        """Return leave-one-out predictions of all rows at the best map."""
        bound = fold.problem.bound
        xp = array_namespace(bound)
        return truncate(learned.best.left_out(), xp.astype(bound, xp.float64))

    def search(
        self,
        folds: Callable[[], Sequence[HyperKernelFold]],  # noqa: ARG002
        problem: HyperKernelProblem,
        run: Run,
        /,
    ) -> Search[GradientSetting, GradientFit]:
        """Return a search over lengthscales by leave-one-out on at most `LEARN_ROWS` rows."""
        part = problem.part(LEARN_ROWS)
        xp = array_namespace(part.reference)
        weights = xp.ones_like(part.Y[:, :1]) if part.weights is None else part.weights
        Y, weights = (xp.astype(values, xp.float64) for values in (part.Y, weights))
        groups = None if part.relations is None else part.relations.groups
        fold = Fold(part, HeldOut(part.rows.whole(), Y, weights, groups))
        return Search(self, [fold], GradientTuner(self.stretches), run, TUNE_SHARE)

    def maps(
        self,
        problem: HyperKernelProblem,
        setting: GradientSetting,
        run: Run,
        /,
        *,
        quick: bool = False,
    ) -> GradientFit:
        """Fit maps from the identity or a known map, with as many centres as there is time for."""
        known = setting.map
        assert isinstance(self.optimizer, AverageGradientOuterProduct)
        ridges = () if quick or known is not None else setting.ridges

        def watch(k: int, _: Array, history: History) -> Status | None:
            run.tell(f"maps at {setting.stretch:g} median distances", k, history)
            return Status.TIME_LIMIT if run.is_over(FIT_SHARE) else None

        sample = problem.sample()
        fit = fit_gradient_maps(
            MappedProblem(
                problem.kernel,
                problem.rows,
                problem.Y,
                problem.weights,
                FINE_RIDGES if self.ridge is None else [self.ridge],
                sample,
                self._centers(problem, sample, run, quick=quick),
                self.lengthscale,
                setting.stretch,
            ),
            self.optimizer,
            n_components=self.n_components,
            start=None if known is None else place_map(known, problem),
            ridges=ridges,
            watch=watch,
        )
        if fit.status is Status.INTERRUPTED and not quick:
            raise KeyboardInterrupt
        return fit

    def _centers(
        self,
        problem: HyperKernelProblem,
        sample: tuple[Array, np.ndarray | None],
        run: Run,
        *,
        quick: bool,
    ) -> Array | None:
        """Return the centres while maps are learned; None means all rows."""
        wanted = self.centers.fit
        exact = _ALL_GRADIENT_CENTERS if isinstance(wanted, str) else int(wanted)
        if problem.n <= (_FEW_CENTERS if quick else exact):
            return None
        if quick:
            return problem.centers(_FEW_CENTERS)
        q = self.centers.n_while_learning
        if isinstance(wanted, str):
            identity = array_namespace(sample[0]).ones(problem.d, **like(sample[0]))
            begin = LearnedMap(identity, problem.lengthscale(identity, *sample))
            works = _MAP_WORK * self.optimizer.max_iter
            q = affordable_centers(problem, begin, run, q, works)
        return problem.centers(q)

    def learn(
        self,
        problem: HyperKernelProblem,
        choice: SearchResult[GradientSetting, GradientFit],
        run: Run,
        /,
    ) -> HKRRResult:
        """Solve at the best map, with all rows and more centres."""
        stopped, trial = choice.stopped, choice.trial
        if trial is not None and trial.learned:
            part, fit = choice.folds[0].problem, trial.learned[0]
        else:
            quick = stopped or problem.constant
            part = problem.part(LEARN_ROWS)
            fit = self.maps(part, choice.setting, run, quick=quick)
        model = _solve_at_best(part, fit.best)
        try:
            model = self._refit(problem, part, model, choice.setting.tuned, run, stopped=stopped)
            stopped = stopped or is_interrupted(model)
        except KeyboardInterrupt:  # the best map's model is used
            stopped = True
        steps = HKRRFit(model.B, model.lengthscale, fit.status, fit.best.score, fit.history)
        learned = fit.n_steps > 0 or choice.setting.map is not None
        ended = Status.INTERRUPTED if stopped else fit.status
        if ended is Status.MAX_ITER:  # the number of maps was given
            ended = Status.DECIDED
        return HKRRResult(steps, model, ended, learned, ridges=fit.ridges)

    def _refit(
        self,
        problem: HyperKernelProblem,
        part: HyperKernelProblem,
        model: SolvedModel,
        tuned: TunedRefit | None,
        run: Run,
        *,
        stopped: bool,
    ) -> SolvedModel:
        """Solve with more centres, if there are any, and tune ridge and lengthscale again."""
        refit, used = self.centers.refit, model.Z.shape[0]
        if refit is None:
            return model if part.n == problem.n else problem.solve_all_rows(model)
        wanted = problem.n_refit_centers()
        if problem.constant or (used == part.n == problem.n and refit in ("auto", "all")):
            return model
        if stopped:  # quickly
            return problem.refit(model, min(wanted, _FEW_CENTERS), model.tuned)
        if refit == "auto":
            wanted = affordable_refit_centers(problem, model, run, wanted)
        known = tuned is not None and tuned.serves(problem.n)
        found = problem.refit(model, wanted, tuned if known else None, run.remaining_seconds)
        note_all_rows(found, run)
        return found


def _solve_at_best(problem: HyperKernelProblem, best: MappedRidge) -> SolvedModel:
    """Solve at the best map, in the precision of the rows."""
    dtype = problem.reference.dtype
    xp = array_namespace(problem.reference)
    alpha, factor = best.solve()
    B, Z = xp.astype(best.B, dtype), xp.astype(best.operator.Z, dtype)
    tuned = TunedRefit(1.0, best.path, problem.n)
    return SolvedModel(B, best.lengthscale, Z, alpha, best.ridge, Jitter.from_factor(factor), tuned)
