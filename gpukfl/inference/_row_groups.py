"""Groups of rows that inference is asked of: those that are given, or that the fit named."""

from __future__ import annotations

import ast
from typing import Any

from gpukfl.core._frames import column_names, is_frame
from gpukfl.core._warnings import warn

UNRELATED = object()  # rows are independent, and whoever asked has been told


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
    if words.get("groups", "groups") != "groups":
        name = ast.literal_eval(words["groups"])
        if is_frame(X) and name in column_names(X):
            return name
    if "groups" in words:
        warn(
            "this model was fitted with groups: without row_groups these rows are taken as "
            "independent, and p-values and errors may be too small. Pass row_groups"
        )
    elif "time" in words:
        warn(
            "this model was fitted with time: these rows are taken as independent, and p-values "
            "and errors may be too small. Pass blocks of time as row_groups, such as weeks"
        )
    return None
