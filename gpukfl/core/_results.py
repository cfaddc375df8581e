"""Results of solvers: status, solution and history."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from gpukfl.core._annotations import AnyValue, Length
from gpukfl.core._array import Array, array_namespace, sample_norm


class Status(Enum):
    """Why a solver stopped; the value is the sentence shown to the user."""

    CONVERGED = "the tolerance was reached"
    DECIDED = "stopped by the caller"
    EARLY_STOPPED = "the validation score stopped improving"
    MAX_ITER = "max_iter was reached first: raise max_iter or tol"
    TIME_LIMIT = "max_time was reached first: the best iterate so far is kept"
    INTERRUPTED = "interrupted: the best iterate so far is kept"
    STALLED = "this precision allows no further progress"
    COLLAPSED = "W = 0 minimises the objective along the search: the ridge is too large to learn"
    BREAKDOWN = "the matrix is not positive definite in this precision, or not finite"


STATUS_NAMES = tuple(status.name for status in Status)


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of a linear system, and the status of its solver."""

    x: Array  # like the right-hand side
    status: Status
    n_iter: int
    residual: Array  # b - A x, like the right-hand side
    size: Array | None = None  # norms of the right-hand sides, (t,) or (), if known

    @property
    def relative_residual(self) -> float:
        """Largest residual norm among the right-hand sides, relative to its own right-hand side."""
        norms = sample_norm(self.residual)
        xp = array_namespace(norms)
        if self.size is not None:
            norms = norms / xp.where(self.size > 0, self.size, xp.ones_like(self.size))
        return float(xp.max(norms))


Steps = Annotated[list[float], AnyValue(), Length("n_steps")]  # a number for each step


@dataclass
class History:
    """One entry per iteration of a fit; every list has the same length."""

    objective: Steps = field(default_factory=list)
    step: Steps = field(default_factory=list)
    residual: Steps = field(default_factory=list)  # of the inner linear solve, relative
    seconds: Steps = field(default_factory=list)  # since the fit began
    # Empty without early stopping
    validation_score: Annotated[list[float], AnyValue()] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.objective)

    def append(self, objective: float, step: float, residual: float, begun: float, /) -> None:
        """Add an iteration; `begun` is the `time.perf_counter` of the fit's start."""
        self.objective.append(objective)
        self.step.append(step)
        self.residual.append(residual)
        self.seconds.append(time.perf_counter() - begun)
