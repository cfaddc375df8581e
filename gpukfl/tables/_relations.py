"""How rows hang together: groups, times and given splits, and the folds that respect them.

A fit for new groups is judged by groups that it has not seen, and one for the future by rows that
come after those of the fit. What is fitted last, is fitted to all rows.
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
from gpukfl.tables._dates import detect_day_order, find_zones, parse_dates, read_as_dates
from gpukfl.tables._frame import read_values
from gpukfl.tables._values import DATES, LABELS, Values

_TRAINING, _HELD_OUT = 1, 2  # sides of a given split; 0 is neither
_FEWEST = 2  # rows of a fit
_FIRST = 0.5  # share of the rows, the earliest, that no fold of times holds out
_LATEST = 0.2  # share of the rows, the last ones, that are held out once
_NAMED = ("groups", "time")  # what may be the name of a column
_CROSS_FIT = 5  # blocks
_MICROSECOND = np.timedelta64(1, "us")

# ----------------------------------------------------------------------------------- given


class GivenRelations(NamedTuple):
    """What a user says of how rows hang together: see `gpukfl.fit`."""

    groups: Any = None
    time: Any = None
    gap: Any = None
    cv: Any = None
    n_training: int | None = None  # first rows, which are fitted; those after them are validation

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said."""
        return all(one is None for one in self)

    def or_else(self, words: Mapping[str, str], X: Any, /) -> GivenRelations:
        """Return this, or where nothing was said the columns and the gap that `words` name.

        `words` are those of another fit.

        Warns
        -----
        UserWarning
            Of arrays and splitters of that fit, which are not known any more, and of columns that
            `X` does not have.
        """
        if not self.is_empty or not words:
            return self
        known = {part: word for part, word in words.items() if word != part}
        found = {part: ast.literal_eval(word) for part, word in known.items()}
        columns = column_names(X) if is_frame(X) else []
        named = [name for part, name in found.items() if part in _NAMED]
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
        """How a call names what was given, of arrays and splitters by the parameter's own name."""
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

    Return features, what was given with columns in the place of names, and the names.

    Raises
    ------
    TypeError
        If there is a name, and `X` is no frame.
    ValueError
        If no column, or more than one, has it, or if no other column is left.
    """
    named = {
        part: name
        for part, name in given._asdict().items()
        if isinstance(name, str) and part in _NAMED
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
    """How the rows of a fit hang together.

    Attributes
    ----------
    groups : host array of int, shape (n,), or None
        Codes of groups, of which all rows are on one side of a fold.
    times : host array, shape (n,), or None
        When each row is from: folds are fitted to what came before. Dates are microseconds.
    gap : float
        How long before the rows that are held out no row is fitted.
    sides : host array of int8, shape (n, K), or None
        On which side of each given split a row is: 1 is fitted, 2 is held out, 0 is neither.
    is_validation : bool
        Whether what is held out is never fitted, also not in the end.
    """

    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    gap: float = 0.0
    sides: np.ndarray | None = None
    is_validation: bool = False

    @classmethod
    def read(cls, given: GivenRelations, X: Any, y: Any, n: int, /) -> Relations | None:
        """Read what the user gave for n rows; None where that is nothing.

        Raises
        ------
        TypeError, ValueError
            If it is not as described in `gpukfl.fit`.
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
        """Codes (n, k) that are equal for rows that hang together in the same way."""
        parts = [one for one in (self.groups, self.times) if one is not None]
        if self.sides is not None:
            parts.append(unique_rows(self.sides)[1])
        return np.column_stack(parts).astype(np.float64)

    @property
    def n_groups(self) -> int:
        """How many groups there are; 0 where they are not known."""
        return 0 if self.groups is None else len(np.unique(self.groups))

    @property
    def n_given(self) -> int:
        """How many splits were given."""
        return 0 if self.sides is None else self.sides.shape[1]

    @property
    def training_rows(self) -> np.ndarray:
        """The rows that may be fitted: all but those of a validation."""
        if not self.is_validation or self.sides is None:
            return np.arange(len(self))
        return np.flatnonzero(self.sides[:, 0] == _TRAINING)

    def check(self) -> None:
        """Check that rows can be held out.

        Raises
        ------
        ValueError
            If there is one group alone, one time, or a gap that leaves nothing to fit.
        """
        if self.groups is not None and self.n_groups < _FEWEST:
            msg = (
                f"expected at least {_FEWEST} groups, to fit to some and score on others, got 1 of "
                f"{len(self)} rows"
            )
            raise ValueError(msg)
        if self.times is not None and len(np.unique(self.times)) < _FEWEST:
            msg = f"expected at least {_FEWEST} different times, to score on the last, got 1"
            raise ValueError(msg)
        if not self._own_splits(np.random.RandomState(0), 1, _LATEST, None):
            raise ValueError(self._nothing_left())

    def _nothing_left(self) -> str:
        if self.is_validation:
            return f"expected {_FEWEST} training rows and one validation row with target and weight"
        if self.times is None:
            return f"expected a split of cv with {_FEWEST} training rows and 1 test row, got none"
        if self.groups is not None:
            return (
                "expected earlier rows of groups that are not held out, got none: "
                "pass groups or time alone, or a smaller gap"
            )
        span = float(np.quantile(self.times, 1.0 - _LATEST) - self.times.min())
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
            Folds, as far as there are groups or times for them; all splits that were given.
        share : float or None
            Of the rows, that one part holds out; None for folds.
        classes : host array of int, shape (n,), or None
            Each class has its share of each fold, as far as groups allow.

        Returns
        -------
        list of pairs of host arrays
            Empty where no such split is left, as of one group: then ordinary folds do.
        """
        found = self._own_splits(rng, n_folds, share, classes)
        if found or self.sides is None or self.groups is None:
            return found
        return replace(self, sides=None)._own_splits(rng, n_folds, share, classes)

    def cross_fit_blocks(self, seed: int, /) -> np.ndarray | None:
        """Return blocks (n,) by which means of targets are learned from the others."""
        return self.blocks(np.random.RandomState(seed), _CROSS_FIT)

    def blocks(self, rng: np.random.RandomState, count: int, /) -> np.ndarray | None:
        """Return blocks (n,) of rows of which each is left out of a fit to all others.

        Whole groups, or rows that follow each other in time: for choices that are made by sums over
        rows, where no order can be kept. None where there are not two.
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

    def _own_splits(
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
        return [(inside, outside) for inside, outside in found if _is_split(inside, outside)]

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
        """Return windows that expand: the first rows are never held out."""
        assert self.times is not None
        times = np.sort(self.times)
        n, first = len(times), _FIRST if share is None else 1.0 - share
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


def _is_split(inside: np.ndarray, outside: np.ndarray) -> bool:
    return len(inside) >= _FEWEST and len(outside) > 0


def deal_groups(
    groups: np.ndarray,
    n_folds: int,
    rng: np.random.RandomState,
    classes: np.ndarray | None = None,
    /,
) -> np.ndarray:
    """Deal groups to folds of about equal sizes, and return the fold (n,) of each row.

    The largest group first, each to the fold with the fewest rows; of classes, each group counts
    as one of its most frequent class, and folds have about as many rows of each. No fold is empty
    where there are as many groups. O(n log n).
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
    """Read a value for each of n rows, none of which is missing."""
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
    """Return codes (n,) of groups by their first rows, so that their names change nothing."""
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
        if read_as_dates(labels):
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
    if not _is_split(inside, outside):
        msg = (
            f"expected at least {_FEWEST} training rows and 1 test row in each split of cv, got "
            f"{len(inside)} and {len(outside)} in split {k}"
        )
        raise ValueError(msg)
    return side


def _indices(part: Any, n: int) -> np.ndarray:
    """Return the different indices of rows, or those that are true."""
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
