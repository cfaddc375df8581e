"""``gpukfl predict``: a model and a table in, a column of predictions out."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl._warnings import warn
from gpukfl.cli._files import check_writable
from gpukfl.datasets._names import check_columns, listed

if TYPE_CHECKING:
    from gpukfl._model import Model


def predict(options: argparse.Namespace) -> int:
    """Predict for every row of a table, with its columns in any order."""
    import pandas as pd

    from gpukfl import _model
    from gpukfl.datasets import load_frame

    check_writable("--out", options.out, source=options.data)
    model = _model.load(options.model)
    table = model.table
    if table is None:
        kinds = dict.fromkeys(model.feature_names, "numeric")
    else:
        kinds = {column.name: column.kind for column in table.columns}
    frame = load_frame(options.data, kinds=kinds, decimal=options.decimal)
    predictions = np.asarray(model.predict(_numbers(frame, model) if table is None else frame))
    columns = [model.target_name]
    if predictions.ndim == 2:
        columns = [f"{model.target_name}_{k}" for k in range(predictions.shape[1])]
    told = pd.DataFrame(predictions.reshape(len(predictions), -1), columns=columns)
    told.to_csv(options.out or sys.stdout, index=False)
    return 0


def _numbers(frame: Any, model: Model) -> Any:
    """Columns of a model of complete numbers, in its order."""
    from gpukfl._columns import numeric_frame

    names = model.feature_names
    check_columns(names, frame.columns, f"the columns {listed(names)}, got none called ")
    new = [name for name in frame.columns if name not in {*names, model.target_name}]
    if new:
        warn(f"columns that the model does not know are ignored: {listed(new)}")
    frame = numeric_frame(frame[names])
    return frame if hasattr(model.estimator, "feature_names_in_") else frame.to_numpy()
