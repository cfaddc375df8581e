"""Fitted attributes of a portfolio."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpukfl.core._array import Array
from gpukfl.estimators._declared import (
    DOUBLE,
    FLOAT,
    Bool,
    Declared,
    Fields,
    Int,
    Items,
    Number,
    Numbers,
    Record,
    Text,
)
from gpukfl.portfolio._encodings import Encodings
from gpukfl.portfolio._sets import ClassScores
from gpukfl.portfolio._uncertainty import Residuals, Spread, Uncertainty
from gpukfl.predictor import TargetTransform
from gpukfl.tables._reader import TABLE_VALUES
from gpukfl.tables._seen import NUMBERS, VIEWS


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
    """

    rows: Array
    predicted: np.ndarray
    truth: np.ndarray
    weights: np.ndarray
    fold: np.ndarray

    @property
    def n_folds(self) -> int:
        """The number of folds."""
        return int(self.fold.max()) + 1


VALUES = (  # that hold arrays
    *(Blended, OutOfFold, Uncertainty, Residuals, Spread, ClassScores),
    *(Encodings, *TABLE_VALUES),
)
TRIED: dict[str, Declared] = {
    "member": Text(),
    "weight": Number(),
    "log_loss": Number(any_value=True, optional=True),
    "brier": Number(any_value=True, optional=True),
    "note": Text(),
}
ATTRIBUTES: dict[str, Declared] = {
    "members_": Items(
        Record(
            Blended,
            {
                "name": Text(),
                "weight": Number(),
                "models": Items(Record(object)),
                "residuals": Numbers(DOUBLE, ("n_quantiles", "n_targets"), optional=True),
                "sees": Text(VIEWS),
            },
        )
    ),
    "out_of_fold_": Record(
        OutOfFold,
        {
            "rows": Numbers(FLOAT, ("n_judges", "n_columns")),
            "predicted": Numbers(DOUBLE, ("n_judges", "n_outputs")),
            "truth": Numbers(DOUBLE, ("n_judges", "n_outputs")),
            "weights": Numbers(DOUBLE, ("n_judges",)),
            "fold": Numbers("i", ("n_judges",)),
        },
    ),
    "feature_importances_": Numbers(DOUBLE, ("n_features",)),
    "feature_groups_": Items(Items(Int())),
    "intercept_": Numbers(DOUBLE, ("n_targets",)),
    "floor_": Number(),
    "reach_": Numbers(DOUBLE, (2, "n_targets"), optional=True),
    "temperature_": Number(),
    "whole_": Bool(),
    "target_transform_": Record(TargetTransform, optional=True),
    "encodings_": Fields(Encodings, optional=True),
}
