"""Which variables a selection keeps: by stability, by knockoffs, or all."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpukfl.core._array import Array, array_namespace, lies_in_parts, to_host
from gpukfl.core._memory import available_memory
from gpukfl.core._random import draw_indices
from gpukfl.core._results import Status
from gpukfl.core._warnings import warn
from gpukfl.estimators._run import Run
from gpukfl.estimators.selection._data import Predictor, SelectionProblem
from gpukfl.estimators.selection._settings import (
    DEFAULT_RIDGE,
    Knockoffs,
    SelectionSettings,
    Stability,
)
from gpukfl.knockoffs import (
    Copies,
    combine_weights,
    contest,
    e_values,
    select_by_e_values,
    smallest_level,
)
from gpukfl.methods import Selection, competing_fits

# ----------------------------------------------------------------------------- discoveries

# Discoveries: variables that outweigh copies of themselves, in several draws of these.


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


def run_knockoffs(
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
    rng, status, sampled = _independent_rng(run), None, none
    try:
        some = _limit_to_memory(problem, copies, rng)
        sampler = control.drawn_by.of(some.X, copies)
        _warn_weak_knockoffs(sampler, some)
        sampled = replace(none, n_samples=some.n, shrinkage=float(sampler.correlation.shrinkage))
        for k in range(control.draws):
            if found and run.is_over(share):
                status = Status.TIME_LIMIT
                break
            run.note(f"knockoffs: draw {k + 1} of {control.draws}")
            W = _run_contest(some, sampler, ridge, rng)
            target = level if control.draws == 1 else 0.5 * level
            found.append(e_values(W, level=target, copies=copies))
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    if not found:
        return None
    return replace(sampled, e_values=np.mean(found, axis=0), draws=len(found), status=status)


def _independent_rng(run: Run) -> np.random.RandomState:
    """Return a generator of its own: data drawn from the same seed must not be their copies."""
    return np.random.RandomState(run.rng.randint(0, 2**32, size=8, dtype=np.uint32))


def _limit_to_memory(
    problem: SelectionProblem, copies: int, rng: np.random.RandomState
) -> SelectionProblem:
    """Return as many rows as there is memory for, with all copies."""
    fitting = int(
        _MEMORY_SHARE * available_memory(problem.X) // (_BYTES * (copies + 1) * problem.p)
    )
    if problem.settings.n_centers == "auto":
        fitting = min(fitting, _MOST_ROWS)
    count = max(fitting, 2)
    if count >= problem.n:
        return problem
    return problem.part(np.sort(rng.choice(problem.n, count, replace=False)))


def _run_contest(
    problem: SelectionProblem, sampler: Copies, ridge: float, rng: np.random.RandomState
) -> np.ndarray:
    """Return W of one draw of copies."""
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
    return np.where(untold, 0.0, contest(combine_weights(*fits)))


def _has_equal_copy(X: Array, copies: Array) -> np.ndarray:
    """Whether one of a variable's copies (n, κ p) has all its values (p,)."""
    xp, p = array_namespace(X), X.shape[1]
    each = [copies[:, k : k + p] for k in range(0, copies.shape[1], p)]
    return np.any([to_host(xp.all(one == X, axis=0)) for one in each], axis=0)


def _warn_weak_knockoffs(sampler: Copies, problem: SelectionProblem) -> None:
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


# ------------------------------------------------------------------------------- stability

# Stability selection: how often a variable is selected on halves of the samples.


def selection_frequencies(
    select: Callable[[np.ndarray], np.ndarray],
    n: int,
    n_subsamples: int,
    rng: np.random.RandomState,
    late: Callable[[], bool] = lambda: False,
    /,
) -> tuple[np.ndarray, float, bool]:
    """Select on halves of the samples that come in complementary pairs.

    Parameters
    ----------
    select : callable
        Gives the variables (p,) of bool that are selected on the samples of some indices.
    n : int
        Samples, at least 4.
    n_subsamples : int
        Halves; an odd number is one half of a last pair.
    rng : RandomState
        Draws them on the host.
    late : callable, optional
        Asked after every pair whether to end there.

    Returns
    -------
    tuple of a host array, a float and a bool
        Share of the halves on which each variable was selected (p,), the mean number q of
        variables selected on a half, and whether there were as many halves as asked for.

    References
    ----------
    .. [1] Meinshausen and Bühlmann, "Stability selection", JRSS B, 2010.
    .. [2] Shah and Samworth, "Variable selection with error control", JRSS B, 2013, for the pairs.
    """
    found = []
    order = np.arange(n)
    for k in range(n_subsamples):
        if k % 2 == 0:
            order = rng.permutation(n)
        half = order[: n // 2] if k % 2 == 0 else order[n // 2 : 2 * (n // 2)]
        found.append(select(np.sort(half)))
        if k % 2 and late():
            break
    counts = np.asarray(found, dtype=np.float64)
    return counts.mean(axis=0), float(counts.sum(axis=1).mean()), len(found) == n_subsamples


def stability_threshold(mean_selected: float, p: int, max_false: float, /) -> float:
    r"""Frequency π above which at most `max_false` false variables are expected.

    From the bound :math:`E[V] \le q^2 / ((2\pi - 1) p)` (Meinshausen and Bühlmann, Theorem 1), at
    least just above one half. More than 1 means that so few cannot be promised.

    Parameters
    ----------
    mean_selected : float
        q, mean number of variables selected on a half.
    p : int
        Variables.
    max_false : float
        Bound on the expected number of falsely selected variables, positive.
    """
    return max(0.5 * (1.0 + mean_selected**2 / (p * max_false)), math.nextafter(0.5, 1.0))


# --------------------------------------------------------------------------------- control

# What is kept of a selection: by stability, by knockoffs, or all.


_MOST_JUDGED_ROWS = 100_000  # that variables are selected on, unless a number of centres is given
_MOST_BROUGHT = 10_000  # the same of rows in parts, which come to one place
SELECT_SHARE = 0.7  # of max_time after which the selection has ended
QUIET = (Status.CONVERGED, Status.STALLED)  # no further progress is where a fit may well end


@dataclass(frozen=True)
class SelectionSetting:
    """A pair of λ and γ; γ is "auto" where permutations give it."""

    ridge: float
    sparsity: float | str
    number: int = 1  # on the path of this λ


@dataclass(frozen=True, eq=False)
class SelectionFitted:
    """What is kept of a fit: the selection, the last fit, what bounds its errors, the path."""

    selection: Selection
    last: Predictor | None
    frequencies: np.ndarray | None = None  # (p,)
    threshold: float | None = None
    path: dict[str, np.ndarray] | None = None
    discoveries: Discoveries | None = None
    missed: float | None = None  # R² of all variables together, where none was selected


def max_selection_rows(problem: SelectionProblem, /) -> int:
    """Return how many rows variables are selected on, at most."""
    return _MOST_JUDGED_ROWS if problem.rows.partitioning is None else _MOST_BROUGHT


def mark_interrupted(selection: Selection, /) -> Selection:
    """Return the selection, marked as interrupted."""
    return replace(selection, status=Status.INTERRUPTED)


def check_knockoffs(settings: SelectionSettings, X: Array, /) -> None:
    """Raise ValueError where knockoffs of X (n, p) cannot be drawn, or find nothing."""
    control, p = settings.error_control, X.shape[1]
    if not isinstance(control, Knockoffs):
        return
    if lies_in_parts(X):
        msg = (
            f"expected all rows in one place for knockoffs, got {X.shape[0]} in parts: fit to "
            "a sample of them in memory, or use error_control=Stability(...)"
        )
        raise ValueError(msg)
    level, copies = control.level, control.n_copies
    smallest = smallest_level(p, copies)
    if level < smallest * (1.0 - 1e-9):
        msg = (
            f"expected a level of at least {smallest:.3g} for {p} variables with {copies} copies "
            f"each, got {level:g}: below, nothing can be found; more copies allow lower ones"
        )
        raise ValueError(msg)


def control_errors(
    problem: SelectionProblem, setting: SelectionSetting, selection: Selection, run: Run, /
) -> SelectionFitted:
    """Keep of a selection what the settings ask for."""
    control = problem.settings.error_control
    if isinstance(control, Knockoffs):
        return _select_by_knockoffs(problem, selection, control, run)
    if control is None or problem.constant:
        return SelectionFitted(selection, None)
    if selection.status not in QUIET:
        return _select_without_bound(selection)
    return _select_by_stability(problem, setting, selection, control, run)


def _select_by_knockoffs(
    problem: SelectionProblem,
    selection: Selection,
    control: Knockoffs,
    run: Run,
) -> SelectionFitted:
    """Keep the variables that beat their copies."""
    found = None
    if problem.constant or selection.status in QUIET:
        # A λ that these data chose could tell variables from their copies
        ridge = problem.settings.ridge or DEFAULT_RIDGE
        found = run_knockoffs(problem, ridge, control, run, SELECT_SHARE)
    if found is None:
        msg = (
            "the fit ended before knockoffs were compared: the share of false variables among "
            "those selected has no bound"
        )
        warn(msg, UserWarning)
        return SelectionFitted(
            selection if selection.status not in QUIET else mark_interrupted(selection), None
        )
    kept = _keep_variables(selection, select_by_e_values(found.e_values, control.level))
    kept = kept if found.status is None else replace(kept, status=found.status)
    return SelectionFitted(kept, None, discoveries=found)


def _keep_variables(selection: Selection, kept: np.ndarray) -> Selection:
    """Assign weights to the variables that are kept, a typical one to those that had none."""
    weights = selection.beta[selection.support]
    typical = float(weights.mean()) if len(weights) else 1.0
    beta = np.where(selection.support, selection.beta, typical)
    return replace(selection, beta=np.where(kept, beta, 0.0))


def _select_by_stability(
    problem: SelectionProblem,
    setting: SelectionSetting,
    selection: Selection,
    control: Stability,
    run: Run,
) -> SelectionFitted:
    """Keep the variables that are selected on enough halves of the samples."""
    n, index = problem.n, None
    if problem.rows.partitioning is not None and n > max_selection_rows(problem):
        n = max_selection_rows(problem)
        index = np.sort(draw_indices(run.again(), problem.n, n))

    def select(rows: np.ndarray) -> np.ndarray:
        half = problem.part(rows if index is None else index[rows])
        found = half.run(half.objective(setting.ridge), setting.sparsity)
        if found.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return found.support

    try:
        shares, mean, whole = selection_frequencies(
            select,
            n,
            control.n_halves,
            run.again(),
            lambda: run.is_over(SELECT_SHARE),
        )
    except KeyboardInterrupt:
        return _select_without_bound(mark_interrupted(selection))
    threshold = _check_threshold(mean, problem.p, control.max_false)
    kept = _keep_variables(selection, shares >= threshold)
    status = selection.status if whole else Status.TIME_LIMIT
    return SelectionFitted(replace(kept, status=status), None, shares, threshold)


def _select_without_bound(selection: Selection) -> SelectionFitted:
    """Keep what is selected, and warn that the number of false variables has no bound."""
    msg = (
        "the fit ended before halves of the samples were compared: the number of false variables "
        "among those selected has no bound"
    )
    warn(msg, UserWarning)
    return SelectionFitted(selection, None)


def _check_threshold(mean: float, p: int, most: float) -> float:
    """Return the threshold of stability selection; 1, with a warning, where it would be more."""
    threshold = stability_threshold(mean, p, most)
    if threshold <= 1.0:
        return threshold
    msg = (
        f"{mean:.1f} variables of {p} are selected on a half: at most "
        f"{mean**2 / p:.2g} false ones can be promised, not max_false={most:g}; "
        "those selected on every half are kept"
    )
    warn(msg, UserWarning)
    return 1.0
