"""How a model does beside others on the same rows."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Compared:
    """What one model scores.

    Attributes
    ----------
    name : str
        Which model.
    score : float
        On rows that it has not seen.
    error : float, optional
        Standard error of the score, as the rows are a sample.
    more : dict of str: float
        Further measures, by name.
    own : bool
        Whether it is the model that is described.
    """

    name: str
    score: float
    error: float | None = None
    more: dict[str, float] = field(default_factory=dict)
    own: bool = False


@dataclass(frozen=True)
class Comparison:
    """Models on the same rows, of which one is described.

    Attributes
    ----------
    rows : tuple of Compared
        A model each.
    score : str
        What the score is; 0 is a model that says the same of every row.
    remarks : tuple of str
        What is to be known of it, in sentences.
    n_rows : int, optional
        On how many rows.
    """

    rows: tuple[Compared, ...]
    score: str
    remarks: tuple[str, ...] = ()
    n_rows: int | None = None
