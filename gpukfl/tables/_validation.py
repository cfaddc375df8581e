"""Validation rows in place of folds, joined to the rows of a fit and never fitted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gpukfl.core._array import (
    array_namespace,
    is_array,
    is_host,
    library_name,
    lies_in_parts,
    to_host,
)
from gpukfl.core._frames import (
    as_frame,
    column_names,
    frame_from_dicts,
    index_difference,
    is_frame,
    listed,
    stringify_names,
)
from gpukfl.core._warnings import warn
from gpukfl.partitioned import is_dask
from gpukfl.tables._relations import GivenRelations, Relations
from gpukfl.tables._training import (
    count_rows,
    missing_targets,
    split_target,
    take_rows,
    weights_on_host,
)


class JoinedRows(NamedTuple):
    """Rows of a fit, followed by those of its validation."""

    X: Any
    y: Any
    sample_weight: Any
    given: GivenRelations


def join_validation(
    X: Any, y: Any, sample_weight: Any, given: GivenRelations, validation: Any, /
) -> JoinedRows:
    """Join rows of validation to those of a fit.

    Parameters
    ----------
    X, y, sample_weight : as of a fit
        Rows, targets, and weights or None. `y` may name columns of `X`.
    given : GivenRelations
        Must be empty, as validation replaces it.
    validation : tuple (X, y) or (X, y, sample_weight), or frame
        A frame holds the columns that `y` names.

    Raises
    ------
    TypeError
        If validation is of another type, rows are not in memory, or `given` is not empty.
    ValueError
        If validation has no rows, other columns, or other numbers of targets or weights than rows.
    """
    if not given.is_empty:
        one = "each defines the held-out rows"
        msg = f"expected validation or {', '.join(given.words)}, got both: {one}"
        raise TypeError(msg)
    named = isinstance(y, str)
    X, y_values, _ = split_target(X, y)
    Xv, yv, wv = read_validation(validation, y if named or y_values is not y else None)
    for name, one in (("X", X), ("y", y_values), ("validation", Xv), ("validation", yv)):
        if is_dask(one) or isinstance(one, np.memmap) or lies_in_parts(one):
            msg = f"expected {name} in memory with validation, got {type(one).__name__}"
            raise TypeError(msg)
    n = count_rows(X)
    _check_counts("y and sample_weight", n, y_values, sample_weight)
    _check_counts("validation", count_rows(Xv), yv, wv)
    Xv, yv, wv = _drop_missing_targets(Xv, yv, wv)
    m = count_rows(Xv)
    if not m:
        msg = "expected validation with at least one row, got none"
        raise ValueError(msg)
    for rows, targets in ((X, y_values), (Xv, yv)):
        difference = index_difference(rows, targets, "y")
        if difference:
            warn(difference)
    X, y = _join_rows(X, Xv), _join_targets(y_values, yv)
    return JoinedRows(X, y, _join_weights(sample_weight, wv, n, m), GivenRelations(n_training=n))


def check_validation_classes(labels: Any, relations: Relations | None, /) -> None:
    """Raise ValueError if validation rows have an unknown class, or one class of several."""
    if relations is None or not relations.is_validation:
        return
    values = np.asarray(to_host(labels) if is_array(labels) else labels).reshape(-1)
    inside = relations.training_rows
    known = list(dict.fromkeys(values[inside].tolist()))
    new = [one for one in dict.fromkeys(values.tolist()) if one not in set(known)]
    if new:
        msg = (
            f"expected validation with classes of the fit ({listed(map(str, known))}), got "
            f"{listed(map(str, new))}"
        )
        raise ValueError(msg)
    judged = set(np.delete(values, inside).tolist())
    if len(judged) == 1 and len(known) > 1:
        msg = f"expected rows of at least two classes in validation, got only {judged.pop()!r}"
        raise ValueError(msg)


def read_validation(validation: Any, named: Any) -> tuple[Any, Any, Any]:
    """Return rows, targets, and weights or None; `named` is y where it names columns."""
    frame = frame_from_dicts(validation)
    if is_dask(frame):
        msg = "expected validation in memory, got a Dask collection"
        raise TypeError(msg)
    is_tuple = isinstance(validation, (tuple, list)) and frame is validation
    if is_tuple and len(validation) in (2, 3):  # without or with weights
        X, y, *rest = validation
        X, y, _ = split_target(X, y)
        return X, y, rest[0] if rest else None
    if is_frame(frame) and not is_array(frame):
        if named is None:
            msg = "expected validation=(X, y), or a column name as y, got a frame alone"
            raise TypeError(msg)
        X, y, _ = split_target(frame, named)
        return X, y, None
    msg = (
        "expected validation to be (X, y), (X, y, sample_weight), or a frame with the target "
        f"column, got {type(validation).__name__}"
    )
    raise TypeError(msg)


def _drop_missing_targets(Xv: Any, yv: Any, wv: Any) -> tuple[Any, Any, Any]:
    """Drop rows of validation without a target, with a warning."""
    missing = missing_targets(yv)
    if missing is None or not missing.any():
        return Xv, yv, wv
    count, kept = int(missing.sum()), np.flatnonzero(~missing)
    warn(f"y of validation is missing in {count} of {len(missing)} rows, which are dropped")
    weights = wv if wv is None or np.ndim(wv) == 0 else take_rows(wv, kept)
    return take_rows(Xv, kept), take_rows(yv, kept), weights


def _check_counts(name: str, n: int, *others: Any) -> None:
    sizes = [count_rows(one) for one in others if one is not None and not np.isscalar(one)]
    if any(size != n for size in sizes):
        msg = f"expected {name} with as many targets and weights as rows, got {[n, *sizes]}"
        raise ValueError(msg)


def _join_rows(X: Any, Xv: Any) -> Any:
    """Return rows of both, with the columns of the first."""
    X, Xv = frame_from_dicts(X), frame_from_dicts(Xv)
    if is_array(X) != is_array(Xv) or is_frame(X) != is_frame(Xv):
        msg = f"expected validation rows to be {type(X).__name__}, as X is, got {type(Xv).__name__}"
        raise TypeError(msg)
    if is_array(X):
        if X.ndim != 2 or Xv.ndim != 2 or X.shape[1] != Xv.shape[1]:
            msg = f"expected validation with the columns of X, {X.shape}, got {Xv.shape}"
            raise ValueError(msg)
        return _concatenate(X, Xv)
    if not is_frame(X):
        return [*X, *Xv]
    import pandas as pd

    parts = [as_frame(stringify_names(one)) for one in (X, Xv)]
    names, others = map(column_names, parts)
    if set(names) != set(others):
        lacking = [name for name in names if name not in others]
        new = [name for name in others if name not in names]
        said = [f"no {listed(lacking)}"] if lacking else []
        said += [f"also {listed(new)}"] if new else []
        msg = f"expected validation with the columns of X, got {' and '.join(said)}"
        raise ValueError(msg)
    return pd.concat([parts[0], parts[1][names]], ignore_index=True)


def _join_targets(y: Any, yv: Any) -> Any:
    """Return the targets of both."""
    if is_array(y) and is_array(yv):
        if y.shape[1:] != yv.shape[1:]:
            msg = f"expected validation with targets of the shape {y.shape}, got {yv.shape}"
            raise ValueError(msg)
        return _concatenate(y, yv)
    import pandas as pd

    parts = [to_host(one) if is_array(one) else as_frame(one) for one in (y, yv)]
    if any(getattr(one, "ndim", 1) == 2 for one in parts):
        frames = [pd.DataFrame(one) for one in parts]
        if frames[0].shape[1] != frames[1].shape[1]:
            counts = [one.shape[1] for one in frames]
            msg = f"expected validation with {counts[0]} targets, got {counts[1]}"
            raise ValueError(msg)
        names = list(frames[0].columns)
        if set(names) != set(frames[1].columns):
            frames[1].columns = names
        return pd.concat([frames[0], frames[1][names]], ignore_index=True)
    joined = pd.concat([pd.Series(one) for one in parts], ignore_index=True)
    joined.name = getattr(parts[0], "name", None)
    return joined


def _concatenate(x: Any, other: Any) -> Any:
    if is_host(x) and is_host(other):
        return np.concatenate([x, other])
    if library_name(x) != library_name(other):
        msg = f"expected validation arrays of {library_name(x)}, got {library_name(other)}"
        raise TypeError(msg)
    xp = array_namespace(x)
    return xp.concat([x, xp.astype(xp.asarray(other, device=x.device), x.dtype)], axis=0)


def _join_weights(w: Any, wv: Any, n: int, m: int) -> Any:
    """Return the weights (n + m,), each part scaled to mean 1, or None."""
    if w is None and wv is None:
        return None
    known = [
        weights_on_host(np.full(count, 1.0 if one is None else one) if np.ndim(one) == 0 else one)
        for count, one in ((n, w), (m, wv))
    ]
    for name, one in zip(("sample_weight", "weights of validation"), known, strict=True):
        if one is None or not (np.isfinite(one) & (one >= 0)).all() or not one.any():
            msg = f"expected {name} of at least 0 and not all 0, got others"
            raise ValueError(msg)
    return np.concatenate([one / one[one > 0].mean() for one in known if one is not None])
