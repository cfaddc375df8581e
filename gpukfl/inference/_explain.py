"""Shapley values of a fitted model's columns: what each adds to the prediction for a row."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from gpukfl.core._array import (
    Array,
    array_namespace,
    asarray_like,
    index_like,
    to_host,
)
from gpukfl.core._checks import check_choice, check_kind, check_number
from gpukfl.core._frames import check_in_memory, is_frame, listed, stringify_names
from gpukfl.core._interruption import restore_interruptions
from gpukfl.core._results import History
from gpukfl.core._warnings import warn
from gpukfl.estimators._dask import is_dask
from gpukfl.estimators._progress import show_progress
from gpukfl.estimators._run import current_report
from gpukfl.estimators._validation import validate_samples
from gpukfl.inference._closed_parts import ClosedPart, find_closed_part
from gpukfl.inspection import Explanation, Waterfall
from gpukfl.inspection._style import shorten_text
from gpukfl.methods import (
    ShapleyEstimate,
    ShapleyGames,
    draw_orders,
    order_contributions,
    subset_contributions,
)
from gpukfl.portfolio._attributes import OutOfFold
from gpukfl.portfolio._base import AutoBase
from gpukfl.predictor import check_finite_prediction
from gpukfl.tables._reader import read_new_rows
from gpukfl.tables._table import Table
from gpukfl.tables._target import target_names

LOG_ODDS, PROBABILITY = "log_odds", "probability"
_EVALUATIONS = 300_000  # rows that are evaluated by default, about
_FEWEST, _MOST = 8, 64  # walks for each row, by default
_AT_ONCE = 2**13  # evaluations between two looks at the clock, and two reports
_SUBSETS = 5  # players of which all subsets are taken
_CHUNK = 2**20  # contributions that are computed at once
_CLOSED = 2**23  # those by closed forms
_DRAWN = 1_000  # rows among which background rows are chosen
_PREDICTED, _FARTHEST = 0.3, 3.0  # weight of predictions, and limit of deviations
_BACKGROUND = 32  # rows
_SHOWN, _FEWEST_SHOWN = 10_000, 4  # evaluations of a report, and fewest walks
_CANDIDATES = 500  # rows among which a report chooses
_LEAST = np.finfo(np.float64).tiny
_LONGEST_TEXT = 60  # letters of a text that are shown

Evaluate = Callable[[Array], np.ndarray]  # rows (m, d) in codes -> host values (m, t)

# ------------------------------------------------------------------------------- functions

# A fitted model as a function of rows, by the codes of its columns.


@dataclass(frozen=True, eq=False)
class RowFunction:
    """A fitted model as a function of rows in codes, with what it says on some scale."""

    model: Any
    output: str

    @property
    def estimator(self) -> Any:
        """What predicts."""
        return self.model.estimator

    @property
    def _table(self) -> Table | None:
        known: Table | None = self.model.table
        return known

    @cached_property
    def sources(self) -> np.ndarray:
        """The column of the user's table that each column of codes is made of."""
        if self._table is None:
            return np.arange(len(self.model.feature_names))
        return np.array([one.source for one in self._table.coded], dtype=np.int64)

    @cached_property
    def related_dates(self) -> tuple[int, ...]:
        """The columns of dates between which the times are taken: none, or several."""
        columns = () if self._table is None else self._table.columns
        dates = tuple(k for k, column in enumerate(columns) if column.kind == "date")
        return dates if any(columns[k].since for k in dates) else ()

    @property
    def is_blend(self) -> bool:
        """Whether the model is a blend."""
        return isinstance(self.estimator, AutoBase)

    @property
    def n_folds(self) -> int:
        """How many models of folds are evaluated besides."""
        several = self.is_blend and self.estimator._has_fold_models
        count = self.estimator._blend.n_folds if several else 0
        return count if count > 1 else 0

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of what is explained: targets, or classes."""
        if is_classifier(self.estimator):
            labels = to_host(self.estimator.classes_).tolist()
            return tuple(map(str, labels if len(labels) > 2 else labels[-1:]))
        count = self.estimator.intercept_.shape[0]
        return tuple(target_names(self.model.target_name, count))

    @property
    def unit(self) -> str:
        """What contributions are parts of."""
        if is_classifier(self.estimator):
            return self.output.replace("_", " ")
        return str(self.model.target_name)

    @cached_property
    def closed(self) -> ClosedPart | None:
        """What of it has contributions in closed form."""
        return find_closed_part(self.model, self.n_folds)

    def rows(self, X: Any, /) -> Array:
        """Validate rows as `predict` does, and return them as codes."""
        check_is_fitted(self.estimator)
        known = self.model.reader
        if known is not None:
            return known.table.codes(X, besides=self.model.target_name)
        X = read_new_rows(self.estimator, None, X, self.model.target_name)
        if self.is_blend:
            return self.estimator._new_rows(X, "explain")
        return validate_samples(self.estimator, X, reset=False, method="explain")

    def __call__(self, rows: Array, /) -> np.ndarray:
        """Return values (m, (1 + K) t) on the host: of the model, and of each fold's models."""
        with np.errstate(over="ignore", invalid="ignore"):  # reported just below
            parts = self._parts(rows)
        for one in parts:
            check_finite_prediction(one, "prediction", one.dtype)
        return np.concatenate([self._scale(to_host(one)) for one in parts], axis=1)

    def _parts(self, rows: Array) -> list[Array]:
        if self.is_blend:
            if self.n_folds:
                *folds, whole = self.estimator._fold_outputs(rows)
                return [whole, *folds]
            return [self.estimator._outputs(rows)]
        predictor, known = self.estimator._fitted_predictor(), self.model.reader
        xp = array_namespace(rows)
        if known is not None:
            rows = known.encoding.transform(rows)
        found = predictor.evaluate(xp.astype(rows, xp.float64, copy=False))
        return [predictor.probabilities(found) if is_classifier(self.estimator) else found]

    def _scale(self, found: np.ndarray) -> np.ndarray:
        """Return predictions, or log odds or probabilities of the classes that are explained."""
        found = found.astype(np.float64, copy=False)
        if not is_classifier(self.estimator):
            return found
        if self.output == LOG_ODDS:
            others = [np.delete(found, k, axis=1).sum(axis=1) for k in range(found.shape[1])]
            found = np.log(np.maximum(found, _LEAST)) - np.log(
                np.maximum(np.stack(others, axis=1), _LEAST)
            )
        return found if found.shape[1] > 2 else found[:, 1:]

    def finite(self, rows: Array, /) -> np.ndarray:
        """Return rows as numbers without missing values, on the host."""
        if self.is_blend:
            rows = self.estimator._finite(rows)
        elif self.model.reader is not None:
            rows = self.model.reader.encoding.transform(rows)
        return to_host(rows).astype(np.float64)

    def memory(self, rows: Array, values: np.ndarray, /) -> np.ndarray:
        """Return what `predict` adds (n, t) where rows of the fit come again."""
        seen = self.estimator.seen_rows_ if self.is_blend else None
        if seen is None:
            return np.zeros_like(values)
        found = self.estimator._blend.evaluate_in_double(rows)
        moved = self._scale(to_host(seen.move(rows, found))) - self._scale(to_host(found))
        return np.asarray(moved)

    def shown(self, codes: np.ndarray, /) -> np.ndarray:
        """Return what columns hold (n, c), as objects: numbers, labels, or None."""
        found = np.full((len(codes), len(self.model.feature_names)), None, dtype=object)
        for k, at in zip(*np.unique(self.sources, return_index=True), strict=True):
            column = None if self._table is None else self._table.columns[k]
            found[:, k] = [_shown_value(column, value) for value in codes[:, at].tolist()]
        return found


def _shown_value(column: Any, value: float) -> Any:
    """Return a code as what it is in the table, or None."""
    if np.isnan(value) or (column is not None and column.kind in ("text", "duration")):
        return None
    if column is not None and column.kind in ("category", "ordered"):
        levels = column.levels
        return levels[int(value)] if value < len(levels) else "a new value"
    if column is not None and column.kind == "date":
        return str(np.datetime64(int(np.floor(column.start + value)), "D"))
    if column is not None and column.kind == "boolean":
        return bool(value)
    return value


# --------------------------------------------------------------------------------- players


def find_players(
    names: Sequence[str], groups: Mapping[str, Sequence[str]] | None, /
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of the players, and the player (c,) that each column belongs to.

    Raises
    ------
    TypeError, ValueError
        If groups are no mapping of names to columns of the table, or a column is in two groups.
    """
    owner: dict[str, str] = {}
    check_kind("groups", groups, (Mapping, type(None)))
    for group, members in (groups or {}).items():
        if isinstance(members, str) or not isinstance(members, Sequence):
            msg = f"expected a list of columns for the group {group!r}, got {members!r}"
            raise TypeError(msg)
        if not members:
            msg = f"expected at least one column in the group {group!r}, got none"
            raise ValueError(msg)
        for name in members:
            if name not in names:
                msg = f"expected groups= to name columns of the table, got {name!r}: it has "
                raise ValueError(msg + listed(names))
            if name in owner:
                msg = f"expected each column in one group, got {name!r} in {owner[name]!r} and "
                raise ValueError(msg + repr(group))
            owner[name] = str(group)
    alone = [name for name in names if name not in owner]
    taken = [group for group in map(str, groups or {}) if group in alone]
    if taken:
        msg = f"expected names of groups that are not names of columns, got {taken[0]!r}"
        raise ValueError(msg)
    players = tuple(dict.fromkeys(owner.get(name, name) for name in names))
    return players, np.array([players.index(owner.get(name, name)) for name in names])


# ------------------------------------------------------------------------------ background


@dataclass(frozen=True, eq=False)
class Background:
    """Background rows (B, d), and values there (B, t); all beginnings are like the whole."""

    rows: Array
    values: np.ndarray


def make_background(
    function: RowFunction, given: Any, count: int, rng: np.random.RandomState, /
) -> Background:
    """Choose background rows that are together like the rows that they are drawn from.

    Raises
    ------
    ValueError
        If none are given, and the model has kept no rows of its fit.
    """
    kept = _kept_rows(function) if given is None else None
    rows = function.rows(given) if kept is None else kept.rows
    weights = np.ones(rows.shape[0]) if kept is None else kept.weights
    some = np.flatnonzero(weights > 0)
    if len(some) > max(_DRAWN, count):
        some = np.sort(rng.permutation(some)[: max(_DRAWN, count)])
    rows, weights = take_rows(rows, some), weights[some]
    predicted = function(rows) if kept is None else kept.predicted[some]
    chosen = herd(_moments(function.finite(rows), predicted, weights), weights, count)
    rows = take_rows(rows, chosen)
    return Background(rows, function(rows))


def _kept_rows(function: RowFunction) -> OutOfFold:
    e = function.estimator
    if not function.is_blend or not e.out_of_fold_.is_complete:
        why = "comes from a file without its rows" if function.is_blend else "keeps no rows"
        msg = f"expected background=, rows such as the training set: this model {why}"
        raise ValueError(msg)
    kept: OutOfFold = e.out_of_fold_
    return kept


def take_rows(X: Array, rows: np.ndarray, /) -> Array:
    """Return some rows of an array."""
    xp = array_namespace(X)
    return xp.take(X, xp.asarray(rows, **index_like(X)), axis=0)


def _moments(X: np.ndarray, predicted: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return standardised columns, their squares and predictions, whose means shall be right."""
    X, Y = (_standardise(one, weights) for one in (X, predicted))
    share = _PREDICTED * (X.shape[1] / max(Y.shape[1], 1)) ** 0.5
    return np.concatenate([X, X**2 / 2.0**0.5, share * Y], axis=1)


def _standardise(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return columns of mean 0 and deviation 1, with limits; constant ones are 0."""
    gaps = X - np.average(X, axis=0, weights=weights)
    size = np.sqrt(np.average(gaps**2, axis=0, weights=weights))
    return np.clip(gaps / np.where(size > 0, size, 1.0), -_FARTHEST, _FARTHEST)


def herd(Z: np.ndarray, weights: np.ndarray, count: int, /) -> np.ndarray:
    """Choose rows whose first k have about the weighted mean of all, for every k.

    Herding (Welling, "Herding dynamical weights to learn", ICML 2009): each row takes the mean of
    those before as near to that of all as it can.

    Parameters
    ----------
    Z : host array, shape (m, q)
        What shall have the right mean.
    weights : host array, shape (m,)
        Positive. Where they differ, a row may be chosen again.
    count : int
        How many are wanted; there are at most m of equal weights.

    Returns
    -------
    host array of int, shape (count,)
    """
    Z = Z - np.average(Z, axis=0, weights=weights)
    size, total, equal = (Z**2).sum(axis=1), np.zeros(Z.shape[1]), np.ptp(weights) == 0
    left, chosen = np.ones(len(Z), dtype=bool), list[int]()
    for _ in range(min(count, len(Z)) if equal else count):
        k = int(np.argmin(np.where(left, 2.0 * (Z @ total) + size, np.inf)))
        chosen.append(k)
        left[k], total = not equal, total + Z[k]
    return np.array(chosen)


# ------------------------------------------------------------------------------------ work


@dataclass(frozen=True)
class Plan:
    """Which background rows the rows are compared with, and by how many pairs of orders.

    Attributes
    ----------
    pairs : tuple of int
        Of each background row that is taken; none where all subsets of players are.
    n_background : int
        How many are taken.
    evaluations : int
        For one background row and pair, of all rows.
    """

    pairs: tuple[int, ...]
    n_background: int
    evaluations: int

    def blocks(self, *, one_by_one: bool = False) -> Iterator[tuple[np.ndarray, int]]:
        """Yield numbers of background rows that are taken at once, and pairs of orders of each.

        Where time is limited they are taken `one_by_one`: it is looked at after each.
        """
        start = 0
        for pairs, alike in itertools.groupby(self.pairs or (0,) * self.n_background):
            end = start + len(list(alike))
            step = max(1, _AT_ONCE // (self.evaluations * max(pairs, 1)))
            step = 1 if one_by_one else step
            for first in range(start, end, step):
                yield np.arange(first, min(first + step, end)), pairs
            start = end


def make_plan(n: int, p: int, n_background: int, n_walks: int | str, /) -> Plan:
    """Choose the number of background rows and of orders for n rows of p players.

    All subsets of few players are taken instead of orders. Where each background row has one pair
    of orders, some have another, which says how much orders differ.
    """
    of_all = p <= _SUBSETS
    cost = n * max(2**p - 2 if of_all else 2 * (p - 1), 1)
    budget = int(np.clip(_EVALUATIONS // cost, _FEWEST, _MOST))
    walks = budget if isinstance(n_walks, str) else int(n_walks)
    taken, pairs = min(walks, n_background), max(1, walks // n_background)
    twice = min(_FEWEST, taken) if walks >= n_background and pairs == 1 else 0
    every = () if of_all else (2,) * twice + (pairs,) * (taken - twice)
    return Plan(every, taken, cost)


@dataclass(frozen=True, eq=False)
class Values:
    """A function at the rows that are explained and at the background.

    Attributes
    ----------
    evaluate : callable
        Return host values (m, t) at rows (m, d).
    rows : array, shape (n, d)
        In codes.
    at_rows : host array, shape (n, t)
        Values there.
    background : Background
        With values there.
    """

    evaluate: Evaluate
    rows: Array
    at_rows: np.ndarray
    background: Background

    def estimate(self) -> ShapleyEstimate:
        """Return an estimate that has taken no background row."""
        values = self.background.values
        return ShapleyEstimate(values.mean(axis=0), len(values))

    def split(self, closed: ClosedPart, /) -> tuple[Values, Values]:
        """Return the values of the closed part, and what is left of the function."""
        rest = closed.remainder(self.rows), closed.remainder(self.background.rows)
        own = replace(self.background, values=self.background.values - rest[1])
        left = replace(self.background, values=rest[1])
        return (
            replace(self, at_rows=self.at_rows - rest[0], background=own),
            Values(closed.remainder, self.rows, rest[0], left),
        )


def _contributions(
    f: Values,
    players: np.ndarray,
    plan: Plan,
    rng: np.random.RandomState,
    *,
    one_by_one: bool,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield contributions (n, G, R, p, t) for some background rows after others, and f (G, t)."""
    p = int(players.max()) + 1
    for some, pairs in plan.blocks(one_by_one=one_by_one):
        others, at = take_rows(f.background.rows, some), f.background.values[some]
        orders = np.stack([draw_orders(p, pairs, rng) for _ in some]) if pairs else None
        step = max(1, _CHUNK // (2 * max(pairs, 1) * p * len(some)))
        parts = []
        for first in range(0, len(f.at_rows), step):
            chunk = slice(first, min(first + step, len(f.at_rows)))
            rows = f.rows[chunk, :]
            games = ShapleyGames(f.evaluate, rows, others, f.at_rows[chunk], at, players)
            parts.append(_play(games, orders))
        yield np.concatenate(parts), at


def _play(games: ShapleyGames, orders: np.ndarray | None) -> np.ndarray:
    """Return contributions (n, G, R, p, t), by orders (G, R, 2, p) or by all subsets."""
    if orders is None:
        return subset_contributions(games)[:, :, None]
    found = order_contributions(games, orders.reshape(len(orders), -1, orders.shape[-1]))
    shape = *found.shape[:2], orders.shape[1], 2, *found.shape[3:]
    return np.asarray(found.reshape(shape).mean(axis=3))


@dataclass(eq=False)
class Clock:
    """The time that is left, by how long the last block took."""

    max_time: float | None
    begun: float = field(default_factory=time.monotonic)
    last: float = 0.0
    longest: float = 0.0

    def is_over(self) -> bool:
        """Whether another block would take too long."""
        now = time.monotonic() - self.begun
        self.longest, self.last = max(self.longest, now - self.last), now
        return self.max_time is not None and now + self.longest > self.max_time


def _closed_contributions(
    closed: ClosedPart, part: Values, owner: np.ndarray, p: int, step: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield contributions (n, G, 1, p, t) by closed form for background rows, and f (G, t)."""
    for start in range(0, len(part.background.values), step):
        some = np.arange(start, min(start + step, len(part.background.values)))
        others = take_rows(part.background.rows, some)
        found = closed.contributions(part.rows, others, owner, p)
        yield found[:, :, None], part.background.values[some]


def _estimate(
    blocks: Iterator[tuple[np.ndarray, np.ndarray]],
    found: ShapleyEstimate,
    clock: Clock,
    *,
    exact: bool,
    stage: str,
) -> str:
    """Add blocks to an estimate until time is over or the user stops it; return why it ended."""
    report = current_report()

    def tell() -> None:
        said = f"{found.count} of {found.n_background} background rows"
        report(f"explaining{stage}: {said}", found.count, History())

    try:
        with restore_interruptions():
            tell()
            for block in blocks:
                found.add(*block, exact=exact)
                tell()
                if found.count < found.n_background and clock.is_over():
                    return "max_time is over"
    except KeyboardInterrupt:
        if not found.count:
            raise
        return "interrupted"
    return ""


@dataclass(frozen=True)
class Estimates:
    """Contributions to the parts of a function, which add up.

    Attributes
    ----------
    parts : tuple of (ShapleyEstimate, host array of shape (n, t))
        With the values of each part at the rows.
    """

    parts: tuple[tuple[ShapleyEstimate, np.ndarray], ...]

    def contributions(self) -> np.ndarray:
        """Return the sums (n, p, t)."""
        return np.sum([one.contributions(values) for one, values in self.parts], axis=0)

    def standard_errors(self) -> np.ndarray:
        """Return the errors (n, p, t) of the sums, as of independent parts."""
        squares = [one.standard_errors() ** 2 for one, _ in self.parts]
        return np.asarray(np.sqrt(np.sum(squares, axis=0)))

    @property
    def baseline(self) -> np.ndarray:
        """The means (t,) over the background."""
        return np.sum([one.baseline for one, _ in self.parts], axis=0)

    @property
    def n_background(self) -> int:
        """How many background rows there are."""
        return self.parts[0][0].n_background

    @property
    def count(self) -> int:
        """How many background rows all parts have taken."""
        return min(one.count for one, _ in self.parts)


def explain(
    model: Any,
    X: Any,
    /,
    *,
    background: Any = None,
    n_background: int = 32,
    groups: Mapping[str, Sequence[str]] | None = None,
    output: str = "auto",
    n_walks: int | str = "auto",
    max_time: float | None = None,
    random_state: Any = 0,
    progress: bool | None = None,
) -> Explanation:
    """Return the contributions of columns to a model's predictions: see `gpukfl.Model.explain`."""
    _check_options(model, output, n_background, n_walks, max_time, progress)
    if is_dask(X):
        check_in_memory(X)
    function = RowFunction(model, LOG_ODDS if output == "auto" else output)
    players = find_players(model.feature_names, groups)
    clock, rng = Clock(max_time), check_random_state(random_state)
    rows = function.rows(X)
    known = make_background(function, background, n_background, rng)
    with show_progress(progress):
        found = explain_rows(function, rows, known, players, n_walks, clock, rng)
    found = replace(found, values=_with_texts(function, found, X))
    return replace(found, index=X.index if type(X).__module__.startswith("pandas") else None)


def _with_texts(function: RowFunction, found: Explanation, X: Any) -> np.ndarray:
    """Return the rows' values with those of text columns, which codes do not hold."""
    table = function._table
    if table is None or not is_frame(X):
        return found.values
    import narwhals as nw

    frame, values = nw.from_native(stringify_names(X), eager_only=True), found.values.copy()
    for column in table.columns:
        if column.kind == "text" and column.name in found.columns:
            given = frame[column.name].to_list()
            missing = frame[column.name].is_null().to_list()
            texts = [
                None if gap else shorten_text(str(one), _LONGEST_TEXT)
                for one, gap in zip(given, missing, strict=True)
            ]
            values[:, found.columns.index(column.name)] = texts
    return values


def explain_rows(
    function: RowFunction,
    rows: Array,
    background: Background,
    players: tuple[tuple[str, ...], np.ndarray],
    n_walks: int | str,
    clock: Clock,
    rng: np.random.RandomState,
    /,
) -> Explanation:
    """Explain the predictions for validated rows, with players as `find_players` returns them."""
    names, owner = players
    used, of_column = np.unique(owner[function.sources], return_inverse=True)
    others = asarray_like(to_host(background.rows), rows)
    values = function(rows)
    whole = Values(function, rows, values, Background(others, background.values))
    limited, parts, why = clock.max_time is not None, list[tuple[ShapleyEstimate, np.ndarray]](), ""
    count = len(background.values)
    plan = make_plan(len(values), len(used), count, n_walks)
    affordable = plan.pairs and plan.n_background == count
    closed = function.closed if affordable else None
    if closed is not None:
        part, whole = whole.split(closed)
        place = np.minimum(np.searchsorted(used, owner), len(used) - 1)
        step = 1 if limited else max(1, _CLOSED // (part.at_rows.size * len(used)))
        found = part.estimate()
        blocks = _closed_contributions(closed, part, place, len(used), step)
        why = _estimate(blocks, found, clock, exact=True, stage=" by closed forms")
        parts.append((found, part.at_rows))
        if closed.is_nearly_whole and isinstance(n_walks, str):
            plan = make_plan(len(values), len(used), count, _FEWEST)
    if closed is None or not closed.is_whole:
        found = whole.estimate()
        blocks = _contributions(whole, of_column, plan, rng, one_by_one=limited)
        why = _estimate(blocks, found, clock, exact=not plan.pairs, stage="") or why
        parts.append((found, whole.at_rows))
    estimates = Estimates(tuple(parts))
    if why:
        msg = (
            f"explain: {why} after {estimates.count} of {estimates.n_background} background rows: "
            "standard_error has the errors of the contributions"
        )
        warn(msg, ConvergenceWarning)
    return _make_explanation(function, rows, values, estimates, names, used, owner)


def explained_panels(model: Any, given: Any, fitted_to: Any, /) -> list[Waterfall]:
    """Explain the rows with the median and the highest prediction, for a report.

    They are of rows that are given, or that a blend has kept. Of several classes the most likely
    one of each row is explained, of several targets the first.
    """
    kept = getattr(model.estimator, "out_of_fold_", None)
    is_kept = kept is not None and kept.is_complete
    others = None if is_kept else given if fitted_to is None else fitted_to
    n_walks = min(_MOST, _SHOWN // (4 * len(model.feature_names)))
    one_class = len(getattr(model.estimator, "classes_", (0, 1))) < 2
    if one_class or n_walks < _FEWEST_SHOWN or (others is None and not is_kept):
        return []
    function, rng = RowFunction(model, LOG_ODDS), check_random_state(0)
    if given is not None or kept is None or not is_kept:
        rows = function.rows(others if given is None else given)
    else:
        rows = kept.rows
    rows = take_rows(rows, np.unique(np.linspace(0, rows.shape[0] - 1, _CANDIDATES).astype(int)))
    values = function(rows)[:, : len(function.outputs)]
    values = values if is_classifier(model.estimator) else values[:, :1]
    order = np.argsort(values.max(axis=1), kind="stable")
    chosen = order[[(len(order) - 1) // 2, -1]]
    dates = [model.feature_names[k] for k in function.related_dates]
    players = find_players(model.feature_names, {" + ".join(dates): dates} if dates else None)
    known = make_background(function, others, _BACKGROUND, rng)
    rows = take_rows(rows, chosen)
    found = explain_rows(function, rows, known, players, n_walks, Clock(None), rng)
    texts = "Row of the median prediction", "Row of the highest prediction"
    outputs = values[chosen].argmax(axis=1).tolist()
    return [
        replace(found.row(i).of(k), subject=text)
        for i, (k, text) in enumerate(zip(outputs, texts, strict=True))
    ]


def _check_options(
    model: Any, output: str, n_background: Any, n_walks: Any, max_time: Any, progress: Any
) -> None:
    check_is_fitted(model.estimator)
    classes = is_classifier(model.estimator)
    if not classes and output in (LOG_ODDS, PROBABILITY):
        msg = (
            f"expected output='auto' for a regression, got {output!r}, which is for a "
            "classification"
        )
        raise ValueError(msg)
    check_choice("output", output, ("auto", LOG_ODDS, PROBABILITY) if classes else ("auto",))
    if classes and len(model.estimator.classes_) < 2:
        msg = "expected a model of at least two classes, got one class"
        raise ValueError(msg)
    check_number("n_background", n_background, kind=Integral, low=1)
    check_number("n_walks", n_walks, kind=Integral, low=1, also=("auto",))
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))
    check_kind("progress", progress, (bool, type(None)))


def _make_explanation(
    function: RowFunction,
    rows: Array,
    values: np.ndarray,
    found: Estimates,
    names: tuple[str, ...],
    used: np.ndarray,
    owner: np.ndarray,
) -> Explanation:
    """Return the result, with what is remembered of rows of the fit in equal parts."""
    n, t = len(values), len(function.outputs)
    memory = function.memory(rows, values[:, :t])
    parts, errors = found.contributions(), found.standard_errors()
    if len(used):
        parts[:, :, :t] += memory[:, None, :] / len(used)
    by_fold = parts[:, :, t:].reshape(n, len(used), -1, t)
    spread = by_fold.std(axis=2, ddof=1) if function.n_folds else None

    def place(some: np.ndarray) -> np.ndarray:
        full = np.zeros((n, len(names), t))
        full[:, used] = some[:, :, :t]
        return full[:, :, 0] if t == 1 else full

    prediction, baseline = values[:, :t] + memory, found.baseline[:t]
    shown, alone = function.shown(to_host(rows)), np.bincount(owner) == 1
    at = [int(np.flatnonzero(owner == k)[0]) for k in range(len(names))]
    texts = shown[:, at]
    texts[:, ~alone] = None
    return Explanation(
        columns=names,
        outputs=function.outputs,
        unit=function.unit,
        contributions=place(parts),
        standard_error=place(errors),
        spread=None if spread is None else place(spread),
        baseline=float(baseline[0]) if t == 1 else baseline,
        prediction=prediction[:, 0] if t == 1 else prediction,
        values=texts,
        n_background=found.n_background,
        n_taken=found.count,
        remembered=(memory[:, 0] if t == 1 else memory) if memory.any() else None,
    )
