"""Choice of the degree decay and the strength of RegFeaL by held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, ShuffleSplit

from gpukfl._array import Array, array_namespace, to_host
from gpukfl._results import Status
from gpukfl._rows import Rows
from gpukfl.estimators._data import Data, take
from gpukfl.methods import RegFeaL, RegFeaLFit

FEWEST = 20  # rows with which anything is held out
DECAYS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
STRENGTHS = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0)
START = (0.4, 0.1)
SCOUTS = (START, (0.4, 0.01), (0.2, 0.01), (0.1, 1.0))  # from the best of which the search climbs

_USUAL_DIMENSION = 40  # up to which the grid is as it stands
_ROWS = 5_000  # that settings are chosen on
_FEATURES = 5_000  # with which they are, at most: with fewer, other settings are best
_ITERATIONS = 4
_FOLDS, _FOLDS_BELOW = 5, 1_000  # rows below which one hold-out set is too small to choose by
_GAIN = 1e-3  # share of the variance that is worth another step


@dataclass
class RegFeaLSearch:
    """Goes from neighbour to neighbour on the grid of (ρ, μ), where the held-out score rises."""

    make: Callable[[np.ndarray], Data]  # problem of some rows
    data: Data
    X: Array
    Y: Array
    weights: np.ndarray | None
    settings: Any
    rng: np.random.RandomState
    method: Callable[[float, float], RegFeaL]
    late: Callable[[], bool]
    tell: Callable[..., None]
    trials: list[dict[str, Any]] = field(default_factory=list)

    def run(self) -> tuple[float, float]:
        """Give ρ and μ; Ctrl-C leaves the best so far in `trials`."""
        given = self.settings.degree_decay, self.settings.strength
        decays = None
        if given[0] == "auto" and self.settings.max_degree is None:
            decays = [self._unit * decay for decay in DECAYS]
        strengths = STRENGTHS if given[1] == "auto" else None
        start = (
            self._unit * START[0] if decays else self._fixed_decay(),
            START[1] if strengths else float(given[1]),
        )
        if (decays is None and strengths is None) or self.data.rows.shape[0] < FEWEST:
            return start
        if self.data.constant:
            return start
        self.problems = [(self.make(inside), outside) for inside, outside in self._folds()]
        scouts = [start]
        if decays and strengths:
            scouts = [(self._unit * decay, strength) for decay, strength in SCOUTS]
        score, best = max((self._evaluate(point), point) for point in scouts if not self._over())
        moving = True
        while moving and not self.late():
            moving = False
            for point in _neighbours(best, decays, strengths):
                if self.late() or any(trial["at"] == point for trial in self.trials):
                    continue
                new = self._evaluate(point)
                if new > score + _GAIN:
                    best, score, moving = point, new, True
                    break
        return best

    @property
    def _unit(self) -> float:
        """Share of the grid's decays that suits the dimension: the kernel grows as (1 - ρ)^-d."""
        return min(1.0, _USUAL_DIMENSION / self.data.rows.shape[1])

    def _over(self) -> bool:
        """Whether time is up after something was tried."""
        return bool(self.trials) and self.late()

    def _fixed_decay(self) -> float:
        decay = self.settings.degree_decay
        return self._unit * START[0] if decay == "auto" else float(decay)

    @property
    def best(self) -> tuple[float, float]:
        """Point with the best score so far."""
        return max(self.trials, key=lambda trial: trial["score"])["at"]

    def _folds(self) -> Any:
        n = self.data.rows.shape[0]
        rows = np.arange(n)
        if n > _ROWS:
            rows = np.sort(self.rng.choice(n, _ROWS, replace=False))
        splitter = (
            KFold(_FOLDS, shuffle=True, random_state=self.rng)
            if len(rows) < _FOLDS_BELOW
            else ShuffleSplit(1, test_size=self.settings.validation_fraction, random_state=self.rng)
        )
        for inside, outside in splitter.split(rows):
            yield rows[np.sort(inside)], rows[np.sort(outside)]

    def _evaluate(self, point: tuple[float, float]) -> float:
        """Share of the held-out variance that is explained."""
        method = self.method(*point).with_effort(
            min(self.settings.n_random_features, _FEATURES), min(self.settings.n_iter, _ITERATIONS)
        )
        errors = spread = 0.0
        for problem, outside in self.problems:
            w = problem.root_weights
            xp = array_namespace(problem.Y)
            weights = None if w is None else xp.astype(w * w, xp.float64)
            try:
                fit = method.run(problem.rows, problem.Y, weights, np.random.RandomState(0))
            except FloatingPointError:  # lower degrees may do
                self.trials.append({"at": point, "score": -math.inf})
                return -math.inf
            if fit.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            error, around = self._held_out(problem, fit, outside, method.clip)
            errors, spread = errors + error, spread + around
        score = 1.0 - errors / spread if spread > 0 else -errors
        score = score if math.isfinite(score) else -math.inf
        self.trials.append({"at": point, "score": score})
        self.tell(
            f"tune degree decay {point[0]:g}, strength {point[1]:g}",
            len(self.trials) - 1,
            fit.history,
        )
        return score

    def _held_out(
        self, problem: Data, fit: RegFeaLFit, outside: np.ndarray, clip: float | None
    ) -> tuple[float, float]:
        """Squared error on held-out rows, and that of their mean."""
        placed, Y = problem.scaled(take(self.X, outside), take(self.Y, outside))
        left = to_host(Y - fit.predict(Rows(placed, problem.reference), clip))
        truth = to_host(Y)
        w = np.ones((len(outside), 1))
        if self.weights is not None:
            w = self.weights[outside][:, None]
        around = truth - np.sum(w * truth, axis=0) / w.sum()
        return float(np.sum(w * left**2)), float(np.sum(w * around**2))


def _neighbours(at: tuple[float, float], decays: Any, strengths: Any) -> list[tuple[float, float]]:
    """Points one step away on the grid."""
    points = []
    if strengths:
        k = strengths.index(at[1])
        points += [(at[0], strengths[j]) for j in (k - 1, k + 1) if 0 <= j < len(strengths)]
    if decays:
        k = decays.index(at[0])
        points += [(decays[j], at[1]) for j in (k - 1, k + 1) if 0 <= j < len(decays)]
    return points
