"""Mean and scale of each column of data, and limits beyond which values are not believed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from gpukfl._array import Array, array_namespace, double_like, to_host
from gpukfl._rows import Rows
from gpukfl._warnings import warn

# What 2 % of a column's values do is believed, however far away they are
_COMMON, _REACH = 0.98, 20.0
_FAR = 1e4  # standard deviations from 0, or units, from which features are awkward
_SAMPLE_ROWS, _SAMPLE_CELLS = 5_000, 2**22  # that the limits are chosen on, at most
_GLANCE = 500  # rows that units are looked at in


def column_statistics(
    rows: Rows, weights: np.ndarray | None, /
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted mean and standard deviation (d,) of each column, and its limits (4, d).

    These are the lowest value that is believed, the 1 % and 99 % quantiles, which take the place of
    those that are not, and the highest. Believed is what is at most 20 times as far from the
    median as 98 % of the values of a sample that differ from it: 47 standard deviations of a
    normal column, and more where tails are heavy. Other values are left out of mean and standard
    deviation. Data are read by blocks, sums are in float64. A column that does not vary has
    standard deviation 1, so that dividing leaves it as it is.

    Raises
    ------
    ValueError
        If the squares of deviations overflow.
    """
    n, d = rows.shape
    w = np.ones(n) if weights is None else weights
    index = _sample(n, d)
    with np.errstate(over="ignore", invalid="ignore"):  # reported just below
        sample, width = to_host(rows.at(index)), max(2**18 // len(index), 1)
        parts = (sample[:, j : j + width] for j in range(0, d, width))  # so that copies are small
        limits = np.concatenate([_limits(part, w[index]) for part in parts], axis=1)
        mean, total = np.zeros(d), np.full(d, w.sum())
        for block, X, beyond in _blocks(rows, limits):
            mean += w[block] @ _without(X, beyond)
            total -= w[block] @ beyond
        mean /= total
        squares = np.zeros(d)
        for block, X, beyond in _blocks(rows, limits):
            squares += w[block] @ _without(X - mean, beyond) ** 2
        spread = np.sqrt(squares / total)
    if not np.isfinite(spread).all():
        msg = "X overflows float64 when it is standardised: expected deviations below 1e150"
        raise ValueError(msg)
    varies = spread > 1e-12 * (1.0 + np.abs(mean))
    scale = np.where(varies, spread, 1.0)
    # Where the sample does not vary, nothing is beyond what n values of this spread can reach
    reach = np.maximum(_REACH * scale, math.sqrt(n) * spread)
    unlimited = np.stack([mean - reach, *limits[1:3], mean + reach])
    return mean, scale, np.where(np.isfinite(limits), limits, unlimited)


def warn_of_units(X: Array, /, *, unit_free: bool) -> None:
    """Warn of features so far from 0, so large or so small that methods may not see them.

    Of those that are large or small not where a unit of all features changes nothing.
    """
    rows = Rows(X, array_namespace(X).empty((0,), **double_like(X)))
    sample = to_host(rows.at(_sample(*rows.shape, at_most=_GLANCE))).astype(np.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, spread = np.abs(sample.mean(axis=0)), sample.std(axis=0)
    varies = spread > 1e-12 * mean
    awkward = varies & (mean > _FAR * spread)
    if not unit_free and varies.any() and not 1.0 / _FAR < spread.max() < _FAR:
        awkward |= varies & (spread == spread.max())
    if awkward.any():
        k = np.argmax(awkward)
        msg = (
            f"expected features around 0 of about unit variance, got feature {k} of mean "
            f"{sample[:, k].mean():.1e} and standard deviation {spread[k]:.1e}: standardize=True "
            "scales them"
        )
        warn(msg, UserWarning)


def _sample(n: int, d: int, *, at_most: int = _SAMPLE_ROWS) -> np.ndarray:
    """Rows to look at, the same in every call."""
    count = min(at_most, max(_SAMPLE_CELLS // d, 200))
    if n <= count:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, count, replace=False))


def _without(X: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    return np.where(beyond, 0.0, X) if beyond.any() else X


def _blocks(rows: Rows, limits: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield (rows, their values, whether these are beyond the limits)."""
    for start, stop, block in rows.blocks():
        X = to_host(block).astype(np.float64, copy=False)
        yield slice(start, stop), X, (limits[0] > X) | (limits[-1] < X)


def _limits(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Limits (4, d) of the columns of `X` (m, d); infinite where a column does not vary."""
    wide = np.broadcast_to(w[:, None], X.shape)
    middle = _quantile(X, wide, 0.5)
    gaps = np.abs(X - middle)
    varying = np.where(gaps > 1e-12 * (1.0 + np.abs(middle)), wide, 0.0)
    reach = _REACH * _quantile(gaps, varying, _COMMON)
    reach = np.where(varying.any(axis=0), reach, np.inf)
    usual = (_quantile(X, wide, share) for share in (0.5 - _COMMON / 2, 0.5 + _COMMON / 2))
    return np.stack([middle - reach, *usual, middle + reach])


def _quantile(X: np.ndarray, weights: np.ndarray, share: float) -> np.ndarray:
    """Lowest value of each column that has at least this share of the weight up to it."""
    order = np.argsort(X, axis=0, kind="stable")
    up_to = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
    first = np.argmax(up_to >= (1.0 - 1e-12) * share * up_to[-1], axis=0)
    return np.take_along_axis(X, np.take_along_axis(order, first[None], axis=0), axis=0)[0]
