"""``gpukfl refit`` and ``drift``: a model and later rows, to which it is fitted or compared."""

from __future__ import annotations

import argparse

from gpukfl.cli._files import check_writable, try_to_write
from gpukfl.cli._predict import make_writer, read_rows, read_table, target_columns
from gpukfl.core._streams import print_output
from gpukfl.tables._files import check_columns, join_names


def run_refit(options: argparse.Namespace) -> int:
    """Run ``gpukfl refit``: fit the members of a model to a table with the same columns."""
    from gpukfl import _multilabel

    check_writable("--out", options.out, source=options.data)
    model = _multilabel.load(options.model)
    every, rows = read_table(model, options.data, decimal=options.decimal, na=options.na)
    named = target_columns(options.target or model.target_name, every)
    known = f"the target in {options.data} (--target names it), one of {join_names(every)}, got "
    check_columns(named, every.columns, known)
    y = every[named[0]] if len(named) == 1 else every[named]
    if hasattr(rows, "columns"):
        rows = rows.drop(columns=[name for name in named if name in rows.columns])
    related = {name: getattr(options, name) for name in ("groups", "time")}
    found = model.refit(rows, y, **{name: every[key] for name, key in related.items() if key})
    failed, said = try_to_write("model", options.out, found.save)
    if failed:
        raise OSError(said)
    print_output(f"{found.summary()}\n{said}")
    return 0


def run_drift(options: argparse.Namespace) -> int:
    """Run ``gpukfl drift``: compare the columns of a table with those of a model's fit."""
    from gpukfl import _multilabel

    check_writable("--out", options.out, source=options.data)
    write = make_writer(options.out)
    model = _multilabel.load(options.model)
    found = model.drift(read_rows(model, options.data, decimal=options.decimal, na=options.na))
    failed, said = try_to_write("drift", options.out, lambda _: write(found))
    if failed:
        raise OSError(said)
    if options.out is None:
        write(found)
    return 0
