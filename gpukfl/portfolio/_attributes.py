"""Fitted attributes of a portfolio."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

import numpy as np

from gpukfl.core._annotations import AnyValue, Count, Doubles, Floats, Integers
from gpukfl.core._array import Array, to_host
from gpukfl.estimators._fitted import Tried
from gpukfl.predictor import weighted_medians
from gpukfl.tables._seen import NUMBERS


@dataclass(frozen=True, eq=False)
class Blended:
    """A member of the blend.

    Attributes
    ----------
    name : str
        As in the leaderboard.
    weight : float
        Share of the prediction.
    models : list of estimators
        One for each fold, whose mean the member predicts, and then one that was fitted to all rows,
        where there is such a one; or that one alone.
    residuals : array, shape (q, t), or None
        Quantiles of what its predictions of rows that were held out were short of, where targets
        are transformed.
    sees : str
        How its models see the rows of a table: as numbers, as codes with gaps, or with levels.
    """

    name: str
    weight: float
    models: list[Any] = field(default_factory=list)
    residuals: Array | None = None
    sees: str = NUMBERS


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Out-of-fold predictions of the blend.

    Attributes
    ----------
    rows : array, shape (m, d)
        The rows, of the library of the data; of a table its codes, with gaps.
    predicted : host array, shape (m, t)
        Predictions; of classes the probabilities of all of them.
    truth : host array, shape (m, t)
        Targets, or indicators of the classes.
    weights : host array, shape (m,)
        Of the rows.
    fold : host array of int, shape (m,)
        The fold that holds each row out: the number of the models that have not seen it.
    is_complete : bool
        False where a file left the rows out; then each fold has one row of medians.
    groups : host array of int, shape (m,), or None
        The group of each row, where groups are known.
    """

    rows: Annotated[Array, Floats("n_kept", "n_columns", any_value=True)]
    predicted: Annotated[np.ndarray, Doubles("n_kept", "n_outputs", any_value=True)]
    truth: Annotated[np.ndarray, Doubles("n_kept", "n_outputs")]
    weights: Annotated[np.ndarray, Doubles("n_kept")]
    fold: Annotated[np.ndarray, Integers("n_kept")]
    is_complete: bool = True
    groups: Annotated[np.ndarray, Integers("n_kept")] | None = None

    def without_rows(self, *, has_gaps: bool) -> OutOfFold:
        """Return one row a fold, of medians, or of gaps where rows may have them."""
        n, (t, d) = self.n_folds, (self.truth.shape[1], self.rows.shape[1])
        row = np.full(d, np.nan) if has_gaps else weighted_medians(self.rows, self.weights)
        rows = np.tile(row, (n, 1)).astype(to_host(self.rows).dtype)
        fold = np.arange(n, dtype=self.fold.dtype)
        return OutOfFold(rows, np.zeros((n, t)), np.zeros((n, t)), np.ones(n), fold, False)

    @property
    def n_folds(self) -> int:
        """The number of folds."""
        return int(self.fold.max()) + 1


class MemberTried(Tried):
    """A member of the leaderboard."""

    member: str
    weight: float
    log_loss: Annotated[float, AnyValue()] | None
    brier: Annotated[float, AnyValue()] | None
    note: str


class MetricTried(TypedDict):
    """What a member of the leaderboard came to by the metric of the fit."""

    member: str
    value: Annotated[float, AnyValue()] | None
    error: Annotated[float, AnyValue()]


@dataclass(frozen=True)
class ImportanceBasis:
    """What importances are shares of, and which rows they are of.

    Attributes
    ----------
    total : float
        The sum of what shuffling each group of columns takes from the score.
    n_rows, n_held_out : int
        Rows that were shuffled, and rows that were held out.
    by_groups : bool
        Whether errors are those of groups of rows.
    """

    total: float
    n_rows: Annotated[int, Count()]
    n_held_out: Annotated[int, Count()]
    by_groups: bool


@dataclass(frozen=True, eq=False)
class LaterImportances:
    """What importances need, beside the rows, that are computed at their first look.

    Attributes
    ----------
    state : object
        Of the random numbers at the beginning of the fit.
    scale : host array, shape (t,), or None
        Units of the targets' errors; None of classes.
    max_time : float or None
        Seconds that they may take: those of the fit.
    """

    state: Any
    scale: np.ndarray | None
    max_time: float | None
