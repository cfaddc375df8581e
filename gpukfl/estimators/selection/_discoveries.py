"""Discoveries: variables that outweigh copies of themselves, in several draws of these."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpukfl._array import Array, array_namespace, to_host
from gpukfl._memory import available_memory
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._run import Run
from gpukfl.estimators.selection._problem import SelectionProblem
from gpukfl.estimators.selection._settings import Knockoffs
from gpukfl.knockoffs import Copies, contest, e_values, joined
from gpukfl.methods import competing_fits

_MOST_ROWS = 3_000  # where a number of centres is not given: as for the exact form
_MEMORY_SHARE = 0.5  # of what may be used
_BYTES = 48  # of an element of the columns: itself, sorted, its order, drawn and moved
_ROUNDS = 20
_NAMED = 5  # pairs of equal columns that a warning names


@dataclass(frozen=True, eq=False)
class Discoveries:
    """What knockoffs tell of the variables.

    Attributes
    ----------
    e_values : host array (p,)
        Means over the draws.
    level : float
        α, at which they are used.
    draws, copies : int
        Draws that were done, and κ.
    shrinkage : float
        Share of their distance from one for all pairs, as far as it may be noise, by which the
        correlations were moved that copies were drawn with.
    n_samples : int
        Rows that were used.
    status : Status or None
        How the draws ended, where it was before the last.
    """

    e_values: np.ndarray
    level: float
    draws: int
    copies: int
    shrinkage: float
    n_samples: int
    status: Status | None = None


def discover(
    problem: SelectionProblem,
    ridge: float,
    control: Knockoffs,
    run: Run,
    share: float,
    /,
) -> Discoveries | None:
    """Compare variables with copies of them; None where no draw was done.

    Parameters
    ----------
    problem : SelectionProblem
        Rows.
    ridge : float
        λ.
    control : Knockoffs
        Draws, copies and their sampler, and the level.
    run : Run
        Its time ends the draws, after the first; so does an interruption.
    share : float
        Of the time.
    """
    level, copies = control.level, control.n_copies
    found: list[np.ndarray] = []
    none = Discoveries(np.zeros(problem.p), level, 0, copies, 0.0, problem.n)
    if problem.constant:
        return none
    rng, status, sampled = _own(run), None, none
    try:
        some = _affordable(problem, copies, rng)
        sampler = control.drawn_by.of(some.X, copies)
        _say(sampler, some)
        sampled = replace(none, n_samples=some.n, shrinkage=float(sampler.correlation.shrinkage))
        for k in range(control.draws):
            if found and run.is_over(share):
                status = Status.TIME_LIMIT
                break
            run.note(f"knockoffs: draw {k + 1} of {control.draws}")
            W = _one_contest(some, sampler, ridge, rng)
            target = level if control.draws == 1 else 0.5 * level
            found.append(e_values(W, level=target, copies=copies))
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if not found:
        return None
    return replace(sampled, e_values=np.mean(found, axis=0), draws=len(found), status=status)


def _own(run: Run) -> np.random.RandomState:
    """Give draws of their own: data that were drawn from the same seed must not be their copies."""
    return np.random.RandomState(run.rng.randint(0, 2**32, size=8, dtype=np.uint32))


def _affordable(
    problem: SelectionProblem, copies: int, rng: np.random.RandomState
) -> SelectionProblem:
    """Give as many rows as there is memory for, with all copies."""
    fitting = int(
        _MEMORY_SHARE * available_memory(problem.X) // (_BYTES * (copies + 1) * problem.p)
    )
    if problem.settings.n_centers == "auto":
        fitting = min(fitting, _MOST_ROWS)
    count = max(fitting, 2)
    if count >= problem.n:
        return problem
    return problem.part(np.sort(rng.choice(problem.n, count, replace=False)))


def _one_contest(
    problem: SelectionProblem, sampler: Copies, ridge: float, rng: np.random.RandomState
) -> np.ndarray:
    """Give W of one draw of copies."""
    copies = sampler.draw(rng)
    columns = array_namespace(copies).concat([problem.X, copies], axis=1)
    rounds = _ROUNDS if problem.settings.hierarchical else 1
    objective = problem.objective(ridge, columns)
    fits, status = competing_fits(
        replace(problem.algorithm, max_rounds=rounds), objective, problem.p, rng=rng
    )
    if status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    # Of equal columns a fit may weigh the first alone, which is the variable
    untold = _has_equal_copy(problem.X, copies)
    untold[[column for pair in sampler.correlation.equal for column in pair]] = True
    return np.where(untold, 0.0, contest(joined(*fits)))


def _has_equal_copy(X: Array, copies: Array) -> np.ndarray:
    """Whether one of a variable's copies (n, κ p) has all its values (p,)."""
    xp, p = array_namespace(X), X.shape[1]
    each = [copies[:, k : k + p] for k in range(0, copies.shape[1], p)]
    return np.any([to_host(xp.all(one == X, axis=0)) for one in each], axis=0)


def _say(sampler: Copies, problem: SelectionProblem) -> None:
    """Warn of data that knockoffs can say little of."""
    correlation, n, p = sampler.correlation, problem.n, problem.p
    if n < p:
        msg = (
            f"{n} rows say little of the correlations of {p} columns: those of the knockoffs are "
            f"shrunk by {correlation.shrinkage:.0%}, and the bound on false variables holds as "
            "far as they are right"
        )
        warn(msg, UserWarning)
    if correlation.equal:
        pairs = ", ".join(f"{j} like {i}" for i, j in correlation.equal[:_NAMED])
        more = ", ..." if len(correlation.equal) > _NAMED else ""
        msg = (
            f"columns are equal but for their units ({pairs}{more}): knockoffs cannot tell which "
            "matters, and find neither"
        )
        warn(msg, UserWarning)
