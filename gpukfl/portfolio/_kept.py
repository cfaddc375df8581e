"""What a portfolio keeps of a contest: the blend, how sure it is, and what matters to it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from gpukfl._array import Array, array_namespace, beside, double_reference, to_host
from gpukfl.estimators._run import Run
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._attributes import OutOfFold
from gpukfl.portfolio._blend_of_models import BlendOfModels
from gpukfl.portfolio._contest import Contest
from gpukfl.portfolio._importances import permutation_importances
from gpukfl.portfolio._leaderboard import rows_of

Found = TypeVar("Found")


class KeptContest(BlendOfModels):
    """A blend with what the rows that were held out say of it."""

    n_features_in_: int
    tuning_: list[dict[str, Any]]
    tuning_seconds_: float
    intercept_: Array
    feature_importances_: Array
    feature_importances_error_: Array
    feature_groups_: list[list[int]]

    @property
    @abstractmethod
    def _sources(self) -> list[int]:
        """Which feature each column of rows is made of."""

    @abstractmethod
    def _keep_uncertainty(self, rng: np.random.RandomState, max_time: float | None, /) -> None:
        """Set how far predictions are off, by the rows that are held out."""

    def _keep(self, contest: Contest, samples: Samples, run: Run) -> list[tuple[float, Any]]:
        """Set what the members came to; give those that are blended, with their weights."""
        pairs = zip(contest.weights.tolist(), contest.finished, strict=True)
        chosen = [(w, entry) for w, entry in pairs if w > 0]
        self.members_, self.whole_ = [one.blended(w) for w, one in chosen], False
        self.temperature_ = contest.temperature
        self.out_of_fold_ = _out_of_fold(contest, samples)
        there = double_reference(samples.X)
        self.reach_ = None if contest.reach is None else beside(contest.reach, there)
        middle = np.average(to_host(samples.Y), axis=0, weights=samples.weights)
        self.intercept_ = beside(middle.astype(np.float64), there)
        self.tuning_, self.tuning_seconds_ = rows_of(contest)
        _unless_stopped(
            contest,
            lambda over: self._keep_uncertainty(run.again(), 0.0 if over else run.left()),
        )
        importances, errors, self.feature_groups_ = _unless_stopped(
            contest,
            lambda over: permutation_importances(
                [one.source.outside for one in contest.folds],
                self._sources,
                self.n_features_in_,
                lambda k, X: to_host(self._outputs(X, k)),
                contest.judge,
                run.again(),
                lambda: 0.0 if over else _seconds(run),
            ),
        )
        self.feature_importances_ = beside(importances, there)
        self.feature_importances_error_ = beside(errors, there)
        return chosen


def _seconds(run: Run) -> float:
    """Seconds that are left: infinite without a limit, 0 where time is over."""
    left = run.left()
    return math.inf if left is None else 0.0 if run.is_over() else left


def _out_of_fold(contest: Contest, samples: Samples) -> OutOfFold:
    xp, judge = array_namespace(samples.X), contest.judge
    sizes = [len(fold.outside) for fold in contest.folds]
    fold = np.repeat(np.arange(len(sizes)), sizes)
    rows = [xp.asarray(one.source.outside.X) for one in contest.folds]
    return OutOfFold(xp.concat(rows, axis=0), contest.calibrated, judge.truth, judge.weights, fold)


def _unless_stopped(contest: Contest, ask: Callable[[bool], Found]) -> Found:
    """Ask for what takes time, and where that is over or the user stops it, for what does not."""
    try:
        return ask(contest.stopped or contest.run.is_over())
    except KeyboardInterrupt:
        contest.stopped = True
        return ask(True)
