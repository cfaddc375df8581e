r"""Descent for functions of two blocks :math:`L(B, \alpha)`, which are easy in α.

The algorithms of Huang et al., "Learning Multi-Index Models with Hyper-Kernel Ridge Regression",
for any such function.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from gpukfl.core._array import Array, array_namespace
from gpukfl.core._checks import check_number, check_steps
from gpukfl.core._results import History, Status

_FLAT = 2  # iterations in a row that must gain less than tol
Point = TypeVar("Point", Array, np.ndarray)


class TwoBlockFunction(Protocol):
    """A function of two blocks, and the constraint on the first."""

    def value(self, B: Array, alpha: Array, /) -> float:
        """Evaluate."""

    def gradient_B(self, B: Array, alpha: Array, /) -> Array:  # noqa: N802
        """Differentiate with respect to B."""

    def gradient_alpha(self, B: Array, alpha: Array, /) -> Array:
        """Differentiate with respect to α."""

    def minimize_alpha(self, B: Array, /) -> Array:
        """Minimise over α."""

    def project(self, B: Array, /) -> Array:
        """Project on the constraint."""


@dataclass(frozen=True, eq=False)
class TwoBlockDescent:
    """The end of a descent, with its status."""

    B: Array
    alpha: Array
    value: float
    status: Status
    history: History = field(default_factory=History)


@dataclass(frozen=True)
class ArmijoSearch:
    r"""Non-monotone Armijo backtracking.

    A search begins with the last step divided by :math:`\rho \delta`, at most `largest`, and
    multiplies it by ρ until the value falls by more than c times the step times the gradient's
    square.

    Parameters
    ----------
    contraction : float
        ρ, in (0, 1).
    dilatation : float
        δ, in (0, 1]; at 1 steps never grow.
    decay : float
        c, in (0, 1).
    largest : float
        Largest step.
    trials : int
        Steps tried at most; 60 take any float64 step to none.
    """

    contraction: float = 0.5
    dilatation: float = 0.8
    decay: float = 1e-4
    largest: float = math.inf
    trials: int = 60

    def step(
        self,
        x: Point,
        value: float,
        gradient: Point,
        last: float,
        evaluate: Callable[[Point], float],
        project: Callable[[Point], Point] = lambda x: x,
    ) -> tuple[Point, float, float] | None:
        """Take one step; return the new point, its value and the step, or None without a gain."""
        square = _inner(gradient, gradient)
        step = min(last / (self.contraction * self.dilatation), self.largest)
        for _ in range(self.trials):
            step *= self.contraction
            new = project(x - step * gradient)
            moved = x - new
            # On the constraint's edge the projected step is what the gradient can do
            needed = self.decay * min(step * square, _inner(moved, moved) / step)
            new_value = evaluate(new)
            if new_value - value < -needed:  # written so that NaN fails
                return new, new_value, step
        return None


@dataclass(frozen=True)
class _TwoBlockSolver(ABC):
    """A solver that alternates projected gradient steps in B and improvements of α.

    Parameters
    ----------
    max_iter : int
        Iterations, at least 0.
    tol : float
        Ends when the value falls by less than this share of itself, twice in a row.
    max_time : float or None
        Seconds.
    step_size : float or "auto"
        First step in each block; "auto" moves a block by a tenth of its norm.
    search : ArmijoSearch
        Line search.
    """

    max_iter: int = 1000
    tol: float = 1e-6
    max_time: float | None = None
    step_size: float | str = "auto"
    search: ArmijoSearch = field(default_factory=ArmijoSearch)

    def __post_init__(self) -> None:
        check_number("step_size", self.step_size, low=0, low_allowed=False, also=("auto",))
        check_steps(self)

    def _first_step(self, x: Array, gradient: Array) -> float:
        if not isinstance(self.step_size, str):
            return self.step_size
        slope = math.sqrt(_inner(gradient, gradient))
        return 0.1 * (math.sqrt(_inner(x, x)) or 1.0) / slope if slope > 0 else 1.0

    @abstractmethod
    def _improve_alpha(
        self, function: TwoBlockFunction, B: Array, alpha: Array, value: float, steps: dict
    ) -> tuple[Array, float]:
        """Return an α at `B` that is no worse, and its value; store step sizes in `steps`."""

    def minimize(
        self,
        function: TwoBlockFunction,
        B: Array,
        alpha: Array | None = None,
        /,
        *,
        watch: Callable[[int, Array, History], Status | None] = lambda *_: None,
    ) -> TwoBlockDescent:
        """Minimise from `B` and, without an `alpha`, the best α for it.

        Parameters
        ----------
        function : TwoBlockFunction
            What to minimise.
        B : array
            Starting point, allowed by the constraint.
        alpha : array, optional
            Starting point of the second block.
        watch : callable
            Called with B after every iteration; a status it returns ends the descent.

        Returns
        -------
        TwoBlockDescent
            The last point, which is the lowest. An interruption from the keyboard keeps it.

        Raises
        ------
        FloatingPointError
            If the function is not finite at the starting point.
        """
        begun, history = time.perf_counter(), History()
        alpha = function.minimize_alpha(B) if alpha is None else alpha
        state = B, alpha, function.value(B, alpha)
        if not math.isfinite(state[2]):
            msg = "the objective is not finite at the start: the data overflow this precision"
            raise FloatingPointError(msg)
        steps: dict[str, float] = {}
        status, flat = Status.MAX_ITER, 0
        try:
            for k in range(self.max_iter):
                before = state[2]
                new, slope = self._iterate(function, state, steps)
                if not new[2] < before:
                    status = Status.CONVERGED if slope == 0.0 else Status.STALLED
                    break
                state = new
                history.objective.append(state[2])
                history.step.append(steps["B"])
                history.residual.append(slope)
                history.seconds.append(time.perf_counter() - begun)
                asked = watch(k, state[0], history)
                flat = flat + 1 if before - state[2] <= self.tol * abs(before) else 0
                if asked is not None:
                    status = asked
                elif flat == _FLAT:
                    status = Status.CONVERGED
                elif self.max_time is not None and history.seconds[-1] >= self.max_time:
                    status = Status.TIME_LIMIT
                else:
                    continue
                break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return TwoBlockDescent(*state, status, history)

    def _iterate(
        self, function: TwoBlockFunction, state: tuple[Array, Array, float], steps: dict
    ) -> tuple[tuple[Array, Array, float], float]:
        """Return the next point, or the same without a gain, and the gradient's norm in B."""
        B, alpha, value = state
        gradient = function.gradient_B(B, alpha)
        slope = math.sqrt(_inner(gradient, gradient))
        if "B" not in steps:
            steps["B"] = self._first_step(B, gradient)
        taken = self.search.step(
            B, value, gradient, steps["B"], lambda V: function.value(V, alpha), function.project
        )
        if taken is not None:
            B, value, steps["B"] = taken
        alpha, value = self._improve_alpha(function, B, alpha, value, steps)
        return (B, alpha, value), slope


@dataclass(frozen=True)
class VariableProjection(_TwoBlockSolver):
    """VarPro (Algorithm 3): a projected gradient step in B, then the best α."""

    def _improve_alpha(
        self, function: TwoBlockFunction, B: Array, alpha: Array, value: float, steps: dict
    ) -> tuple[Array, float]:
        del steps  # none is taken
        best = function.minimize_alpha(B)
        lowest = function.value(B, best)
        # Rounding may make the solved α worse than the one it replaces
        return (best, lowest) if lowest <= value else (alpha, value)


@dataclass(frozen=True)
class AlternatingGradient(_TwoBlockSolver):
    """AGD (Algorithm 4): a projected gradient step in B, then `inner_steps` in α."""

    inner_steps: int = 5

    def _improve_alpha(
        self, function: TwoBlockFunction, B: Array, alpha: Array, value: float, steps: dict
    ) -> tuple[Array, float]:
        for _ in range(self.inner_steps):
            gradient = function.gradient_alpha(B, alpha)
            if "alpha" not in steps:
                steps["alpha"] = self._first_step(alpha, gradient)
            taken = self.search.step(
                alpha, value, gradient, steps["alpha"], lambda a: function.value(B, a)
            )
            if taken is None:
                break
            alpha, value, steps["alpha"] = taken
        return alpha, value


def _inner(U: Array, V: Array, /) -> float:
    """Return the Frobenius inner product in float64 as a float; waits for the device."""
    xp = array_namespace(U)
    return float(xp.sum(xp.astype(U, xp.float64) * xp.astype(V, xp.float64)))
