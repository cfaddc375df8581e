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
    """A column of a table: its kind, and facts learned from its values.

    Attributes
    ----------
    name : str
        Name of the column in the frame.
    kind : str
        One of `KINDS`.
    reason : str
        Reason for the kind, in a few words.
    levels : tuple of str
        Levels of a category or code, most frequent first. An ordered column keeps its own order.
    missing : float
        Share of the rows that have no value.
    rare : float
        For a category or code, the share of the values that occur in one row only. About the same
        share of later values are new levels (Good and Turing).
    parts : tuple of str
        Parts of a date that vary.
    start : float
        First date of the column, in days since 1970.
    day_first : bool, optional
        Whether days stand before months, for dates in text. None if the rows of the fit do not
        decide it; the order is then read from later rows.
    zone : str
        Time zone of the local times of a date; "" if the rows of the fit do not give it.
    since : tuple of str
        Other date columns. The time between each of these and this date is used too.
    unit : str
        Currency or unit of numbers in text.
    decimal : str
        Decimal mark of numbers in text, a point or a comma.
    components : array, shape (k, n_hashes), or None
        For text, directions among its hashed words.
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
    """A column of codes, made from a column of the table.

    Attributes
    ----------
    name : str
        Name of the table's column, and of the part of it that is coded.
    source : int
        Index of the table's column.
    levels : int
        Number of levels, 0 for a number. Codes are 0, ..., levels - 1; `levels` itself codes a new
        level.
    period : float
        Period of a cyclic number, such as 24 for hours; 0 for any other number.
    gaps : bool
        Whether the column has an indicator of missing values.
    labels : tuple of str
        Names of the levels, if they are few.
    """

    name: str
    source: int
    levels: int = 0
    period: float = 0.0
    gaps: bool = False
    labels: tuple[str, ...] = ()
