"""Checks of a target: gross outliers, and columns that leak it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln
from scipy.stats import rankdata

from gpukfl.core._array import as_columns, is_host
from gpukfl.core._frames import as_frame, is_frame
from gpukfl.core._warnings import warn

# ----------------------------------------------------------------------------- outliers


# See the notes of `find_outliers`
_MIN_ROWS = 20  # fewer rows are not tested
_OUTLIER_SHARE = 0.1  # largest share of outliers
_FAR = 1_000.0  # least median distance of outliers from the median, in robust scales
_GAP_DECADES = 4.0  # the gap's decades times the number of outliers; each gap has at least one
_LIGHT_TAIL, _LIGHT_DECADES = 20.0, 2.5  # the same if the bulk is within 20 robust scales
_BEYOND_SHARE = 0.8  # least share of outliers beyond the gap
_ROUNDING = 1e-9  # distances below this share of the median are rounding
_MOST_NAMED = 5  # rows in a warning


def find_outliers(y: np.ndarray, /) -> np.ndarray:
    """Return rows whose target is orders of magnitude farther out than all others.

    Parameters
    ----------
    y : array of shape (n,) or (n, t)
        Finite targets.

    Returns
    -------
    array of bool, shape (n,)
        Rows with an outlier in any target.

    Notes
    -----
    Let m be the median, and s the median of those distances from m that are more than rounding.
    The k rows farthest from m are outliers where k is at most a tenth of the rows, their median
    distance is at least 1000 s, and a gap divides them from the bulk: four fifths of them are more
    than 10^max(1, 4/k) times as far from m as the bulk's last row, or 10^max(1, 2.5/k) times where
    that row is within 20 s. Heavy tails, even Pareto's of index 1, have more rows in such a gap
    than beyond it. The rule is applied again to the rows that are left until it finds none.
    O(n log n).
    """
    found = np.zeros(len(y), dtype=bool)
    for column in np.asarray(y, dtype=np.float64).reshape(len(y), -1).T:
        rest = np.arange(len(column))
        while len(rest):
            far = _find_farthest(column[rest])
            found[rest[far]] = True
            rest = rest[~far] if far.any() else rest[:0]
    return found


def _find_farthest(y: np.ndarray) -> np.ndarray:
    """Return the outliers (n,) of one step of `find_outliers`."""
    n, none = len(y), np.zeros(len(y), dtype=bool)
    if n < _MIN_ROWS:
        return none
    center = float(np.median(y))
    distances = np.abs(y - center)
    apart = distances > _ROUNDING * abs(center)
    if not apart.any():
        return none
    scale = float(np.median(distances[apart]))
    ordered = np.sort(distances)
    if ordered[-1] < _FAR * scale:
        return none
    count = np.arange(1, int(_OUTLIER_SHARE * n) + 1)  # of outliers
    edge = np.maximum(ordered[n - count - 1], scale)  # of the bulk
    decades = np.where(edge <= _LIGHT_TAIL * scale, _LIGHT_DECADES, _GAP_DECADES)
    gap = 10.0 ** np.maximum(decades / count, 1.0)
    beyond = (n - np.searchsorted(ordered, gap * edge, side="right")) / count
    middle = ordered[n - 1 - count // 2]
    fit = (beyond >= _BEYOND_SHARE) & (middle >= _FAR * scale)
    if not fit.any():
        return none
    best = np.flatnonzero(fit & (beyond == beyond[fit].max()))[-1]
    return distances > edge[best]


@dataclass(frozen=True, eq=False)
class Range:
    """The range of targets without gross outliers, twice as wide as seen.

    Attributes
    ----------
    low, high : array (t,)
        Its ends.
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def from_targets(cls, y: Any, /) -> Range:
        """Return the range of targets (n,) or (n, t)."""
        values = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        low, high = values.min(axis=0), values.max(axis=0)
        slack = 0.5 * (high - low)
        return cls(low - slack, high + slack)

    def __call__(self, y: np.ndarray, /) -> np.ndarray:
        """Return which rows (m,) are within the range in every target."""
        values = np.asarray(y, dtype=np.float64).reshape(len(y), len(self.low))
        return np.all((self.low <= values) & (values <= self.high), axis=1)


def outliers_text(values: np.ndarray, rows: np.ndarray, kept: np.ndarray, labels: Any, /) -> str:
    """Return in words which targets (n, t) are dropped, by row labels."""
    names = [str(row if labels is None else labels[row]) for row in rows[:_MOST_NAMED]]
    names += ["..."] if len(rows) > _MOST_NAMED else []
    column = int(np.argmax([find_outliers(one[np.r_[kept, rows]]).sum() for one in values.T]))
    y = values[:, column]
    low, high = np.quantile(y[kept], [0.05, 0.95])
    which = f"target {column} of y" if values.shape[1] > 1 else "y"
    unit = max(float(np.median(np.abs(y[kept] - np.median(y[kept])))), 1e-300)
    return (
        f"{which} has gross outliers: {len(rows)} of {len(rows) + len(kept)} rows are from "
        f"{y[rows].min():.4g} to {y[rows].max():.4g}, while 90 % of the others are from {low:.4g} "
        f"to {high:.4g}. Rows {', '.join(names)} are dropped. Correct them, or keep them by "
        f"fitting a transformed target, such as numpy.arcsinh(y / {unit:.3g})"
    )


# ------------------------------------------------------------------------------ leakage


_PROBE, _SAMPLE = 64, 2_000  # rows tested before all rows are
_LOG_CHANCE = -20.0  # log probability of agreement by chance, below which a column is a leak
_FEW_LEVELS = 20  # at most so many groups of rows with one class each, or as many as classes
_ROUNDED_SHARE = 0.01  # largest share of the ranks' variance that rounding may remove
_KNOWN_SHARE = 0.5  # least share of rows in which a column has a value


def warn_target_leakage(X: Any, y: Any, /, *, classes: bool) -> None:
    """Warn of columns that determine the target of every row.

    Parameters
    ----------
    X : frame or other data
        Only frames are checked.
    y : array, shape (n,) or (n, t)
        Targets, or labels of `classes`.

    Notes
    -----
    A column leaks numbers if it has the target's order or the reverse, with the same ties except
    for rounding. It leaks classes if each level or range has one class. Rows in random order agree
    so with a probability below 1e-8. All rows are tested only if a sample agrees.
    """
    if not is_frame(X) or not is_host(y) or np.ndim(y) not in (1, 2):
        return
    frame, targets = as_frame(X), np.asarray(as_columns(y)).T
    if not classes and not (targets.dtype.kind in "biuf" and np.isfinite(targets).all()):
        return  # the fit refuses these
    chance = _log_chance_of_classes if classes else _log_chance_of_order
    same, found = set[int](), set[int]()
    for target in targets:
        for k in _candidates(frame, target, classes):
            column = frame.iloc[:, k]
            few = [
                _spread_rows(len(frame), size) for size in (_PROBE, _SAMPLE) if size < len(frame)
            ]
            if all(_equals_target(column.iloc[rows], target[rows]) for rows in [*few, slice(None)]):
                same.add(k)
                continue
            agrees = all(np.isfinite(chance(column.iloc[rows], target[rows])) for rows in few)
            if agrees and chance(column, target) < _LOG_CHANCE:
                found.add(k)
    columns = list(map(str, frame.columns))
    names = [columns[k] for k in sorted(same)]
    if names:
        those = "equals the target" if len(names) == 1 else "equal the target"
        ways = f"drop it, or pass its name as y: fit(X, {names[0]!r})"
        several = "s" * (len(names) > 1)
        warn(f"column{several} {', '.join(names)} of X {those}: {ways}")
    names = [columns[k] for k in sorted(found - same)]
    if names and len(columns) > 1:  # a single column cannot be dropped
        how = "each value has one class" if classes else "it has the order of the target"
        warn(
            f"{', '.join(names)} may give the target away (leakage): {how} in every row. "
            f"Drop columns that are not known before the target: X.drop(columns={names}) "
            "(--drop NAME of the command line)"
        )


def _spread_rows(n: int, size: int) -> np.ndarray:
    return np.arange(n) if n <= size else np.linspace(0, n - 1, size).astype(np.int64)


def _candidates(frame: Any, y: np.ndarray, classes: bool) -> list[int]:
    """Return columns that may determine the target, by a sample of rows."""
    n, d = frame.shape
    rows = _spread_rows(n, _PROBE)
    few, y = frame.iloc[rows], y[rows]
    plain = [
        k for k, one in enumerate(few.dtypes) if isinstance(one, np.dtype) and one.kind in "iuf"
    ]
    values = few.iloc[:, plain].to_numpy(dtype=np.float64)
    known = np.isfinite(values).all(axis=0)
    if classes:
        order, (codes, k) = np.argsort(values, axis=0), _class_codes(y)
        changes = np.diff(codes[order], axis=0) != 0
        ties = np.diff(np.take_along_axis(values, order, axis=0), axis=0) == 0
        n_groups = 1 + np.minimum((~ties).sum(axis=0), changes.sum(axis=0))
        may = ~(changes & ties).any(axis=0) & (n_groups <= max(_FEW_LEVELS, k))
    else:
        order = np.argsort(y)
        steps = np.diff(values[order], axis=0)[np.diff(y[order]) > 0]
        may = (steps >= 0).all(axis=0) | (steps <= 0).all(axis=0)
    ruled_out = {plain[k] for k in np.flatnonzero(known & ~may)}
    return [k for k in range(d) if k not in ruled_out]


def _equals_target(column: Any, y: np.ndarray) -> bool:
    values = np.asarray(column)
    kinds = values.dtype.kind in "biuf", y.dtype.kind in "biuf"
    if kinds == (True, True):
        return np.array_equal(values, y)
    return kinds == (False, False) and values.astype(str).tolist() == y.astype(str).tolist()


def _log_chance_of_order(column: Any, y: np.ndarray) -> float:
    """Return the log probability that numbers have the targets' order; infinite otherwise."""
    c, known = _read_numbers(column)
    c, y = c[known], y[known].astype(np.float64)
    if known.sum() < _KNOWN_SHARE * len(known) or not (_ascends(c, y) or _ascends(c, -y)):
        return np.inf
    if max(_remaining_variance(y, c), _remaining_variance(c, y)) > _ROUNDED_SHARE:
        return np.inf
    in_c, in_y = (np.unique(one, return_counts=True)[1] for one in (c, y))
    in_both = np.unique(np.stack([c, y]), axis=1, return_counts=True)[1]
    # Log of the number of permutations of the targets with the column's order
    orders = _log_orders(in_c) + _log_orders(in_y) - _log_orders(in_both)
    return orders - _log_orders(np.array([len(c)]))


def _remaining_variance(values: np.ndarray, by: np.ndarray) -> float:
    """Return the share of the ranks' variance that remains within equal values of another."""
    ranks = rankdata(values) - 0.5 * (len(values) + 1)
    _, group, counts = np.unique(by, return_inverse=True, return_counts=True)
    left = ranks - (np.bincount(group, ranks) / counts)[group]
    return float(left @ left) / max(float(ranks @ ranks), 0.5)


def _ascends(c: np.ndarray, y: np.ndarray) -> bool:
    """Whether no two rows are in opposite orders by `c` and `y`."""
    return bool((np.diff(y[np.lexsort((y, c))]) >= 0).all())


def _log_orders(counts: np.ndarray) -> float:
    """Return the logarithm of the number of orders within groups."""
    return float(gammaln(counts + 1.0).sum())


def _log_chance_of_classes(column: Any, y: np.ndarray) -> float:
    """Return the log probability that levels, or ranges, have one class each; or infinity."""
    import pandas as pd

    c, known = _read_numbers(column)
    if not known.any():
        c, _ = pd.factorize(column)
        known = c >= 0
    c, (codes, k) = c[known], _class_codes(y[known])
    order = np.lexsort((codes, c))
    changes, ties = np.diff(codes[order]) != 0, np.diff(c[order]) == 0
    n_groups = min(len(c) - np.count_nonzero(ties), 1 + np.count_nonzero(changes))
    is_mixed = (changes & ties).any() or n_groups > max(_FEW_LEVELS, k)
    if known.sum() < _KNOWN_SHARE * len(known) or is_mixed:
        return np.inf
    # Log of a bound on the permutations of labels that leave one class in each group
    orders = n_groups * np.log(max(k, 1)) + _log_orders(np.bincount(codes))
    return float(orders - _log_orders(np.array([len(c)])))


def _class_codes(y: np.ndarray) -> tuple[np.ndarray, int]:
    """Return class codes (n,), and the number of classes."""
    import pandas as pd

    codes, labels = pd.factorize(y)
    return codes, len(labels)


def _read_numbers(column: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers (n,), also from text, and which are known."""
    import pandas as pd

    if column.dtype.kind in "mM" or isinstance(column.dtype, pd.CategoricalDtype):
        found = np.full(len(column), np.nan)
    elif pd.api.types.is_numeric_dtype(column.dtype):
        found = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        try:
            found = pd.to_numeric(column, errors="coerce")
        except OverflowError:  # the fit refuses such integers
            found = pd.Series(np.nan, column.index)
        found = found.to_numpy(dtype=np.float64, na_value=np.nan)
    return found, np.isfinite(found)
