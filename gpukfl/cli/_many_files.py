"""``gpukfl fit`` of a folder of Parquet files, or of several: read partition by partition."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpukfl._places import is_installed
from gpukfl.cli._files import PARQUET, files_of
from gpukfl.cli._held_out import score_name
from gpukfl.datasets._names import check_columns, listed


def is_many(options: argparse.Namespace, /) -> bool:
    """Whether the data are a folder, or several files."""
    return bool(options.more) or Path(options.data).is_dir()


def fit_files(
    options: argparse.Namespace, fit: Callable[[Any, str], Any], /
) -> tuple[Any, dict[str, float]]:
    """Fit to a part of the rows, and score on the others: the model, and scores by their names.

    ``fit(frame, target)`` takes a Dask frame and the name of a column.

    Raises
    ------
    ImportError
        If Dask is not installed.
    ValueError
        If there is no Parquet file, or a column does not exist.
    """
    frame = _frame(options)
    known = f"one of {listed(frame.columns)}, got "
    check_columns(options.drop, frame.columns, f"each column to drop to be {known}")
    target = options.target or str(frame.columns[-1])
    check_columns([target], frame.columns, f"--target to be {known}")
    frame = frame.drop(columns=[name for name in options.drop if name != target])
    share = options.test_fraction
    if not share:
        return fit(frame, target), {}
    inside, outside = frame.random_split([1.0 - share, share], random_state=options.random_state)
    model = fit(inside, target)
    return model, _judged(model, outside.dropna(subset=[target]), target)


def _frame(options: argparse.Namespace) -> Any:
    files = files_of([options.data, *options.more], PARQUET, what="Parquet files")
    for file in files:
        if not file.lower().endswith(PARQUET):
            msg = (
                f"expected Parquet files, or a folder of them, where there are several, got {file}"
            )
            raise ValueError(msg)
    if not is_installed("dask"):
        msg = "several files need Dask: `pip install 'gpukfl[dask]'`"
        raise ImportError(msg)
    import dask.dataframe as dd

    return dd.read_parquet(files)


def _judged(model: Any, outside: Any, target: str) -> dict[str, float]:
    """Score predictions of rows that the fit has not seen, if there are any."""
    from sklearn.metrics import accuracy_score, r2_score

    truth = outside[target].compute().to_numpy()
    if not len(truth):
        return {}
    predicted = model.predict(outside.drop(columns=target)).compute().to_numpy()
    score = r2_score if model.task == "regression" else accuracy_score
    return {score_name(model, len(truth)): float(score(truth, predicted))}
