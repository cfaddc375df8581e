"""Limited-memory BFGS on the host, for functions computed anywhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize

from gpukfl.core._array import Array, asarray_like, to_host
from gpukfl.core._checks import check_steps
from gpukfl.core._results import History, Status


@dataclass(frozen=True, eq=False)
class Descent:
    """The end of a descent, with its status."""

    x: Array
    value: float
    status: Status
    history: History = field(default_factory=History)


class _Stop(Exception):  # noqa: N818
    """An exception that leaves SciPy's loop."""

    def __init__(self, status: Status) -> None:
        self.status = status


@dataclass(frozen=True)
class LBFGS:
    """Minimise a smooth function of a small array by SciPy's L-BFGS-B.

    Parameters
    ----------
    max_iter : int
        Iterations, at least 0.
    tol : float
        Ends when the value falls by less than this share of itself.
    max_time : float or None
        Seconds.
    """

    max_iter: int = 100
    tol: float = 1e-5
    max_time: float | None = None

    def __post_init__(self) -> None:
        check_steps(self)

    def minimize(
        self,
        function: Callable[[Array], tuple[float, Array]],
        x: Array,
        /,
        *,
        watch: Callable[[int, Array, History], Status | None] = lambda *_: None,
    ) -> Descent:
        """Minimise from `x`.

        Parameters
        ----------
        function : callable
            Value and gradient, an array like `x`.
        x : array
            Starting point, of any shape.
        watch : callable
            Called after every iteration; a status it returns ends the descent.

        Returns
        -------
        Descent
            The lowest point met. An interruption from the keyboard keeps it.

        Raises
        ------
        FloatingPointError
            If the function is not finite at the starting point.
        """
        run = _Run(self, function, x, watch)
        if not math.isfinite(run(to_host(x).ravel().astype(np.float64))[0]):
            msg = "the objective is not finite at the start: the data overflow this precision"
            raise FloatingPointError(msg)
        status = Status.MAX_ITER
        if self.max_iter > 0:
            status = run.scipy()
        return Descent(run.array(run.best), run.lowest, status, run.history)


class _Run:
    """The state of one descent: the lowest point so far, and the history."""

    def __init__(self, solver: LBFGS, function: Callable, x: Array, watch: Callable) -> None:
        self.solver, self.function, self.start, self.watch = solver, function, x, watch
        self.begun, self.history = time.perf_counter(), History()
        self.best = self.last = to_host(x).ravel().astype(np.float64)
        self.lowest, self.slope = math.inf, 0.0
        self.known: tuple[np.ndarray, tuple[float, np.ndarray]] | None = None

    def array(self, flat: np.ndarray) -> Array:
        return asarray_like(flat.reshape(tuple(self.start.shape)), self.start)

    def __call__(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        if self.known is None or not np.array_equal(self.known[0], flat):
            self.known = flat.copy(), self.evaluate(flat)  # SciPy begins where it was checked
        return self.known[1]

    def evaluate(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.function(self.array(flat))
        gradient = to_host(gradient).ravel().astype(np.float64)
        if not (math.isfinite(value) and np.all(np.isfinite(gradient))):
            return math.inf, np.zeros_like(flat)  # the line search turns back
        if value < self.lowest:
            self.best, self.lowest = flat.copy(), value
            self.slope = float(np.linalg.norm(gradient))
        return value, gradient

    def record_iteration(self, flat: np.ndarray) -> None:
        before = self.history.objective[-1] if self.history.objective else None
        moved = float(np.linalg.norm(flat - self.last))
        self.last = flat.copy()
        self.history.objective.append(self.lowest)
        self.history.step.append(moved)
        self.history.residual.append(self.slope)
        self.history.seconds.append(time.perf_counter() - self.begun)
        asked = self.watch(len(self.history) - 1, self.array(self.best), self.history)
        if asked is not None:
            raise _Stop(asked)
        limit = self.solver.max_time
        if limit is not None and self.history.seconds[-1] >= limit:
            raise _Stop(Status.TIME_LIMIT)
        if before is not None and before - self.lowest <= self.solver.tol * abs(before):
            raise _Stop(Status.CONVERGED)

    def scipy(self) -> Status:
        try:
            found = minimize(
                self,
                self.best,
                jac=True,
                method="L-BFGS-B",
                callback=self.record_iteration,
                options={"maxiter": self.solver.max_iter, "ftol": 0.0, "gtol": 0.0, "maxcor": 20},
            )
        except _Stop as stop:
            return stop.status
        except KeyboardInterrupt:
            return Status.INTERRUPTED
        if found.nit >= self.solver.max_iter:
            return Status.MAX_ITER
        return Status.CONVERGED if self.slope == 0.0 else Status.STALLED
