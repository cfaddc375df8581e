"""How much the blend loses where columns are shuffled, by models that have not seen the rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from gpukfl._array import Array, array_namespace, device_of, to_host
from gpukfl._warnings import warn
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._judges import Judge

_ALIKE = 0.9  # correlation from which columns are shuffled together
_ROWS = 500  # of all folds, that are enough
_MOMENT = 1.0  # seconds that importances may take when the time is over
_PASSES = 100  # predictions of a fold's rows
_NAMED = 10  # groups


def groups_of(
    X: np.ndarray, sources: Sequence[int] | None = None, /, *, alike: float = _ALIKE
) -> list[list[int]]:
    """Join columns (n, d) that are correlated by `alike` or more, also by way of others.

    Those of one source in any case; gaps count as what is usual.
    """
    d = X.shape[1]
    if d == 1:
        return [[0]]
    X = X.astype(np.float64)
    X = np.where(np.isnan(X), np.nan_to_num(_means(X)), X)
    gaps = np.ones((d, d))
    if len(X) > 1:
        with np.errstate(invalid="ignore", divide="ignore"):
            gaps -= np.abs(np.nan_to_num(np.corrcoef(X, rowvar=False)))
    np.fill_diagonal(gaps, 0.0)
    if sources is not None:
        gaps[np.equal.outer(sources, sources)] = 0.0
    gaps = np.clip(0.5 * (gaps + gaps.T), 0.0, None)
    labels = fcluster(linkage(squareform(gaps, checks=False), "single"), 1 - alike, "distance")
    found: dict[int, list[int]] = {}
    for column, label in enumerate(labels.tolist()):
        found.setdefault(label, []).append(column)
    return sorted(found.values())


def permutation_importances(
    held_out: Sequence[Samples],
    sources: Sequence[int],
    n_features: int,
    predict: Callable[[int, Array], np.ndarray],
    judge: Judge,
    rng: np.random.RandomState,
    is_over: Callable[[], bool],
    /,
    *,
    repeats: int = 1,
) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """Share of the loss that each column saves, and the columns that are shuffled together.

    Parameters
    ----------
    held_out : sequence of Samples
        Of each fold.
    sources : sequence of int
        Which feature each of their columns is made of.
    n_features : int
        How many there are.
    predict : callable
        Predictions for rows by the models of a fold, on the host.
    judge : Judge
        Of all rows that are held out, in the order of the folds.
    rng : RandomState
        Shuffles.
    is_over : callable
        Whether there is no time for more than a moment.
    repeats : int
        Shuffles of which the mean is taken.

    Returns
    -------
    array (n_features,), array (n_features,), list of lists
        Importances of sum 1, or 0 where nothing matters; their standard errors, as the rows are a
        sample, given the sum; and features that are shuffled together, which have equal shares of
        their importance.
    """
    rows = [np.arange(min(len(part), -(-_ROWS // len(held_out)))) for part in held_out]
    some = [part.taken(index) for part, index in zip(held_out, rows, strict=True)]
    groups = groups_of(np.concatenate([to_host(part.X) for part in some]), sources)
    features = [sorted({sources[column] for column in columns}) for columns in groups]
    n_folds = max(1, min(len(some), _PASSES // len(groups)))
    begins = np.concatenate([[0], np.cumsum([len(part) for part in held_out])])
    gains: list[list[np.ndarray]] = [[] for _ in groups]  # of each row, by fold
    for k in range(n_folds):
        begun = time.perf_counter()
        X, judged = some[k].X, slice(begins[k], begins[k] + len(some[k]))
        least = judge.losses(predict(k, X), judged)
        if is_over() and (k > 0 or len(groups) * (time.perf_counter() - begun) > _MOMENT):
            if k == 0:
                warn("no time is left for importances of features: they are 0")
            break
        for g, columns in enumerate(groups):
            orders = [rng.permutation(len(some[k])) for _ in range(repeats)]
            rows_of = [_with_shuffled(X, columns, order) for order in orders]
            losses = [judge.losses(predict(k, shuffled), judged) for shuffled in rows_of]
            gains[g].append(np.mean(losses, axis=0) - least)
    importances, errors = np.zeros(n_features), np.zeros(n_features)
    for by_fold, joined in zip(gains, features, strict=True):
        gain = np.concatenate([*by_fold, np.zeros(0)])
        importances[joined] = max(float(gain.sum()), 0.0) / len(joined)
        errors[joined] = math.sqrt(len(gain)) * (gain.std() if len(gain) else 0.0) / len(joined)
    total = importances.sum()
    return importances / (total or 1.0), errors / (total or 1.0), features


def together(groups: Sequence[Sequence[int]], names: Sequence[str], /) -> str:
    """Say which features are shuffled together; nothing where each is shuffled by itself."""
    joined = [group for group in groups if len(group) > 1]
    named = ("{" + ", ".join(names[k] for k in group) + "}" for group in joined[:_NAMED])
    left = len(joined) - _NAMED
    more = f"; and {left} groups more" if left > 0 else ""
    return f"shuffled together: {'; '.join(named)}{more}" if joined else ""


def _means(X: np.ndarray) -> np.ndarray:
    """Means (d,) of what is there of the columns; NaN where nothing is."""
    there = ~np.isnan(X)
    with np.errstate(invalid="ignore"):
        return np.sum(X, axis=0, where=there) / np.sum(there, axis=0)


def _with_shuffled(X: Array, columns: Sequence[int], order: np.ndarray) -> Array:
    """Rows whose values in some columns are those of others."""
    xp = array_namespace(X)
    device = device_of(X)
    others = xp.take(X, xp.asarray(order, dtype=xp.int64, device=device), axis=0)
    chosen = xp.asarray(np.isin(np.arange(X.shape[1]), columns), dtype=xp.bool, device=device)
    return xp.where(chosen[None, :], others, X)
