"""Rows as the models of a blend see them: encoded by each fold, and scaled."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import NamedTuple

import numpy as np

from gpukfl.estimators.scaling import ColumnScaling
from gpukfl.runtime._encodings import FoldEncodings
from gpukfl.tables._seen import CODES, LEVELS


class Place(NamedTuple):
    """Where a model stands in a blend."""

    fold: int
    sees: str  # how it sees the rows of a table


class Scalings:
    """Scalings of one view of rows, each of a fold, which models note at first."""

    def __init__(self) -> None:
        self._known: list[tuple[int, ColumnScaling | None]] = []

    def place_of(self, scaling: ColumnScaling | None, fold: int, /) -> int:
        """Note a scaling of a fold, unless there is an equal one; where its rows will be."""
        for k, (other_fold, other) in enumerate(self._known):
            if fold == other_fold and _are_equal(scaling, other):
                return k
        self._known.append((fold, scaling))
        return len(self._known) - 1

    def __call__(self, X: np.ndarray, /) -> np.ndarray:
        """Rows (n, s, d) by all scalings, of those (n, F, d) of folds."""
        parts = [_scaled(X.take(folds, axis=1), scaling) for folds, scaling in self._by_class]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate(parts, axis=1).take(self._order, axis=1)

    @cached_property
    def _classes(self) -> dict[type, list[int]]:
        """Numbers of the scalings of each class, which work on rows side by side."""
        found: dict[type, list[int]] = {}
        for k, (_, scaling) in enumerate(self._known):
            found.setdefault(type(scaling), []).append(k)
        return found

    @cached_property
    def _by_class(self) -> list[tuple[np.ndarray, ColumnScaling | None]]:
        """Folds of the rows that each class scales, and its scalings as one."""
        made = []
        for some in self._classes.values():
            parts = [one for _, one in (self._known[k] for k in some) if one is not None]
            folds = np.array([self._known[k][0] for k in some])
            made.append((folds, parts[0].joined(parts) if parts else None))
        return made

    @cached_property
    def _order(self) -> np.ndarray:
        """Where each scaling is among those by class."""
        return np.argsort(np.concatenate(list(self._classes.values())))


class Views:
    """What makes the views of rows."""

    def __init__(self, n_features: int, encodings: FoldEncodings | None) -> None:
        self._n_features, self.encodings = n_features, encodings
        self.scalings: defaultdict[str, Scalings] = defaultdict(Scalings)  # by view

    def shape(self, view: str, /) -> tuple[int, int]:
        """Return the numbers of folds that differ, and of columns."""
        if self.encodings is None:
            return 1, self._n_features
        return self.encodings.shapes[view]

    def fold_of(self, place: Place, /) -> int:
        """Return the number of a model's fold, 0 where folds do not differ."""
        return place.fold if self.shape(place.sees)[0] > 1 else 0

    def place_of(self, scaling: ColumnScaling | None, place: Place, /) -> int:
        """Return where rows will be among all that are scaled for models that see them so."""
        return self.scalings[place.sees].place_of(scaling, self.fold_of(place))


def _scaled(rows: np.ndarray, scaling: ColumnScaling | None) -> np.ndarray:
    if scaling is None:
        return rows
    flat = rows.reshape(len(rows), -1).astype(np.float64, copy=False)
    return np.reshape(np.asarray(scaling(flat)), rows.shape)


def _are_equal(one: ColumnScaling | None, other: ColumnScaling | None) -> bool:
    if one is None or type(one) is not type(other):
        return one is other
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one.fields)


class View:
    """Some rows, as models see them; made when the first one asks and kept for the others."""

    def __init__(self, views: Views, X: np.ndarray) -> None:
        self._views, self._X, self.dtype = views, X, X.dtype
        self._scaled: dict[str, np.ndarray] = {}

    def rows(self, view: str, /) -> np.ndarray:
        """Rows (n, F, d) as models of each fold see them; (n, 1, d) where all agree."""
        if self._views.encodings is None:
            return self._X[:, None]
        if view == CODES:
            return self._with_gaps
        return self._with_levels if view == LEVELS else self._encoded

    @cached_property
    def _encoded(self) -> np.ndarray:
        assert self._views.encodings is not None
        return self._views.encodings.encoded(self._X)

    @cached_property
    def _with_gaps(self) -> np.ndarray:
        assert self._views.encodings is not None
        return self._views.encodings.with_gaps(self._X, lambda: self._encoded)

    @cached_property
    def _with_levels(self) -> np.ndarray:
        assert self._views.encodings is not None
        return self._views.encodings.with_levels(self._X, self._encoded)

    def scaled(self, view: str, /) -> np.ndarray:
        """Rows (n, s, d) by all scalings of a view: see `Views.place_of`."""
        if view not in self._scaled:
            self._scaled[view] = self._views.scalings[view](self.rows(view))
        return self._scaled[view]
