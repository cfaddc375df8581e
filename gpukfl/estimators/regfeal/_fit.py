"""RegFeaL as a method: settings, data set, and choices by held-out rows."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    concat_rows,
    double_like,
    reference_like,
    take_rows,
    to_double,
    to_host,
)
from gpukfl.core._places import Place
from gpukfl.core._results import Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._data import Data, draw_rows, truncate
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
from gpukfl.estimators.regfeal._settings import (
    FAR,
    LEAST,
    Coordinates,
    RegFeaLSetting,
    RegFeaLSettings,
    check_retrain_in_parts,
    check_retrain_weights,
    farthest,
)
from gpukfl.inspection import effective_rank
from gpukfl.kernels import Gaussian, median_distance
from gpukfl.methods import (
    DegreeLaw,
    FirstTurn,
    KernelRidge,
    KernelRidgeFit,
    RegFeaL,
    RegFeaLFit,
    derivative_weights,
    eta_shares,
)
from gpukfl.partitioned._rows import Rows, map_rows, reduce_rows

# --------------------------------------------------------------------------------- problem

_TERMS = 10  # of the kernel for each random feature; more are warned of


class RegFeaLProblem(Data):
    """One data set of RegFeaL."""

    settings: RegFeaLSettings
    given_weights: Array | None  # (n,), on the host, or partitioned as the rows

    def __init__(self, settings: RegFeaLSettings, samples: Samples, place: Place, run: Run) -> None:
        super().__init__(settings, samples, place, run, clip=farthest(settings.clip))
        self.given_weights = samples.weights
        if self.rows.partitioning is not None:
            check_retrain_in_parts(settings.retrain)
        if samples.weights is not None:
            check_retrain_weights(settings.retrain)

    def coordinates(self, rows: Rows, directions: np.ndarray, /) -> Rows:
        """Coordinates of scaled rows along directions (s, d) of the host, in float64."""
        xp = array_namespace(self.reference)
        return project_rows(rows, xp.asarray(directions, **double_like(self.reference)))

    @cached_property
    def _far_values(self) -> tuple[float, np.ndarray]:
        """The largest absolute value, and the share (d,) of values beyond the clipping limit."""
        xp = array_namespace(self.reference)
        rows, edge = replace(self.rows, clip=None), farthest(self.settings.clip) or FAR

        def merge(a: tuple[float, np.ndarray], b: tuple[float, np.ndarray]) -> Any:
            return max(a[0], b[0]), a[1] + b[1]

        def part(start: int, stop: int) -> list[tuple[float, np.ndarray]]:
            found = []
            for _, _, block in rows.blocks(start=start, stop=stop):
                size = xp.abs(block)
                beyond = xp.sum(xp.astype(size > edge, xp.float64), axis=0)
                found.append((float(xp.max(size)), to_host(beyond)))
            return [functools.reduce(merge, found)]

        ((largest, beyond),) = reduce_rows(rows.source, part, combine=merge)
        return largest, beyond / rows.shape[0]

    @property
    def _is_scaled(self) -> bool:
        return self.settings.scaling is not None and self.settings.clip is not None

    def check_scale(self) -> None:
        """Raise ValueError if most values of a feature are far from 0."""
        if self._is_scaled or not (self._far_values[1] > 0.5).any():
            return
        edge = farthest(self.settings.clip) or FAR
        msg = (
            "expected features around 0 of about unit variance, got most values of feature "
            f"{np.argmax(self._far_values[1])} beyond {edge:g}: scaling='standard' scales "
            "them"
        )
        raise ValueError(msg)

    def warn_of_scale(self) -> None:
        """Warn if some values of a feature are far from 0."""
        settings = self.settings
        if self._is_scaled or settings.clip not in ("auto", None) or self._far_values[0] <= FAR:
            return
        advice = "scaling='standard' scales features, " if settings.scaling is None else ""
        msg = (
            f"a feature is {self._far_values[0]:.3g} standard deviations from 0, where Hermite "
            f"polynomials are huge: {advice}clip={FAR:g} bounds the values"
        )
        warn(msg)

    def warn_of_many_terms(self) -> None:
        """Warn if a given law needs too many random features."""
        law, d = self.settings.law, self.rows.shape[1]
        if law is None or law.decay is None:
            return
        count = self.settings.n_random_features
        enough, log_terms = _TERMS * count, -d * math.log1p(-law.decay)
        if log_terms > math.log(enough):
            most = -math.expm1(-math.log(enough) / d)
            msg = (
                f"a degree decay of {law.decay:g} with {d} features is too large: the kernel has "
                f"about e^{log_terms:.1f} terms, too many for {count} random features. Use at most "
                f"{most:.2g}, more random features, or degrees='auto'"
            )
            warn(msg)


# ------------------------------------------------------------------------------ retraining

_EXACT_ROWS, _MANY_ROWS = 5_000, 100_000  # up to these rows, all or `_CENTERS` are centres
_CENTERS, _FEW_CENTERS = 2_000, 1_000
_RETRAIN_WORK = 2  # times that a regression must fit into the remaining time
_SHORT = 0.1  # of the longest column's length; shorter columns are left out


@dataclass(frozen=True, eq=False)
class RetrainedModel:
    """A model that predicts from coordinates: kernel ridge regression, or another regressor."""

    directions: np.ndarray  # (s, d), the projection of the data
    fit: KernelRidgeFit | None = None
    regressor: Any = None


def retrain(problem: RegFeaLProblem, directions: np.ndarray, run: Run, /) -> RetrainedModel:
    """Fit kernel ridge regression, or a clone of the regressor, to coordinates."""
    rows, regressor = problem.coordinates(problem.rows, directions), problem.settings.retrain
    weights, n = problem.given_weights, problem.n
    if regressor == "kernel_ridge":
        Y = to_double(problem.Y)

        def solve(q: int) -> KernelRidgeFit:
            return fit_kernel_ridge(rows, Y, weights, centers=q)

        wanted = _EXACT_ROWS if n <= _EXACT_ROWS else _CENTERS if n <= _MANY_ROWS else _FEW_CENTERS
        return RetrainedModel(directions, solve(run.affordable(wanted, solve, times=_RETRAIN_WORK)))
    Y = to_host(problem.Y).astype(np.float64)
    given = {} if weights is None else {"sample_weight": weights}
    y = Y[:, 0] if Y.shape[1] == 1 else Y
    fitted = clone(regressor).fit(to_host(rows.whole()), y, **given)
    return RetrainedModel(directions, regressor=fitted)


def fit_kernel_ridge(
    rows: Rows,
    Y: Array,
    weights: Array | None,
    /,
    *,
    centers: int,
    few: int | None = None,
) -> KernelRidgeFit:
    """Fit kernel ridge regression with `centers` Nyström centres, or exactly to few rows.

    The ridge is chosen with `few` centres if rows are more than twice as many.
    """
    rng = np.random.RandomState(0)
    index = draw_rows(Y.shape[0], rng)
    lengthscale = median_distance(
        rows.gather(index), weights=None if weights is None else to_host(take_rows(weights, index))
    )
    n_centers = None if Y.shape[0] <= centers else centers
    method = KernelRidge(Gaussian(lengthscale), n_centers=n_centers, cautious=True)
    placed = None if weights is None else asarray_like(weights[:, None], rows.reference)
    given = rows, Y, placed, rng
    if few is not None and Y.shape[0] > 2 * few:
        method = replace(method, ridge=replace(method, n_centers=few).fit(*given).ridge)
    return method.fit(*given)


def project_rows(rows: Rows, components: Array, /) -> Rows:
    """Return the coordinates (n, s) of rows along `components` (s, d), in their precision."""
    xp, dtype = array_namespace(components), components.dtype

    def part(start: int, stop: int) -> Array:
        blocks = rows.blocks(start=start, stop=stop)
        return concat_rows([xp.astype(X, dtype, copy=False) @ components.T for _, _, X in blocks])

    Z = map_rows(rows.source, part, columns=components.shape[:1], dtype=dtype)
    return Rows(Z, reference_like(components))


def leading_columns(R: np.ndarray, lengths: np.ndarray, /) -> np.ndarray:
    """Return the longest columns of orthogonal host R (d, d), scaled to their lengths.

    They contain the directions. With many features, decomposing all columns takes longer than the
    fit.
    """
    long = lengths >= _SHORT * lengths.max() if lengths.any() else np.arange(len(lengths)) == 0
    return R[:, long] * lengths[long]


# ------------------------------------------------------------------------------------ fold

SHARE = 0.5  # of max_time, at which the search ends
_FEATURES = 5_000  # most random features in the search; with fewer, other settings are best
_ITERATIONS = 4  # in the search
_TRIAL_CENTERS = 600  # of kernel ridge regressions that compare directions
_RIDGE_CENTERS = 300  # for the choice of their ridge


@dataclass(eq=False)
class RegFeaLFoldFit:
    """The result of a fold."""

    method: RegFeaL
    fit: RegFeaLFit
    first: FirstTurn | None  # shared by fits that differ only in μ; None once released
    retrained: RetrainedModel | None = None

    @functools.cached_property
    def directions(self) -> tuple[np.ndarray, np.ndarray]:
        """Directions and η by the last regression."""
        return self.method.directions(self.fit)


def fit_few_features(
    problem: RegFeaLProblem, setting: RegFeaLSetting, first: FirstTurn, run: Run, /
) -> RegFeaLFoldFit:
    """Fit with few features and iterations, and equal draws, to compare settings."""
    method, rng = problem.settings.make_method(setting), np.random.RandomState(0)
    few = min(method.n_random_features, _FEATURES), min(method.n_iter, _ITERATIONS)
    method = replace(method.with_effort(*few), max_time=run.remaining_seconds(SHARE))
    fit = method.run(problem.kept_rows, problem.Y, problem.weights, rng, first=first)
    if fit.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    name = f"tune {setting.law.text}, strength {setting.strength:g}"
    run.tell(name, len(fit.history) - 1, fit.history)
    return RegFeaLFoldFit(method, fit, first)


# ---------------------------------------------------------------------------------- search

MEAN_DEGREES = (0.5, 1.0, 2.0, 4.0, 8.0)  # of the laws in the grid
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
START = (4.0, 0.1)  # mean degree and strength
SCOUTS = (START, (8.0, 0.01), (2.0, 0.01), (1.0, 1.0))  # first settings; the best one is refined
SQUARES, SQUARES_STRENGTH = DegreeLaw(largest=2), 0.01  # another first setting for many variables

_FEATURES_PER_TUPLE = 4  # with fewer for each tuple of degree up to 2, variables are many
_ROWS = 5_000  # most rows for the search
_GAIN = 1e-3  # least gain in R² of another step
_FINALISTS = 3  # settings on whose directions models are retrained
_DIRECTION_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)  # leading directions to retrain on
_POWERS = (0.25, 0.5)  # of the squared derivatives, as weights of all directions
_WORTH = 0.01  # least relative decrease of the error by more directions
_BEHIND_FACTOR = 1.5  # a setting is dropped if its error is this multiple of the best one's
_FIT_WORK = 3  # iterations for which there should be time
_FIT_SHARE = 0.8  # of max_time, at which the fit ends
_QUICK_FEATURES, _QUICK_ITERATIONS = 300, 2  # after an early interruption

OneTrial = Trial[RegFeaLSetting, RegFeaLFoldFit]
Trials = Sequence[OneTrial]


@dataclass(frozen=True, eq=False)
class RegFeaLTuner(Tuner[RegFeaLSetting, RegFeaLFoldFit]):
    """A tuner that climbs the grid of laws and μ from the best of some first settings.

    Then models are retrained on the directions of the best settings, called points, with several
    choices of coordinates.
    """

    scouts: list[RegFeaLSetting]
    laws: list[DegreeLaw] | None  # to choose among
    strengths: Sequence[float] | None
    retrain: Any
    n_folds: int

    def propose(self, trials: Trials, /) -> RegFeaLSetting | None:
        """Return the next first setting, neighbour of the best one, or way to retrain."""
        points = _select_points(trials)
        _release_models(points)
        scout = first_untried_setting(self.scouts, points)
        if scout is not None:
            return scout
        best = hill_climb(points, lambda _: _GAIN, first=len(self.scouts))
        near = first_untried_setting(_neighbours(best.setting, self.laws, self.strengths), points)
        if near is not None or self.retrain is None:
            return near
        finalists = rank_trials(points)[:_FINALISTS]
        return first_untried_setting(
            (one for point in finalists for one in self._list_coordinates(point)), trials
        )

    def starts(self, setting: RegFeaLSetting, trials: Trials, /) -> Sequence[RegFeaLFoldFit | None]:
        """Return fits to retrain, or first regressions with the same law."""
        points = _select_points(trials)
        if setting.way is not None:
            base = replace(setting, way=None)
            return next(trial.learned for trial in points if trial.setting == base)
        if points:
            leader = rank_trials(points)[0]
            if leader.setting.law == setting.law:
                return leader.learned
        return ()

    def choose(self, trials: Trials, /) -> OneTrial:
        """Return the best complete trial by its final predictions.

        Among trials with about the same error, it has the fewest directions.
        """
        points = _select_points(trials)
        looked: list[tuple[float, OneTrial]] = []
        for point in points:
            ways = [
                t for t in trials if _is_retraining(t, point) and len(t.predicted) == self.n_folds
            ]
            if ways:
                mine = [*ways, point] if self.retrain == "kernel_ridge" else ways
                best = max(mine, key=lambda trial: trial.score)
                enough = best.score - _WORTH * (1.0 - best.score)
                few = [t for t in ways if _n_leading(t) and t.score >= enough]
                looked.append((best.score, min(few, key=_n_leading, default=best)))
        if not looked:
            return max(points, key=lambda trial: trial.score)
        return max(looked, key=lambda pair: pair[0])[1]

    def describe_trial(self, trial: OneTrial, /) -> dict[str, Any]:
        """Return law, μ, and the kind of predictions by names."""
        law, strength, way = trial.setting.law, trial.setting.strength, trial.setting.way
        return {
            "degree_decay": law.decay,
            "max_degree": law.largest,
            "strength": strength,
            "prediction": "Hermite features" if way is None else way.text,
        }

    def _list_coordinates(self, point: OneTrial) -> list[RegFeaLSetting]:
        """Return the settings that retrain on a point's directions."""
        if not point.learned:
            return []
        etas = [learned.directions[1] for learned in point.learned]
        ways = _candidate_coordinates(etas, point.learned[0].method.exponent)
        if self.retrain == "kernel_ridge":  # other regressors may not see weights
            # First, as they are seldom far from the best: worse ones are dropped early
            ways = [*(Coordinates(power=power) for power in _POWERS), *ways]
        return [replace(point.setting, way=way) for way in ways]


class RegFeaLSearch(Search[RegFeaLSetting, RegFeaLFoldFit]):
    """A search that drops retrained models that are clearly worse, and points that are much worse.

    Directions that are a little worse for Hermite features may be the best to retrain on.
    """

    def _is_behind(self, trial: OneTrial) -> bool:
        is_point = trial.setting.way is None
        whole = [one for one in self.trials if len(one.predicted) == len(self.folds)]
        rivals = [one for one in whole if (one.setting.way is None) == is_point]
        if not rivals:
            return False
        best = max(rivals, key=lambda one: one.score).losses[: len(trial.losses)]
        rival = (_BEHIND_FACTOR if is_point else 1.0 + _WORTH) * best
        return is_clearly_worse(trial.losses, rival, trial.groups)


def rank_trials(trials: Trials, /) -> list[OneTrial]:
    """Return the trials, best first."""
    return sorted(trials, key=lambda trial: -trial.score)


def _select_points(trials: Trials) -> list[OneTrial]:
    return [trial for trial in trials if trial.setting.way is None]


def _is_retraining(trial: OneTrial, point: OneTrial) -> bool:
    return trial is not point and replace(trial.setting, way=None) == point.setting


def _n_leading(trial: OneTrial) -> int:
    """Return the number of leading directions; 0 if all are weighted."""
    return (trial.setting.way and trial.setting.way.number) or 0


def _release_models(points: Trials) -> None:
    """Release the large arrays of trials that fell behind."""
    for trial in rank_trials(points)[1:]:
        for learned in trial.learned:
            learned.first = None
    for trial in rank_trials(points)[_FINALISTS:]:
        trial.learned.clear()


def _candidate_coordinates(etas: list[np.ndarray], exponent: float) -> list[Coordinates]:
    """Return candidate numbers of directions, up to twice those with a share of 1/d.

    Directions along which the function is constant up to rounding are left out.
    """
    most = 1
    for eta in etas:
        shares = eta_shares(eta, exponent)
        important, half = (int(np.sum(shares >= c / len(eta))) for c in (1.0, 0.5))
        seen = int(np.sum(derivative_weights(eta, exponent, 0.5) >= LEAST))
        most = max(most, min(max(2 * important, half), seen))
    return [Coordinates(k) for k in _DIRECTION_COUNTS if k <= most]


def _neighbours(at: RegFeaLSetting, laws: Any, strengths: Any) -> list[RegFeaLSetting]:
    """Return the neighbours of a point on the grid."""
    points = []
    if strengths:
        k = strengths.index(at.strength)
        near = [strengths[j] for j in (k - 1, k + 1) if 0 <= j < len(strengths)]
        points += [RegFeaLSetting(at.law, strength) for strength in near]
    if laws:
        k = laws.index(at.law)
        near = [laws[j] for j in (k - 1, k + 1) if 0 <= j < len(laws)]
        points += [RegFeaLSetting(law, at.strength) for law in near]
    return points


def degree_law(mean_degree: float, d: int, /) -> DegreeLaw:
    """Return the law whose kernel's terms have this degree on average.

    The degree of the kernel's terms is negative binomial.
    """
    return DegreeLaw(mean_degree / (mean_degree + d))


@dataclass(frozen=True, eq=False)
class RegFeaLResult:
    """The final fit, and the model retrained on its directions."""

    method: RegFeaL
    fit: RegFeaLFit
    directions: tuple[np.ndarray, np.ndarray]  # R and η by the last regression
    retrained: RetrainedModel | None
    status: Status


class RegFeaLMethod(RegFeaLSettings):
    """RegFeaL with its settings."""

    splits: ClassVar[Splits] = Splits(at_most=_ROWS)

    def work(self, n: int, d: int, /) -> int:  # noqa: ARG002
        """Return the number of random features times rows."""
        return n * self.n_random_features

    def problem(self, samples: Samples, place: Place, run: Run, /) -> RegFeaLProblem:
        """Place and scale samples."""
        return RegFeaLProblem(self, samples, place, run)

    def default_setting(self, problem: RegFeaLProblem, /) -> RegFeaLSetting:
        """Return the given setting, with the middle of the grid for open ones."""
        problem.check_scale()
        law = self.law or degree_law(START[0], problem.rows.shape[1])
        return RegFeaLSetting(law, self.strength or START[1])

    def fit_fold(
        self,
        fold: Fold[RegFeaLProblem],
        setting: RegFeaLSetting,
        start: RegFeaLFoldFit | None,
        run: Run,
        /,
    ) -> RegFeaLFoldFit:
        """Fit Hermite features, or kernel ridge regression on the directions of such a fit."""
        problem = fold.problem
        if setting.way is None or start is None:
            first = (start and start.first) or FirstTurn()
            start = fit_few_features(problem, setting, first, run)
        if setting.way is None:
            return start
        R, eta = start.directions
        directions = setting.way.directions(R, eta, start.method.exponent)
        rows, Y = problem.coordinates(problem.kept_rows, directions), to_double(problem.Y)
        weights = problem.given_weights
        fit = fit_kernel_ridge(rows, Y, weights, centers=_TRIAL_CENTERS, few=_RIDGE_CENTERS)
        return replace(start, first=None, retrained=RetrainedModel(directions, fit))

    def predict_fold(self, fold: Fold[RegFeaLProblem], learned: RegFeaLFoldFit, /) -> Array:
        """Predict the held-out rows, by Hermite features or the retrained model."""
        problem, again = fold.problem, learned.retrained
        rows = Rows(fold.held_out.X, problem.reference)
        if again is None or again.fit is None:
            return truncate(learned.fit.predict(rows), problem.bound)
        return again.fit.predict(problem.coordinates(rows, again.directions))

    def search(
        self,
        folds: Callable[[], Sequence[Fold[RegFeaLProblem]]],
        problem: RegFeaLProblem,
        run: Run,
        /,
    ) -> Search[RegFeaLSetting, RegFeaLFoldFit] | None:
        """Return a search if law, μ or a retrained model are to be chosen, and there is time."""
        start = self.default_setting(problem)
        if not self.is_open and (self.retrain is None or run.is_over(SHARE)):
            return None
        d = problem.rows.shape[1]
        laws = None if self.law else [degree_law(degree, d) for degree in MEAN_DEGREES]
        strengths, scouts = None if self.strength else STRENGTHS, [start]
        if laws and strengths:
            scouts = [
                RegFeaLSetting(degree_law(degree, d), strength) for degree, strength in SCOUTS
            ]
        # Random tuples hardly cover degree 2, which is rare under a decaying law
        if laws and self.n_random_features < _FEATURES_PER_TUPLE * math.comb(d + 2, 2):
            laws.insert(0, SQUARES)
            scouts.append(
                RegFeaLSetting(SQUARES, SQUARES_STRENGTH if strengths else start.strength)
            )
        found = folds()
        tuner = RegFeaLTuner(scouts, laws, strengths, self.retrain, len(found))
        return RegFeaLSearch(self, found, tuner, run, SHARE)

    def learn(
        self,
        problem: RegFeaLProblem,
        choice: SearchResult[RegFeaLSetting, RegFeaLFoldFit],
        run: Run,
        /,
    ) -> RegFeaLResult:
        """Fit all rows and retrain; use few features after an early interruption."""
        problem.warn_of_scale()
        problem.warn_of_many_terms()
        method, stopped = self.make_method(choice.setting), choice.stopped
        if stopped and choice.trial is None:  # nothing was tried
            method = quick_method(method)
        try:
            method, fit = fit_in_time(method, problem, run)
        except KeyboardInterrupt:  # before the end of the first iteration
            stopped = True
            method, fit = fit_in_time(quick_method(method), problem, run)
        stopped = stopped or fit.status is Status.INTERRUPTED
        R, eta = method.directions(fit)
        again = None
        if self.retrain is not None and not (problem.constant or stopped):
            way = self._choose_coordinates(choice, R, eta)
            try:
                if way is not None:
                    again = retrain(problem, way.directions(R, eta, method.exponent), run)
            except KeyboardInterrupt:  # the Hermite features predict
                stopped = True
        status = Status.INTERRUPTED if stopped else fit.status
        return RegFeaLResult(method, fit, (R, eta), again, status)

    def _choose_coordinates(
        self, choice: SearchResult[RegFeaLSetting, RegFeaLFoldFit], R: np.ndarray, eta: np.ndarray
    ) -> Coordinates | None:
        """Return the coordinates to retrain on; by default the important directions."""
        way, trial = choice.setting.way, choice.trial
        looked = choice.settled or (
            trial is not None and any(_is_retraining(one, trial) for one in choice.trials)
        )
        if way is not None or (looked and self.retrain == "kernel_ridge"):
            return way
        roots = derivative_weights(eta, self.reweighting.exponent, 0.5)
        return Coordinates(effective_rank(leading_columns(R, roots)))


def fit_in_time(
    method: RegFeaL, problem: RegFeaLProblem, run: Run, /
) -> tuple[RegFeaL, RegFeaLFit]:
    """Fit with as many random features as there is time for; return the method and the fit."""
    method = affordable_method(method, problem, run)
    method = replace(method, max_time=run.remaining_seconds(_FIT_SHARE))
    fit = method.run(
        problem.kept_rows,
        problem.Y,
        problem.weights,
        run.rng,
        watch=lambda k, fit: run.tell("fit", k, fit.history),
    )
    return method, fit


def quick_method(method: RegFeaL, /) -> RegFeaL:
    """Return the method with few features and iterations, which is quick."""
    few = min(method.n_random_features, _QUICK_FEATURES)
    return method.with_effort(few, min(method.n_iter, _QUICK_ITERATIONS))


def affordable_method(method: RegFeaL, problem: RegFeaLProblem, run: Run, /) -> RegFeaL:
    """Return the method with as many random features as there is time for."""
    asked = method.n_random_features

    def iterate(count: int) -> None:
        few = method.with_effort(count, 1)
        fit = few.run(problem.kept_rows, problem.Y, problem.weights, np.random.RandomState(0))
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt

    count = run.affordable(asked, iterate, times=_FIT_WORK)
    if count < asked:
        msg = f"max_time leaves time for {count} of {asked} random features"
        warn(msg, ConvergenceWarning)
    return method.with_effort(count, method.n_iter)
