"""The schema of a table, learned without targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from gpukfl.core._frames import check_container, check_in_memory, check_no_series, listed
from gpukfl.core._lazy import OldName
from gpukfl.core._warnings import warn
from gpukfl.tables._codes import (
    Coder,
    RowCoder,
    add_time_differences,
    describe_codes,
    singleton_share,
    warn_infinite,
)
from gpukfl.tables._column import DECLARABLE_KINDS, KINDS, LEVEL_KINDS, Coded, Column, TupleFields
from gpukfl.tables._frame import (
    Frame,
    check_any,
    read_blocks,
    read_column,
    read_frame,
    read_whole,
    release_text,
)
from gpukfl.tables._values import Values


@dataclass(frozen=True)
class Table(TupleFields):
    """The schema of a table: its columns and their kinds.

    Attributes
    ----------
    columns : tuple of Column
        Columns in the order of the frame from which the schema was learned.
    named : bool
        Whether that frame had column names. Columns are then matched by name, and otherwise by
        position.
    """

    columns: tuple[Column, ...]
    named: bool = True

    @classmethod
    def learn(
        cls, frame: Any, /, *, columns: Mapping[str, str] | None = None, whole: bool = True
    ) -> Self:
        """Learn the schema from the rows of a frame.

        Parameters
        ----------
        frame : frame, array or list of rows, shape (n, d)
            Frame of pandas, polars or pyarrow, or rows without column names.
        columns : mapping of str to str, optional
            Kinds of columns by name. The kinds of other columns are guessed.
        whole : bool
            Whether these are all rows. A warning then names columns without any value.

        Returns
        -------
        Table
            The schema.

        Raises
        ------
        TypeError, ValueError
            If the frame cannot be read, or has no row or no column. If `columns` names an unknown
            column, or a kind that does not fit the values.
        """
        from gpukfl.tables._guess import Duplicates, guess, make_column

        _check_container(frame)
        given, declared = read_frame(frame), dict(columns or {})
        _check_kinds(declared, given)
        check_any(given)
        learned, seen, infinite = [], Duplicates(), Counter[str]()
        for k, name in enumerate(given.names):
            values = read_column(given, k)
            if values.note:
                warn(f"column {name!r} has {values.note}")
            infinite[name] = values.infinite
            if name in declared:
                column = make_column(name, values, declared[name])
            else:
                column = guess(name, values, given.named)
                first = seen.find_first(column, values) if column.is_used else name
                if first != name:
                    column = Column(name, "duplicate", f"the same values as {first}")
            if column.kind in LEVEL_KINDS:
                column = replace(column, rare=singleton_share(values.counts().values()))
            learned.append(column)
        del values
        release_text(given.n_rows)
        warn_infinite(infinite, given.n_rows)
        found = cls(tuple(add_time_differences(learned)), given.named)
        if whole:
            found.tell_of_empty()
        return found

    def tell_of_empty(self) -> None:
        """Warn of empty columns."""
        empty = [column.name for column in self.columns if column.kind == "empty"]
        if empty:
            warn(f"columns without any value are dropped: {listed(empty)}")

    @cached_property
    def coded(self) -> tuple[Coded, ...]:
        """The columns of codes."""
        return tuple(one for k, c in enumerate(self.columns) for one in describe_codes(c, k))

    @property
    def plain(self) -> bool:
        """Whether all columns are complete numbers, which need no coding."""
        return all(column.kind == "numeric" and column.missing == 0 for column in self.columns)

    def _read_frame(self, X: Any, besides: str = "") -> Frame:
        _check_container(X)
        return read_frame(X, besides=besides, known=[column.name for column in self.columns])

    @cached_property
    def _row_coder(self) -> RowCoder:
        return RowCoder(self.columns, self.named, self.with_times)

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)}  # no cached properties

    @cached_property
    def _coders(self) -> list[tuple[int, Coder]]:
        return [(k, Coder(column)) for k, column in enumerate(self.columns) if column.is_used]

    def codes(self, frame: Any, /, *, besides: str = "", seen: bool = False) -> np.ndarray:
        """Return the codes of rows.

        Parameters
        ----------
        frame : frame, array or list of rows or of dicts, shape (n, d)
            Rows. Columns with names may be in any order.
        besides : str
            Name of a target. Rows may have its column as well.
        seen : bool
            Whether the schema was learned from these rows. Infinite numbers in them then give no
            second warning.

        Returns
        -------
        array, shape (n, c)
            Codes in float64; NaN where a value is missing.

        Raises
        ------
        TypeError, ValueError
            If the frame cannot be read, or columns are missing. The message names them.
        """
        if self._row_coder.takes(frame, besides):
            return self._row_coder(frame[0])
        if not isinstance(frame, Frame):
            frame = self._read_frame(frame, besides)
        n, columns = self.code_columns(frame, seen=seen)
        codes = np.empty((n, len(self.coded)))
        for at, column in enumerate(columns):
            codes[:, at] = column
        return codes

    def code_columns(
        self, frame: Any, /, *, seen: bool = False
    ) -> tuple[int, Iterator[np.ndarray]]:
        """Return the number of rows, and an iterator over the columns of `codes`.

        Parameters
        ----------
        frame : frame, array or list of rows, shape (n, d)
            Rows. Columns with names may be in any order.
        seen : bool
            As for `codes`.

        Returns
        -------
        tuple of int and iterator of arrays, shape (n,)
            The number of rows, and the columns. The iterator makes each column on request.

        Raises
        ------
        TypeError, ValueError
            As for `codes`. Errors of a column are raised when it is made.
        """
        if not isinstance(frame, Frame):
            frame = self._read_frame(frame)
        return frame.n_rows, self._iterate_codes(frame, self.places(frame), seen)

    def _iterate_codes(
        self, given: Frame, places: Mapping[int, int], seen: bool
    ) -> Iterator[np.ndarray]:
        infinite = Counter[str]()

        def read(k: int, coder: Coder) -> Iterator[Values]:
            blocks = read_blocks if coder.column.kind == "text" else read_whole
            for values in blocks(given, places[k]):
                infinite[coder.column.name] += values.infinite
                yield values

        yield from self.with_times(lambda k, coder: coder(read(k, coder), given.n_rows))
        if not seen:
            warn_infinite(infinite, given.n_rows)

    def with_times(self, coded: Callable[[int, Coder], Iterable[Any]], /) -> Iterator[Any]:
        """Return the codes of all columns, and the times between dates.

        Parameters
        ----------
        coded : callable
            Returns the codes of a column from its index and coder: arrays, or numbers for one row.

        Yields
        ------
        array, shape (n,), or float
            Codes from `coded`. None of them is kept while the next are made.
        """
        days = dict[str, Any]()
        for k, coder in self._coders:
            column = coder.column
            for part, codes in enumerate(coded(k, coder)):
                if part == 0 and column.kind == "date":
                    days[column.name] = codes
                yield codes
                del codes  # before the next are made
            for other in column.since:  # both are days since their own start
                apart = column.start - self._start_date(other)
                yield days[column.name] - days[other] + apart
            days = {
                name: own for name, own in days.items() if self._last_differences.get(name, k) > k
            }

    @cached_property
    def _last_differences(self) -> dict[str, int]:
        """For each date, the last column that needs the difference from it."""
        return {other: k for k, coder in self._coders for other in coder.column.since}

    def _start_date(self, name: str) -> float:
        return next(column.start for column in self.columns if column.name == name)

    def places(self, given: Frame, /, *, every: bool = False) -> dict[int, int]:
        """Return the frame's column for each used column of the table, or for all."""
        used = [k for k, column in enumerate(self.columns) if every or column.is_used]
        if not (self.named and given.named):
            if len(given.names) != len(self.columns):
                msg = (
                    f"X has {len(given.names)} features, but TableEncoder is expecting "
                    f"{len(self.columns)} features as input"
                )
                raise ValueError(msg)
            if self.named and any(c.name != f"x{k}" for k, c in enumerate(self.columns)):
                # In scikit-learn's words
                warn(
                    "X does not have valid feature names, but the table was fitted with feature "
                    "names: columns must be in the order of the fit"
                )
            return {k: k for k in used}
        index = {name: k for k, name in enumerate(given.names)}
        lacking = [self.columns[k].name for k in used if self.columns[k].name not in index]
        if lacking:
            msg = f"expected columns {listed(lacking)}, which are not in X"
            raise ValueError(msg)
        known = {column.name for column in self.columns}
        new = [name for name in given.names if name not in known]
        if new:
            warn(f"columns that were not in the fit are ignored: {listed(new)}")
        return {k: index[self.columns[k].name] for k in used}

    def describe(self) -> Any:
        """Return a frame with each column's kind, reason, share of missing values, and levels."""
        import pandas as pd

        rows = [(c.name, c.kind, c.reason, c.missing, len(c.levels)) for c in self.columns]
        return pd.DataFrame(rows, columns=["column", "kind", "reason", "missing", "levels"])

    def __str__(self) -> str:
        return self.describe().to_string(index=False)

    def _repr_html_(self) -> str:
        """Return the frame of `describe` as HTML for notebooks."""
        return self.describe().to_html(index=False)

    def lines(self) -> list[str]:
        """Return lines on the kinds of columns, and on dropped ones."""
        kinds = [column.kind for column in self.columns]
        counts = {kind: kinds.count(kind) for kind in KINDS if kind in kinds}
        lines = [", ".join(f"{count} {kind}" for kind, count in counts.items())]
        left = [c for c in self.columns if not c.is_used]
        return lines + [f"{c.name} is dropped: {c.reason}" for c in left]

    of = OldName("learn")
    described = OldName("describe")


def _check_container(X: Any) -> None:
    """Raise an error for unsupported containers."""
    check_in_memory(X)
    check_no_series(X)
    check_container("X", X)


def _check_kinds(declared: dict[str, str], given: Frame) -> None:
    unknown = [name for name in declared if name not in given.names]
    if unknown:
        known = listed(given.names)
        msg = f"expected columns= to name columns of the table, got {unknown[0]!r}: it has {known}"
        raise ValueError(msg)
    for name, kind in declared.items():
        if kind not in DECLARABLE_KINDS:
            msg = f"expected a kind among {', '.join(DECLARABLE_KINDS)} for {name!r}, got {kind!r}"
            raise ValueError(msg)
