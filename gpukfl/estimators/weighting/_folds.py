"""Folds of the rows that a weighting is fitted to: on the host, or where the rows lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpukfl._array import Array, to_host
from gpukfl._draws import scattered
from gpukfl._passes import map_rows
from gpukfl._rows import Rows
from gpukfl.estimators._samples import Samples

_DEALT = 2**22  # rows up to which folds are dealt out, and not drawn for each row by itself


def fold_of_each(
    rows: Rows, samples: Samples, weights: Array | None, count: int, rng: np.random.RandomState, /
) -> Array:
    """Draw one of `count` folds for each row (n,), int8; every class spread evenly."""
    n = rows.shape[0]
    if n > _DEALT:
        seed = rng.randint(2**31)
        return _mapped(rows, lambda start, stop: scattered(start, stop, count, seed))
    folds = _dealt(rows, samples, weights, min(count, n), rng)
    return _mapped(rows, lambda start, stop: folds[start:stop])


def one_fold(rows: Rows, /) -> Array:
    """Give the same fold (n,) to all rows."""
    return _mapped(rows, lambda start, stop: np.zeros(stop - start, dtype=np.int8))


def _mapped(rows: Rows, part: Callable[[int, int], np.ndarray]) -> Array:
    return map_rows(rows.source, part, columns=(), dtype=np.int8)


def _dealt(
    rows: Rows, samples: Samples, weights: Array | None, count: int, rng: np.random.RandomState
) -> np.ndarray:
    order = rng.permutation(rows.shape[0])
    classes = samples.classes
    if classes is not None:
        order = order[np.argsort(classes[order], kind="stable")]
    if weights is not None and rows.partitioning is None:
        # So that no fold has all the weight; in parts no row is without
        order = order[np.argsort(to_host(weights)[order, 0] == 0, kind="stable")]
    folds = np.empty(len(order), dtype=np.int8)
    folds[order] = np.arange(len(order)) % count
    return folds
