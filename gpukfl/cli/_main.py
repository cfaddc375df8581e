"""Commands and their options."""

from __future__ import annotations

import argparse
import functools
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl._places import is_installed
from gpukfl._version import __version__
from gpukfl.cli._files import check_writable, try_to_write

if TYPE_CHECKING:
    from gpukfl._target import Target

_EXPECTED = (
    ValueError,
    TypeError,
    RuntimeError,
    ImportError,
    OSError,
    ArithmeticError,
    MemoryError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status = options.run(options)
            sys.stdout.flush()
            return status
    except BrokenPipeError:  # whoever reads the output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except _EXPECTED as error:
        print(f"gpukfl: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("gpukfl: interrupted before there was a model", file=sys.stderr)
        return 130


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"gpukfl: warning: {message}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpukfl", description="Kernel feature learning, exact and near-linear."
    )
    parser.add_argument("--version", action="version", version=f"gpukfl {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    fit = commands.add_parser("fit", help="train on a table, score on held-out rows, report")
    fit.add_argument(
        "data", help="CSV, Parquet or .npz file, or diabetes, breast_cancer, digits, iris, wine"
    )
    fit.add_argument("--target", help="column to predict (default: the last)")
    fit.add_argument(
        "--drop", metavar="COLUMN", action="append", default=[], help="leave out; may be repeated"
    )
    fit.add_argument(
        "--method",
        default="auto",
        help="auto (default), bkernn, hkrr, selection, rkhs_weighting or regfeal",
    )
    fit.add_argument("--backend", default="auto", help="auto, numpy, cupy or torch")
    fit.add_argument("--task", default="auto", help="auto, regression or classification")
    fit.add_argument(
        "--scaling",
        default="standard",
        help="of features: standard (default), robust, quantile or none",
    )
    fit.add_argument("--penalty", help="of bkernn: a penalty's name, or tune")
    fit.add_argument("--ridge", default="tune", type=_ridge, help="tune, auto or a number")
    fit.add_argument("--particles", type=int, help="of bkernn: number of particles")
    fit.add_argument("--components", type=int, help="of hkrr: number of components")
    fit.add_argument("--parameters", type=int, help="of rkhs_weighting: number of parameters")
    fit.add_argument("--max-time", type=float, metavar="SECONDS", help="time for everything")
    fit.add_argument(
        "--test-fraction",
        type=float,
        default=0.2,
        help="share of the rows held out for the score (default: %(default)s)",
    )
    fit.add_argument("--random-state", type=int, default=0)
    fit.add_argument("--out", metavar="FILE", help="write the model here")
    fit.add_argument("--report", metavar="FILE.html", help="write a report with pictures here")
    fit.set_defaults(run=_fit)

    predict = commands.add_parser("predict", help="predict with a saved model")
    predict.add_argument("model", help="file that `gpukfl fit --out` wrote")
    predict.add_argument("data", help="table with the model's features")
    predict.add_argument("--out", metavar="FILE.csv", help="write here (default: standard output)")
    predict.set_defaults(run=_predict)

    selftest = commands.add_parser(
        "selftest", help="whether the GPU computes right, and how fast: a JSON for bug reports"
    )
    selftest.add_argument(
        "--full", action="store_true", help="compare with recorded results to the last bit as well"
    )
    selftest.add_argument(
        "--samples",
        type=int,
        default=1_000_000,
        help="of what is timed (default: %(default)s); 0 times nothing",
    )
    selftest.add_argument("--out", metavar="FILE.json", help="write here as well")
    selftest.set_defaults(run=_selftest)

    info = commands.add_parser("info", help="libraries, devices and active fast paths")
    info.set_defaults(run=_info)
    return parser


def _ridge(text: str) -> float | str:
    return text if text in ("tune", "auto") else float(text)


def _fit(options: argparse.Namespace) -> int:
    from gpukfl._fit import fit

    given = _method_options(options)
    _check_outputs(options)
    X, target, name = _read(options)
    inside, outside = _split(X, target, options.test_fraction, options.random_state)
    model = fit(
        X.iloc[inside],
        target.y[inside],
        method=options.method,
        backend=options.backend,
        task=target.task,
        scaling=None if options.scaling == "none" else options.scaling,
        ridge=options.ridge,
        penalty=options.penalty,
        max_time=options.max_time,
        random_state=options.random_state,
        **given,
    )
    model.target_name = name
    # Written before anything is printed, which fails where nobody reads it
    outcomes = [try_to_write("model", options.out, model.save)]
    lines, scores = [model.summary()], {}
    if len(outside):
        measure = "R²" if model.task == "regression" else "accuracy"
        score = model.score(X.iloc[outside], target.y[outside])
        scores[f"{measure} on {len(outside)} held-out rows"] = score
        lines.append(f"  test        {measure} {score:.4f} on {len(outside)} held-out rows")
    write = functools.partial(model.report, scores=scores)
    outcomes.append(try_to_write("report", options.report, write))
    print("\n".join([*lines, *(said for failed, said in outcomes if said and not failed)]))
    failures = [said for failed, said in outcomes if failed]
    if failures:
        raise OSError("; ".join(failures))
    return 0


def _read(options: argparse.Namespace) -> tuple[Any, Target, str]:
    """Features, target, and the target's name; the target is judged by all rows."""
    from gpukfl._columns import numeric_frame
    from gpukfl._target import read_target
    from gpukfl.datasets import load_table

    table = load_table(options.data, options.target, drop=options.drop)
    if table.y is None:
        msg = f"expected a target in {options.data}: give --target"
        raise ValueError(msg)
    return numeric_frame(table.X), read_target(table.y, options.task), table.target or "y"


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
    return given


def _check_outputs(options: argparse.Namespace) -> None:
    """Find out before the fit what could not be written after it."""
    check_writable("--out", options.out, source=options.data)
    check_writable("--report", options.report, source=options.data)
    if options.report and not is_installed("matplotlib"):
        msg = "pictures need matplotlib: `pip install 'gpukfl[plot]'`"
        raise ImportError(msg)


def _split(X: Any, target: Target, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and to test: copies of a row on one side, a share of every class on each."""
    from sklearn.model_selection import train_test_split

    from gpukfl.estimators._copies import copies_of

    if not 0 <= fraction < 1:
        msg = f"expected --test-fraction of at least 0 and below 1, got {fraction}"
        raise ValueError(msg)
    rows = np.arange(len(target.y))
    firsts, group = copies_of(X.to_numpy(), target.y) or (rows, rows)
    n_out = round(fraction * len(firsts))
    if n_out == 0:
        return rows, rows[:0]
    classes = None
    if target.task == "classification":
        _, classes, counts = np.unique(target.y[firsts], return_inverse=True, return_counts=True)
        if counts.min() < 2 or len(counts) > min(n_out, len(firsts) - n_out):
            classes = None
    inside, _ = train_test_split(
        np.arange(len(firsts)), test_size=n_out, stratify=classes, random_state=seed
    )
    fitted = np.isin(group, inside)
    return rows[fitted], rows[~fitted]


def _predict(options: argparse.Namespace) -> int:
    import pandas as pd

    from gpukfl._columns import numeric_frame
    from gpukfl._model import load
    from gpukfl.datasets import load_table

    check_writable("--out", options.out, source=options.data)
    model = load(options.model)
    X = numeric_frame(load_table(options.data, features=model.feature_names).X)
    if not hasattr(model.estimator, "feature_names_in_"):
        X = X.to_numpy()
    predictions = np.asarray(model.predict(X))
    columns = [model.target_name]
    if predictions.ndim == 2:
        columns = [f"{model.target_name}_{k}" for k in range(predictions.shape[1])]
    frame = pd.DataFrame(predictions.reshape(len(predictions), -1), columns=columns)
    frame.to_csv(options.out or sys.stdout, index=False)
    return 0


def _selftest(options: argparse.Namespace) -> int:
    """Give 0 where all is right, 1 where something is wrong, 2 without a GPU to test."""
    import json

    from gpukfl.selftest import report

    if options.samples < 0:
        msg = f"expected --samples of at least 0, got {options.samples}"
        raise ValueError(msg)
    check_writable("--out", options.out, source="")
    found = report(full=options.full, n_timed=options.samples)
    text = json.dumps(found, indent=1)
    failed, told = try_to_write("report", options.out, lambda path: _write_text(path, text))
    print(text)
    if failed:
        raise OSError(told)
    return {True: 0, False: 1, None: 2}[found["right"]]


def _write_text(path: str, text: str) -> None:
    Path(path).write_text(text + "\n", encoding="utf-8")


def _info(_: argparse.Namespace) -> int:
    from gpukfl.cli._info import describe

    describe()
    return 0
