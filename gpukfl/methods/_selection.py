r"""Kernel feature selection: Algorithms 1' and 2', the path over γ, and thresholds by permutation.

Ruan, Liu and Jordan, "Taming Nonconvexity in Kernel Feature Selection: Favorable Properties of the
Laplace Kernel", Section 5. A variable is selected where :math:`\beta_l > 0` at the end of projected
gradients on :math:`J(\beta) + \gamma \|\beta\|_1` over
:math:`\{\beta \ge 0, \|\beta\|_1 \le M\}` that begin at β = 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpukfl.core._results import History, Status
from gpukfl.methods._selection_objective import Point, SelectionObjective
from gpukfl.solvers import ProjectedGradient, project_on_capped_orthant

_STAGES = 20  # times that the working set may grow
_NOTHING = 1e-10  # of the largest weight: what rounding may leave of one that is 0
_TOGETHER = 32  # random orders whose scores are read together
_EPSILON = 2.0**-52  # of float64
_VIOLATION = 1e-3  # of the largest slope at 0: smaller ones let no variable in


@dataclass(frozen=True, eq=False)
class Round:
    r"""One run of Algorithm 1' given the variables found before it.

    Attributes
    ----------
    sparsity : float
        γ.
    scores : host array (p,)
        :math:`-\partial_l J` where the round began, 0 for variables found before. Some must exceed
        γ for a variable to enter; as these take weight, scores of others may fall below it.
    beta : host array (p,)
        Weights at its end, those found before included.
    entered : host array of indices
        Variables that it found.
    """

    sparsity: float
    scores: np.ndarray
    beta: np.ndarray
    entered: np.ndarray


@dataclass(frozen=True, eq=False)
class Selection:
    """A selection with its history and status."""

    beta: np.ndarray  # (p,), 0 for variables that are not selected
    status: Status
    rounds: list[Round] = field(default_factory=list)
    history: History = field(default_factory=History)

    @property
    def support(self) -> np.ndarray:
        """Whether each variable is selected (p,)."""
        return self.beta > 0


@dataclass(frozen=True)
class FeatureSelection:
    """Settings of both algorithms.

    Parameters
    ----------
    radius : float
        M, positive.
    anchor : float
        τ, positive: weight of variables that earlier rounds found.
    solver : ProjectedGradient
        Descent within a working set.
    max_rounds : int
        Rounds of Algorithm 2' at most.
    max_time : float or None
        Seconds.
    """

    radius: float = 10.0
    anchor: float = 1.0
    solver: ProjectedGradient = field(default_factory=ProjectedGradient)
    max_rounds: int = 20
    max_time: float | None = None

    def select(
        self,
        objective: SelectionObjective,
        sparsity: float,
        /,
        start: np.ndarray | None = None,
        held: np.ndarray | None = None,
        watch: Callable[[int, History], None] = lambda *_: None,
    ) -> Selection:
        """Run Algorithm 1': descend from `start`, by default 0, with `held` variables fixed.

        Parameters
        ----------
        objective : SelectionObjective
            J.
        sparsity : float
            γ, at least 0.
        start : host array (p,), optional
            Weights to begin from.
        held : host array of bool (p,), optional
            Variables that keep the weight they have in `start`.
        watch : callable
            Called after every step with its number and the history.

        Returns
        -------
        Selection
            With one round. An interruption from the keyboard keeps the best weights.

        Notes
        -----
        Only variables with weight, or whose derivative says that weight helps, take part in the
        steps; the derivatives of all are looked at whenever those have converged. Budget on a GPU,
        an iteration: 210 launches, 8 waits, 26 uploads of 15 kB, 126 MB read and written, for 400
        samples and seven evaluations.
        """
        begun = time.perf_counter()
        p = objective.n_variables
        beta = np.zeros(p) if start is None else start.copy()
        free = np.ones(p, dtype=bool) if held is None else ~held
        history, status = History(), Status.CONVERGED
        beta[free] = project_on_capped_orthant(beta[free], self.radius)
        candidates, scores = np.flatnonzero(free), np.zeros(p)
        try:
            for stage in range(_STAGES):
                point = objective.evaluate(beta)
                slopes = objective.gradient(point, candidates)
                if stage == 0:
                    scores[candidates] = -slopes
                unseen = _EPSILON * point.value / self.radius
                gains = slopes + sparsity
                entering = self._entering(beta[candidates], gains, scores, sparsity, unseen)
                working = candidates[entering | (beta[candidates] > 0)]
                if not len(working) or (stage > 0 and not entering.any()):
                    break
                objective.focus(self._reference(beta, working))
                before = beta
                beta, status = self._descend(
                    objective, beta, working, sparsity, history, begun, watch
                )
                stuck = np.array_equal(beta, before)
                if stuck or status not in (Status.CONVERGED, Status.STALLED):
                    break
            else:
                status = Status.MAX_ITER
        except KeyboardInterrupt:  # between the descents
            status = Status.INTERRUPTED
        entered = np.flatnonzero(free & (beta > 0))
        return Selection(beta, status, [Round(sparsity, scores, beta, entered)], history)

    def _entering(
        self,
        beta: np.ndarray,
        slopes: np.ndarray,
        scores: np.ndarray,
        sparsity: float,
        unseen: float,
    ) -> np.ndarray:
        """Return which variables would gain by a positive weight.

        Slopes below `unseen` change J by less than its rounding, whatever the weight.
        """
        smallest = max(_VIOLATION * (float(scores.max(initial=0.0)) - sparsity), unseen)
        if beta.sum() >= self.radius * (1 - 1e-9):  # weight must be taken from others
            smallest -= min(float(slopes[beta > 0].min(initial=0.0)), 0.0)
        return (beta <= 0) & (slopes < -smallest)

    def _reference(self, beta: np.ndarray, working: np.ndarray) -> np.ndarray:
        """Return weights near which the next steps are expected."""
        reference = beta.copy()
        reference[working] = np.maximum(beta[working], self.anchor / max(len(working), 1))
        return reference

    def _descend(
        self,
        objective: SelectionObjective,
        beta: np.ndarray,
        working: np.ndarray,
        sparsity: float,
        history: History,
        begun: float,
        watch: Callable[[int, History], None],
    ) -> tuple[np.ndarray, Status]:
        """Projected gradients on the `working` variables; the others stay."""

        def full(b: np.ndarray) -> np.ndarray:
            at = beta.copy()
            at[working] = b
            return at

        def value(b: np.ndarray) -> float:
            return objective.evaluate(full(b), working).value + sparsity * float(b.sum())

        def gradient(b: np.ndarray) -> np.ndarray:
            return objective.gradient(objective.evaluate(full(b)), working) + sparsity

        found = replace(self.solver, max_time=self._remaining_seconds(begun)).minimize(
            value,
            gradient,
            lambda b: project_on_capped_orthant(b, self.radius),
            beta[working],
            watch=_append_history(history, begun, watch),
        )
        kept = found.x > _NOTHING * found.x.max(initial=0.0)
        return full(np.where(kept, found.x, 0.0)), found.status

    def select_in_rounds(
        self,
        objective: SelectionObjective,
        threshold: Callable[[Point, np.ndarray], float],
        /,
        watch: Callable[[int, History], None] = lambda *_: None,
    ) -> Selection:
        """Run Algorithm 2': rounds of `select` with found variables at τ, until none is found.

        Parameters
        ----------
        objective : SelectionObjective
            J.
        threshold : callable
            Gives γ for the point where a round begins and the variables that it may find.
        watch : callable
            Called after every step with its number and the history.

        Returns
        -------
        Selection
            With every round, the last of which found nothing; selected variables have weight τ.
        """
        begun = time.perf_counter()
        p = objective.n_variables
        held = np.zeros(p, dtype=bool)
        rounds: list[Round] = []
        history, status = History(), Status.MAX_ITER
        try:
            for _ in range(self.max_rounds):
                start = np.where(held, self.anchor, 0.0)
                if held.all():
                    status = Status.CONVERGED
                    break
                if held.any():
                    objective.focus(start)
                gamma = threshold(objective.evaluate(start), np.flatnonzero(~held))
                found = replace(self, max_time=self._remaining_seconds(begun)).select(
                    objective, gamma, start, held, _append_history(history, begun, watch)
                )
                rounds += found.rounds
                if not len(found.rounds[0].entered):
                    status = found.status
                    break
                held[found.rounds[0].entered] = True
                if found.status not in (Status.CONVERGED, Status.STALLED, Status.MAX_ITER):
                    status = found.status
                    break
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
        return Selection(np.where(held, self.anchor, 0.0), status, rounds, history)

    def _remaining_seconds(self, begun: float) -> float | None:
        if self.max_time is None:
            return None
        return max(self.max_time - (time.perf_counter() - begun), 0.0)

    def path(
        self, objective: SelectionObjective, sparsities: Sequence[float], /
    ) -> list[Selection]:
        """Run Algorithm 1' for descending γ, each starting from the previous result."""
        begun = time.perf_counter()
        selections: list[Selection] = []
        for gamma in sorted(sparsities, reverse=True):
            start = selections[-1].beta if selections else None
            algorithm = replace(self, max_time=self._remaining_seconds(begun))
            selections.append(algorithm.select(objective, gamma, start))
            if selections[-1].status in (Status.INTERRUPTED, Status.TIME_LIMIT):
                break
        return selections


def _append_history(
    history: History, begun: float, watch: Callable[[int, History], None]
) -> Callable[[int, History], None]:
    """Return a callback that appends the steps of a round to one history."""

    def note(_: int, latest: History) -> None:
        history.append(latest.objective[-1], latest.step[-1], latest.residual[-1], begun)
        watch(len(history) - 1, history)

    return note


def largest_sparsity(objective: SelectionObjective, /) -> float:
    r"""Smallest γ at which nothing is selected: :math:`\max_l -\partial_l J(0)`."""
    slopes = objective.gradient(objective.evaluate(np.zeros(objective.n_variables)))
    return max(float(-slopes.min()), 0.0)


def permutation_threshold(
    objective: SelectionObjective,
    point: Point,
    columns: np.ndarray,
    /,
    *,
    n_permutations: int,
    repeats: int = 1,
    rng: np.random.RandomState,
) -> float:
    r"""Return the largest score of any of the `columns` over permutations of the samples.

    The largest of few varies much from draw to draw. With `repeats` k above 1 the k-th largest of
    k (`n_permutations` + 1) - 1 is taken, which is exceeded as seldom and varies less.

    The residuals and the kernel of the variables found so far are permuted together against all
    other variables at once, which keeps the dependence among these. Where all of them are
    independent of the rest, some score exceeds this threshold with probability at most
    1 / (`n_permutations` + 1).

    Parameters
    ----------
    objective : SelectionObjective
        J.
    point : Point
        Where the scores :math:`-\partial_l J` are taken.
    columns : host array of indices
        Variables that may be selected.
    n_permutations : int
        Permutations, for one repeat.
    repeats : int
        k, at least 1.
    rng : RandomState
        Draws them on the host.

    Returns
    -------
    float
        The threshold, at least 0: a γ.
    """
    n, count = objective.X.shape[0], repeats * (n_permutations + 1) - 1
    scores = [0.0] * repeats
    for start in range(0, count, _TOGETHER):
        orders = (rng.permutation(n) for _ in range(start, min(start + _TOGETHER, count)))
        slopes = objective.gradients(point, columns, orders)
        scores += (-slopes.min(axis=1, initial=0.0)).tolist()
    return sorted(scores)[-repeats]
