"""Permutation importances: the loss that shuffling columns of held-out rows adds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from gpukfl.core._array import Array, array_namespace, get_device, take_rows, to_host
from gpukfl.core._results import History
from gpukfl.core._warnings import warn
from gpukfl.estimators._run import current_report
from gpukfl.inspection._metrics import influence_error
from gpukfl.portfolio._folds import HeldOutLoss

_MIN_CORRELATION = 0.9  # from which columns are shuffled together
_MIN_SHUFFLED = 500  # rows of all folds that are shuffled, however long it takes
_MAX_SECONDS = 3.0  # in which more rows are shuffled
_MIN_SECONDS = 0.3  # that importances may take even if time is over
_SMALLEST_TIME = 1e-9  # seconds of a row
_MAX_PASSES = 100  # predictions of first parts of folds, however long these take
_MAX_NAMED = 10  # groups that a text names
_BLOCK_ENTRIES = 2**18  # of rows that are predicted at once
_BLOCK_PAIRS = 2**22  # correlations that are computed at once
_MIN_ROWS = 20  # of a usable importance
_OWN_ROWS_FROM = 100  # rows of a part from which they are shuffled among themselves
_MAX_ENTRIES = 10**8  # of rows of a part, with each group shuffled in turn
_ROUNDING = 1e-13  # relative deviation of a constant column


def group_columns(
    X: np.ndarray,
    sources: Sequence[int] | None = None,
    /,
    *,
    alike: float = _MIN_CORRELATION,
    is_over: Callable[[], bool] = lambda: False,
) -> list[list[int]]:
    """Return groups of columns (n, d) linked by correlations of at least `alike`.

    Columns of one source are always in one group. Missing values count as the mean. Takes
    O(n d²) time. Of thousands of columns, the last ones stay alone if it `is_over` before.
    """
    d = X.shape[1]
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    step = max(1, _BLOCK_PAIRS // d)
    U = np.zeros((0, d)) if step < d and is_over() else _standardise(X)
    for start in range(0, d, step):  # in blocks of columns
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
    """Return columns of mean 0 and length 1, or 0 for constants; missing values become means."""
    X = X.astype(np.float64)
    X = np.where(np.isnan(X), np.nan_to_num(_mean_known(X)), X)
    largest = np.max(np.abs(X), axis=0)
    X = X / np.where(largest > 0, largest, 1.0)
    X -= X.mean(axis=0)
    lengths = np.linalg.norm(X, axis=0)
    varies = lengths > _ROUNDING * len(X) ** 0.5
    return np.where(varies, X / np.where(varies, lengths, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class PermutationImportances:
    """Permutation importances of features.

    Attributes
    ----------
    shares, errors : arrays, shape (n_features,)
        Shares of the total, of sum 1 or all 0, and their standard errors for a given total.
    total : float
        Sum over groups of the score that shuffling loses.
    groups : list of lists of int
        Features that are shuffled together.
    n_rows, n_held_out : int
        Number of shuffled rows, and of all held-out rows.
    is_interrupted : bool
        Whether the user interrupted, so that fewer rows are shuffled.
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

    The columns of a group share its importance equally. Of thousands of columns, those least
    correlated with the predictions are not shuffled, and have importance 0. At least 500 rows are
    shuffled, and more within three seconds. A row takes one prediction for each group. If time is
    short, or the user interrupts, fewer rows are shuffled and errors are larger.

    Parameters
    ----------
    held_out : sequence of arrays
        Held-out rows of each fold.
    sources : sequence of int
        The feature that each column is made of.
    n_features : int
        Number of features.
    predict : callable
        Predictions by the models of a fold for rows, on the host.
    judge : HeldOutLoss
        Loss on all held-out rows, in the order of the folds.
    rng : RandomState
        Draws rows and orders.
    left : callable
        Seconds that are left; infinite without a limit. If they are too few for some rows, only
        the columns most correlated with the predictions are shuffled.
    repeats : int
        Shuffles that are averaged.

    Raises
    ------
    KeyboardInterrupt
        If the user interrupts before 20 rows are shuffled.
    """
    end = time.perf_counter() + _MAX_SECONDS
    parts = _deal_parts([part.shape[0] for part in held_out], rng)
    firsts = [take_rows(held_out[k], index) for k, index in parts[: len(held_out)]]
    seen = np.concatenate([to_host(part) for part in firsts])
    joined = group_columns(seen, sources, is_over=lambda: left() <= _MIN_SECONDS)
    pool = array_namespace(firsts[0]).concat(firsts, axis=0)
    predicted = predict(0, firsts[0])
    groups = _leading_groups(joined, to_host(firsts[0]), predicted)
    begins = np.concatenate([[0], np.cumsum([part.shape[0] for part in held_out])])
    added: list[np.ndarray] = []  # losses of each group and row, NaN until computed
    numbers: list[np.ndarray] = []  # of these rows among all held-out rows
    n_first, is_interrupted = max(1, min(len(firsts), _MAX_PASSES // len(groups))), False
    n_rows = sum(len(index) for _, index in parts[:n_first])

    def left_for_more() -> float:
        return min(left(), end - time.perf_counter())

    try:
        for at, (k, index) in enumerate(parts):
            X = firsts[at] if at < len(firsts) else take_rows(held_out[k], index)
            others = X if len(index) >= _OWN_ROWS_FROM else pool
            part = _FoldPart(X, begins[k] + index, partial(predict, k), judge, repeats, others)
            if at == 0:
                groups = _choose_affordable(groups, part, predicted, left())
            added.append(np.full((len(groups), len(index)), np.nan))
            numbers.append(part.numbers)
            own_left = left if at < n_first else left_for_more
            if not groups or not _shuffle_in_time(part, groups, added, rng, own_left):
                break
    except KeyboardInterrupt:
        if _count_rows(added) < min(_MIN_ROWS, n_rows):
            raise
        is_interrupted = True
    if groups and _count_rows(added) < n_rows:
        why = "they were interrupted" if is_interrupted else "max_time was reached"
        warn(f"feature importances use only {_count_rows(added)} of {n_rows} rows: {why}")
    known = _AddedLosses(np.concatenate(added, axis=1), np.concatenate(numbers), judge)
    shares, errors, total = known.sum_by_feature(groups, sources, n_features)
    features = [sorted({sources[column] for column in columns}) for columns in joined]
    return PermutationImportances(
        *(shares, errors, total, features, _count_rows(added), int(begins[-1]), is_interrupted)
    )


def _deal_parts(sizes: Sequence[int], rng: np.random.RandomState) -> list[tuple[int, np.ndarray]]:
    """Split the rows of folds into random parts; return the first part of every fold first."""
    size = -(-_MIN_SHUFFLED // len(sizes))
    dealt = []
    for k, n in enumerate(sizes):
        count = max(1, round(n / size))
        order = np.arange(n) if count == 1 else rng.permutation(n)
        parts = np.array_split(order, count)
        dealt += [(at, k, np.sort(index)) for at, index in enumerate(parts)]
    return [(k, index) for _, k, index in sorted(dealt, key=lambda one: one[:2])]


@dataclass(frozen=True, eq=False)
class _FoldPart:
    """A part of the held-out rows of a fold, whose columns are shuffled."""

    X: Array
    numbers: np.ndarray  # of its rows among all held-out rows
    predict: Callable[[Array], np.ndarray]
    judge: HeldOutLoss
    repeats: int  # shuffles that are averaged
    others: Array  # rows that give shuffled values: its own, or those of all folds

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def _baseline(self) -> tuple[np.ndarray, float]:
        """The losses without shuffling, and the seconds of a row."""
        begun = time.perf_counter()
        unchanged = _shuffle_columns(self.X, self.X, [0])
        losses = self.judge.losses(self.predict(unchanged), self.numbers)
        return losses, max(time.perf_counter() - begun, _SMALLEST_TIME) / len(self)

    @property
    def seconds(self) -> float:
        """The seconds of a row with one group shuffled."""
        return self.repeats * self._baseline[1]

    def draw_orders(self, n_groups: int, rng: np.random.RandomState) -> list[np.ndarray]:
        """Draw the orders that shuffle each group, for all repeats."""
        count = self.others.shape[0]
        return [rng.permutation(count)[: len(self)] for _ in range(n_groups * self.repeats)]

    def added_losses(
        self, rows: np.ndarray, groups: Sequence[Sequence[int]], orders: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the losses (g, b) that shuffling of each group adds at some rows."""
        xp, X = array_namespace(self.X), take_rows(self.X, rows)
        shuffled = [
            _shuffle_columns(X, take_rows(self.others, order[rows]), groups[k // self.repeats])
            for k, order in enumerate(orders)
        ]
        predicted = np.split(self.predict(xp.concat(shuffled, axis=0)), len(orders))
        losses = [self.judge.losses(found, self.numbers[rows]) for found in predicted]
        by_group = np.reshape(losses, (len(groups), self.repeats, -1)).mean(axis=1)
        return by_group - self._baseline[0][rows]


def _shuffle_in_time(
    part: _FoldPart,
    groups: Sequence[Sequence[int]],
    added: list[np.ndarray],
    rng: np.random.RandomState,
    left: Callable[[], float],
) -> bool:
    """Set the last losses (g, m) by blocks of rows in random order; return whether all are set."""
    orders = part.draw_orders(len(groups), rng)
    turn = np.random.RandomState(0).permutation(len(part))
    step = max(1, _BLOCK_ENTRIES // (len(orders) * part.X.shape[1]))
    report, start = current_report(), 0
    while start < len(part):
        count, known = min(step, len(part) - start), _count_rows(added)
        seconds, seconds_left = len(groups) * part.seconds, left()
        if seconds_left < seconds * count:
            least = min(_MIN_ROWS, len(part)) if known == 0 else 0
            count = max(least, min(int(seconds_left / seconds), count))
            if count == 0:
                return False
        report(f"importances, {known} rows", known, History())
        rows = turn[start : start + count]
        added[-1][:, rows] = part.added_losses(rows, groups, orders)
        start += count
    return True


def _count_rows(added: Sequence[np.ndarray]) -> int:
    """Return the number of rows whose losses are computed."""
    return sum(int(np.sum(~np.isnan(one[:1]))) for one in added)


def _choose_affordable(
    groups: list[list[int]], part: _FoldPart, predicted: np.ndarray, left: float
) -> list[list[int]]:
    """Return the groups that can be shuffled at a few rows in the time left."""
    few = min(_MIN_ROWS, len(part)) * part.seconds
    seconds_left = max(left, _MIN_SECONDS)
    if len(groups) * few <= seconds_left:
        return groups
    count = int(seconds_left / few)
    if count == 0:
        warn("max_time leaves no time for importances: they are 0")
        return []
    groups = _leading_groups(groups, to_host(part.X), predicted, count)
    warn(f"max_time leaves time for importances of {len(groups)} columns: the others are 0")
    return groups


@dataclass(frozen=True, eq=False)
class _AddedLosses:
    """Losses (g, m) that shuffling of each group of columns adds at rows, or NaN."""

    values: np.ndarray
    numbers: np.ndarray  # of the rows among all held-out rows
    judge: HeldOutLoss

    def sum_by_feature(
        self, groups: Sequence[Sequence[int]], sources: Sequence[int], n_features: int
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Return the features' shares of the lost score, their errors, and the sum."""
        lost, errors = np.zeros(n_features), np.zeros(n_features)
        for row, columns in zip(self.values, groups, strict=True):
            own = sorted({sources[column] for column in columns})
            value, error = self._lost_score(row)
            lost[own], errors[own] = max(value, 0.0) / len(own), error / len(own)
        total = float(lost.sum())
        return lost / (total or 1.0), errors / (total or 1.0), total

    def _lost_score(self, added: np.ndarray) -> tuple[float, float]:
        """Return the score that the losses (m,) of a group lose, and its standard error."""
        known = ~np.isnan(added)
        rows = self.numbers[known]
        if not len(rows):
            return 0.0, 0.0
        judge, weights = self.judge, self.judge.weights[rows]
        unit = judge.weights.sum() / (weights.sum() * (judge.spread or 1.0))
        mean = added[known].sum() / weights.sum()
        clusters = None if judge.groups is None else judge.groups[rows]
        error = influence_error(unit * (added[known] - mean * weights), clusters)
        return float(unit * added[known].sum()), error if math.isfinite(error) else 0.0


def _leading_groups(
    groups: list[list[int]], X: np.ndarray, predicted: np.ndarray, most: int | None = None
) -> list[list[int]]:
    """Return the groups most correlated with the predictions: at most a number of them.

    By default, the entries of all shuffled rows of a part limit the number.
    """
    count = max(1, _MAX_ENTRIES // X.size) if most is None else most
    if len(groups) <= count:
        return groups
    strengths = np.max(np.abs(_standardise(X).T @ _standardise(predicted)), axis=1)
    strongest = [-max(strengths[column] for column in columns) for columns in groups]
    return [groups[g] for g in sorted(np.argsort(strongest, kind="stable")[:count])]


def joint_groups_text(groups: Sequence[Sequence[int]], names: Sequence[str], /) -> str:
    """Return in words which features are shuffled together; empty where each is alone."""
    joined = [group for group in groups if len(group) > 1]
    named = ("{" + ", ".join(names[k] for k in group) + "}" for group in joined[:_MAX_NAMED])
    left = len(joined) - _MAX_NAMED
    more = f"; and {left} groups more" if left > 0 else ""
    return f"shuffled together: {'; '.join(named)}{more}" if joined else ""


def _mean_known(X: np.ndarray) -> np.ndarray:
    """Return the means (d,) of the known values of columns, NaN if there are none."""
    there = ~np.isnan(X)
    with np.errstate(invalid="ignore"):
        return np.sum(X, axis=0, where=there) / np.sum(there, axis=0)


def _shuffle_columns(X: Array, others: Array, columns: Sequence[int]) -> Array:
    """Return rows with some columns of other rows."""
    xp, device = array_namespace(X), get_device(X)
    chosen = xp.asarray(np.isin(np.arange(X.shape[1]), columns), dtype=xp.bool, device=device)
    return xp.where(chosen[None, :], others, X)
