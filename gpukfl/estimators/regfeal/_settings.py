"""The parameters of RegFeaL, as frozen values, and what may be retrained."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import has_fit_parameter

from gpukfl.methods import DegreeLaw, RegFeaL, Reweighting, derivative_weights

LEAST = 1e-3  # least weight of a direction that is kept
FAR = 6.0  # limit of features in standard deviations, as Hermite polynomials grow fast


def farthest(clip: Any, /) -> float | None:
    """Return the clipping limit of features, in standard deviations."""
    return FAR if clip == "auto" else clip


@dataclass(frozen=True)
class Coordinates:
    """The coordinates to retrain on: leading directions, or all with weights.

    Weights reduce the influence of unimportant directions.
    """

    number: int | None = None  # of leading directions, at least 1; None: all
    power: float = 0.0  # of the squared derivatives, as weights

    def directions(self, R: np.ndarray, eta: np.ndarray, exponent: float) -> np.ndarray:
        """Return the rows (s, d) of the projection, for host R (d, d) and η (d,)."""
        if self.number is not None:  # R is orthogonal: its columns are the directions
            return R.T[np.argsort(-eta, kind="stable")[: self.number]]
        weights = derivative_weights(eta, exponent, self.power)
        return (R * weights).T[weights >= LEAST]

    @property
    def text(self) -> str:
        """The coordinates in words."""
        if self.number is None:
            return f"directions, weighted to the power {self.power:g}"
        return f"{self.number} direction" + ("" if self.number == 1 else "s")


@dataclass(frozen=True)
class RegFeaLSetting:
    """Law of the degrees, μ, and coordinates to retrain on, or None."""

    law: DegreeLaw
    strength: float
    way: Coordinates | None = None


@dataclass(frozen=True)
class RegFeaLSettings:
    """The parameters of the estimators."""

    n_random_features: int  # tuples of degrees in each iteration
    rotate: bool  # whether directions are learned, not variables selected
    law: DegreeLaw | None  # None: to be chosen
    strength: float | None  # μ; None: to be chosen
    ridge: float
    reweighting: Reweighting
    retrain: Any  # model on the directions: "kernel_ridge", None or a regressor
    clip: float | str | None  # limit of features
    scaling: str | None

    @property
    def is_open(self) -> bool:
        """Whether law or μ are to be chosen."""
        return self.law is None or self.strength is None

    def make_method(self, setting: RegFeaLSetting, /) -> RegFeaL:
        """Return the method at a setting."""
        by = self.reweighting
        return RegFeaL(
            self.n_random_features,
            setting.law,
            setting.strength,
            self.ridge,
            exponent=by.exponent,
            rotate=self.rotate,
            over_c=by.over_c,
            n_iter=by.n_iter,
        )


def check_retrain(value: Any, /) -> None:
    """Raise ValueError unless the regressor can be retrained."""
    named = isinstance(value, str) and value == "kernel_ridge"
    if not (value is None or named or (isinstance(value, BaseEstimator) and is_regressor(value))):
        msg = f"expected retrain to be 'kernel_ridge', None or a regressor, got {value!r}"
        raise ValueError(msg)


def check_retrain_in_parts(value: Any, /) -> None:
    """Raise ValueError if the regressor to retrain needs all rows in one place."""
    if not (value is None or isinstance(value, str)):
        msg = (
            "expected retrain to be 'kernel_ridge' or None for partitioned data, got "
            f"{type(value).__name__}, which needs all rows in memory"
        )
        raise ValueError(msg)


def check_retrain_weights(value: Any, /) -> None:
    """Raise ValueError if the regressor to retrain takes no weights."""
    own = value is None or isinstance(value, str)
    if not own and not has_fit_parameter(value, "sample_weight"):
        msg = (
            f"expected a regressor that takes sample_weight for retrain, got {type(value).__name__}"
        )
        raise ValueError(msg)
