"""Boosted trees of several models, all walked at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from gpukfl.prediction import Forest, Served, proba
from gpukfl.runtime._blocks import near_blocks
from gpukfl.runtime._views import Place, View, Views


@dataclass(frozen=True, eq=False)
class ForestStack:
    """Forests without categories, as one of the rows that all models see."""

    forest: Forest  # of the outputs of all models
    n_outputs: int  # of each
    sees: str
    link: str

    @staticmethod
    def sort_of(model: Served, place: Place, /) -> Hashable:
        """Return what models of one forest have in common; None of others."""
        values = model.values
        if not isinstance(values, Forest) or len(values.subsets):
            return None
        return place.sees, values.link, len(values.baseline)

    @classmethod
    def of(cls, models: Sequence[Served], places: Sequence[Place], views: Views, /) -> Self:
        """Join models of one sort."""
        forests = [model.values for model in models if isinstance(model.values, Forest)]
        n_folds, d = views.shape(places[0].sees)
        if any(one.n_features != d for one in forests):
            msg = f"expected trees of {d} columns, got {[one.n_features for one in forests]}"
            raise ValueError(msg)
        first = [d * views.fold_of(place) for place in places]
        joined = Forest.joined(forests, first, n_folds * d)
        return cls(joined, len(forests[0].baseline), places[0].sees, joined.link)

    @property
    def width(self) -> int:
        """Elements that a row needs."""
        return len(self.forest.baseline)

    def __call__(self, view: View, /) -> np.ndarray:
        """Values (M, n, t), or probabilities."""
        X = view.rows(self.sees)
        X = X.reshape(len(X), -1)
        blocks = near_blocks(len(X), len(self.forest.trees))
        sums = np.concatenate([self.forest.sums(X[rows]) for rows in blocks])
        raw = sums.reshape(len(X), -1, self.n_outputs).transpose(1, 0, 2)
        if self.link == "log":
            return np.exp(raw)
        return np.asarray(proba(raw, self.n_outputs)) if self.link == "probabilities" else raw
