"""``gpukfl leaderboard``: what the models of a blend score, in the fit or on a table."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from gpukfl.cli._files import check_writable, try_to_write
from gpukfl.cli._predict import make_writer, read_table, target_columns
from gpukfl.core._frames import is_frame
from gpukfl.core._streams import print_output
from gpukfl.tables._files import check_columns, join_names

if TYPE_CHECKING:
    from gpukfl._model import Model


def run_leaderboard(options: argparse.Namespace) -> int:
    """Run ``gpukfl leaderboard``: print the scores of every model, or write them."""
    from gpukfl import _multilabel

    if options.data is not None:
        check_writable("--out", options.out, source=options.data)
    write = None if options.out is None else make_writer(options.out)
    model = _multilabel.load(options.model)
    found = model.leaderboard(*_read_scored_table(options, model))
    if write is None:
        print_output(found.to_string(index=False))
        return 0
    failed, said = try_to_write("scores", options.out, lambda _: write(found))
    if failed:
        raise OSError(said)
    return 0


def _read_scored_table(options: argparse.Namespace, model: Model) -> tuple[Any, ...]:
    """Return rows and targets of the table, or nothing without one."""
    if options.data is None:
        return ()
    frame, rows = read_table(model, options.data, decimal=options.decimal, na=options.na)
    target = model.target_name if options.target is None else options.target
    names = target_columns(target, frame)
    check_columns(names, frame.columns, f"the target to be one of {join_names(frame)}, got ")
    rows = rows.drop(columns=[name for name in names if name in rows]) if is_frame(rows) else rows
    return rows, frame[names[0]] if len(names) == 1 else frame[names]
