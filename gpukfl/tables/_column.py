"""The kind of a column, and its columns of codes."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from gpukfl.core._lazy import OldName

KINDS = (
    "numeric",
    "code",
    "ordered",
    "category",
    "boolean",
    "date",
    "duration",
    "text",
    "identifier",
    "constant",
    "empty",
    "duplicate",
)
DROPPED_KINDS = ("identifier", "constant", "empty", "duplicate")
LEVEL_KINDS = ("category", "code")  # later rows may have new levels
DECLARABLE_KINDS = KINDS[:9]  # kinds that `columns` may give
DECLARED = "as told"  # reason of a column whose kind `columns` gives; saved in files
AS_TEXT = ", written as text"  # in the reason of numbers and dates read from text


@dataclass(frozen=True)
class TupleFields:
    """A frozen value that converts lists to tuples."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, list):
                object.__setattr__(self, one.name, tuple(value))


@dataclass(frozen=True)
class Column(TupleFields):
    """A column of a table: its kind, and what was learned about it.

    Attributes
    ----------
    name : str
        As in the frame.
    kind : str
        One of `KINDS`.
    reason : str
        Why, in a few words.
    levels : tuple of str
        Of categories and codes, most frequent first; of ordered columns in their order.
    missing : float
        Share of the rows that have no value.
    rare : float
        Of categories and codes: share of the values that no other row has. So many of the values of
        later rows are levels that are new, about (Good and Turing).
    parts : tuple of str
        Of a date: what of it varies.
    start : float
        Of a date: the first one, in days since 1970.
    day_first : bool, optional
        Of a date in text: whether days stand before months. None where the rows of the fit do not
        say, so that those that are read later do.
    zone : str
        Of a date: the time zone of its local times; "" where the rows of the fit do not say.
    since : tuple of str
        Of a date: other dates of the row, from which the time is taken too.
    unit : str
        Of numbers in text: the currency or unit that they are written with.
    decimal : str
        Of numbers in text: their decimal mark, a point or a comma.
    components : array, shape (k, n_hashes), or None
        Of text: directions among its hashed words.
    """

    name: str
    kind: str
    reason: str
    levels: tuple[str, ...] = ()
    missing: float = 0.0
    rare: float = 0.0
    parts: tuple[str, ...] = ()
    start: float = 0.0
    day_first: bool | None = None
    zone: str = ""
    since: tuple[str, ...] = ()
    unit: str = ""
    decimal: str = "."
    components: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kind not in KINDS:
            msg = f"expected a kind of column among {', '.join(KINDS)}, got {self.kind!r}"
            raise ValueError(msg)

    @property
    def is_used(self) -> bool:
        """Whether the column is used."""
        return self.kind not in DROPPED_KINDS

    used = OldName("is_used")


@dataclass(frozen=True)
class Coded(TupleFields):
    """A column of codes, made of a column of the table.

    Attributes
    ----------
    name : str
        The table's column, and which part of it.
    source : int
        Index among the table's columns.
    levels : int
        0 of a number; else codes are 0, ..., levels - 1, and `levels` itself is another level.
    period : float
        Of a number that goes round, such as hours: after how much; else 0.
    gaps : bool
        Whether an indicator of missing values belongs to it.
    labels : tuple of str
        Names of the levels, where they are few.
    """

    name: str
    source: int
    levels: int = 0
    period: float = 0.0
    gaps: bool = False
    labels: tuple[str, ...] = ()
