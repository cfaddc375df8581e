"""Rows as the models of a blend see them: encoded by each fold, and scaled."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpukfl.estimators.scaling import ColumnScaling
from gpukfl.runtime._encodings import FoldEncodings


class Place(NamedTuple):
    """Where a model stands in a blend."""

    fold: int
    codes: bool  # whether it takes codes with gaps, where other models take encoded rows


class Views:
    """What makes the views of rows, of which models note at first what they need."""

    def __init__(self, n_features: int, encodings: FoldEncodings | None) -> None:
        self._n_features, self.encodings = n_features, encodings
        self._known: dict[type, list[tuple[int, ColumnScaling | None]]] = {}
        self._joined: dict[type, tuple[np.ndarray, ColumnScaling | None]] = {}

    def shape(self, *, codes: bool) -> tuple[int, int]:
        """Give the numbers of folds that differ, and of columns."""
        if self.encodings is None:
            return 1, self._n_features
        return self.encodings.shape_with_gaps if codes else self.encodings.shape

    def fold_of(self, place: Place, /) -> int:
        """Give the number of a model's fold, 0 where folds do not differ."""
        return place.fold if self.shape(codes=place.codes)[0] > 1 else 0

    def place_of(self, scaling: ColumnScaling | None, fold: int, /) -> int:
        """Note a scaling of a fold, unless there is an equal one; where its rows will be."""
        known = self._known.setdefault(type(scaling), [])
        for k, (other_fold, other) in enumerate(known):
            if fold == other_fold and _are_equal(scaling, other):
                return k
        known.append((fold, scaling))
        return len(known) - 1

    def scaled(self, X: np.ndarray, kind: type, /) -> np.ndarray:
        """Rows (n, s, d) by all scalings of a class at once, of those (n, F, d) of folds."""
        if kind not in self._joined:
            known = self._known[kind]
            parts = [scaling for _, scaling in known if scaling is not None]
            folds = np.array([fold for fold, _ in known])
            self._joined[kind] = folds, parts[0].joined(parts) if parts else None
        folds, scaling = self._joined[kind]
        rows = X.take(folds, axis=1)
        if scaling is None:
            return rows
        flat = rows.reshape(len(rows), -1).astype(np.float64, copy=False)
        return np.reshape(np.asarray(scaling(flat)), rows.shape)


def _are_equal(one: ColumnScaling | None, other: ColumnScaling | None) -> bool:
    if one is None or other is None:
        return one is other
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one.fields)


class View:
    """Some rows, as models see them; made when the first one asks and kept for the others."""

    def __init__(self, views: Views, X: np.ndarray) -> None:
        self._views, self._X, self.dtype = views, X, X.dtype
        self._scaled: dict[type, np.ndarray] = {}

    def rows(self, *, codes: bool) -> np.ndarray:
        """Rows (n, F, d): encoded by folds, or as codes with gaps; (n, 1, d) where all agree."""
        if self._views.encodings is None:
            return self._X[:, None]
        return self._with_gaps if codes else self._encoded

    @cached_property
    def _encoded(self) -> np.ndarray:
        assert self._views.encodings is not None
        return self._views.encodings.encoded(self._X)

    @cached_property
    def _with_gaps(self) -> np.ndarray:
        assert self._views.encodings is not None
        return self._views.encodings.with_gaps(self._X, lambda: self._encoded)

    def scaled(self, kind: type, /) -> np.ndarray:
        """Rows (n, s, d) by the scalings of a class: see `Views.place_of`."""
        if kind not in self._scaled:
            self._scaled[kind] = self._views.scaled(self.rows(codes=False), kind)
        return self._scaled[kind]
