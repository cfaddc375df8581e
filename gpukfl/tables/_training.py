"""Rows, targets and weights as given by the user, read for a fit or a score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gpukfl.core._array import as_columns, is_array, is_host, lies_in_parts, to_host
from gpukfl.core._array import take_rows as take
from gpukfl.core._checks import suggest
from gpukfl.core._frames import (
    as_frame,
    check_container,
    check_size,
    column_array,
    column_names,
    frame_from_dicts,
    index_difference,
    is_frame,
    listed,
    rounded_integers,
    stringify_names,
)
from gpukfl.core._warnings import warn
from gpukfl.partitioned import Collections, is_dask
from gpukfl.tables._near_copies import warn_near_copies
from gpukfl.tables._relations import (
    NOTHING_GIVEN,
    GivenRelations,
    Relations,
    split_relation_columns,
)
from gpukfl.tables._target import (
    class_order,
    order_targets,
    read_target,
    target_name,
    warn_rounded_targets,
)
from gpukfl.tables._target_checks import Range, find_outliers, outliers_text

SAMPLE = 50_000  # most rows of Dask collections that are copied to this process
FEWEST = 1_000  # least rows of that sample
_MIN_ROWS = 2  # of a fit
_MOST_NAMED = 20  # columns in a message
# Errors of unreadable values; ignored here, as the checks of the fit report them
_CHECK_ERRORS = (NotImplementedError, OverflowError, TypeError, ValueError)
# Reasons for dropping rows, the keys of `Dataset.n_dropped`
_NO_WEIGHT, _NO_TARGET, _OUTLIER = "of weight 0", "without a target", "with a gross outlier"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with targets and weights.

    Attributes
    ----------
    X : array, frame or list
        Rows (n, d).
    y : array, series, frame or list
        Targets or labels (n,) or (n, t); of `read_training_data` an array.
    sample_weight : array or None
        Weights (n,).
    target_name : str or None
        Name of the target if the data have one; several are joined, as in "height, width".
    task : str
        "regression" or "classification"; "" if unknown.
    kind : str
        Kind of the targets: floats, integers, booleans, categories or text.
    n_dropped : dict of str to int
        Number of dropped rows by reason.
    everything : Collections or None
        All rows, if these are a sample of Dask collections.
    relations : Relations or None
        Groups, times or given splits of the rows.
    beside : tuple of str
        Columns of the frame that hold groups or times, and are no features.
    class_order : tuple of str
        Labels of ordered categories in their order; empty if classes are sorted.
    """

    X: Any
    y: Any
    sample_weight: Any = None
    target_name: str | None = None
    task: str = ""
    kind: str = ""
    n_dropped: Mapping[str, int] = field(default_factory=dict)
    everything: Collections | None = None
    relations: Relations | None = None
    beside: tuple[str, ...] = ()
    class_order: tuple[str, ...] = ()

    def __len__(self) -> int:
        return count_rows(self.X)

    def take(self, rows: np.ndarray, n: int, why: str, /) -> Dataset:
        """Return the data set of some of the n rows; `why` is the reason for dropping others."""
        weights = self.sample_weight
        if weights is not None and not np.isscalar(weights):
            weights = take_rows(weights, rows)
        X, y = take_rows(self.X, rows), take_rows(self.y, rows)
        dropped = {**self.n_dropped, why: n - len(rows)}
        relations = None if self.relations is None else self.relations.take(rows)
        return replace(
            self, X=X, y=y, sample_weight=weights, n_dropped=dropped, relations=relations
        )

    def check_splits(self) -> Dataset:
        """Return the data set; raise ValueError if its relations leave no rows to hold out."""
        if self.relations is not None:
            self.relations.check()
        return self

    def check(self) -> Dataset:
        """Return the data set as `check_splits`; without relations, warn of near copies."""
        if self.relations is None and self.everything is None:
            warn_near_copies(self.X)
        return self.check_splits()


def check_not_related(given: GivenRelations | Relations | None, where: str, /) -> None:
    """Raise TypeError if groups, time or cv are given for rows that are not in memory."""
    if given is not None and not (isinstance(given, GivenRelations) and given.is_empty):
        msg = f"expected no groups, time or cv with data {where}: they need all rows in memory"
        raise TypeError(msg)


def read_training_data(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    given: GivenRelations = NOTHING_GIVEN,
    /,
    *,
    task: str = "auto",
    random_state: Any = None,
) -> Dataset:
    """Read the training data of a model.

    Parameters
    ----------
    X : array, frame, list, list of dicts, or Dask collection
        Rows.
    y : str, list of str, array, series or frame
        Targets, or names of their columns in `X`.
    sample_weight : array, optional
        Weights. Rows of weight 0 are dropped before kinds of columns and classes are inferred.
    given : GivenRelations
        Groups, times or splits of the rows.
    task : {"auto", "regression", "classification"}, default="auto"
        Task of the target.
    random_state : int, RandomState or None
        Draws the sample of Dask collections.

    Returns
    -------
    Dataset
        Without rows of weight 0, rows without a target, and gross outliers of numeric targets.

    Raises
    ------
    TypeError, ValueError
        If rows, targets or weights are not as described, or no row has a target.

    Warns
    -----
    UserWarning
        Of targets or weights in another order than the rows, of dropped rows, and of ambiguous
        targets.
    """
    X, y, name = split_target(X, y)
    if any(map(is_dask, (X, y, sample_weight))):
        check_not_related(given, "in Dask collections")
        everything = Collections.from_inputs(X, y, sample_weight)
        some = everything.sample(check_random_state(random_state), max(SAMPLE, FEWEST))
        data = Dataset(*some, everything=everything)
    else:
        _check_lengths(X, y, sample_weight)
        data = pair_rows(_add_relations(X, y, sample_weight, given))
        data = drop_missing_targets(data, named=True)
    if data.everything is None and not is_frame(data.X):
        warn_rounded_columns(data.X)
    name = name or target_name(data.y)
    labels, target = find_index(data.y, data.X), read_target(data.y, task, name=name or "y")
    order = class_order(data.y) if target.task == "classification" else ()
    data = replace(data, y=target.y, target_name=name, task=target.task, kind=target.kind)
    data = replace(data, class_order=order)
    if target.task == "classification":
        return data.check()
    data = drop_outliers(data, labels).check()
    if data.everything is not None and len(data.y) < len(target.y):
        return replace(data, everything=data.everything.only(Range.from_targets(data.y)))
    return data


def _add_relations(X: Any, y: Any, sample_weight: Any, given: GivenRelations) -> Dataset:
    """Return the data with their relations, without the columns that name these."""
    if given.is_empty:
        return Dataset(X, y, sample_weight)
    X, given, beside = split_relation_columns(X, given)
    relations = Relations.read(given, X, y, count_rows(X))
    return Dataset(X, y, sample_weight, relations=relations, beside=beside)


def read_arrays(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    given: GivenRelations = NOTHING_GIVEN,
    /,
    *,
    classes: bool,
    named: bool = False,
) -> Dataset:
    """Read the training data of an estimator: numbers X, and targets or labels.

    Rows of weight 0 are dropped, and so are gross outliers of targets unless these are `classes`.
    The estimator checks other values. With `named`, see `name_columns`.
    """
    if not given.is_empty:
        _check_lengths(X, y, sample_weight)
    data = pair_rows(_add_relations(X, y, sample_weight, given))
    if not (named and is_frame(data.X)):  # the table warns of frames
        warn_rounded_columns(data.X)
    if not classes:
        warn_rounded_targets(data.y)
        data = drop_outliers(data)
    return replace(data.check(), X=name_columns(data.X)) if named else data.check()


def read_test_data(
    X: Any,
    y: Any,
    sample_weight: Any = None,
    given: GivenRelations = NOTHING_GIVEN,
    /,
    *,
    target: str,
    named: bool = True,
) -> Dataset:
    """Read rows and targets for the scores of a fitted model.

    Rows of weight 0 and rows without a target are dropped. `target` is the name of the model's
    target; several targets get the order of its names. With `named`, see `name_columns`.
    """
    X, y, name = split_target(X, y)
    related = _add_relations(X, order_targets(y, name or target), sample_weight, given)
    data = pair_rows(replace(related, target_name=name))
    return drop_missing_targets(data, named=named)


def _check_lengths(X: Any, y: Any, sample_weight: Any) -> None:
    """Raise ValueError unless rows, targets and weights have equal lengths."""
    check_container("X", X)
    check_container("y", y, labels=True)
    if X is None or y is None:
        msg = f"expected X and y, got None for the {'data X' if X is None else 'target y'}"
        raise ValueError(msg)
    sizes = [count_rows(X), count_rows(y)]
    if sample_weight is not None and not np.isscalar(sample_weight):
        sizes.append(count_rows(sample_weight))
    if len(set(sizes)) > 1:
        msg = (
            "Found input variables with inconsistent numbers of samples: expected as many targets "
            f"and weights as rows, got {sizes}"
        )
        raise ValueError(msg)
    if not sizes[0]:
        check_size(tuple(getattr(X, "shape", (0,))), _MIN_ROWS)


def count_rows(x: Any, /) -> int:
    """Count the rows of an array, a frame or a list."""
    return int(x.shape[0]) if hasattr(x, "shape") and x.shape else len(x)


def split_target(X: Any, y: Any, /) -> tuple[Any, Any, str | None]:
    """Split the columns named by `y` off a frame; return features, target and name.

    One name gives a series. A list of names gives a frame, and None for the name. Other values of
    `y` are the target itself.

    Raises
    ------
    TypeError
        If `y` is a name and `X` is no frame.
    ValueError
        If no column or several have that name, or no other column is left.
    """
    X, lazy = frame_from_dicts(X), is_dask(X)
    in_memory = not lazy and is_frame(X)
    y = _stringify_target_names(y, column_names(X))
    X = stringify_names(X) if in_memory else X
    columns = column_names(X)
    wanted = _target_names(y, set(map(str, columns)), len(X) if in_memory else None)
    if not wanted:
        return X, y, None
    if not (in_memory or lazy):
        msg = f"expected a frame with a column {y!r} for X, got {type(X).__name__}"
        if isinstance(X, (str, PathLike)):
            msg += ": to read a file, use pandas.read_csv"
        raise TypeError(msg)
    _check_found_once(wanted, [str(column) for column in columns])
    if len(wanted) == len(columns):
        msg = f"expected at least one feature beside the target {listed(wanted)}, got none"
        raise ValueError(msg)
    chosen: Any = [next(column for column in columns if str(column) == name) for name in wanted]
    one = isinstance(y, (str, Integral))
    chosen, name = (chosen[0], wanted[0]) if one else (chosen, None)
    if lazy:
        return X.drop(columns=chosen), X[chosen], name
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    return frame.drop(chosen).to_native(), frame[chosen].to_native(), name


def _stringify_target_names(y: Any, columns: Iterable[Any]) -> Any:
    """Return `y` with column names that are no text, such as tuples, as text."""
    odd = [name for name in columns if not isinstance(name, str)]

    def text(name: Any) -> Any:
        is_one = isinstance(name, tuple) or not (name is None or hasattr(name, "__len__"))
        return str(name) if is_one and name in odd else name

    named = text(y) if odd else y
    are_many = odd and isinstance(named, (list, tuple)) and isinstance(next(iter(named), 0), tuple)
    return list(map(text, named)) if are_many else named


def _target_names(y: Any, known: set[str], n_rows: int | None) -> list[str]:
    """Return the column names in `y`; an empty list if it holds values."""
    if isinstance(y, str) or (isinstance(y, Integral) and str(y) in known):
        return [str(y)]
    is_row = isinstance(y, np.ndarray) and y.ndim == 1
    are_many = is_row or isinstance(y, (list, tuple)) or hasattr(y, "get_indexer")  # an index
    if not are_many or not 0 < len(y) <= len(known) or len(y) == n_rows:
        return []
    names = [name for name in y if isinstance(name, str)]
    is_each = len(names) == len(y) == len(set(names))
    return names if is_each and not known.isdisjoint(names) else []


def _check_found_once(wanted: list[str], names: list[str]) -> None:
    for name in wanted:
        count = names.count(name)
        if count != 1:
            shown = ", ".join(names[:_MOST_NAMED]) + (", ..." if len(names) > _MOST_NAMED else "")
            hint = "" if count else suggest(name, names)
            msg = f"expected y to name one column of X, got {name!r}: {count} of {shown}{hint}"
            raise ValueError(msg)


def name_columns(X: Any, /) -> Any:
    """Convert host rows with missing values or text to a frame with names x0, x1, ...

    Infinite numbers count as missing. A list of dicts becomes a frame with their names.
    """
    X = frame_from_dicts(X)
    if isinstance(X, np.memmap) or np.ma.isMaskedArray(X):
        return X
    rows = _to_object_array(X) if isinstance(X, (list, tuple)) else X
    if not isinstance(rows, np.ndarray) or rows.ndim != 2 or _are_complete_numbers(rows):
        return X
    import pandas as pd

    return pd.DataFrame(rows, columns=[f"x{k}" for k in range(rows.shape[1])]).infer_objects()


def _are_complete_numbers(rows: np.ndarray) -> bool:
    """Whether all values are finite numbers."""
    if rows.dtype.kind not in "fOU":
        return True
    try:
        numbers = rows if rows.dtype.kind == "f" else rows.astype(np.float64)
    except (OverflowError, TypeError, ValueError):
        return False
    return bool(np.isfinite(numbers).all())


def _to_object_array(rows: Any) -> np.ndarray:
    """Convert rows of one length to an object array (n, d)."""
    try:
        return np.asarray(rows, dtype=object)
    except ValueError:
        return np.empty(0)


def warn_rounded_columns(X: Any, /) -> None:
    """Warn of host columns with different integers that are equal in float64."""
    if is_array(X) and (not is_host(X) or X.dtype.kind not in "iuO" or X.ndim != 2):
        return
    if isinstance(X, np.memmap) or lies_in_parts(X):
        return
    for name, column in _integer_columns(X):
        if not rounded_integers(column).any():
            continue
        before, after = len(np.unique(column)), len(np.unique(column.astype(np.float64)))
        if after < before:
            warn(
                f"column {name!r}: {before} different integers are rounded to {after} numbers of "
                f"float64: to keep them apart, pass columns={{{name!r}: 'category'}} to gpukfl.fit"
            )


def _integer_columns(X: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the names and values (n,) of columns of complete integers."""
    if is_host(X) or not is_frame(X):
        rows = np.asarray(X) if is_host(X) else _to_object_array(X)
        columns = enumerate(rows.T) if rows.ndim == 2 else ()
        named = ((f"x{k}", column) for k, column in columns)
    else:
        frame = as_frame(X)
        named = ((str(name), frame.iloc[:, k]) for k, name in enumerate(frame.columns))
    for name, column in named:
        if getattr(column.dtype, "kind", "") not in "iuO":
            continue
        values = np.asarray(column)
        if values.dtype.kind in "iu" or all(isinstance(v, Integral) for v in values):
            yield name, values


def pair_rows(data: Dataset, /) -> Dataset:
    """Pair rows with targets and weights by position, and drop rows of weight 0.

    Memory maps do not change, nor do values that the checks of a fit refuse.

    Warns
    -----
    UserWarning
        Of targets or weights whose index has labels of X in other rows.
    """
    difference = index_difference(data.X, data.y, "y")
    if difference:
        warn(difference)
    difference = index_difference(data.X, data.sample_weight, "sample_weight")
    if difference:
        warn(difference)
        # Without its index, so that nothing warns again
        data = replace(data, sample_weight=data.sample_weight.to_numpy())
    if data.sample_weight is None or isinstance(data.X, np.memmap) or lies_in_parts(data.X):
        return data
    weights = weights_on_host(data.sample_weight)
    if weights is None:
        return data
    _warn_rounded_weights(data.sample_weight)
    rows, n, beside = np.flatnonzero(weights), weights.size, (data.X, data.y)
    is_each = weights.ndim == 1 and all(hasattr(x, "__len__") and len(x) == n for x in beside)
    return data.take(rows, n, _NO_WEIGHT) if is_each and 2 <= len(rows) < n else data


def weights_on_host(sample_weight: Any, /) -> np.ndarray | None:
    """Return the weights on the host in float64, or None if they are invalid."""
    try:
        given = to_host(sample_weight) if is_array(sample_weight) else column_array(sample_weight)
        return np.array(given, dtype=np.float64)
    except _CHECK_ERRORS:
        return None


def _warn_rounded_weights(sample_weight: Any) -> None:
    """Warn of integer weights that float64 rounds."""
    given = sample_weight if is_array(sample_weight) else column_array(sample_weight)
    if is_host(given) and given.ndim == 1 and rounded_integers(given).any():
        warn("sample_weight has integers beyond 2**53, which float64 rounds")


def drop_missing_targets(data: Dataset, /, *, named: bool = False) -> Dataset:
    """Drop rows with a missing target, with a warning.

    Memory maps and targets on a device do not change. With `named`, see `name_columns`. Raises
    ValueError if no row has a target.
    """
    X = name_columns(data.X) if named else data.X
    data = replace(data, X=X, y=data.y if is_frame(data.y) else as_frame(data.y))
    missing = None if isinstance(X, np.memmap) else missing_targets(data.y)
    if missing is None or not missing.any():
        return data
    n, count = len(missing), int(missing.sum())
    if count == n:
        msg = f"expected targets, got NaN or None in all {n} rows"
        raise ValueError(msg)
    warn(f"y is missing in {count} of {n} rows, which are dropped", UserWarning)
    return data.take(np.flatnonzero(~missing), n, _NO_TARGET)


def missing_targets(y: Any) -> np.ndarray | None:
    """Return which rows (n,) have no target, or None if none can be missing."""
    from pandas import isna

    if is_array(y):
        if not is_host(y) or y.dtype.kind not in "fOmM" or y.ndim not in (1, 2):
            return None
        found = isna(y)
    elif is_frame(y):
        found = as_frame(y).isna().to_numpy()
    elif hasattr(y, "to_numpy") or isinstance(y, (list, tuple)):
        found = isna(np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y, dtype=object))
    else:
        return None
    return found.any(axis=1) if found.ndim == 2 else found


def take_rows(x: Any, rows: np.ndarray, /) -> Any:
    """Return some rows of data of any kind."""
    from pandas.api.extensions import ExtensionArray
    from sklearn.utils import _safe_indexing

    if isinstance(x, ExtensionArray):  # such as the values of a series
        return x.take(rows)
    return take(x, rows) if is_array(x) else _safe_indexing(x, rows)


# ---------------------------------------------------------------------- outliers


def drop_outliers(data: Dataset, labels: Any = None, /) -> Dataset:
    """Drop rows with gross outliers in numeric targets, with a warning.

    The warning names rows by `labels`: by default the index of `y` or `X`, or positions. In a
    memory map, outliers get weight 0. Partitioned rows do not change, nor do values that the checks
    of a fit refuse.

    Warns
    -----
    UserWarning
        Of rows that `find_outliers` finds among those of positive weight.
    """
    values = numbers_of_targets(data.y)
    has_rows = bool(getattr(data.X, "shape", None)) or isinstance(data.X, (list, tuple))
    if values is None or lies_in_parts(data.X) or not has_rows or len(values) != len(data):
        return data
    n = len(values)
    weights = np.ones(n) if data.sample_weight is None else weights_on_host(data.sample_weight)
    weights = np.full(n, float(weights)) if weights is not None and not weights.ndim else weights
    if weights is None or weights.shape != (n,):
        return data
    counted = np.flatnonzero(weights > 0)
    rows = counted[find_outliers(values[counted])] if len(counted) else counted
    if not len(rows):
        return data
    kept = np.setdiff1d(counted, rows)
    labels = find_index(data.y, data.X) if labels is None else labels
    warn(outliers_text(values, rows, kept, labels))
    if isinstance(data.X, np.memmap):
        weights[rows] = 0.0
        return replace(
            data, sample_weight=weights, n_dropped={**data.n_dropped, _OUTLIER: len(rows)}
        )
    return data.take(kept, n, _OUTLIER)


def drop_outliers_of_parts(everything: Collections, /) -> Collections:
    """Drop gross outliers in numeric targets from partitions, found in a sample of targets.

    Warns
    -----
    UserWarning
        As `drop_outliers`, of the sample's rows.
    """
    targets = replace(everything, X=everything.y, weights=None)
    X, y, _ = targets.sample(np.random.RandomState(0), max(SAMPLE, FEWEST))
    kept = drop_outliers(Dataset(X, y))
    return everything if len(kept.y) == len(y) else everything.only(Range.from_targets(kept.y))


def numbers_of_targets(y: Any, /) -> np.ndarray | None:
    """Return targets (n, t) on the host, or None unless they are finite numbers."""
    try:
        values = to_host(y) if is_array(y) else np.asarray(as_frame(y) if is_frame(y) else y)
        if values.dtype.kind == "c" or values.ndim not in (1, 2) or not values.size:
            return None
        values = np.asarray(as_columns(values.astype(np.float64)))
    except (*_CHECK_ERRORS, AttributeError):
        return None
    return values if np.isfinite(values).all() else None


def find_index(*given: Any) -> Any:
    """Return the first index among several values, or None."""
    for one in given:
        labels = getattr(one, "index", None)
        if labels is not None and not callable(labels):
            return labels
    return None
