"""``gpukfl fit`` and ``gpukfl describe``: fit a model to a table, score and report it."""

from __future__ import annotations

import argparse
import functools
import math
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl.cli._files import (
    INTERRUPTED,
    PARQUET,
    check_writable,
    expand_files,
    interrupt_on_signals,
    try_to_write,
)
from gpukfl.core._frames import GAPS, is_numeric
from gpukfl.core._places import is_installed
from gpukfl.core._results import Status
from gpukfl.core._streams import print_output, try_write_line
from gpukfl.tables._files import check_columns, join_names

if TYPE_CHECKING:
    from gpukfl._model import Model
    from gpukfl.datasets import LoadedTable
    from gpukfl.inspection._measures import Scored
    from gpukfl.tables import Column
    from gpukfl.tables._relations import Relations
    from gpukfl.tables._target import Target


# -------------------------------------------------------------------------------- held out

# Which rows of a table are held out for a score.


_FEWEST = 2  # different rows that a fit takes
_FEWEST_TESTED, _FEWEST_GROUPS = 20, 2  # held-out rows, and groups of these, that tests take


def read_relations(options: argparse.Namespace, X: Any, /) -> Relations | None:
    """Read how the rows of a table hang together, as options say; None where they say nothing."""
    from gpukfl.tables._relations import GivenRelations, Relations, split_relation_columns

    names = {"groups": options.groups, "time": options.time}
    for name, column in names.items():
        if column is not None:
            check_columns([column], X.columns, f"--{name} to be one of {join_names(X)}, got ")
    given = GivenRelations(**names, gap=_parse_gap(options.gap))
    found = Relations.read(split_relation_columns(X, given)[1], X, None, len(X))
    if found is not None:
        found.check()
    return found


def _parse_gap(text: str | None) -> float | str | None:
    """Return a number where the text is one: others are durations of dates."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def split_related_rows(
    relations: Relations, target: Target, fraction: float, seed: int, /
) -> tuple[np.ndarray, np.ndarray]:
    """Split rows for training and test as they hang together: new groups, or later rows."""
    rows = np.arange(len(target.y))
    if not fraction:
        return rows, rows[:0]
    classes = None
    if target.task == "classification":
        classes = np.unique(target.y, return_inverse=True)[1].reshape(-1)
    found = relations.split(np.random.RandomState(seed), 1, fraction, classes)
    if not found:
        msg = f"expected a smaller --test-fraction, which leaves rows to fit, got {fraction}"
        raise ValueError(msg)
    return found[0]


def split_rows(X: Any, target: Target, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split rows for training and test, stratified; copies of a row stay together."""
    from sklearn.model_selection import train_test_split

    from gpukfl.estimators._samples import find_duplicates, number_by_appearance

    rows = np.arange(len(target.y))
    firsts, group = find_duplicates(_comparable_values(X), target.y) or (rows, rows)
    n_out = round(fraction * len(firsts))
    if n_out == 0:
        return rows, rows[:0]
    if len(firsts) - n_out < _FEWEST:
        most = math.floor(1000 * max(1 - _FEWEST / len(firsts), 0)) / 1000
        msg = (
            f"expected --test-fraction of at most {most:g}, which leaves {_FEWEST} of "
            f"{len(firsts)} different rows to fit, got {fraction}"
        )
        raise ValueError(msg)
    classes = None
    if target.task == "classification":
        _, classes, counts = np.unique(target.y[firsts], return_inverse=True, return_counts=True)
        few = counts.min() < 2 or len(counts) > min(n_out, len(firsts) - n_out)
        classes = None if few else number_by_appearance(classes)
    inside, _ = train_test_split(
        np.arange(len(firsts)), test_size=n_out, stratify=classes, random_state=seed
    )
    fitted = np.isin(group, inside)
    return rows[fitted], rows[~fitted]


def _comparable_values(X: Any) -> np.ndarray:
    """Return numbers (n, d) that are equal where values of a frame are equal or both missing."""
    columns = [X.iloc[:, k] for k in range(X.shape[1])]
    if all(column.dtype.kind in "iufb" and not column.hasnans for column in columns):
        return X.to_numpy()
    return np.column_stack([_factorize(column) for column in columns]).astype(np.float64)


def _factorize(column: Any) -> np.ndarray:
    """Return codes (n,) of the different values, -1 for missing ones."""
    import pandas as pd

    try:
        return pd.factorize(column)[0]
    except TypeError:  # lists and the like, of Parquet
        return pd.factorize(column.astype(str))[0]


# ------------------------------------------------------------------------------ many files

# ``gpukfl fit`` of a folder of Parquet files, or of several: read partition by partition.


def is_many(options: argparse.Namespace, /) -> bool:
    """Whether the data are a folder or several files."""
    return bool(options.more) or Path(options.data).is_dir()


def fit_files(
    options: argparse.Namespace, fit: Callable[[Any, str], Any], /
) -> tuple[Any, Scored | None]:
    """Fit to some rows and score on the others; return the model and its scores, if any.

    `fit` takes a Dask frame and the name of a column.
    """
    frame = _dask_frame(options)
    known = f"one of {join_names(frame.columns)}, got "
    check_columns(options.drop, frame.columns, f"each column to drop to be {known}")
    target = options.target or str(frame.columns[-1])
    check_columns([target], frame.columns, f"--target to be {known}")
    frame = frame.drop(columns=[name for name in options.drop if name != target])
    share = options.test_fraction
    if not share:
        return fit(frame, target), None
    inside, outside = frame.random_split([1.0 - share, share], random_state=options.random_state)
    model = fit(inside, target)
    return model, _held_out_scores(model, outside.dropna(subset=[target]), target)


def _dask_frame(options: argparse.Namespace) -> Any:
    for name in options.more:
        if not (name.lower().endswith(PARQUET) or Path(name).exists()):
            msg = f"the file {name} was not found. Did you mean --target {name}?"
            raise ValueError(msg)
    files = expand_files([options.data, *options.more], PARQUET, what="Parquet files")
    for file in files:
        if not file.lower().endswith(PARQUET):
            msg = f"expected several files to be Parquet files, or a folder of them, got {file}"
            raise ValueError(msg)
    if not is_installed("dask"):
        msg = "several files need Dask: `pip install 'gpukfl[dask]'`"
        raise ImportError(msg)
    import dask.dataframe as dd

    return dd.read_parquet(files)


def _held_out_scores(model: Any, outside: Any, target: str) -> Scored | None:
    """Return scores on the held-out rows, if there are any."""
    from gpukfl.estimators._reweighting import read_loss
    from gpukfl.inspection._measures import TEST, Scored, measure_labels, measure_regression
    from gpukfl.inspection._style import whole_text

    truth = outside[target].compute().to_numpy()
    if not len(truth):
        return None
    predicted = model.predict(outside.drop(columns=target)).compute().to_numpy()
    if model.task == "regression":
        both = (one.astype(np.float64).reshape(len(truth), -1) for one in (truth, predicted))
        scores = measure_regression(*both, loss=read_loss(model.estimator))
    else:
        scores = measure_labels(truth, predicted)
    return Scored(TEST, f"{whole_text(len(truth))} held-out rows", scores)


# ----------------------------------------------------------------------------------- table

# The table that a command reads, as its options say.


def load_target_table(options: argparse.Namespace, /, *, needs_target: bool = True) -> LoadedTable:
    """Read the table, and check the options about its columns."""
    from gpukfl.datasets import LoadedTable, load_frame, load_table

    kinds = parse_kinds(options)
    reading = {"kinds": kinds, "decimal": options.decimal, "na_values": options.na}
    if needs_target or options.target is not None:
        table = load_table(options.data, options.target, drop=options.drop, **reading)
    else:
        frame = load_frame(options.data, **reading)
        check_columns(
            options.drop, frame.columns, f"--drop to name one of {join_names(frame)}, got "
        )
        table = LoadedTable(frame.drop(columns=options.drop), None, None)
    check_columns(kinds, table.X.columns, f"--columns to name one of {join_names(table.X)}, got ")
    return table


def parse_monotone(options: argparse.Namespace, /) -> dict[str, int]:
    """Parse ``--monotone NAME=SIGN`` to signs by name."""
    signs: dict[str, int] = {}
    for text in options.monotone:
        name, _, sign = text.rpartition("=")
        if not name or sign not in ("1", "+1", "-1") or name in signs:
            msg = f"expected --monotone NAME=1 or NAME=-1, once for each column, got {text!r}"
            raise ValueError(msg)
        signs[name] = int(sign)
    return signs


def parse_kinds(options: argparse.Namespace, /) -> dict[str, str]:
    """Parse ``--columns NAME=KIND`` to kinds by name."""
    from gpukfl.tables import KINDS

    kinds = {}
    for text in options.columns:
        name, _, kind = text.rpartition("=")
        if not name or kind not in KINDS:
            msg = f"expected --columns NAME=KIND, with a kind of {', '.join(KINDS)}, got {text!r}"
            raise ValueError(msg)
        kinds[name] = kind
    return kinds


# ------------------------------------------------------------------------------------- fit

# ``gpukfl fit``: a table in, a model, a score on held-out rows and a report out.


def run_fit(options: argparse.Namespace) -> int:
    """Run ``gpukfl fit``: fit, score on held-out rows, and write model and report."""
    given = _method_options(options)
    if not 0 <= options.test_fraction < 1:
        msg = f"expected --test-fraction of at least 0 and below 1, got {options.test_fraction}"
        raise ValueError(msg)
    # What could not be written after the fit is found out before it
    check_writable("--out", options.out, source=options.data)
    check_writable("--report", options.report, source=options.data)
    if options.inference_time <= 0:
        msg = f"expected --inference-time above 0 seconds, got {options.inference_time}"
        raise ValueError(msg)
    if options.inference and (options.report is None or is_many(options)):
        msg = "expected one table, and --report FILE.html, with --inference"
        raise ValueError(msg)
    if options.validation is not None and is_many(options):
        msg = "expected one table with --validation, got several files"
        raise ValueError(msg)
    rows: dict[str, Any] = {}  # for the report, of a table that is here
    if is_many(options):
        model, scored = fit_files(
            options, lambda frame, target: _fit_model(options, frame, target, options.task, given)
        )
    else:
        model, scored, rows = _fit_table(options, given)
    model.dropped = list(dict.fromkeys(options.drop))
    model.command = options.command
    # Written before anything is printed, which fails where nobody reads it
    outcomes = [try_to_write("model", options.out, model.save)]
    try:
        ended = _report(options, model, scored, rows, outcomes)
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
        try_write_line(f"gpukfl: {failure}", sys.stderr)
    return ended


def _report(
    options: argparse.Namespace,
    model: Model,
    scored: Scored | None,
    rows: dict[str, Any],
    outcomes: list[tuple[bool, str]],
) -> int:
    """Write the report, infer, write it again, and print.

    Adds to `outcomes` whether each step failed, and why. Returns the exit status of what stopped
    inference, 0 where nothing did.
    """
    told = {} if scored is None or "held_out" in rows else _scores_by_name(scored)
    page = functools.cache(lambda: model._page(told, with_bands=not options.inference, **rows))
    outcomes.append(try_to_write("report", options.report, lambda path: page()(path, None)))
    ended = 0
    if options.inference and not outcomes[-1][0]:
        ended, outcome = _add_inference(options, model, rows, page())
        outcomes.append(outcome)
    lines = [model.summary(), *([] if scored is None else _score_lines(model, scored))]
    lines += [said for failed, said in outcomes if said and not failed]
    if options.out is not None and scored is not None:
        lines.append("the model has not seen the held-out rows: --test-fraction 0 fits all rows")
    print_output("\n".join(lines))
    return ended


def _scores_by_name(scored: Scored) -> dict[str, float]:
    """Return scores by what they are and of which rows."""
    return {f"{one.name} on {scored.rows}": one.value for one in scored.shown}


def _score_lines(model: Model, scored: Scored) -> list[str]:
    """Return lines of a test's scores, and whether they agree with those of the fit."""
    from gpukfl.inspection._description import wrap_text
    from gpukfl.inspection._report import agreement

    d = model.describe()
    agrees = agreement(replace(d, scored=(*d.scored, scored)))
    lead = "  test        "
    return [*wrap_text(lead, scored.text), *(wrap_text(" " * len(lead), agrees) if agrees else [])]


def _add_inference(
    options: argparse.Namespace,
    model: Model,
    rows: dict[str, Any],
    write: Callable[[str, Any], None],
) -> tuple[int, tuple[bool, str]]:
    """Write the report again with inference, complete or as far as it came.

    Importances and interactions are tested on the rows that were held out for the score.
    Returns the exit status of the stop, 0 without one, and how it ended as `try_to_write` does.
    """
    path = options.report
    if getattr(model.estimator, "status_", "") == Status.INTERRUPTED.name:
        return INTERRUPTED, (True, f"the fit was interrupted: {path} has no inference")
    inference, failure = None, ""
    with interrupt_on_signals() as stop:
        try:
            inference = model.inference(
                *rows["fitted_to"],
                unseen=_testable_rows(options, model, rows.get("held_out")),
                max_time=options.inference_time,
            )
        except (TypeError, ValueError) as error:  # which costs neither the model nor the report
            failure = f"no inference: {error}"
        except KeyboardInterrupt:
            stop.status = stop.status or INTERRUPTED
            failure = f"inference was interrupted before any part was complete: {path} has none"
    if inference is None:
        return stop.status, (True, failure)
    if inference.is_interrupted:
        stop.status = stop.status or INTERRUPTED
    outcome = try_to_write("inference", path, lambda path: write(path, inference))
    if stop.status and not outcome[0]:
        outcome = (True, f"inference was interrupted: {path} has the complete parts")
    return stop.status, outcome


def _testable_rows(
    options: argparse.Namespace, model: Model, held_out: tuple[Any, Any] | None
) -> tuple[Any, Any] | None:
    """Return the held-out rows of known classes, or None where too little can be tested."""
    if held_out is None:
        return None
    X, y = held_out
    if model.task == "classification":
        known = np.isin(y, model.classes_)
        X, y = X[known], y[known]
    n_groups = _FEWEST_GROUPS if options.groups is None else X[options.groups].nunique()
    enough = len(y) >= _FEWEST_TESTED and n_groups >= _FEWEST_GROUPS
    return (X, y) if enough and len(np.unique(y)) > 1 else None


def _fit_table(
    options: argparse.Namespace, given: dict[str, Any]
) -> tuple[Model, Scored | None, dict[str, Any]]:
    """Fit to some rows of a table and score on the others; also return both parts."""
    from gpukfl.inference._held_out import score_held_out
    from gpukfl.tables._target import read_target

    table = load_target_table(options)
    if table.y is None:
        msg = f"expected a target for {options.data}: pass --target"
        raise ValueError(msg)
    X, target = table.X, read_target(table.y, options.task)  # judged by all rows
    relations, how = read_relations(options, X), (options.test_fraction, options.random_state)
    inside, outside = (
        split_rows(X, target, *how)
        if relations is None
        else split_related_rows(relations, target, *how)
    )
    if options.validation is not None:
        given = given | {"validation": _read_validation(options, table.target, target.task)}
    model = _fit_model(options, X.iloc[inside], target.y[inside], target.task, given)
    model.target_name = table.target or "y"
    rows = {"fitted_to": (X.iloc[inside], target.y[inside])}
    if not len(outside):
        return model, None, rows
    rows["held_out"] = X.iloc[outside], target.y[outside]
    return model, score_held_out(model, *rows["held_out"]), rows


def _read_validation(
    options: argparse.Namespace, target: str | None, task: str
) -> tuple[Any, np.ndarray]:
    """Read rows and targets of validation, as the table is read."""
    from gpukfl.tables._target import read_target

    asked = {**vars(options), "data": options.validation, "target": target}
    table = load_target_table(argparse.Namespace(**asked))
    return table.X, read_target(table.y, task).y


def _fit_model(
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
        groups=options.groups,
        time=options.time,
        gap=_parse_gap(options.gap),
        columns=parse_kinds(options) or None,
        impute=options.impute,
        n_jobs=options.jobs,
        **given,
    )


def _method_options(options: argparse.Namespace) -> dict[str, Any]:
    from gpukfl._registry import METHODS

    given: dict[str, Any] = {}
    for method, row in METHODS.items():
        number = None if row.size is None else getattr(options, row.size)
        if number is not None and options.method != method:
            msg = (
                f"expected --{row.size} only with --method {method}, got --method {options.method}"
            )
            raise ValueError(msg)
        if number is not None:
            given[f"n_{row.size}"] = number
    blended = {name: getattr(options, name) for name in ("effort", "metric", "validation")}
    for name, value in blended.items():
        if value is not None and METHODS[options.method].single:
            msg = f"expected --{name} only with --method auto, got --method {options.method}"
            raise ValueError(msg)
    given |= {k: v for k, v in blended.items() if v is not None and k != "validation"}
    if options.monotone:
        given["monotone"] = parse_monotone(options)
    if options.loss is not None:
        given["loss"] = options.loss
    return given


# -------------------------------------------------------------------------------- describe

# ``gpukfl describe``: what each column of a table is taken for, and why.


_WIDEST = 40  # letters of a name
_LEVELS = 5  # levels that are shown


def run_describe(options: argparse.Namespace) -> int:
    """Run ``gpukfl describe``: print name, kind, missing share and reason of each column."""
    from gpukfl.tables import Column, Table

    loaded, kinds = load_target_table(options, needs_target=False), parse_kinds(options)
    if is_numeric(loaded.X) and not kinds:  # which a fit takes as they are
        why = "all values of the table are numbers"
        columns = tuple(Column(name, "numeric", why) for name in loaded.X)
    else:
        columns = Table.learn(loaded.X, columns=kinds).columns
    words = loaded.X.attrs.get("missing_words", {})
    lines = [
        (
            one.name,
            one.kind,
            f"{one.missing:.1%}" if one.missing else "",
            _reason_text(one) + _missing_words_text(one, words),
        )
        for one in columns
    ]
    if loaded.y is not None:
        lines.append((loaded.target or "y", "target", "", _task_text(loaded.y)))
    print_output(f"{len(loaded.X)} rows, {len(lines)} columns")
    _print_table([("column", "kind", "missing", "why"), *lines])
    return 0


def _task_text(y: np.ndarray) -> str:
    """Return the task of the target, or why it cannot be a target."""
    from gpukfl.tables._target import read_target

    try:
        target = read_target(y)
    except ValueError as error:
        return f"none that can be predicted: {error}"
    return f"{target.task} ({target.kind})"


def _reason_text(column: Column) -> str:
    if not column.is_used:
        return f"dropped: {column.reason}"
    if not column.levels:
        return column.reason
    shown = ", ".join(map(_one_line, column.levels[:_LEVELS]))
    return f"{column.reason}: {shown}{', ...' if len(column.levels) > _LEVELS else ''}"


def _missing_words_text(column: Column, missing: dict[str, list[str]]) -> str:
    """Return in words which texts are taken, or might be taken, for missing values."""
    found = missing.get(column.name, [])
    said = f"; missing values are written {_quote_words(found)}" if found else ""
    levels = [level for level in column.levels if level.strip().casefold() in GAPS]
    if column.kind == "category" and levels:
        options = " ".join(f"--na {shlex.quote(level)}" for level in levels[:_LEVELS])
        said += f"; {_quote_words(levels)} is a level ({options} makes it missing)"
    return said


def _quote_words(words: list[str]) -> str:
    return ", ".join(map(repr, words[:_LEVELS])) + (", ..." if len(words) > _LEVELS else "")


def _print_table(rows: list[tuple[Any, ...]]) -> None:
    """Print aligned columns of text; the last one is not cut."""
    rows = [tuple(map(_one_line, row)) for row in rows]
    widths = [min(max(map(len, column)), _WIDEST) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        print_output("  ".join(["  ", *cells, row[-1]]))


def _one_line(text: str) -> str:
    return " ".join(text.split())
