"""Columns that give the target away: the target itself, or what is made of it alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln
from scipy.stats import rankdata

from gpukfl.core._array import as_columns, is_host
from gpukfl.core._frames import as_frame, is_frame
from gpukfl.core._warnings import warn

_FEWEST, _SOME = 64, 2_000  # rows by which a column is looked at, before all are
_CHANCE = -20.0  # logarithm of the probability that is no accident, of one column
_FEW = 20  # different values of a column or a target that may be levels
_LEFT = 0.01  # share of the variance of ranks that rounding may take of a column or a target
_KNOWN = 0.5  # share of the rows in which a column must have a value


def warn_target_leakage(X: Any, y: Any, /, *, classes: bool) -> None:
    """Warn of columns of a frame that tell the target of every row.

    Parameters
    ----------
    X : frame or other data
        Nothing is said of what is no frame.
    y : array, shape (n,) or (n, t)
        Targets, or labels of `classes`.

    Notes
    -----
    A column tells numbers where it has the order of the target, or the reverse, and both are equal
    in the same rows but for rounding. It tells classes where each level, or range, has one class.
    Rows in random order would agree so with a probability below 1e-8. All rows are looked at only
    in columns that agree in some.
    """
    if not is_frame(X) or not is_host(y) or np.ndim(y) not in (1, 2):
        return
    frame, targets = as_frame(X), np.asarray(as_columns(y)).T
    if not classes and not (targets.dtype.kind in "biuf" and np.isfinite(targets).all()):
        return  # which the fit refuses
    chance = _chance_of_classes if classes else _chance_of_order
    same, found = set[int](), set[int]()
    for target in targets:
        for k in _candidates(frame, target, classes):
            column = frame.iloc[:, k]
            few = [_rows_of(len(frame), size) for size in (_FEWEST, _SOME) if size < len(frame)]
            if all(_is_same(column.iloc[rows], target[rows]) for rows in [*few, slice(None)]):
                same.add(k)
                continue
            agrees = all(np.isfinite(chance(column.iloc[rows], target[rows])) for rows in few)
            if agrees and chance(column, target) < _CHANCE:
                found.add(k)
    columns = list(map(str, frame.columns))
    names = [columns[k] for k in sorted(same)]
    if names:
        those = "is the target" if len(names) == 1 else "are the target each"
        ways = f"leave it out, or give its name for y: fit(X, {names[0]!r})"
        warn(f"of the columns of X, {', '.join(names)} {those}: {ways}")
    names = [columns[k] for k in sorted(found - same)]
    if names and len(columns) > 1:  # of a single column there is nothing to leave out
        how = "each of its values has one class" if classes else "it has the order of the target"
        warn(
            f"of the columns of X, {', '.join(names)} may give the target away: {how} in every "
            f"row. Leave out what is not known before the target, X.drop(columns={names})"
        )


def _rows_of(n: int, size: int) -> np.ndarray:
    return np.arange(n) if n <= size else np.linspace(0, n - 1, size).astype(np.int64)


def _candidates(frame: Any, y: np.ndarray, classes: bool) -> list[int]:
    """Columns that may tell a target, by few rows: complete numbers are looked at together."""
    n, d = frame.shape
    rows = _rows_of(n, _FEWEST)
    few, y = frame.iloc[rows], y[rows]
    plain = [
        k for k, one in enumerate(few.dtypes) if isinstance(one, np.dtype) and one.kind in "iuf"
    ]
    values = few.iloc[:, plain].to_numpy(dtype=np.float64)
    known = np.isfinite(values).all(axis=0)
    if classes:
        order, (codes, k) = np.argsort(values, axis=0), _codes(y)
        changes = np.diff(codes[order], axis=0) != 0
        ties = np.diff(np.take_along_axis(values, order, axis=0), axis=0) == 0
        n_groups = 1 + np.minimum((~ties).sum(axis=0), changes.sum(axis=0))
        may = ~(changes & ties).any(axis=0) & (n_groups <= max(_FEW, k))
    else:
        order = np.argsort(y)
        steps = np.diff(values[order], axis=0)[np.diff(y[order]) > 0]
        may = (steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)
    ruled_out = {plain[k] for k in np.flatnonzero(known & ~may)}
    return [k for k in range(d) if k not in ruled_out]


def _is_same(column: Any, y: np.ndarray) -> bool:
    values = np.asarray(column)
    kinds = values.dtype.kind in "biuf", y.dtype.kind in "biuf"
    if kinds == (True, True):
        return np.array_equal(values, y)
    return kinds == (False, False) and values.astype(str).tolist() == y.astype(str).tolist()


def _chance_of_order(column: Any, y: np.ndarray) -> float:
    """Logarithm of the chance that numbers have the order of targets; infinite if they do not."""
    c, known = _numbers(column)
    c, y = c[known], y[known].astype(np.float64)
    if np.count_nonzero(known) < _KNOWN * len(known) or not (_ascends(c, y) or _ascends(c, -y)):
        return np.inf
    if max(_left(y, c), _left(c, y)) > _LEFT:
        return np.inf
    in_c, in_y = (np.unique(one, return_counts=True)[1] for one in (c, y))
    in_both = np.unique(np.stack([c, y]), axis=1, return_counts=True)[1]
    # So many orders of the targets have the order of the column
    orders = _log_orders(in_c) + _log_orders(in_y) - _log_orders(in_both)
    return orders - _log_orders(np.array([len(c)]))


def _left(values: np.ndarray, by: np.ndarray) -> float:
    """Share of the variance of the ranks of values that is left among equal ones of another."""
    ranks = rankdata(values) - 0.5 * (len(values) + 1)
    _, group, counts = np.unique(by, return_inverse=True, return_counts=True)
    left = ranks - (np.bincount(group, ranks) / counts)[group]
    return float(left @ left) / max(float(ranks @ ranks), 0.5)


def _ascends(c: np.ndarray, y: np.ndarray) -> bool:
    """Whether no pair of rows is in one order by `c`, and in the other by `y`."""
    return bool((np.diff(y[np.lexsort((y, c))]) >= 0).all())


def _log_orders(counts: np.ndarray) -> float:
    """Logarithm of the number of orders within groups."""
    return float(gammaln(counts + 1.0).sum())


def _chance_of_classes(column: Any, y: np.ndarray) -> float:
    """Logarithm of the chance that levels, or ranges of numbers, have one class; or infinity."""
    import pandas as pd

    c, known = _numbers(column)
    if not known.any():
        c, _ = pd.factorize(column)
        known = c >= 0
    c, (codes, k) = c[known], _codes(y[known])
    order = np.lexsort((codes, c))
    changes, ties = np.diff(codes[order]) != 0, np.diff(c[order]) == 0
    n_groups = min(len(c) - np.count_nonzero(ties), 1 + np.count_nonzero(changes))
    is_mixed = (changes & ties).any() or n_groups > max(_FEW, k)
    if np.count_nonzero(known) < _KNOWN * len(known) or is_mixed:
        return np.inf
    # Of so many orders of the labels at most so many leave each group one class
    orders = n_groups * np.log(max(k, 1)) + _log_orders(np.bincount(codes))
    return float(orders - _log_orders(np.array([len(c)])))


def _codes(y: np.ndarray) -> tuple[np.ndarray, int]:
    """Classes (n,) as numbers, and how many there are."""
    import pandas as pd

    codes, labels = pd.factorize(y)
    return codes, len(labels)


def _numbers(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (n,), also those that are written as text, and which are known; none of others."""
    import pandas as pd

    if column.dtype.kind in "mM" or isinstance(column.dtype, pd.CategoricalDtype):
        found = np.full(len(column), np.nan)
    elif pd.api.types.is_numeric_dtype(column.dtype):
        found = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        found = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return found, np.isfinite(found)
