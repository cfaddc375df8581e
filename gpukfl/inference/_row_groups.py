"""Groups of rows that inference is asked of: those that are given, or that the fit named."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from gpukfl.core._frames import column_names, is_frame, stringify_names
from gpukfl.core._warnings import warn
from gpukfl.partitioned import is_dask
from gpukfl.tables._relations import GivenRelations, Relations, split_relation_columns

UNRELATED = object()  # rows are independent, and whoever asked has been told


def named_groups(model: Any, X: Any, /) -> str | None:
    """Return the column of groups that the fit of a model named, if X has several of them."""
    words = getattr(model, "related", None) or {}
    if words.get("groups", "groups") == "groups" or is_dask(X) or not is_frame(X):
        return None
    name = str(ast.literal_eval(words["groups"]))
    if name not in column_names(X):
        return None
    import narwhals as nw

    column = nw.from_native(stringify_names(X), eager_only=True)[name]
    return name if column.null_count() == 0 and column.n_unique() > 1 else None


def read_named_groups(model: Any, X: Any, /) -> np.ndarray | None:
    """Return codes (n,) of the groups that the fit of a model named, or None."""
    name = named_groups(model, X)
    if name is None:
        return None
    _, given, _ = split_relation_columns(X, GivenRelations(groups=name))
    found = Relations.read(given, None, None, len(X))
    return None if found is None else found.groups


def find_row_groups(model: Any, X: Any, row_groups: Any, /) -> Any:
    """Return the groups of rows, or the name of their column in X, or None.

    Where none are given, they are the column that the fit of the model named, if X has it.

    Warns
    -----
    UserWarning
        Where the model was fitted with groups or times, and nothing says how these rows depend on
        each other.
    """
    words = getattr(model, "related", None)
    if row_groups is UNRELATED:
        return None
    if row_groups is not None or X is None or not words:
        return row_groups
    name = named_groups(model, X)
    if name is not None:
        return name
    if "groups" in words:
        warn(
            "this model was fitted with groups, but these rows are treated as independent: "
            "p-values and errors may be too small. Pass row_groups"
        )
    elif "time" in words:
        warn(
            "this model was fitted with time, but these rows are treated as independent: p-values "
            "and errors may be too small. Pass blocks of time, such as weeks, as row_groups"
        )
    return None
