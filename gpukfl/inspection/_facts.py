"""What the data of a fit were: columns, gaps and the target."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ColumnFacts:
    """What is known of a column.

    Attributes
    ----------
    name : str
        As in the data.
    kind : str
        What it was taken for.
    gaps : float
        Share of the rows that have no value.
    said : str
        Its values, in a few words.
    """

    name: str
    kind: str
    gaps: float = 0.0
    said: str = ""


@dataclass(frozen=True)
class DataFacts:
    """What is known of the data of a fit.

    Attributes
    ----------
    columns : tuple of ColumnFacts
        The first columns; more are only counted.
    n_columns : int
        Of all.
    target : str
        What the target's values are, in words.
    """

    columns: tuple[ColumnFacts, ...]
    n_columns: int
    target: str = ""
