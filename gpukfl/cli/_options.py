"""Commands and their options, and the commands ``run_info`` and ``run_selftest``."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform

import psutil
from rich.console import Console
from rich.table import Table

from gpukfl._version import __version__
from gpukfl.cli._explain import run_explain
from gpukfl.cli._files import check_writable, try_to_write, write_whole
from gpukfl.cli._fit import run_describe, run_fit
from gpukfl.cli._later import run_drift, run_refit
from gpukfl.cli._leaderboard import run_leaderboard
from gpukfl.cli._predict import run_predict
from gpukfl.core._cuda import (
    cuda_devices,
    cupy_is_usable,
    cupy_problem,
    driver,
    is_installed,
    torch_cuda_is_usable,
)
from gpukfl.core._streams import print_output

# ------------------------------------------------------------------------------------ info

# What this machine offers.


_LIBRARIES = ("numpy", "scipy", "scikit-learn", "numba", "array-api-compat", "torch", "matplotlib")


def run_info(_: argparse.Namespace) -> int:
    """Print libraries, devices and active fast paths."""
    from gpukfl._accel import threads

    table = Table("", "", show_header=False, box=None)
    table.add_row("gpukfl", f"{__version__}, Python {platform.python_version()}")
    memory = psutil.virtual_memory()
    table.add_row(
        "CPU",
        f"{threads.n_threads()} of {os.cpu_count()} cores used (GPUKFL_NUM_THREADS sets them), "
        f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free",
    )
    for name in _LIBRARIES:
        table.add_row(name, _installed_version(name))
    table.add_row("CuPy", _cupy_version())
    table.add_row("CUDA devices", " - ".join(filter(None, [str(cuda_devices()), driver().reason])))
    table.add_row("fast path, NumPy", "Numba kernels, threads over particles")
    reason = (cupy_problem() if cuda_devices() else "no GPU") or "CuPy is not installed"
    active = "CUDA kernels" if cupy_is_usable() else f"not active: {reason}"
    table.add_row("fast path, CuPy", active)
    torch = "not installed"
    if is_installed("torch"):
        torch = "cuda" if torch_cuda_is_usable() else "cpu"
    table.add_row("torch device", torch)
    table.add_row("backend='auto'", "cupy for large data" if cupy_is_usable() else "numpy")
    Console(width=100).print(table)
    return 0


def _installed_version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cupy_version() -> str:
    for name in ("cupy-cuda13x", "cupy-cuda12x", "cupy"):
        version = _installed_version(name)
        if version != "not installed":
            return f"{name} {version}"
    return "not installed: pip install 'gpukfl\\[cuda13]' or 'gpukfl\\[cuda12]'"


# -------------------------------------------------------------------------------- selftest

# ``gpukfl selftest``: whether the GPU computes right, and how fast.


def run_selftest(options: argparse.Namespace) -> int:
    """Return 0 if all is right, 1 if something is wrong, 2 without a GPU to test."""
    from gpukfl.selftest import report

    if options.samples < 0:
        msg = f"expected --samples of at least 0, got {options.samples}"
        raise ValueError(msg)
    check_writable("--out", options.out, source="")
    found = report(full=options.full, n_timed=options.samples)
    text = json.dumps(found, indent=1)
    page = f"{text}\n".encode()
    failed, told = try_to_write(
        "report", options.out, lambda path: write_whole(path, lambda file: file.write(page))
    )
    print_output(text)
    if failed:
        raise OSError(told)
    return {True: 0, False: 1, None: 2}[found["right"]]


# --------------------------------------------------------------------------------- options

# Commands and their options.


_TABLE = (
    "CSV, Parquet, Feather, Excel or .npz file, - for standard input, "
    "or diabetes, breast_cancer, digits, iris, wine"
)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, which sets `run` to the command's function."""
    made = argparse.ArgumentParser(
        prog="gpukfl", description="Fit tables accurately, with intervals and explanations."
    )
    made.add_argument("--version", action="version", version=f"gpukfl {__version__}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    _add_fit(commands.add_parser("fit", help="train on a table, score on held-out rows, report"))
    _add_predict(commands.add_parser("predict", help="predict with a saved model"))
    refit = commands.add_parser("refit", help="fit a saved model again, to new rows")
    _add_refit(refit)
    drift = commands.add_parser("drift", help="compare the columns of new rows with the fit")
    _add_drift(drift)
    explain = commands.add_parser("explain", help="show what each column adds to the predictions")
    _add_explain(explain)
    leaderboard = commands.add_parser("leaderboard", help="show the scores of the models")
    _add_leaderboard(leaderboard)
    describe = commands.add_parser("describe", help="show how each column of a table is read")
    _add_table(describe, "none: all columns are described alike")
    describe.set_defaults(run=run_describe)
    _add_selftest(
        commands.add_parser(
            "selftest", help="check the results and speed of the GPU: a JSON for bug reports"
        )
    )
    info = commands.add_parser("info", help="show libraries, devices and active fast paths")
    info.set_defaults(run=run_info)
    return made


def _add_fit(fit_parser: argparse.ArgumentParser) -> None:
    _add_table(fit_parser)
    _add_method(fit_parser)
    add = fit_parser.add_argument
    add("more", nargs="*", metavar="FILE", help="more Parquet files; data may be a folder of them")
    add("--max-time", type=float, metavar="SECONDS", help="limit for the whole fit")
    add(
        "--jobs",
        type=int,
        metavar="N",
        help="processes that fit a blend, -1 for all cores (default: -1 for 300 to 20000 rows)",
    )
    add(
        "--groups",
        metavar="COLUMN",
        help="column of the groups of rows, such as patients: new groups are scored",
    )
    add(
        "--time",
        metavar="COLUMN",
        help="column of numbers or dates: later rows are scored",
    )
    add(
        "--gap",
        metavar="TIME",
        help="with --time: span before the held-out rows that is not fitted, such as 5 or '7 days'",
    )
    add(
        "--test-fraction",
        type=float,
        default=0.2,
        help="share of the rows held out for the score (default: %(default)s)",
    )
    add(
        "--validation",
        metavar="FILE",
        help="table like data, whose rows score the models of a blend instead of folds",
    )
    add("--random-state", type=int, default=0)
    add("--out", metavar="FILE", help="write the model here")
    add("--report", metavar="FILE.html", help="write a report with pictures here")
    add(
        "--inference",
        action="store_true",
        help="add inference to the report: bands of curves by the training rows, p-values of "
        "columns and their pairs by held-out rows",
    )
    add(
        "--inference-time",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="limit for --inference: more time uses more rows and fits (default: %(default)s)",
    )
    fit_parser.set_defaults(run=run_fit)


def _add_method(fit_parser: argparse.ArgumentParser) -> None:
    add = fit_parser.add_argument
    add(
        "--method",
        default="auto",
        help="auto (default), bkernn, hkrr, selection, rkhs_weighting or regfeal",
    )
    add("--backend", default="auto", help="auto, numpy, cupy or torch")
    add("--task", default="auto", help="auto, regression or classification")
    add("--effort", help="with --method auto: quick, normal (default) or thorough")
    add(
        "--metric",
        help="with --method auto: what the blend optimises, such as mae, roc_auc or a "
        "scikit-learn scorer",
    )
    add(
        "--loss",
        help="for regression: squared (default), absolute, quantile:0.9, huber, poisson, gamma, "
        "tweedie:1.5",
    )
    add(
        "--scaling",
        default="auto",
        help="for features: auto (default), standard, robust, quantile or none",
    )
    add(
        "--impute",
        default="median",
        choices=("median", "model"),
        help="replace missing numbers by medians (default), or predict them from other columns",
    )
    add(
        "--monotone",
        metavar="NAME=SIGN",
        action="append",
        default=[],
        help="predictions must rise (1) or fall (-1) with a column, such as age=1; may be repeated",
    )
    add("--penalty", help="with --method bkernn: a penalty's name, or tune")
    add("--ridge", default="tune", type=_parse_ridge, help="tune (default), auto or a number")
    add("--particles", type=int, help="with --method bkernn: number of particles")
    add("--components", type=int, help="with --method hkrr: number of components")
    add("--parameters", type=int, help="with --method rkhs_weighting: number of parameters")


def _parse_ridge(text: str) -> float | str:
    try:
        return text if text in ("tune", "auto") else float(text)
    except ValueError:
        msg = f"expected tune, auto or a number, got {text!r}"
        raise argparse.ArgumentTypeError(msg) from None


def _add_predict(predict_parser: argparse.ArgumentParser) -> None:
    add = predict_parser.add_argument
    add("model", help="file that `gpukfl fit --out` wrote")
    add("data", help=f"table with the model's columns: {_TABLE}; or a folder of tables")
    add("more", nargs="*", metavar="FILE", help="more tables, whose rows follow")
    _add_reading(predict_parser)
    add("--probabilities", action="store_true", help="add a column of probabilities for each class")
    add(
        "--interval",
        type=float,
        metavar="COVERAGE",
        help="add the ends of intervals that cover the target with this probability, such as 0.9",
    )
    add(
        "--out",
        metavar="FILE",
        help="write here: .csv, .csv.gz or .parquet (default: standard output, as CSV)",
    )
    predict_parser.set_defaults(run=run_predict)


def _add_refit(refit_parser: argparse.ArgumentParser) -> None:
    add = refit_parser.add_argument
    add("model", help="file that `gpukfl fit --out` wrote")
    add("data", help=f"table with the model's columns and target: {_TABLE}")
    add("--target", help="column to predict (default: the model's)")
    add("--groups", metavar="COLUMN", help="as of `gpukfl fit`")
    add("--time", metavar="COLUMN", help="as of `gpukfl fit`")
    add("--out", metavar="FILE", required=True, help="write the model here")
    _add_reading(refit_parser)
    refit_parser.set_defaults(run=run_refit)


def _add_drift(drift_parser: argparse.ArgumentParser) -> None:
    add = drift_parser.add_argument
    add("model", help="file that `gpukfl fit --out` wrote")
    add("data", help=f"table with the model's columns: {_TABLE}")
    add(
        "--out",
        metavar="FILE",
        help="write here: .csv, .csv.gz or .parquet (default: standard output, as CSV)",
    )
    _add_reading(drift_parser)
    drift_parser.set_defaults(run=run_drift)


def _add_explain(explain_parser: argparse.ArgumentParser) -> None:
    add = explain_parser.add_argument
    add("model", help="file that `gpukfl fit --out` wrote")
    add("data", help=f"table with the model's columns: {_TABLE}; or a folder of tables")
    add("more", nargs="*", metavar="FILE", help="more tables, whose rows follow")
    _add_reading(explain_parser)
    add(
        "--background",
        metavar="FILE",
        help="rows to compare with, such as the training set (default: rows kept by a blend)",
    )
    add(
        "--group",
        metavar="NAME=COLUMN,COLUMN",
        action="append",
        default=[],
        help="columns that are explained together; may be repeated",
    )
    add(
        "--output",
        default="auto",
        choices=("auto", "log_odds", "probability"),
        help="for classes: explain log odds (default) or probabilities",
    )
    add("--max-time", type=float, metavar="SECONDS", help="time for everything")
    add("--random-state", type=int, default=0)
    add(
        "--out",
        metavar="FILE",
        help="write here: .csv, .csv.gz or .parquet (default: standard output, as CSV)",
    )
    explain_parser.set_defaults(run=run_explain)


def _add_leaderboard(leaderboard_parser: argparse.ArgumentParser) -> None:
    add = leaderboard_parser.add_argument
    add("model", help="file that `gpukfl fit --out` wrote")
    add(
        "data",
        nargs="?",
        help=f"table with the model's columns and its target: {_TABLE} (default: the held-out "
        "rows of the fit)",
    )
    add("--target", help="column of the target (default: as in the fit)")
    _add_reading(leaderboard_parser)
    add(
        "--out",
        metavar="FILE",
        help="write here: .csv, .csv.gz or .parquet (default: a table on standard output)",
    )
    leaderboard_parser.set_defaults(run=run_leaderboard)


def _add_selftest(selftest_parser: argparse.ArgumentParser) -> None:
    add = selftest_parser.add_argument
    add("--full", action="store_true", help="also compare with recorded results, to the last bit")
    add(
        "--samples",
        type=int,
        default=1_000_000,
        help="rows of the timings (default: %(default)s); 0 skips the timings",
    )
    add("--out", metavar="FILE.json", help="also write to this file")
    selftest_parser.set_defaults(run=run_selftest)


def _add_table(command: argparse.ArgumentParser, target: str = "the last") -> None:
    """Add the options that choose the table and describe its columns."""
    add = command.add_argument
    add("data", help=_TABLE)
    add("--target", help=f"column to predict (default: {target})")
    add("--drop", metavar="COLUMN", action="append", default=[], help="drop it; may be repeated")
    add(
        "--columns",
        metavar="NAME=KIND",
        action="append",
        default=[],
        help="how to read a column, such as zip=category; may be repeated",
    )
    _add_reading(command)


def _add_reading(command: argparse.ArgumentParser) -> None:
    """Add the options on ambiguous words and numbers."""
    command.add_argument(
        "--na",
        metavar="WORD",
        action="append",
        help="word for missing values in text, instead of ?, NA, null, ...; may be repeated "
        "('' for blank fields only)",
    )
    command.add_argument(
        "--decimal",
        choices=(".", ","),
        metavar="MARK",
        help="decimal mark, a point or a comma, where numbers can be read in two ways "
        "(default: as in other columns)",
    )
