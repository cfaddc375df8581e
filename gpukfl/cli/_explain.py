"""``gpukfl explain``: a model and rows in, what each column adds to their predictions out."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from gpukfl.cli._files import TABLES, check_writable, expand_files, try_to_write
from gpukfl.cli._predict import make_writer, read_rows
from gpukfl.core._streams import try_write_line

if TYPE_CHECKING:
    from gpukfl.inspection import Explanation


def run_explain(options: argparse.Namespace) -> int:
    """Run ``gpukfl explain``: contributions of columns to the predictions for the rows of tables.

    Each row has a line; of several outputs a line for each of them.
    """
    import pandas as pd

    from gpukfl import _multilabel

    files = expand_files([options.data, *options.more], TABLES, what="tables")
    for file in files:
        check_writable("--out", options.out, source=file)
    write = make_writer(options.out)
    model = _multilabel.load(options.model)
    reading = {"decimal": options.decimal, "na": options.na}
    parts = [read_rows(model, file, **reading) for file in files]
    rows = pd.concat(parts) if hasattr(parts[0], "columns") else np.concatenate(parts)
    others = None
    if options.background is not None:
        others = read_rows(model, options.background, **reading)
    found = model.explain(
        rows,
        background=others,
        groups=_parse_groups(options.group),
        output=options.output,
        max_time=options.max_time,
        random_state=options.random_state,
    )
    table = _contribution_frame(found)
    failed, said = try_to_write("contributions", options.out, lambda _: write(table))
    if failed:
        raise OSError(said)
    if options.out is None:
        write(table)
    for remark in found.remarks:
        try_write_line(f"gpukfl: note: {remark}", sys.stderr)
    return 0


def _parse_groups(given: list[str]) -> dict[str, list[str]] | None:
    """Read groups from texts "name=column,column"."""
    groups: dict[str, list[str]] = {}
    for text in given:
        name, equals, columns = text.partition("=")
        if not (name and equals and columns):
            msg = f"expected --group NAME=COLUMN,COLUMN, got {text!r}"
            raise ValueError(msg)
        if name in groups:
            msg = f"expected different names in --group, got {name!r} twice"
            raise ValueError(msg)
        groups[name] = columns.split(",")
    return groups or None


def _contribution_frame(found: Explanation) -> Any:
    """Return a frame with a line for each row and output."""
    import pandas as pd

    n, t = len(found), len(found.outputs)
    parts = np.moveaxis(found.contributions.reshape(n, -1, t), 2, 1).reshape(n * t, -1)
    head: dict[str, Any] = {"row": np.repeat(np.arange(n), t)}
    if t > 1:
        head["output"] = np.tile(np.array(found.outputs, dtype=object), n)
    head["prediction"] = found.prediction.reshape(-1)
    head["baseline"] = np.tile(np.atleast_1d(found.baseline), n)
    names = [f"contribution_{name}" for name in found.columns]
    return pd.concat([pd.DataFrame(head), pd.DataFrame(parts, columns=names)], axis=1)
