"""Spectral projected gradients: smooth functions of few host variables on a simple convex set."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from gpukfl.core._checks import check_number, check_steps
from gpukfl.core._results import History, Status
from gpukfl.solvers._two_block import ArmijoSearch

_SHORTEST, _LONGEST = 1e-12, 1e12  # steps, relative to the last
_TRIALS = 20  # the first step of a search is about right; functions here are costly
_FLAT = 2  # iterations in a row that must gain less than tol


@dataclass(frozen=True, eq=False)
class ProjectedDescent:
    """The end of a descent, with its status."""

    x: np.ndarray
    value: float
    status: Status
    history: History = field(default_factory=History)


def project_on_capped_orthant(x: np.ndarray, radius: float, /) -> np.ndarray:
    r"""Project on :math:`\{\beta \ge 0, \|\beta\|_1 \le M\}` exactly, by sorting.

    Parameters
    ----------
    x : host array (p,)
        Any point.
    radius : float
        M, positive.

    Returns
    -------
    host array (p,)
        The projection; O(p log p).
    """
    positive = np.maximum(x, 0.0)
    if positive.sum() <= radius:
        return positive
    lowered = positive - positive.max()  # a radius would be lost beside large numbers
    descending = np.sort(lowered)[::-1]
    excess = np.cumsum(descending) - radius
    counts = np.arange(1, len(x) + 1)
    last = np.flatnonzero(descending * counts > excess)[-1]
    return np.maximum(lowered - excess[last] / counts[last], 0.0)


@dataclass(frozen=True)
class ProjectedGradient:
    """Projected gradient steps of Barzilai and Borwein's length, with Armijo backtracking.

    Parameters
    ----------
    max_iter : int
        Iterations, at least 0.
    tol : float
        Ends when the value falls by less than this share of itself, twice in a row, or when the
        next projected step is shorter than this share of the point, by their largest coordinates.
    max_time : float or None
        Seconds.
    first_move : float
        Length, in the largest coordinate, of the first step that is tried.

    References
    ----------
    .. [1] Birgin, Martinez and Raydan, "Nonmonotone spectral projected gradient methods on convex
       sets", SIAM J. Optim., 2000; here every step must gain.
    """

    max_iter: int = 100
    tol: float = 1e-4
    max_time: float | None = None
    first_move: float = 0.1
    search: ArmijoSearch = field(default_factory=lambda: ArmijoSearch(trials=_TRIALS))

    def __post_init__(self) -> None:
        check_number("first_move", self.first_move, low=0, low_allowed=False)
        check_steps(self)

    def minimize(
        self,
        value: Callable[[np.ndarray], float],
        gradient: Callable[[np.ndarray], np.ndarray],
        project: Callable[[np.ndarray], np.ndarray],
        x: np.ndarray,
        /,
        *,
        watch: Callable[[int, History], None] = lambda *_: None,
    ) -> ProjectedDescent:
        """Minimise from `x`.

        Parameters
        ----------
        value, gradient : callable
            The function and its derivative at a host array (p,).
        project : callable
            Nearest point that is allowed.
        x : host array (p,)
            Starting point, allowed.
        watch : callable
            Called after every iteration.

        Returns
        -------
        ProjectedDescent
            The last point, which is the lowest. An interruption from the keyboard keeps it.

        Raises
        ------
        FloatingPointError
            If the function is not finite at the starting point.
        """
        begun, history = time.perf_counter(), History()
        lowest = value(x)
        status, flat, step = Status.MAX_ITER, 0, 0.0
        try:
            g = gradient(x)
            if not (math.isfinite(lowest) and np.isfinite(g).all()):
                msg = "the objective is not finite at the start: the data overflow this precision"
                raise FloatingPointError(msg)
            for k in range(self.max_iter):
                if k == 0:
                    step = self.first_move / (float(np.abs(g).max(initial=0.0)) or 1.0)
                stay = float(np.abs(project(x - step * g) - x).max(initial=0.0))
                if stay <= self.tol * min(float(np.abs(x).max(initial=0.0)), 1.0):
                    status = Status.CONVERGED
                    break
                taken = self.search.step(x, lowest, g, self._begin(step), value, project)
                if taken is None:
                    status = Status.STALLED
                    break
                new, new_value, used = taken
                new_g = gradient(new)
                step = _spectral_step(new - x, new_g - g, used)
                gained, x, g, lowest = lowest - new_value, new, new_g, new_value
                history.objective.append(lowest)
                history.step.append(used)
                history.residual.append(stay)
                history.seconds.append(time.perf_counter() - begun)
                watch(k, history)
                flat = flat + 1 if gained <= self.tol * abs(lowest) else 0
                if flat == _FLAT:
                    status = Status.CONVERGED
                    break
                if self.max_time is not None and history.seconds[-1] >= self.max_time:
                    status = Status.TIME_LIMIT
                    break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return ProjectedDescent(x, lowest, status, history)

    def _begin(self, step: float) -> float:
        # The search divides the last step by these before its first trial, and then contracts it
        return step * self.search.dilatation


def _spectral_step(s: np.ndarray, y: np.ndarray, used: float, /) -> float:
    """Return the Barzilai-Borwein step of a move `s` that changed the gradient by `y`."""
    curvature = float(s @ y)
    step = float(s @ s) / curvature if curvature > 0 else 2.0 * used
    return min(max(step, _SHORTEST * used), _LONGEST * used)
