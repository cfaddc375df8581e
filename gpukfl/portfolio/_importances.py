"""Permutation importances: how much a blend loses where columns of held-out rows are shuffled."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gpukfl.core._array import Array, array_namespace, get_device, to_host
from gpukfl.core._results import History
from gpukfl.core._warnings import warn
from gpukfl.estimators._run import current_report
from gpukfl.inspection._metrics import influence_error
from gpukfl.portfolio._folds import HeldOutLoss

_ALIKE = 0.9  # correlation from which columns are shuffled together
_ROWS = 500  # of all folds, that are shuffled however long it takes
_SECONDS = 3.0  # from the beginning, in which there are more
_MOMENT = 0.3  # seconds that importances may take when the time is over
_TINY = 1e-9
_PASSES = 100  # predictions of a fold's first rows
_NAMED = 10  # groups
_ELEMENTS = 2**18  # of rows that are predicted at once
_PAIRS = 2**22  # of correlations at once
_FEWEST_ROWS = 20  # that tell something
_ALONE = 100  # rows of a fold from which they are shuffled among themselves
_WORK = 10**8  # of rows that are predicted in a fold, with its columns shuffled one by one
_CONSTANT = 1e-13  # deviation, as a share of the largest value, that is rounding


def group_columns(
    X: np.ndarray,
    sources: Sequence[int] | None = None,
    /,
    *,
    alike: float = _ALIKE,
    is_over: Callable[[], bool] = lambda: False,
) -> list[list[int]]:
    """Return groups of columns (n, d) linked by correlations of at least `alike`.

    Those of one source in any case; missing values count as what is usual. O(n d²) time; of
    thousands of columns the last ones are joined with none where it `is_over` before.
    """
    d = X.shape[1]
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    step = max(1, _PAIRS // d)
    U = np.zeros((0, d)) if step < d and is_over() else _standardise(X)
    for start in range(0, d, step):  # never all d² of them
        if step < d and is_over():
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


def _standardise(X: np.ndarray) -> np.ndarray:
    """Return columns of mean 0 and length 1, or 0 for constants; missing values are means."""
    X = X.astype(np.float64)
    X = np.where(np.isnan(X), np.nan_to_num(_known_means(X)), X)
    largest = np.max(np.abs(X), axis=0)
    X = X / np.where(largest > 0, largest, 1.0)
    X -= X.mean(axis=0)
    lengths = np.linalg.norm(X, axis=0)
    varies = lengths > _CONSTANT * len(X) ** 0.5
    return np.where(varies, X / np.where(varies, lengths, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class PermutationImportances:
    """Permutation importances of features.

    Attributes
    ----------
    shares, errors : arrays, shape (n_features,)
        Of sum 1, or 0 where nothing matters; and their standard errors, as the rows or their groups
        are a sample, given the sum.
    total : float
        The sum of what is lost of the score, of which these are shares.
    groups : list of lists of int
        Features that are shuffled together.
    n_rows, n_held_out : int
        Rows that are shuffled, and rows there are.
    is_interrupted : bool
        Whether the user stopped it, so that they are of fewer rows.
    """

    shares: np.ndarray
    errors: np.ndarray
    total: float
    groups: list[list[int]]
    n_rows: int
    n_held_out: int
    is_interrupted: bool


def permutation_importances(
    held_out: Sequence[Array],
    sources: Sequence[int],
    n_features: int,
    predict: Callable[[int, Array], np.ndarray],
    judge: HeldOutLoss,
    rng: np.random.RandomState,
    left: Callable[[], float],
    /,
    *,
    repeats: int = 1,
) -> PermutationImportances:
    """Return permutation importances of columns, and the groups that are shuffled together.

    Those of a group have equal shares of its importance. Of thousands of columns those that are
    hardly correlated with predictions are not shuffled: their importance is 0. Some 500 rows are
    shuffled, and all others as far as three seconds suffice: one prediction of a row for each group
    of columns. Where time is short, or the user interrupts, rows are fewer, which the errors show.

    Parameters
    ----------
    held_out : sequence of arrays
        Rows of each fold.
    sources : sequence of int
        Which feature each of their columns is made of.
    n_features : int
        How many there are.
    predict : callable
        Predictions for rows by the models of a fold, on the host.
    judge : HeldOutLoss
        Of all rows that are held out, in the order of the folds.
    rng : RandomState
        Draws rows, and shuffles.
    left : callable
        Seconds that are left, infinite without a limit. Where one prediction says that they are
        not enough for a few rows, columns are fewer: those most correlated with predictions.
    repeats : int
        Shuffles of which the mean is taken.

    Raises
    ------
    KeyboardInterrupt
        If it is interrupted before a few rows are done.
    """
    end = time.perf_counter() + _SECONDS
    parts = _deal_parts([part.shape[0] for part in held_out], rng)
    some = [_take_rows(held_out[k], index) for k, index in parts[: len(held_out)]]
    seen = np.concatenate([to_host(part) for part in some])
    joined = group_columns(seen, sources, is_over=lambda: left() <= _MOMENT)
    pool = array_namespace(some[0]).concat(some, axis=0)
    predicted = predict(0, some[0])
    groups = _leading_groups(joined, to_host(some[0]), predicted)
    begins = np.concatenate([[0], np.cumsum([part.shape[0] for part in held_out])])
    gains: list[np.ndarray] = []  # of each group and row, NaN where it is not done
    numbers: list[np.ndarray] = []  # of these rows
    n_first, is_interrupted = max(1, min(len(some), _PASSES // len(groups))), False
    n_rows = sum(len(index) for _, index in parts[:n_first])

    def left_for_more() -> float:
        return min(left(), end - time.perf_counter())

    try:
        for at, (k, index) in enumerate(parts):
            X = some[at] if at < len(some) else _take_rows(held_out[k], index)
            others = X if len(index) >= _ALONE else pool
            fold = _Fold(X, begins[k] + index, partial(predict, k), judge, repeats, others)
            if at == 0:
                groups = _affordable_groups(groups, fold, predicted, left())
            gains.append(np.full((len(groups), len(index)), np.nan))
            numbers.append(fold.numbers)
            there_is = left if at < n_first else left_for_more
            if not groups or not _shuffle_in_time(fold, groups, gains, rng, there_is):
                break
    except KeyboardInterrupt:
        if _n_known(gains) < min(_FEWEST_ROWS, n_rows):
            raise
        is_interrupted = True
    if groups and _n_known(gains) < n_rows:
        why = "they were interrupted" if is_interrupted else "max_time was reached"
        warn(f"feature importances use only {_n_known(gains)} of {n_rows} rows: {why}")
    known = _Gains(np.concatenate(gains, axis=1), np.concatenate(numbers), judge)
    shares, errors, total = known.sum_by_feature(groups, sources, n_features)
    features = [sorted({sources[column] for column in columns}) for columns in joined]
    return PermutationImportances(
        *(shares, errors, total, features, _n_known(gains), int(begins[-1]), is_interrupted)
    )


def _deal_parts(sizes: Sequence[int], rng: np.random.RandomState) -> list[tuple[int, np.ndarray]]:
    """Deal the rows of folds into random parts, the first part of every fold before any second."""
    size = -(-_ROWS // len(sizes))
    dealt = []
    for k, n in enumerate(sizes):
        count = max(1, round(n / size))
        order = np.arange(n) if count == 1 else rng.permutation(n)
        parts = np.array_split(order, count)
        dealt += [(at, k, np.sort(index)) for at, index in enumerate(parts)]
    return [(k, index) for _, k, index in sorted(dealt, key=lambda one: one[:2])]


@dataclass(frozen=True, eq=False)
class _Fold:
    """Rows of a fold, whose columns are shuffled."""

    X: Array
    numbers: np.ndarray  # among the rows that the judge knows
    predict: Callable[[Array], np.ndarray]
    judge: HeldOutLoss
    repeats: int  # shuffles of which the mean is taken
    others: Array  # rows whose columns it takes: its own, or of few rows those of all folds

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def _plain(self) -> tuple[np.ndarray, float]:
        """The losses, and the seconds that a row takes."""
        begun = time.perf_counter()
        alike = _shuffle_columns(self.X, self.X, [0])
        losses = self.judge.losses(self.predict(alike), self.numbers)
        return losses, max(time.perf_counter() - begun, _TINY) / len(self)

    @property
    def seconds(self) -> float:
        """The seconds that a row takes with the columns of one group shuffled."""
        return self.repeats * self._plain[1]

    def draw_orders(self, n_groups: int, rng: np.random.RandomState) -> list[np.ndarray]:
        """Draw the orders in which columns of each group are shuffled, for all repeats."""
        count = self.others.shape[0]
        return [rng.permutation(count)[: len(self)] for _ in range(n_groups * self.repeats)]

    def gains(
        self, rows: np.ndarray, groups: Sequence[Sequence[int]], orders: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the losses that shuffling of each group adds at some rows (g, b)."""
        xp, X = array_namespace(self.X), _take_rows(self.X, rows)
        shuffled = [
            _shuffle_columns(X, _take_rows(self.others, order[rows]), groups[k // self.repeats])
            for k, order in enumerate(orders)
        ]
        predicted = np.split(self.predict(xp.concat(shuffled, axis=0)), len(orders))
        losses = [self.judge.losses(found, self.numbers[rows]) for found in predicted]
        by_group = np.reshape(losses, (len(groups), self.repeats, -1)).mean(axis=1)
        return by_group - self._plain[0][rows]


def _shuffle_in_time(
    fold: _Fold,
    groups: Sequence[Sequence[int]],
    gains: list[np.ndarray],
    rng: np.random.RandomState,
    left: Callable[[], float],
) -> bool:
    """Set the last gains (g, m) by blocks of rows in random order; return whether all are done."""
    orders = fold.draw_orders(len(groups), rng)
    turn = np.random.RandomState(0).permutation(len(fold))
    step = max(1, _ELEMENTS // (len(orders) * fold.X.shape[1]))
    report, start = current_report(), 0
    while start < len(fold):
        count, known = min(step, len(fold) - start), _n_known(gains)
        seconds, there_is = len(groups) * fold.seconds, left()
        if there_is < seconds * count:
            least = min(_FEWEST_ROWS, len(fold)) if known == 0 else 0
            count = max(least, min(int(there_is / seconds), count))
            if count == 0:
                return False
        report(f"importances, {known} rows", known, History())
        rows = turn[start : start + count]
        gains[-1][:, rows] = fold.gains(rows, groups, orders)
        start += count
    return True


def _n_known(gains: Sequence[np.ndarray]) -> int:
    """Return the number of rows that are done."""
    return sum(int(np.sum(~np.isnan(part[:1]))) for part in gains)


def _affordable_groups(
    groups: list[list[int]], fold: _Fold, predicted: np.ndarray, left: float
) -> list[list[int]]:
    """Return the groups that there is time for with a few rows."""
    few = min(_FEWEST_ROWS, len(fold)) * fold.seconds
    there_is = max(left, _MOMENT)
    if len(groups) * few <= there_is:
        return groups
    count = int(there_is / few)
    if count == 0:
        warn("max_time leaves no time for importances: they are 0")
        return []
    groups = _leading_groups(groups, to_host(fold.X), predicted, count)
    warn(f"max_time leaves time for importances of {len(groups)} columns: the others are 0")
    return groups


@dataclass(frozen=True, eq=False)
class _Gains:
    """The losses (g, m) that shuffling of each group of columns adds at rows, or NaN."""

    values: np.ndarray
    numbers: np.ndarray  # of the rows, among those that the judge knows
    judge: HeldOutLoss

    def sum_by_feature(
        self, groups: Sequence[Sequence[int]], sources: Sequence[int], n_features: int
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the features' shares of what is lost of the score, their errors, and the sum."""
        lost, errors = np.zeros(n_features), np.zeros(n_features)
        for row, columns in zip(self.values, groups, strict=True):
            own = sorted({sources[column] for column in columns})
            value, error = self._lost_score(row)
            lost[own], errors[own] = max(value, 0.0) / len(own), error / len(own)
        total = float(lost.sum())
        return lost / (total or 1.0), errors / (total or 1.0), total

    def _lost_score(self, gains: np.ndarray) -> tuple[float, float]:
        """Return what is lost of the score, by the gains (m,) at some rows, and its error."""
        known = ~np.isnan(gains)
        rows = self.numbers[known]
        if not len(rows):
            return 0.0, 0.0
        judge, weights = self.judge, self.judge.weights[rows]
        unit = judge.weights.sum() / (weights.sum() * (judge.spread or 1.0))
        mean = gains[known].sum() / weights.sum()
        clusters = None if judge.groups is None else judge.groups[rows]
        error = influence_error(unit * (gains[known] - mean * weights), clusters)
        return float(unit * gains[known].sum()), error if math.isfinite(error) else 0.0


def _leading_groups(
    groups: list[list[int]], X: np.ndarray, predicted: np.ndarray, most: int | None = None
) -> list[list[int]]:
    """Return the groups to shuffle: at most a number, those most correlated with predictions.

    To shuffle a column takes a prediction of rows of all columns.
    """
    count = max(1, _WORK // X.size) if most is None else most
    if len(groups) <= count:
        return groups
    strengths = np.max(np.abs(_standardise(X).T @ _standardise(predicted)), axis=1)
    strongest = [-max(strengths[column] for column in columns) for columns in groups]
    return [groups[g] for g in sorted(np.argsort(strongest, kind="stable")[:count])]


def joint_groups_text(groups: Sequence[Sequence[int]], names: Sequence[str], /) -> str:
    """Return in words which features are shuffled together; empty where each is alone."""
    joined = [group for group in groups if len(group) > 1]
    named = ("{" + ", ".join(names[k] for k in group) + "}" for group in joined[:_NAMED])
    left = len(joined) - _NAMED
    more = f"; and {left} groups more" if left > 0 else ""
    return f"shuffled together: {'; '.join(named)}{more}" if joined else ""


def _known_means(X: np.ndarray) -> np.ndarray:
    """Return the means (d,) of the known values of columns, NaN if there are none."""
    there = ~np.isnan(X)
    with np.errstate(invalid="ignore"):
        return np.sum(X, axis=0, where=there) / np.sum(there, axis=0)


def _take_rows(X: Array, rows: np.ndarray) -> Array:
    """Return rows at host indices."""
    xp = array_namespace(X)
    return xp.take(X, xp.asarray(rows, dtype=xp.int64, device=get_device(X)), axis=0)


def _shuffle_columns(X: Array, others: Array, columns: Sequence[int]) -> Array:
    """Return rows with some columns of other rows."""
    xp, device = array_namespace(X), get_device(X)
    chosen = xp.asarray(np.isin(np.arange(X.shape[1]), columns), dtype=xp.bool, device=device)
    return xp.where(chosen[None, :], others, X)
