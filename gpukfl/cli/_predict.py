"""``gpukfl predict``: a model and tables in, columns of predictions out."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl.cli._files import TABLES, check_writable, expand_files, try_to_write, write_whole
from gpukfl.core._frames import SEVERAL, parts_of_name
from gpukfl.core._places import is_installed
from gpukfl.core._warnings import warn
from gpukfl.tables._files import MISSING, check_columns, join_names
from gpukfl.tables._target import target_names

if TYPE_CHECKING:
    from gpukfl._model import Model

_CSV = re.compile(r"\.csv(\.(gz|bz2|xz|zip))?$", re.IGNORECASE)
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}


def run_predict(options: argparse.Namespace) -> int:
    """Run ``gpukfl predict``: predict for the rows of tables, with columns in any order."""
    import pandas as pd

    from gpukfl import _multilabel

    files = expand_files([options.data, *options.more], TABLES, what="tables")
    for file in files:
        check_writable("--out", options.out, source=file)
    write = make_writer(options.out)
    model = _multilabel.load(options.model)
    wanted = {"probabilities": options.probabilities, "interval": options.interval}
    rows = (read_rows(model, file, options.decimal, options.na) for file in files)
    found = pd.concat([_prediction_frame(model, one, **wanted) for one in rows])
    failed, said = try_to_write("predictions", options.out, lambda _: write(found))
    if failed:
        raise OSError(said)
    if options.out is None:
        write(found)
    return 0


def read_rows(model: Model, file: str, /, decimal: str | None, na: list[str] | None) -> Any:
    """Read the columns of a table that the model takes."""
    return read_table(model, file, decimal, na)[1]


def read_table(
    model: Model, file: str, /, decimal: str | None, na: list[str] | None
) -> tuple[Any, Any]:
    """Read a table; return the frame, and the columns that the model takes.

    Columns that `gpukfl fit --drop` left out are left out again.
    """
    from gpukfl.datasets import load_frame

    table = model.table
    if table is None:
        kinds = dict.fromkeys(model.feature_names, "numeric")
        frame = load_frame(file, kinds=kinds, decimal=decimal, na_values=na)
        return frame, _numeric_rows(frame, model)
    kinds = {column.name: column.kind for column in table.columns}
    # Words that were levels in the fit are levels, and others that may be missing values are such
    words = {*MISSING, "None", *(na or ())}
    na_values = {column.name: sorted(words.difference(column.levels)) for column in table.columns}
    if na is not None:
        na_values |= dict.fromkeys(parts_of_name(model.target_name), na)
    frame = load_frame(file, kinds=kinds, decimal=decimal, na_values=na_values)
    return frame, frame.drop(columns=[name for name in model.dropped if name in frame])


def target_columns(target: str, frame: Any, /) -> list[str]:
    """Return the columns that a target's name stands for in a table: "height, width" are two."""
    return [target] if target in frame.columns else target.split(SEVERAL)


def _prediction_frame(
    model: Model, rows: Any, /, *, probabilities: bool, interval: float | None
) -> Any:
    """Return a frame of predictions with the other outputs that were asked for."""
    import pandas as pd

    predictions = _as_2d(model.predict(rows))
    names = target_names(model.target_name, predictions.shape[1])
    found = pd.DataFrame(predictions, columns=names)
    if probabilities:
        shares = _as_2d(model.predict_proba(rows))  # says it, where there are no classes
        found[[f"probability_{label}" for label in model.classes_]] = shares
    if interval is not None:
        ends = _as_2d(model.predict_interval(rows, interval)).T
        for name, lower, upper in zip(names, ends[::2], ends[1::2], strict=True):
            found[f"{name}_lower"], found[f"{name}_upper"] = lower, upper
    return found


def _as_2d(of_rows: Any) -> np.ndarray:
    host = np.asarray(of_rows)
    return host.reshape(len(host), -1)


def make_writer(path: str | None) -> Callable[[Any], None]:
    """Return a function that writes a frame as Parquet or CSV, by the file's suffix."""
    if path is None:
        if sys.stdout is None:
            msg = "standard output is closed: pass --out FILE for the predictions"
            raise ValueError(msg)
        return lambda frame: frame.to_csv(sys.stdout, index=False)
    suffix = Path(path).suffix.lower()
    if suffix in (".parquet", ".pq"):
        if not is_installed("pyarrow"):
            msg = f"writing {suffix} needs pyarrow: `pip install 'gpukfl[parquet]'`"
            raise ImportError(msg)
        return lambda frame: write_whole(
            path, lambda file: frame.to_parquet(file, engine="pyarrow", index=False)
        )
    if suffix and _CSV.search(path) is None:
        msg = f"expected a file .csv, .csv.gz or .parquet for --out, got {path}"
        raise ValueError(msg)
    packed: dict[str, Any] = {"method": _PACKED.get(suffix)}
    if suffix == ".zip":
        packed["archive_name"] = Path(path).stem
    return lambda frame: write_whole(
        path, lambda file: frame.to_csv(file, mode="wb", index=False, compression=packed)
    )


def _numeric_rows(frame: Any, model: Model) -> Any:
    """Return the columns that a model of complete numbers was fitted to, in its order."""
    from gpukfl.core._frames import numeric_frame
    from gpukfl.tables._reader import allows_missing

    names = model.feature_names
    check_columns(names, frame.columns, f"columns {join_names(names)}, got no column ")
    known = {*names, *parts_of_name(model.target_name), *model.dropped}
    new = [name for name in frame.columns if name not in known]
    if new:
        warn(f"columns that were not in the fit are ignored: {join_names(new)}")
    frame = numeric_frame(frame[names], gaps=allows_missing(model.estimator))
    return frame if hasattr(model.estimator, "feature_names_in_") else frame.to_numpy()
