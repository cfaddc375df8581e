"""Relations between rows: groups, times and given splits, and the folds that respect them.

With groups, fits are scored on groups that they have not seen; with times, on rows later than
theirs. The final fit has all rows.
"""

from __future__ import annotations

import ast
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np

from gpukfl.core._array import is_array, to_host, unique_rows
from gpukfl.core._checks import check_number, suggest
from gpukfl.core._frames import (
    as_frame,
    column_names,
    frame_from_dicts,
    index_difference,
    is_frame,
    listed,
    stringify_names,
)
from gpukfl.core._warnings import warn
from gpukfl.partitioned import is_dask
from gpukfl.tables._dates import are_dates_text, detect_day_order, find_zones, parse_dates
from gpukfl.tables._frame import read_values
from gpukfl.tables._values import DATES, LABELS, Values

_TRAINING, _HELD_OUT = 1, 2  # sides of a given split; 0 is neither
_FEWEST = 2  # training rows, groups or different times
_NEVER_HELD_OUT = 0.5  # share of the rows, the earliest, that folds in time never hold out
_HELD_OUT_SHARE = 0.2  # share of the rows, the latest, held out when `check` looks for a split
_COLUMN_PARTS = ("groups", "time")  # arguments that may be a column's name
_CROSS_FIT_BLOCKS = 5
_MICROSECOND = np.timedelta64(1, "us")

# ----------------------------------------------------------------------------------- given


class GivenRelations(NamedTuple):
    """The user's arguments on relations between rows: see `gpukfl.fit`."""

    groups: Any = None
    time: Any = None
    gap: Any = None
    cv: Any = None
    n_training: int | None = None  # the first rows, to fit; the others are validation

    @property
    def is_empty(self) -> bool:
        """Whether no argument was given."""
        return all(one is None for one in self)

    def or_else(self, words: Mapping[str, str], X: Any, /) -> GivenRelations:
        """Return this, or if it is empty the columns and the gap in `words` of an earlier fit.

        Warns
        -----
        UserWarning
            If that fit had arrays or a splitter, which are not kept, or columns that `X` lacks.
        """
        if not self.is_empty or not words:
            return self
        known = {part: word for part, word in words.items() if word != part}
        found = {part: ast.literal_eval(word) for part, word in known.items()}
        columns = column_names(X) if is_frame(X) else []
        named = [name for part, name in found.items() if part in _COLUMN_PARTS]
        if len(known) == len(words) and all(name in columns for name in named):
            return GivenRelations(**found)
        given = ", ".join(words)
        warn(
            f"this model was fitted with {given}. Without them, this fit treats rows as "
            f"independent, and its scores may be too good: pass {given} to fit"
        )
        return self

    @property
    def words(self) -> dict[str, str]:
        """The arguments as text of a call; arrays and splitters as their parameter's name."""
        return {
            part: repr(value) if part == "gap" or isinstance(value, str) else part
            for part, value in self._asdict().items()
            if value is not None and part != "n_training"
        } | ({} if self.n_training is None else {"validation": "validation"})


NOTHING_GIVEN = GivenRelations()


def split_relation_columns(
    X: Any, given: GivenRelations, /
) -> tuple[Any, GivenRelations, tuple[str, ...]]:
    """Split the columns that groups and time name off a frame.

    Return features, the relations with columns in place of names, and the names.

    Raises
    ------
    TypeError
        If there is a name and `X` is no frame.
    ValueError
        If no column or several have that name, or no other column is left.
    """
    named = {
        part: name
        for part, name in given._asdict().items()
        if isinstance(name, str) and part in _COLUMN_PARTS
    }
    if not named:
        return X, given, ()
    X = frame_from_dicts(X)
    if is_dask(X) or not is_frame(X):
        part, name = next(iter(named.items()))
        msg = f"expected a frame with a column {name!r} for {part}, got {type(X).__name__}"
        raise TypeError(msg)
    X = stringify_names(X)
    columns, names = column_names(X), tuple(dict.fromkeys(named.values()))
    for part, name in named.items():
        if columns.count(name) != 1:
            count = columns.count(name)
            msg = f"X has {count or 'no'} column{'s' * (count > 1)} {name!r} for {part}"
            hint = suggest(name, columns) or "."
            msg = f"{msg}{'.' if count else hint} Its columns are {listed(columns)}"
            raise ValueError(msg)
    if len(names) == len(columns):
        msg = f"expected at least one feature beside {listed(names)}, got none"
        raise ValueError(msg)
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    found = {part: frame[name].to_native() for part, name in named.items()}
    return frame.drop(names).to_native(), given._replace(**found), names


def drop_columns(X: Any, names: Iterable[str], /) -> Any:
    """Return a frame without some columns, where it has them; anything else unchanged."""
    names = set(names)
    if not names or not hasattr(X, "shape") or is_array(X) or not is_frame(X):
        return X
    held = [name for name in column_names(X) if name in names]
    if not held:
        return X
    import narwhals as nw

    return nw.from_native(X, eager_only=True).drop(held).to_native()


# ------------------------------------------------------------------------------- relations


@dataclass(frozen=True, eq=False)
class Relations:
    """Relations between the rows of a fit.

    Attributes
    ----------
    groups : host array of int, shape (n,), or None
        Codes of groups. All rows of a group are on one side of a split.
    times : host array, shape (n,), or None
        Times; dates are microseconds. Training rows are earlier than held-out rows.
    gap : float
        Time before the held-out rows in which no row is fitted.
    sides : host array of int8, shape (n, K), or None
        The side of each row in K given splits: 1 training, 2 held out, 0 neither.
    is_validation : bool
        Whether held-out rows are left out of the final fit too.
    """

    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    gap: float = 0.0
    sides: np.ndarray | None = None
    is_validation: bool = False

    @classmethod
    def read(cls, given: GivenRelations, X: Any, y: Any, n: int, /) -> Relations | None:
        """Read the user's arguments for n rows; None if there are none.

        Raises
        ------
        TypeError, ValueError
            If they are not as described in `gpukfl.fit`.
        """
        if given.is_empty:
            return None
        if given.time is not None and given.cv is not None:
            msg = "expected time or cv, got both: each defines the held-out rows"
            raise ValueError(msg)
        if given.gap is not None and given.time is None:
            msg = f"expected time= with gap=, which has its units, got gap={given.gap!r} alone"
            raise ValueError(msg)
        groups = None if given.groups is None else _read_groups(given.groups, X, n)
        times, gap = None, 0.0
        if given.time is not None:
            times, are_dates = _read_times(given.time, X, n)
            gap = _read_gap(given.gap, are_dates)
        sides = None if given.cv is None else _read_splits(given.cv, y, groups, n)
        if given.n_training is not None:
            sides = np.where(np.arange(n) < given.n_training, _TRAINING, _HELD_OUT)
            sides = sides.astype(np.int8)[:, None]
        return cls(groups, times, gap, sides, given.n_training is not None)

    def __len__(self) -> int:
        return len(next(one for one in (self.groups, self.times, self.sides) if one is not None))

    def take(self, rows: np.ndarray | slice, /) -> Relations:
        """Return the relations of some rows."""
        groups, times, sides = (
            None if one is None else one[rows] for one in (self.groups, self.times, self.sides)
        )
        return replace(self, groups=groups, times=times, sides=sides)

    @property
    def keys(self) -> np.ndarray:
        """Codes (n, k), equal for rows with equal groups, times and sides."""
        parts = [one for one in (self.groups, self.times) if one is not None]
        if self.sides is not None:
            parts.append(unique_rows(self.sides)[1])
        return np.column_stack(parts).astype(np.float64)

    @property
    def n_groups(self) -> int:
        """The number of groups; 0 without groups."""
        return 0 if self.groups is None else len(np.unique(self.groups))

    @property
    def n_given(self) -> int:
        """The number of given splits."""
        return 0 if self.sides is None else self.sides.shape[1]

    @property
    def training_rows(self) -> np.ndarray:
        """The rows that may be fitted: all but validation rows."""
        if not self.is_validation or self.sides is None:
            return np.arange(len(self))
        return np.flatnonzero(self.sides[:, 0] == _TRAINING)

    def check(self) -> None:
        """Raise ValueError if there is only one group or time, or no usable split."""
        if self.groups is not None and self.n_groups < _FEWEST:
            msg = (
                f"expected at least {_FEWEST} groups, to fit to some and score on others, got 1 of "
                f"{len(self)} rows"
            )
            raise ValueError(msg)
        if self.times is not None and len(np.unique(self.times)) < _FEWEST:
            msg = f"expected at least {_FEWEST} different times, to score on the last, got 1"
            raise ValueError(msg)
        if not self._make_splits(np.random.RandomState(0), 1, _HELD_OUT_SHARE, None):
            raise ValueError(self._no_split_text())

    def _no_split_text(self) -> str:
        if self.is_validation:
            return f"expected {_FEWEST} training rows and one validation row with target and weight"
        if self.times is None:
            return f"expected a split of cv with {_FEWEST} training rows and 1 test row, got none"
        if self.groups is not None:
            return (
                "expected earlier rows of groups that are not held out, got none: "
                "pass groups or time alone, or a smaller gap"
            )
        span = float(np.quantile(self.times, 1.0 - _HELD_OUT_SHARE) - self.times.min())
        return (
            f"expected a gap that leaves {_FEWEST} training rows: the held-out times begin "
            f"{span:g} after the first time, got a gap of {self.gap:g}"
            + (" (microseconds)" if self.gap > 1e6 else "")
        )

    def split(
        self,
        rng: np.random.RandomState,
        n_folds: int,
        share: float | None,
        classes: np.ndarray | None,
        /,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return pairs of rows to fit and rows to hold out.

        Parameters
        ----------
        rng : RandomState
            Deals groups to folds.
        n_folds : int
            Number of folds, if there are as many groups or times. Given splits are all used.
        share : float or None
            Share of the rows in a single held-out part; None for folds.
        classes : host array of int, shape (n,), or None
            Classes, whose rows are spread evenly over folds as far as groups allow.

        Returns
        -------
        list of pairs of host arrays
            Empty if no split is usable, as with one group: callers then use ordinary folds.
        """
        found = self._make_splits(rng, n_folds, share, classes)
        if found or self.sides is None or self.groups is None:
            return found
        return replace(self, sides=None)._make_splits(rng, n_folds, share, classes)

    def cross_fit_blocks(self, seed: int, /) -> np.ndarray | None:
        """Return blocks (n,) for cross-fitted target means, or None as `blocks`."""
        return self.blocks(np.random.RandomState(seed), _CROSS_FIT_BLOCKS)

    def blocks(self, rng: np.random.RandomState, count: int, /) -> np.ndarray | None:
        """Return blocks (n,) of rows, each to be left out of a fit to all others.

        Blocks are whole groups, or successive in time; later rows are then fitted too. None if
        there are less than two blocks.
        """
        if self.groups is not None:
            count = min(count, self.n_groups)
            return deal_groups(self.groups, count, rng) if count >= _FEWEST else None
        if self.times is None:
            return None
        ordered = np.sort(self.times)
        begins = np.unique(ordered[len(ordered) * np.arange(count) // count])
        found = np.searchsorted(begins, self.times, side="right") - 1
        return found if len(begins) >= _FEWEST else None

    def _make_splits(
        self,
        rng: np.random.RandomState,
        n_folds: int,
        share: float | None,
        classes: np.ndarray | None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        if self.sides is not None:
            sides = self.sides.T
            found = [
                (np.flatnonzero(s == _TRAINING), np.flatnonzero(s == _HELD_OUT)) for s in sides
            ]
        elif self.times is not None:
            found = self._split_times(n_folds, share)
        else:
            found = self._split_groups(rng, n_folds, share, classes)
        return [(inside, outside) for inside, outside in found if _is_usable(inside, outside)]

    def _split_groups(
        self,
        rng: np.random.RandomState,
        n_folds: int,
        share: float | None,
        classes: np.ndarray | None,
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        assert self.groups is not None
        wanted = n_folds if share is None else max(round(1.0 / share), _FEWEST)
        count = min(wanted, self.n_groups)
        if count < _FEWEST:
            return []
        fold = deal_groups(self.groups, count, rng, classes)
        numbers = range(count if share is None else 1)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in numbers]

    def _split_times(
        self, n_folds: int, share: float | None
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return expanding windows: the earliest rows are never held out."""
        assert self.times is not None
        times = np.sort(self.times)
        n, first = len(times), _NEVER_HELD_OUT if share is None else 1.0 - share
        count = n_folds if share is None else 1
        places = (n * (first + (1.0 - first) * np.arange(count) / count)).astype(np.int64)
        begins = np.unique(times[np.minimum(places, n - 1)])
        begins = begins[begins > times[0]]
        if not len(begins) and times[-1] > times[0]:  # most rows are of the first time
            begins = times[times > times[0]][:1]
        ends = np.append(begins[1:], np.inf)
        found = []
        for begin, end in zip(begins, ends, strict=True):
            outside = np.flatnonzero((self.times >= begin) & (self.times < end))
            inside = self.times < begin - self.gap
            if self.groups is not None:
                inside &= ~np.isin(self.groups, self.groups[outside])
            found.append((np.flatnonzero(inside), outside))
        return found


def _is_usable(inside: np.ndarray, outside: np.ndarray) -> bool:
    return len(inside) >= _FEWEST and len(outside) > 0


def deal_groups(
    groups: np.ndarray,
    n_folds: int,
    rng: np.random.RandomState,
    classes: np.ndarray | None = None,
    /,
) -> np.ndarray:
    """Deal groups to folds of about equal sizes, and return the fold (n,) of each row.

    Groups go, the largest first, to the fold with the fewest rows. With classes, this is done for
    each class in turn, with the groups in which it is the most frequent. No fold is empty if there
    are as many groups. O(n log n).
    """
    _, codes = np.unique(groups, return_inverse=True)
    codes = codes.reshape(-1)
    sizes = np.bincount(codes)
    strata = np.zeros(len(sizes), dtype=np.int64)
    if classes is not None:
        counts = np.zeros((len(sizes), int(classes.max()) + 1), dtype=np.int64)
        np.add.at(counts, (codes, classes), 1)
        strata = counts.argmax(axis=1)
    order = rng.permutation(len(sizes))
    order = order[np.lexsort((-sizes[order], strata[order]))]
    names, totals = rng.permutation(n_folds), np.zeros(n_folds, dtype=np.int64)
    fold = np.empty(len(sizes), dtype=np.int64)
    for stratum in np.unique(strata):
        loads = [(0, int(totals[k]), int(k)) for k in names]
        heapq.heapify(loads)
        for group in order[strata[order] == stratum].tolist():
            load, before, k = heapq.heappop(loads)
            fold[group] = k
            heapq.heappush(loads, (load + int(sizes[group]), before, k))
        for load, before, k in loads:
            totals[k] = before + load
    return fold[codes]


# ------------------------------------------------------------------------------ as numbers


def _read_column(name: str, given: Any, X: Any, n: int) -> Values:
    """Read a column of n values; raise ValueError if one is missing."""
    if is_dask(given):
        msg = f"expected {name} in memory, got a Dask collection"
        raise TypeError(msg)
    difference = index_difference(X, given, name)
    if difference:
        warn(difference)
    column = np.asarray(to_host(given)) if is_array(given) else given
    if isinstance(column, np.ndarray) and column.ndim == 2 and column.shape[1] == 1:
        column = column[:, 0]
    length = len(column) if hasattr(column, "__len__") else 0
    shape: tuple[int, ...] = tuple(getattr(column, "shape", (length,)))
    if shape != (n,):
        msg = f"expected {name} of {n} rows, as many as X has, got {_shape_text(given, shape)}"
        raise ValueError(msg)
    try:
        values = read_values(column)
    except ValueError as error:
        msg = f"{name}: {error}"
        raise ValueError(msg) from error
    missing = int(np.count_nonzero(values.missing))
    if missing:
        msg = f"expected {name} without missing values, got {missing} missing in {n} rows"
        raise ValueError(msg)
    return values


def _shape_text(given: Any, shape: tuple[int, ...]) -> str:
    if isinstance(given, str) or not hasattr(given, "__len__"):
        return repr(given)
    return f"{shape[0]}" if len(shape) == 1 else f"shape {tuple(shape)}"


def _read_groups(given: Any, X: Any, n: int) -> np.ndarray:
    """Return codes (n,) of groups, numbered by their first rows, whatever their names."""
    values = _read_column("groups", given, X, n)
    found = values.as_labels().data if values.form == LABELS else values.identities
    _, first, codes = np.unique(found, return_index=True, return_inverse=True)
    ranks: np.ndarray = np.argsort(np.argsort(first))[codes.reshape(-1)]
    return ranks


def _read_times(given: Any, X: Any, n: int) -> tuple[np.ndarray, bool]:
    """Return times (n,), and whether these are dates, in microseconds."""
    values = _read_column("time", given, X, n)
    if values.form == LABELS:
        labels = values.labels
        if are_dates_text(labels):
            zone = "UTC" if find_zones(labels) else ""
            found = parse_dates(labels, bool(detect_day_order(labels)[0]), zone)[values.data]
        else:
            found = values.as_numbers()
    else:
        found = values.data
    are_dates = found.dtype.kind == "M" or values.form == DATES
    missing = np.isnat(found) if are_dates else ~np.isfinite(found)
    if missing.any():
        msg = (
            "expected time to be numbers or dates, got other values in "
            f"{np.count_nonzero(missing)} of {n} rows"
        )
        raise ValueError(msg)
    if are_dates:
        return found.astype("datetime64[us]").astype(np.int64).astype(np.float64), True
    return found.astype(np.float64), False


def _read_gap(gap: Any, are_dates: bool) -> float:
    """Return the gap in units of the times, microseconds of dates."""
    if gap is None:
        return 0.0
    if not are_dates:
        check_number("gap", gap, low=0)
        return float(gap)
    if not isinstance(gap, (str, timedelta, np.timedelta64)):
        msg = f"expected gap to be a timedelta, as time has dates, got {gap!r}"
        raise TypeError(msg)
    import pandas as pd

    try:
        found = pd.Timedelta(gap)
    except ValueError as error:
        msg = f"expected gap to be a timedelta, such as '7 days', got {gap!r}"
        raise ValueError(msg) from error
    if not found >= pd.Timedelta(0):
        msg = f"expected gap of at least 0, got {gap!r}"
        raise ValueError(msg)
    return float(found.to_timedelta64() / _MICROSECOND)


def _read_splits(cv: Any, y: Any, groups: np.ndarray | None, n: int) -> np.ndarray:
    """Return the sides (n, K) of the rows in each split of a splitter, or of pairs of indices."""
    if isinstance(cv, str) or not (hasattr(cv, "split") or isinstance(cv, Iterable)):
        msg = (
            "expected cv to be a scikit-learn splitter or pairs of index arrays, got "
            f"{cv!r}: to set the number of folds of a blend, use n_folds"
        )
        raise TypeError(msg)
    if hasattr(cv, "split"):
        host = to_host(y) if is_array(y) else as_frame(y) if is_frame(y) else y
        pairs = cv.split(np.zeros((n, 1)), np.asarray(host), groups)
    else:
        pairs = cv
    columns = [_read_split(k, pair, n) for k, pair in enumerate(pairs)]
    if not columns:
        msg = "expected cv with at least one split, got none"
        raise ValueError(msg)
    return np.stack(columns, axis=1)


def _read_split(k: int, pair: Any, n: int) -> np.ndarray:
    side = np.zeros(n, dtype=np.int8)
    try:
        inside, outside = (_indices(part, n) for part in pair)
    except (TypeError, ValueError) as error:
        msg = (
            f"expected splits of cv as pairs of row indices from 0 to {n - 1}, got others in "
            f"split {k}: {error}"
        )
        raise ValueError(msg) from error
    side[inside] = _TRAINING
    both = np.count_nonzero(side[outside])
    if both:
        msg = f"expected no row in both parts of a split of cv, got {both} in split {k}"
        raise ValueError(msg)
    side[outside] = _HELD_OUT
    if not _is_usable(inside, outside):
        msg = (
            f"expected at least {_FEWEST} training rows and 1 test row in each split of cv, got "
            f"{len(inside)} and {len(outside)} in split {k}"
        )
        raise ValueError(msg)
    return side


def _indices(part: Any, n: int) -> np.ndarray:
    """Return the distinct indices of rows, from indices or a mask."""
    found = np.asarray(part)
    if found.dtype == bool and found.shape == (n,):
        return np.flatnonzero(found)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        msg = f"expected indices (m,), got {found.dtype} of shape {found.shape}"
        raise ValueError(msg)
    if found.size and not 0 <= found.min() <= found.max() < n:
        msg = f"expected indices from 0 to {n - 1}, got {found.min()} to {found.max()}"
        raise ValueError(msg)
    return np.unique(found.astype(np.int64))
