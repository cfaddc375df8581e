"""Whether one effect goes along with what others leave of targets."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.preprocessing import SplineTransformer

_KNOTS = (5, 4, 3, 2)  # of splines, the finest first; two make cubic polynomials
_LEVELS = 8  # different values that are classes of their own
_FREE = 4  # rows for each function of two features that is taken out
_AT_ONCE = 2_000_000  # numbers that are drawn
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Score:
    """What is tested to go along.

    Attributes
    ----------
    effect, left : array, shape (n, t)
        Without functions that are no matter of the hypothesis.
    errors : array, shape (n, t)
        What is left, as large as the errors that it is made of: fitted functions take of these.
    """

    effect: np.ndarray
    left: np.ndarray
    errors: np.ndarray

    @classmethod
    def without(cls, basis: np.ndarray, effect: np.ndarray, left: np.ndarray, /) -> Score:
        """Take the span of a basis (n, q) out of an effect (n, t) and of what is left (n, t)."""
        axes, sizes, _ = np.linalg.svd(basis, full_matrices=False)
        axes = axes[:, sizes > _ROUNDING * sizes[0]]
        effect, left = (values - axes @ (axes.T @ values) for values in (effect, left))
        kept = np.maximum(1.0 - np.sum(axes**2, axis=1, keepdims=True), _ROUNDING)
        return cls(effect, left, left / np.sqrt(kept))


def additive_basis(features: Sequence[np.ndarray], /) -> np.ndarray:
    """Give functions (n, q) of one feature each: splines, or indicators of few values.

    A feature may have several columns (n, g); gaps are as the median.
    """
    return _with_constant([_basis(feature, _KNOTS[0]) for feature in features])


def pairwise_basis(features: Sequence[np.ndarray], /) -> np.ndarray:
    """Give functions (n, q) of one or two features each: products of those of `additive_basis`.

    Splines have as many knots as leave four rows for each function.

    Raises
    ------
    ValueError
        If the fewest knots do not.
    """
    n = len(features[0])
    for knots in _KNOTS:
        parts = [_basis(feature, knots) for feature in features]
        products = [
            (first[:, :, None] * second[:, None, :]).reshape(n, -1)
            for first, second in itertools.combinations(parts, 2)
        ]
        whole = _with_constant([*parts, *products])
        count = whole.shape[1]
        if _FREE * count <= n:
            return whole
    msg = (
        f"expected at least {_FREE * count} rows beside the background to test three features "
        f"without {count} functions of two of them, got {n}: give more (max_rows), or no y for H "
        "alone"
    )
    raise ValueError(msg)


def without(basis: np.ndarray, values: np.ndarray, weights: np.ndarray, /) -> np.ndarray:
    """Take the span of a basis (n, q) out of values (n, t), by squares with weights (n, t)."""
    roots = np.sqrt(weights)
    parts = [
        column - basis @ np.linalg.lstsq(root[:, None] * basis, root * column, rcond=None)[0]
        for column, root in zip(values.T, roots.T, strict=True)
    ]
    return np.stack(parts, axis=1)


def score_p_values(
    scores: Sequence[Score], count: int, rng: np.random.RandomState, /
) -> np.ndarray:
    """Test whether effects go along with what is left of targets, one p-value each.

    One-sided, by the same permutations of the errors of all; of the inner product over its
    standard error, so that it does not matter that errors differ in size.
    """
    n, t = scores[0].effect.shape
    actual = [
        _studentised(_products(one.effect, one.left), _products(one.effect, one.errors))
        for one in scores
    ]
    above, step = np.zeros(len(scores)), max(1, _AT_ONCE // (n * t))
    for begin in range(0, count, step):
        some = min(step, count - begin)
        orders = np.argsort(rng.random_sample((some, n)), axis=1)
        for k, one in enumerate(scores):
            drawn = _products(one.effect, one.errors[orders])
            above[k] += np.count_nonzero(_studentised(drawn, drawn) >= actual[k] - _ROUNDING)
    return (1 + above) / (1 + count)


def _products(effect: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Inner products (..., n) of the rows of an effect (n, t) and of what is left (..., n, t)."""
    return np.einsum("nt,...nt->...n", effect, left)


def _studentised(parts: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Divide sums of scores (..., n) by the roots of sums of squares of their errors."""
    sizes = np.sqrt(np.sum(errors**2, axis=-1))
    return np.asarray(parts.sum(axis=-1) / np.maximum(sizes, 1e-300))


def _with_constant(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.ones((len(parts[0]), 1)), *parts], axis=1)


def _basis(feature: np.ndarray, knots: int) -> np.ndarray:
    """Functions (n, q) of the columns of a feature (n, g), which sum up to no constant."""
    return np.concatenate([_of_column(column, knots) for column in feature.T], axis=1)


def _of_column(column: np.ndarray, knots: int) -> np.ndarray:
    """Functions (n, q) of a column (n,), but for one: together they are 1."""
    known = np.unique(column[~np.isnan(column)])
    column = np.where(np.isnan(column), np.median(known) if len(known) else 0.0, column)
    if len(known) <= _LEVELS:
        return (column[:, None] == known[None, 1:]).astype(np.float64)
    splines = SplineTransformer(knots, knots="quantile").set_output(transform="default")
    return splines.fit_transform(column[:, None])[:, 1:]
