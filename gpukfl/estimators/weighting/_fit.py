"""RKHS weightings as a method: settings, choice of ridge and instantiation, and pruning."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from gpukfl.core._array import Array, array_namespace, asarray_like, to_host
from gpukfl.core._places import Place
from gpukfl.core._random import draw_indices
from gpukfl.core._results import Status
from gpukfl.estimators._learner import SearchResult
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Fold, Search, Trial, Tuner, standard_error
from gpukfl.estimators.weighting._data import WeightingFit, WeightingProblem, log_relative_ridge
from gpukfl.estimators.weighting._settings import WeightingSettings
from gpukfl.instantiations import INSTANTIATIONS, GaussianSign, Instantiation, Stumps
from gpukfl.methods import (
    Candidate,
    degradation,
    degradation_on_sample,
    last_accepted,
    pruning_candidates,
    scored_rows,
)
from gpukfl.tables._clusters import join_groups

# --------------------------------------------------------------------------------- pruning

_DELTA = 0.05  # probability with which Theorem 8 may fail
_LARGEST_LOG = 300.0  # larger bounds are vacuous


def candidate_degradations(
    problem: WeightingProblem, learned: WeightingFit, found: list[Candidate], rule: str, /
) -> list[float]:
    """Return how much worse each candidate is than the whole model, by bound or measurement.

    "norm" is Lemma 7, "bound" Theorem 8, "risk" the difference of the training risks and "error"
    that of the error rates. The last three take one pass over the rows. The risk is that of a loss
    above the 0-1 loss, or the squared error in units of the targets' variance.
    """
    unit = problem.loss.unit
    pairs = []
    if rule in ("norm", "bound"):
        gaps, slopes = _capacities(problem, learned, found)
        pairs = [(gap, unit * rho) for gap, rho in zip(gaps, slopes, strict=True)]
    if rule == "norm":
        return [degradation(gap, rho) for gap, rho in pairs]
    risks, errors = _evaluate_candidates(problem, learned, found)
    if rule == "error":
        return (errors[1:] - errors[0]).tolist()
    changes = (unit * (risks[1:] - risks[0])).tolist()
    if rule == "risk":
        return changes
    return [
        degradation_on_sample(change, gap, rho, problem.n, _DELTA)
        for change, (gap, rho) in zip(changes, pairs, strict=True)
    ]


def _capacities(
    problem: WeightingProblem, learned: WeightingFit, found: list[Candidate]
) -> tuple[list[float], list[float]]:
    """Return θ times the distance of each candidate, and the slope of the loss."""
    operator, xp = learned.operator, array_namespace(problem.Y)
    log_theta = operator.instantiation.log_theta(problem.d)
    # Distances and norms are those of the scaled features
    unit = math.exp(min(log_theta - operator.log_scale, _LARGEST_LOG))
    G, A = to_host(operator.core), to_host(learned.A)
    norms = np.sqrt(np.clip(np.sum(A * (G @ A), axis=0), 0.0, None))
    largest = unit * float(np.sum(norms))
    largest_y = float(xp.max(xp.abs(problem.Y)))
    gaps = [unit * float(np.sum(one.distance)) for one in found]
    return gaps, [problem.loss.lipschitz(largest + gap, largest_y) for gap in gaps]


def _evaluate_candidates(
    problem: WeightingProblem, learned: WeightingFit, found: list[Candidate]
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean loss and error rate of the whole model and each candidate, in one pass."""
    operator, t = learned.operator, problem.Y.shape[1]
    xp = array_namespace(problem.Y)
    models = [to_host(learned.A), *(one.B for one in found)]
    stacked = asarray_like(np.concatenate(models, axis=1), learned.A)
    Y, weights, loss = problem.Y, problem.weights, problem.loss

    def compute(start: int, stop: int) -> tuple[Array, ...]:
        F = xp.astype(operator.values(start, stop), xp.float64) @ stacked
        y = xp.astype(Y[start:stop, :], xp.float64)
        w = xp.ones_like(y[:, :1])
        if weights is not None:
            w = xp.astype(weights[start:stop, :], xp.float64)
        risks, errors = [], []
        for k in range(len(models)):
            f = F[:, k * t : (k + 1) * t]
            risks.append(xp.sum(w * loss.value(f, y)))
            wrong = (
                f * y <= 0 if t == 1 else (xp.argmax(f, axis=1) != xp.argmax(y, axis=1))[:, None]
            )
            errors.append(xp.sum(w * xp.astype(wrong, xp.float64)))
        return xp.stack(risks), xp.stack(errors), xp.sum(w)

    risks, errors, total = operator.sum_over_blocks(compute)
    return to_host(risks) / float(total), to_host(errors) / float(total)


# ---------------------------------------------------------------------------------- search

_SEARCH_PARAMETERS = 300  # for the choice of an instantiation
_SHARE = 0.2  # of max_time, at which the search ends
_FIT_SHARE = 0.5  # of max_time, at which the last pass over the rows ends
_LAST_SHARE = 0.9  # of max_time, at which the last fit ends
_COST_POWER = 2.5  # a fit takes time ~ parameters^2.5: sums take their square, factors their cube
_FEW_ROWS = 2_000  # fewer rows use float64: their features are nearly dependent
_HASTY_ROWS, _HASTY_PARAMETERS = 2_000, 100  # of a fit after an interruption
_LARGEST_LOG_SCALE = 700.0  # of a ridge, without overflow

QUIET = (Status.CONVERGED, Status.STALLED)  # statuses without a warning

CANDIDATES: dict[str, list[Instantiation]] = {
    "gaussian_sign": [GaussianSign(constant=c) for c in (0.9, 0.5, 0.1, 0.01)],
    "stumps": [Stumps(1.0, gamma) for gamma in (0.1, 0.3, 1.0, 3.0)],
}
CHOICES = ("auto", *INSTANTIATIONS)


@dataclass(frozen=True)
class WeightingSetting:
    """The instantiation, number of parameters, rows and λ of a fit.

    If λ is None, all ridges are tried, or the given one.
    """

    instantiation: Instantiation
    n_parameters: int
    on_all_rows: bool
    ridge: float | None = None


Trials = Sequence[Trial[WeightingSetting, WeightingFit]]


@dataclass(frozen=True)
class WeightingTuner(Tuner[WeightingSetting, WeightingFit]):
    """A tuner that tries every instantiation, and then fits the best one with all parameters."""

    candidates: Sequence[Instantiation]
    n_parameters: int  # of the final fit
    n: int  # number of all rows
    on_all_rows: bool  # whether instantiations are tried on all rows

    def propose(self, trials: Trials, /) -> WeightingSetting | None:
        """Return the next instantiation, if there is a choice."""
        if len(self.candidates) == 1:
            return None
        few = min(self.n_parameters, _SEARCH_PARAMETERS)
        tried = [trial.setting.instantiation for trial in trials]
        untried = (one for one in self.candidates if one not in tried)
        return next((WeightingSetting(one, few, self.on_all_rows) for one in untried), None)

    def last(self, trials: Trials, /) -> WeightingSetting | None:
        """Return the final setting, or None if the best trial has it already."""
        best = self.choose(trials).setting.instantiation if trials else self.candidates[0]
        setting = WeightingSetting(best, self.n_parameters, on_all_rows=True)
        tried = [replace(trial.setting, ridge=None) for trial in trials]
        return None if setting in tried else setting

    def starts(self, setting: WeightingSetting, trials: Trials, /) -> Sequence[WeightingFit | None]:
        """Return the last fit of the same instantiation, or of any, for its ridge."""
        if not trials:
            return [None]
        same = [one for one in trials if one.setting.instantiation == setting.instantiation]
        return [(same or trials)[-1].learned[0]]

    def choose(self, trials: Trials, /) -> Trial[WeightingSetting, WeightingFit]:
        """Return the best trial among those on all rows, or among all."""
        whole = [trial for trial in trials if trial.learned[0].n_seen == self.n]
        return max(whole or trials, key=lambda trial: (trial.score, trial.setting.ridge))

    def describe_trial(self, trial: Trial[WeightingSetting, WeightingFit], /) -> dict[str, Any]:
        """Return instantiation, ridge and size of the fit by names."""
        setting = trial.setting
        return {
            "instantiation": instantiation_text(setting.instantiation),
            "n_parameters": setting.n_parameters,
            "n_samples": trial.learned[0].n_seen,
            "ridge": setting.ridge,
        }


@dataclass
class WeightingSearch(Search[WeightingSetting, WeightingFit]):
    """A search whose fits score all ridges at once, with the same folds throughout."""

    problem: WeightingProblem = field(kw_only=True)
    tuner: WeightingTuner

    def go(self) -> None:
        """Try all instantiations, and fit the best one."""
        super().go()
        last = self.tuner.last(self.trials)
        if last is None:
            return
        count = self._affordable_parameters(last.n_parameters)
        if count < last.n_parameters:
            self.is_cut_short, last = True, replace(last, n_parameters=count)
            if last in [replace(trial.setting, ridge=None) for trial in self.trials]:
                return
        self._score_fits(last, self._finish)

    def _affordable_parameters(self, wanted: int) -> int:
        """Return the number of parameters there is time for, by the last fit's time."""
        left = self.run.remaining_seconds(_LAST_SHARE)
        if left is None or not self.trials:
            return wanted
        setting = replace(self.trials[-1].setting, ridge=None)
        same = [one for one in self.trials if replace(one.setting, ridge=None) == setting]
        took = sum(trial.seconds for trial in same) * self.problem.n / self._search_problem.n
        few = setting.n_parameters
        return min(wanted, max(few, int(few * (left / max(took, 1e-9)) ** (1.0 / _COST_POWER))))

    def evaluate(self, setting: WeightingSetting, /) -> Trial[WeightingSetting, WeightingFit]:
        """Fit without each fold and with all rows; add a trial for every ridge."""
        return self._score_fits(setting, self._scout)

    def _score_fits(
        self,
        setting: WeightingSetting,
        fit: Callable[[WeightingSetting, WeightingFit | None], WeightingFit],
    ) -> Trial[WeightingSetting, WeightingFit]:
        begun = time.perf_counter()
        (near,) = self.tuner.starts(setting, self.trials)
        learned = fit(setting, near)
        if not self.folds:
            held = self.problem.held_out_folds()
            self.folds = [Fold(self.problem, one) for one in held]
        if setting.on_all_rows:  # kept after an interruption too
            self.folds[0].reached = learned
        found = self._make_trials(setting, learned)
        for trial in found:
            trial.seconds = (time.perf_counter() - begun) / len(found)
        self.trials.extend(found)
        if learned.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return self.tuner.choose(found)

    def _scout(self, setting: WeightingSetting, near: WeightingFit | None) -> WeightingFit:
        """Fit the search's parameters, with equal draws for all candidates of one kind."""
        problem = self._search_problem
        W = setting.instantiation.draw(
            setting.n_parameters, problem.d, np.random.RandomState(self._search_seed)
        )
        operator = problem.operator(setting.instantiation, W)
        learned = problem.learn(operator, validate=True, near=near.log_start if near else None)
        tried = len({trial.setting.instantiation for trial in self.trials})
        self.run.tell(f"tune {instantiation_text(setting.instantiation)}", tried, learned.history)
        return learned

    def _finish(self, setting: WeightingSetting, near: WeightingFit | None) -> WeightingFit:
        """Fit all parameters, including the best trial's, until the time is spent."""
        problem, run = self.problem, self.run
        first = [] if near is None else [to_host(near.operator.W)]
        missing = setting.n_parameters - sum(len(W) for W in first)
        if missing:
            first.append(setting.instantiation.draw(missing, problem.d, run.rng))
        return problem.learn(
            problem.operator(setting.instantiation, np.concatenate(first)),
            late=lambda: run.is_over(_FIT_SHARE),
            left=lambda: run.remaining_seconds(_FIT_SHARE),
            tell=run.tell,
            validate=True,
            near=near.log_start if near else None,
        )

    def _make_trials(
        self, setting: WeightingSetting, learned: WeightingFit
    ) -> list[Trial[WeightingSetting, WeightingFit]]:
        """Return a trial for every ridge, or one without a score if there were too few rows."""
        known = learned.validated
        if known is None:
            ridge = math.exp(min(learned.log_ridge, _LARGEST_LOG_SCALE))
            none = Trial(replace(setting, ridge=ridge), learned=[learned])
            return [] if learned.status is Status.INTERRUPTED else [none]
        found = []
        for ridge, score, predicted in zip(
            known.ridges, known.scores, known.predicted, strict=True
        ):
            trial = Trial(replace(setting, ridge=ridge), score, [learned], predicted=predicted)
            pairs = zip(self.folds, predicted, strict=True)
            losses = [self.problem.losses(fold.held_out, F) for fold, F in pairs]
            trial.losses = np.concatenate(losses)
            groups = join_groups([fold.held_out.groups for fold in self.folds])
            trial.standard_error = standard_error(trial.losses, known.spread, groups)
            found.append(trial)
        return found

    @cached_property
    def _search_problem(self) -> WeightingProblem:
        """The problem of the rows on which instantiations are tried."""
        problem = self.problem
        return problem if self.tuner.on_all_rows else problem.part(scored_rows(problem.n))

    @cached_property
    def _search_seed(self) -> int:
        return self.run.rng.randint(2**31 - 1)


@dataclass(frozen=True, eq=False)
class PrunedWeighting:
    """The result of a fit: coefficients, perhaps pruned, and the record of pruning."""

    learned: WeightingFit
    A: Array  # (T, t), 0 for pruned parameters
    pruning: list[dict[str, Any]] | None = None


class RKHSWeighting(WeightingSettings):
    """RKHS weightings with their settings."""

    splits: ClassVar[Splits] = Splits(fewest=2, double_below=_FEW_ROWS)

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Return the number of features."""
        return n * self.n_parameters

    def problem(self, samples: Samples, place: Place, run: Run, /) -> WeightingProblem:
        """Place samples."""
        return WeightingProblem(self, samples, place, run)

    def default_setting(self, problem: WeightingProblem, /) -> WeightingSetting:
        """Return the only instantiation, or stumps of medium width."""
        one = self.candidates[0] if len(self.candidates) == 1 else Stumps(1.0, 1.0)
        return WeightingSetting(one.resolved(problem.d), self.n_parameters, on_all_rows=True)

    def fit_fold(
        self,
        fold: Fold[WeightingProblem],
        setting: WeightingSetting,
        start: WeightingFit | None,  # noqa: ARG002
        run: Run,
        /,
    ) -> WeightingFit:
        """Fit the training rows."""
        problem = fold.problem
        W = setting.instantiation.draw(setting.n_parameters, problem.d, run.again())
        return problem.learn(problem.operator(setting.instantiation, W))

    def predict_fold(self, fold: Fold[WeightingProblem], learned: WeightingFit, /) -> Array:
        """Predict the held-out rows."""
        return fold.problem.fitted_operator(learned, fold.held_out.X) @ learned.A

    def search(
        self,
        folds: Callable[[], Sequence[Fold[WeightingProblem]]],  # noqa: ARG002
        problem: WeightingProblem,
        run: Run,
        /,
    ) -> WeightingSearch | None:
        """Return a search if there is a choice, or classes need held-out scores.

        It has its own folds: one pass over the rows gives the fits with and without each fold.
        """
        if len(self.candidates) == 1 and self.ridge is not None and not problem.labels:
            return None
        candidates = [one.resolved(problem.d) for one in self.candidates]
        on_all_rows = len(scored_rows(problem.n)) == problem.n
        tuner = WeightingTuner(candidates, self.n_parameters, problem.n, on_all_rows)
        return WeightingSearch(self, (), tuner, run, _SHARE, problem=problem)

    def learn(
        self,
        problem: WeightingProblem,
        choice: SearchResult[WeightingSetting, WeightingFit],
        run: Run,
        /,
    ) -> PrunedWeighting:
        """Prune the chosen fit."""
        learned = self._final_fit(problem, choice, run)
        tried = [trial.setting.n_parameters for trial in choice.trials]
        too_few = bool(tried) and max(tried) < self.n_parameters  # for lack of time
        if choice.stopped:
            learned = replace(learned, status=Status.INTERRUPTED)
        elif learned.status in QUIET and (learned.n_seen < problem.n or too_few):
            learned = replace(learned, status=Status.TIME_LIMIT)
        if self.prune is None:
            return PrunedWeighting(learned, learned.A)
        try:
            found = pruning_candidates(to_host(learned.operator.core), to_host(learned.A))
            worse = candidate_degradations(problem, learned, found, self.prune.rule)
        except KeyboardInterrupt:  # without pruning
            return PrunedWeighting(replace(learned, status=Status.INTERRUPTED), learned.A)
        steps = [
            {"n_parameters": one.n_kept, "degradation": more, "penalty": one.penalty}
            for one, more in zip(found, worse, strict=True)
        ]
        tolerance = self.prune.tolerance
        chosen = last_accepted(found, lambda k, _: worse[k] < tolerance)
        return PrunedWeighting(
            learned, learned.A if chosen is None else asarray_like(chosen.B, learned.A), steps
        )

    def _final_fit(
        self,
        problem: WeightingProblem,
        choice: SearchResult[WeightingSetting, WeightingFit],
        run: Run,
    ) -> WeightingFit:
        if choice.trial is not None:
            return choice.trial.learned[0]
        if choice.folds and choice.folds[0].reached is not None:
            return choice.folds[0].reached  # interrupted while its ridges were compared
        setting, count = choice.setting, self.n_parameters
        if choice.stopped:
            n, few = problem.n, min(problem.n, _HASTY_ROWS)
            problem = problem.part(np.sort(draw_indices(run.rng, n, few)))
            count = min(count, _HASTY_PARAMETERS)
        W = setting.instantiation.draw(count, problem.d, run.rng)
        operator = problem.operator(setting.instantiation, W)
        known = setting.ridge  # of a fit to similar rows
        return problem.learn(
            operator,
            late=lambda: run.is_over(_FIT_SHARE),
            left=lambda: run.remaining_seconds(_FIT_SHARE),
            tell=run.tell,
            validate=choice.settled and self.ridge is None,
            near=log_relative_ridge(math.log(known), operator) if known else None,
        )


def instantiation_candidates(instantiation: str | Instantiation, /) -> list[Instantiation]:
    """Return the candidates for a value of the parameter `instantiation`."""
    if isinstance(instantiation, Instantiation):
        return [instantiation]
    if instantiation == "auto":
        return [one for several in CANDIDATES.values() for one in several]
    return CANDIDATES[instantiation]


def instantiation_text(instantiation: Instantiation, /) -> str:
    """Return the name and widths of an instantiation, in words."""
    shown = [
        f"{name} {value:.3g}"
        for name in ("sigma", "gamma")
        if isinstance(value := getattr(instantiation, name, None), float)
    ]
    return type(instantiation).__name__ + (f" ({', '.join(shown)})" if shown else "")
