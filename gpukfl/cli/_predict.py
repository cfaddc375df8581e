"""``gpukfl predict``: a model and a table in, a column of predictions out."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl._places import is_installed
from gpukfl._target import parts_of_name, target_names
from gpukfl._warnings import warn
from gpukfl.cli._files import check_writable
from gpukfl.datasets._names import check_columns, listed

if TYPE_CHECKING:
    from gpukfl._model import Model

_CSV = re.compile(r"\.csv(\.(gz|bz2|xz|zip))?$", re.IGNORECASE)  # pandas packs by the name


def predict(options: argparse.Namespace) -> int:
    """Predict for every row of a table, with its columns in any order."""
    import pandas as pd

    from gpukfl import _model
    from gpukfl.datasets import load_frame

    check_writable("--out", options.out, source=options.data)
    write = _writer(options.out)
    model = _model.load(options.model)
    table = model.table
    if table is None:
        kinds = dict.fromkeys(model.feature_names, "numeric")
    else:
        kinds = {column.name: column.kind for column in table.columns}
    frame = load_frame(options.data, kinds=kinds, decimal=options.decimal)
    predictions = np.asarray(model.predict(_numbers(frame, model) if table is None else frame))
    predictions = predictions.reshape(len(predictions), -1)
    columns = target_names(model.target_name, predictions.shape[1])
    write(pd.DataFrame(predictions, columns=columns))
    return 0


def _writer(path: str | None) -> Callable[[Any], None]:
    """Find what writes a frame: as Parquet or CSV, by the name of the file.

    Raises
    ------
    ValueError
        If the name says something else.
    ImportError
        If it says Parquet, and pyarrow is not installed.
    """
    if path is None:
        return lambda frame: frame.to_csv(sys.stdout, index=False)
    suffix = Path(path).suffix.lower()
    if suffix in (".parquet", ".pq"):
        if not is_installed("pyarrow"):
            msg = f"writing {suffix} needs pyarrow: `pip install 'gpukfl[parquet]'`"
            raise ImportError(msg)
        return lambda frame: frame.to_parquet(path, engine="pyarrow", index=False)
    if suffix and _CSV.search(path) is None:
        msg = f"expected a file .csv, .csv.gz or .parquet for --out, got {path}"
        raise ValueError(msg)
    return lambda frame: frame.to_csv(path, index=False)


def _numbers(frame: Any, model: Model) -> Any:
    """Columns of a model that was fitted to complete numbers, in its order."""
    from gpukfl._columns import numeric_frame
    from gpukfl._reader import takes_gaps

    names = model.feature_names
    check_columns(names, frame.columns, f"the columns {listed(names)}, got none called ")
    known = {*names, *parts_of_name(model.target_name)}
    new = [name for name in frame.columns if name not in known]
    if new:
        warn(f"columns that the model does not know are ignored: {listed(new)}")
    frame = numeric_frame(frame[names], gaps=takes_gaps(model.estimator))
    return frame if hasattr(model.estimator, "feature_names_in_") else frame.to_numpy()
