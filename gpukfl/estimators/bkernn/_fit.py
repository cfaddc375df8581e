"""BKerNN as a method: one data set, and the choice of penalty and ridge by held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    lies_in_parts,
    take_rows,
    to_host,
)
from gpukfl.core._memory import available_memory
from gpukfl.core._places import Place
from gpukfl.core._random import draw_indices
from gpukfl.core._results import History, Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._data import Data, draw_rows
from gpukfl.estimators._learner import SearchResult
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples, Splits
from gpukfl.estimators._search import Fold, Search, Trial, Tuner
from gpukfl.estimators.bkernn._settings import BKerNNSetting, BKerNNSettings
from gpukfl.methods import (
    BKerNNFit,
    RidgeSystem,
    ShapeFunctions,
    fit_bkernn,
    mix_targets,
    paper_ridge,
)
from gpukfl.operators import BinnedBrownianKernel, BrownianKernel, CenteredKernel, center
from gpukfl.partitioned._rows import Rows, map_rows
from gpukfl.penalties import PENALTIES, ConcaveFeature, ConcaveVariable, Feature, Penalty, Variable

# --------------------------------------------------------------------------------- problem

FACTOR = 3.0  # between neighbouring ridges
_PATIENCE = 5  # iterations without a better validation score before early stopping
_AUTO_KNOTS = 4096
# Bytes of a projection: for two sorted operators and a preconditioner, and for each target's shape
_SORT_BYTES, _SHAPE_BYTES = 40, 8
_MOST_EXACT = 200_000_000  # projections without knots; with more, binning saves the sorts
_SAMPLE_FROM, _SAMPLE_DIVISOR = 300_000, 40  # n from which trial steps are first tested on n / 40
# First steps use n / 10 rows, within these limits; from random particles, if n is at least 4000
_FIRST_DIVISOR, _LEAST_FIRST, _FIRST_ROWS = 10, 1_000, 200_000
_COLD_FROM = 4_000
_PROBE_ROWS = 100_000  # sample for the error of the binned form
_MOST_MOVED = 20_000  # partitioned rows in any of these samples, which are moved here
_MOST_KNOTS = 2_000_000  # in all; with more, shape functions are thinned by default ...
_THIN_ERROR = 1e-4  # ... to this error, in standard deviations of the fit
_MOST_WATCHED = 20_000  # partitioned rows that early stopping holds out
_LINE_ROWS = 1_000  # sample for `is_on_a_line`
_ROUNDING = 1e-6  # relative size of a second direction that is only rounding


class BKerNNProblem(Data):
    """A data set of BKerNN, with its fits and predictions."""

    settings: BKerNNSettings
    m: int  # particles
    watched: Samples | None  # held out for early stopping

    def __init__(self, settings: BKerNNSettings, samples: Samples, place: Place, run: Run) -> None:
        inside, self.watched = _hold_out(samples, settings.held_out_share, run)
        super().__init__(settings, inside, place, run)
        self.m = settings.n_particles or max(50, min(2 * self.d, 200))
        self.n_knots = self._choose_knots(inside.X, run)
        self.X = self.rows.whole() if self.n_knots is None else None

    @cached_property
    def is_on_a_line(self) -> bool:
        """Whether all samples lie on a line, or are equal."""
        index = draw_rows(self.n, np.random.RandomState(0), min(_LINE_ROWS, _MOST_MOVED))
        S = to_host(self.rows.gather(index)).astype(np.float64)
        S -= S.mean(axis=0)
        lead = S[:, np.argmax(np.linalg.norm(S, axis=0))]
        u = lead / max(float(np.linalg.norm(lead)), np.finfo(np.float64).tiny)
        return bool(np.linalg.norm(S - np.outer(u, u @ S)) <= _ROUNDING * np.linalg.norm(S))

    @cached_property
    def _paper_ridge(self) -> float:
        return paper_ridge(self.rows, self.n_effective)

    def ridge(self, setting: BKerNNSetting, /) -> float:
        """Return λ, which is arbitrary if all rows are at the origin."""
        if setting.ridge is not None:
            return setting.ridge or 1.0 / self.n_effective
        return FACTOR**setting.power * self._paper_ridge or 1.0 / self.n_effective

    def _sample_system(
        self,
        system: RidgeSystem,
        rng: np.random.RandomState,
        count: int,
        above: int,
        times_ridge: float = 1.0,
    ) -> tuple[Callable[[Array], BrownianKernel], RidgeSystem] | None:
        """Return the exact kernel and system of `count` rows, or None if there are fewer."""
        n = self.n
        if n < above:
            return None
        index = np.sort(draw_indices(rng, n, self._sample_size(count)))
        X, Y, s = self.rows.gather(index), take_rows(system.Y, index), system.root_weights
        s = None if s is None else take_rows(s, index)
        ridge = times_ridge * system.ridge
        return lambda W: BrownianKernel.build(X, W), RidgeSystem(Y, ridge, s, rng=rng)

    def _sample_size(self, count: int) -> int:
        """Return the size of a sample of `count` rows, smaller if the rows must be moved."""
        return count if self.rows.partitioning is None else min(count, _MOST_MOVED)

    def _first_system(
        self, system: RidgeSystem, rng: np.random.RandomState, above: int
    ) -> tuple[Callable[[Array], BrownianKernel], RidgeSystem] | None:
        """Return kernel and system of the rows for the first steps, or None for all rows."""
        n = self.n
        few = self._sample_size(min(max(n // _FIRST_DIVISOR, _LEAST_FIRST), _FIRST_ROWS))
        # The paper's ridge is proportional to 1 / n
        return self._sample_system(system, rng, few, above, n / few)

    def _right_hand_sides(self) -> tuple[Array, Array | None]:
        """Return targets and root weights of the linear systems.

        They are float64 with knots, as large systems are too ill-conditioned for float32.
        """
        s = self.root_weights
        if self.n_knots is None:
            return self.Y, s
        xp = array_namespace(self.Y)
        wide = None if s is None else xp.astype(s, xp.float64)
        return xp.astype(self.Y, xp.float64), wide

    def _choose_knots(self, X: Array, run: Run) -> int | None:
        wanted = self.settings.knots.number
        if self.rows.partitioning is not None:  # sorting needs rows in one place
            return _AUTO_KNOTS if wanted in ("auto", None) else int(wanted)
        if not isinstance(wanted, str):
            return wanted
        size = X.shape[0] * self.m
        each = _SORT_BYTES + _SHAPE_BYTES * self.Y.shape[1]
        needed = each * size + 8 * X.shape[0] * X.shape[1]
        if needed < available_memory(self.reference) and size <= _MOST_EXACT:
            return None
        run.note(f"knots='auto' chose {_AUTO_KNOTS} knots a particle")
        return _AUTO_KNOTS

    def _first_particles(self, known: Array | None, rng: np.random.RandomState) -> Array:
        d = self.d
        if known is not None and tuple(known.shape) == (d, self.m) and np.any(to_host(known)):
            return asarray_like(to_host(known), self.reference)
        return asarray_like(rng.normal(0.0, math.sqrt(1.0 / d), (d, self.m)), self.reference)

    def kernel(self, W: Array, /) -> BrownianKernel | BinnedBrownianKernel:
        """Return the kernel operator at the particles `W`."""
        if self.n_knots is None:
            assert self.X is not None
            return BrownianKernel.build(self.X, W)
        return BinnedBrownianKernel.build(self.kept_rows, W, n_knots=self.n_knots)

    def fit(
        self,
        setting: BKerNNSetting,
        rng: np.random.RandomState,
        run: Run,
        /,
        *,
        start: Array | None = None,
        max_iter: int | None = None,
        times_tol: float = 1.0,
        share: float = 1.0,
        stage: str = "fit",
    ) -> BKerNNFit:
        """Run the method from some particles, within a share of the time."""
        settings, tol = self.settings, times_tol * self.settings.optimizer.tol
        optimizer = replace(settings.optimizer, tol=tol, max_time=run.remaining_seconds(share))
        steps = optimizer.max_iter if max_iter is None else max_iter
        Y, s = self._right_hand_sides()
        system = RidgeSystem(Y, self.ridge(setting), s, rng=rng)
        mixed = mix_targets(system.Y)
        by = system if mixed is system.Y else replace(system, Y=mixed)
        W = self._first_particles(start, rng)
        # Rows that the first steps have not seen
        sample = self._sample_system(by, rng, self.n // _SAMPLE_DIVISOR, _SAMPLE_FROM)
        few = self._first_system(by, rng, _COLD_FROM if start is None else _SAMPLE_FROM)
        if self.constant:
            W, steps = array_namespace(W).zeros_like(W), 0

        def tell(k: int, history: History) -> None:
            run.tell(stage, k, history)

        watcher = Watcher(self, self.watched, tell)
        strength = settings.penalty_strength
        learn = partial(fit_bkernn, penalty=setting.penalty, penalty_strength=strength)
        first = None
        with np.errstate(over="ignore"):  # reported as an error
            if few is not None and self.watched is None and not self.constant:
                # The first half of the steps is coarse, and uses a sample
                half, progress = replace(optimizer, max_iter=steps // 2), Watcher(self, None, tell)
                first = learn(*few, W, optimizer=half, watch=progress, learned=start is not None)
                W = W if first.status is Status.COLLAPSED else first.W
                has_time = first.status not in (Status.INTERRUPTED, Status.TIME_LIMIT)
                steps = steps - len(first.history) if has_time else 0
            optimizer = replace(optimizer, max_iter=steps, max_time=run.remaining_seconds(share))
            whole = self.kernel, system, W
            begun = start is not None or first is not None
            fit = learn(
                *whole,
                learned_by=by,
                sample=sample,
                optimizer=optimizer,
                watch=watcher,
                learned=begun,
            )
        fit = fit if first is None else _join_fits(first, fit)
        if self.constant and fit.status is not Status.INTERRUPTED:
            return replace(fit, status=Status.CONVERGED)  # there were no steps to take
        return watcher.best(fit)

    def shapes(self, fit: BKerNNFit, /) -> ShapeFunctions:
        """Return the shape functions with fewer knots, by the settings."""
        tolerance = self.settings.knots.tolerance
        knots, values = fit.kernel.curves(fit.alpha)
        if tolerance == "auto":
            tolerance = _THIN_ERROR if knots.shape[0] * knots.shape[1] > _MOST_KNOTS else 0.0
        if tolerance == 0:
            return ShapeFunctions(knots, values)
        return ShapeFunctions.simplify(knots, values, float(tolerance))

    def predict(self, fit: BKerNNFit, X: Array, /) -> Array:
        """Predict at `X` (n, d) in the scale of `Y`."""
        return fit.intercept + ShapeFunctions(*fit.kernel.curves(fit.alpha)).mean(fit.W.T @ X.T)

    def knots_error(self, fit: BKerNNFit, /) -> float:
        """Return the relative error of the binned kernel product on a sample of rows."""
        if self.n_knots is None or self.constant:
            return 0.0
        n = self._sample_size(min(self.n, _PROBE_ROWS))
        index = np.arange(n)
        rows = Rows(self.rows.gather(index), self.reference)
        v = center(take_rows(fit.alpha, index))
        xp = array_namespace(v)
        binned = BinnedBrownianKernel.build(rows, fit.W, n_knots=self.n_knots)
        exact = CenteredKernel(BrownianKernel.build(rows.whole(), fit.W)) @ v
        gap = xp.linalg.vector_norm(CenteredKernel(binned) @ v - exact)
        scale = float(xp.linalg.vector_norm(exact))
        return float(gap) / scale if scale > 0 else 0.0


def _hold_out(samples: Samples, share: float, run: Run) -> tuple[Samples, Samples | None]:
    """Hold out a share of the samples by relations, at random, or the end of a memory map."""
    if not share:
        return samples, None
    n = len(samples)
    n_out = max(1, round(share * n))
    if n - n_out < 2:
        msg = (
            f"expected at least 2 rows to fit after early_stopping={share:g} holds out some, "
            f"got {n} rows"
        )
        raise ValueError(msg)
    if lies_in_parts(samples.X):
        return _hold_out_in_parts(samples, n_out, run)
    if isinstance(samples.X, np.memmap):  # a random split would copy it
        return samples.take(slice(n - n_out)), samples.take(slice(n - n_out, None))
    if samples.relations is not None:
        found = samples.relations.split(run.again(), 1, share, samples.classes)
        if found:
            inside, outside = found[0]
            return samples.take(inside), samples.take(outside)
    inside, outside = np.split(run.again().permutation(n), [n - n_out])
    return samples.take(inside), samples.take(outside)


def _hold_out_in_parts(samples: Samples, n_out: int, run: Run) -> tuple[Samples, Samples]:
    """Hold out some partitioned rows, which get weight 0."""
    index = np.sort(draw_indices(run.again(), len(samples), min(n_out, _MOST_WATCHED)))
    given, X = samples.weights, samples.X

    def part(start: int, stop: int) -> Array:
        low, high = np.searchsorted(index, [start, stop])
        weights = np.ones(stop - start) if given is None else np.array(given[start:stop])
        weights[index[low:high] - start] = 0.0
        return weights

    weights: Any = map_rows(X, part, columns=(), dtype=np.float64)
    return replace(samples, weights=weights), samples.take(index)


def _join_fits(first: BKerNNFit, last: BKerNNFit) -> BKerNNFit:
    """Return the last fit with both histories, and the first status if that ended the fit."""
    history, before = History(), first.history
    for name in ("objective", "step", "residual"):
        setattr(history, name, getattr(before, name) + getattr(last.history, name))
    spent = before.seconds[-1] if before.seconds else 0.0
    history.seconds = before.seconds + [spent + s for s in last.history.seconds]
    ended = first.status in (Status.INTERRUPTED, Status.TIME_LIMIT)
    return replace(last, history=history, status=first.status if ended else last.status)


class Watcher:
    """Early stopping and progress, one call per iteration."""

    def __init__(
        self,
        problem: BKerNNProblem,
        held_out: Samples | None,
        tell: Callable[[int, History], None],
    ) -> None:
        self.problem, self.tell = problem, tell
        self.best_score, self.waited = -math.inf, 0
        self.best_fit: BKerNNFit | None = None
        self.held_out: tuple[Array, Array] | None = None
        if held_out is not None:
            self.held_out = problem.scale_samples(held_out)

    def __call__(
        self, k: int, _: Array, finish: Callable[[], BKerNNFit], history: History
    ) -> Status | None:
        self.tell(k, history)
        if self.held_out is None:
            return None
        history.validation_score.append(math.nan)  # as long as the other lists, even after an error
        fit = finish()
        score = history.validation_score[-1] = self._score(fit, *self.held_out)
        if score > self.best_score:
            self.best_score, self.best_fit, self.waited = score, fit, 0
            return None
        self.waited += 1
        return Status.EARLY_STOPPED if self.waited >= _PATIENCE else None

    def _score(self, fit: BKerNNFit, X: Array, Y: Array) -> float:
        xp = array_namespace(Y)
        left = Y - xp.astype(self.problem.predict(fit, X), xp.float64)
        around = xp.sum((Y - xp.mean(Y, axis=0)) ** 2)
        if float(around) == 0.0:  # constant targets
            return -float(xp.sum(left**2))
        return 1.0 - float(xp.sum(left**2)) / float(around)

    def best(self, last: BKerNNFit) -> BKerNNFit:
        """Return the fit to keep: the best one by validation, if there was any."""
        if self.best_fit is None:
            return last
        found = self.best_fit
        return replace(found, status=last.status, history=last.history)


# ---------------------------------------------------------------------------------- search

SHARE = 0.5  # of max_time, at which the search ends
_FIT_SHARE = 0.9  # of max_time, at which the steps end
_CONVEX: dict[type, type[Penalty]] = {ConcaveFeature: Feature, ConcaveVariable: Variable}
_REACH = 5  # ridges to each side of the paper's
_ROWS = 10_000  # most rows for the search
_FOLDS_BELOW = 2_000  # fewer rows are split into folds
_LOOSE_FACTOR = 3.0  # of `tol`, for trials and for a fit to more rows that continues one
_LOOSE_FROM = 200  # rows of a fold from which trials use that factor
_FEW = 2_000  # fewer rows use float64, as rounding to float32 changes the steps
_ENOUGH = 600  # held-out rows after which no more folds are used


@dataclass(frozen=True, eq=False)
class BKerNNFoldFit:
    """The result of a fold: particles and held-out predictions."""

    W: Array
    predicted: Array  # computed with the fit, whose sorted positions are not kept


Trials = Sequence[Trial[BKerNNSetting, BKerNNFoldFit]]


@dataclass(frozen=True, eq=False)
class BKerNNTuner(Tuner[BKerNNSetting, BKerNNFoldFit]):
    """A tuner that moves each penalty's ridge away from the paper's while scores improve."""

    penalties: Sequence[Penalty]
    ridge: float | None  # a given number
    climbs: bool  # whether other ridges than the paper's are tried
    problem: BKerNNProblem  # of a fold, for the ridges of trials

    def propose(self, trials: Trials, /) -> BKerNNSetting | None:
        """Return the next ridge to try."""
        for penalty in self.penalties:
            mine = [trial for trial in trials if trial.setting.penalty == penalty]
            power = next_power({trial.setting.power: trial.score for trial in mine})
            if power is not None and (power == 0 or self.climbs):
                return BKerNNSetting(penalty, self.ridge, power)
        return None

    def starts(self, setting: BKerNNSetting, trials: Trials, /) -> Sequence[BKerNNFoldFit | None]:
        """Return the particles of the last fits with the same penalty."""
        same = trials and trials[-1].setting.penalty == setting.penalty
        return trials[-1].learned if same else ()

    def describe_trial(self, trial: Trial[BKerNNSetting, BKerNNFoldFit], /) -> dict[str, Any]:
        """Return penalty and ridge by names, the ridge also as a multiple of the paper's."""
        setting = trial.setting
        return {
            "penalty": penalty_name(setting.penalty),
            "ridge": self.problem.ridge(setting),
            "multiple": FACTOR**setting.power,
        }


def next_power(scores: dict[int, float], /) -> int | None:
    """Return the power of the next ridge to try, by the scores so far, or None at the end."""
    for direction in (-1, 1):
        k = 0
        while abs(k) <= _REACH:
            if k not in scores:
                return k
            if k != 0 and scores[k] <= scores[k - direction]:
                break
            k += direction
        if max(scores, key=lambda power: scores[power]) < 0:
            break  # a smaller ridge is better, so larger ones are not
    return None


class BKerNN(BKerNNSettings):
    """BKerNN with its settings."""

    splits: ClassVar[Splits] = Splits(
        _ROWS, _FOLDS_BELOW, fewest=5, enough=_ENOUGH, double_below=_FEW
    )

    def work(self, n: int, d: int, /) -> int:
        """Return the number of projections."""
        return n * (self.n_particles or 2 * d)

    def problem(self, samples: Samples, place: Place, run: Run, /) -> BKerNNProblem:
        """Place samples, and hold out rows for early stopping."""
        return BKerNNProblem(self, samples, place, run)

    def default_setting(self, problem: BKerNNProblem, /) -> BKerNNSetting:
        """Return the only or default penalty, with the given ridge or the paper's."""
        penalty = self.penalties[0] if len(self.penalties) == 1 else ConcaveFeature()
        return BKerNNSetting(_convexify_on_line([penalty], problem)[0], self.ridge)

    def fit_fold(
        self,
        fold: Fold[BKerNNProblem],
        setting: BKerNNSetting,
        start: BKerNNFoldFit | None,
        run: Run,
        /,
    ) -> BKerNNFoldFit:
        """Fit, with equal draws for every setting; `fold.reached` keeps the particles."""
        problem = fold.problem
        fit = problem.fit(
            setting,
            run.again(),
            run,
            start=None if start is None else start.W,
            times_tol=_LOOSE_FACTOR if problem.n >= _LOOSE_FROM else 1.0,
            share=SHARE,
            stage=f"tune {penalty_name(setting.penalty)} x{FACTOR**setting.power:.3g}",
        )
        fold.reached = fit.W
        if fit.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return BKerNNFoldFit(fit.W, problem.predict(fit, fold.held_out.X))

    def predict_fold(self, fold: Fold[BKerNNProblem], learned: BKerNNFoldFit, /) -> Array:  # noqa: ARG002
        """Return the predictions that the fit made."""
        return learned.predicted

    def search(
        self,
        folds: Callable[[], Sequence[Fold[BKerNNProblem]]],
        problem: BKerNNProblem,
        run: Run,
        /,
    ) -> Search[BKerNNSetting, BKerNNFoldFit] | None:
        """Return a search if penalty or ridge are to be chosen."""
        if not self.climbs and len(self.penalties) == 1:
            return None
        found, penalties = folds(), _convexify_on_line(self.penalties, problem)
        tuner = BKerNNTuner(penalties, self.ridge, self.climbs, found[-1].problem)
        return Search(self, found, tuner, run, SHARE)

    def learn(
        self,
        problem: BKerNNProblem,
        choice: SearchResult[BKerNNSetting, BKerNNFoldFit],
        run: Run,
        /,
    ) -> BKerNNFit:
        """Fit all rows, without steps after an interruption."""
        _warn_edge_ridge(choice.setting.power)
        goes_on = choice.trial is not None and problem.n > _ROWS
        fit = problem.fit(
            choice.setting,
            run.rng,
            run,
            start=self._start(choice),
            share=_FIT_SHARE,
            max_iter=0 if choice.stopped else None,
            times_tol=_LOOSE_FACTOR if goes_on else 1.0,
        )
        return replace(fit, status=Status.INTERRUPTED) if choice.stopped else fit

    def _start(self, choice: SearchResult[BKerNNSetting, BKerNNFoldFit]) -> Array | None:
        """Return the particles to start from: those of the best trial, or of an interrupted fit."""
        if choice.trial is not None and choice.trial.learned:
            return choice.trial.learned[-1].W
        reached = [fold.reached for fold in choice.folds if fold.reached is not None]
        return reached[-1] if reached else self.start


def _convexify_on_line(penalties: Sequence[Penalty], problem: BKerNNProblem) -> list[Penalty]:
    """Return distinct penalties, replaced by convex ones if samples lie on a line.

    On a line the others grow only with the logarithm of the direction's length, so that the
    objective has no minimum, and noise would be fitted.
    """
    if not (any(type(one) in _CONVEX for one in penalties) and problem.is_on_a_line):
        return list(penalties)
    convex = (_CONVEX[type(one)]() if type(one) in _CONVEX else one for one in penalties)
    return list(dict.fromkeys(convex))


def penalty_name(penalty: Penalty, /) -> str:
    """Return the name of a penalty as a parameter, or its class's name."""
    names = (name for name, kind in PENALTIES.items() if kind is type(penalty))
    return next(names, type(penalty).__name__)  # a user's own penalty


def _warn_edge_ridge(power: int) -> None:
    if abs(power) == _REACH:
        msg = (
            f"the best ridge is at the edge of those tried, {FACTOR**power:.3g} times the "
            "paper's: pass a number as ridge to go further"
        )
        warn(msg)
