"""How much the blend loses where columns are shuffled, by models that have not seen the rows."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gpukfl._array import Array, array_namespace, device_of, to_host
from gpukfl._warnings import warn
from gpukfl.estimators._samples import Samples
from gpukfl.portfolio._judges import Judge

_ALIKE = 0.9  # correlation from which columns are shuffled together
_ROWS = 500  # of all folds, that are enough
_MOMENT = 0.3  # seconds that importances may take when the time is over
_TINY = 1e-9
_PASSES = 100  # predictions of a fold's rows
_NAMED = 10  # groups
_ELEMENTS = 2**22  # of rows that are predicted at once, and of correlations
_WORK = 10**8  # of rows that are predicted in a fold, with its columns shuffled one by one
_CONSTANT = 1e-13  # deviation, as a share of the largest value, that is rounding


def groups_of(
    X: np.ndarray,
    sources: Sequence[int] | None = None,
    /,
    *,
    alike: float = _ALIKE,
    is_over: Callable[[], bool] = lambda: False,
) -> list[list[int]]:
    """Join columns (n, d) that are correlated by `alike` or more, also by way of others.

    Those of one source in any case; missing values count as what is usual. O(n d²) time; of many
    columns the last ones are joined with none where it `is_over` before.
    """
    U, d = _standardised(X), X.shape[1]
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    step = max(1, _ELEMENTS // d)
    for start in range(0, d, step):  # never all d² of them
        if start > 0 and is_over():
            break
        close = np.abs(U[:, start : start + step].T @ U) >= alike
        here, there = np.nonzero(close)
        pairs.append(np.stack([here + start, there])[:, there > here + start])
    if sources is not None:
        first = np.unique(sources, return_index=True, return_inverse=True)
        pairs.append(np.stack([np.arange(d), first[1][first[2]]]))
    here, there = np.concatenate(pairs, axis=1)
    graph = coo_array((np.ones(len(here), dtype=bool), (here, there)), shape=(d, d))
    labels = connected_components(graph, directed=False)[1]
    found: dict[int, list[int]] = {}
    for column, label in enumerate(labels.tolist()):
        found.setdefault(label, []).append(column)
    return sorted(found.values())


def _standardised(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and length 1, or 0 where they do not vary; gaps count as what is usual."""
    X = X.astype(np.float64)
    X = np.where(np.isnan(X), np.nan_to_num(_means(X)), X)
    largest = np.max(np.abs(X), axis=0)
    X = X / np.where(largest > 0, largest, 1.0)
    X -= X.mean(axis=0)
    lengths = np.linalg.norm(X, axis=0)
    varies = lengths > _CONSTANT * len(X) ** 0.5
    return np.where(varies, X / np.where(varies, lengths, 1.0), 0.0)


def permutation_importances(
    held_out: Sequence[Samples],
    sources: Sequence[int],
    n_features: int,
    predict: Callable[[int, Array], np.ndarray],
    judge: Judge,
    rng: np.random.RandomState,
    left: Callable[[], float],
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
        Draws rows, and shuffles.
    left : callable
        Seconds that are left, infinite without a limit. Where one prediction says that not all
        columns can be shuffled, those most correlated with predictions are.
    repeats : int
        Shuffles of which the mean is taken.

    Returns
    -------
    array (n_features,), array (n_features,), list of lists
        Importances of sum 1, or 0 where nothing matters; their standard errors, as the rows are a
        sample, given the sum; and features that are shuffled together, which have equal shares of
        their importance. Of thousands of columns those that are hardly correlated with predictions
        are not shuffled: their importance is 0.
    """
    rows = [_some(len(part), -(-_ROWS // len(held_out)), rng) for part in held_out]
    some = [part.taken(index) for part, index in zip(held_out, rows, strict=True)]
    seen = np.concatenate([to_host(part.X) for part in some])
    joined = groups_of(seen, sources, is_over=lambda: left() <= 0.0)
    predicted = predict(0, some[0].X)
    groups = _leading(joined, to_host(some[0].X), predicted)
    n_folds = max(1, min(len(some), _PASSES // len(groups)))
    begins = np.concatenate([[0], np.cumsum([len(part) for part in held_out])])
    gains: list[list[np.ndarray]] = [[] for _ in groups]  # of each row, by fold
    for k in range(n_folds):
        begun = time.perf_counter()
        X, judged = some[k].X, begins[k] + rows[k]
        least = judge.losses(predict(k, X), judged)
        took = repeats * max(time.perf_counter() - begun, _TINY)
        there_is = left() if k > 0 else max(left(), _MOMENT)
        if len(groups) * took > there_is:
            if k > 0:
                break
            groups = _leading(groups, to_host(X), predicted, int(there_is / took))
            gains = gains[: len(groups)]
            if not groups:
                warn("no time is left for importances of features: they are 0")
                break
            warn(f"time is left for importances of {len(groups)} features: those of others are 0")
        orders = [[rng.permutation(len(some[k])) for _ in range(repeats)] for _ in groups]
        shuffles = [(g, order) for g, of_group in enumerate(orders) for order in of_group]
        predictions = _predicted_shuffled(X, groups, shuffles, partial(predict, k))
        losses = [judge.losses(found, judged) for found in predictions]
        by_group = np.reshape(losses, (len(groups), repeats, -1)).mean(axis=1)
        for g, found in enumerate(by_group):
            gains[g].append(found - least)
    importances, errors = np.zeros(n_features), np.zeros(n_features)
    for by_fold, columns in zip(gains, groups, strict=True):
        own = sorted({sources[column] for column in columns})
        gain = np.concatenate([*by_fold, np.zeros(0)])
        importances[own] = max(float(gain.sum()), 0.0) / len(own)
        errors[own] = math.sqrt(len(gain)) * (gain.std() if len(gain) else 0.0) / len(own)
    total = importances.sum()
    features = [sorted({sources[column] for column in columns}) for columns in joined]
    return importances / (total or 1.0), errors / (total or 1.0), features


def _some(n: int, count: int, rng: np.random.RandomState) -> np.ndarray:
    """Draw some of n rows, which may lie in an order."""
    return np.arange(n) if n <= count else np.sort(rng.permutation(n)[:count])


def _leading(
    groups: list[list[int]], X: np.ndarray, predicted: np.ndarray, most: int | None = None
) -> list[list[int]]:
    """Give the groups that there is work for: of too many those most correlated with predictions.

    To shuffle a column takes a prediction of rows of all columns.
    """
    count = max(1, _WORK // X.size) if most is None else most
    if len(groups) <= count:
        return groups
    strengths = np.max(np.abs(_standardised(X).T @ _standardised(predicted)), axis=1)
    strongest = [-max(strengths[column] for column in columns) for columns in groups]
    return [groups[g] for g in sorted(np.argsort(strongest, kind="stable")[:count])]


def _predicted_shuffled(
    X: Array,
    groups: Sequence[Sequence[int]],
    shuffles: Sequence[tuple[int, np.ndarray]],
    predict: Callable[[Array], np.ndarray],
) -> Iterator[np.ndarray]:
    """Predict the rows with one group of columns shuffled, for each shuffle: many at once."""
    xp, count = array_namespace(X), max(1, _ELEMENTS // (X.shape[0] * X.shape[1]))
    for start in range(0, len(shuffles), count):
        some = shuffles[start : start + count]
        rows = xp.concat([_with_shuffled(X, groups[g], order) for g, order in some], axis=0)
        yield from np.split(predict(rows), len(some))


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
