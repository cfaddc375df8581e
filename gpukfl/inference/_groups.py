"""Groups of features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from gpukfl.core._array import is_array, to_host
from gpukfl.core._checks import check_number
from gpukfl.portfolio._importances import group_columns

EACH = "columns"  # every feature by itself
_NAMED = 3  # features of a group that its name has


def correlated_groups(
    X: Any, /, *, threshold: float = 0.9, sources: Sequence[int] | None = None
) -> list[list[int]]:
    """Return groups of rank-correlated columns by single-linkage clustering.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Real data of any library; gaps (NaN) count as what is usual.
    threshold : float, default=0.9
        Absolute Spearman correlation from which two columns are in one group, in (0, 1]; also
        by way of others.
    sources : sequence of int, optional
        Of what each column was made: columns of one source are together in any case.

    Returns
    -------
    list of lists of int
        The groups, each of at least one column, in the order of their first columns.

    Raises
    ------
    TypeError, ValueError
        If X is not two-dimensional, or `threshold` is no number in (0, 1].

    Notes
    -----
    O(n d²). A copy of a column, and any monotone function of it, has a correlation of 1.

    Examples
    --------
    >>> import numpy as np
    >>> from gpukfl.inference import correlated_groups
    >>> x = np.arange(10.0)
    >>> correlated_groups(np.stack([x, np.cos(3 * x), np.exp(x)], axis=1))
    [[0, 2], [1]]
    """
    check_number("threshold", threshold, low=0, low_allowed=False, high=1)
    rows = np.asarray(to_host(X) if is_array(X) else X, dtype=np.float64)
    if rows.ndim != 2:
        msg = f"expected X of shape (n, d), got {rows.shape}"
        raise ValueError(msg)
    # Rounding of a correlation of 1 shall not part copies
    alike = min(threshold, 1.0 - 1e-9)
    return group_columns(rankdata(rows, axis=0, nan_policy="omit"), sources, alike=alike)


def read_groups(
    groups: Any, names: Sequence[str], sources: Sequence[int], rows: np.ndarray, /
) -> dict[str, list[int]]:
    """Read groups of features (by number) under their names; they share none."""
    if groups is None:
        joined = correlated_groups(rows, sources=sources)
        found = [sorted({sources[column] for column in columns}) for columns in joined]
        return {_group_name(group, names): group for group in sorted(found)}
    if isinstance(groups, str):
        if groups != EACH:
            msg = f"expected groups to be None, {EACH!r} or lists of features, got {groups!r}"
            raise ValueError(msg)
        return {name: [k] for k, name in enumerate(names)}
    if isinstance(groups, Mapping):
        read = {str(name): _read_group(group, names) for name, group in groups.items()}
    elif isinstance(groups, Sequence):
        lists = [_read_group(group, names) for group in groups]
        read = {_group_name(group, names): group for group in lists}
    else:
        msg = f"expected groups to be None, {EACH!r} or lists of features, got {groups!r}"
        raise TypeError(msg)
    counts = np.bincount([k for group in read.values() for k in group], minlength=len(names))
    if not read or not all(read.values()):
        msg = "expected at least one feature in each group, got an empty group"
        raise ValueError(msg)
    if counts.max() > 1:
        msg = f"expected groups without common features, got {names[int(counts.argmax())]} twice"
        raise ValueError(msg)
    return read


def _read_group(group: Any, names: Sequence[str]) -> list[int]:
    """Return the feature numbers of a group given by numbers or names."""
    one = isinstance(group, (str, int, np.integer))
    return [feature_index(feature, names) for feature in ([group] if one else group)]


def feature_index(feature: Any, names: Sequence[str], /) -> int:
    """Return the number of a feature that is given by name or number."""
    if isinstance(feature, str) and feature in names:
        return list(names).index(feature)
    whole = isinstance(feature, (int, np.integer)) and not isinstance(feature, bool)
    if whole and 0 <= feature < len(names):
        return int(feature)
    msg = f"expected the name of a feature, or a number below {len(names)}, got {feature!r}"
    raise ValueError(msg)


def _group_name(group: Sequence[int], names: Sequence[str]) -> str:
    shown = " + ".join(names[k] for k in group[:_NAMED])
    more = len(group) - _NAMED
    return f"{shown} + {more} more" if more > 0 else shown
