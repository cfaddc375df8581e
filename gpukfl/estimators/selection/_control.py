"""What is kept of a selection: by stability, by knockoffs, or all."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpukfl._array import Array, lies_in_parts
from gpukfl._draws import drawn
from gpukfl._results import Status
from gpukfl._warnings import warn
from gpukfl.estimators._run import Run
from gpukfl.estimators.selection._discoveries import Discoveries, discover
from gpukfl.estimators.selection._problem import Predictor, SelectionProblem
from gpukfl.estimators.selection._settings import DEFAULT_RIDGE, Knockoffs, Settings, Stability
from gpukfl.estimators.selection._stability import selection_frequencies, stability_threshold
from gpukfl.knockoffs import found_at, smallest_level
from gpukfl.methods import Selection

_MOST_ROWS = 100_000  # that variables are selected on, unless a number of centres is given
_MOST_BROUGHT = 10_000  # the same of rows in parts, which come to one place
SELECT_SHARE = 0.7  # of max_time after which the selection has ended
QUIET = (Status.CONVERGED, Status.STALLED)  # no further progress is where a fit may well end


@dataclass(frozen=True)
class Setting:
    """A pair of λ and γ; γ is "auto" where permutations give it."""

    ridge: float
    sparsity: float | str
    number: int = 1  # on the path of this λ


@dataclass(frozen=True, eq=False)
class Fitted:
    """What is kept of a fit: the selection, the last fit, what bounds its errors, the path."""

    selection: Selection
    last: Predictor | None
    frequencies: np.ndarray | None = None  # (p,)
    threshold: float | None = None
    path: dict[str, np.ndarray] | None = None
    discoveries: Discoveries | None = None
    missed: float | None = None  # R² of all variables together, where none was selected


def most_rows(problem: SelectionProblem, /) -> int:
    """Give how many rows variables are selected on, at most."""
    return _MOST_ROWS if problem.rows.partitioning is None else _MOST_BROUGHT


def stopped(selection: Selection, /) -> Selection:
    """Say that a selection was interrupted."""
    return replace(selection, status=Status.INTERRUPTED)


def check_knockoffs(settings: Settings, X: Array, /) -> None:
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


def controlled(
    problem: SelectionProblem, setting: Setting, selection: Selection, run: Run, /
) -> Fitted:
    """Keep of a selection what the settings ask for."""
    control = problem.settings.error_control
    if isinstance(control, Knockoffs):
        return _with_few_false(problem, selection, control, run)
    if control is None or problem.constant:
        return Fitted(selection, None)
    if selection.status not in QUIET:
        return _without_halves(selection)
    return _stable(problem, setting, selection, control, run)


def _with_few_false(
    problem: SelectionProblem,
    selection: Selection,
    control: Knockoffs,
    run: Run,
) -> Fitted:
    """Keep the variables that beat their copies."""
    found = None
    if problem.constant or selection.status in QUIET:
        # A λ that these data chose could tell variables from their copies
        ridge = problem.settings.ridge or DEFAULT_RIDGE
        found = discover(problem, ridge, control, run, SELECT_SHARE)
    if found is None:
        msg = (
            "the fit ended before knockoffs were compared: the share of false variables among "
            "those selected has no bound"
        )
        warn(msg, UserWarning)
        return Fitted(selection if selection.status not in QUIET else stopped(selection), None)
    kept = _keeping(selection, found_at(found.e_values, control.level))
    kept = kept if found.status is None else replace(kept, status=found.status)
    return Fitted(kept, None, discoveries=found)


def _keeping(selection: Selection, kept: np.ndarray) -> Selection:
    """Give weight to the variables that are kept, a typical one to those that had none."""
    weights = selection.beta[selection.support]
    typical = float(weights.mean()) if len(weights) else 1.0
    beta = np.where(selection.support, selection.beta, typical)
    return replace(selection, beta=np.where(kept, beta, 0.0))


def _stable(
    problem: SelectionProblem, setting: Setting, selection: Selection, control: Stability, run: Run
) -> Fitted:
    """Keep the variables that are selected on enough halves of the samples."""
    n, index = problem.n, None
    if problem.rows.partitioning is not None and n > most_rows(problem):
        n = most_rows(problem)
        index = np.sort(drawn(run.again(), problem.n, n))

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
        return _without_halves(stopped(selection))
    threshold = _promised(mean, problem.p, control.max_false)
    kept = _keeping(selection, shares >= threshold)
    status = selection.status if whole else Status.TIME_LIMIT
    return Fitted(replace(kept, status=status), None, shares, threshold)


def _without_halves(selection: Selection) -> Fitted:
    """Keep what is selected, of which there may be any number of false ones, and say so."""
    msg = (
        "the fit ended before halves of the samples were compared: the number of false variables "
        "among those selected has no bound"
    )
    warn(msg, UserWarning)
    return Fitted(selection, None)


def _promised(mean: float, p: int, most: float) -> float:
    """Give the threshold of stability selection; 1, and say so, where it would be more."""
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
