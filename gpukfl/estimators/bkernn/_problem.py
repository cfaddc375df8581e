"""One data set of BKerNN, and what watches its fit."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gpukfl._array import Array, array_namespace, beside, index_like, to_host
from gpukfl._memory import available_memory
from gpukfl._places import Place
from gpukfl._results import History, Status
from gpukfl._rows import Rows
from gpukfl.estimators._data import Data
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.methods import BKerNNFit, RidgeSystem, ShapeFunctions, fit_bkernn, paper_ridge, rows_at
from gpukfl.operators import (
    BinnedBrownianKernel,
    BrownianKernel,
    CenteredKernel,
    center,
)
from gpukfl.penalties import make_penalty
from gpukfl.solvers import ProximalGradient

FACTOR = 3.0  # between neighbouring ridges
_PATIENCE = 5  # iterations without a better validation score before early stopping
_AUTO_KNOTS = 4096
_EXACT_BYTES = 48  # per projection: two operators sorted at once, and a preconditioner
_EXACT_UP_TO = 200_000_000  # projections; beyond, the binned form saves the sorts
_SAMPLE_FROM, _SAMPLE_SHARE = 300_000, 40  # rows from which one in so many judges trials first
_FIRST_SHARE, _FIRST_ROWS = 10, 200_000  # one in so many, at most so many, sees the first steps
_COLD_FROM, _FEWEST_FIRST = 4_000, 1_000  # from random particles; and the fewest that see them
_PROBE_ROWS = 100_000  # sample on which the binned form's error is estimated
_THIN_FROM = 2_000_000  # knots in all from which shape functions are thinned by default
_THIN_TO = 1e-4  # standard deviations of the fit


@dataclass(frozen=True)
class Setting:
    """Penalty, and the ridge: a number, or the formula's times three to some power."""

    penalty: str
    ridge: float | None = None
    power: int = 0


class Problem(Data):
    """One data set of BKerNN: everything a fit needs and its result is read with."""

    def __init__(self, settings: Any, samples: Samples, place: Place, m: int) -> None:
        super().__init__(settings, samples, place)
        self.m = m
        self.n_knots = self._choose_knots(samples.X)
        self.X = self.rows.whole() if self.n_knots is None else None

    @cached_property
    def _formula(self) -> float:
        return paper_ridge(self.rows, self.n_effective)

    def ridge(self, setting: Setting, /) -> float:
        """Give λ; where all rows are at the origin, any gives the same constant model."""
        if setting.ridge is not None:
            return setting.ridge or 1.0 / self.n_effective
        return FACTOR**setting.power * self._formula or 1.0 / self.n_effective

    def _sample_system(
        self,
        system: RidgeSystem,
        rng: np.random.RandomState,
        count: int,
        above: int,
        times_ridge: float = 1.0,
    ) -> tuple[Callable[[Array], BrownianKernel], RidgeSystem] | None:
        """Exact kernel and system of `count` of the rows, None where there are not so many."""
        n = self.rows.shape[0]
        if n < above:
            return None
        index = np.sort(rng.choice(n, count, replace=False))
        X = rows_at(self.rows, index)
        at = array_namespace(X).asarray(index, **index_like(X))
        Y, s = (
            None if v is None else array_namespace(v).take(v, at, axis=0)
            for v in (system.Y, system.root_weights)
        )
        ridge = times_ridge * system.ridge
        return lambda W: BrownianKernel.of(X, W), RidgeSystem(Y, ridge, s, rng=rng)

    def _solved_for(self) -> tuple[Array, Array | None]:
        """Targets and root weights of the linear systems.

        In float64 with knots: systems of tens of millions of rows are too ill-conditioned for
        float32, and these vectors are small beside the positions.
        """
        s = self.root_weights
        if self.n_knots is None:
            return self.Y, s
        xp = array_namespace(self.Y)
        wide = None if s is None else xp.astype(s, xp.float64)
        return xp.astype(self.Y, xp.float64), wide

    def _choose_knots(self, X: Array) -> int | None:
        wanted = self.settings.knots
        if wanted != "auto":
            return None if wanted is None else int(wanted)
        size = X.shape[0] * self.m
        needed = _EXACT_BYTES * size + 8 * X.shape[0] * X.shape[1]
        if needed < available_memory(self.reference) and size <= _EXACT_UP_TO:
            return None
        if self.settings.verbose:
            print(f"knots='auto' chose {_AUTO_KNOTS} knots a particle", file=sys.stderr)
        return _AUTO_KNOTS

    def _first_particles(self, known: Array | None, rng: np.random.RandomState) -> Array:
        d = self.rows.shape[1]
        if known is not None and tuple(known.shape) == (d, self.m) and np.any(to_host(known)):
            return beside(to_host(known), self.reference)
        return beside(rng.normal(0.0, math.sqrt(1.0 / d), (d, self.m)), self.reference)

    def kernel(self, W: Array, /) -> BrownianKernel | BinnedBrownianKernel:
        """Kernel operator at the particles `W`."""
        if self.n_knots is None:
            return BrownianKernel.of(self.X, W)
        return BinnedBrownianKernel.of(self.rows, W, n_knots=self.n_knots)

    def fit(
        self,
        setting: Setting,
        rng: np.random.RandomState,
        run: Run,
        /,
        *,
        start: Array | None = None,
        held_out: Samples | None = None,
        max_iter: int | None = None,
        times_tol: float = 1.0,
        share: float = 1.0,
        stage: str = "fit",
    ) -> BKerNNFit:
        """Run the method from some particles, in a share of the time."""
        settings = self.settings
        steps = settings.max_iter if max_iter is None else max_iter
        Y, s = self._solved_for()
        system = RidgeSystem(Y, self.ridge(setting), s, rng=rng)
        W = self._first_particles(start, rng)
        # Different rows: those that particles were fitted to judge every trial worse
        n = self.rows.shape[0]
        sample = self._sample_system(system, rng, n // _SAMPLE_SHARE, _SAMPLE_FROM)
        few = min(max(n // _FIRST_SHARE, _FEWEST_FIRST), _FIRST_ROWS)
        above = _COLD_FROM if start is None else _SAMPLE_FROM
        # The formula's ridge goes with 1/n: fewer rows need a larger one
        first_system = self._sample_system(system, rng, few, above, n / few)
        if self.constant:
            W, steps = array_namespace(W).zeros_like(W), 0

        def tell(k: int, history: History) -> None:
            run.tell(stage, k, history)

        watcher = Watcher(self, held_out, tell)
        given = {
            "penalty": make_penalty(setting.penalty, settings.concavity),
            "penalty_strength": settings.penalty_strength,
        }
        rule, tol, first = settings.step_size, times_tol * settings.tol, None
        with np.errstate(over="ignore"):  # reported as an error
            if first_system is not None and held_out is None and not self.constant:
                # Steps from a random start are coarse: the first half of them sees a sample
                optimizer = ProximalGradient(rule, steps // 2, tol, run.left(share))
                progress = Watcher(self, None, tell)
                first = fit_bkernn(*first_system, W, optimizer=optimizer, watch=progress, **given)
                W = W if first.status is Status.COLLAPSED else first.W
                steps -= len(first.history)
                if first.status in (Status.INTERRUPTED, Status.TIME_LIMIT):
                    steps = 0
            fit = fit_bkernn(
                self.kernel,
                system,
                W,
                sample=sample,
                optimizer=ProximalGradient(rule, steps, tol, run.left(share)),
                watch=watcher,
                **given,
            )
        if first is not None:
            fit = _joined(first, fit)
        if self.constant and fit.status is not Status.INTERRUPTED:
            return replace(fit, status=Status.CONVERGED)  # there were no steps to take
        return watcher.best(fit)

    def shapes(self, fit: BKerNNFit, /) -> ShapeFunctions:
        """Shape functions, thinned as asked."""
        tolerance = self.settings.knot_tolerance
        knots, values = fit.kernel.curves(fit.alpha)
        if tolerance == "auto":
            tolerance = _THIN_TO if knots.shape[0] * knots.shape[1] > _THIN_FROM else 0.0
        if tolerance == 0:
            return ShapeFunctions(knots, values)
        return ShapeFunctions.thinned(knots, values, float(tolerance))

    def predict(self, fit: BKerNNFit, X: Array, /) -> Array:
        """Predict at `X` (n, d) in the scale of `Y`."""
        return fit.intercept + ShapeFunctions(*fit.kernel.curves(fit.alpha)).mean(fit.W.T @ X.T)

    def knots_error(self, fit: BKerNNFit, /) -> float:
        """Relative error of the binned product with the dual coefficients, on a sample of rows."""
        if self.n_knots is None or self.constant:
            return 0.0
        n = min(self.rows.shape[0], _PROBE_ROWS)
        rows = Rows(self.rows.block(0, n), self.reference)
        v = center(fit.alpha[:n, :])
        xp = array_namespace(v)
        binned = BinnedBrownianKernel.of(rows, fit.W, n_knots=self.n_knots)
        exact = CenteredKernel(BrownianKernel.of(rows.whole(), fit.W)) @ v
        gap = xp.linalg.vector_norm(CenteredKernel(binned) @ v - exact)
        scale = float(xp.linalg.vector_norm(exact))
        return float(gap) / scale if scale > 0 else 0.0


def _joined(first: BKerNNFit, last: BKerNNFit) -> BKerNNFit:
    """Give the last fit with the steps of both, and the first's end where that ended all."""
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
        problem: Problem,
        held_out: Samples | None,
        tell: Callable[[int, History], None],
    ) -> None:
        self.problem, self.tell = problem, tell
        self.best_score, self.waited = -math.inf, 0
        self.best_fit: BKerNNFit | None = None
        self.held_out: tuple[Array, Array] | None = None
        if held_out is not None:
            self.held_out = problem.scaled(held_out)

    def __call__(
        self, k: int, _: Array, finish: Callable[[], BKerNNFit], history: History
    ) -> Status | None:
        self.tell(k, history)
        if self.held_out is None:
            return None
        history.validation_score.append(math.nan)  # as long as the other lists, come what may
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
        if float(around) == 0.0:  # nothing to explain, but errors still count
            return -float(xp.sum(left**2))
        return 1.0 - float(xp.sum(left**2)) / float(around)

    def best(self, last: BKerNNFit) -> BKerNNFit:
        """Choose the fit to keep: the best by validation, if there was one."""
        if self.best_fit is None:
            return last
        found = self.best_fit
        return replace(found, status=last.status, history=last.history)
