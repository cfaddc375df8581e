"""Values of fitted attributes of a blend."""

from __future__ import annotations

import itertools
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
        Name in the leaderboard.
    weight : float
        Weight in the blend.
    models : list of estimators
        A model of each fold and perhaps one that was refitted to all rows, or only that one. The
        member predicts their mean.
    residuals : array, shape (q, t), or None
        Quantiles of held-out residuals, if targets are transformed.
    sees : str
        How models see the rows of a table: as numbers, as codes with missing values, or with
        levels.
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
        Held-out rows, of the library of the data; for a table its codes, with missing values.
    predicted : host array, shape (m, t)
        Predictions, or the probabilities of all classes.
    truth : host array, shape (m, t)
        Targets, or indicators of the classes.
    weights : host array, shape (m,)
        Weights of the rows.
    fold : host array of int, shape (m,)
        Number of the fold that holds out the row, and of the models that have not seen it.
    is_complete : bool
        False if a file left out the rows; then each fold has one row of medians.
    groups : host array of int, shape (m,), or None
        Group of each row, if groups are known.
    """

    rows: Annotated[Array, Floats("n_kept", "n_columns", any_value=True)]
    predicted: Annotated[np.ndarray, Doubles("n_kept", "n_outputs", any_value=True)]
    truth: Annotated[np.ndarray, Doubles("n_kept", "n_outputs")]
    weights: Annotated[np.ndarray, Doubles("n_kept")]
    fold: Annotated[np.ndarray, Integers("n_kept")]
    is_complete: bool = True
    groups: Annotated[np.ndarray, Integers("n_kept")] | None = None

    def without_rows(self, *, has_gaps: bool) -> OutOfFold:
        """Return one row a fold: of missing values if rows may have them, else of medians."""
        n, (t, d) = self.n_folds, (self.truth.shape[1], self.rows.shape[1])
        row = np.full(d, np.nan) if has_gaps else weighted_medians(self.rows, self.weights)
        rows = np.tile(row, (n, 1)).astype(to_host(self.rows).dtype)
        fold = np.arange(n, dtype=self.fold.dtype)
        return OutOfFold(rows, np.zeros((n, t)), np.zeros((n, t)), np.ones(n), fold, False)

    @property
    def rows_by_fold(self) -> list[Array]:
        """The held-out rows of each fold."""
        ends = [0, *np.cumsum(np.bincount(self.fold)).tolist()]
        return [self.rows[start:stop, :] for start, stop in itertools.pairwise(ends)]

    @property
    def n_folds(self) -> int:
        """The number of folds."""
        return int(self.fold.max()) + 1


class LeaderboardRow(Tried):
    """A row of the leaderboard, as plain values."""

    member: str
    weight: float
    log_loss: Annotated[float, AnyValue()] | None
    brier: Annotated[float, AnyValue()] | None
    note: str


class MetricScore(TypedDict):
    """The metric of the fit for a row of the leaderboard."""

    member: str
    value: Annotated[float, AnyValue()] | None
    error: Annotated[float, AnyValue()]


@dataclass(frozen=True)
class ImportanceBasis:
    """The loss that importances are shares of, and the rows that they come from.

    Attributes
    ----------
    total : float
        Sum over groups of columns of the score that shuffling them loses.
    n_rows, n_held_out : int
        Number of shuffled rows, and of all held-out rows.
    by_groups : bool
        Whether standard errors are over groups of rows.
    """

    total: float
    n_rows: Annotated[int, Count()]
    n_held_out: Annotated[int, Count()]
    by_groups: bool


@dataclass(frozen=True, eq=False)
class PendingImportances:
    """What importances need in addition to the held-out rows, until they are computed.

    Attributes
    ----------
    state : object
        State of the random numbers at the beginning of the fit.
    scale : host array, shape (t,), or None
        Units of the targets' errors; None for classes.
    max_time : float or None
        Time limit of the fit in seconds, which importances have too.
    """

    state: Any
    scale: np.ndarray | None
    max_time: float | None
