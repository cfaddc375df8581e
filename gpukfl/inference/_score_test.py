"""Whether one effect goes along with what others leave of targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.preprocessing import SplineTransformer

_KNOTS = 5
_LEVELS = 8  # different values that are classes of their own
_AT_ONCE = 2_000_000  # numbers that are drawn
_ROUNDING = 1e-9


def additive_basis(features: Sequence[np.ndarray], /) -> np.ndarray:
    """Give functions (n, q) of one feature each: splines, or indicators of few values.

    A feature may have several columns (n, g); gaps are as the median.
    """
    n = len(features[0])
    parts = [np.ones((n, 1))]
    parts += [_basis(column) for feature in features for column in feature.T]
    return np.concatenate(parts, axis=1)


def without(
    basis: np.ndarray, values: np.ndarray, weights: np.ndarray | None = None, /
) -> np.ndarray:
    """Take the span of a basis (n, q) out of values (n, t), by squares with weights (n, t)."""
    if weights is None:
        return values - basis @ np.linalg.lstsq(basis, values, rcond=None)[0]
    roots = np.sqrt(weights)
    parts = [
        column - basis @ np.linalg.lstsq(root[:, None] * basis, root * column, rcond=None)[0]
        for column, root in zip(values.T, roots.T, strict=True)
    ]
    return np.stack(parts, axis=1)


def score_p_values(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], count: int, rng: np.random.RandomState, /
) -> np.ndarray:
    """Test whether effects (n, t) go along with what is left (n, t) of targets, one p-value each.

    One-sided, by the same permutations of the rows of one against the other for all; of the inner
    product over its standard error, so that it does not matter that errors differ in size.
    """
    n = len(pairs[0][0])
    actual = [_studentised(np.sum(effect * left, axis=1)[None, :])[0] for effect, left in pairs]
    above, step = np.zeros(len(pairs)), max(1, _AT_ONCE // pairs[0][0].size)
    for begin in range(0, count, step):
        some = min(step, count - begin)
        orders = np.argsort(rng.random_sample((some, n)), axis=1)
        for k, (effect, left) in enumerate(pairs):
            drawn = _studentised(np.einsum("nt,bnt->bn", effect, left[orders]))
            above[k] += np.count_nonzero(drawn >= actual[k] - _ROUNDING)
    return (1 + above) / (1 + count)


def _studentised(scores: np.ndarray) -> np.ndarray:
    """Divide sums of scores (b, n) by the roots of their sums of squares."""
    return scores.sum(axis=1) / np.maximum(np.sqrt(np.sum(scores**2, axis=1)), 1e-300)


def _basis(column: np.ndarray) -> np.ndarray:
    """Functions (n, q) of a column (n,)."""
    known = np.unique(column[~np.isnan(column)])
    column = np.where(np.isnan(column), np.median(known) if len(known) else 0.0, column)
    if len(known) <= _LEVELS:
        return (column[:, None] == known[None, :]).astype(np.float64)
    return SplineTransformer(_KNOTS, knots="quantile").fit_transform(column[:, None])
