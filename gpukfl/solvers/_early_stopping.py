"""Iterations that end where an error no longer falls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gpukfl.core._array import Array
from gpukfl.core._results import Status

Stop = Callable[[int, Array, Array], Status | None]  # of a step, its iterate and its residual


@dataclass(eq=False)
class EarlyStopping:
    """A rule that ends an iteration where an error no longer falls, and keeps the best iterate.

    What `ConjugateGradient.solve` takes as `stop`. The best iterate is there however the iteration
    ends, also where Ctrl-C ends it.

    Parameters
    ----------
    error : callable
        ``error(x, r)`` returns the error of an iterate with its residual. NaN says nothing: the
        iteration goes on, and without any other error its last iterate is the best.
    tol : float
        Share of the error at the last gain by which it must fall to be another gain.
    patience : int, optional
        Checks in a row without a gain that end the iteration; None never ends it.
    deadline : float, optional
        Moment of `time.perf_counter` from which the next check ends the iteration.

    Attributes
    ----------
    errors : list of float
        At each check, from that of the first guess on.
    best : tuple or None
        Step, iterate and residual of the lowest error so far; None before the first check.
    waited : int
        Checks since the last gain.

    Raises
    ------
    ValueError
        If `tol` is negative, or `patience` less than 1.

    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl.solvers import ConjugateGradient, EarlyStopping
    >>> A, b = np.diag([1.0, 2.0, 1e-9]), np.array([1.0, 2.0, 1.0])
    >>> rule = EarlyStopping(lambda x, r: abs(x[0] - 1.0), patience=2)
    >>> solver = ConjugateGradient(rtol=0.0, check_every=1)
    >>> solution = solver.solve(lambda v: A @ v, b, stop=rule)
    >>> solution.status.name, len(rule.errors) == solution.n_iter + 1
    ('EARLY_STOPPED', True)
    """

    error: Callable[[Array, Array], float]
    tol: float = 1e-3
    patience: int | None = 3
    deadline: float | None = None
    errors: list[float] = field(default_factory=list, init=False)
    best: tuple[int, Array, Array] | None = field(default=None, init=False)
    waited: int = field(default=0, init=False)
    _lowest: float = field(default=math.inf, init=False)
    _at_gain: float = field(default=math.inf, init=False)

    def __post_init__(self) -> None:
        if not self.tol >= 0.0:
            msg = f"expected tol of at least 0, got {self.tol}"
            raise ValueError(msg)
        if self.patience is not None and self.patience < 1:
            msg = f"expected patience of at least 1, or None, got {self.patience}"
            raise ValueError(msg)

    def __call__(self, k: int, x: Array, r: Array, /) -> Status | None:
        """Return why the iteration ends at step `k`, or None where it goes on."""
        error = float(self.error(x, r))
        self.errors.append(error)
        if error < self._lowest or math.isinf(self._lowest):
            self.best = k, x, r
        self._lowest = min(self._lowest, error)  # which NaN is not
        if error < (1.0 - self.tol) * self._at_gain:
            self._at_gain, self.waited = error, 0
        elif not math.isnan(error):
            self.waited += 1
        if self.patience is not None and self.waited >= self.patience:
            return Status.EARLY_STOPPED
        late = self.deadline is not None and time.perf_counter() >= self.deadline
        return Status.TIME_LIMIT if late else None
