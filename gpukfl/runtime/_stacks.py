"""Models of one sort, of all folds and members of a blend, as one function of rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np

from gpukfl.prediction import LinearValues, Served, proba
from gpukfl.runtime._views import Place, View, Views


class Stack(Protocol):
    """Models of one sort, side by side."""

    @staticmethod
    def sort_of(model: Served, place: Place, /) -> Hashable:
        """Return what models of one stack have in common; None of others."""

    @classmethod
    def of(cls, models: Sequence[Served], places: Sequence[Place], views: Views, /) -> Self:
        """Stack models of one sort."""

    @property
    def width(self) -> int:
        """Elements that a row needs."""

    def __call__(self, view: View, /) -> np.ndarray:
        """Predictions (M, n, t) by the models, or probabilities."""


@dataclass(frozen=True, eq=False)
class LinearStack:
    """Linear models of standardised rows, whose scales are in the coefficients."""

    folds: np.ndarray  # (M,)
    mean: np.ndarray  # (M, d)
    coef: np.ndarray  # (M, d, t)
    intercept: np.ndarray  # (M, 1, t)
    sees: str
    classes: bool

    @staticmethod
    def sort_of(model: Served, place: Place, /) -> Hashable:
        """Return what they have in common."""
        values = model.values
        if not isinstance(values, LinearValues):
            return None
        return place.sees, values.classes, values.coef.shape

    @classmethod
    def of(cls, models: Sequence[Served], places: Sequence[Place], views: Views, /) -> Self:
        """Stack models of one sort."""
        parts: Any = [model.values for model in models]
        return cls(
            folds=np.array([views.fold_of(place) for place in places]),
            mean=np.stack([one.mean for one in parts]),
            coef=np.stack([one.coef / one.scale[:, None] for one in parts]),
            intercept=np.stack([one.intercept[None] for one in parts]),
            sees=places[0].sees,
            classes=parts[0].classes,
        )

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return self.mean.size

    def __call__(self, view: View, /) -> np.ndarray:
        """Evaluate all."""
        X = view.rows(self.sees).take(self.folds, axis=1)
        raw = (X - self.mean).transpose(1, 0, 2) @ self.coef + self.intercept
        return np.asarray(proba(raw, self.coef.shape[2])) if self.classes else raw
