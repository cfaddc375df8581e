"""``gpukfl fit``: a table in, a model, a score on held-out rows and a report out."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl._results import Status
from gpukfl._streams import say, tell
from gpukfl.cli._files import check_writable, try_to_write
from gpukfl.cli._held_out import check_fraction, score_name, split
from gpukfl.cli._many_files import fit_files, is_many
from gpukfl.cli._signals import INTERRUPTED, stopped_by_signals
from gpukfl.cli._table import kinds_of, load

if TYPE_CHECKING:
    from gpukfl._model import Model
    from gpukfl.tables._target import Target


def fit(options: argparse.Namespace) -> int:
    """Fit to a part of the rows, score on the others, and write what is asked for."""
    given = _method_options(options)
    check_fraction(options.test_fraction)
    _check_outputs(options)
    rows: dict[str, Any] = {}  # for the report, of a table that is here
    if is_many(options):
        model, scores = fit_files(
            options, lambda frame, target: _fitted(options, frame, target, options.task, given)
        )
    else:
        model, scores, rows = _fit_table(options, given)
    # Written before anything is printed, which fails where nobody reads it
    outcomes = [try_to_write("model", options.out, model.save)]
    try:
        ended = _report(options, model, scores, rows, outcomes)
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, Exception) as error:
        known = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else RuntimeError
        done = (said for _, said in outcomes)
        raise known("; ".join(filter(None, [*done, str(error)]))) from error
    failures = [said for failed, said in outcomes if failed]
    if failures and not ended:
        raise OSError("; ".join(failures))
    for failure in failures:
        say(f"gpukfl: {failure}", sys.stderr)
    return ended


def _report(
    options: argparse.Namespace,
    model: Model,
    scores: dict[str, float],
    rows: dict[str, Any],
    outcomes: list[tuple[bool, str]],
) -> int:
    """Write the report, infer, write it again, and print.

    Adds to `outcomes` whether each step failed, and why. Returns the exit status of what stopped
    inference, 0 where nothing did.
    """
    page = functools.cache(lambda: model._page(scores, with_bands=not options.inference, **rows))
    outcomes.append(try_to_write("report", options.report, lambda path: page()(path, None)))
    ended = 0
    if options.inference and not outcomes[-1][0]:
        ended, outcome = _add_inference(options.report, model, rows["fitted_to"], page())
        outcomes.append(outcome)
    said = [f"  test        {_measured(name, score)}" for name, score in scores.items()]
    lines = [model.summary(), *said]
    tell("\n".join([*lines, *(said for failed, said in outcomes if said and not failed)]))
    return ended


def _add_inference(
    path: str, model: Model, rows: tuple[Any, Any], write: Callable[[str, Any], None]
) -> tuple[int, tuple[bool, str]]:
    """Write the report again with inference, or with what is done when the user stops it.

    Returns the exit status of the stop, 0 without one, and how it ended as `try_to_write` does.
    """
    if getattr(model.estimator, "status_", "") == Status.INTERRUPTED.name:
        return INTERRUPTED, (True, f"the fit was interrupted: {path} has no inference")
    inference, failure = None, ""
    with stopped_by_signals() as stop:
        try:
            inference = model.inference(*rows)
        except (TypeError, ValueError) as error:  # which costs neither the model nor the report
            failure = f"no inference: {error}"
        except KeyboardInterrupt:
            stop.status = stop.status or INTERRUPTED
            failure = f"inference was interrupted before a part of it was done: {path} has none"
    if inference is None:
        return stop.status, (True, failure)
    if not inference.is_complete:
        stop.status = stop.status or INTERRUPTED
    outcome = try_to_write("inference", path, lambda path: write(path, inference))
    if stop.status and not outcome[0]:
        outcome = (True, f"inference was interrupted: {path} has the parts that were done")
    return stop.status, outcome


def _fit_table(
    options: argparse.Namespace, given: dict[str, Any]
) -> tuple[Model, dict[str, float], dict[str, Any]]:
    """Fit to a part of the rows of a table, and score on the others; gives both parts too."""
    X, target, name = _read(options)
    inside, outside = split(X, target, options.test_fraction, options.random_state)
    model = _fitted(options, X.iloc[inside], target.y[inside], target.task, given)
    model.target_name = name
    rows = {"fitted_to": (X.iloc[inside], target.y[inside])}
    if not len(outside):
        return model, {}, rows
    rows["held_out"] = X.iloc[outside], target.y[outside]
    score = model.score(*rows["held_out"])
    return model, {score_name(model, len(outside)): score}, rows


def _measured(name: str, score: float) -> str:
    """Put a score behind its measure: "R² 0.5000 on 10 held-out rows"."""
    measure, rows = name.split(" ", 1)
    return f"{measure} {score:.4f} {rows}"


def _fitted(
    options: argparse.Namespace, X: Any, y: np.ndarray | str, task: str, given: dict[str, Any]
) -> Model:
    from gpukfl import _fit

    return _fit.fit(
        X,
        y,
        method=options.method,
        backend=options.backend,
        task=task,
        scaling=None if options.scaling == "none" else options.scaling,
        ridge=options.ridge,
        penalty=options.penalty,
        max_time=options.max_time,
        random_state=options.random_state,
        columns=kinds_of(options) or None,
        impute=options.impute,
        **given,
    )


def _read(options: argparse.Namespace) -> tuple[Any, Target, str]:
    """Features, target, and the target's name; the target is judged by all rows."""
    from gpukfl.tables._target import read_target

    table = load(options)
    if table.y is None:
        msg = f"expected a target in {options.data}: give --target"
        raise ValueError(msg)
    return table.X, read_target(table.y, options.task), table.target or "y"


def _method_options(options: argparse.Namespace) -> dict[str, Any]:
    from gpukfl._registry import METHODS

    given: dict[str, Any] = {}
    for method, row in METHODS.items():
        number = None if row.size is None else getattr(options, row.size)
        if number is not None and options.method != method:
            msg = (
                f"expected --{row.size} with --method {method} only, got --method {options.method}"
            )
            raise ValueError(msg)
        if number is not None:
            given[f"n_{row.size}"] = number
    if options.effort is not None:
        if METHODS[options.method].single:
            msg = f"expected --effort with --method auto only, got --method {options.method}"
            raise ValueError(msg)
        given["effort"] = options.effort
    return given


def _check_outputs(options: argparse.Namespace) -> None:
    """Find out before the fit what could not be written after it."""
    check_writable("--out", options.out, source=options.data)
    check_writable("--report", options.report, source=options.data)
    if options.inference and (options.report is None or is_many(options)):
        msg = "expected one table and --report FILE.html with --inference, which the report shows"
        raise ValueError(msg)
