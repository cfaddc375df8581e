"""Scalings of the columns of data, one class each."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

import numpy as np

from gpukfl.core._annotations import Doubles, array_numbers, field_hints
from gpukfl.core._array import (
    Array,
    array_namespace,
    clip,
    double_reference,
    like,
    take_rows,
    to_host,
)
from gpukfl.core._warnings import warn
from gpukfl.linalg import interpolate_columns
from gpukfl.partitioned._rows import Rows, elementwise_min, reduce_rows

# ------------------------------------------------------------------------------------ base


@dataclass(frozen=True, eq=False)
class ColumnScaling(ABC):
    """A map of each column, learned from rows; its fields are host arrays.

    Attributes
    ----------
    unit : str
        What a scaled column is measured in, in the words of a picture.
    note : str
        What importances, directions and projections are in, in a sentence.
    """

    unit: ClassVar[str]
    note: ClassVar[str]

    @property
    def parts(self) -> tuple[Self, ...]:
        """Itself: it scales each column once."""
        return (self,)

    @classmethod
    @abstractmethod
    def fit(cls, rows: Rows, weights: np.ndarray | None, /) -> Self:
        """Learn from unscaled rows (n, d) in float64, with positive weights (n,)."""

    @abstractmethod
    def __call__(self, X: Array, /) -> Array:
        """Scale `X` (m, d) of float64 on its place."""

    @abstractmethod
    def select_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Return the scaling of some columns, whose results are multiplied by positive factors."""

    @classmethod
    def concat(cls, parts: Sequence[Self], /) -> Self:
        """Return the scaling that concatenates the columns of several scalings."""
        found = {}
        for name, hint in field_hints(cls).items():
            numbers = array_numbers(hint)
            assert numbers is not None
            axis = numbers.shape.index("n_features")
            found[name] = _concat_and_pad([getattr(part, name) for part in parts], axis)
        return cls(**found)

    def check(self) -> None:
        """Raise ValueError unless its arrays are such as are learned."""
        for name, array in vars(self).items():
            if not np.isfinite(to_host(array)).all():
                msg = f"expected finite {name} of a scaling of features"
                raise ValueError(msg)


def _concat_and_pad(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Join arrays along one axis; pad shorter ones by their last values."""
    sizes = np.max([array.shape for array in arrays], axis=0)
    sizes[axis] = 0
    padded = [
        np.pad(
            array,
            [(0, max(size - n, 0)) for n, size in zip(array.shape, sizes, strict=True)],
            "edge",
        )
        for array in arrays
    ]
    return np.concatenate(padded, axis=axis)


# ---------------------------------------------------------------------------------- sample

_ROWS, _CELLS = 5_000, 2**22  # most rows and values of a sample
LARGE_SAMPLE = 20_000  # most rows of a large sample


def sample_rows(n: int, d: int, *, at_most: int = _ROWS) -> np.ndarray:
    """Return a sample of row numbers, the same in every call."""
    count = min(at_most, max(_CELLS // d, 200))
    if n <= count:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, count, replace=False))


def draw_weighted_sample(
    rows: Rows, weights: np.ndarray | None, /, *, at_most: int
) -> tuple[np.ndarray, np.ndarray]:
    """Copy a sample of the rows of positive weight, and their weights, to the host."""
    n, d = rows.shape
    if isinstance(weights, np.ndarray):
        kept = np.flatnonzero(weights)
        index = kept[sample_rows(len(kept), d, at_most=at_most)]
    else:
        index = sample_rows(n, d, at_most=at_most)
    return to_host(rows.gather(index)), host_weights(weights, index)


def host_weights(weights: Array | None, rows: np.ndarray | slice, /) -> np.ndarray:
    """Return the weights of some rows on the host, at host indices or in a slice."""
    if weights is None:
        return np.ones(rows.stop - rows.start if isinstance(rows, slice) else len(rows))
    return to_host(weights[rows] if isinstance(rows, slice) else take_rows(weights, rows))


def apply_by_columns(
    of: Callable[[np.ndarray, np.ndarray], np.ndarray], X: np.ndarray, w: np.ndarray, /
) -> np.ndarray:
    """Apply a function (k, d) to the columns of `X` (m, d) by blocks, to limit copies."""
    width = max(2**18 // len(X), 1)
    parts = (X[:, j : j + width] for j in range(0, X.shape[1], width))
    return np.concatenate([of(part, w) for part in parts], axis=1)


def column_quantiles(X: np.ndarray, weights: np.ndarray, *shares: float) -> np.ndarray:
    """Return the weighted quantiles (k, d) of the columns for k shares.

    `X` and its weights are (m, d). If positive weights are equal, values alone are sorted, which
    is ten times as fast.
    """
    counted = weights > 0
    if weights.max() == weights.min(where=counted, initial=np.inf):
        values = np.sort(np.ascontiguousarray(np.where(counted, X, np.inf).T), axis=1)
        least = np.outer((1.0 - 1e-12) * np.asarray(shares), counted.sum(axis=0))
        first = np.ceil(least).astype(np.intp) - 1
        return np.take_along_axis(values, np.maximum(first, 0).T, axis=1).T
    order = np.argsort(X, axis=0, kind="stable")
    up_to = np.cumsum(np.take_along_axis(weights, order, axis=0), axis=0)
    reached = (up_to >= (1.0 - 1e-12) * share * up_to[-1] for share in shares)
    first = np.stack([np.argmax(one, axis=0) for one in reached])
    return np.take_along_axis(X, np.take_along_axis(order, first, axis=0), axis=0)


# ---------------------------------------------------------------------------------- limits


# Values are outliers beyond 20 times the distance of 98 % of the values from the median
_COMMON, REACH = 0.98, 20.0


def column_limits(X: np.ndarray, w: np.ndarray, /) -> np.ndarray:
    """Return the outlier limits (4, d) of the columns of `X` (m, d); infinite for constants.

    These are the lowest value that is no outlier, the 1 % and 99 % quantiles of values that are no
    outliers, and the highest such value.
    """
    wide = np.broadcast_to(w[:, None], X.shape)
    (middle,) = column_quantiles(X, wide, 0.5)
    gaps = np.abs(X - middle)
    varying = np.where(gaps > 1e-12 * np.abs(middle), wide, 0.0)
    reach = REACH * column_quantiles(gaps, varying, _COMMON)[0]
    reach = np.where(varying.any(axis=0), reach, np.inf)
    believed = np.where(gaps <= reach, wide, 0.0)
    low, high = column_quantiles(X, believed, 0.5 - _COMMON / 2, 0.5 + _COMMON / 2)
    return np.stack([middle - reach, low, high, middle + reach])


def iterate_outlier_blocks(
    rows: Rows, limits: np.ndarray, start: int, stop: int, /
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """Yield blocks of rows, their values, and whether these are beyond the limits."""
    limits = to_host(limits)
    for first, last, block in rows.blocks(start=start, stop=stop):
        X = to_host(block).astype(np.float64, copy=False)
        yield slice(first, last), X, (limits[0] > X) | (limits[-1] < X)


def value_ranges(
    rows: Rows, weights: np.ndarray | None, limits: np.ndarray | None = None, /
) -> np.ndarray:
    """Return the lowest and highest values (2, d) of rows of positive weight within limits."""
    d = rows.shape[1]
    limits = np.outer([-np.inf, np.inf], np.ones(d)) if limits is None else limits

    def part(start: int, stop: int) -> tuple[np.ndarray]:
        ends = np.full((2, d), np.inf)
        for block, X, beyond in iterate_outlier_blocks(rows, limits, start, stop):
            out = beyond
            if weights is not None:
                out = beyond | (host_weights(weights, block) == 0)[:, None]
            some = out.any()  # else without copies, which take most of the time
            low = np.where(out, np.inf, X) if some else X
            high = np.where(out, -np.inf, X) if some else X
            ends = np.minimum(ends, [low.min(axis=0), -high.max(axis=0)])
        return (ends,)

    (ends,) = reduce_rows(rows.source, part, combine=elementwise_min)
    low, minus_high = to_host(ends)
    return np.stack([low, -minus_high])


# -------------------------------------------------------------------------------- standard


@dataclass(frozen=True, eq=False)
class StandardScaling(ColumnScaling):
    """Zero mean and unit variance: ``(x - mean) / scale``, robust to gross outliers.

    Attributes
    ----------
    mean, scale : host array, shape (d,)
        Mean and standard deviation; the latter is 1 for a column that does not vary.
    limits : host array, shape (4, d)
        Lowest value that is taken as it is, the 1 % and the 99 % quantile, which take the place of
        values below and above, and the highest.
    """

    mean: Annotated[Array, Doubles("n_features")]
    scale: Annotated[Array, Doubles("n_features")]
    limits: Annotated[Array, Doubles(4, "n_features")]
    unit: ClassVar[str] = "standard deviations"
    note: ClassVar[str] = (
        "Importances, directions and projections are in standard deviations of the features."
    )

    @classmethod
    def fit(cls, rows: Rows, weights: np.ndarray | None, /) -> Self:
        """Learn from unscaled rows (n, d) in float64; see `column_statistics`."""
        return cls(*column_statistics(rows, weights))

    @classmethod
    def none(cls, d: int, /) -> Self:
        """Return the identity."""
        ends = np.full((2, d), np.inf)
        return cls(np.zeros(d), np.ones(d), np.concatenate([-ends, ends]))

    def __call__(self, X: Array, /) -> Array:
        """Scale `X` (m, d) of float64 on its place."""
        xp = array_namespace(X)
        host = np.vstack([to_host(part) for part in (self.limits, self.mean, self.scale)])
        numbers = xp.asarray(host, **like(X))
        lowest, low, high, highest, mean, scale = (numbers[k, :] for k in range(6))
        X = xp.where(lowest > X, low, xp.where(highest < X, high, X))
        return (X - mean) / scale

    def select_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Return the scaling of some columns, whose results are multiplied by positive factors."""
        parts = self.mean[columns], self.scale[columns] / factors, self.limits[:, columns]
        return type(self)(*parts)

    def check(self) -> None:
        """Raise ValueError unless arrays are finite, and scales positive."""
        super().check()
        if not (to_host(self.scale) > 0).all():
            msg = "expected a scaling of features by positive numbers"
            raise ValueError(msg)


def column_statistics(
    rows: Rows, weights: np.ndarray | None, /
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the weighted mean and standard deviation (d,) of each column, and its limits (4, d).

    See `column_limits`; outliers are replaced by the 1 % or 99 % quantile. They are more than 20
    times as far from the median as 98 % of a sample's values that differ from it: 47 standard
    deviations of a normal column, and more for heavy tails. Means and standard deviations leave
    outliers out. Data are read by blocks, and sums are float64. A constant column has standard
    deviation 1.

    Raises
    ------
    ValueError
        If the squares of deviations overflow.
    """
    n, d = rows.shape
    index = sample_rows(n, d)

    def sums(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        first, total = np.zeros(d), np.zeros(d)
        for block, X, beyond in iterate_outlier_blocks(rows, limits, start, stop):
            w = host_weights(weights, block)
            first += w @ _zero_outliers(X, beyond)
            total += w.sum() - w @ beyond
        return first, total

    def sum_squares(start: int, stop: int) -> tuple[np.ndarray]:
        squares = np.zeros(d)
        for block, X, beyond in iterate_outlier_blocks(rows, limits, start, stop):
            small = (X - to_host(mean)) / to_host(unit)
            squares += host_weights(weights, block) @ _zero_outliers(small, beyond) ** 2
        return (squares,)

    with np.errstate(over="ignore", invalid="ignore"):  # reported just below
        limits = apply_by_columns(
            column_limits, to_host(rows.gather(index)), host_weights(weights, index)
        )
        unit = _power_of_two_unit(limits)
        first, total = map(to_host, reduce_rows(rows.source, sums))
        mean = first / total
        (squares,) = map(to_host, reduce_rows(rows.source, sum_squares))
        spread = np.sqrt(squares / total) * unit
    if not np.isfinite(spread).all():
        msg = "X overflows float64 when it is standardised: expected deviations below 1e306"
        raise ValueError(msg)
    varies = spread > 1e-12 * np.abs(mean)  # by more than rounding
    scale = np.where(varies, spread, 1.0)
    # If the sample is constant, all n values of this spread are within the limits
    reach = np.maximum(REACH * scale, math.sqrt(n) * spread)
    unlimited = np.stack([mean - reach, *limits[1:3], mean + reach])
    return mean, scale, np.where(np.isfinite(limits), limits, unlimited)


def _power_of_two_unit(limits: np.ndarray) -> np.ndarray:
    """Return powers of two (d,): in these units squared deviations do not overflow."""
    return np.ldexp(1.0, np.minimum(np.frexp(limits[3] - limits[0])[1], 1023))


def _zero_outliers(X: np.ndarray, beyond: np.ndarray) -> np.ndarray:
    return np.where(beyond, 0.0, X) if beyond.any() else X


# ---------------------------------------------------------------------------------- robust

_BOUND = 3.0  # largest scaled value, in interquartile ranges, as in the reference
_ROUNDING = 1e-12  # spread of a constant column by rounding, relative to the median
_HUGE = 1e150  # its square does not overflow


@dataclass(frozen=True, eq=False)
class RobustScaling(ColumnScaling):
    r"""Centred by the median, divided by the interquartile range, and bounded smoothly.

    .. math:: z = (x - m) / s, \qquad z / \sqrt{1 + (z / 3)^2}

    Where the interquartile range is 0, s is half the range of the values that `column_limits`
    believes, and where that is 0 too, the column is 0.

    Attributes
    ----------
    median, factor : host array, shape (d,)
        m and 1/s; the latter is 0 for a column that does not vary.
    bound : host array, shape (d,)
        3: what no absolute value exceeds.

    References
    ----------
    .. [1] Holzmüller, Grinsztajn and Steinwart, "Better by default: strong pre-tuned MLPs and
       boosted trees on tabular data", NeurIPS 2024, Section 3.
    """

    median: Annotated[Array, Doubles("n_features")]
    factor: Annotated[Array, Doubles("n_features")]
    bound: Annotated[Array, Doubles("n_features")]
    unit: ClassVar[str] = "interquartile ranges, bounded by 3"
    note: ClassVar[str] = (
        "Importances, directions and projections are of scaled features: interquartile ranges from "
        "the median, bounded smoothly by 3."
    )

    @classmethod
    def fit(cls, rows: Rows, weights: np.ndarray | None, /) -> Self:
        """Learn from unscaled rows (n, d) in float64: quantiles from at most 20 000 of them.

        Raises
        ------
        ValueError
            If a range overflows.
        """
        sample, w = draw_weighted_sample(rows, weights, at_most=LARGE_SAMPLE)
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            median, spread = apply_by_columns(_quartiles, sample, w)
            tied = ~(spread > _ROUNDING * np.abs(median))
            if tied.any():
                limits = apply_by_columns(column_limits, sample, w)
                low, high = value_ranges(rows, weights, limits)
                extent = 0.5 * high - 0.5 * low
                extent = np.where(extent > _ROUNDING * np.abs(median), extent, 0.0)
                spread = np.where(tied, extent, spread)
            factor = np.where(spread > 0, 1.0 / np.where(spread > 0, spread, 1.0), 0.0)
        if not (np.isfinite(spread).all() and np.isfinite(factor).all()):
            msg = "X overflows float64 when it is scaled: expected ranges from 1e-307 to 1e308"
            raise ValueError(msg)
        return cls(median, factor, np.full(len(median), _BOUND))

    def __call__(self, X: Array, /) -> Array:
        """Scale `X` (m, d) of float64 on its place."""
        xp = array_namespace(X)
        median, factor, bound = (
            xp.asarray(part, **like(X)) for part in (self.median, self.factor, self.bound)
        )
        with np.errstate(over="ignore"):  # infinity is clipped too
            z = clip((X - median) * factor, low=-_HUGE, high=_HUGE)
        return z / xp.sqrt(1.0 + (z / bound) ** 2)

    def select_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Return the scaling of some columns, whose results are multiplied by positive factors."""
        by = self.factor[columns] * factors, self.bound[columns] * factors
        return type(self)(self.median[columns], *by)

    def check(self) -> None:
        """Raise ValueError unless arrays are finite, factors at least 0, and bounds positive."""
        super().check()
        if not ((to_host(self.factor) >= 0).all() and (to_host(self.bound) > 0).all()):
            msg = "expected a scaling of features by positive bounds"
            raise ValueError(msg)


def _quartiles(X: np.ndarray, w: np.ndarray, /) -> np.ndarray:
    """Return the median and interquartile range (2, d) of the columns of `X` (m, d)."""
    wide = np.broadcast_to(w[:, None], X.shape)
    # The middle of the lower and upper quantiles, so that X and -X agree
    lowest, highest = (
        column_quantiles(X, wide, 0.25, 0.5, 0.75),
        -column_quantiles(-X, wide, 0.75, 0.5, 0.25),
    )
    low, middle, high = 0.5 * lowest + 0.5 * highest
    return np.stack([middle, high - low])


# -------------------------------------------------------------------------------- quantile

# Quantiles of a column: at most 1000, with so many in all columns, but at least 100
_MOST, _TABLE_CELLS, _FEWEST = 1000, 2**22, 100
_TIE = 1e-12  # relative difference of equal values, and relative range of a constant column

Table = tuple[np.ndarray, np.ndarray]  # values of a column, and their shares


@dataclass(frozen=True, eq=False)
class QuantileScaling(ColumnScaling):
    r"""Normal scores of the ranks: :math:`\Phi^{-1}` of the share of the weight below a value.

    Of equal values half counts as below, so that a column of ties is in the middle of its scores.
    Linear between the quantiles of a table, and constant beyond its ends.

    Attributes
    ----------
    values, scores : host array, shape (d, q)
        Quantiles of each column, ascending, and their scores. A column with fewer repeats its last.

    References
    ----------
    .. [1] Blom, "Statistical estimates and transformed beta-variables", 1958: normal scores.
    """

    values: Annotated[Array, Doubles("n_features", "n_quantiles")]
    scores: Annotated[Array, Doubles("n_features", "n_quantiles")]
    unit: ClassVar[str] = "normal scores"
    note: ClassVar[str] = (
        "Importances, directions and projections are of scaled features: normal scores of their "
        "ranks."
    )

    @classmethod
    def fit(cls, rows: Rows, weights: np.ndarray | None, /) -> Self:
        """Learn from unscaled rows (n, d) in float64: all if they are at most 20 000.

        From more, quantiles are those of some of the rows, and both ends those of all.

        Raises
        ------
        ValueError
            If the range of a column overflows.
        """
        from scipy.special import ndtri

        sample, w = draw_weighted_sample(rows, weights, at_most=LARGE_SAMPLE)
        d = sample.shape[1]
        ends = value_ranges(rows, weights) if len(sample) < rows.shape[0] else None
        at_most = min(_MOST, max(_TABLE_CELLS // d, _FEWEST))
        tables = []
        for j in range(d):
            table = _rank_column(sample[:, j], w)
            if ends is not None:
                table = _extend_ends(table, ends[0, j], ends[1, j], rows.shape[0])
            tables.append(_thin_table(table, at_most))
        q = max(len(values) for values, _ in tables)
        padded = [[np.pad(part, (0, q - len(part)), "edge") for part in table] for table in tables]
        values, shares = np.stack(padded, axis=1)
        return cls(values, ndtri(shares))

    def __call__(self, X: Array, /) -> Array:
        """Scale `X` (m, d) of float64 on its place."""
        xp = array_namespace(X)
        values, scores = (xp.asarray(part, **like(X)) for part in (self.values, self.scores))
        return interpolate_columns(X, values, scores)

    def select_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Return the scaling of some columns, whose results are multiplied by positive factors."""
        return type(self)(self.values[columns], self.scores[columns] * factors[:, None])

    def check(self) -> None:
        """Raise ValueError unless quantiles and scores are finite, ascend, and are not empty."""
        super().check()
        parts = [to_host(part) for part in (self.values, self.scores)]
        ascending = all(bool((part[:, 1:] >= part[:, :-1]).all()) for part in parts)
        if not ascending or not self.values.shape[1]:
            msg = "expected a scaling of features by ascending quantiles"
            raise ValueError(msg)


def _rank_column(x: np.ndarray, w: np.ndarray, /) -> Table:
    """Return the sorted distinct values of a column (m,), and the shares of weight below them.

    Values that differ by rounding are merged, as scores would jump between them.
    """
    values, which = np.unique(x, return_inverse=True)
    sizes = np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
    with np.errstate(over="ignore"):  # reported when it is thinned
        first = np.append(True, np.diff(values) > _TIE * sizes)
    values, mass = values[first], np.bincount((np.cumsum(first) - 1)[which], w)
    up_to = np.cumsum(mass)
    return values, (up_to - 0.5 * mass) / up_to[-1]


def _extend_ends(table: Table, lowest: float, highest: float, n: int, /) -> Table:
    """Add the extremes of all n rows to the table of a sample."""
    values, shares = table
    if lowest < values[0]:
        values = np.append(lowest, values)
        shares = np.append(min(0.5 / n, shares[0]), shares)
    if highest > values[-1]:
        values = np.append(values, highest)
        shares = np.append(shares, max(1.0 - 0.5 / n, shares[-1]))
    return values, shares


def _thin_table(table: Table, at_most: int, /) -> Table:
    """Return some values at equal steps of their shares, with both ends."""
    values, shares = table
    with np.errstate(over="ignore"):  # reported just below
        extent = values[-1] - values[0]
    if not np.isfinite(extent):
        msg = "X overflows float64 when it is scaled: expected ranges below 1e308"
        raise ValueError(msg)
    if extent <= _TIE * np.abs(values[[0, -1]]).max():
        return values[:1], np.full(1, 0.5)
    if len(values) <= at_most:
        return values, shares
    steps = np.linspace(shares[0], shares[-1], at_most)
    kept = np.unique(np.searchsorted(shares, steps).clip(max=len(values) - 1))
    return values[kept], shares[kept]


# --------------------------------------------------------------------------------- several


@dataclass(frozen=True, eq=False)
class ScalingPerTerm:
    """Several scalings of the same columns, one for each term of a kernel.

    Rows (n, d) become (n, s d): all columns by the first scaling, then all by the next.

    Attributes
    ----------
    parts : tuple of ColumnScaling
        One for each term.
    """

    parts: tuple[ColumnScaling, ...]
    unit: ClassVar[str] = "units of the mean of its scalings"
    note: ClassVar[str] = (
        "Importances, directions and projections are of scaled features: of the mean of the "
        "scalings of each, one for each term of the kernel."
    )

    def __call__(self, X: Array, /) -> Array:
        """Scale `X` (m, d) of float64 on its place: (m, s d)."""
        return array_namespace(X).concat([part(X) for part in self.parts], axis=1)

    def select_columns(self, columns: np.ndarray, factors: np.ndarray, /) -> Self:
        """Return the scalings of some columns, whose results are multiplied by positive factors."""
        return type(self)(tuple(part.select_columns(columns, factors) for part in self.parts))

    def check(self) -> None:
        """Raise ValueError unless there are several."""
        if len(self.parts) < 2:
            msg = f"expected a scaling for each of two terms or more, got {len(self.parts)}"
            raise ValueError(msg)


AnyScaling = ColumnScaling | ScalingPerTerm


# ---------------------------------------------------------------------------------- chosen

SCALINGS: dict[str, type[ColumnScaling]] = {
    "standard": StandardScaling,
    "robust": RobustScaling,
    "quantile": QuantileScaling,
}
WORDS = ("auto", *SCALINGS, None)  # of the parameter `scaling`
_HEAVY = 20.0  # excess kurtosis; separates the data sets, of 26, on which "robust" is better


def learn_scaling(
    word: str | tuple[str, ...], rows: Rows, weights: np.ndarray | None, /
) -> AnyScaling:
    """Learn the named scaling from unscaled rows (n, d) in float64, with positive weights (n,).

    "auto" is "robust" if a column has heavy tails, which would dominate distances, else "standard".
    A tuple gives a scaling for each name.
    """
    if isinstance(word, tuple):
        known = {name: _learn_one(name, rows, weights) for name in dict.fromkeys(word)}
        return ScalingPerTerm(tuple(known[name] for name in word))
    return _learn_one(word, rows, weights)


def _learn_one(word: str, rows: Rows, weights: np.ndarray | None) -> ColumnScaling:
    if word == "auto":
        word = "robust" if has_heavy_tails(rows, weights) else "standard"
    return SCALINGS[word].fit(rows, weights)


def has_heavy_tails(rows: Rows, weights: np.ndarray | None, /) -> bool:
    """Whether a column has an excess kurtosis above 20, in a sample of at most 20 000 rows.

    Columns of two values have no tails, even if one is rare. Outliers by `column_limits` are left
    out.
    """
    sample, w = draw_weighted_sample(rows, weights, at_most=LARGE_SAMPLE)
    with np.errstate(over="ignore", invalid="ignore"):  # limits are then infinite
        return bool((apply_by_columns(_excess_kurtosis, sample, w) > _HEAVY).any())


def _excess_kurtosis(X: np.ndarray, w: np.ndarray, /) -> np.ndarray:
    """Return the excess kurtosis (1, d) of columns; 0 for two values."""
    limits = column_limits(X, w)
    left_out = (limits[0] > X) | (limits[-1] < X)
    low = np.where(left_out, np.inf, X).min(axis=0)
    high = np.where(left_out, -np.inf, X).max(axis=0)
    extent = np.where(high > low, 0.5 * high - 0.5 * low, 1.0)
    Z = (0.5 * X - 0.25 * low - 0.25 * high) / extent  # within 0.5 of 0, so that nothing overflows
    Z, share = np.where(left_out, 0.0, Z), np.where(left_out, 0.0, w[:, None])
    share = share / share.sum(axis=0)
    Z = Z - (share * Z).sum(axis=0)
    squares = Z * Z
    second, fourth = (share * squares).sum(axis=0), (share * squares * squares).sum(axis=0)
    several = (~left_out & (low < X) & (high > X)).any(axis=0) & (second > 0)
    return np.where(several, fourth / np.where(several, second, 1.0) ** 2 - 3.0, 0.0)[None]


# ----------------------------------------------------------------------------------- units

_FAR = 1e4  # largest mean in standard deviations, and largest or smallest 1 / deviation
_GLANCE = 500  # rows of the sample


def warn_bad_units(X: Array, /, *, unit_free: bool) -> None:
    """Warn of features whose size or offset hides them from the methods.

    If a common factor of all features changes nothing (`unit_free`), their size is not warned of.
    """
    rows = Rows(X, double_reference(X))
    sample = to_host(rows.gather(sample_rows(*rows.shape, at_most=_GLANCE))).astype(
        np.float64, copy=False
    )
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
            f"{sample[:, k].mean():.1e} and standard deviation {spread[k]:.1e}: scaling='standard' "
            "scales them"
        )
        warn(msg, UserWarning)


# -------------------------------------------------------------------------- documentation

_WAYS = """    scaling : {"auto", "standard", "robust", "quantile", None}, default="auto"
        Scaling of each feature. "standard": zero mean and unit variance, without values far beyond
        all others, see `scaling_`. "robust": by the median and the interquartile range, bounded
        smoothly by 3. "quantile": to normal scores of the ranks. None: no scaling."""
# Parts of docstrings
SCALING = f"""{_WAYS} "auto" is "robust" if a feature of more than two values has
        an excess kurtosis above 20, else "standard".
"""
STANDARD_SCALING = f"""{_WAYS} "auto" is "standard".
"""
SCALING_ATTRIBUTE = """    scaling_ : ColumnScaling or None
        The scaling, as a function of rows. "standard" has `mean`, `scale` and `limits`
        (4, n_features). Values below the first limit are replaced by the second, the 1 % quantile.
        Values above the last are replaced by the third, the 99 % quantile. "robust" has `median`
        and `factor`; "quantile" has a table of `values` and their `scores`.
"""


__all__ = [
    "SCALINGS",
    "WORDS",
    "AnyScaling",
    "ColumnScaling",
    "QuantileScaling",
    "RobustScaling",
    "ScalingPerTerm",
    "StandardScaling",
    "has_heavy_tails",
    "learn_scaling",
]
