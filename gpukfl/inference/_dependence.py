"""Partial dependence of any model on columns of its table, with bands of the folds' models."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from gpukfl.core._array import asarray_like, to_host
from gpukfl.core._checks import check_number, suggest
from gpukfl.core._frames import listed
from gpukfl.core._warnings import collect_warnings
from gpukfl.estimators._reweighting import read_loss
from gpukfl.inference._bands import FEWEST, bands
from gpukfl.inference._evaluation import InferenceData
from gpukfl.inference._explain import PROBABILITY, RowFunction, take_rows
from gpukfl.inference._results import Band
from gpukfl.inspection._dependence import Dependence, DependenceCurve
from gpukfl.tables._dates import date_part

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = 6  # that are taken where none are named
_LEVELS = 20  # of a category
_TAIL = 0.02  # of the rows beyond either end of a curve
_ERRORS = 2.0  # standard errors of a band to either side
_PRIOR = 4.0  # degrees of freedom of the mean over a curve, with which errors are averaged
_ROWS = 500  # that curves are means over, at most
_FEWEST_ROWS = 20  # however long they take
_EVALUATIONS = 200_000  # rows that are evaluated at most, beyond these
_AT_ONCE = 2**14  # rows that are evaluated at once
_POOL = 512  # rows whose predictions are made, so that curves are means over rows like all
_GOLDEN = (5.0**0.5 - 1.0) / 2.0
_ORDERED = ("category", "ordered", "boolean")  # kinds that are drawn as points
_POINTS, _SHOWN_SECONDS = 20, 3.0  # of a report
_BY_FOLDS = (
    "A band, or a level's bar, is two standard errors to either side. It shows how far the curve "
    "moves when a fold of the rows is not fitted. It does not include the bias that all fits share."
)
_BY_FITS = "A band covers the whole curve of the target's mean in 95 % of samples."
_NO_FOLDS = "There are no bands: they need a blend with models of several folds."
_NO_TARGETS = "There are no bands: for a single method, pass y, the targets of X."


# ---------------------------------------------------------------------------------- curves

# Where a curve is evaluated: values of a column as rows have them.


@dataclass(frozen=True, eq=False)
class _Grid:
    """Values of a column, each with a row that has it."""

    column: int
    at: np.ndarray  # its columns of codes
    codes: np.ndarray  # (g, c), at these values
    values: tuple[Any, ...]  # as the table has them
    places: np.ndarray  # (g,), where they are drawn
    is_ordered: bool  # whether lines may connect them
    followers: tuple[int, ...] = ()  # dates that move with it, by the same time

    def name(self, model: Any) -> str:
        """Return the names of the columns that move."""
        return " + ".join(model.feature_names[k] for k in (self.column, *self.followers))

    def put(self, rows: np.ndarray, step: int, function: RowFunction) -> np.ndarray:
        """Return rows with the value of a step, and times between dates that go with it."""
        found = rows.copy()
        found[:, self.at] = self.codes[step]
        if not self.followers:
            _restore_times(found, self.column, function.model)
        shift = np.nan_to_num(self.codes[step, 0] - rows[:, self.at[0]])  # none from missing dates
        for k in self.followers:
            _shift_date(found, k, shift, function)
        return found


def _shift_date(rows: np.ndarray, k: int, days: np.ndarray, function: RowFunction) -> None:
    """Move the date in column `k` of the table by days (n,); times since others stay."""
    column, at = function.model.table.columns[k], np.flatnonzero(function.sources == k)
    rows[:, at[0]] += days
    moments = _to_moments(column.start + rows[:, at[0]])
    for place, part in zip(at[1:], column.parts, strict=False):
        rows[:, place] = date_part(moments, part)


def _to_moments(days: Any) -> Any:
    """Return days since 1970 as dates to the second, NaT where they are NaN."""
    seconds = np.nan_to_num(np.round(86_400 * days)).astype(np.int64).astype("datetime64[s]")
    return np.where(np.isnan(days), np.datetime64("NaT"), seconds)


def _restore_times(rows: np.ndarray, moved: int, model: Any) -> None:
    """Set the times between a date that was moved and other dates of the same rows."""
    table = model.table
    if table is None or table.columns[moved].kind != "date":
        return
    sources = np.array([one.source for one in table.coded])
    first = {name: int(np.argmax(sources == k)) for k, name in enumerate(model.feature_names)}
    name = table.columns[moved].name
    for k, column in enumerate(table.columns):
        at = np.flatnonzero(sources == k)
        for other, place in zip(column.since, at[len(at) - len(column.since) :], strict=True):
            if name in (column.name, other):
                start = next(one.start for one in table.columns if one.name == other)
                apart = column.start - start
                rows[:, place] = rows[:, first[column.name]] - rows[:, first[other]] + apart


def _make_grid(
    function: RowFunction, rows: np.ndarray, k: int, points: int, followers: tuple[int, ...] = ()
) -> _Grid | None:
    """Return values of column `k` over the range of the rows; None of what no model reads."""
    at = np.flatnonzero(function.sources == k)
    table = function.model.table
    column = None if table is None else table.columns[k]
    if not len(at) or (column is not None and column.kind == "text"):
        return None
    known = rows[~np.isnan(rows[:, at[0]])]
    if not len(known):
        return None
    is_ordered = column is None or column.kind not in _ORDERED
    codes = known[:, at[0]]
    steps = _spread_values(codes, points) if is_ordered else _frequent_values(codes)
    _, first = np.unique(codes, return_index=True)
    found = known[first[np.searchsorted(codes[first], steps)]][:, at]
    values = tuple(_table_value(column, one) for one in steps.tolist())
    places = steps if is_ordered else np.arange(float(len(steps)))
    return _Grid(k, at, found, values, places, is_ordered, followers)


def _spread_values(codes: np.ndarray, points: int) -> np.ndarray:
    """Return values over the range without its tails, as equally many rows lie between."""
    every = np.unique(codes)
    if len(every) <= points:
        return every
    levels = np.linspace(_TAIL, 1.0 - _TAIL, points)
    found = np.unique(np.quantile(codes, levels, method="nearest"))
    return found if len(found) > 1 else every[[0, -1]]


def _frequent_values(codes: np.ndarray) -> np.ndarray:
    """Return the most frequent levels, in their order."""
    levels, counts = np.unique(codes, return_counts=True)
    return np.sort(levels[np.argsort(-counts, kind="stable")[:_LEVELS]])


def _table_value(column: Any, code: float) -> Any:
    """Return a code as the value that the table has."""
    kind = None if column is None else column.kind
    if kind in ("category", "ordered"):
        return column.levels[int(code)] if code < len(column.levels) else "a new value"
    if kind == "boolean":
        return bool(code)
    if kind == "date":
        return _to_moments(column.start + code)[()]
    if kind == "duration":
        return np.timedelta64(round(code * 1e3), "ms")
    return code


# ------------------------------------------------------------------------------------ rows


def _spread_rows(
    function: RowFunction, rows: Any, predicted: np.ndarray | None, rng: np.random.RandomState
) -> np.ndarray:
    """Return numbers of rows in an order of which all beginnings are like the whole.

    They are taken evenly along predictions of the first output: of all rows where these are known,
    else of a random pool, which the others follow. The golden ratio's multiples leave no gaps.
    """
    order = rng.permutation(rows.shape[0])
    pool = order[: None if predicted is not None else _POOL]
    found = function(take_rows(rows, pool)) if predicted is None else predicted[pool]
    ranked = pool[np.argsort(found[:, 0], kind="stable")]
    turns = (0.5 + _GOLDEN * np.arange(len(pool))) % 1.0
    return np.concatenate([ranked[np.argsort(np.argsort(turns))], order[len(pool) :]])


def _average(
    function: RowFunction,
    grids: Sequence[_Grid],
    rows: Any,
    weights: np.ndarray,
    order: np.ndarray,
    max_time: float | None,
) -> tuple[list[np.ndarray], int]:
    """Return the means (g, (1 + K) t) of curves over rows, and over how many there was time.

    Rows are taken in the given order, and blocks of them by all curves at once.
    """
    begun, n_steps = time.perf_counter(), sum(len(one.places) for one in grids)
    count = min(len(order), max(_FEWEST_ROWS, _EVALUATIONS // n_steps))
    host = np.asarray(to_host(rows))
    sums: Any = 0.0
    total, done, step = 0.0, 0, min(count, _FEWEST_ROWS)
    while done < count:
        some = order[done : done + step]
        sums = sums + _sum_block(function, grids, host[some], weights[some], rows)
        total, done = total + float(weights[some].sum()), done + len(some)
        took = time.perf_counter() - begun
        left = math.inf if max_time is None else max_time - took
        step = int(min(count - done, left * done / max(took, 1e-9), 10 * done))
        if step < 1:
            break
    ends = np.cumsum([len(one.places) for one in grids])[:-1]
    return np.split(sums / total, ends), done


def _sum_block(
    function: RowFunction, grids: Sequence[_Grid], host: np.ndarray, w: np.ndarray, there: Any
) -> np.ndarray:
    """Return weighted sums over rows of what a model says at all steps of all curves."""
    steps = [(one, step) for one in grids for step in range(len(one.places))]
    size, found = max(1, _AT_ONCE // len(host)), []
    for start in range(0, len(steps), size):
        some = steps[start : start + size]
        changed = np.concatenate([one.put(host, k, function) for one, k in some])
        values = function(asarray_like(changed, there))
        found.append(np.einsum("sbt,b->st", values.reshape(len(some), len(host), -1), w))
    return np.concatenate(found)


# ------------------------------------------------------------------------------- the whole


def _make_grids(function: RowFunction, rows: np.ndarray, columns: Any, points: int) -> list[_Grid]:
    """Return values of the columns that are named, or of the most important ones."""
    model, found, unread = function.model, [], []
    if columns is None:
        order = _most_important(function)
    else:
        order = [(k,) for k in _read_columns(columns, list(model.feature_names))]
    for k, *others in order:
        grid = _make_grid(function, rows, k, points, tuple(others))
        if grid is None:
            unread.append(model.feature_names[k])
        else:
            found.append(grid)
        if columns is None and len(found) == _COLUMNS:
            break
    if columns is not None and unread:
        msg = f"expected columns that the model uses, got {listed(unread)}"
        raise ValueError(msg)
    return found


def _most_important(function: RowFunction) -> list[tuple[int, ...]]:
    """Return the columns, the most important first; dates with times between them are together."""
    names, dates = function.model.feature_names, function.related_dates
    known = np.asarray(getattr(function.model, "feature_importances_", np.zeros(len(names))))
    alone = [(k,) for k in range(len(names)) if k not in dates]
    units = sorted([*alone, dates] if dates else alone)
    return sorted(units, key=lambda unit: -known[list(unit)].sum())


def _read_columns(columns: Any, names: list[str]) -> list[int]:
    """Return the numbers of columns that are given by name or number."""
    if isinstance(columns, (str, int, np.integer)):
        columns = [columns]
    found = []
    for one in columns:
        if isinstance(one, str) and one in names:
            found.append(names.index(one))
        elif type(one) is not bool and isinstance(one, (int, np.integer)) and 0 <= one < len(names):
            found.append(int(one))
        else:
            hint = suggest(one, names) if isinstance(one, str) else ""
            msg = f"expected columns by name, one of {listed(names)}, or number, got {one!r}{hint}"
            raise ValueError(msg)
    if not found:
        msg = "expected at least one column, got none"
        raise ValueError(msg)
    return list(dict.fromkeys(found))


def _rows_of(function: RowFunction, X: Any) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """Return the rows that curves are means over, in codes, weights, and known predictions."""
    if X is not None:
        rows = function.rows(X)
        if not rows.shape[0]:
            msg = "expected at least one row in X, got none"
            raise ValueError(msg)
        return rows, np.ones(rows.shape[0]), None
    kept = getattr(function.estimator, "out_of_fold_", None)
    if kept is None or not kept.is_complete:
        why = "keeps no rows" if kept is None else "comes from a file without its rows"
        msg = f"expected X, the rows that curves are averaged over: this model {why}"
        raise ValueError(msg)
    some = np.flatnonzero(kept.weights > 0)
    return take_rows(kept.rows, some), kept.weights[some], kept.predicted[some]


def dependence(
    model: Any,
    columns: Any,
    X: Any,
    y: Any,
    *,
    points: int,
    max_rows: int = _ROWS,
    max_time: float | None,
    random_state: Any,
) -> Dependence:
    """Return the curves of a model's columns, as a picture that has their numbers."""
    function, begun = RowFunction(model, PROBABILITY), time.perf_counter()
    rng = check_random_state(random_state)
    rows, weights, predicted = _rows_of(function, X)
    host = np.asarray(to_host(rows), dtype=np.float64)
    grids = _make_grids(function, host, columns, points)
    known: dict[str, list[Band]] = {}
    if y is not None and not function.is_blend:
        chosen = [one.column for one in grids]
        known = _find_bands(model, X, y, chosen, points, max_time)
    grids = [_at_steps(one, known.get(one.name(model))) for one in grids]
    if not grids:
        return Dependence((), function.outputs, function.unit, 0, "")
    order = _spread_rows(function, rows, predicted, rng)[:max_rows]
    spent = time.perf_counter() - begun
    left = None if max_time is None else max(max_time - spent, 0.0)
    found, n_rows = _average(function, grids, rows, weights, order, left)
    curves = tuple(
        _make_curve(function, grid, one, known.get(grid.name(model)))
        for grid, one in zip(grids, found, strict=True)
    )
    said = _NO_FOLDS if function.is_blend else _BY_FITS if known else _NO_TARGETS
    said = _BY_FOLDS if function.n_folds else said
    loss = None if is_classifier(function.estimator) else read_loss(function.estimator)
    return Dependence(
        *(curves, function.outputs, function.unit, n_rows, said, rows.shape[0]),
        predicts="" if loss is None or loss.predicts == "mean" else loss.predicts,
    )


def _make_curve(
    function: RowFunction, grid: _Grid, found: np.ndarray, bands: Sequence[Band] | None
) -> DependenceCurve:
    """Return a curve with its band: of the folds' models by the jackknife, or that of `bands`."""
    t, n_folds = len(function.outputs), function.n_folds
    mean, lower = found[:, :t], np.full((len(found), t), np.nan)
    upper = lower
    if n_folds:
        error = _fold_errors(found[:, t:].reshape(len(found), n_folds, t))
        lower, upper = mean - _ERRORS * error, mean + _ERRORS * error
    elif bands is not None and len(bands) == t:
        middle = mean.mean(axis=0)
        lower = middle + np.stack([one.lower for one in bands], axis=1)
        upper = middle + np.stack([one.upper for one in bands], axis=1)
    return DependenceCurve(
        *(grid.name(function.model), grid.values, grid.places, grid.is_ordered),
        *(mean, lower, upper),
        along=function.model.feature_names[grid.column],
    )


def _fold_errors(by_fold: np.ndarray) -> np.ndarray:
    """Return standard errors (g, t) of a curve, by the jackknife over folds' curves (g, K, t).

    Few folds say little at one step: each variance is averaged with the mean over the curve.
    """
    n_folds = by_fold.shape[1]
    away = by_fold - by_fold.mean(axis=1, keepdims=True)
    own = (n_folds - 1.0) / n_folds * np.sum(away**2, axis=1)
    freedom = n_folds - 1.0
    return np.sqrt((freedom * own + _PRIOR * own.mean(axis=0)) / (freedom + _PRIOR))


# ---------------------------------------------------------------------- bands of one method


def _find_bands(
    model: Any, X: Any, y: Any, chosen: Sequence[int], points: int, max_time: float | None
) -> dict[str, list[Band]]:
    """Return the bands of a single method by column, as far as its columns are features."""
    data = InferenceData.from_model(model, X, y)
    names = {*data.names, *(one.name for one in data.categories)}
    features = [model.feature_names[k] for k in chosen if model.feature_names[k] in names]
    varies = dict(zip(data.names, np.ptp(data.X, axis=0) > 0, strict=True))
    features = [name for name in features if varies.get(name, True)]
    if len(data) < FEWEST or not features:
        return {}
    with collect_warnings():  # of fits that say how sure one is that has warned already
        found = bands(model, X, y, features=features, points=max(points, 3), max_time=max_time)
    by_name: dict[str, list[Band]] = {}
    for one in found:
        by_name.setdefault(one.name, []).append(one)
    return by_name


def _at_steps(grid: _Grid, known: Sequence[Band] | None) -> _Grid:
    """Return the grid at the steps of bands, where it is one of numbers or has all their levels."""
    if not known:
        return grid
    first = known[0]
    if first.labels:
        order = [k for k, name in enumerate(map(str, grid.values)) if name in first.labels]
        return replace(
            grid,
            codes=grid.codes[order],
            values=tuple(grid.values[k] for k in order),
            places=np.arange(float(len(order))),
        )
    if len(grid.at) != 1:
        return grid
    values = tuple(first.steps.tolist())
    return replace(grid, codes=first.steps[:, None], values=values, places=first.steps)


def partial_dependence(
    model: Any,
    columns: Any = None,
    /,
    *,
    X: Any = None,
    y: Any = None,
    points: int = 20,
    max_rows: int = _ROWS,
    max_time: float | None = 5.0,
    random_state: Any = 0,
) -> pd.DataFrame:
    """Return curves of a model's columns as a frame: see `gpukfl.Model.partial_dependence`."""
    check_number("points", points, kind=Integral, low=2)
    check_number("max_rows", max_rows, kind=Integral, low=1)
    check_number("max_time", max_time, low=0, low_allowed=False, also=(None,))
    if y is not None and X is None:
        msg = "expected X with y, got y alone"
        raise ValueError(msg)
    found = dependence(
        *(model, columns, X, y),
        points=points,
        max_rows=max_rows,
        max_time=max_time,
        random_state=random_state,
    )
    return found.frame()


def dependence_panels(model: Any, given: Any, fitted_to: Any, /) -> list[Dependence]:
    """Return the curves of a blend's most important columns, for a report."""
    if model.method != "auto" or not np.any(model.feature_importances_):
        return []
    kept = model.estimator.out_of_fold_
    X = None if kept.is_complete else given if fitted_to is None else fitted_to
    if X is None and not kept.is_complete:
        return []
    found = dependence(
        *(model, None, X, None), points=_POINTS, max_time=_SHOWN_SECONDS, random_state=0
    )
    return [found] if found.curves else []
